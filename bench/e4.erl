%% E4: the flooded mailbox. One process per message casts to a remote echo
%% server; the process that started them all receives the replies, which pile up
%% in its mailbox while it is still spawning.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run e4 main ROUNDS DEADLINE_MS MESSAGES
%% Prints one line of JSON for each mailbox and path: the figures of each round,
%% or {"failed": Reason}. A round ends when every message has come back, or at
%% its deadline, even if messages wait in the mailbox. Of the messages `sent`,
%% some are `received`, some are still `waiting` in the mailbox at the end, and
%% the others are `lost`: they did not come back.
%%
%% Mailboxes of all processes in the path: on_heap, off_heap. Paths, both ways:
%%     direct  every message is sent separately
%%     timer   a buffer on each node, as published: it sends 101 messages at
%%             once, or fewer after 100 ms without a message, newest first
%%     load    a sender on each node that sends all its messages as one list,
%%             immediately if it is idle, otherwise when the previous list has
%%             been taken; it needs no timer and keeps the order
%%
%% A process in the path (timer, load) numbers the messages in the order in
%% which it takes them; messages that are sent directly have no order (null).
%% `out_of_order_there` counts the messages that the echo server received after
%% a later one, `out_of_order` those that came back after a later one. Only
%% `load` promises an order. (Two buffers that reverse the order restore it as
%% long as both send the same messages together.)
%%
%% The receiver samples the length of its own queue: when all messages are sent,
%% because it takes none until then, and after every 256 messages. A request
%% from outside would change the measurement, because the process would have to
%% fetch its messages to answer.
-module(e4).

-export([main/1]).
%% For the peer.
-export([far_side/3]).

-type mailbox() :: on_heap | off_heap.
-type path() :: direct | timer | load.
%% The process that takes the messages for the other node.
-type way() :: direct | pid().

-define(PAYLOAD, <<"nineteen bytes long">>).
-define(WARM_UP, 10_000).
-define(BUFFERED, 100).
-define(QUIET_MS, 100).
-define(GATHERED, 100).
-define(LOOK_EVERY, 256).
-define(ANSWER_MS, 5_000).
%% CPU time is counted in steps of 10 ms: less than this is no measurement.
-define(CPU_US_MIN, 100_000).
%% Time after the last message in which a duplicate can arrive.
-define(AFTER_MS, 20).

-spec main([string()]) -> no_return().
main([Rounds, DeadlineMs, Messages]) ->
    Plan = #{
        rounds => list_to_integer(Rounds),
        deadline_ms => list_to_integer(DeadlineMs)
    },
    {ok, Members} = cluster:start(["echo"], [], "e4"),
    cells(list_to_integer(Messages), Members, Plan),
    ok = cluster:stop(Members),
    halt(0).

-spec arms() -> [{mailbox(), path()}].
arms() ->
    [{Mailbox, Path}
     || Path <- [direct, timer, load], Mailbox <- [on_heap, off_heap]].

