%% Erlang processes that wait until the records of this node are new enough.
-module(todana_read).
-moduledoc false.

-export([await/2, await_entry/2]).

-doc """
Returns when the records of this node have what the level promises; an error
after `write_timeout_ms`.
""".
-spec await(todana:table(), todana:read_level()) -> ok | todana_error:cause().
await(_Table, local) ->
    ok;
await(Table, Level) ->
    wait(no_leader, fun(Ref) -> todana_nif:read_await(Table, Level, Ref) end).

-doc "Returns when this node has applied an entry of the log.".
-spec await_entry(todana:table(), non_neg_integer()) ->
    ok | todana_error:cause().
await_entry(Table, Index) ->
    wait(not_applied, fun(Ref) ->
        todana_nif:read_after(Table, Index, Ref)
    end).

-spec wait(
    atom(),
    fun((reference()) ->
        fresh | {submitted, pos_integer()} | todana_error:cause())
) -> ok | todana_error:cause().
wait(Late, Begin) ->
    Ref = make_ref(),
    case Begin(Ref) of
        fresh ->
            ok;
        {submitted, Ticket} ->
            receive
                {Ref, Answer} -> outcome(Answer)
            after todana_durable:timeout_ms() ->
                withdraw(Ref, Ticket, Late)
            end;
        {badarg, _, _} = Cause ->
            Cause
    end.

-spec withdraw(reference(), pos_integer(), atom()) ->
    ok | todana_error:cause().
withdraw(Ref, Ticket, Late) ->
    case todana_nif:durable_withdraw(Ticket) of
        answered -> receive {Ref, Answer} -> outcome(Answer) end;
        _ -> {badarg, 0, Late}
    end.

%% If the records are being replaced, the read itself says so.
-spec outcome(fresh | not_executed) -> ok.
outcome(fresh) -> ok;
outcome(not_executed) -> ok.
