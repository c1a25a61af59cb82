%% Groups of processes in a node with a log of its own.
-module(todana_groups_tests).

-include_lib("eunit/include/eunit.hrl").

-import(todana_scopes, [
    spawn_waiting/0, stop_process/1, remote/0,
    kill/1, wait/1
]).

-define(TABLE, 'todana_names.rooms').

groups_test_() ->
    [
        todana_scopes:in_durable_node(groups_tests, {fun open/0, fun close/0}, [
            {"members come and go", fun come_and_go/0},
            {"a process joins several times", fun several_times/0},
            {"any term is a group", fun any_term/0},
            {"a process that ends leaves", fun ended/0},
            {"a monitor of a group", fun monitored/0},
            {"a monitor of all groups", fun monitored_scope/0},
            {"monitors while members change", fun exact/0},
            {"a monitor whose events were lost", fun lost_events/0},
            {"copies of members", fun copies/0},
            {"many monitors", fun many_monitors/0},
            {"the process that monitors ends", fun dead_monitor/0},
            {"a table that is removed", fun removed_table/0},
            {"members of a session that has ended", fun ended_session/0},
            {"many members", fun many/0},
            {"misuse", fun misuse/0}
        ])
    ].

open() -> ok = todana_names:start_scope(rooms, cluster).

close() ->
    ok = todana_names:stop_scope(rooms),
    wait(fun() -> todana:count(?TABLE) =:= 1 end).

come_and_go() ->
    ?assertEqual([], todana_groups:get_members(rooms, a)),
    ?assertEqual([], todana_groups:which_groups(rooms)),
    [P, Q] = [spawn_waiting() || _ <- [1, 2]],
    ?assertEqual(ok, todana_groups:join(rooms, a, P)),
    ?assertEqual(ok, todana_groups:join(rooms, b, [P, Q])),
    ?assertEqual(ok, todana_groups:join(rooms, c, [])),
    ?assertEqual([P], todana_groups:get_members(rooms, a)),
    [
        ?assertEqual(lists:sort([P, Q]), lists:sort(Members))
     || Members <- [
            todana_groups:get_members(rooms, b),
            todana_groups:get_local_members(rooms, b)
        ]
    ],
    ?assertEqual([a, b], lists:sort(todana_groups:which_groups(rooms))),
    %% Names and groups do not meet.
    ?assertEqual([], todana_names:which_names(rooms)),
    ?assertEqual([], todana_names:which_names(rooms, P)),
    ?assertEqual(not_joined, todana_groups:leave(rooms, a, Q)),
    ?assertEqual(not_joined, todana_groups:leave(rooms, a, [])),
    ?assertEqual(ok, todana_groups:leave(rooms, a, [P, Q])),
    ?assertEqual(not_joined, todana_groups:leave(rooms, a, P)),
    ?assertEqual([b], todana_groups:which_groups(rooms)),
    [stop_process(Pid) || Pid <- [P, Q]].

several_times() ->
    Pid = spawn_waiting(),
    ok = todana_groups:join(rooms, a, [Pid, Pid]),
    ok = todana_groups:join(rooms, a, Pid),
    ?assertEqual([Pid, Pid, Pid], todana_groups:get_members(rooms, a)),
    ok = todana_groups:leave(rooms, a, Pid),
    ?assertEqual([Pid, Pid], todana_groups:get_members(rooms, a)),
    ok = todana_groups:leave(rooms, a, [Pid, Pid, Pid]),
    ?assertEqual([], todana_groups:get_members(rooms, a)),
    ok = todana_groups:join(rooms, a, [Pid, Pid]),
    stop_process(Pid),
    wait(fun() -> todana_groups:get_members(rooms, a) =:= [] end).

%% No group is the beginning of another one.
any_term() ->
    Groups = [
        a, aa, 1, 1.0, <<>>, <<"g">>, <<"gg">>, "", {room, 9}, #{}, self(),
        make_ref(), binary:copy(~"x", 1_000)
    ],
    [ok = todana_groups:join(rooms, Group, self()) || Group <- Groups],
    [
        ?assertEqual([self()], todana_groups:get_members(rooms, Group))
     || Group <- Groups
    ],
    Found = todana_groups:which_groups(rooms),
    ?assertEqual({[], []}, {Groups -- Found, Found -- Groups}),
    [ok = todana_groups:leave(rooms, Group, self()) || Group <- Groups],
    ?assertEqual(
        {error, too_large},
        todana_groups:join(rooms, binary:copy(~"x", 1 bsl 20), self())
    ).

