%% What guests cost: idle ones, and writers on guests beside as many on one
%% member.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -hidden -pa EBIN -run guests main IDLE GUESTS ROUNDS IDLE_MS WRITE_MS
%%         PLACE
%% Three members, with their logs below PLACE, and guests that are connected to
%% members only. IDLE of them are started first, and then the others. Prints a
%% line of JSON for each cell, with a figure for each round:
%%
%%     idle    cpu_percent, of a core, and messages_per_second of all nodes
%%             together: without guests, with IDLE of them, and with as many
%%             nodes without Todana that have the same connections
%%     memory  pss_mib of such a guest and of such a node, on average
%%     writes  cpu_us_per_write of all nodes, and writes_per_second, by one
%%             process on each of the guests, and as many on one member
%%     calls   cpu_us_per_call and calls_per_second, of as many processes on
%%             the guests: a message to a process at the seat and back, less
%%             than which no write of a guest can cost
-module(guests).

-export([main/1]).
%% For the peers.
-export([write/3, call/3, answer/0]).

-define(MEMBERS, 3).
-define(TABLE, guests).
-define(STEP_MS, 300_000).
%% What a node does after its start is no cost of an idle one.
-define(SETTLE_MS, 5_000).

-spec main([string()]) -> no_return().
main([Idle, Guests, Rounds, IdleMs, WriteMs, Place]) ->
    Plan = #{
        idle => list_to_integer(Idle), guests => list_to_integer(Guests),
        rounds => list_to_integer(Rounds), idle_ms => list_to_integer(IdleMs),
        write_ms => list_to_integer(WriteMs)
    },
    Members = started("member", ?MEMBERS),
    ok = todana_nodes:form(cluster:nodes_of(Members), Place),
    ok = idle(none, Members, [], Plan),
    Bare = bare(Members, Plan),
    ok = idle(bare, Members, Bare, Plan),
    Some = guests(Members, "idle", maps:get(idle, Plan)),
    timer:sleep(?SETTLE_MS),
    ok = print(#{
        operation => memory, guest_pss_mib => [pss_mib(Some)],
        bare_pss_mib => [pss_mib(Bare)]
    }),
    ok = cluster:stop(Bare),
    ok = idle(guests, Members, Some, Plan),
    Others = guests(
        Members, "other", maps:get(guests, Plan) - maps:get(idle, Plan)
    ),
    ok = writes(Members, Some ++ Others, Plan),
    halt(0).

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell#{part => guests}), $\n]).

-spec started(string(), non_neg_integer()) -> [cluster:member()].
started(Prefix, Count) ->
    Names = [lists:concat([Prefix, N]) || N <- lists:seq(1, Count)],
    Code = filename:dirname(code:which(todana)),
    Flags = cluster:one_thread() ++ ["-connect_all", "false", "-pa", Code],
    {ok, Started} = cluster:start(Names, Flags, "guests: " ++ Prefix),
    Started.

-spec guests([cluster:member()], string(), non_neg_integer()) ->
    [cluster:member()].
guests(Members, Prefix, Count) ->
    [First | _] = cluster:nodes_of(Members),
    Started = started(Prefix, Count),
    [
        ok = todana_nodes:begin_on(Guest, "off", [
            {cluster_join, atom_to_list(First)}, {no_replica, "yes"}
        ])
     || Guest <- cluster:nodes_of(Started)
    ],
    Started.

%% -------------------------------------------------------------- idle nodes ---

-spec idle(atom(), [cluster:member()], [cluster:member()], map()) -> ok.
idle(Beside, Members, Others, #{rounds := Rounds, idle_ms := IdleMs}) ->
    Nodes = Members ++ Others,
    timer:sleep(?SETTLE_MS),
    Found = [idle(Nodes, IdleMs) || _ <- lists:seq(1, Rounds)],
    {Cpu, Messages} = lists:unzip(Found),
    print(#{
        operation => idle, members => length(Members), beside => Beside,
        others => length(Others), cpu_percent => Cpu,
        messages_per_second => Messages
    }).

-spec idle([cluster:member()], pos_integer()) -> {float(), float()}.
idle(Nodes, Ms) ->
    Sent = sent(Nodes),
    {Ns, ok} = cpu_ns(Nodes, fun() -> timer:sleep(Ms) end),
    {rounded(Ns / Ms / 1.0e4), rounded((sent(Nodes) - Sent) * 1_000 / Ms)}.

-spec sent([cluster:member()]) -> non_neg_integer().
sent(Nodes) ->
    {Messages, _Bytes, _Ends} = cluster:traffic(Nodes),
    Messages.

