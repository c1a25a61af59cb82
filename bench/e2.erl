%% E2: where a hot server keeps its state. Many processes update and read one
%% status, which is stored in five ways.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run e2 main CELL_MS ROUNDS PROCESSES
%% Prints one line of JSON for each arm: operations per second of each round,
%% the CPU time of an operation (null if a round is too short for the system's
%% clock of CPU time), and the profile of all rounds. The arms are interleaved;
%% one that fails prints {"failed": Reason}. Updates and reads alternate. Each
%% is profiled while it is counted, and the cost of that is part of the figures
%% of every arm. With `profilers` for PROCESSES, prints one line for each
%% profiler: the microseconds of a pair of start and stop.
%%
%%     gen_server          the state of a process; each operation is a call
%%     ets                 a public table (the published remedy)
%%     mnesia_transaction  a table in memory, each operation a transaction
%%     mnesia_dirty        the same without transactions
%%     todana              a local table
-module(e2).
-behaviour(gen_server).

-export([main/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-type arm() ::
    gen_server | ets | mnesia_transaction | mnesia_dirty | todana.


-spec main([string()]) -> no_return().
main([CellMs, Rounds, Processes]) ->
    Plan = #{
        cell_ms => list_to_integer(CellMs),
        rounds => list_to_integer(Rounds)
    },
    case Processes of
        "profilers" -> profiling(Plan);
        _ -> cell(list_to_integer(Processes), Plan)
    end,
    halt(0).

-spec arms() -> [arm()].
arms() ->
    [gen_server, ets, mnesia_transaction, mnesia_dirty, todana].

-spec open(arm()) -> term().
open(gen_server) ->
    {ok, Pid} = gen_server:start_link(?MODULE, 0, []),
    Pid;
open(ets) ->
    Options = [public, {read_concurrency, true}, {write_concurrency, auto}],
    Table = ets:new(e2_status, Options),
    true = ets:insert(Table, {status, 0}),
    Table;
open(todana) ->
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(e2_status, #{codec => term}),
    ok = todana:put(e2_status, status, 0),
    e2_status;
open(Mnesia) ->
    ok = mnesia:start(),
    {atomic, ok} = mnesia:create_table(Mnesia, [{ram_copies, [node()]}]),
    ok = mnesia:dirty_write({Mnesia, status, 0}),
    Mnesia.

-spec cell(pos_integer(), map()) -> ok.
cell(Processes, #{rounds := Rounds} = Plan) ->
    Opened = interleave:open([
        {Arm, fun() ->
            Store = open(Arm),
            fun() -> measure(Arm, Store, Processes, Plan) end
        end}
     || Arm <- arms()
    ]),
    Warm = interleave:warm_up(Opened),
    ok = todana_profile:reset(),
    Played = interleave:play(Rounds, Warm),
    Profile = todana_profile:report(),
    lists:foreach(
        fun({Arm, _} = Found) ->
            Named = #{arm => Arm, processes => Processes},
            Figures = fun(Samples) -> rates(Arm, Samples, Profile) end,
            print(maps:merge(Named, interleave:figures(Found, Figures)))
        end,
        Played
    ).

-spec rates(
    arm(), [{float(), float() | null}], [todana_profile:row()]
) -> map().
rates(Arm, Samples, Profile) ->
    {Operations, Cpu} = lists:unzip(Samples),
    #{
        operations_per_second => Operations,
        cpu_us_per_operation => Cpu,
        profile =>
            [
                Row#{label := Operation}
             || #{label := {A, Operation}} = Row <- Profile, A =:= Arm
            ]
    }.

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

%% Operations per second of all processes together, and CPU microseconds of the
%% node for each.
-spec measure(arm(), term(), pos_integer(), map()) ->
    {float(), float() | null}.
measure(Arm, Store, Processes, #{cell_ms := CellMs}) ->
    Labels = {{Arm, update}, {Arm, read}},
    Work = fun(End) -> work(Arm, Store, Labels, End, 0) end,
    interleave:together(CellMs, lists:duplicate(Processes, Work)).

-spec work(arm(), term(), {term(), term()}, integer(), non_neg_integer()) ->
    non_neg_integer().
work(Arm, Store, {Update, Read} = Labels, End, Count) ->
    todana_profile:start(Update),
    _ = update(Arm, Store),
    todana_profile:stop(Update),
    todana_profile:start(Read),
    _ = read(Arm, Store),
    todana_profile:stop(Read),
    case erlang:monotonic_time() >= End of
        true -> Count + 2;
        false -> work(Arm, Store, Labels, End, Count + 2)
    end.

-spec update(arm(), term()) -> term().
update(gen_server, Pid) ->
    gen_server:call(Pid, update, infinity);
update(ets, Table) ->
    ets:update_counter(Table, status, 1);
update(mnesia_transaction, Table) ->
    {atomic, ok} = mnesia:transaction(fun() ->
        [{_, _, N}] = mnesia:read(Table, status, write),
        mnesia:write({Table, status, N + 1})
    end);
update(mnesia_dirty, Table) ->
    mnesia:dirty_update_counter(Table, status, 1);
update(todana, Table) ->
    {ok, _} = todana:update_counter(Table, status, 1).

-spec read(arm(), term()) -> term().
read(gen_server, Pid) ->
    gen_server:call(Pid, read, infinity);
read(ets, Table) ->
    [{_, N}] = ets:lookup(Table, status),
    N;
read(mnesia_transaction, Table) ->
    {atomic, [{_, _, N}]} =
        mnesia:transaction(fun() -> mnesia:read(Table, status) end),
    N;
read(mnesia_dirty, Table) ->
    [{_, _, N}] = mnesia:dirty_read(Table, status),
    N;
read(todana, Table) ->
    {ok, N} = todana:get(Table, status),
    N.

%% The state is a status, or the table of the profiler process.
-spec init(integer() | profiler) -> {ok, integer() | ets:table()}.
init(profiler) -> {ok, ets:new(e2_process_profile, [])};
init(N) -> {ok, N}.

-spec handle_call(update | read | await, gen_server:from(), State) ->
    {reply, integer() | ok, State}
when
    State :: integer() | ets:table().
handle_call(update, _From, N) -> {reply, N + 1, N + 1};
handle_call(read, _From, N) -> {reply, N, N};
handle_call(await, _From, Table) -> {reply, ok, Table}.

-spec handle_cast({start | stop, pid(), atom(), integer()}, ets:table()) ->
    {noreply, ets:table()}.
handle_cast({start, Pid, Label, At}, Table) ->
    _ = put({Pid, Label}, At),
    {noreply, Table};
handle_cast({stop, Pid, Label, At}, Table) ->
    add(Table, Label, At - erase({Pid, Label})),
    {noreply, Table}.

%% ------------------------------------------------------------- profiling ---

%% Measures a pair of start and stop:
%%     counters  todana_profile
%%     ets       start times and sums in a public table, by the caller
%%     process   the design of the original: both are cast to one process, with
%%               the caller's clock; it keeps the start times in its dictionary
%%               and the sums in a table. Its own work counts as well.
-spec profiling(map()) -> ok.
profiling(#{rounds := Rounds, cell_ms := CellMs}) ->
    Table = ets:new(e2_profile, [public]),
    {ok, Pid} = gen_server:start_link(?MODULE, profiler, []),
    Arms = [
        {counters, fun() -> counters_pairs(1000) end},
        {ets, fun() -> ets_pairs(Table, 1000) end},
        {process, fun() -> process_pairs(Pid, 1000) end}
    ],
    Samples = [
        {Arm, pair_us(Pairs, CellMs)}
     || _ <- lists:seq(0, Rounds), {Arm, Pairs} <- Arms
    ],
    {_WarmUp, Counted} = lists:split(length(Arms), Samples),
    lists:foreach(
        fun({Arm, _}) ->
            print(#{
                profiler => Arm,
                us_per_pair => [Us || {A, Us} <- Counted, A =:= Arm]
            })
        end,
        Arms
    ).

-spec pair_us(fun(() -> ok), pos_integer()) -> float().
pair_us(Pairs, CellMs) ->
    Unit = erlang:convert_time_unit(CellMs, millisecond, native),
    Started = erlang:monotonic_time(),
    Count = repeat(Pairs, Started + Unit, 0),
    Elapsed = erlang:monotonic_time() - Started,
    erlang:convert_time_unit(Elapsed, native, nanosecond) / 1.0e3 / Count.

-spec repeat(fun(() -> ok), integer(), non_neg_integer()) -> pos_integer().
repeat(Pairs, End, Count) ->
    ok = Pairs(),
    case erlang:monotonic_time() >= End of
        true -> Count + 1000;
        false -> repeat(Pairs, End, Count + 1000)
    end.

-spec counters_pairs(non_neg_integer()) -> ok.
counters_pairs(0) ->
    ok;
counters_pairs(Left) ->
    todana_profile:start(e2_pair),
    todana_profile:stop(e2_pair),
    counters_pairs(Left - 1).

-spec ets_pairs(ets:table(), non_neg_integer()) -> ok.
ets_pairs(_Table, 0) ->
    ok;
ets_pairs(Table, Left) ->
    Now = erlang:monotonic_time(),
    true = ets:insert(Table, {{started, self(), pair}, Now}),
    [{_, Started}] = ets:take(Table, {started, self(), pair}),
    Elapsed = erlang:monotonic_time() - Started,
    add(Table, pair, Elapsed),
    ets_pairs(Table, Left - 1).

%% The call returns when the process has handled all casts before it, so that
%% its mailbox does not grow without bound.
-spec process_pairs(pid(), non_neg_integer()) -> ok.
process_pairs(Pid, 0) ->
    gen_server:call(Pid, await, infinity);
process_pairs(Pid, Left) ->
    gen_server:cast(Pid, {start, self(), pair, erlang:monotonic_time()}),
    gen_server:cast(Pid, {stop, self(), pair, erlang:monotonic_time()}),
    process_pairs(Pid, Left - 1).

-spec add(ets:table(), atom(), integer()) -> ok.
add(Table, Label, Elapsed) ->
    _ = ets:update_counter(
        Table, Label, [{2, Elapsed}, {3, 1}], {Label, 0, 0}
    ),
    ok.
