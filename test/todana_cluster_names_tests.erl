%% Names in cluster scopes, in a node with a log of its own: tokens, owners that
%% end at any moment, and writes of which nobody knows the outcome.
-module(todana_cluster_names_tests).

-include_lib("eunit/include/eunit.hrl").

-import(todana_scopes, [
    spawn_waiting/0, stop_process/1, remote/0, kill/1, wait/1,
    names_outlive/1
]).

-define(TABLE, 'todana_names.services').
-define(SILENT, {silent, nothing}).
%% Longer than a doubt takes to begin.
-define(LATE_MS, 60_000).

cluster_names_test_() ->
    Between = {fun open/0, fun close/0},
    [
        todana_scopes:in_durable_node(cluster_names_tests, Between, [
            {"tokens only grow", fun tokens/0},
            {"tokens grow although writes are lost", fun eras/0},
            {"a name is moved by its token", fun move/0},
            {"freed by its token", fun free_by_token/0},
            {"a process waits for a name", fun await_name/0},
            {"a supervisor restarts a named process", fun supervised/0},
            {"a later owner keeps the name", fun later_owner/0},
            {"a caller that ends on the way", fun dead_callers/0},
            {"a watcher that ends", fun dead_watchers/0},
            {"many names of one process", fun thousands/0},
            {"an outcome that is unknown", fun unknown/0},
            {"a session that has ended", fun ended_session/0},
            {"a basis that has changed", fun fenced_basis/0},
            {"a session that ends on the way", fun ending_session/0},
            {"names of an ended session are free", fun orphans/0},
            {"all are registered again", fun many_again/0},
            {"a name that another node has got", fun lost_to_another/0},
            {"again, by the next process", fun again_by_next/0},
            {"not without the claims of a watcher", fun without_watcher/0},
            {"not what was given up", fun not_again/0},
            {"unregistered before it is known", fun released_first/0},
            {"members leave before they join again", fun leave_before/0},
            {"an end that was decided before", fun fenced/0},
            {"a leader that is late", fun late_leader/0},
            {"a leader that leads no more", fun former_leader/0},
            {"no registration in a doubt", fun in_doubt/0},
            {"a table of somebody else", fun other_table/0},
            {"a registration that a watcher reads", fun begun_and_read/0},
            {"many wait for names", fun many_waiters/0},
            {"copies of what a node changes", fun own_copies/0},
            {"copies of what another node changes", fun others_copies/0},
            {"copies whose cache hangs", fun late_copies/0},
            {"copies of a scope that is stopped", fun stopped_copies/0},
            {"copies are renewed rarely", fun rare_renewals/0},
            {"a doubt about one scope", fun one_scope/0},
            {"a long name", fun long_name/0},
            {"many long names", fun many_long_names/0},
            {"a long group", fun long_group/0},
            {"a scope in which nothing is freed", fun blocked_scope/0},
            {"a disk that is nearly full", fun nearly_full/0},
            {"misuse", fun misuse/0}
        ]),
        todana_scopes:in_durable_node(
            restarted_cluster_names_tests, Between,
            [{"the application is restarted", fun restart/0}]
        )
    ].

open() -> ok = todana_names:start_scope(services, cluster).

%% What stays is the era.
close() ->
    ok = todana_names:stop_scope(services),
    wait(fun() -> todana:count(?TABLE) =:= 1 end).

tokens() ->
    Name = {services, leader},
    lists:foldl(
        fun(_, Before) ->
            Pid = spawn_waiting(),
            {yes, Token} = todana_names:register_name_token(Name, Pid),
            ?assert(Token > Before),
            ?assertEqual(no, todana_names:register_name_token(Name, self())),
            ?assertEqual({ok, Pid, Token}, todana_names:lookup_token(Name)),
            ok = todana_names:set_metadata(Name, {some, Token}),
            ?assertEqual({ok, Pid, Token}, todana_names:lookup_token(Name)),
            ok = todana_names:set_metadata(Name, {more, Token}),
            ?assertEqual({ok, Pid, Token}, todana_names:lookup_token(Name)),
            stop_process(Pid),
            Token
        end,
        0,
        lists:seq(1, 5)
    ).

move() ->
    Name = {services, a},
    {yes, First} = todana_names:register_name_token(
        Name, spawn_waiting(), #{metadata => m}
    ),
    Pid = spawn_waiting(),
    Move = fun(Token) ->
        todana_names:reregister_name_token(Name, Token, Pid)
    end,
    ?assertEqual(no, Move(First + 1)),
    {yes, Second} = Move(First),
    ?assert(Second > First),
    ?assertEqual(no, Move(First)),
    ?assertEqual({ok, Pid, m}, todana_names:lookup(Name)),
    ?assertEqual([a], todana_names:which_names(services, Pid)),
    ?assertEqual(1, todana_names:count(services)),
    ?assertEqual(
        no, todana_names:reregister_name_token({services, b}, 1, Pid)
    ),
    %% The first owner takes nothing along.
    stop_process(Pid),
    wait(fun() -> todana_names:count(services) =:= 0 end).

free_by_token() ->
    Name = {services, a},
    {yes, Token} = todana_names:register_name_token(Name, self()),
    ?assertEqual(no, todana_names:unregister_name_token(Name, Token + 1)),
    ?assertEqual(self(), todana_names:whereis_name(Name)),
    ?assertEqual(ok, todana_names:unregister_name_token(Name, Token)),
    ?assertEqual(no, todana_names:unregister_name_token(Name, Token)),
    ?assertEqual(undefined, todana_names:whereis_name(Name)).

