%% Erlang processes that wait until the records of this node are new enough.
-module(todana_read).
-moduledoc false.

-export([await/2, await/3, await_group/3, await_entry/2]).

-doc """
Returns when the records of this node have what the level promises; an error
after `write_timeout_ms`.
""".
-spec await(todana:table(), todana:read_level()) -> ok | todana_error:cause().
await(Table, Level) -> await(Table, Level, todana_durable:timeout_ms()).

-doc "The same, with an error after this time.".
-spec await(todana:table(), todana:read_level(), pos_integer()) ->
    ok | todana_error:cause().
await(_Table, local, _TimeoutMs) ->
    ok;
await(Table, Level, TimeoutMs) ->
    Begin = fun(Ref) -> todana_nif:read_await(Table, Level, Ref) end,
    case wait(no_leader, Begin, TimeoutMs) of
        {badarg, 0, away} ->
            todana_away:call(?MODULE, await, Table, [Level, TimeoutMs]);
        Result ->
            Result
    end.

-doc "The same for what is in no table: which tables a group has.".
-spec await_group(
    todana_raft_groups:id(), bounded | linear, pos_integer()
) -> ok | todana_error:cause().
await_group(Group, Level, TimeoutMs) ->
    Begin = fun(Ref) -> todana_nif:group_read_await(Group, Level, Ref) end,
    wait(no_leader, Begin, TimeoutMs).

-doc "Returns when this node has applied an entry of the log.".
-spec await_entry(todana:table(), non_neg_integer()) ->
    ok | todana_error:cause().
await_entry(Table, Index) ->
    Begin = fun(Ref) -> todana_nif:read_after(Table, Index, Ref) end,
    wait(not_applied, Begin, todana_durable:timeout_ms()).

-spec wait(
    atom(),
    fun((reference()) ->
        fresh | {submitted, pos_integer()} | todana_error:cause()),
    pos_integer()
) -> ok | todana_error:cause().
wait(Late, Begin, TimeoutMs) ->
    Ref = make_ref(),
    case Begin(Ref) of
        fresh ->
            ok;
        {submitted, Ticket} ->
            receive
                {Ref, Answer} -> outcome(Answer)
            after TimeoutMs ->
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

%% Without an outcome, the records are being replaced: those that can be read a
%% moment later need not be so new.
-spec outcome(fresh | not_executed) -> ok | todana_error:cause().
outcome(fresh) -> ok;
outcome(not_executed) -> {badarg, 0, recovering}.
