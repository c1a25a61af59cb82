%% Starts several peer nodes concurrently for a measurement. The control
%% connection of each ends it when the measuring node ends.
%%
%% Used by e2_replicated.erl, e3.erl, e3_names.erl, e4.erl, guests.erl,
%% names_many.erl and mnesia_load.erl.
%% Loopback, port mapper and cookie come from the environment that cluster.py
%% makes; peers inherit it.
-module(cluster).

-export([start/3, stop/1, nodes_of/1, await_mesh/1, await_mesh_of/1]).
-export([guarded/2, some_at_once/2, cpu_us/1]).
-export([threads_ns/1, pss_kib/1, traffic/1]).
-export([one_thread/0, no_spinning/0]).
%% For peers.
-export([seen/0, sent/1]).

-export_type([member/0]).

-type member() :: #{
    control := pid(), node := node(), os_pid := string()
}.

-define(BOOT_MS, 60_000).
-define(MESH_MS, 120_000).

%% Flags of a peer that runs one thread of Erlang code, does not spin while it
%% waits, and takes little memory.
-spec one_thread() -> [string()].
one_thread() ->
    string:lexemes("+S 1:1 +SDcpu 1:1 +SDio 1 +A 1", " ") ++ no_spinning().

%% Flags of a peer whose threads do not spin while they wait, like those of a
%% Todana server: nodes that share cores would take them from each other.
-spec no_spinning() -> [string()].
no_spinning() ->
    string:lexemes("+sbwt none +sbwtdcpu none +sbwtdio none", " ").

%% Starts peers of these names, two for each scheduler at a time. All or none
%% run when this returns. It prints its progress as lines that are not JSON.
-spec start([string()], [string()], string()) ->
    {ok, [member()]} | {error, term()}.
start(Names, Flags, Title) ->
    Width = 2 * erlang:system_info(schedulers_online),
    Started = start(Names, Flags, Title, length(Names), Width, 0, []),
    case [Reason || {error, Reason} <- Started] of
        [] ->
            {ok, [Member || {ok, Member} <- Started]};
        [Reason | _] ->
            ok = stop([Member || {ok, Member} <- Started]),
            {error, Reason}
    end.

-spec start(
    [string()], [string()], string(), non_neg_integer(), pos_integer(),
    non_neg_integer(), [{ok, member()} | {error, term()}]
) -> [{ok, member()} | {error, term()}].
start(_Names, _Flags, _Title, All, _Width, 0, Done) when length(Done) =:= All ->
    lists:reverse(Done);
start([Name | Names], Flags, Title, All, Width, Busy, Done)
  when Busy < Width ->
    Self = self(),
    _ = spawn(fun() -> Self ! {started, try_start(Name, Flags)} end),
    start(Names, Flags, Title, All, Width, Busy + 1, Done);
start(Names, Flags, Title, All, Width, Busy, Done) ->
    receive
        {started, Result} ->
            report(Title, length(Done) + 1, All),
            start(Names, Flags, Title, All, Width, Busy - 1, [Result | Done])
    end.

-spec report(string(), pos_integer(), pos_integer()) -> ok.
report(_Title, _Done, 1) ->
    ok;
report(Title, Done, All) when Done =:= All; Done rem 8 =:= 0 ->
    io:format("~ts: ~b of ~b nodes started~n", [Title, Done, All]);
report(_Title, _Done, _All) ->
    ok.

%% peer:start/1 exits if a node does not start. This returns a result in every
%% case, because start/7 waits for one.
-spec try_start(string(), [string()]) -> {ok, member()} | {error, term()}.
try_start(Name, Flags) ->
    Code = filename:dirname(code:which(?MODULE)),
    Options = #{
        name => Name,
        host => "127.0.0.1",
        longnames => true,
        connection => standard_io,
        wait_boot => ?BOOT_MS,
        %% A node that starts while the run ends must not leave a port mapper.
        args => Flags ++ kernel_flags() ++ ["-start_epmd", "false", "-pa", Code]
    },
    try
        case peer:start(Options) of
            {ok, Control, Node} -> connect(Control, Node);
            {error, Reason} -> {error, Reason}
        end
    catch
        _:Why -> {error, Why}
    end.