await_name() ->
    Name = {services, later},
    ?assertEqual({error, timeout}, todana_names:await_name(Name, 0)),
    ?assertEqual({error, timeout}, todana_names:await_name(Name, 10)),
    Self = self(),
    Waiter = spawn_link(fun() ->
        Self ! {self(), todana_names:await_name(Name, infinity)}
    end),
    Pid = spawn_waiting(),
    yes = todana_names:register_name(Name, Pid),
    receive {Waiter, Found} -> ?assertEqual({ok, Pid}, Found) end,
    ?assertEqual({ok, Pid}, todana_names:await_name(Name, 0)),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    stop_process(Pid).

%% The supervisor registers the name anew before the watcher has freed it.
supervised() ->
    Name = {services, supervised},
    Owner = fun() -> spawn_waiting() end,
    with_suspended_watchers(fun() ->
        lists:foldl(
            fun(_, Before) ->
                stop_process(Before),
                ?assertEqual(undefined, todana_names:whereis_name(Name)),
                Next = Owner(),
                %% The outcome is not noticed to a watcher that does not listen.
                ?assertEqual(yes, todana_names:register_name(Name, Next)),
                ?assertEqual(Next, todana_names:whereis_name(Name)),
                Next
            end,
            Owner(),
            lists:seq(1, 5)
        )
    end),
    settle(),
    Last = todana_names:whereis_name(Name),
    ?assertEqual([supervised], todana_names:which_names(services, Last)),
    stop_process(Last),
    wait(fun() -> todana_names:count(services) =:= 0 end).

later_owner() ->
    Name = {services, a},
    Pid = spawn_waiting(),
    yes = todana_names:register_name(Name, Pid),
    with_suspended_watchers(fun() ->
        stop_process(Pid),
        yes = todana_names:register_name(Name, self())
    end),
    settle(),
    ?assertEqual(self(), todana_names:whereis_name(Name)),
    ok = todana_names:unregister_name(Name).

%% Callers are killed while they register, for themselves or for a process that
%% has been killed just before. No name stays.
dead_callers() ->
    lists:foreach(
        fun(N) ->
            Other = spawn_waiting(),
            Caller = spawn(fun() ->
                Owner = element(1 + N rem 2, {self(), Other}),
                register_for_ever({services, {N, Owner}}, Owner)
            end),
            timer:sleep(N rem 4),
            exit(Other, kill),
            _ = [erlang:yield() || _ <- lists:seq(1, N * 7 rem 50)],
            exit(Caller, kill)
        end,
        lists:seq(1, 200)
    ),
    wait(fun() -> todana_names:count(services) =:= 0 end).

register_for_ever(Name, Pid) ->
    _ = todana_names:register_name(Name, Pid),
    ok = todana_names:unregister_name(Name),
    register_for_ever(Name, Pid).

%% Watchers are killed while names come and go. No process ends for that, and no
%% name stays.
dead_watchers() -> names_outlive(todana_claim_watcher:watchers()).

%% More than a watcher removes in a step.
thousands() ->
    Pid = spawn_waiting(),
    Names = [{services, N} || N <- lists:seq(1, 1_001)],
    [yes = todana_names:register_name(Name, Pid) || Name <- Names],
    ?assertEqual(1_001, length(todana_names:which_names(services, Pid))),
    ?assertEqual(1_001, length(todana_names:which_names(services, node()))),
    stop_process(Pid),
    ?assertEqual([], todana_names:which_names(services, Pid)),
    wait(fun() -> todana_names:which_names(services) =:= [] end).

%% After writes were lost: a version may come twice then, a token does not.
eras() ->
    Register = fun(Name) ->
        Full = {services, Name},
        {yes, Token} = todana_names:register_name_token(Full, self()),
        ok = todana_names:unregister_name(Full),
        Token
    end,
    First = Register(a),
    ?assert(First < 1 bsl 62),
    Second = Register(a),
    %% As a node has it that knows nothing of the second one.
    {ok, Era, _} = todana_scope_records:era(?TABLE, generation),
    ?assert(Era > First bsr 33),
    {ok, Era, _} = todana_scope_records:era(?TABLE, generation),
    Third = Register(a),
    ?assert(Third bsr 33 > Second bsr 33),
    ?assertEqual(
        {error, unavailable}, todana_scope_records:era(?TABLE, unknown)
    ).

