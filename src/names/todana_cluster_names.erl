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
-type found() :: todana_scope_records:name_found().
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
register(#{table := Table} = Shared, Name, Pid, Options) ->
    #{metadata := Metadata, on_loss := OnLoss} = Options,
    claim(Shared, Name, Pid, OnLoss, fun(Found) ->
        case owner(Table, Found) of
            {none, Checks} -> {yes, Metadata, Checks};
            Owned -> Owned
        end
    end).

%% Whether nobody has the name: its process has ended on this node, or its
%% session has.
-spec owner(atom(), found()) ->
    {none, [todana_scope_records:check()]} | no | failure().
owner(_Table, {none, _State}) ->
    {none, []};
owner(Table, {ok, {Pid, {Session, _}, _Origin, _Metadata}, _State}) ->
    case has_ended(Pid) of
        true ->
            {none, []};
        false ->
            case todana_scope_records:session(Table, Session) of
                {ok, {_Node, live}, _} -> no;
                {error, _} = Failure -> Failure;
                Ended -> {none, [todana_scope_records:check(Session, Ended)]}
            end
    end.

-spec has_ended(pid()) -> boolean().
has_ended(Pid) -> node(Pid) =:= node() andalso not is_process_alive(Pid).

-doc """
Gives the name to a process of this node if this is its token. The metadata
stays.
""".
-spec move(shared(), Name :: term(), pid(), token()) ->
    {yes, token()} | no | failure().
move(Shared, Name, Pid, Token) ->
    claim(Shared, Name, Pid, {silent, nothing}, fun(Found) ->
        case {todana_scope_records:token(Found), Found} of
            {Token, {ok, {_, _, _, Metadata}, _}} -> {yes, Metadata, []};
            _ -> no
        end
    end).

-spec claim(
    shared(), Name :: term(), pid(), todana_scope_records:on_loss(),
    fun((found()) ->
        {yes, Metadata :: term(), [todana_scope_records:check()]}
        | no | failure())
) -> {yes, token()} | no | failure().
claim(#{table := Table} = Shared, Name, Pid, OnLoss, May) ->
    Key = todana_scope_records:name_key(Name),
    Submit = fun() ->
        Result = submit(Shared, Key, Pid, OnLoss, May),
        ok = todana_name_cache:forget({names, Table}, Name),
        Result
    end,
    case Submit() of
        %% Another node may have freed the name a moment ago.
        no ->
            case todana_scope_records:refresh(Table, linear) of
                ok -> Submit();
                Failure -> Failure
            end;
        Result ->
            Result
    end.

-spec submit(
    shared(), binary(), pid(), todana_scope_records:on_loss(),
    fun((found()) ->
        {yes, Metadata :: term(), [todana_scope_records:check()]}
        | no | failure())
) -> {yes, token()} | no | failure().
submit(#{table := Table, session := Session} = Shared, Key, Pid, OnLoss, May) ->
    Claim = todana_claims:new(Shared, Key, Pid, OnLoss),
    Generation = todana_scope_records:generation(),
    Permits = fun(Found) ->
        maybe
            {ok, Era, Check} ?= todana_scope_records:era(Table, Generation),
            {yes, Metadata, Checks} ?= May(Found),
            Removed = before(Session, Key, Found),
            {yes, [{era, Era}, Metadata], [Check | Checks], Removed}
        end
    end,
    case todana_claims:submit(Shared, [Claim], Permits) of
        {written, Before} ->
            ok = release(Before),
            written(Table, Claim, Generation);
        NotWritten ->
            NotWritten
    end.

%% The process that had the name before.
-spec release(found() | unknown) -> ok.
release({ok, {Pid, Ref, _, _}, _}) -> todana_claim_watcher:release(Pid, Ref);
release(_Found) -> ok.

%% Somebody may have unregistered the name already. In another generation, its
%% token is perhaps one that was given before.
-spec written(atom(), todana_claim_watcher:claim(), term()) ->
    {yes, token()} | no | failure().
written(Table, #{key := Key, ref := Ref} = Claim, Generation) ->
    IsSame = todana_scope_records:generation() =:= Generation,
    case IsSame andalso todana_scope_records:read(Table, Key) of
        {ok, {_, Ref, _, _}, _} = Found ->
            {yes, todana_scope_records:token(Found)};
        {ok, _, _} ->
            no;
        {none, _} ->
            no;
        _Unknown ->
            ok = todana_claim_watcher:end_claim(Claim, unknown),
            {error, unknown}
    end.

%% What the owner before has, if it is in another session: in this one, it is
%% written over.
-spec before(binary(), binary(), found()) -> [todana_commit:write()].
before(Session, Key, {ok, {_, {Other, _} = Ref, _, _}, _}) when
    Other =/= Session
->
    [_OfName, OfOwner] = todana_scope_records:removal(Key, Ref),
    [OfOwner];
before(_Session, _Key, _Found) ->
    [].

-doc "Frees a name, whichever process has it. `no` if none has.".
-spec unregister(shared(), Name :: term()) -> ok | no | failure().
unregister(Shared, Name) -> remove(Shared, Name, fun(_Found) -> true end).

-doc "Frees a name if this is its token.".
-spec unregister(shared(), Name :: term(), token()) -> ok | no | failure().
unregister(Shared, Name, Token) ->
    remove(Shared, Name, fun(Found) ->
        todana_scope_records:token(Found) =:= Token
    end).

-spec remove(shared(), Name :: term(), fun((found()) -> boolean())) ->
    ok | no | failure().
remove(#{table := Table}, Name, Is) ->
    Key = todana_scope_records:name_key(Name),
    Removed = in_latest(Table, Key, fun
        ({none, _State}) ->
            no;
        ({ok, {Pid, Ref, _, _}, _} = Found) ->
            case Is(Found) of
                true ->
                    Writes = todana_scope_records:removal(Key, Ref),
                    {commit, [], Writes, {removed, Pid, Ref}};
                false ->
                    no
            end
    end),
    ok = todana_name_cache:forget({names, Table}, Name),
    case Removed of
        {removed, Pid, Ref} -> todana_claim_watcher:release(Pid, Ref);
        NotRemoved -> NotRemoved
    end.

%% Another node may have written the record a moment ago.
-spec in_latest(atom(), binary(), fun((found()) -> term())) -> dynamic().
in_latest(Table, Key, Decide) ->
    maybe
        ok ?= todana_scope_records:refresh(Table, linear),
        todana_scope_records:change(Table, Key, Decide)
    end.

-doc "The process that has the name, perhaps by a copy.".
-spec whereis(shared(), Name :: term()) -> pid() | undefined.
whereis(#{table := Table} = Shared, Name) ->
    case todana_name_cache:find({names, Table}, Name) of
        {ok, Pid} ->
            case has_ended(Pid) of
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
        ok ?= todana_scope_records:refresh(Table, bounded, TimeoutMs),
        {ok, {Pid, _, _, Metadata}, _} = Found ?=
            todana_scope_records:read(
                Table, todana_scope_records:name_key(Name)
            ),
        false ?= has_ended(Pid),
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
    Key = todana_scope_records:name_key(Name),
    case todana_scope_monitor:watch(Shared, {name, Key}) of
        {ok, Ref, []} ->
            Result = await_change(Shared, Name, Ref, DeadlineMs),
            _ = todana_scope_monitor:unwatch(Shared, Ref),
            %% It may have ended meanwhile.
            true = demonitor(Ref, [flush]),
            Result;
        Failure ->
            Failure
    end.

-spec await_change(shared(), term(), reference(), integer() | infinity) ->
    {ok, pid()} | {error, timeout | unavailable}.
await_change(Shared, Name, Ref, DeadlineMs) ->
    LeftMs = left_ms(DeadlineMs),
    case lookup(Shared, Name, max(?AWAIT_MS_MIN, min(LeftMs, ?LOOK_UP_MS))) of
        {ok, Pid, _Metadata, _Token} ->
            {ok, Pid};
        {error, _} ->
            {error, unavailable};
        error when LeftMs =:= 0 ->
            {error, timeout};
        error ->
            receive
                {Ref, changed} -> ok
            after min(LeftMs, ?AWAIT_MS) -> ok
            end,
            await_change(Shared, Name, Ref, DeadlineMs)
    end.

-spec left_ms(integer() | infinity) -> non_neg_integer().
left_ms(infinity) -> ?AWAIT_MS;
left_ms(DeadlineMs) -> max(0, DeadlineMs - now_ms()).

-doc "Changes the metadata of a name. Its token stays.".
-spec set_metadata(shared(), Name :: term(), term()) -> ok | error | failure().
set_metadata(#{table := Table}, Name, Metadata) ->
    Key = todana_scope_records:name_key(Name),
    in_latest(Table, Key, fun
        ({none, _State}) ->
            error;
        ({ok, {Pid, Ref, _, _}, _} = Found) ->
            Token = todana_scope_records:token(Found),
            Value = {Pid, Ref, {token, Token}, Metadata},
            case has_ended(Pid) of
                true ->
                    error;
                false ->
                    [OfName, _] = todana_scope_records:writes(
                        Key, Value, {silent, nothing}
                    ),
                    {commit, [], [OfName], ok}
            end
    end).

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
            not has_ended(Pid),
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
