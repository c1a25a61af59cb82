%% Names and groups of processes as JSON, for the HTTP port.
%%
%%     /names, /groups        the scopes
%%     /names/SCOPE           names, a page at a time; with `name', one
%%     /groups/SCOPE          groups; with `group', the members of one
-module(todana_name_pages).
-moduledoc false.

-export([page/2]).

-export_type([kind/0, answer/0]).

-type kind() :: names | groups.
-type query() :: [{binary(), binary() | true}].
-type answer() ::
    {200, json:encode_value()} | {400 | 404 | 503, Sentence :: binary()}.

-define(COUNT, 100).
-define(COUNT_MAX, 1_000).

-doc """
The answer to a request: the kind, with the scope of its path if that has one,
and the words behind the question mark.
""".
-spec page(kind() | {kind(), Scope :: binary()}, query()) -> answer().
page({names, Scope}, Query) -> scope(names, Scope, Query);
page({groups, Scope}, Query) -> scope(groups, Scope, Query);
page(Kind, []) -> scopes(Kind);
page(_Kind, [{Word, _} | _]) -> unknown(Word).

-spec scopes(kind()) -> answer().
scopes(Kind) ->
    case todana_scope_reads:scopes() of
        {ok, Scopes} ->
            {200, #{
                scopes => [
                    #{scope => Scope, class => Class}
                 || {Scope, Class} <- Scopes,
                    Kind =:= names orelse Class =:= cluster
                ]
            }};
        Problem ->
            failure(Problem)
    end.

