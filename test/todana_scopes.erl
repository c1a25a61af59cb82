%% For tests of names and groups: a node with a log of its own, and processes
%% that come and go.
-module(todana_scopes).

-export([start_durable/1, stop_durable/1]).
-export([spawn_waiting/0, stop_process/1, remote/0, kill/1, settle/1, wait/1]).

%% For the setup of tests, and the cleanup. The directory has this name.
start_durable(Name) ->
    _ = application:load(todana),
    Directory = filename:join(
        filename:basedir(user_cache, "todana"),
        lists:concat([Name, "_", os:getpid()])
    ),
    ok = application:set_env(todana, data_dir, Directory),
    {ok, Started} = application:ensure_all_started(todana),
    {Started, Directory}.

stop_durable({Started, Directory}) ->
    [ok = application:stop(Application) || Application <- Started],
    ok = application:unset_env(todana, data_dir),
    ok = file:del_dir_r(Directory).

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