%% A registration that was submitted for an older state of the session is never
%% executed: that is what a fence does.
unknown() ->
    #{session := Session} = todana_name_scopes:table(services),
    Live = todana_scope_records:session(?TABLE, Session),
    Key = fun todana_scope_records:name_key/1,
    Ref = {Session, 1},
    Late = fun(_Found) ->
        {
            commit,
            [todana_scope_records:check(Session, Live)],
            todana_scope_records:writes(
                Key(a), {self(), Ref, {era, 1}, m}, ?SILENT
            ),
            written
        }
    end,
    ok = todana_scope_records:fence(?TABLE, Session),
    Before = todana_durable:timeout_ms(),
    ok = todana_durable:configure(#{write_timeout_ms => 100}),
    ?assertEqual(
        {error, unavailable}, todana_scope_records:change(?TABLE, Key(a), Late)
    ),
    ok = todana_durable:configure(#{write_timeout_ms => Before}),
    ?assertEqual(error, todana_names:lookup({services, a})),
    %% A claim that its caller has given up goes with its record.
    Claim = #{
        pid => self(), scope => services, key => Key(b), ref => {Session, 2},
        on_loss => ?SILENT
    },
    ok = todana_claim_watcher:begin_claim(Claim),
    written = todana_scope_records:change(?TABLE, Key(b), fun(_Found) ->
        Value = {self(), {Session, 2}, {era, 1}, m},
        Writes = todana_scope_records:writes(Key(b), Value, ?SILENT),
        {commit, [], Writes, written}
    end),
    ?assertEqual(self(), todana_names:whereis_name({services, b})),
    ok = todana_claim_watcher:end_claim(Claim, unknown),
    wait(fun() -> todana_names:whereis_name({services, b}) =:= undefined end).

%% Somebody else has ended it: owners who want to know are noticed, and some get
%% their names in a new session.
ended_session() ->
    #{session := Session} = todana_name_scopes:table(services),
    Register = fun(Name, Again, Notify) ->
        todana_names:register_name_token({services, Name}, self(), #{
            metadata => m, again => Again, notify => Notify
        })
    end,
    {yes, Token} = Register(again, true, true),
    {yes, _} = Register(noticed, false, true),
    {yes, _} = Register(silent, false, false),
    yes = todana_names:register_name({services, plain}, self()),
    ok = todana_scope_records:end_session(?TABLE, Session),
    ?assertEqual({error, unavailable}, Register(other, true, false)),
    Regained = {todana_names, regained, {services, again}},
    [
        receive Message -> ok end
     || Message <- [
            {todana_names, lost, {services, again}},
            {todana_names, lost, {services, noticed}},
            Regained
        ]
    ],
    ?assertEqual({messages, []}, process_info(self(), messages)),
    {ok, Owner, Later} = todana_names:lookup_token({services, again}),
    ?assertEqual(self(), Owner),
    ?assert(Later > Token),
    ?assertEqual({ok, Owner, m}, todana_names:lookup({services, again})),
    wait(fun() ->
        lists:sort(todana_names:which_names(services)) =:= [again, plain]
    end),
    {yes, _} = Register(noticed, true, false),
    wait(fun() -> length(todana_scope_records:sessions(?TABLE)) =:= 1 end).

%% A claim that was begun before a fence is not written: its watcher may be new.
fenced_basis() ->
    #{session := Session} = Shared = todana_name_scopes:table(services),
    Key = todana_scope_records:name_key(a),
    Claim = todana_claims:new(Shared, Key, self(), ?SILENT),
    {ok, {Generation, _, _} = Basis} = todana_claim_basis:get(?TABLE, Session),
    ok = todana_scope_records:fence(?TABLE, Session),
    {ok, Now} = todana_claim_basis:get(?TABLE, Session),
    Write = fun(Under) ->
        Request = {register, m, none},
        todana_claim_writes:write(?TABLE, Under, [Claim], Request)
    end,
    ?assertEqual({other, Now}, Write(Basis)),
    %% Nor one that was begun before writes were given up.
    ?assertEqual(
        {other, Now}, Write(setelement(1, Now, {before, Generation}))
    ),
    ?assertMatch({none, _}, todana_scope_records:read(?TABLE, Key)),
    ?assertMatch({written, Token} when is_integer(Token), Write(Now)),
    ok = todana_names:unregister_name({services, a}).

%% Its last registration has not been written when it ends.
ending_session() ->
    #{session := Session} = Shared = todana_name_scopes:table(services),
    Key = todana_scope_records:name_key(a),
    Claim = todana_claims:new(Shared, Key, self(), ?SILENT),
    Request = {register, m, none},
    {ok, Basis} = todana_claim_basis:get(?TABLE, Session),
    ok = todana_scope_records:end_session(?TABLE, Session),
    ?assertEqual(
        {error, unavailable},
        todana_claim_writes:write(?TABLE, Basis, [Claim], Request)
    ),
    ?assertEqual(
        {error, unavailable}, todana_claims:submit(Shared, [Claim], Request)
    ),
    ?assertMatch({none, _}, todana_scope_records:read(?TABLE, Key)),
    %% Waits for the next session.
    yes = todana_names:register_name({services, a}, self()),
    ok = todana_names:unregister_name({services, a}).

%% Of a node that is gone: free as soon as its session has ended, before its
%% records are removed.
orphans() ->
    Other = <<1:64>>,
    ok = todana_scope_records:begin_session(?TABLE, Other),
    Remote = remote(),
    [
        written = todana_scope_records:change(?TABLE, Key, fun(_Found) ->
            Value = {Remote, {Other, Name}, {era, 1}, undefined},
            Writes = todana_scope_records:writes(Key, Value, ?SILENT),
            {commit, [], Writes, written}
        end)
     || Name <- lists:seq(1, 1_200),
        Key <- [todana_scope_records:name_key(Name)]
    ],
    ?assertEqual(no, todana_names:register_name({services, 1}, self())),
    ?assertEqual(Remote, todana_names:whereis_name({services, 1})),
    ?assertEqual(1_200, length(todana_names:which_names(services, node()))),
    ok = todana_scope_records:end_session(?TABLE, Other),
    ?assertEqual(yes, todana_names:register_name({services, 1}, self())),
    wait(fun() -> todana_names:which_names(services) =:= [1] end),
    ?assertEqual(self(), todana_names:whereis_name({services, 1})),
    wait(fun() -> length(todana_scope_records:sessions(?TABLE)) =:= 1 end).