%% The arms are interleaved, round by round.
-spec cells(pos_integer(), [cluster:member()], map()) -> ok.
cells(Count, Members, #{rounds := Rounds} = Plan) ->
    %% Each arm warms up once, which is not counted.
    _ = [guarded(Arm, min(Count, ?WARM_UP), Members, Plan) || Arm <- arms()],
    Samples = [
        {Arm, guarded(Arm, Count, Members, Plan)}
     || Round <- lists:seq(1, Rounds),
        ok =:= io:format("e4: ~b messages, round ~b~n", [Count, Round]),
        Arm <- arms()
    ],
    lists:foreach(
        fun({Mailbox, Path} = Arm) ->
            Found = [Sample || {A, Sample} <- Samples, A =:= Arm],
            Named = #{messages => Count, mailbox => Mailbox, path => Path},
            print(maps:merge(Named, figures(Found)))
        end,
        arms()
    ).

-spec figures([{ok, map()} | {failed, binary()}]) -> map().
figures(Found) ->
    case lists:keyfind(failed, 1, Found) of
        {failed, Reason} -> #{failed => Reason};
        false -> #{rounds => [Sample || {ok, Sample} <- Found]}
    end.

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

%% ------------------------------------------------------------ a round -----

%% A failure of one round does not affect the next.
-spec guarded(
    {mailbox(), path()}, pos_integer(), [cluster:member()], map()
) -> {ok, map()} | {failed, binary()}.
guarded(Arm, Count, Members, Plan) ->
    cluster:guarded(infinity, fun() -> round(Arm, Count, Members, Plan) end).

%% All processes of a round are new, and linked to the one that runs this.
-spec round({mailbox(), path()}, pos_integer(), [cluster:member()], map()) ->
    map().
round({Mailbox, Path}, Count, Members, #{deadline_ms := DeadlineMs}) ->
    Self = self(),
    [Node] = cluster:nodes_of(Members),
    Way = way(Mailbox, Path),
    Far = spawn_link(Node, ?MODULE, far_side, [Self, Mailbox, Path]),
    {Echo, FarWay} = receive {Far, Found} -> Found end,
    ok = join(Way, FarWay),
    %% For each message: nanoseconds from its sending to its counting.
    Latencies = atomics:new(Count, []),
    Options = [link, {message_queue_data, Mailbox}],
    Counter = spawn_opt(
        fun() ->
            Until = receive {go, Deadline} -> Deadline end,
            Sent = flood(Count, self(), Echo, Way, Until, 0),
            Counts = count(Sent, Latencies, Until),
            Self ! {self(), Sent, Counts#{waiting => queue_length()}}
        end,
        Options
    ),
    Tracer = spawn_link(fun() -> trace(0, 0, 0) end),
    Session = trace:session_create(?MODULE, Tracer, []),
    1 = trace:process(
        Session, Counter, true, [garbage_collection, monotonic_timestamp]
    ),
    Cpu = cluster:cpu_us(Members),
    Started = erlang:monotonic_time(),
    Limit = erlang:convert_time_unit(DeadlineMs, millisecond, native),
    Counter ! {go, Started + Limit},
    {Sent, Counts} = receive {Counter, S, C} -> {S, C} end,
    CpuUs = cluster:cpu_us(Members) - Cpu,
    Delivered = trace:delivered(Session, Counter),
    receive {trace_delivered, Counter, Delivered} -> ok end,
    true = trace:session_destroy(Session),
    {Collections, CollectingNs} = ask(Tracer),
    Report = report(Sent, Counts, Latencies, Started, #{
        out_of_order_there => ask(Echo),
        gc_count => Collections,
        gc_ms => CollectingNs / 1.0e6,
        cpu_ms => case CpuUs < ?CPU_US_MIN of
            true -> null;
            false -> CpuUs / 1.0e3
        end
    }),
    case Path of
        direct -> Report#{out_of_order := null, out_of_order_there := null};
        _ -> Report
    end.

-spec report(
    non_neg_integer(), map(), atomics:atomics_ref(), integer(), map()
) -> map().
report(Sent, Counts, Latencies, Started, Figures) ->
    #{
        received := Received,
        waiting := Waiting,
        ended := Ended,
        duplicated := Duplicated,
        out_of_order := OutOfOrder,
        queue_peak := Peak
    } = Counts,
    Elapsed = erlang:convert_time_unit(Ended - Started, native, nanosecond),
    Sorted = lists:sort([
        Ns
     || N <- lists:seq(1, Sent), Ns <- [atomics:get(Latencies, N)], Ns > 0
    ]),
    Figures#{
        sent => Sent,
        received => Received,
        waiting => Waiting,
        %% Waiting messages may be duplicates.
        lost => max(0, Sent - Received - Waiting),
        duplicated => Duplicated,
        out_of_order => OutOfOrder,
        wall_ms => Elapsed / 1.0e6,
        per_second => Received * 1.0e9 / Elapsed,
        p50_us => percentile(Sorted, Received, 0.50),
        p99_us => percentile(Sorted, Received, 0.99),
        queue_peak => Peak
    }.

-spec percentile([pos_integer()], non_neg_integer(), float()) ->
    float() | null.
percentile([], _Count, _Part) ->
    null;
percentile(Sorted, Count, Part) ->
    lists:nth(max(1, ceil(Count * Part)), Sorted) / 1.0e3.

%% A process that has fallen behind does not answer in time.
-spec ask(pid()) -> term().
ask(Pid) ->
    Pid ! {ask, self()},
    receive {Pid, Answer} -> Answer after ?ANSWER_MS -> null end.

%% Starts one process for each message. Reads the clock after every thousand;
%% after the deadline it sends no more.
-spec flood(
    pos_integer(), pid(), pid(), way(), integer(), non_neg_integer()
) -> non_neg_integer().
flood(Count, _Counter, _Echo, _Way, _Until, Sent) when Sent =:= Count ->
    Sent;
flood(Count, Counter, Echo, Way, Until, Sent) ->
    case Sent rem 1000 =:= 0 andalso erlang:monotonic_time() >= Until of
        true ->
            Sent;
        false ->
            Id = Sent + 1,
            _ = spawn(fun() ->
                Now = erlang:monotonic_time(),
                give(Way, Echo, {Counter, Id, Now, 0, ?PAYLOAD})
            end),
            flood(Count, Counter, Echo, Way, Until, Id)
    end.

