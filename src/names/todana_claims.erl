%% Submits registrations of names and members in cluster scopes.
%%
%% A registration is submitted on the node of its process. The watcher of the
%% process (todana_claim_watcher) knows of it before that, and learns what
%% became of it: the process may end at any moment, and so may the caller. Where
%% the records are, `todana_claim_writes' decides about it.
%%
%% If the outcome of a write is not known in time, the session is fenced: the
%% write cannot be executed from then on. A record says that it was; if there is
%% none, it was not, or somebody has removed the record since. It is not sent
%% again, which would give the name to the process a second time.
%%
%% While this node does not know whether its session goes on, nothing is
%% registered: a process that got a name then would not be informed of its loss.
-module(todana_claims).
-moduledoc false.

-export([new/4, submit/3]).

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
    submit(Shared, Claims, Request, now_ms() + todana_durable:timeout_ms()).

-spec submit(shared(), [claim(), ...], request(), integer()) -> outcome().
submit(Shared, Claims, Request, DeadlineMs) ->
    try attempt(Shared, Claims, Request) of
        %% Somebody has unregistered the name already.
        {written, gone} ->
            ok = end_all(Claims, not_held),
            no;
        {written, Token} ->
            ok = end_all(Claims, held),
            relied_on(Shared, Claims, Token);
        {error, unknown} = Failure ->
            ok = end_all(Claims, unknown),
            Failure;
        {again, Next} ->
            ok = end_all(Claims, not_held),
            case now_ms() < DeadlineMs of
                true -> submit(Shared, renewed(Claims), Next, DeadlineMs);
                false -> {error, unavailable}
            end;
        NotHeld ->
            ok = end_all(Claims, not_held),
            NotHeld
    catch
        Class:Reason:Stack ->
            ok = end_all(Claims, unknown),
            erlang:raise(Class, Reason, Stack)
    end.

%% If a doubt has begun since, others may have the name by now, and the process
%% has not been informed: the claim is taken back. If not, the next doubt finds
%% the claim at its watcher.
-spec relied_on(
    shared(), [claim(), ...], todana_scope_records:token() | none
) -> outcome().
relied_on(Shared, Claims, Token) ->
    case todana_scope_doubt:is_certain(Shared) of
        true ->
            {written, Token};
        false ->
            ok = end_all(Claims, unknown),
            {error, unknown}
    end.

%% Messages about the old ones may still be on their way.
-spec renewed([claim(), ...]) -> [claim(), ...].
renewed(Claims) ->
    [
        Claim#{ref := {Session, erlang:unique_integer([positive])}}
     || #{ref := {Session, _}} = Claim <- Claims
    ].

-spec end_all([claim()], held | not_held | unknown) -> ok.
end_all(Claims, Outcome) ->
    lists:foreach(
        fun(Claim) -> todana_claim_watcher:end_claim(Claim, Outcome) end, Claims
    ).

%% The basis is read before the watchers are informed. If a watcher fails after
%% that, the next one fences the session, and the write finds another basis.
-spec attempt(shared(), [claim(), ...], request()) ->
    outcome() | {written, gone} | {again, request()}.
attempt(Shared, Claims, Request) ->
    #{table := Table, session := Session} = Shared,
    maybe
        ok ?= is_certain(Shared),
        {ok, Basis} ?= todana_claim_basis:get(Table, Session),
        ok = lists:foreach(fun todana_claim_watcher:begin_claim/1, Claims),
        case todana_claim_writes:write(Table, Basis, Claims, Request) of
            {written, _Token} = Written ->
                Written;
            {other, Now} ->
                ok = todana_claim_basis:keep(Session, Now),
                {again, Request};
            {no, Owner} ->
                owned(Owner, Request);
            {error, unknown} ->
                settled(Basis, Shared, Claims, Request);
            {error, _} = Failure ->
                Failure
        end
    end.

-spec is_certain(shared()) -> ok | failure().
is_certain(Shared) ->
    case todana_scope_doubt:is_certain(Shared) of
        true -> ok;
        false -> {error, unavailable}
    end.

%% On a guest, only this node knows that a process of it has ended.
-spec owned(todana_claim_writes:owner(), request()) -> no | {again, request()}.
owned({Pid, Ref}, {register, Metadata, Ended}) when Ref =/= Ended ->
    case todana_watchers:has_ended(Pid) of
        true -> {again, {register, Metadata, Ref}};
        false -> no
    end;
owned(_Owner, _Request) ->
    no.

%% After the fence, they can be written later no more.
-spec settled(
    todana_claim_basis:basis(), shared(), [claim(), ...], request()
) -> outcome().
settled(Basis, Shared, [#{key := Key, ref := Ref} | _], Request) ->
    #{table := Table, session := Session} = Shared,
    Fenced = todana_scope_records:fence(Table, Session),
    ok = todana_claim_basis:forget(Session),
    maybe
        ok ?= Fenced,
        %% In a session that has ended, a record gives nobody a name.
        {ok, _} ?= todana_claim_basis:get(Table, Session),
        {ok, Value, _} = Found ?= todana_scope_records:read(Table, Key),
        true ?= element(2, Value) =:= Ref,
        true ?= todana_claim_basis:is_same_generation(Basis),
        case Request of
            join -> {written, none};
            _ -> {written, todana_scope_records:token(Found)}
        end
    else
        _ -> {error, unknown}
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