long_name() ->
    %% The external term format adds 6 bytes.
    Long = binary:copy(~"x", 65_520),
    ?assertEqual(yes, todana_names:register_name({services, Long}, self())),
    ?assertEqual(self(), todana_names:whereis_name({services, Long})),
    ok = todana_names:unregister_name({services, Long}),
    ?assertEqual({error, too_large}, todana_names:register_name_token(
        {services, <<Long/binary, "x">>}, self()
    )),
    LongGroup = binary:copy(~"x", 65_394),
    ok = todana_groups:join(services, LongGroup, self()),
    ?assertEqual([self()], todana_groups:get_members(services, LongGroup)),
    ok = todana_groups:leave(services, LongGroup, self()),
    Longer = binary:copy(~"x", 20 bsl 20),
    [
        ?assertEqual(
            {error, too_large},
            todana_names:register_name_token(Name, self(), Options)
        )
     || {Name, Options} <- [
            {{services, Longer}, #{}}, {{services, a}, #{metadata => Longer}}
        ]
    ],
    ?assertError(
        badarg, todana_names:register_name({services, Longer}, self())
    ),
    ?assertEqual(undefined, todana_names:whereis_name({services, a})).

%% More bytes than a step may have.
many_long_names() ->
    Prefix = binary:copy(~"x", 60_000),
    Name = fun(N) -> {services, <<Prefix/binary, N:32>>} end,
    Pid = spawn_waiting(),
    [yes = todana_names:register_name(Name(N), Pid) || N <- lists:seq(1, 300)],
    yes = todana_names:register_name({services, short}, Pid),
    stop_process(Pid),
    wait(fun() -> todana_names:which_names(services) =:= [] end),
    %% Also of a session that has ended, by the longest keys.
    Longest = binary:copy(~"x", 65_516),
    [
        yes = todana_names:register_name(
            {services, <<N:32, Longest/binary>>}, self()
        )
     || N <- lists:seq(1, 60)
    ],
    ok = todana_names:stop_scope(services),
    wait(fun() -> todana:count(?TABLE) =:= 1 end),
    ok = todana_names:start_scope(services, cluster).

%% Those who have joined in one step can leave in one.
long_group() ->
    Group = binary:copy(~"x", 8_000),
    Selves = fun(Count) -> lists:duplicate(Count, self()) end,
    ?assertEqual(
        {error, too_large}, todana_groups:join(services, Group, Selves(2_000))
    ),
    ?assertEqual([], todana_groups:get_members(services, Group)),
    Most = most(fun(Count) ->
        todana_groups:join(services, Group, Selves(Count)) =:= ok
    end, 1, 2_000),
    ?assert(Most > 500),
    Members = length(todana_groups:get_members(services, Group)),
    ok = todana_groups:leave(services, Group, Selves(Most)),
    ?assertEqual(
        Members - Most, length(todana_groups:get_members(services, Group))
    ).

%% The greatest number of which this is true, by halves.
most(_Is, Most, TooMany) when TooMany - Most =:= 1 ->
    Most;
most(Is, Most, TooMany) ->
    Middle = (Most + TooMany) div 2,
    case Is(Middle) of
        true -> most(Is, Middle, TooMany);
        false -> most(Is, Most, Middle)
    end.

%% Names of other scopes are freed meanwhile.
blocked_scope() ->
    ok = todana_names:start_scope(blocked, cluster),
    Pid = spawn_waiting(),
    [
        yes = todana_names:register_name({Scope, N}, Pid)
     || Scope <- [blocked, services], N <- lists:seq(1, 300)
    ],
    Table = 'todana_names.blocked',
    %% It opens the tables of all scopes.
    ok = sys:suspend(todana_session_leader),
    ok = todana:close(Table),
    stop_process(Pid),
    wait(fun() -> todana_names:which_names(services) =:= [] end),
    ?assertNot(todana_tables:is_open(Table)),
    %% Later they are the leader's.
    ok = todana_names:stop_scope(blocked),
    settle(),
    ?assertNot(todana_tables:is_open(Table)),
    ok = sys:resume(todana_session_leader),
    ok = todana:drop(Table).

%% Names are freed, but for those of unknown outcome: a fence is no removal.
nearly_full() ->
    #{session := Session} = Shared = todana_name_scopes:table(services),
    Pid = spawn_waiting(),
    [yes = todana_names:register_name({services, N}, Pid)
     || N <- lists:seq(1, 50)],
    ok = todana_groups:join(services, g, [Pid, Pid]),
    Claim = todana_claims:new(
        Shared, todana_scope_records:name_key(unknown), Pid, ?SILENT
    ),
    {ok, Basis} = todana_claim_basis:get(?TABLE, Session),
    ok = todana_claim_watcher:begin_claim(Claim),
    {written, _} = todana_claim_writes:write(
        ?TABLE, Basis, [Claim], {register, m, none}
    ),
    with_gate({removals, "a test"}, read_only, fun() ->
        ?assertEqual(
            {error, unavailable}, todana_scope_records:fence(?TABLE, Session)
        ),
        ok = todana_claim_watcher:end_claim(Claim, unknown),
        stop_process(Pid),
        wait(fun() -> todana_names:which_names(services) =:= [unknown] end),
        wait(fun() -> todana_groups:which_groups(services) =:= [] end)
    end),
    wait(fun() -> todana_names:which_names(services) =:= [] end).

%% The process that looks at the disk must not set it otherwise.
with_gate(Room, State, Test) ->
    ok = sys:suspend(todana_disk),
    try
        ok = todana_group:room(Room),
        wait(fun() -> todana_nif:durable_state() =:= State end),
        Test()
    after
        ok = todana_group:room(ok),
        wait(fun() -> todana_nif:durable_state() =:= open end),
        ok = sys:resume(todana_disk)
    end.

%% It ends twice, and the second time before all are registered again.
many_again() ->
    Pids = [spawn_waiting() || _ <- lists:seq(1, 300)],
    [yes = todana_names:register_name({services, Pid}, Pid) || Pid <- Pids],
    [ok = todana_groups:join(services, a, Pid) || Pid <- Pids],
    lists:foreach(
        fun(_) ->
            #{session := Session} = todana_name_scopes:table(services),
            ok = todana_scope_records:end_session(?TABLE, Session),
            wait(fun() ->
                map_get(session, todana_name_scopes:table(services)) =/= Session
            end)
        end,
        [1, 2, 3]
    ),
    wait(fun() -> length(todana_names:which_names(services)) =:= 300 end),
    wait(fun() ->
        lists:sort(todana_groups:get_members(services, a)) =:= lists:sort(Pids)
    end),
    [stop_process(Pid) || Pid <- Pids],
    wait(fun() -> todana_names:which_names(services) =:= [] end),
    wait(fun() -> todana_groups:which_groups(services) =:= [] end).

%% The process that registers them again is killed while it does, with a write
%% on its way. No process is a member twice.
again_by_next() ->
    Pids = [spawn_waiting() || _ <- lists:seq(1, 500)],
    [yes = todana_names:register_name({services, Pid}, Pid) || Pid <- Pids],
    [ok = todana_groups:join(services, a, Pid) || Pid <- Pids],
    {yes, _} = todana_names:register_name_token({services, a}, self(), #{
        notify => true
    }),
    #{session := Session} = todana_name_scopes:table(services),
    ok = todana_scope_records:end_session(?TABLE, Session),
    wait(fun() ->
        map_get(session, todana_name_scopes:table(services)) =/= Session
    end),
    ok = sys:suspend(batcher()),
    kill(todana_scope_session),
    ok = sys:resume(batcher()),
    wait(fun() ->
        todana_names:unregister_name({services, none}) =:= ok andalso
            length(todana_names:which_names(services)) =:= 501
    end),
    wait(fun() ->
        lists:sort(todana_groups:get_members(services, a)) =:= lists:sort(Pids)
    end),
    settle(),
    ?assertEqual(
        lists:sort(Pids), lists:sort(todana_groups:get_members(services, a))
    ),
    {Lost, Regained} = noticed(a),
    ?assert(Lost >= 1),
    ?assert(Regained >= 1),
    ok = todana_names:unregister_name({services, a}),
    [stop_process(Pid) || Pid <- Pids],
    wait(fun() -> todana_names:which_names(services) =:= [] end),
    wait(fun() -> todana_groups:which_groups(services) =:= [] end).

