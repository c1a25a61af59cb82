%% Submits registrations of names and members in cluster scopes.
%%
%% A registration is submitted on the node of its process. The watcher of the
%% process (todana_claim_watcher) knows of it before that, and learns what
%% became of it: the process may end at any moment, and so may the caller. Where
%% the records are, `todana_claim_writes' decides about it.
%%
%% If the outcome of a write is not known in time, the session is fenced: the
%% write cannot be executed from then on, and a record says whether it was.
-module(todana_claims).
-moduledoc false.

-export([new/4, submit/3, release/1]).

-type shared() :: todana_name_scopes:shared().
-type failure() :: todana_scope_records:failure().
-type claim() :: todana_claim_watcher:claim().
-type request() :: todana_claim_writes:request().
-type outcome() ::
    {written, todana_scope_records:token() | none} | no | failure().

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
Writes claims of a session in one step, and returns the token of a name. `no` if
another process has it.
""".
-spec submit(shared(), [claim(), ...], request()) -> outcome().
submit(Shared, Claims, Request) ->
    DeadlineMs = now_ms() + todana_durable:timeout_ms(),
    try submit(Shared, Claims, Request, DeadlineMs) of
        {written, Token} ->
            ok = end_all(Claims, held),
            case Token of
                gone -> no;
                _ -> {written, Token}
            end;
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

%% The basis is read before the watchers are informed. If a watcher fails after
%% that, the next one fences the session, and the write finds another basis.
-spec submit(shared(), [claim(), ...], request(), integer()) ->
    outcome() | {written, gone}.
submit(Shared, Claims, Request, DeadlineMs) ->
    #{table := Table, session := Session} = Shared,
    maybe
        {ok, Basis} ?= todana_claim_basis:get(Table, Session),
        ok = lists:foreach(fun todana_claim_watcher:begin_claim/1, Claims),
        case todana_claim_writes:write(Table, Basis, Claims, Request) of
            {written, Replaced, Token} ->
                ok = release(Replaced),
                {written, Token};
            {other, Now} ->
                ok = todana_claim_basis:keep(Session, Now),
                again(Shared, Claims, Request, DeadlineMs);
            {no, Owner} ->
                owned(Owner, Shared, Claims, Request, DeadlineMs);
            {error, unknown} ->
                settled(Basis, Shared, Claims, Request, DeadlineMs);
            {error, _} = Failure ->
                Failure
        end
    end.

-spec again(shared(), [claim(), ...], request(), integer()) ->
    outcome() | {written, gone}.
again(Shared, Claims, Request, DeadlineMs) ->
    case now_ms() < DeadlineMs of
        true -> submit(Shared, Claims, Request, DeadlineMs);
        false -> {error, unavailable}
    end.

%% On a guest, only this node knows that a process of it has ended.
-spec owned(
    todana_claim_writes:owner(), shared(), [claim(), ...], request(), integer()
) -> outcome() | {written, gone}.
owned({Pid, Ref}, Shared, Claims, {register, Metadata, Ended}, DeadlineMs) when
    Ref =/= Ended
->
    case todana_watchers:has_ended(Pid) of
        true -> again(Shared, Claims, {register, Metadata, Ref}, DeadlineMs);
        false -> no
    end;
owned(_Owner, _Shared, _Claims, _Request, _DeadlineMs) ->
    no.

%% After the fence, they can be written later no more.
-spec settled(
    todana_claim_basis:basis(), shared(), [claim(), ...], request(), integer()
) -> outcome() | {written, gone}.
settled(Basis, Shared, Claims, Request, DeadlineMs) ->
    #{table := Table, session := Session} = Shared,
    [#{key := Key, ref := Ref} | _] = Claims,
    Fenced = todana_scope_records:fence(Table, Session),
    ok = todana_claim_basis:forget(Session),
    case Fenced =:= ok andalso todana_scope_records:read(Table, Key) of
        {ok, Value, _} = Found when element(2, Value) =:= Ref ->
            case todana_claim_basis:is_same_generation(Basis) of
                true when Request =:= join -> {written, none};
                true -> {written, todana_scope_records:token(Found)};
                false -> {error, unknown}
            end;
        Failure when Failure =:= false; element(1, Failure) =:= error ->
            {error, unknown};
        _NotWritten ->
            again(Shared, Claims, Request, DeadlineMs)
    end.

-doc """
A guest informs the watcher of its own process at once; the seat has informed
that of another node.
""".
-spec release(todana_claim_writes:owner()) -> ok.
release({Pid, Ref}) when node(Pid) =:= node() ->
    case todana_guest:is_guest() of
        true -> todana_claim_watcher:release(Pid, Ref);
        false -> ok
    end;
release(_Other) ->
    ok.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
