%% Unique names for processes of this node: `todana_names' with local scopes.
-module(todana_names_tests).

-include_lib("eunit/include/eunit.hrl").

-import(todana_scopes, [
    spawn_waiting/0, stop_process/1, remote/0, settle/1, wait/1,
    names_outlive/1
]).

-export([init/1, handle_call/3, handle_cast/2]).

names_test_() ->
    {setup, fun start/0, fun stop/1, [
        {foreach, fun() -> open(local) end, fun close/1, titled([
            {"a supervisor restarts a named process", fun supervised/0},
            {"a later owner keeps the name", fun later_owner/0},
            {"unregistered and registered again", fun again/0},
            {"a scope is stopped and started meanwhile", fun stops/0},
            {"a watcher that ends", {timeout, 60, fun dead_watchers/0}},
            {"many names of one process", {timeout, 60, fun thousands/0}}
            | of_both()
        ])},
        {"the application is restarted", fun restart/0}
    ]}.

%% Cluster scopes promise the same, and more: `todana_cluster_names_tests'.
cluster_names_test_() ->
    Between = {fun() -> open(cluster) end, fun() -> close(ok) end},
    todana_scopes:in_durable_node(names_tests, Between, of_both()).

titled(Cases) -> [fun(_) -> {Title, Test} end || {Title, Test} <- Cases].

of_both() ->
    [
        {"any term is a name, once", fun any_term/0},
        {"a process has many names", fun many_names/0},
        {"scopes do not share names", fun scopes/0},
        {"metadata", fun metadata/0},
        {"via", fun via/0},
        {"a process that has ended has no name", fun ended/0},
        {"a name is freed without a look-up", fun freed/0},
        {"a scope that is stopped", fun stopped_scope/0},
        {"misuse", fun misuse/0},
        {"one of many gets a name", fun one_winner/0}
    ].

start() ->
    {ok, Started} = application:ensure_all_started(todana),
    Started.

stop(Started) ->
    [ok = application:stop(Application) || Application <- Started].

open(Class) ->
    [ok = todana_names:start_scope(Scope, Class) || Scope <- [services, other]],
    persistent_term:put(?MODULE, Class).

class() -> persistent_term:get(?MODULE).

close(_) ->
    [
        ok = todana_names:stop_scope(Scope)
     || Scope <- todana_names:which_scopes()
    ].

any_term() ->
    Pid = spawn_waiting(),
    Names = [
        a, 1, 1.0, <<"a">>, "a", {user, 7}, #{a => [b]}, self(), make_ref()
    ],
    [
        begin
            ?assertEqual(undefined, todana_names:whereis_name(Name)),
            ?assertEqual(yes, todana_names:register_name(Name, Pid)),
            ?assertEqual(Pid, todana_names:whereis_name(Name)),
            ?assertEqual(no, todana_names:register_name(Name, self())),
            ?assertEqual(no, todana_names:register_name(Name, Pid))
        end
     || Name <- [{services, Term} || Term <- Names]
    ],
    ?assertEqual(length(Names), todana_names:count(services)),
    [
        ?assertEqual({[], []}, {Names -- Found, Found -- Names})
     || Found <- [
            todana_names:which_names(services),
            todana_names:which_names(services, Pid)
        ]
    ],
    %% 1 and 1.0 are two names.
    ok = todana_names:unregister_name({services, 1}),
    ?assertEqual(Pid, todana_names:whereis_name({services, 1.0})),
    ?assertEqual(
        {[], []},
        begin
            Left = todana_names:which_names(services, Pid),
            {(Names -- [1]) -- Left, Left -- (Names -- [1])}
        end
    ),
    stop_process(Pid),
    wait(fun() -> todana_names:count(services) =:= 0 end).

many_names() ->
    Pid = spawn_waiting(),
    [yes = todana_names:register_name({services, N}, Pid) || N <- [1, 2, 3]],
    yes = todana_names:register_name({other, 4}, Pid),
    yes = todana_names:register_name({services, mine}, self()),
    Names = fun() -> lists:sort(todana_names:which_names(services, Pid)) end,
    ?assertEqual([1, 2, 3], Names()),
    ?assertEqual([4], todana_names:which_names(other, Pid)),
    ?assertEqual([mine], todana_names:which_names(services, self())),
    ok = todana_names:unregister_name({services, 2}),
    ?assertEqual([1, 3], Names()),
    stop_process(Pid),
    ?assertEqual([], todana_names:which_names(services, Pid)),
    wait(fun() -> todana_names:which_names(services) =:= [mine] end).