ended() ->
    Pids = [spawn_waiting() || _ <- lists:seq(1, 50)],
    ok = todana_groups:join(rooms, a, Pids),
    ok = todana_groups:join(rooms, b, Pids),
    [stop_process(Pid) || Pid <- Pids],
    wait(fun() -> todana_groups:which_groups(rooms) =:= [] end).

monitored() ->
    [P, Q] = [spawn_waiting() || _ <- [1, 2]],
    ok = todana_groups:join(rooms, a, P),
    {Ref, [P]} = todana_groups:monitor(rooms, a),
    {Other, []} = todana_groups:monitor(rooms, b),
    ok = todana_groups:join(rooms, a, [Q, Q]),
    ?assertEqual([Q, Q], joined(Ref, a, 2)),
    ok = todana_groups:leave(rooms, a, P),
    receive {Ref, leave, a, [P]} -> ok end,
    ?assertEqual(ok, todana_groups:demonitor(rooms, Ref)),
    ?assertEqual(false, todana_groups:demonitor(rooms, Ref)),
    stop_process(Q),
    ok = todana_groups:join(rooms, b, P),
    receive {Other, join, b, [P]} -> ok end,
    stop_process(P),
    receive {Other, leave, b, [P]} -> ok end,
    ok = todana_groups:demonitor(rooms, Other),
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% One step may be reported in several messages.
joined(_Ref, _Group, 0) ->
    [];
joined(Ref, Group, Left) ->
    receive
        {Ref, join, Group, Pids} ->
            Pids ++ joined(Ref, Group, Left - length(Pids))
    end.

