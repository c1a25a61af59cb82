%% Loads Mnesia as bench/load loads a server: by clients that wait for the end
%% of each transaction before they begin the next one.
%%
%% Called by replicated/mnesia.py:
%%     erl -pa DIRECTORY -run mnesia_load main PLACE
%% Starts three nodes, whose directories are below PLACE, and prints a line of
%% JSON with their processes. Then it reads lines such as
%%     disc sync_transaction 50 1000 7
%% from standard input, which are a table, an activity of Mnesia, the number of
%% clients, milliseconds and a seed, and answers each with a line of JSON. It
%% ends when standard input ends. The clients are processes of the first node.
-module(mnesia_load).

-export([main/1]).
%% For the other nodes.
-export([start/1, run/5]).

-define(KEYS, 100_000).
-define(VALUE_BYTES, 100).

-spec main([string()]) -> no_return().
main([Place]) ->
    Settings = ["-mnesia", "dump_log_write_threshold", "50000"],
    Flags = Settings ++ cluster:no_spinning(),
    {ok, Members} = cluster:start(["m1", "m2", "m3"], Flags, "mnesia"),
    Nodes = cluster:nodes_of(Members),
    ok = cluster:await_mesh(Members),
    [
        ok = erpc:call(Node, application, set_env,
                       [mnesia, dir, filename:join(Place, atom_to_list(Node))])
     || Node <- Nodes
    ],
    ok = erpc:call(hd(Nodes), ?MODULE, start, [Nodes]),
    print(#{pids => [list_to_integer(Pid) || #{os_pid := Pid} <- Members]}),
    commands(hd(Nodes)),
    ok = cluster:stop(Members),
    halt(0).

%% Makes the tables, with a copy at each node.
-spec start([node()]) -> ok.
start(Nodes) ->
    ok = mnesia:create_schema(Nodes),
    [{ok, ok} = Started || Started <- erpc:multicall(Nodes, mnesia, start, [])],
    {atomic, ok} = mnesia:create_table(disc, [{disc_copies, Nodes}]),
    {atomic, ok} = mnesia:create_table(ram, [{ram_copies, Nodes}]),
    ok.

-spec commands(node()) -> ok.
commands(Node) ->
    case io:get_line("") of
        eof ->
            ok;
        Line ->
            [Table, Activity | Numbers] = string:lexemes(Line, " \n"),
            [Clients, Ms, Seed] = [list_to_integer(N) || N <- Numbers],
            print(erpc:call(Node, ?MODULE, run, [
                list_to_atom(Table), list_to_atom(Activity),
                Clients, Ms, Seed
            ])),
            commands(Node)
    end.

-spec print(map()) -> ok.
print(Report) ->
    io:put_chars([json:encode(Report), $\n]).

-spec run(atom(), atom(), pos_integer(), pos_integer(), integer()) -> map().
run(Table, Activity, Clients, Ms, Seed) ->
    Self = self(),
    Unit = erlang:convert_time_unit(Ms, millisecond, native),
    Started = erlang:monotonic_time(),
    Workers = [
        spawn_link(fun() ->
            _ = rand:seed(exsss, {Seed, Number, 0}),
            Value = binary:copy(~"x", ?VALUE_BYTES),
            Self ! {self(), work(Table, Activity, Value, Started + Unit, [])}
        end)
     || Number <- lists:seq(1, Clients)
    ],
    Found = [receive {Worker, Times} -> Times end || Worker <- Workers],
    Taken = lists:sort(lists:append(Found)),
    Ns = erlang:convert_time_unit(
        erlang:monotonic_time() - Started, native, nanosecond
    ),
    Count = length(Taken),
    #{
        requests => Count,
        seconds => Ns / 1.0e9,
        requests_per_second => Count * 1.0e9 / Ns,
        p50_us => percentile(Taken, Count, 50),
        p99_us => percentile(Taken, Count, 99),
        max_us => lists:last(Taken) / 1.0e3
    }.

-spec percentile([integer()], pos_integer(), 1..99) -> float().
percentile(Taken, Count, Share) ->
    lists:nth(Count * Share div 100 + 1, Taken) / 1.0e3.

%% The nanoseconds of each transaction.
-spec work(atom(), atom(), binary(), integer(), [integer()]) -> [integer()].
work(Table, Activity, Value, End, Taken) ->
    Key = iolist_to_binary(
        io_lib:format("key:~12..0b", [rand:uniform(?KEYS) - 1])
    ),
    Begin = erlang:monotonic_time(),
    {atomic, ok} =
        mnesia:Activity(fun() -> mnesia:write({Table, Key, Value}) end),
    Ended = erlang:monotonic_time(),
    Ns = erlang:convert_time_unit(Ended - Begin, native, nanosecond),
    case Ended >= End of
        true -> [Ns | Taken];
        false -> work(Table, Activity, Value, End, [Ns | Taken])
    end.
