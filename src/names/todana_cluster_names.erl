%% Names in cluster scopes: unique in the cluster, because each is a record of a
%% durable table that is written only if no process has the name.
-module(todana_cluster_names).
-moduledoc false.

-export([register/4, move/4, unregister/2, unregister/3]).
-export([whereis/2, lookup/2, lookup/3, await/3, set_metadata/3]).
-export([names/1, names_of/2, count/1]).

-type shared() :: todana_name_scopes:shared().
-type failure() :: todana_scope_records:failure().
-type token() :: todana_scope_records:token().
-type options() :: #{
    metadata := term(), on_loss := todana_scope_records:on_loss()
}.

%% How long a look-up waits for a leader.
-define(LOOK_UP_MS, 1_000).
%% A process that waits for a name looks so often, also without an event.
-define(AWAIT_MS, 1_000).
%% It looks for so long at least.
-define(AWAIT_MS_MIN, 50).

-doc "Gives a process of this node a name that no process has.".
-spec register(shared(), Name :: term(), pid(), options()) ->
    {yes, token()} | no | failure().
register(Shared, Name, Pid, #{metadata := Metadata, on_loss := OnLoss}) ->
    claim(Shared, Name, Pid, OnLoss, {register, Metadata, none}).

-doc """
Gives the name to a process of this node if this is its token. The metadata
stays.
""".
-spec move(shared(), Name :: term(), pid(), token()) ->
    {yes, token()} | no | failure().
move(Shared, Name, Pid, Token) ->
    claim(Shared, Name, Pid, {silent, nothing}, {move, Token}).

-spec claim(
    shared(), Name :: term(), pid(), todana_scope_records:on_loss(),
    todana_claim_writes:request()
) -> {yes, token()} | no | failure().
claim(#{table := Table} = Shared, Name, Pid, OnLoss, Request) ->
    Key = todana_scope_records:name_key(Name),
    Claim = todana_claims:new(Shared, Key, Pid, OnLoss),
    Result = todana_claims:submit(Shared, [Claim], Request),
    ok = todana_name_cache:forget({names, Table}, Name),
    case Result of
        {written, Token} -> {yes, Token};
        NotWritten -> NotWritten
    end.

-doc "Frees a name, whichever process has it. `no` if none has.".
-spec unregister(shared(), Name :: term()) -> ok | no | failure().
unregister(Shared, Name) -> unregister(Shared, Name, any).

-doc "Frees a name if this is its token.".
-spec unregister(shared(), Name :: term(), token() | any) ->
    ok | no | failure().
unregister(#{table := Table}, Name, Token) ->
    Key = todana_scope_records:name_key(Name),
    Removed = todana_claim_writes:remove(Table, Key, Token),
    ok = todana_name_cache:forget({names, Table}, Name),
    Removed.

-doc "The process that has the name, perhaps by a copy.".
-spec whereis(shared(), Name :: term()) -> pid() | undefined.
whereis(#{table := Table} = Shared, Name) ->
    case todana_name_cache:find({names, Table}, Name) of
        {ok, Pid} ->
            case todana_watchers:has_ended(Pid) of
                false -> Pid;
                true -> read_owner(Shared, Name, none)
            end;
        {none, Place} ->
            read_owner(Shared, Name, Place)
    end.

-spec read_owner(shared(), term(), todana_name_cache:place()) ->
    pid() | undefined.
read_owner(Shared, Name, Place) ->
    case lookup(Shared, Name) of
        {ok, Pid, _Metadata, _Token} ->
            ok = todana_name_cache:keep(Place, Name, Pid),
            Pid;
        _ ->
            undefined
    end.

-doc """
The process that has the name, as far as records of the level `bounded` say, its
metadata and token.
""".
-spec lookup(shared(), Name :: term()) ->
    {ok, pid(), Metadata :: term(), token()} | error | failure().
lookup(Shared, Name) -> lookup(Shared, Name, ?LOOK_UP_MS).

-doc "The same, and waits for the leader for this time at most.".
-spec lookup(shared(), Name :: term(), pos_integer()) ->
    {ok, pid(), Metadata :: term(), token()} | error | failure().
lookup(#{table := Table}, Name, TimeoutMs) ->
    maybe
        {ok, {Pid, _, _, Metadata}, _} = Found ?=
            todana_scope_records:find(
                Table, todana_scope_records:name_key(Name), TimeoutMs
            ),
        false ?= todana_watchers:has_ended(Pid),
        {ok, Pid, Metadata, todana_scope_records:token(Found)}
    else
        {none, _State} -> error;
        true -> error;
        Failure -> Failure
    end.

-doc "Waits until a process has the name.".
-spec await(shared(), Name :: term(), timeout()) ->
    {ok, pid()} | {error, timeout | unavailable}.
await(Shared, Name, TimeoutMs) ->
    DeadlineMs =
        case TimeoutMs of
            infinity -> infinity;
            _ -> now_ms() + TimeoutMs
        end,
    What = {name, todana_scope_records:name_key(Name)},
    case todana_scope_monitor:watch(Shared, What, TimeoutMs) of
        {ok, Ref, []} ->
            Result = await_change(Shared, Name, Ref, DeadlineMs),
            ok = todana_scope_monitor:leave(Shared, What, Ref),
            Result;
        {error, timeout} ->
            case found(Shared, Name, 0) of
                none -> {error, timeout};
                Result -> Result
            end;
        {error, unavailable} = Failure ->
            Failure
    end.

-spec await_change(shared(), term(), reference(), integer() | infinity) ->
    {ok, pid()} | {error, timeout | unavailable}.
await_change(Shared, Name, Ref, DeadlineMs) ->
    LeftMs = left_ms(DeadlineMs),
    case found(Shared, Name, LeftMs) of
        none when LeftMs =:= 0 ->
            {error, timeout};
        none ->
            receive
                {Ref, changed} -> ok
            after min(LeftMs, ?AWAIT_MS) -> ok
            end,
            await_change(Shared, Name, Ref, DeadlineMs);
        Result ->
            Result
    end.

-spec found(shared(), term(), non_neg_integer()) ->
    {ok, pid()} | {error, unavailable} | none.
found(Shared, Name, LeftMs) ->
    case lookup(Shared, Name, max(?AWAIT_MS_MIN, min(LeftMs, ?LOOK_UP_MS))) of
        {ok, Pid, _Metadata, _Token} -> {ok, Pid};
        {error, _} -> {error, unavailable};
        error -> none
    end.

-spec left_ms(integer() | infinity) -> non_neg_integer().
left_ms(infinity) -> ?AWAIT_MS;
left_ms(DeadlineMs) -> max(0, DeadlineMs - now_ms()).

-doc "Changes the metadata of a name. Its token stays.".
-spec set_metadata(shared(), Name :: term(), term()) -> ok | error | failure().
set_metadata(#{table := Table}, Name, Metadata) ->
    Key = todana_scope_records:name_key(Name),
    todana_claim_writes:annotate(Table, Key, Metadata).

-doc "All names.".
-spec names(shared()) -> [Name :: term()] | failure().
names(#{table := Table}) ->
    Add = fun(Name, _Value, Names) -> [Name | Names] end,
    todana_scope_records:fold_names(Add, [], Table).

-doc "The names of a process, or of all processes of a node.".
-spec names_of(shared(), pid() | node()) -> [Name :: term()] | failure().
names_of(#{table := Table}, Owner) ->
    Node = if is_pid(Owner) -> node(Owner); true -> Owner end,
    maybe
        Sessions = [_ | _] ?= todana_scope_records:sessions(Table),
        Owned = [
            owned(Table, Session)
         || {Session, At, live} <- Sessions, At =:= Node
        ],
        false ?= lists:keyfind(error, 1, Owned),
        [
            Name
         || {Key, {Pid, _, _}} <- lists:append(Owned),
            Owner =:= Node orelse Pid =:= Owner,
            not todana_watchers:has_ended(Pid),
            {name, Name} <- [todana_scope_records:name_of(Key)]
        ]
    end.

-spec owned(atom(), binary()) -> [{binary(), tuple()}] | failure().
owned(Table, Session) ->
    Add = fun(Key, Value, All) -> [{Key, Value} | All] end,
    todana_scope_records:fold_owned(Add, [], Table, Session).

-doc "How many names there are.".
-spec count(shared()) -> non_neg_integer() | failure().
count(#{table := Table}) -> todana_scope_records:count(Table).

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
