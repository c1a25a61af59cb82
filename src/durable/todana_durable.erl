%% Writes to durable tables by Erlang processes, and the named tables of the
%% log.
%%
%% A native function that writes to a durable table answers `durable'. It is
%% then called again, with {Form, Ref} in place of Form, by the fun that is
%% given to `write/1': it queues the write for the log and answers {submitted,
%% Ticket}. Once the log has executed it, the caller receives {Ref, Answer}:
%% native/nif/src/submit.rs.
-module(todana_durable).
-moduledoc false.

-export([configure/1, timeout_ms/0, write/1, keyed/2]).
-export([open/2, table/1, await_tables/0, drop/1]).

-define(TIMEOUT, {?MODULE, write_timeout_ms}).
-define(TIMEOUT_DEFAULT_MS, 5000).
%% A caller that finds the queue of the log full looks again after this time.
-define(PAUSE_MS, 2).
%% A caller that waits for the names of tables looks again after this time.
-define(RECOVERY_PAUSE_MS, 20).

-doc "Sets how long a write waits for the log.".
-spec configure(todana_config:options()) -> ok.
configure(#{write_timeout_ms := TimeoutMs}) ->
    persistent_term:put(?TIMEOUT, TimeoutMs).

-doc "How long a write waits for the log, and a read for the leader.".
-spec timeout_ms() -> pos_integer().
timeout_ms() -> persistent_term:get(?TIMEOUT, ?TIMEOUT_DEFAULT_MS).

-doc """
Submits a write and waits for its outcome. The result is what the native
function answers for a table in memory; `{error, unknown}` if the write may or
may not be executed; `{badarg, 0, recovering | unavailable}` if it is not.
""".
-spec write(fun((reference()) -> dynamic())) -> dynamic().
write(Submit) ->
    write(Submit, now_ms() + timeout_ms()).

-spec write(fun((reference()) -> dynamic()), integer()) -> dynamic().
write(Submit, DeadlineMs) ->
    %% The group of each durable table, while there is one.
    Group = todana_raft_groups:first(),
    Batcher = todana_raft_groups:name(todana_batcher, Group),
    Ref = monitor(process, Batcher),
    case Submit(Ref) of
        {submitted, Ticket} ->
            wait(Ref, Ticket, DeadlineMs);
        busy ->
            true = demonitor(Ref, [flush]),
            again(Submit, DeadlineMs);
        Refused ->
            true = demonitor(Ref, [flush]),
            outcome(Refused)
    end.

%% If the batcher dies, another one takes over what it had in flight, so that
%% the outcome still arrives, unless the application is being stopped.
-spec wait(reference(), pos_integer(), integer()) -> dynamic().
wait(Ref, Ticket, DeadlineMs) ->
    receive
        {Ref, Answer} ->
            true = demonitor(Ref, [flush]),
            outcome(Answer);
        {'DOWN', Ref, process, _, noproc} ->
            withdraw(Ref, Ticket);
        {'DOWN', Ref, process, _, _} ->
            wait(Ref, Ticket, DeadlineMs)
    after max(0, DeadlineMs - now_ms()) ->
        true = demonitor(Ref, [flush]),
        withdraw(Ref, Ticket)
    end.

-spec withdraw(reference(), pos_integer()) -> dynamic().
withdraw(Ref, Ticket) ->
    case todana_nif:durable_withdraw(Ticket) of
        answered -> receive {Ref, Answer} -> outcome(Answer) end;
        Outcome -> outcome(Outcome)
    end.

-spec again(fun((reference()) -> dynamic()), integer()) -> dynamic().
again(Submit, DeadlineMs) ->
    receive
    after ?PAUSE_MS -> ok
    end,
    case now_ms() < DeadlineMs of
        true -> write(Submit, DeadlineMs);
        false -> outcome(not_executed)
    end.

-spec outcome(dynamic()) -> dynamic().
outcome(not_executed) ->
    %% Reads say the same.
    case todana_nif:durable_state() of
        open -> {badarg, 0, unavailable};
        read_only -> {badarg, 0, unavailable};
        _ -> {badarg, 0, recovering}
    end;
outcome(recovering) -> {badarg, 0, recovering};
outcome(unknown) -> {error, unknown};
outcome(Answer) -> Answer.

-spec now_ms() -> integer().
now_ms() ->
    erlang:monotonic_time(millisecond).

-doc """
Calls native code with a form; if the table is durable, once more with the form
that makes it submit the write.
""".
-spec keyed(todana_nif:form(), fun((todana_nif:form()) -> dynamic())) ->
    dynamic().
keyed(Form, Call) ->
    case Call(Form) of
        durable -> write(fun(Ref) -> Call({Form, Ref}) end);
        Result -> Result
    end.

-doc "The options of a named table of the log, if there is one of this name.".
-spec table(atom()) -> {ok, map()} | error.
table(Name) ->
    case todana_nif:durable_table(atom_to_binary(Name)) of
        none ->
            error;
        {Codec, TtlMs, Order, Shards} ->
            {ok, #{
                codec => Codec,
                ttl_ms => TtlMs,
                order => Order,
                shards => Shards
            }}
    end.

-doc """
Returns when the named tables of the log are known; an error if the log cannot
be read.
""".
-spec await_tables() -> ok | {badarg, 0, recovering}.
await_tables() ->
    case todana_nif:durable_state() of
        closed ->
            case todana_group_notes:failure() of
                none ->
                    timer:sleep(?RECOVERY_PAUSE_MS),
                    await_tables();
                _ ->
                    {badarg, 0, recovering}
            end;
        _ ->
            ok
    end.

-doc """
Creates a named table of the log unless it exists. `Wanted` are the options as
`todana_call_options` reads them. The result is whether it has these options.
""".
-spec open(atom(), map()) ->
    ok | {error, {differs, map()} | unknown} | todana_nif:cause().
open(Name, #{codec := Codec, order := Order, ttl_ms := TtlMs} = Wanted) ->
    case todana_nif:durable_state() of
        none ->
            case whereis(todana_tables) of
                undefined -> {badarg, 1, not_running};
                _ -> {badarg, 2, no_data_dir}
            end;
        closed ->
            {badarg, 0, recovering};
        _ ->
            Options = #{
                codec => Codec,
                ttl_ms => or_nil(TtlMs),
                order => Order,
                shards => maps:get(shards, Wanted, nil)
            },
            case table(Name) of
                {ok, Options} -> ok;
                {ok, Present} -> {error, {differs, Present}};
                error -> create(Name, Wanted, Options)
            end
    end.

-spec create(atom(), map(), map()) ->
    ok | {error, {differs, map()} | unknown} | todana_nif:cause().
create(Name, Wanted, Options) ->
    #{codec := Codec, ttl_ms := TtlMs, order := Order, shards := Shards} =
        Options,
    Created = write(fun(Ref) ->
        todana_nif:create_durable(
            atom_to_binary(Name), Codec, TtlMs, Order, Shards, {0, Ref}
        )
    end),
    case Created of
        Id when is_integer(Id) -> ok;
        {error, present} -> open(Name, Wanted);
        Failure -> Failure
    end.

-doc "Removes a named table of the log with its records.".
-spec drop(atom()) -> ok | error | {error, unknown} | todana_nif:cause().
drop(Name) ->
    Drop = fun(Ref) ->
        todana_nif:drop_durable(atom_to_binary(Name), {0, Ref})
    end,
    case write(Drop) of
        {error, absent} -> error;
        Result -> Result
    end.

-spec or_nil(T | infinity) -> T | nil.
or_nil(infinity) -> nil;
or_nil(Value) -> Value.