noticed(Name) -> {count(lost, Name, 0), count(regained, Name, 0)}.

count(What, Name, Before) ->
    receive
        {todana_names, What, {services, Name}} -> count(What, Name, Before + 1)
    after 0 ->
        Before
    end.

batcher() ->
    todana_raft_groups:name(todana_batcher, todana_raft_groups:first()).

%% Before this node knows that its session has ended: its process is informed.
lost_to_another() ->
    #{session := Session} = Shared = todana_name_scopes:table(services),
    {yes, _} = todana_names:register_name_token({services, a}, self(), #{
        again => false, notify => true
    }),
    Other = <<1:64>>,
    ok = todana_scope_records:begin_session(?TABLE, Other),
    Claim = todana_claims:new(
        Shared#{session := Other}, todana_scope_records:name_key(a), remote(),
        ?SILENT
    ),
    ok = sys:suspend(todana_scope_session),
    ok = todana_scope_records:end_session(?TABLE, Session),
    {ok, Basis} = todana_claim_basis:get(?TABLE, Other),
    ?assertMatch(
        {written, _},
        todana_claim_writes:write(?TABLE, Basis, [Claim], {register, m, none})
    ),
    settle(),
    ok = sys:resume(todana_scope_session),
    receive {todana_names, lost, {services, a}} -> ok end,
    ok = todana_scope_records:end_session(?TABLE, Other),
    wait(fun() -> length(todana_scope_records:sessions(?TABLE)) =:= 1 end),
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% A doubt does not end while a watcher does not know its claims.
without_watcher() ->
    Self = self(),
    {yes, _} = todana_names:register_name_token({services, a}, Self, #{
        notify => true
    }),
    Watcher = lists:nth(
        1 + erlang:phash2(Self, 8), todana_claim_watcher:watchers()
    ),
    ok = sys:suspend(todana_session_leader),
    kill(todana_scope_session),
    receive {todana_names, lost, {services, a}} -> ok end,
    ok = supervisor:terminate_child(todana_sup, Watcher),
    ok = sys:resume(todana_session_leader),
    timer:sleep(4_000),
    ?assertEqual(
        {error, unavailable},
        todana_names:register_name_token({services, b}, Self)
    ),
    {ok, _} = supervisor:restart_child(todana_sup, Watcher),
    receive {todana_names, regained, {services, a}} -> ok end,
    ok = todana_names:unregister_name({services, a}),
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% A name that was unregistered, or has another owner, does not come back.
not_again() ->
    Pid = spawn_waiting(),
    Options = #{notify => true},
    {yes, Token} = todana_names:register_name_token(
        {services, moved}, self(), Options
    ),
    {yes, _} = todana_names:reregister_name_token(
        {services, moved}, Token, Pid
    ),
    yes = todana_names:register_name({services, freed}, self()),
    ok = todana_groups:join(services, left, self()),
    #{session := Session} = todana_name_scopes:table(services),
    ok = todana_scope_records:end_session(?TABLE, Session),
    ok = todana_names:unregister_name({services, freed}),
    ok = todana_groups:leave(services, left, self()),
    wait(fun() ->
        map_get(session, todana_name_scopes:table(services)) =/= Session
    end),
    settle(),
    ?assertEqual(undefined, todana_names:whereis_name({services, freed})),
    ?assertEqual([], todana_groups:get_members(services, left)),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    stop_process(Pid).

