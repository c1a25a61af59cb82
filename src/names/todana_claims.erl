%% Submits registrations of names and members in cluster scopes.
%%
%% A registration is written on the node of its process. The watcher of the
%% process (todana_claim_watcher) knows of it before it is submitted, and learns
%% what became of it: the process may end at any moment, and so may the caller.
%%
%% If the outcome of a write is not known in time, the session is fenced: the
%% write cannot be executed from then on, and a record says whether it was.
-module(todana_claims).
-moduledoc false.

-export([new/4, submit/3]).

-type shared() :: todana_name_scopes:shared().
-type failure() :: todana_scope_records:failure().
-type claim() :: todana_claim_watcher:claim().
-type found() :: todana_scope_records:found(dynamic()).
%% Whether the claims may be written, by the record that the key of the first
%% one has: what the values have behind process and reference, what else has to
%% be unchanged, and what is removed.
-type permits() :: fun((found()) ->
    {yes, Rest :: [term()], [todana_scope_records:check()],
     [todana_commit:write()]}
    | no | failure()).

-doc "A claim of a process of this node.".
-spec new(
    shared(), todana_scope_records:key(), pid(), todana_scope_records:on_loss()
) -> claim().
new(#{scope := Scope, session := Session}, Key, Pid, OnLoss) ->
    #{
        pid => Pid, scope => Scope, key => Key, on_loss => OnLoss,
        ref => {Session, erlang:unique_integer([positive])}
    }.

-doc """
Writes claims of a session in one step. `written` says that they are, with the
record that the key of the first one had before, if that is known.
""".
-spec submit(shared(), [claim(), ...], permits()) ->
    {written, found() | unknown} | no | failure().
submit(Shared, Claims, Permits) ->
    DeadlineMs = now_ms() + todana_durable:timeout_ms(),
    try submit(Shared, Claims, Permits, DeadlineMs) of
        {written, _} = Written ->
            ok = end_all(Claims, held),
            Written;
        {error, unknown} = Failure ->
            ok = end_all(Claims, unknown),
            Failure;
        NotHeld ->
            ok = end_all(Claims, not_held),
            NotHeld
    catch
        Class:Reason:Stack ->
            ok = end_all(Claims, unknown),
            erlang:raise(Class, Reason, Stack)
    end.

-spec end_all([claim()], held | not_held | unknown) -> ok.
end_all(Claims, Outcome) ->
    lists:foreach(
        fun(Claim) -> todana_claim_watcher:end_claim(Claim, Outcome) end, Claims
    ).

-spec submit(shared(), [claim(), ...], permits(), integer()) ->
    {written, found() | unknown} | no | failure().
submit(Shared, [#{key := Key} | _] = Claims, Permits, DeadlineMs) ->
    #{table := Table, session := Session} = Shared,
    Decide = fun(Found) -> decide(Shared, Claims, Permits, Found) end,
    case todana_scope_records:change(Table, Key, Decide) of
        {error, unknown} = Unknown ->
            case todana_scope_records:fence(Table, Session) of
                ok -> settled(Shared, Claims, Permits, DeadlineMs);
                _Failure -> Unknown
            end;
        Result ->
            Result
    end.

%% They can be written later no more.
-spec settled(shared(), [claim(), ...], permits(), integer()) ->
    {written, found() | unknown} | no | failure().
settled(#{table := Table} = Shared, Claims, Permits, DeadlineMs) ->
    [#{key := Key, ref := Ref} | _] = Claims,
    case todana_scope_records:read(Table, Key) of
        {ok, Value, _} when element(2, Value) =:= Ref ->
            {written, unknown};
        {error, _} ->
            {error, unknown};
        _NotWritten ->
            case now_ms() < DeadlineMs of
                true -> submit(Shared, Claims, Permits, DeadlineMs);
                false -> {error, unavailable}
            end
    end.

-spec decide(shared(), [claim()], permits(), found()) ->
    {commit, [todana_scope_records:check()], [todana_commit:write()],
     {written, found()}}
    | no | failure().
decide(#{table := Table, session := Session}, Claims, Permits, Found) ->
    maybe
        {ok, {_, live}, _} = Live ?=
            todana_scope_records:session(Table, Session),
        {yes, Rest, Checks, Removals} ?= Permits(Found),
        ok = lists:foreach(fun todana_claim_watcher:begin_claim/1, Claims),
        All = [todana_scope_records:check(Session, Live) | Checks],
        {commit, All, Removals ++ writes(Claims, Rest), {written, Found}}
    else
        %% The session has ended, and this node has no other one yet.
        {ok, {_, gone}, _} -> {error, unavailable};
        {none, _State} -> {error, unavailable};
        NotPermitted -> NotPermitted
    end.

-spec writes([claim()], [term()]) -> [todana_commit:write()].
writes(Claims, Rest) ->
    [
        Write
     || #{key := Key, pid := Pid, ref := Ref, on_loss := OnLoss} <- Claims,
        Write <- todana_scope_records:writes(
            Key, list_to_tuple([Pid, Ref | Rest]), OnLoss
        )
    ].

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
