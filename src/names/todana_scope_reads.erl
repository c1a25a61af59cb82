%% What clients that are no Erlang processes read of names and groups: any
%% cluster scope that the log has, whether it was started on this node or not,
%% and the local scopes of this node. Scopes, names and groups are given as
%% texts (`todana_term_text'); nothing is written.
%%
%% Reads have the level `bounded', as `todana_names:whereis_name/1'. A node that
%% does not know whether its records are as new as that says so, and never that
%% there is no such name.
-module(todana_scope_reads).
-moduledoc false.

-export([scopes/0, name/2, names/2, groups/2, members/3, sentence/1]).

-export_type([problem/0, page/0, named/0, found/0]).

-type scope() :: binary().
-type class() :: cluster | local.
-type cursor() :: binary() | start.
-type page() :: #{cursor := cursor(), count := 1..1000}.
%% A page with the cursor of the next one. It may have fewer items than were
%% asked for, also none, although more follow.
-type paged(Item) :: {ok, [Item], binary() | done}.
%% A name or a group: as text, and in the external format if it has none.
-type named() :: {text, binary()} | {bytes, Shown :: binary(), binary()}.
-type token() :: todana_scope_records:token() | none.
-type found() :: {pid(), token(), Metadata :: term()}.
-type problem() ::
    {error, no_scope | no_groups | unavailable | {bad, Sentence :: binary()}}.
%% Where the records of a scope are.
-type place() ::
    {cluster, todana_scope_records:table()} | {local, ets:table()}.

%% How long a read waits for a leader.
-define(READ_MS, 1_000).
%% A page ends soon after it has this many bytes of names.
-define(PAGE_BYTES, 16#100000).
%% Keys that are read at once.
-define(KEYS, 100).
%% A cursor is as long as a key, in base64.
-define(CURSOR_BYTES, 16#20000).

-doc "All scopes, in the order of their names.".
-spec scopes() -> {ok, [{scope(), class()}]} | problem().
scopes() ->
    case fresh() of
        {error, _} = Failure -> Failure;
        Known -> {ok, merged(Known)}
    end.

%% A name may be that of a local scope here and of a cluster scope elsewhere: at
%% this node, the local one has it.
-spec merged([scope()]) -> [{scope(), class()}].
merged(Known) ->
    Cluster = #{Scope => cluster || Scope <- Known},
    Local = #{
        atom_to_binary(Scope) => local
     || Scope <- todana_name_scopes:all_local()
    },
    lists:sort(maps:to_list(maps:merge(Cluster, Local))).

%% The cluster scopes, by a read of the level `bounded'.
-spec fresh() -> [scope()] | problem().
fresh() ->
    case {log(), here()} of
        {none, _} ->
            [];
        {closed, _} ->
            {error, unavailable};
        {_, {error, _} = Failure} ->
            Failure;
        {_, Known} ->
            case await(Known) of
                ok -> here();
                Failure -> Failure
            end
    end.

-spec log() -> open | read_only | closed | none.
log() ->
    case todana_guest:is_guest() of
        true -> open;
        false -> todana_nif:durable_state()
    end.

%% Tables are created by the log that changes the records of all others.
-spec await([scope()]) -> ok | problem().
await([Scope | _]) ->
    maybe
        {ok, {cluster, Table}} ?= opened(Scope),
        refreshed(Table)
    end;
await([]) ->
    case todana_read:await(db0, bounded, ?READ_MS) of
        ok -> ok;
        {badarg, _, no_such_table} -> ok;
        {badarg, _, _} -> {error, unavailable}
    end.

-spec refreshed(todana_scope_records:table()) -> ok | problem().
refreshed(Table) ->
    case todana_scope_records:refresh(Table, bounded, ?READ_MS) of
        ok -> ok;
        {error, _} -> {error, unavailable}
    end.

-spec place(scope()) -> {ok, place()} | problem().
place(Scope) ->
    case local(Scope, todana_name_scopes:all_local()) of
        {ok, Table} -> {ok, {local, Table}};
        none -> cluster_place(Scope)
    end.

%% The client's bytes become no atom.
-spec local(scope(), [atom()]) -> {ok, ets:table()} | none.
local(Scope, Local) ->
    case [Name || Name <- Local, atom_to_binary(Name) =:= Scope] of
        [Name] ->
            case todana_name_scopes:table(Name) of
                Table when is_reference(Table) -> {ok, Table};
                _ -> none
            end;
        [] ->
            none
    end.

-spec cluster_place(scope()) -> {ok, place()} | problem().
cluster_place(Scope) ->
    maybe
        false ?= is_in(Scope, here()),
        false ?= is_in(Scope, fresh()),
        {error, no_scope}
    else
        true -> opened(Scope);
        Failure -> Failure
    end.

%% As this node knows them.
-spec here() -> [scope()] | problem().
here() ->
    case log() of
        none ->
            [];
        _ ->
            case todana_scope_records:known() of
                {error, _} -> {error, unavailable};
                Known -> Known
            end
    end.

-spec is_in(scope(), [scope()] | problem()) -> boolean() | problem().
is_in(Scope, Known) when is_list(Known) -> lists:member(Scope, Known);
is_in(_Scope, Failure) -> Failure.

%% The log has a table of this name, so there are few of these atoms.
-spec opened(scope()) -> {ok, place()} | problem().
opened(Scope) ->
    Table = todana_scope_records:table(binary_to_atom(Scope)),
    case todana_scope_records:open_known(Table) of
        ok -> {ok, {cluster, Table}};
        {error, _} -> {error, unavailable}
    end.

-doc "The process that has a name.".
-spec name(scope(), binary()) -> {ok, named(), found()} | none | problem().
name(Scope, Text) ->
    with_key(Text, fun(Key) ->
        in(Scope, fun
            ({cluster, Table}) ->
                maybe
                    ok ?= refreshed(Table),
                    {ok, Found} ?= record(Table, Key),
                    {ok, named(Key), Found}
                end;
            ({local, Table}) ->
                maybe
                    {ok, Name} ?= known_term(Key),
                    {ok, Pid, Metadata} ?=
                        todana_local_names:lookup(Table, Name),
                    {ok, named(Key), {Pid, none, Metadata}}
                else
                    _ -> none
                end
        end)
    end).

-spec with_key(binary(), fun((binary()) -> Result)) -> Result | problem().
with_key(Text, Work) ->
    case todana_term_text:key(Text) of
        {ok, Key} -> Work(Key);
        {error, Sentence} -> {error, {bad, Sentence}}
    end.

%% The ETS table of a local scope may be deleted meanwhile.
-spec in(scope(), fun((place()) -> Result)) -> Result | problem().
in(Scope, Work) ->
    case place(Scope) of
        {ok, {local, Table} = Place} ->
            try
                Work(Place)
            catch
                error:badarg ->
                    ets:info(Table, size) =:= undefined orelse error(badarg),
                    {error, no_scope}
            end;
        {ok, Place} ->
            Work(Place);
        Problem ->
            Problem
    end.

%% A term whose atoms this node does not know is no name of this node.
-spec known_term(binary()) -> {ok, term()} | none.
known_term(Key) ->
    try
        {ok, binary_to_term(Key, [safe])}
    catch
        error:badarg -> none
    end.

-spec record(todana_scope_records:table(), binary()) ->
    {ok, found()} | none | problem().
record(Table, Key) ->
    NameKey = todana_scope_records:name_key_of(Key),
    case todana_scope_records:read(Table, NameKey) of
        {ok, {Pid, _Ref, _Origin, Metadata}, _State} = Record ->
            case todana_watchers:has_ended(Pid) of
                true -> none;
                false ->
                    Token = todana_scope_records:token(Record),
                    {ok, {Pid, Token, Metadata}}
            end;
        {none, _State} ->
            none;
        %% No record has so long a key.
        {error, too_large} ->
            none;
        {error, _} ->
            {error, unavailable}
    end.

-spec named(binary()) -> named().
named(Key) ->
    Term = binary_to_term(Key),
    case todana_term_text:text(Term) of
        {ok, Text} -> {text, Text};
        none -> {bytes, todana_term_text:shown(Term), Key}
    end.

-doc "A page of the names of a scope, with their processes.".
-spec names(scope(), page()) -> paged({named(), pid(), token()}) | problem().
names(Scope, Page) ->
    with_cursor(Page, fun(Cursor) ->
        in(Scope, fun
            ({cluster, Table}) ->
                maybe
                    ok ?= refreshed(Table),
                    Prefix = todana_scope_records:prefix(names),
                    pages(Table, Prefix, Page, Cursor, fun(Key) ->
                        maybe
                            {ok, {Pid, Token, _}} ?= record(Table, Key),
                            {ok, {named(Key), Pid, Token}}
                        end
                    end)
                end;
            ({local, Table}) ->
                local_names(Table, Page, Cursor)
        end)
    end).

-doc "A page of the groups of a scope that have members.".
-spec groups(scope(), page()) -> paged(named()) | problem().
groups(Scope, #{count := Count} = Page) ->
    with_cursor(Page, fun(Cursor) ->
        in(Scope, fun
            ({cluster, Table}) ->
                maybe
                    ok ?= refreshed(Table),
                    group_page(Table, Cursor, Count, ?PAGE_BYTES, [])
                end;
            ({local, _Table}) ->
                {error, no_groups}
        end)
    end).

-spec group_page(
    todana_scope_records:table(), cursor(), non_neg_integer(), integer(),
    [named()]
) -> paged(named()) | problem().
group_page(_Table, Cursor, Count, Bytes, Groups) when
    Count =:= 0; Bytes =< 0
->
    {ok, lists:reverse(Groups), as_text(Cursor)};
group_page(Table, Cursor, Count, Bytes, Groups) ->
    case todana_scope_records:next_group(Table, Cursor) of
        {group, Group} ->
            Left = Bytes - byte_size(Group),
            All = [named(Group) | Groups],
            group_page(Table, Group, Count - 1, Left, All);
        none ->
            {ok, lists:reverse(Groups), done};
        %% A cursor that no page has.
        {error, too_large} ->
            {ok, lists:reverse(Groups), done};
        {error, _} ->
            {error, unavailable}
    end.

-doc "A page of the members of a group, each as often as it has joined.".
-spec members(scope(), binary(), page()) -> paged(pid()) | problem().
members(Scope, Text, Page) ->
    with_key(Text, fun(Group) ->
        with_cursor(Page, fun(Cursor) ->
            in(Scope, fun
                ({cluster, Table}) ->
                    maybe
                        ok ?= refreshed(Table),
                        Prefix = todana_scope_records:members_prefix_of(Group),
                        pages(Table, Prefix, Page, Cursor, fun(Rest) ->
                            member(<<Prefix/binary, Rest/binary>>)
                        end)
                    end;
                ({local, _Table}) ->
                    {error, no_groups}
            end)
        end)
    end).

-spec member(todana_scope_records:key()) -> {ok, pid()} | none.
member(Key) ->
    {_Group, Pid} = todana_scope_records:member_of(Key),
    case todana_watchers:has_ended(Pid) of
        true -> none;
        false -> {ok, Pid}
    end.

-doc "A problem in words.".
-spec sentence(no_scope | no_groups | unavailable | {bad, binary()}) ->
    binary().
sentence(no_scope) -> ~"there is no scope of this name";
sentence(no_groups) -> ~"a local scope has no groups";
sentence(unavailable) -> ~"no leader confirms that this node is up to date";
sentence({bad, Sentence}) -> Sentence.

%% ----------------------------------------------------------------- pages ----

-spec with_cursor(page(), fun((cursor()) -> Result)) -> Result | problem().
with_cursor(#{cursor := start}, Work) ->
    Work(start);
with_cursor(#{cursor := Text}, _Work) when byte_size(Text) > ?CURSOR_BYTES ->
    {error, {bad, ~"the cursor is too long"}};
with_cursor(#{cursor := Text}, Work) ->
    try base64:decode(Text, #{mode => urlsafe, padding => false}) of
        Cursor -> Work(Cursor)
    catch
        error:_ -> {error, {bad, ~"the cursor is none that a page has had"}}
    end.

-spec as_text(cursor()) -> binary() | done.
as_text(start) -> done;
as_text(Key) -> base64:encode(Key, #{mode => urlsafe, padding => false}).

%% Items of the keys that begin with these bytes, behind one. A cursor is the
%% rest of a key.
-spec pages(
    todana_scope_records:table(), binary(), page(), cursor(),
    fun((Rest :: binary()) -> {ok, Item} | none | problem())
) -> paged(Item) | problem().
pages(Table, Prefix, #{count := Count}, Cursor, Item) ->
    From =
        case Cursor of
            start -> start;
            _ -> {cursor, <<Prefix/binary, Cursor/binary>>}
        end,
    more_pages(Table, Prefix, From, Item, Count, ?PAGE_BYTES, []).

-spec more_pages(
    todana_scope_records:table(), binary(), start | {cursor, binary()},
    fun((binary()) -> {ok, Item} | none | problem()), non_neg_integer(),
    integer(), [Item]
) -> paged(Item) | problem().
more_pages(_Table, Prefix, {cursor, Key}, _Item, Left, Bytes, Items) when
    Left =:= 0; Bytes =< 0
->
    {ok, lists:reverse(Items), as_text(rest(Prefix, Key))};
more_pages(Table, Prefix, From, Item, Left, Bytes, Items) ->
    Most = min(Left, ?KEYS),
    case todana_scope_records:keys_page(Table, Prefix, From, Most) of
        %% No record has so long a key.
        {error, too_large} ->
            {ok, lists:reverse(Items), done};
        {error, _} ->
            {error, unavailable};
        {Keys, Next} ->
            case items(Keys, Prefix, Item, Bytes, Items) of
                {all, All, _BytesLeft} when Next =:= done ->
                    {ok, lists:reverse(All), done};
                {all, All, BytesLeft} ->
                    more_pages(Table, Prefix, Next, Item, Left - length(Keys),
                               BytesLeft, All);
                {stopped, All, Key} ->
                    {ok, lists:reverse(All), as_text(rest(Prefix, Key))};
                {error, _} = Problem ->
                    Problem
            end
    end.

-spec items(
    [binary()], binary(), fun((binary()) -> {ok, Item} | none | problem()),
    integer(), [Item]
) ->
    {all, [Item], integer()} | {stopped, [Item], binary()} | problem().
items([], _Prefix, _Item, Bytes, Items) ->
    {all, Items, Bytes};
items([Key | Keys], Prefix, Item, Bytes, Items) ->
    Left = Bytes - byte_size(Key),
    case Item(rest(Prefix, Key)) of
        {error, _} = Problem ->
            Problem;
        Found ->
            All =
                case Found of
                    {ok, One} -> [One | Items];
                    none -> Items
                end,
            case Left =< 0 andalso Keys =/= [] of
                true -> {stopped, All, Key};
                false -> items(Keys, Prefix, Item, Left, All)
            end
    end.

-spec rest(binary(), binary()) -> binary().
rest(Prefix, Key) ->
    Length = byte_size(Prefix),
    <<_:Length/binary, Rest/binary>> = Key,
    Rest.

%% A look at all names, since the ETS table has no order.
-spec local_names(ets:table(), page(), cursor()) ->
    paged({named(), pid(), none}).
local_names(Table, #{count := Count}, Cursor) ->
    Keep = fun(Name, Pid, {Kept, Length}) ->
        Key = term_to_binary(Name, [deterministic, {minor_version, 2}]),
        case Cursor =:= start orelse Key > Cursor of
            true when Length > 2 * Count ->
                {lists:sublist(lists:sort([{Key, Pid} | Kept]), Count + 1),
                    Count + 1};
            true ->
                {[{Key, Pid} | Kept], Length + 1};
            false ->
                {Kept, Length}
        end
    end,
    {Kept, _} = todana_name_scopes:fold(Keep, {[], 0}, Table),
    Sorted = lists:sort(Kept),
    page_of(Sorted, Count, ?PAGE_BYTES, []).

-spec page_of([{binary(), pid()}], non_neg_integer(), integer(), list()) ->
    paged({named(), pid(), none}).
page_of([], _Count, _Bytes, Items) ->
    {ok, lists:reverse(Items), done};
page_of([{Key, Pid} | Others], Count, Bytes, Before) ->
    Items =
        case todana_watchers:has_ended(Pid) of
            true -> Before;
            false -> [{named(Key), Pid, none} | Before]
        end,
    Left = Bytes - byte_size(Key),
    case Others =/= [] andalso (Count =:= 1 orelse Left =< 0) of
        true -> {ok, lists:reverse(Items), as_text(Key)};
        false -> page_of(Others, Count - 1, Left, Items)
    end.
