%% What clients that are no Erlang processes read of names and groups: any
%% cluster scope that the log has, whether it was started on this node or not
%% (`todana_scope_pages'), and the local scopes of this node. Scopes, names and
%% groups are given as texts (`todana_term_text'); nothing is written.
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
-type page() :: #{cursor := binary() | start, count := 1..1000}.
%% A page with the cursor of the next one. It may have fewer items than were
%% asked for, also none, although more follow.
-type paged(Item) :: {ok, [Item], binary() | done}.
%% A name or a group: as text, and in the external format if it has none.
-type named() :: {text, binary()} | {bytes, Shown :: binary(), binary()}.
-type token() :: todana_scope_pages:token() | none.
-type found() :: {pid(), token(), Metadata :: term()}.
-type why() ::
    no_scope | no_groups | loading | unavailable | {bad, Sentence :: binary()}.
-type problem() :: {error, why()}.
-type position() :: todana_name_watcher:position().

%% A page ends soon after it has this many bytes of names.
-define(PAGE_BYTES, 16#100000).
%% A page of a local scope ends after a look at this many names of all.
-define(LOOKS, 10_000).
%% A cursor is as long as a key, in base64 (also `names.rs' of native/resp).
-define(CURSOR_BYTES, 16#20000).
%% That of a local scope.
-define(POSITION_BYTES, 1_000).

-doc "All scopes, in the order of their names.".
-spec scopes() -> {ok, [{scope(), class()}]} | problem().
scopes() ->
    maybe
        {ok, Known} ?= todana_scope_pages:read(scopes),
        {ok, merged(Known)}
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

-doc "The process that has a name.".
-spec name(scope(), binary()) -> {ok, named(), found()} | none | problem().
name(Scope, Text) ->
    with_key(Text, fun(Key) ->
        Found = in(Scope, {name, Scope, Key}, fun(_Name, Table) ->
            maybe
                {ok, Name} ?= known_term(Key),
                {ok, Pid, Metadata} ?= todana_local_names:lookup(Table, Name),
                {ok, {Pid, none, Metadata}}
            else
                _ -> none
            end
        end),
        case Found of
            {ok, {Pid, _, _} = Of} ->
                case todana_watchers:has_ended(Pid) of
                    true -> none;
                    false -> {ok, named(Key), Of}
                end;
            NotFound ->
                NotFound
        end
    end).

-doc "A page of the names of a scope, with their processes.".
-spec names(scope(), page()) -> paged({named(), pid(), token()}) | problem().
names(Scope, #{count := Count} = Page) ->
    with_cursor(Page, fun(Cursor) ->
        maybe
            {ok, Names, Next} ?=
                in(Scope, {names, Scope, Cursor, Count}, fun(Local, Table) ->
                    local_names(Local, Table, Cursor, Count)
                end),
            {ok, [
                {named(Key), Pid, Token}
             || {Key, Pid, Token} <- Names,
                not todana_watchers:has_ended(Pid)
            ], as_text(Next)}
        end
    end).

-doc "A page of the groups of a scope that have members.".
-spec groups(scope(), page()) -> paged(named()) | problem().
groups(Scope, #{count := Count} = Page) ->
    with_cursor(Page, fun(Cursor) ->
        Read = {groups, Scope, Cursor, Count},
        maybe
            {ok, Groups, Next} ?= in(Scope, Read, fun no_groups/2),
            {ok, [named(Group) || Group <- Groups], as_text(Next)}
        end
    end).

-doc "A page of the members of a group, each as often as it has joined.".
-spec members(scope(), binary(), page()) -> paged(pid()) | problem().
members(Scope, Text, #{count := Count} = Page) ->
    with_key(Text, fun(Group) ->
        with_cursor(Page, fun(Cursor) ->
            Read = {members, Scope, Group, Cursor, Count},
            maybe
                {ok, Pids, Next} ?= in(Scope, Read, fun no_groups/2),
                {ok, [
                    Pid || Pid <- Pids, not todana_watchers:has_ended(Pid)
                ], as_text(Next)}
            end
        end)
    end).

-spec no_groups(atom(), ets:table()) -> problem().
no_groups(_Scope, _Table) -> {error, no_groups}.

-doc "A problem in words.".
-spec sentence(why()) -> binary().
sentence(no_scope) -> ~"there is no scope of this name";
sentence(no_groups) -> ~"a local scope has no groups";
sentence(loading) -> ~"this node cannot read its records now: try again";
sentence(unavailable) -> ~"no leader confirms that this node is up to date";
sentence({bad, Sentence}) -> Sentence.

%% ------------------------------------------------------------- arguments ----

-spec with_key(binary(), fun((binary()) -> Result)) -> Result | problem().
with_key(Text, Work) ->
    case todana_term_text:key(Text) of
        {ok, Key} -> Work(Key);
        {error, Sentence} -> {error, {bad, Sentence}}
    end.

-spec with_cursor(page(), fun((todana_scope_pages:cursor()) -> Result)) ->
    Result | problem().
with_cursor(#{cursor := start}, Work) ->
    Work(start);
with_cursor(#{cursor := Text}, _Work) when byte_size(Text) > ?CURSOR_BYTES ->
    {error, {bad, ~"the cursor is too long"}};
with_cursor(#{cursor := Text}, Work) ->
    try base64:decode(Text, #{mode => urlsafe, padding => false}) of
        Cursor -> Work(Cursor)
    catch
        error:_ -> bad_cursor()
    end.

-spec bad_cursor() -> problem().
bad_cursor() -> {error, {bad, ~"the cursor is none that a page has had"}}.

-spec as_text(binary() | done) -> binary() | done.
as_text(done) -> done;
as_text(Cursor) -> base64:encode(Cursor, #{mode => urlsafe, padding => false}).

-spec named(binary()) -> named().
named(Key) ->
    Term = binary_to_term(Key),
    case todana_term_text:text(Term) of
        {ok, Text} -> {text, Text};
        none -> {bytes, todana_term_text:shown(Term), Key}
    end.

%% ---------------------------------------------------------- local scopes ----

%% The result of a read of a cluster scope, or of a function of a local one,
%% whose ETS table may be deleted meanwhile.
-spec in(scope(), tuple(), fun((atom(), ets:table()) -> Result)) ->
    Result | dynamic().
in(Scope, Read, OfLocal) ->
    case local(Scope) of
        {ok, Name, Table} ->
            try
                OfLocal(Name, Table)
            catch
                error:badarg ->
                    ets:info(Table, size) =:= undefined orelse error(badarg),
                    {error, no_scope}
            end;
        none ->
            todana_scope_pages:read(Read)
    end.

%% The client's bytes become no atom.
-spec local(scope()) -> {ok, atom(), ets:table()} | none.
local(Scope) ->
    Local = todana_name_scopes:all_local(),
    case [Name || Name <- Local, atom_to_binary(Name) =:= Scope] of
        [Name] ->
            case todana_name_scopes:table(Name) of
                Table when is_reference(Table) -> {ok, Name, Table};
                _ -> none
            end;
        [] ->
            none
    end.

%% A term whose atoms this node does not know is no name of this node.
-spec known_term(binary()) -> {ok, term()} | none.
known_term(Key) ->
    try
        {ok, binary_to_term(Key, [safe])}
    catch
        error:badarg -> none
    end.

%% The ETS table has no order, so the watchers' lists are walked.
-spec local_names(
    atom(), ets:table(), todana_scope_pages:cursor(), pos_integer()
) -> paged({Name :: binary(), pid(), none}) | problem().
local_names(Scope, Table, Cursor, Count) ->
    maybe
        {ok, From} ?= position(Cursor),
        Left = {Count, ?PAGE_BYTES, ?LOOKS},
        local_names(Scope, Table, From, Left, [])
    end.

-spec local_names(
    atom(), ets:table(), position() | start | done,
    {integer(), integer(), integer()}, list()
) -> paged({Name :: binary(), pid(), none}) | problem().
local_names(_Scope, _Table, done, _Left, Names) ->
    {ok, lists:reverse(Names), done};
local_names(_Scope, _Table, From, {Count, Bytes, Looks}, Names) when
    From =/= start, (Count =< 0 orelse Bytes =< 0 orelse Looks =< 0)
->
    {ok, lists:reverse(Names), term_to_binary(From)};
local_names(Scope, Table, From, {Count, Bytes, Looks}, Names) ->
    case todana_name_watcher:page(Scope, From, Count) of
        {Owned, Looked, Next} ->
            %% What a watcher has not learned yet is in the table.
            Keys = [
                {todana_external:bytes(Name), Pid, none}
             || {Name, Pid} <- Owned,
                todana_name_scopes:owner(Table, Name) =:= Pid
            ],
            Size = lists:sum([byte_size(Key) || {Key, _, _} <- Keys]),
            Left = {Count - length(Keys), Bytes - Size, Looks - Looked},
            local_names(Scope, Table, Next, Left, lists:reverse(Keys, Names));
        error ->
            {error, loading}
    end.

%% It has no name, which may be of any length.
-spec position(todana_scope_pages:cursor()) ->
    {ok, position() | start} | problem().
position(start) ->
    {ok, start};
position(<<131, 104, 3, _/binary>> = Bytes) when
    byte_size(Bytes) =< ?POSITION_BYTES
->
    try binary_to_term(Bytes, [safe]) of
        Term ->
            case todana_name_watcher:is_position(Term) of
                true -> {ok, Term};
                false -> bad_cursor()
            end
    catch
        error:badarg -> bad_cursor()
    end;
position(_Bytes) ->
    bad_cursor().