%% The watcher hears that the name was unregistered before it hears that the
%% process has it.
released_first() ->
    #{session := Session} = Shared = todana_name_scopes:table(services),
    Claims = [
        todana_claims:new(
            Shared, todana_scope_records:name_key(Name), self(),
            {silent, {again, m}}
        )
     || Name <- [a, b]
    ],
    {ok, Basis} = todana_claim_basis:get(?TABLE, Session),
    [
        begin
            ok = todana_claim_watcher:begin_claim(Claim),
            {written, _} = todana_claim_writes:write(
                ?TABLE, Basis, [Claim], {register, m, none}
            )
        end
     || Claim <- Claims
    ],
    ok = todana_names:unregister_name({services, a}),
    [ok = todana_claim_watcher:end_claim(Claim, held) || Claim <- Claims],
    settle(),
    {all, Held} = todana_claim_watcher:held(services, all),
    ?assertEqual(
        [todana_scope_records:name_key(b)],
        [Key || #{key := Key, pid := Pid} <- Held, Pid =:= self()]
    ),
    ok = todana_scope_records:end_session(?TABLE, Session),
    %% Once it is registered again, all is.
    ok = todana_names:unregister_name({services, b}),
    ?assertEqual([], todana_names:which_names(services)),
    %% A caller that ends then leaves nothing behind.
    Pid = spawn_waiting(),
    Now = todana_name_scopes:table(services),
    Claim = todana_claims:new(
        Now, todana_scope_records:name_key(c), Pid, ?SILENT
    ),
    Caller = spawn(fun() ->
        ok = todana_claim_watcher:begin_claim(Claim),
        ok = todana_claim_watcher:release(Pid, maps:get(ref, Claim)),
        receive stop -> ok end
    end),
    Claimed = fun() ->
        lists:any(
            fun(Watcher) ->
                is_map_key(Pid, element(3, sys:get_state(Watcher, infinity)))
            end,
            todana_claim_watcher:watchers()
        )
    end,
    wait(Claimed),
    stop_process(Caller),
    wait(fun() -> not Claimed() end),
    stop_process(Pid).

%% Members that have not joined again yet can leave.
leave_before() ->
    Pids = [spawn_waiting() || _ <- lists:seq(1, 300)],
    [ok = todana_groups:join(services, a, Pid) || Pid <- Pids],
    #{session := Session} = todana_name_scopes:table(services),
    ok = todana_scope_records:end_session(?TABLE, Session),
    wait(fun() ->
        map_get(session, todana_name_scopes:table(services)) =/= Session
    end),
    [ok = todana_groups:leave(services, a, Pid) || Pid <- lists:reverse(Pids)],
    ?assertEqual([], todana_groups:get_members(services, a)),
    settle(),
    ?assertEqual([], todana_groups:get_members(services, a)),
    [stop_process(Pid) || Pid <- Pids].

%% A node that has doubts fences its session before it goes on: the leader may
%% have decided to end it before.
fenced() ->
    #{session := Session} = todana_name_scopes:table(services),
    {yes, _} = todana_names:register_name_token(
        {services, a}, self(), #{notify => true}
    ),
    Self = self(),
    Leader = spawn_link(fun() ->
        Ended = todana_scope_records:end_session(?TABLE, Session, fun() ->
            Self ! read,
            receive go -> true end
        end),
        Self ! {ended, Ended}
    end),
    receive read -> ok end,
    kill(todana_scope_session),
    receive {todana_names, lost, {services, a}} -> ok end,
    receive {todana_names, regained, {services, a}} -> ok end,
    Leader ! go,
    ?assertEqual({ended, false}, receive {ended, _} = Message -> Message end),
    ?assertEqual(Self, todana_names:whereis_name({services, a})),
    ok = todana_names:unregister_name({services, a}).

%% A leader that has hung has heartbeats in its queue, behind what is late.
late_leader() ->
    #{session := Session} = todana_name_scopes:table(services),
    yes = todana_names:register_name({services, a}, self()),
    ok = sys:suspend(todana_session_leader),
    timer:sleep(11_000),
    ok = sys:resume(todana_session_leader),
    timer:sleep(2_500),
    ?assertMatch(#{session := Session}, todana_name_scopes:table(services)),
    ?assertEqual(self(), todana_names:whereis_name({services, a})),
    ok = todana_names:unregister_name({services, a}).

%% It ends no session, also if it has found one silent a moment ago.
former_leader() ->
    #{session := Session} = todana_name_scopes:table(services),
    Group = todana_raft_groups:first(),
    IsSilent = fun() ->
        %% The state of a process that has led at its last look.
        Late = erlang:monotonic_time(millisecond) - ?LATE_MS,
        State = setelement(
            3, sys:get_state(todana_session_leader), #{Session => Late}
        ),
        {reply, Is, _} = todana_session_leader:handle_call(
            {is_silent, Session}, {self(), none}, setelement(2, State, true)
        ),
        Is
    end,
    ?assert(IsSilent()),
    ok = todana_leader_proof:begin_notes(Group),
    ok = todana_leader_proof:note(
        Group, erlang:monotonic_time(millisecond) - ?LATE_MS
    ),
    ?assertNot(IsSilent()),
    ok = todana_leader_proof:end_notes(Group),
    ?assert(IsSilent()).

%% A process that is not informed of a loss gets no name: neither by a
%% registration in a doubt, nor by one that was on its way when the doubt began.
in_doubt() ->
    Shared = todana_name_scopes:table(services),
    Self = self(),
    Register = fun(Name) ->
        todana_names:register_name_token({services, Name}, self(), #{
            again => false, notify => true
        })
    end,
    {yes, _} = Register(a),
    Acknowledged = todana_claims:new(
        Shared, todana_scope_records:name_key(b), Self, {notify, nothing}
    ),
    ok = todana_claim_watcher:begin_claim(Acknowledged),
    Before = todana_durable:timeout_ms(),
    ok = todana_durable:configure(#{write_timeout_ms => ?LATE_MS}),
    ok = sys:suspend(todana_session_leader),
    ok = sys:suspend(batcher()),
    Late = spawn_link(fun() -> Self ! {self(), Register(c)} end),
    receive {todana_names, lost, {services, a}} -> ok end,
    ok = todana_claim_watcher:end_claim(Acknowledged, held),
    receive {todana_names, lost, {services, b}} -> ok end,
    ?assertEqual({error, unavailable}, Register(d)),
    ?assertEqual(
        {error, unavailable}, todana_groups:join(services, g, self())
    ),
    ok = sys:resume(batcher()),
    receive {Late, Result} -> ?assertEqual({error, unknown}, Result) end,
    ok = sys:resume(todana_session_leader),
    receive {todana_names, regained, {services, a}} -> ok end,
    ok = todana_durable:configure(#{write_timeout_ms => Before}),
    ?assertMatch({yes, _}, Register(d)),
    wait(fun() ->
        lists:sort(todana_names:which_names(services)) =:= [a, d]
    end),
    [ok = todana_names:unregister_name({services, Name}) || Name <- [a, d]],
    ?assertEqual({messages, []}, process_info(self(), messages)).

%% A table that only looks like one of a scope.
other_table() ->
    {ok, _} = todana:open('todana_names.bad', #{
        durable => true, type => set
    }),
    Other = <<1:64>>,
    ok = todana_scope_records:begin_session(?TABLE, Other),
    wait(fun() ->
        Sessions = todana_scope_records:sessions(?TABLE),
        lists:keyfind(Other, 1, Sessions) =:= false
    end),
    ok = todana:drop('todana_names.bad').

%% A watcher that starts meets a registration on its way.
begun_and_read() ->
    #{session := Session} = todana_name_scopes:table(services),
    Pid = spawn_waiting(),
    Watchers = todana_claim_watcher:watchers(),
    Watcher = lists:nth(1 + erlang:phash2(Pid, 8), Watchers),
    Self = self(),
    Caller = spawn(fun() ->
        {yes, _} = todana_names:register_name_token({services, a}, Pid),
        Self ! registered,
        receive stop -> ok end
    end),
    receive registered -> ok end,
    kill(Watcher),
    [{Key, {Pid, Ref, OnLoss}}] = todana_scope_records:some_owned(
        ?TABLE, Session
    ),
    Claim = #{
        pid => Pid, scope => services, key => Key, ref => Ref,
        on_loss => OnLoss
    },
    settle(),
    %% As if this watcher had just begun, and known nothing of the claim.
    Watcher ! {release, Pid, Ref},
    Watcher ! {begin_claim, Caller, Claim},
    Watcher ! read,
    wait(fun() ->
        State = sys:get_state(Watcher, infinity),
        lists:nth(7, tuple_to_list(State)) =:= none
    end),
    Watcher ! {end_claim, held, Claim},
    stop_process(Caller),
    settle(),
    ?assertEqual(Pid, todana_names:whereis_name({services, a})),
    stop_process(Pid),
    wait(fun() -> todana_names:which_names(services) =:= [] end).

%% More than a table permits subscriptions.
many_waiters() ->
    Self = self(),
    Waiters = [
        spawn_link(fun() ->
            {ok, Pid} = todana_names:await_name({services, N}, infinity),
            Self ! {self(), Pid}
        end)
     || N <- lists:seq(1, 100)
    ],
    [yes = todana_names:register_name({services, N}, Self)
     || N <- lists:seq(1, 100)],
    [receive {Waiter, Self} -> ok end || Waiter <- Waiters],
    [ok = todana_names:unregister_name({services, N})
     || N <- lists:seq(1, 100)].

%% Readers make copies all the time, and a process finds what it has done.
own_copies() ->
    Readers = [
        spawn_link(fun() -> look_up([a, b]) end) || _ <- [1, 2]
    ],
    Owners = [spawn_waiting() || _ <- [1, 2]],
    lists:foreach(
        fun(N) ->
            Name = {services, element(1 + N rem 2, {a, b})},
            Owner = lists:nth(1 + N div 2 rem 2, Owners),
            ?assertEqual(undefined, todana_names:whereis_name(Name)),
            {yes, Token} = todana_names:register_name_token(Name, Owner),
            ?assertEqual(Owner, todana_names:whereis_name(Name)),
            {yes, _} = todana_names:reregister_name_token(Name, Token, self()),
            ?assertEqual(self(), todana_names:whereis_name(Name)),
            ok = todana_names:unregister_name(Name),
            ?assertEqual(undefined, todana_names:whereis_name(Name))
        end,
        lists:seq(1, 500)
    ),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Readers],
    [stop_process(Owner) || Owner <- Owners].