%% A node that started but cannot be reached is stopped.
-spec connect(pid(), node()) -> {ok, member()} | {error, term()}.
connect(Control, Node) ->
    try
        true = net_kernel:connect_node(Node),
        OsPid = peer:call(Control, os, getpid, []),
        {ok, #{control => Control, node => Node, os_pid => OsPid}}
    catch
        _:Reason ->
            ok = stop([#{control => Control, node => Node, os_pid => ""}]),
            {error, Reason}
    end.

%% Nodes come and go here on purpose: `global` must not see that as a
%% partition and disconnect others.
-spec kernel_flags() -> [string()].
kernel_flags() ->
    [
        "-kernel", "inet_dist_use_interface", "{127,0,0,1}",
        "prevent_overlapping_partitions", "false",
        "logger_level", "error"
    ].

-spec stop([member()]) -> ok.
stop(Members) ->
    lists:foreach(
        fun(#{control := Control}) ->
            try peer:stop(Control) catch exit:_ -> ok end
        end,
        Members
    ).

-spec nodes_of([member()]) -> [node()].
nodes_of(Members) ->
    [Node || #{node := Node} <- Members].

%% Does the same for each node: two for each scheduler of this node at a time.
-spec some_at_once([node()], fun((node()) -> ok)) -> ok.
some_at_once([], _Do) ->
    ok;
some_at_once(Nodes, Do) ->
    Width = min(length(Nodes), 2 * erlang:system_info(schedulers_online)),
    {Some, Rest} = lists:split(Width, Nodes),
    Started = [spawn_monitor(fun() -> Do(Node) end) || Node <- Some],
    [
        receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end
     || {Pid, Monitor} <- Started
    ],
    some_at_once(Rest, Do).

%% Waits until every node sees exactly the others.
-spec await_mesh([member()]) -> ok.
await_mesh(Members) ->
    await_mesh_of([node() | nodes_of(Members)]).

-spec await_mesh_of([node()]) -> ok.
await_mesh_of(Nodes) ->
    await_mesh(Nodes, erlang:monotonic_time(millisecond) + ?MESH_MS).

-spec await_mesh([node()], integer()) -> ok.
await_mesh(Nodes, Deadline) ->
    Expected = {ok, length(Nodes) - 1},
    Seen = erpc:multicall(Nodes, ?MODULE, seen, []),
    case lists:all(fun(Found) -> Found =:= Expected end, Seen) of
        true ->
            ok;
        false ->
            case erlang:monotonic_time(millisecond) >= Deadline of
                true -> error({no_mesh, length(Nodes)});
                false -> timer:sleep(20), await_mesh(Nodes, Deadline)
            end
    end.

%% Runs in a new process, so that its failure and the messages in its mailbox
%% end with it, and for this time at most.
-spec guarded(timeout(), fun(() -> Result)) ->
    {ok, Result} | {failed, binary()}.
guarded(Ms, Work) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({done, Work()}) end),
    receive
        {'DOWN', Monitor, process, Pid, {done, Result}} ->
            {ok, Result};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {failed, iolist_to_binary(io_lib:format("~0tP", [Reason, 30]))}
    after Ms ->
        exit(Pid, kill),
        receive {'DOWN', Monitor, process, Pid, _} -> ok end,
        {failed, <<"not done in time">>}
    end.

-spec seen() -> non_neg_integer().
seen() ->
    length(erlang:nodes()).

%% CPU time of this node and of the members so far, all threads included.
-spec cpu_us([member()]) -> non_neg_integer().
cpu_us(Members) ->
    lists:sum([
        process_cpu_us(Pid)
     || Pid <- [os:getpid() | [Pid || #{os_pid := Pid} <- Members]]
    ]).

-spec process_cpu_us(string()) -> non_neg_integer().
process_cpu_us(Pid) ->
    {ok, Bytes} = file:read_file(["/proc/", Pid, "/stat"]),
    [_, Rest] = binary:split(Bytes, <<") ">>),
    Fields = binary:split(Rest, <<" ">>, [global]),
    Ticks = [binary_to_integer(lists:nth(At, Fields)) || At <- [12, 13]],
    lists:sum(Ticks) * 10_000.

%% CPU time of the threads of the members so far, without this node. It counts
%% nanoseconds, where cpu_us/1 counts steps of 10 ms for each process, but takes
%% a read for each thread.
-spec threads_ns([member()]) -> non_neg_integer().
threads_ns(Members) ->
    lists:sum([process_ns("/proc/" ++ Pid) || #{os_pid := Pid} <- Members]).

-spec process_ns(string()) -> non_neg_integer().
process_ns(Process) ->
    {ok, Threads} = file:list_dir(Process ++ "/task"),
    lists:sum([
        thread_ns(lists:append([Process, "/task/", Thread, "/schedstat"]))
     || Thread <- Threads
    ]).

%% A thread may have ended.
-spec thread_ns(string()) -> non_neg_integer().
thread_ns(File) ->
    case file:read_file(File) of
        {ok, Bytes} ->
            [OnCpu | _] = binary:split(Bytes, <<" ">>),
            binary_to_integer(OnCpu);
        {error, _} ->
            0
    end.

%% Memory of the members; pages that several of them share count once.
-spec pss_kib([member()]) -> non_neg_integer().
pss_kib(Members) ->
    lists:sum([process_pss_kib(Pid) || #{os_pid := Pid} <- Members]).

-spec process_pss_kib(string()) -> non_neg_integer().
process_pss_kib(Pid) ->
    {ok, Bytes} = file:read_file(["/proc/", Pid, "/smaps_rollup"]),
    {match, [Kib]} = re:run(Bytes, "^Pss: +([0-9]+) kB", [
        multiline, {capture, all_but_first, list}
    ]),
    list_to_integer(Kib).

%% The messages and bytes that the members have sent on their connections, and
%% the ends of connections that they have: two for each. Those with this node do
%% not count.
-spec traffic([member()]) ->
    {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
traffic(Members) ->
    Nodes = nodes_of(Members),
    Found = [
        Sent
     || {ok, Sent} <- erpc:multicall(Nodes, ?MODULE, sent, [node()])
    ],
    true = length(Found) =:= length(Nodes),
    {Messages, Bytes, Ends} = lists:unzip3(Found),
    {lists:sum(Messages), lists:sum(Bytes), lists:sum(Ends)}.

-spec sent(node()) ->
    {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
sent(Except) ->
    Counts = [
        element(2, {ok, _} = inet:getstat(Port, [send_cnt, send_oct]))
     || {Node, Port} <- erlang:system_info(dist_ctrl), Node =/= Except
    ],
    {
        lists:sum([proplists:get_value(send_cnt, Count) || Count <- Counts]),
        lists:sum([proplists:get_value(send_oct, Count) || Count <- Counts]),
        length(Counts)
    }.