-spec count(non_neg_integer(), atomics:atomics_ref(), integer()) -> map().
count(Sent, Latencies, Until) ->
    Counts = #{
        received => 0, duplicated => 0, out_of_order => 0, ended => 0,
        queue_peak => 0
    },
    count(Sent, Latencies, Until, 0, look(Counts)).

-spec look(map()) -> map().
look(#{queue_peak := Peak, received := Received} = Counts)
  when Received rem ?LOOK_EVERY =:= 0 ->
    Counts#{queue_peak := max(Peak, queue_length())};
look(Counts) ->
    Counts.

-spec queue_length() -> non_neg_integer().
queue_length() ->
    {message_queue_len, Length} = process_info(self(), message_queue_len),
    Length.

-spec count(
    non_neg_integer(), atomics:atomics_ref(), integer(), non_neg_integer(),
    map()
) -> map().
count(Sent, Latencies, Until, Last, #{received := Received} = Counts) ->
    case wait_ms(Sent - Received, Until) of
        past -> Counts#{ended := erlang:monotonic_time()};
        Wait -> count(Sent, Latencies, Until, Last, Counts, Wait)
    end.

-spec count(
    non_neg_integer(), atomics:atomics_ref(), integer(), non_neg_integer(),
    map(), non_neg_integer()
) -> map().
count(Sent, Latencies, Until, Last, #{received := Received} = Counts, Wait) ->
    receive
        {echo, Id, SentAt, Number, ?PAYLOAD} ->
            Now = erlang:monotonic_time(),
            Ns = erlang:convert_time_unit(Now - SentAt, native, nanosecond),
            Next = case atomics:exchange(Latencies, Id, max(1, Ns)) of
                0 -> look(Counts#{received := Received + 1, ended := Now});
                _ -> bump(duplicated, Counts)
            end,
            case Number < Last of
                true ->
                    Late = bump(out_of_order, Next),
                    count(Sent, Latencies, Until, Last, Late);
                false ->
                    count(Sent, Latencies, Until, Number, Next)
            end
    after Wait ->
        case Received =:= Sent of
            true -> Counts;
            false -> Counts#{ended := erlang:monotonic_time()}
        end
    end.

-spec bump(atom(), map()) -> map().
bump(Name, Counts) ->
    maps:update_with(Name, fun(N) -> N + 1 end, Counts).

-spec wait_ms(non_neg_integer(), integer()) -> non_neg_integer() | past.
wait_ms(0, _Until) ->
    ?AFTER_MS;
wait_ms(_Missing, Until) ->
    case Until - erlang:monotonic_time() of
        Left when Left > 0 ->
            erlang:convert_time_unit(Left, native, millisecond);
        _ ->
            past
    end.

%% Counts garbage collections of both generations, and their time.
-spec trace(non_neg_integer(), integer(), integer()) -> ok.
trace(Count, Native, Since) ->
    receive
        {trace_ts, _, gc_minor_start, _, At} -> trace(Count, Native, At);
        {trace_ts, _, gc_major_start, _, At} -> trace(Count, Native, At);
        {trace_ts, _, gc_minor_end, _, At} ->
            trace(Count + 1, Native + At - Since, Since);
        {trace_ts, _, gc_major_end, _, At} ->
            trace(Count + 1, Native + At - Since, Since);
        {ask, From} ->
            Ns = erlang:convert_time_unit(Native, native, nanosecond),
            From ! {self(), {Count, Ns}},
            ok
    end.

%% ------------------------------------------------------------ the path ----

-spec way(mailbox(), path()) -> way().
way(_Mailbox, direct) ->
    direct;
way(Mailbox, timer) ->
    spawn_opt(
        fun() -> receive {join, Far} -> buffer(Far, 0, 0, []) end end,
        [link, {message_queue_data, Mailbox}]
    );
way(Mailbox, load) ->
    %% The process that takes lists does not build them, so that it takes a list
    %% immediately even if many messages wait to be sent.
    Taker = spawn_opt(fun take/0, [link, {message_queue_data, Mailbox}]),
    spawn_opt(
        fun() ->
            receive
                {join, Far} ->
                    Far ! {taker, Taker},
                    receive {taker, FarTaker} -> idle(FarTaker, 0) end
            end
        end,
        [link, {message_queue_data, Mailbox}]
    ).

%% Introduces the processes of both nodes to each other.
-spec join(way(), way()) -> ok.
join(direct, direct) ->
    ok;
join(Near, Far) ->
    Near ! {join, Far},
    Far ! {join, Near},
    ok.

%% Sends a message to a process of the other node.
-spec give(way(), pid(), tuple()) -> ok.
give(direct, To, Message) ->
    To ! Message,
    ok;
give(Way, To, Message) ->
    Way ! {give, To, Message},
    ok.

%% Numbers the messages of the near side; replies keep their number.
-spec numbered(tuple(), non_neg_integer()) -> tuple().
numbered({Counter, Id, SentAt, 0, Payload}, Number) ->
    {Counter, Id, SentAt, Number, Payload};
numbered(Reply, _Number) ->
    Reply.

%% The published buffer: one process for both directions.
-spec buffer(pid(), non_neg_integer(), non_neg_integer(), [tuple()]) ->
    no_return().
buffer(Far, Number, Held, Messages) ->
    receive
        {give, To, Message} ->
            Next = [{To, numbered(Message, Number + 1)} | Messages],
            case Held >= ?BUFFERED of
                true ->
                    Far ! {batch, Next},
                    buffer(Far, Number + 1, 0, []);
                false ->
                    buffer(Far, Number + 1, Held + 1, Next)
            end;
        {batch, Batch} ->
            deliver(Batch),
            buffer(Far, Number, Held, Messages)
    after ?QUIET_MS ->
        _ = Messages =/= [] andalso (Far ! {batch, Messages}),
        buffer(Far, Number, 0, [])
    end.

-spec deliver([{pid(), tuple()}]) -> ok.
deliver(Batch) ->
    lists:foreach(fun({To, Message}) -> To ! Message end, Batch).

%% The sender by load, with no list on its way.
-spec idle(pid(), non_neg_integer()) -> no_return().
idle(Taker, Number) ->
    receive
        {give, To, Message} ->
            First = {To, numbered(Message, Number + 1)},
            gather(Taker, Number + 1, 1, [First])
    end.

%% Sends all messages that have arrived as one list. In a flood the mailbox is
%% never empty, so the length of a list is limited.
-spec gather(pid(), non_neg_integer(), pos_integer(), [tuple()]) ->
    no_return().
gather(Taker, Number, Count, Messages) when Count >= ?GATHERED ->
    send(Taker, Number, Messages);
gather(Taker, Number, Count, Messages) ->
    receive
        {give, To, Message} ->
            Next = {To, numbered(Message, Number + 1)},
            gather(Taker, Number + 1, Count + 1, [Next | Messages])
    after 0 ->
        send(Taker, Number, Messages)
    end.

-spec send(pid(), non_neg_integer(), [tuple()]) -> no_return().
send(Taker, Number, Messages) ->
    Taker ! {batch, self(), lists:reverse(Messages)},
    busy(Taker, Number, 0, []).

%% The sender by load, with a list on its way: new messages wait until the list
%% has been taken.
-spec busy(pid(), non_neg_integer(), non_neg_integer(), [tuple()]) ->
    no_return().
busy(Taker, Number, Count, Messages) ->
    receive
        {give, To, Message} ->
            Next = {To, numbered(Message, Number + 1)},
            busy(Taker, Number + 1, Count + 1, [Next | Messages]);
        taken when Count =:= 0 ->
            idle(Taker, Number);
        taken ->
            gather(Taker, Number, Count, Messages)
    end.

-spec take() -> no_return().
take() ->
    receive
        {batch, Sender, Batch} ->
            Sender ! taken,
            deliver(Batch)
    end,
    take().

%% --------------------------------------------------------- on the peer ----

%% The echo server of a round, and the process in its path back.
-spec far_side(pid(), mailbox(), path()) -> no_return().
far_side(Parent, Mailbox, Path) ->
    Way = way(Mailbox, Path),
    Options = [link, {message_queue_data, Mailbox}],
    Echo = spawn_opt(fun() -> echo(Way, 0, 0) end, Options),
    Parent ! {self(), {Echo, Way}},
    receive stop -> exit(normal) end.

-spec echo(way(), non_neg_integer(), non_neg_integer()) -> no_return().
echo(Way, Last, Late) ->
    receive
        {Counter, Id, SentAt, Number, Payload} ->
            give(Way, Counter, {echo, Id, SentAt, Number, Payload}),
            case Number < Last of
                true -> echo(Way, Last, Late + 1);
                false -> echo(Way, Number, Late)
            end;
        {ask, From} ->
            From ! {self(), Late},
            echo(Way, Last, Late)
    end.