look_up(Names) ->
    [todana_names:whereis_name({services, Name}) || Name <- Names],
    look_up(Names).

others_copies() ->
    Name = {services, a},
    yes = todana_names:register_name(Name, self()),
    is_copied(a),
    as_another_node(a, remote()),
    wait(fun() -> todana_names:whereis_name(Name) =:= remote() end),
    is_copied(a),
    ok = todana_names:unregister_name(Name).

%% However often names are looked up, the records are asked about a few times
%% a second.
rare_renewals() ->
    yes = todana_names:register_name({services, a}, self()),
    Asked = counters:new(1, []),
    1 = erlang:trace(whereis(todana_name_cache), true, [procs]),
    Until = erlang:monotonic_time(millisecond) + 3_000,
    look_up_until(Until),
    1 = erlang:trace(whereis(todana_name_cache), false, [procs]),
    ok = count_spawned(Asked),
    ?assert(counters:get(Asked, 1) =< 10),
    ?assert(counters:get(Asked, 1) >= 1),
    ok = todana_names:unregister_name({services, a}).

look_up_until(UntilMs) ->
    _ = todana_names:whereis_name({services, a}),
    case erlang:monotonic_time(millisecond) < UntilMs of
        true -> look_up_until(UntilMs);
        false -> ok
    end.