scopes() ->
    ?assertEqual([other, services], lists:sort(todana_names:which_scopes())),
    yes = todana_names:register_name({services, a}, self()),
    ?assertEqual(undefined, todana_names:whereis_name({other, a})),
    yes = todana_names:register_name({other, a}, self()),
    ok = todana_names:unregister_name({services, a}),
    ?assertEqual(self(), todana_names:whereis_name({other, a})).

metadata() ->
    ?assertEqual(error, todana_names:lookup({services, a})),
    yes = todana_names:register_name({services, a}, self(), #{weight => 1}),
    yes = todana_names:register_name({services, b}, self()),
    First = {ok, self(), #{weight => 1}},
    ?assertEqual(First, todana_names:lookup({services, a})),
    ?assertEqual({ok, self(), undefined}, todana_names:lookup({services, b})),
    ?assertEqual(ok, todana_names:set_metadata({services, b}, {x, y})),
    ?assertEqual({ok, self(), {x, y}}, todana_names:lookup({services, b})),
    ?assertEqual(self(), todana_names:whereis_name({services, b})),
    ?assertEqual(error, todana_names:set_metadata({services, c}, 1)),
    Pid = spawn_waiting(),
    yes = todana_names:register_name({services, d}, Pid, 1),
    stop_process(Pid),
    ?assertEqual(error, todana_names:set_metadata({services, d}, 2)),
    ?assertEqual(error, todana_names:lookup({services, d})).

via() ->
    Name = {via, todana_names, {services, {user, 7}}},
    {ok, Pid} = gen_server:start_link(Name, ?MODULE, [], []),
    ?assertEqual(hello, gen_server:call(Name, hello)),
    ?assertEqual(
        {error, {already_started, Pid}},
        gen_server:start_link(Name, ?MODULE, [], [])
    ),
    ok = gen_server:stop(Name),
    ?assertExit({noproc, _}, gen_server:call(Name, hello)),
    ?assertExit(
        {badarg, {{services, {user, 7}}, hello}},
        todana_names:send({services, {user, 7}}, hello)
    ),
    yes = todana_names:register_name({services, me}, self()),
    ?assertEqual(self(), todana_names:send({services, me}, hello)),
    receive hello -> ok end.

%% The supervisor registers the name anew, before any watcher has freed it.
supervised() ->
    Watchers = todana_name_watcher:watchers(),
    Name = {services, supervised},
    {ok, Supervisor} = supervisor:start_link(?MODULE, {supervisor, Name}),
    [ok = sys:suspend(Watcher) || Watcher <- Watchers],
    try
        lists:foreach(
            fun(_) ->
                Pid = todana_names:whereis_name(Name),
                Monitor = monitor(process, Pid),
                exit(Pid, kill),
                receive {'DOWN', Monitor, _, _, _} -> ok end,
                _ = supervisor:which_children(Supervisor),
                Next = todana_names:whereis_name(Name),
                ?assert(is_pid(Next)),
                ?assertNotEqual(Pid, Next)
            end,
            lists:seq(1, 5)
        )
    after
        [ok = sys:resume(Watcher) || Watcher <- Watchers]
    end,
    Last = todana_names:whereis_name(Name),
    settle(todana_name_watcher:watchers()),
    ?assertEqual(Last, todana_names:whereis_name(Name)),
    ?assertEqual([supervised], todana_names:which_names(services, Last)),
    unlink(Supervisor),
    Down = monitor(process, Supervisor),
    exit(Supervisor, shutdown),
    receive {'DOWN', Down, _, _, _} -> ok end.

ended() ->
    Pid = spawn_waiting(),
    yes = todana_names:register_name({services, a}, Pid),
    stop_process(Pid),
    ?assertEqual(undefined, todana_names:whereis_name({services, a})),
    ?assertEqual(yes, todana_names:register_name({services, a}, self())),
    %% A process that has ended may be given a name, and does not keep it.
    yes = todana_names:register_name({services, b}, Pid),
    ?assertEqual(undefined, todana_names:whereis_name({services, b})),
    wait(fun() -> todana_names:count(services) =:= 1 end).

freed() ->
    Pids = [spawn_waiting() || _ <- lists:seq(1, 100)],
    [yes = todana_names:register_name({services, Pid}, Pid) || Pid <- Pids],
    ?assertEqual(100, todana_names:count(services)),
    [stop_process(Pid) || Pid <- Pids],
    wait(fun() -> todana_names:count(services) =:= 0 end).

later_owner() ->
    Watchers = todana_name_watcher:watchers(),
    Pid = spawn_waiting(),
    yes = todana_names:register_name({services, a}, Pid),
    [ok = sys:suspend(Watcher) || Watcher <- Watchers],
    stop_process(Pid),
    yes = todana_names:register_name({services, a}, self()),
    [ok = sys:resume(Watcher) || Watcher <- Watchers],
    settle(todana_name_watcher:watchers()),
    ?assertEqual(self(), todana_names:whereis_name({services, a})).

%% Messages of several processes about one name may arrive in any order.
again() ->
    Pid = spawn_waiting(),
    Name = {services, a},
    yes = todana_names:register_name(Name, Pid),
    ok = todana_names:unregister_name(Name),
    yes = todana_names:register_name(Name, Pid),
    %% As if another process had unregistered it before.
    ok = todana_name_watcher:unwatch(Pid, services, a),
    ?assertEqual([a], todana_names:which_names(services, Pid)),
    ok = todana_names:unregister_name(Name),
    %% As if the message about the registration had come late.
    ok = todana_name_watcher:watch(Pid, services, a),
    ?assertEqual([], todana_names:which_names(services, Pid)),
    yes = todana_names:register_name(Name, Pid),
    stop_process(Pid),
    wait(fun() -> todana_names:count(services) =:= 0 end),
    ?assertEqual(ok, todana_names:unregister_name(Name)).

stopped_scope() ->
    Pid = spawn_waiting(),
    yes = todana_names:register_name({services, a}, Pid),
    yes = todana_names:register_name({other, a}, Pid),
    ok = todana_names:stop_scope(services),
    ?assertError(badarg, todana_names:whereis_name({services, a})),
    ?assertEqual([other], todana_names:which_scopes()),
    ok = todana_names:start_scope(services, class()),
    ?assertEqual(undefined, todana_names:whereis_name({services, a})),
    ?assertEqual([], todana_names:which_names(services, Pid)),
    yes = todana_names:register_name({services, a}, Pid),
    ?assertEqual([a], todana_names:which_names(services, Pid)),
    stop_process(Pid),
    Counts = fun() -> [todana_names:count(It) || It <- [services, other]] end,
    wait(fun() -> Counts() =:= [0, 0] end).

%% A process that uses a scope while others stop it gets a result, or an error
%% with a sentence; and no table is left.
stops() ->
    Tables = fun() ->
        Sup = whereis(todana_sup),
        length([T || T <- ets:all(), ets:info(T, owner) =:= Sup])
    end,
    Before = Tables(),
    Workers = [
        spawn_monitor(fun() -> repeat(2_000, Work) end)
     || Work <- [
            fun() -> todana_names:start_scope(often, local) end,
            fun() -> todana_names:stop_scope(often) end,
            fun() -> todana_names:stop_scope(often) end,
            fun() -> todana_names:register_name({often, a}, self()) end,
            fun() -> todana_names:unregister_name({often, a}) end,
            fun() -> todana_names:which_names(often, self()) end,
            fun() -> todana_names:count(often) end
        ]
    ],
    [
        receive {'DOWN', Monitor, process, Pid, Reason} ->
            ?assertEqual(normal, Reason)
        end
     || {Pid, Monitor} <- Workers
    ],
    ok = todana_names:start_scope(often, local),
    ok = todana_names:stop_scope(often),
    ?assertEqual(Before, Tables()).

repeat(0, _Work) ->
    ok;
repeat(Times, Work) ->
    try Work()
    catch
        error:badarg:Stack ->
            #{1 := _} = todana_error:format_error(badarg, Stack)
    end,
    repeat(Times - 1, Work).

misuse() ->
    ok = todana_names:start_scope(services, class()),
    [Other] = [local, cluster] -- [class()],
    No = {none, a},
    [
        ?assertError(badarg, apply(todana_names, Function, Arguments))
     || {Function, Arguments} <- [
            {start_scope, ["services", local]},
            {start_scope, [services, global]},
            {start_scope, [services, Other]},
            {stop_scope, [none]},
            {register_name, [No, self()]},
            {register_name, [a, self()]},
            {register_name, [{services, a}, a]},
            {register_name, [No, self(), 1]},
            {register_name, [{services, a}, remote()]},
            {unregister_name, [No]},
            {unregister_name, [a]},
            {whereis_name, [No]},
            {whereis_name, [a]},
            {send, [No, hello]},
            {lookup, [No]},
            {set_metadata, [No, 1]},
            {which_names, [none]},
            {which_names, [none, self()]},
            {which_names, [services, "a"]},
            {count, [none]}
        ]
    ],
    _ = class() =:= local andalso
        [
            ?assertError(badarg, apply(todana_names, Function, Arguments))
         || {Function, Arguments} <- [
                {which_names, [services, remote()]},
                {which_names, [services, a]},
                {register_name_token, [{services, a}, self()]},
                {reregister_name_token, [{services, a}, 1, self()]},
                {unregister_name_token, [{services, a}, 1]},
                {lookup_token, [{services, a}]},
                {await_name, [{services, a}, 0]}
            ]
        ],
    try todana_names:whereis_name(No)
    catch
        error:badarg:Stack ->
            Text = todana_error:format_error(badarg, Stack),
            ?assertMatch(#{1 := _}, Text),
            #{1 := Sentence} = Text,
            ?assertMatch("no scope of this name" ++ _, lists:flatten(Sentence))
    end,
    ?assertEqual([], todana_names:which_names(services)).

one_winner() ->
    lists:foreach(
        fun(Name) ->
            Self = self(),
            Go = make_ref(),
            Pids = [
                spawn_link(fun() ->
                    receive Go -> ok end,
                    Full = {services, Name},
                    Self ! {self(), todana_names:register_name(Full, self())},
                    receive Go -> ok end
                end)
             || _ <- lists:seq(1, 8)
            ],
            [Pid ! Go || Pid <- Pids],
            Answers = [
                receive {Pid, Answer} -> {Answer, Pid} end || Pid <- Pids
            ],
            [Winner] = [Pid || {yes, Pid} <- Answers],
            ?assertEqual(Winner, todana_names:whereis_name({services, Name})),
            [Pid ! Go || Pid <- Pids]
        end,
        lists:seq(1, 200)
    ).

%% Watchers are killed while names come and go. No process ends for that, and no
%% name stays.
dead_watchers() -> names_outlive(todana_name_watcher:watchers()).

%% More than a watcher frees in a turn.
thousands() ->
    Pid = spawn_waiting(),
    Names = [{services, N} || N <- lists:seq(1, 3_001)],
    [yes = todana_names:register_name(Name, Pid) || Name <- Names],
    ?assertEqual(3_001, length(todana_names:which_names(services, Pid))),
    stop_process(Pid),
    ?assertEqual([], todana_names:which_names(services, Pid)),
    wait(fun() -> todana_names:which_names(services) =:= [] end).

restart() ->
    ok = todana_names:start_scope(services, local),
    yes = todana_names:register_name({services, a}, self()),
    ok = application:stop(todana),
    [
        try
            Call(),
            error(no_error)
        catch
            error:badarg:Stack ->
                #{1 := Sentence} = todana_error:format_error(badarg, Stack),
                ?assertEqual(
                    "the application todana is not running",
                    lists:flatten(Sentence)
                )
        end
     || Call <- [
            fun() -> todana_names:start_scope(services, local) end,
            fun() -> todana_names:stop_scope(services) end,
            fun() -> todana_names:whereis_name({services, a}) end
        ]
    ],
    ok = application:start(todana),
    ?assertEqual([], todana_names:which_scopes()),
    ok = todana_names:start_scope(services, local),
    ?assertEqual([], todana_names:which_names(services)),
    %% Nothing calls the application's stop function here.
    Master = application_controller:get_master(todana),
    Monitor = monitor(process, Master),
    exit(Master, kill),
    receive {'DOWN', Monitor, process, Master, killed} -> ok end,
    wait(fun() -> whereis(todana_sup) =:= undefined end),
    wait(fun() -> application:start(todana) =:= ok end),
    ok = todana_names:start_scope(services, local),
    yes = todana_names:register_name({services, a}, self()),
    ok = todana_names:stop_scope(services).

%% A process with a name, and its supervisor.
init({supervisor, Name}) ->
    Via = {via, todana_names, Name},
    Start = {gen_server, start_link, [Via, ?MODULE, [], []]},
    {ok, {#{intensity => 10}, [#{id => child, start => Start}]}};
init([]) ->
    {ok, none}.

handle_call(Request, _From, State) -> {reply, Request, State}.

handle_cast(_Request, State) -> {noreply, State}.