monitored_scope() ->
    P = spawn_waiting(),
    ok = todana_groups:join(rooms, a, P),
    {Ref, Members} = todana_groups:monitor_scope(rooms),
    ?assertEqual(#{a => [P]}, Members),
    ok = todana_groups:join(rooms, b, P),
    receive {Ref, join, b, [P]} -> ok end,
    stop_process(P),
    Left = [receive {Ref, leave, Group, [P]} -> Group end || _ <- [1, 2]],
    ?assertEqual([a, b], lists:sort(Left)),
    ok = todana_groups:demonitor(rooms, Ref).

%% Whenever it begins, a monitor knows the members. It reads many of another
%% group, so changes come meanwhile.
exact() ->
    Self = self(),
    Many = lists:duplicate(2_000, Self),
    [ok = todana_groups:join(rooms, z, Many) || _ <- lists:seq(1, 5)],
    Workers = [
        spawn_link(fun() ->
            [
                begin
                    ok = todana_groups:join(rooms, a, self()),
                    ok = todana_groups:leave(rooms, a, self())
                end
             || _ <- lists:seq(1, 150)
            ],
            ok = todana_groups:join(rooms, a, self()),
            Self ! {joined, self()},
            receive stop -> ok end
        end)
     || _ <- lists:seq(1, 4)
    ],
    Watchers = [
        spawn_link(fun() ->
            timer:sleep(N * 7),
            {Ref, Members} = todana_groups:monitor_scope(rooms),
            Self ! {self(), follow(Ref, maps:get(a, Members, []))},
            ok = todana_groups:demonitor(rooms, Ref)
        end)
     || N <- lists:seq(1, 20)
    ],
    [receive {joined, Worker} -> ok end || Worker <- Workers],
    [Watcher ! {'end', Self} || Watcher <- Watchers],
    [
        receive {Watcher, Members} ->
            ?assertEqual(lists:sort(Workers), lists:sort(Members))
        end
     || Watcher <- Watchers
    ],
    [begin unlink(Pid), Pid ! stop end || Pid <- Workers],
    [ok = todana_groups:leave(rooms, z, Many) || _ <- lists:seq(1, 5)].

%% The members after all changes. A leave of none would be a fault.
follow(Ref, Members) ->
    receive
        {Ref, join, a, Pids} ->
            follow(Ref, Pids ++ Members);
        {Ref, leave, a, Pids} ->
            [] = Pids -- Members,
            follow(Ref, Members -- Pids);
        {'end', _} ->
            %% Messages that are on their way come first.
            {Other, _} = todana_groups:monitor(rooms, a),
            ok = todana_groups:demonitor(rooms, Other),
            rest(Ref, Members)
    end.

rest(Ref, Members) ->
    receive
        {Ref, join, a, Pids} -> rest(Ref, Pids ++ Members);
        {Ref, leave, a, Pids} -> rest(Ref, Members -- Pids)
    after 0 ->
        Members
    end.

%% A process finds what it has done, while others make copies.
copies() ->
    Readers = [
        spawn_link(fun() -> look_up(a) end) || _ <- [1, 2]
    ],
    Pid = spawn_waiting(),
    lists:foreach(
        fun(_) ->
            ok = todana_groups:join(rooms, a, Pid),
            ?assertEqual([Pid], todana_groups:get_members(rooms, a)),
            ok = todana_groups:join(rooms, a, self()),
            ?assertEqual(2, length(todana_groups:get_members(rooms, a))),
            ok = todana_groups:leave(rooms, a, [self(), Pid]),
            ?assertEqual([], todana_groups:get_members(rooms, a))
        end,
        lists:seq(1, 200)
    ),
    ok = todana_groups:join(rooms, a, Pid),
    wait(fun() ->
        _ = todana_groups:get_members(rooms, a),
        todana_name_cache:find({groups, ?TABLE}, a) =:= {ok, [Pid]}
    end),
    stop_process(Pid),
    wait(fun() -> todana_groups:get_members(rooms, a) =:= [] end),
    [begin unlink(Reader), exit(Reader, kill) end || Reader <- Readers].

look_up(Group) ->
    _ = todana_groups:get_members(rooms, Group),
    look_up(Group).

%% More than a table permits subscriptions.
many_monitors() ->
    Groups = lists:seq(1, 100),
    Refs = [{Group, todana_groups:monitor(rooms, Group)} || Group <- Groups],
    ok = todana_groups:join(rooms, 50, self()),
    {50, {Ref, []}} = lists:keyfind(50, 1, Refs),
    receive {Ref, join, 50, [_]} -> ok end,
    [ok = todana_groups:demonitor(rooms, R) || {_, {R, []}} <- Refs],
    ok = todana_groups:leave(rooms, 50, self()),
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% A process that monitors a group learns of the end of that.
dead_monitor() ->
    {Ref, []} = todana_groups:monitor(rooms, a),
    kill(todana_scope_monitor),
    receive {'DOWN', Ref, process, _, killed} -> ok end,
    ?assertEqual(false, todana_groups:demonitor(rooms, Ref)),
    {Next, []} = todana_groups:monitor(rooms, a),
    ok = todana_groups:join(rooms, a, self()),
    receive {Next, join, a, [_]} -> ok end,
    ok = todana_groups:demonitor(rooms, Next),
    ok = todana_groups:leave(rooms, a, self()).

%% What cannot be read for a while takes no subscriptions for ever.
removed_table() ->
    ok = todana_names:start_scope(gone, cluster),
    {Ref, []} = todana_groups:monitor(gone, a),
    ok = todana:drop('todana_names.gone'),
    timer:sleep(1_500),
    {ok, _} = todana:open('todana_names.gone', #{
        durable => true, type => ordered_set
    }),
    wait(fun() ->
        case todana_groups:join(gone, a, self()) of
            ok -> true;
            {error, _} -> false
        end
    end),
    receive {Ref, join, a, [_]} -> ok end,
    ok = todana_groups:demonitor(gone, Ref),
    Subscriptions = [
        S || {ok, S} <- [todana:subscribe('todana_names.gone', #{})
                         || _ <- lists:seq(1, 25)]
    ],
    ?assertEqual(25, length(Subscriptions)),
    [ok = todana:unsubscribe(S) || S <- Subscriptions],
    ok = todana_names:stop_scope(gone),
    ok = todana:drop('todana_names.gone').

%% The process that monitors hangs, and its subscription overflows.
lost_events() ->
    {Ref, []} = todana_groups:monitor(rooms, a),
    ok = sys:suspend(todana_scope_monitor),
    Pid = spawn_waiting(),
    [
        begin
            ok = todana_groups:join(rooms, a, lists:duplicate(400, Pid)),
            ok = todana_groups:leave(rooms, a, lists:duplicate(400, Pid))
        end
     || _ <- lists:seq(1, 25)
    ],
    ok = todana_groups:join(rooms, a, self()),
    ok = sys:resume(todana_scope_monitor),
    ok = todana_groups:leave(rooms, a, self()),
    %% However many it has missed, in the end it knows the members.
    wait(fun() -> follow_now(Ref, []) =:= [] end),
    ok = todana_groups:join(rooms, a, self()),
    receive {Ref, join, a, [Self]} when Self =:= self() -> ok end,
    ok = todana_groups:leave(rooms, a, self()),
    receive {Ref, leave, a, [Own]} when Own =:= self() -> ok end,
    ok = todana_groups:demonitor(rooms, Ref),
    stop_process(Pid).

follow_now(Ref, Members) ->
    receive
        {Ref, join, a, Pids} -> follow_now(Ref, Pids ++ Members);
        {Ref, leave, a, Pids} -> follow_now(Ref, Members -- Pids)
    after 200 ->
        Members
    end.

%% Members join again without being asked.
ended_session() ->
    #{session := Session} = todana_name_scopes:table(rooms),
    ok = todana_groups:join(rooms, a, [self(), self()]),
    {Ref, [_, _]} = todana_groups:monitor(rooms, a),
    ok = todana_scope_records:end_session(?TABLE, Session),
    wait(fun() ->
        Now = todana_name_scopes:table(rooms),
        map_get(session, Now) =/= Session andalso
            todana_groups:get_local_members(rooms, a) =:= [self(), self()]
    end),
    wait(fun() -> length(todana_groups:get_members(rooms, a)) =:= 2 end),
    ?assertEqual([self(), self()], follow_now(Ref, [self(), self()])),
    ok = todana_groups:demonitor(rooms, Ref),
    ok = todana_groups:leave(rooms, a, [self(), self()]).

%% More than a page of the table, and of a step.
many() ->
    Pids = [spawn_waiting() || _ <- lists:seq(1, 1_500)],
    ok = todana_groups:join(rooms, a, Pids),
    ?assertEqual(
        lists:sort(Pids), lists:sort(todana_groups:get_members(rooms, a))
    ),
    [ok = todana_groups:join(rooms, {a, N}, self()) || N <- lists:seq(1, 600)],
    ?assertEqual(601, length(todana_groups:which_groups(rooms))),
    Selves = lists:duplicate(2_000, self()),
    ?assertEqual(
        {error, too_large}, todana_groups:join(rooms, a, [self() | Selves])
    ),
    ok = todana_groups:join(rooms, b, Selves),
    ?assertEqual(2_000, length(todana_groups:get_members(rooms, b))),
    ?assertEqual(
        {error, too_large}, todana_groups:leave(rooms, b, [self() | Selves])
    ),
    ok = todana_groups:leave(rooms, b, Selves),
    ?assertEqual([], todana_groups:get_members(rooms, b)),
    [stop_process(Pid) || Pid <- Pids],
    wait(fun() -> todana_groups:get_members(rooms, a) =:= [] end).

misuse() ->
    ok = todana_names:start_scope(here, local),
    Remote = remote(),
    [
        ?assertError(badarg, apply(todana_groups, Function, Arguments))
     || {Function, Arguments} <- [
            {join, [none, a, self()]},
            {join, [here, a, self()]},
            {join, [rooms, a, Remote]},
            {join, [rooms, a, [self(), a]]},
            {join, [rooms, a, a]},
            {join, [rooms, a, [self() | a]]},
            {leave, [rooms, a, Remote]},
            {leave, [none, a, self()]},
            {get_members, [none, a]},
            {get_local_members, [none, a]},
            {which_groups, [none]},
            {monitor, [none, a]},
            {monitor_scope, [none]},
            {demonitor, [rooms, a]}
        ]
    ],
    try todana_groups:join(here, a, self())
    catch
        error:badarg:Stack ->
            #{1 := Sentence} = todana_error:format_error(badarg, Stack),
            ?assertMatch("a local scope" ++ _, lists:flatten(Sentence))
    end,
    ok = todana_names:stop_scope(here).