count_spawned(Asked) ->
    receive
        {trace, _, spawn, _, {todana_name_cache, ask_and_exit, _}} ->
            ok = counters:add(Asked, 1, 1),
            count_spawned(Asked);
        {trace, _, _, _, _} ->
            count_spawned(Asked);
        {trace, _, _, _} ->
            count_spawned(Asked)
    after 0 ->
        ok
    end.

%% A copy may not be used for long.
late_copies() ->
    Name = {services, a},
    yes = todana_names:register_name(Name, self()),
    is_copied(a),
    ok = sys:suspend(todana_name_cache),
    as_another_node(a, remote()),
    wait(fun() -> todana_names:whereis_name(Name) =:= remote() end),
    ok = sys:resume(todana_name_cache),
    is_copied(a),
    kill(todana_name_cache),
    ?assertEqual(remote(), todana_names:whereis_name(Name)),
    is_copied(a),
    ok = todana_names:unregister_name(Name).

stopped_copies() ->
    yes = todana_names:register_name({services, a}, self()),
    is_copied(a),
    ok = todana_names:stop_scope(services),
    ok = todana_names:start_scope(services, cluster),
    ?assertEqual(undefined, todana_names:whereis_name({services, a})),
    yes = todana_names:register_name({services, a}, self()),
    is_copied(a),
    ok = todana_names:unregister_name({services, a}).

is_copied(Name) ->
    wait(fun() ->
        _ = todana_names:whereis_name({services, Name}),
        element(1, todana_name_cache:find({names, ?TABLE}, Name)) =:= ok
    end).

%% Nobody on this node knows that the record changes.
as_another_node(Name, Pid) ->
    Key = todana_scope_records:name_key(Name),
    written = todana_scope_records:change(?TABLE, Key, fun
        ({ok, {_, Ref, _, Metadata}, _}) ->
            [OfName, _] = todana_scope_records:writes(
                Key, {Pid, Ref, {era, 1}, Metadata}, ?SILENT
            ),
            {commit, [], [OfName], written}
    end).

%% A name that was regained without having been lost.
unexpected(Lost) ->
    receive
        {todana_names, lost, Name} ->
            unexpected([Name | Lost]);
        {todana_names, regained, Name} ->
            case lists:member(Name, Lost) of
                true -> unexpected(Lost -- [Name]);
                false -> [Name]
            end
    after 0 ->
        []
    end.

%% Another scope goes on, and its processes get no message.
one_scope() ->
    ok = todana_names:start_scope(gone, cluster),
    {yes, _} = todana_names:register_name_token(
        {services, a}, self(), #{notify => true}
    ),
    ok = todana:drop('todana_names.gone'),
    timer:sleep(2_500),
    ?assertEqual([], unexpected([])),
    ?assertEqual(ok, todana_names:unregister_name({services, none})),
    ok = todana_names:unregister_name({services, a}),
    ok = todana_names:stop_scope(gone).

misuse() ->
    [
        ?assertError(badarg, apply(todana_names, Function, Arguments))
     || {Function, Arguments} <- [
            {register_name_token, [{services, a}, self(), m]},
            {register_name_token, [{services, a}, self(), #{meta => m}]},
            {register_name_token, [{services, a}, self(), #{again => x}]},
            {reregister_name_token, [{services, a}, x, self()]},
            {unregister_name_token, [{services, a}, x]},
            {register_name_token, [a, self()]},
            {reregister_name_token, [{services, a}, 1, a]},
            {await_name, [{services, a}, -1]},
            {await_name, [{none, a}, 1]},
            {lookup_token, [a]},
            {unregister_name_token, [a, 1]}
        ]
    ].

%% Names end with their node's run, however it ends.
restart() ->
    yes = todana_names:register_name({services, a}, self()),
    ok = application:stop(todana),
    ok = application:start(todana),
    ?assertEqual([], todana_names:which_scopes()),
    ok = todana_names:start_scope(services, cluster),
    ?assertEqual(undefined, todana_names:whereis_name({services, a})),
    yes = todana_names:register_name({services, a}, self()),
    Master = application_controller:get_master(todana),
    Monitor = monitor(process, Master),
    exit(Master, kill),
    receive {'DOWN', Monitor, process, Master, killed} -> ok end,
    wait(fun() -> whereis(todana_sup) =:= undefined end),
    wait(fun() -> application:start(todana) =:= ok end),
    ok = todana_names:start_scope(services, cluster),
    yes = todana_names:register_name({services, a}, self()),
    %% Its processes end while the table of the scope is open. The next log has
    %% another one.
    ok = sys:terminate(todana_sup, shutdown),
    wait(fun() -> application:start(todana) =:= ok end),
    ok = todana_names:start_scope(services, cluster),
    %% The leader ends the session before this one later.
    yes = todana_names:register_name({services, b}, self()).

%% What they are sent waits.
with_suspended_watchers(Test) ->
    Watchers = todana_claim_watcher:watchers(),
    [ok = sys:suspend(Watcher) || Watcher <- Watchers],
    try
        Test()
    after
        [ok = sys:resume(Watcher) || Watcher <- Watchers]
    end.

%% The watchers have freed what was to be freed.
settle() ->
    [
        wait(fun() ->
            State = sys:get_state(Watcher, infinity),
            [ToFree, Worker, _, _, Resting | _] =
                lists:nthtail(4, tuple_to_list(State)),
            {ToFree, Worker, Resting} =:= {[], none, []}
        end)
     || Watcher <- todana_claim_watcher:watchers()
    ].