-spec bare([cluster:member()], map()) -> [cluster:member()].
bare(Members, #{idle := Count}) ->
    Bare = started("bare", Count),
    [
        true = erpc:call(Node, net_kernel, connect_node, [Member])
     || Node <- cluster:nodes_of(Bare), Member <- cluster:nodes_of(Members)
    ],
    Bare.

-spec pss_mib([cluster:member()]) -> float().
pss_mib(Nodes) -> rounded(cluster:pss_kib(Nodes) / 1024 / length(Nodes)).

%% -------------------------------------------------------- writes and calls ---

%% The arms are interleaved. The first round is not counted.
-spec writes([cluster:member()], [cluster:member()], map()) -> ok.
writes(Members, Guests, #{rounds := Rounds, write_ms := Ms}) ->
    Options = #{durable => true, codec => term},
    [
        {ok, _} = erpc:call(Node, todana, open, [?TABLE, Options])
     || Node <- cluster:nodes_of(Members ++ Guests)
    ],
    Leader = erpc:call(
        hd(cluster:nodes_of(Members)), todana_members, leader, [0]
    ),
    Member = hd(cluster:nodes_of(Members) -- [Leader]),
    Count = length(Guests),
    [
        spawn(Node, ?MODULE, answer, []) || Node <- cluster:nodes_of(Members)
    ],
    OnGuests = [{Guest, 1} || Guest <- cluster:nodes_of(Guests)],
    Arms = [
        {writes, guests, write, OnGuests},
        {writes, member, write, [{Member, Count}]},
        {calls, guests, call, OnGuests}
    ],
    Found = [
        {Arm, step_on(Members ++ Guests, Function, Places, Ms)}
     || _ <- lists:seq(0, Rounds),
        {_, _, Function, Places} = Arm <- Arms
    ],
    [
        begin
            [_ | Counted] = [Figures || {A, Figures} <- Found, A =:= Arm],
            {Cpu, Rate} = lists:unzip(Counted),
            print(maps:merge(
                #{operation => Operation, at => At, guests => Count,
                  writers => Count},
                case Operation of
                    writes ->
                        #{cpu_us_per_write => Cpu, writes_per_second => Rate};
                    calls ->
                        #{cpu_us_per_call => Cpu, calls_per_second => Rate}
                end
            ))
        end
     || {Operation, At, _, _} = Arm <- Arms
    ],
    ok.

-spec step_on(
    [cluster:member()], write | call, [{node(), pos_integer()}], pos_integer()
) -> {float(), float()}.
step_on(Nodes, Function, Places, Ms) ->
    {Ns, Steps} = cpu_ns(Nodes, fun() ->
        Requests = [
            erpc:send_request(Node, ?MODULE, Function, [Node, Count, Ms])
         || {Node, Count} <- Places
        ],
        lists:sum([erpc:receive_response(R, ?STEP_MS) || R <- Requests])
    end),
    {rounded(Ns / Steps / 1_000), rounded(Steps * 1_000 / Ms)}.

%% Processes of this node write one record after another.
-spec write(node(), pos_integer(), pos_integer()) -> non_neg_integer().
write(Prefix, Count, Ms) ->
    steps(Count, Ms, fun(N, Done) ->
        todana:put(?TABLE, {Prefix, N}, Done)
    end).

%% The same with a message to the seat and back.
-spec call(node(), pos_integer(), pos_integer()) -> non_neg_integer().
call(_Prefix, Count, Ms) ->
    Place = {?MODULE, todana_guest:seat()},
    steps(Count, Ms, fun(_N, Done) ->
        Place ! {self(), Done},
        receive Done -> ok end
    end).

-spec answer() -> no_return().
answer() ->
    true = register(?MODULE, self()),
    answering().

-spec answering() -> no_return().
answering() ->
    receive {From, Number} -> From ! Number end,
    answering().

-spec steps(
    pos_integer(), pos_integer(),
    fun((pos_integer(), non_neg_integer()) -> ok)
) -> non_neg_integer().
steps(Count, Ms, Step) ->
    EndMs = erlang:monotonic_time(millisecond) + Ms,
    Processes = [
        spawn_monitor(fun() -> exit({done, steps_until(EndMs, N, Step, 0)}) end)
     || N <- lists:seq(1, Count)
    ],
    lists:sum([
        receive {'DOWN', Monitor, process, Pid, {done, Steps}} -> Steps end
     || {Pid, Monitor} <- Processes
    ]).

-spec steps_until(
    integer(), pos_integer(), fun((pos_integer(), non_neg_integer()) -> ok),
    non_neg_integer()
) -> non_neg_integer().
steps_until(EndMs, N, Step, Done) ->
    case erlang:monotonic_time(millisecond) < EndMs of
        true ->
            ok = Step(N, Done),
            steps_until(EndMs, N, Step, Done + 1);
        false ->
            Done
    end.

%% CPU time of all nodes meanwhile.
-spec cpu_ns([cluster:member()], fun(() -> Result)) -> {integer(), Result}.
cpu_ns(Nodes, Do) ->
    Before = cluster:threads_ns(Nodes),
    Result = Do(),
    {cluster:threads_ns(Nodes) - Before, Result}.

-spec rounded(number()) -> float().
rounded(Figure) -> round(Figure * 1.0e3) / 1.0e3.