-spec scope(kind(), binary(), query()) -> answer().
scope(Kind, Scope, Query) ->
    maybe
        {ok, Wanted} ?= wanted(Kind, Query, #{}),
        {ok, Page} ?= asked(Wanted),
        case {Kind, Wanted} of
            {names, #{one := Name}} -> one(Scope, Name);
            {groups, #{one := Group}} -> members(Scope, Group, Page);
            {names, _} -> names(Scope, Page);
            {groups, _} -> groups(Scope, Page)
        end
    end.

-spec wanted(kind(), query(), map()) -> {ok, map()} | answer().
wanted(_Kind, [], Wanted) ->
    {ok, Wanted};
wanted(Kind, [{Word, Value} | Query], Wanted) ->
    case meant(Kind, Word, Value) of
        {Key, _} when is_map_key(Key, Wanted) ->
            {400, <<"a request has this once: ", Word/binary>>};
        {400, _} = Bad ->
            Bad;
        {Key, Meant} ->
            wanted(Kind, Query, Wanted#{Key => Meant})
    end.

-spec meant(kind(), binary(), binary() | true) ->
    {one | count | cursor, term()} | answer().
meant(_Kind, Word, true) ->
    {400, <<Word/binary, " has no value">>};
meant(names, ~"name", Text) ->
    {one, Text};
meant(groups, ~"group", Text) ->
    {one, Text};
meant(names, ~"name_etf", Text) ->
    bytes(~"name_etf", Text);
meant(groups, ~"group_etf", Text) ->
    bytes(~"group_etf", Text);
meant(_Kind, ~"cursor", Cursor) ->
    {cursor, Cursor};
meant(_Kind, ~"limit", Text) ->
    try binary_to_integer(Text) of
        Count when Count >= 1, Count =< ?COUNT_MAX -> {count, Count};
        _ -> bad_limit()
    catch
        error:badarg -> bad_limit()
    end;
meant(_Kind, Word, _Value) ->
    unknown(Word).

-spec bad_limit() -> answer().
bad_limit() -> {400, ~"limit must be between 1 and 1000"}.

-spec unknown(binary()) -> answer().
unknown(Word) ->
    {400, <<"this page has no parameter ", Word/binary>>}.

-spec bytes(binary(), binary()) -> {one, binary()} | answer().
bytes(Word, Text) ->
    try base64:decode(Text, #{mode => urlsafe, padding => false}) of
        <<131, _/binary>> = Bytes -> {one, Bytes};
        _ -> {400, <<Word/binary, " is not Erlang's external term format">>}
    catch
        error:_ -> {400, <<Word/binary, " is not base64url">>}
    end.

-spec asked(map()) -> {ok, todana_scope_reads:page()}.
asked(Wanted) ->
    {ok, #{
        cursor => maps:get(cursor, Wanted, start),
        count => maps:get(count, Wanted, ?COUNT)
    }}.

-spec one(binary(), binary()) -> answer().
one(Scope, Name) ->
    case todana_scope_reads:name(Scope, Name) of
        {ok, Named, {Pid, Token, Metadata}} ->
            {200, maps:merge(
                process(Named, Pid, Token), term(metadata, Metadata)
            )};
        none ->
            {404, ~"no process has this name"};
        Problem ->
            failure(Problem)
    end.

-spec names(binary(), todana_scope_reads:page()) -> answer().
names(Scope, Page) ->
    case todana_scope_reads:names(Scope, Page) of
        {ok, Names, Cursor} ->
            {200, #{
                scope => Scope, cursor => cursor(Cursor),
                names => [process(Name, Pid, Token)
                          || {Name, Pid, Token} <- Names]
            }};
        Problem ->
            failure(Problem)
    end.

-spec groups(binary(), todana_scope_reads:page()) -> answer().
groups(Scope, Page) ->
    case todana_scope_reads:groups(Scope, Page) of
        {ok, Groups, Cursor} ->
            {200, #{
                scope => Scope, cursor => cursor(Cursor),
                groups => [named(group, Group) || Group <- Groups]
            }};
        Problem ->
            failure(Problem)
    end.

-spec members(binary(), binary(), todana_scope_reads:page()) -> answer().
members(Scope, Group, Page) ->
    case todana_scope_reads:members(Scope, Group, Page) of
        {ok, Pids, Cursor} ->
            {200, #{
                scope => Scope, cursor => cursor(Cursor),
                members => [process(Pid) || Pid <- Pids]
            }};
        Problem ->
            failure(Problem)
    end.

-spec cursor(binary() | done) -> binary() | null.
cursor(done) -> null;
cursor(Cursor) -> Cursor.

-spec process(todana_scope_reads:named(), pid(), pos_integer() | none) ->
    json:encode_value().
process(Name, Pid, Token) ->
    Named = maps:merge(named(name, Name), process(Pid)),
    case Token of
        none -> Named;
        %% Many readers of JSON keep 53 bits of a number.
        _ -> Named#{token => integer_to_binary(Token)}
    end.

-spec process(pid()) -> #{node | pid => binary()}.
process(Pid) ->
    {Node, Text} = todana_term_text:process(Pid),
    #{node => Node, pid => Text}.

-spec named(name | group, todana_scope_reads:named()) ->
    #{atom() => binary()}.
named(Key, {text, Text}) -> #{Key => Text};
named(Key, {bytes, Shown, Bytes}) -> with_bytes(Key, Shown, Bytes).

-spec term(metadata, term()) -> #{atom() => binary()}.
term(Key, Term) ->
    case todana_term_text:text(Term) of
        {ok, Text} -> #{Key => Text};
        none -> with_bytes(Key, todana_term_text:shown(Term),
                           term_to_binary(Term))
    end.

-spec with_bytes(name | group | metadata, binary(), binary()) ->
    #{atom() => binary()}.
with_bytes(Key, Shown, Bytes) ->
    Etf =
        case Key of
            name -> name_etf;
            group -> group_etf;
            metadata -> metadata_etf
        end,
    Base64 = base64:encode(Bytes, #{mode => urlsafe, padding => false}),
    #{Key => Shown, Etf => Base64}.

-spec failure(todana_scope_reads:problem()) -> answer().
failure({error, Problem}) ->
    Status =
        case Problem of
            no_scope -> 404;
            no_groups -> 404;
            unavailable -> 503;
            loading -> 503;
            {bad, _} -> 400
        end,
    {Status, todana_scope_reads:sentence(Problem)}.
