%% Reads of cluster scopes for clients, made where the records are: at a member,
%% also one that has not started the scope. A guest asks its seat, once for each
%% read, a page of names included.
%%
%% Names and groups are given and returned as the records have them, in the
%% external format, and a page goes on behind the bytes with which the one
%% before has ended: each begins at its cursor, in the order of the keys.
-module(todana_scope_pages).
-moduledoc false.

-export([read/1]).
%% Guests call it
-export([here/1]).

-export_type([problem/0, cursor/0, found/0, token/0]).

-type scope() :: binary().
-type cursor() :: binary() | start.
-type token() :: todana_scope_records:token().
-type found() :: {pid(), token(), Metadata :: term()}.
-type read() ::
    scopes
    | {name, scope(), Name :: binary()}
    | {names | groups, scope(), cursor(), Count :: pos_integer()}
    | {members, scope(), Group :: binary(), cursor(), Count :: pos_integer()}.
%% With the cursor of the next page.
-type page(Item) :: {ok, [Item], binary() | done}.
%% `loading`: the records of this node cannot be read yet. `unavailable`: nobody
%% says that they are as new as they must be.
-type problem() :: {error, no_scope | loading | unavailable}.

%% How long a read waits for a leader.
-define(READ_MS, 1_000).
%% A page ends soon after it has this many bytes of names.
-define(PAGE_BYTES, 16#100000).
%% Keys that are read at once.
-define(KEYS, 100).

-doc """
The scopes; the process of a name; or a page of the names with their processes
and tokens, of the groups, or of the members of a group.
""".
-spec read(read()) -> dynamic().
read(Read) ->
    case todana_guest:is_guest() of
        false ->
            here(Read);
        true ->
            case todana_away:ask(?MODULE, here, none, [Read]) of
                {badarg, _, Cause} -> problem(Cause);
                Result -> Result
            end
    end.

-doc "The same at a member. Processes that have ended there are left out.".
-spec here(read()) -> dynamic().
here(scopes) ->
    maybe
        ok ?= fresh(),
        known()
    end;
here(Read) ->
    maybe
        {ok, Table} ?= table(element(2, Read)),
        of_table(Read, Table)
    end.

-spec of_table(read(), todana_scope_records:table()) -> dynamic().
of_table({name, _, Name}, Table) ->
    record(Table, Name);
of_table({names, _, Cursor, Count}, Table) ->
    Prefix = todana_scope_records:prefix(names),
    pages(Table, Prefix, Count, Cursor, fun(Name) ->
        maybe
            {ok, {Pid, Token, _}} ?= record(Table, Name),
            {ok, {Name, Pid, Token}}
        end
    end);
of_table({groups, _, Cursor, Count}, Table) ->
    groups(Table, Cursor, Count, ?PAGE_BYTES, []);
of_table({members, _, Group, Cursor, Count}, Table) ->
    Prefix = todana_scope_records:members_prefix_of(Group),
    pages(Table, Prefix, Count, Cursor, fun(Rest) ->
        member(<<Prefix/binary, Rest/binary>>)
    end).

%% ---------------------------------------------------------------- scopes ----

%% The table of a scope, with records of the level `bounded'. One that this node
%% does not know may have been created a moment ago.
-spec table(scope()) -> {ok, todana_scope_records:table()} | problem().
table(Scope) ->
    maybe
        false ?= is_known(Scope),
        ok ?= fresh(),
        false ?= is_known(Scope),
        {error, no_scope}
    else
        true -> opened(Scope);
        Problem -> Problem
    end.

-spec is_known(scope()) -> boolean() | problem().
is_known(Scope) ->
    maybe
        {ok, Known} ?= known(),
        lists:member(Scope, Known)
    end.

-spec known() -> {ok, [scope()]} | problem().
known() ->
    case todana_scope_records:known() of
        {badarg, _, Cause} -> problem(Cause);
        Known -> {ok, Known}
    end.

%% The log has a table of this name, so there are few of these atoms.
-spec opened(scope()) -> {ok, todana_scope_records:table()} | problem().
opened(Scope) ->
    Table = todana_scope_records:table(binary_to_atom(Scope)),
    case todana_scope_records:open_known(Table) of
        ok ->
            maybe
                ok ?= outcome(todana_read:await(Table, bounded, ?READ_MS)),
                {ok, Table}
            end;
        {error, _} ->
            {error, unavailable}
    end.

%% Which tables there are is up to date.
-spec fresh() -> ok | problem().
fresh() ->
    case todana_nif:durable_state() of
        none ->
            ok;
        _ ->
            Group = todana_raft_groups:first(),
            outcome(todana_read:await_group(Group, bounded, ?READ_MS))
    end.

-spec outcome(ok | todana_error:cause()) -> ok | problem().
outcome(ok) -> ok;
outcome({badarg, _, Cause}) -> problem(Cause).

-spec problem(term()) -> problem().
problem(recovering) -> {error, loading};
problem(_Cause) -> {error, unavailable}.

%% --------------------------------------------------------------- records ----

-spec record(todana_scope_records:table(), binary()) ->
    {ok, found()} | none | problem().
record(Table, Name) ->
    Key = todana_scope_records:name_key_of(Name),
    case todana_scope_records:read(Table, Key) of
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

-spec member(todana_scope_records:key()) -> {ok, pid()} | none.
member(Key) ->
    {_Group, Pid} = todana_scope_records:member_of(Key),
    case todana_watchers:has_ended(Pid) of
        true -> none;
        false -> {ok, Pid}
    end.

-spec groups(
    todana_scope_records:table(), cursor(), non_neg_integer(), integer(),
    [binary()]
) -> page(Group :: binary()) | problem().
groups(_Table, Cursor, Count, Bytes, Groups) when
    Count =:= 0; Bytes =< 0
->
    {ok, lists:reverse(Groups), Cursor};
groups(Table, Cursor, Count, Bytes, Groups) ->
    case todana_scope_records:next_group(Table, Cursor) of
        {group, Group} ->
            Left = Bytes - byte_size(Group),
            groups(Table, Group, Count - 1, Left, [Group | Groups]);
        none ->
            {ok, lists:reverse(Groups), done};
        %% A cursor that no page has.
        {error, too_large} ->
            {ok, lists:reverse(Groups), done};
        {error, _} ->
            {error, unavailable}
    end.

%% ----------------------------------------------------------------- pages ----

%% Items of the keys that begin with these bytes, behind one. A cursor is the
%% rest of a key.
-spec pages(
    todana_scope_records:table(), binary(), pos_integer(), cursor(),
    fun((Rest :: binary()) -> {ok, Item} | none | problem())
) -> page(Item) | problem().
pages(Table, Prefix, Count, Cursor, Item) ->
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
) -> page(Item) | problem().
more_pages(_Table, Prefix, {cursor, Key}, _Item, Left, Bytes, Items) when
    Left =:= 0; Bytes =< 0
->
    {ok, lists:reverse(Items), rest(Prefix, Key)};
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
                    {ok, lists:reverse(All), rest(Prefix, Key)};
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
