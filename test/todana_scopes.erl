%% For tests of names and groups: a node of its own with a log, in which they
%% run, and processes that come and go. The node of other tests must not have
%% durable databases: they cannot change while it runs.
-module(todana_scopes).

-include_lib("stdlib/include/assert.hrl").

-export([in_durable_node/3]).
-export([names_outlive/1]).
-export([spawn_waiting/0, stop_process/1, remote/0, kill/1, settle/1, wait/1]).
%% Called in the node
-export([start/1]).

%% For a machine with much else to do.
-define(TIMEOUT_MS, 600_000).

%% Cases between these two functions, in a node whose directory has this name.
in_durable_node(Name, {Open, Close}, Cases) ->
    {setup, fun() -> start_node(Name) end, fun stop_node/1, fun({Peer, _}) ->
        [
            {Title, {timeout, ?TIMEOUT_MS div 1000, fun() ->
                in_node(Peer, Open),
                in_node(Peer, Test),
                in_node(Peer, Close)
            end}}
         || {Title, Test} <- Cases
        ]
    end}.

start_node(Name) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, wait_boot => ?TIMEOUT_MS,
        args => ["-pa" | code:get_path()]
    }),
    Directory = filename:join(
        filename:basedir(user_cache, "todana"),
        lists:concat([Name, "_", os:getpid()])
    ),
    ok = peer:call(Peer, ?MODULE, start, [Directory], ?TIMEOUT_MS),
    {Peer, Directory}.

stop_node({Peer, Directory}) ->
    ok = peer:stop(Peer),
    ok = file:del_dir_r(Directory).

in_node(Peer, Function) ->
    peer:call(Peer, erlang, apply, [Function, []], ?TIMEOUT_MS).

start(Directory) ->
    _ = application:load(todana),
    ok = application:set_env(todana, data_dir, Directory),
    {ok, _} = application:ensure_all_started(todana),
    ok.

%% Names of the scope `services', while these watchers are killed: no process
%% ends for that, and no name stays.
names_outlive(Watchers) ->
    Self = self(),
    Stayers = [spawn_waiting() || _ <- lists:seq(1, 50)],
    [yes = todana_names:register_name({services, Pid}, Pid) || Pid <- Stayers],
    Workers = [
        spawn_link(fun() ->
            [
                begin
                    Pid = spawn_waiting(),
                    yes = todana_names:register_name({services, {N, Pid}}, Pid),
                    stop_process(Pid)
                end
             || N <- lists:seq(1, 300)
            ],
            Self ! {done, self()}
        end)
     || _ <- lists:seq(1, 4)
    ],
    %% The supervisor bears 20 in 10 seconds.
    [
        begin
            kill(Watcher),
            timer:sleep(20)
        end
     || Watcher <- Watchers
    ],
    [receive {done, Worker} -> ok end || Worker <- Workers],
    wait(fun() -> todana_names:count(services) =:= 50 end),
    settle(Watchers),
    ?assertEqual(
        lists:sort(Stayers), lists:sort(todana_names:which_names(services))
    ),
    [?assert(is_process_alive(Pid)) || Pid <- Stayers],
    [
        ?assertEqual([Pid], todana_names:which_names(services, Pid))
     || Pid <- Stayers
    ],
    [stop_process(Pid) || Pid <- Stayers],
    wait(fun() -> todana_names:count(services) =:= 0 end).

spawn_waiting() -> spawn(fun() -> receive stop -> ok end end).

stop_process(Pid) ->
    Monitor = monitor(process, Pid),
    Pid ! stop,
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

%% A process of another node, in the external term format.
remote() ->
    binary_to_term(<<131, 88, 100, 0, 5, "a@b.c", 1:32, 0:32, 7:32>>).

%% Kills a process that its supervisor starts again.
kill(Name) ->
    Pid = whereis(Name),
    exit(Pid, kill),
    wait(fun() ->
        Now = whereis(Name),
        is_pid(Now) andalso Now =/= Pid
    end).

%% Each watcher has handled what it had been sent, and what that leads to.
settle(Watchers) ->
    [
        begin
            wait(fun() -> is_pid(whereis(Watcher)) end),
            _ = sys:get_state(Watcher, infinity),
            _ = sys:get_state(Watcher, infinity)
        end
     || Watcher <- Watchers
    ].

wait(Condition) ->
    case Condition() of
        true -> ok;
        false -> timer:sleep(5), wait(Condition)
    end.
