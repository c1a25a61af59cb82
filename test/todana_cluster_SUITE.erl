%% Members of a cluster that come, go, fail and come back. Each case has its own
%% nodes, which are processes of this host, and their data directories.
-module(todana_cluster_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    three_nodes_have_the_same_records/1,
    a_member_has_more_processes/1,
    a_single_node_grows/1,
    a_second_node_has_no_vote/1,
    writes_go_on_without_the_leader/1,
    a_minority_accepts_no_writes/1,
    a_linear_read_sees_what_another_node_confirmed/1,
    a_client_reads_its_writes_at_another_node/1,
    a_minority_does_not_answer_for_the_others/1,
    what_was_not_confirmed_is_replaced/1,
    a_node_catches_up_by_a_snapshot/1,
    a_node_is_restarted_while_nobody_writes/1,
    five_nodes_and_back/1,
    a_dead_node_is_replaced/1,
    a_removed_node_stops_and_stays_out/1,
    the_leader_can_be_moved_and_can_leave/1,
    a_leader_that_hangs_is_replaced/1,
    a_node_that_hangs_is_not_made_the_leader/1,
    the_last_node_can_go_on_alone/1,
    a_backup_does_not_hold_up_a_node_that_goes_on_alone/1,
    those_that_were_given_up_do_not_lead_it/1,
    no_node_joins_while_it_goes_on_alone/1,
    nobody_goes_on_alone_beside_a_majority/1,
    who_goes_on_alone_has_the_most/1,
    a_refused_join_says_why/1,
    a_node_joins_while_it_runs/1,
    a_refused_join_changes_nothing/1,
    databases_that_are_open_do_not_join/1,
    a_join_that_was_interrupted_goes_on/1,
    a_stranger_gets_nothing/1,
    a_difference_is_found/1,
    nodes_are_started_in_any_order/1,
    the_map_has_the_members/1,
    a_lost_directory_does_not_begin_anew/1,
    another_name_does_not_harm_a_directory/1,
    a_change_needs_a_majority/1,
    a_replica_that_is_down_stops_nobody/1,
    two_nodes_that_were_given_up_stay_out/1,
    a_member_with_a_damaged_log_joins_anew/1,
    members_that_disagree_stop/1,
    a_node_that_starts_denies_no_member/1,
    an_older_copy_is_refused/1,
    an_older_copy_that_starts_first_is_refused/1,
    the_last_moment_before_a_stop_is_remembered/1,
    older_copies_of_all_are_accepted_by_an_option/1,
    a_member_does_not_follow_an_older_copy/1,
    a_member_with_all_it_confirmed_comes_back/1,
    a_client_learns_the_ports_that_are_not_in_the_map/1,
    wait_counts_members_that_are_up/1,
    a_format_is_written_that_all_members_read/1,
    batches_of_several_members_become_one_entry/1,
    keys_keep_the_node_of_their_identifiers/1
]).
%% Called in the peer nodes
-export([set/2, add/2, get/1, get/2, spoil/1]).
-export([index/0, read_after/1, put_identifiers/0, identifiers/0]).
-export([add_at_once/3]).
-export([put_old_identifier/0]).

-import(todana_peers, [
    node/3, refused/3, attempt/3, peer/1, unnamed_peer/1, of_node/1, name/1,
    kill/1, signal/2, stop/1, empty/2, data_dir/2, rpc/4, await/1, cluster/2,
    is_open/1, leave/2, verify/1, roles/1, voters/1
]).

-define(WAIT_MS, 60_000).
%% More than a small release needs to start.
-define(LONG_BOOT_MS, 3_000).
%% More than the time after which a log that does not answer is reported.
-define(STUCK_MS, 11_000).

all() ->
    [
        three_nodes_have_the_same_records,
        a_member_has_more_processes,
        a_single_node_grows,
        a_second_node_has_no_vote,
        writes_go_on_without_the_leader,
        a_minority_accepts_no_writes,
        a_linear_read_sees_what_another_node_confirmed,
        a_client_reads_its_writes_at_another_node,
        a_minority_does_not_answer_for_the_others,
        what_was_not_confirmed_is_replaced,
        a_node_catches_up_by_a_snapshot,
        a_node_is_restarted_while_nobody_writes,
        five_nodes_and_back,
        a_dead_node_is_replaced,
        a_removed_node_stops_and_stays_out,
        the_leader_can_be_moved_and_can_leave,
        a_leader_that_hangs_is_replaced,
        a_node_that_hangs_is_not_made_the_leader,
        the_last_node_can_go_on_alone,
        a_backup_does_not_hold_up_a_node_that_goes_on_alone,
        those_that_were_given_up_do_not_lead_it,
        no_node_joins_while_it_goes_on_alone,
        nobody_goes_on_alone_beside_a_majority,
        who_goes_on_alone_has_the_most,
        a_refused_join_says_why,
        a_node_joins_while_it_runs,
        a_refused_join_changes_nothing,
        databases_that_are_open_do_not_join,
        a_join_that_was_interrupted_goes_on,
        a_stranger_gets_nothing,
        a_difference_is_found,
        nodes_are_started_in_any_order,
        the_map_has_the_members,
        a_lost_directory_does_not_begin_anew,
        another_name_does_not_harm_a_directory,
        a_change_needs_a_majority,
        a_replica_that_is_down_stops_nobody,
        two_nodes_that_were_given_up_stay_out,
        a_member_with_a_damaged_log_joins_anew,
        members_that_disagree_stop,
        a_node_that_starts_denies_no_member,
        an_older_copy_is_refused,
        an_older_copy_that_starts_first_is_refused,
        the_last_moment_before_a_stop_is_remembered,
        older_copies_of_all_are_accepted_by_an_option,
        a_member_does_not_follow_an_older_copy,
        a_member_with_all_it_confirmed_comes_back,
        a_client_learns_the_ports_that_are_not_in_the_map,
        wait_counts_members_that_are_up,
        a_format_is_written_that_all_members_read,
        batches_of_several_members_become_one_entry,
        keys_keep_the_node_of_their_identifiers
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

three_nodes_have_the_same_records(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    [ok = call(Node, set, [Node, 1]) || Node <- [A, B, C]],
    [
        await(fun() -> call(At, get, [Key]) =:= {ok, 1} end)
     || At <- [A, B, C], Key <- [A, B, C]
    ],
    await(fun() -> element(1, verify(B)) =:= ok end).

%% `todana_durable_SUITE' has the tree of a node without a cluster.
a_member_has_more_processes(Config) ->
    [A] = cluster([a], Config),
    Children = fun(Supervisor) ->
        Found = rpc(A, supervisor, which_children, [Supervisor]),
        lists:reverse([Id || {Id, Pid, _, _} <- Found, is_pid(Pid)])
    end,
    ?assertEqual(
        [
            todana_flush_guard, todana_disk, {todana_group_sup, 0},
            todana_status, todana_seats, todana_spread, todana_membership,
            todana_topology, todana_interest, todana_heartbeats
        ],
        Children(todana_durable_sup)
    ),
    OfGroup = [
        todana_group, todana_batcher, todana_clock, todana_read_index,
        todana_watchdog, todana_copies, todana_verify, todana_agreement
    ],
    ?assertEqual(OfGroup, Children(todana_group_sup)),
    %% Members of earlier versions send messages to these names.
    [?assert(is_pid(rpc(A, erlang, whereis, [Name]))) || Name <- OfGroup].

%% Each node says where its clients reach it; the leader, who the members are.
the_map_has_the_members(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    Map = fun(At) ->
        try rpc(At, todana, to_list, [todana_cluster_map]) of
            Records -> maps:from_list(Records)
        catch
            error:_ -> #{}
        end
    end,
    Has = fun(At, Members) ->
        Records = Map(At),
        Members =:= lists:sort([N || {node, N} := _ <- Records]) andalso
            maps:find({group, 0}, Records) =:=
                {ok, #{
                    slots => {0, 16383},
                    members => #{N => voter || N <- Members}
                }}
    end,
    [await(fun() -> Has(At, [A, B, C]) end) || At <- [A, B, C]],
    #{epoch := Before} = Map(B),
    ok = leave(A, C),
    D = node(d, [{cluster_join, A}], Config),
    await(fun() -> Has(B, [A, B, D]) end),
    #{epoch := After} = Map(B),
    ?assert(After > Before),
    await(fun() -> element(1, verify(B)) =:= ok end).

%% The records of a node without a cluster are those of the cluster. Its node
%% may have had another name.
a_single_node_grows(Config) ->
    Alone = node(a, [], Config),
    await(fun() -> is_open(Alone) end),
    ok = call(Alone, set, [k, 1]),
    ok = rpc(Alone, todana_snapshots, request_and_wait, [0, 10_000]),
    ok = call(Alone, set, [l, 2]),
    kill(Alone),
    ok = file:rename(data_dir(a, Config), data_dir(x, Config)),
    ?assertMatch("data_dir: " ++ _, refused(x, [], Config)),
    X = node(x, [{cluster_create, yes}], Config),
    await(fun() -> call(X, get, [k]) =:= {ok, 1} end),
    B = node(b, [{cluster_join, X}], Config),
    C = node(c, [{cluster_join, X}], Config),
    await(fun() -> length(voters(X)) =:= 3 end),
    [
        await(fun() -> call(N, get, [l]) =:= {ok, 2} end)
     || N <- [B, C]
    ],
    kill(X),
    ok = call(B, set, [k, 3]),
    X = node(x, [], Config),
    await(fun() -> call(X, get, [k]) =:= {ok, 3} end).

a_second_node_has_no_vote(Config) ->
    [A, B] = cluster([a, b], Config),
    ?assertEqual([{A, leader}, {B, replica}], roles(A)),
    ok = call(A, set, [k, 1]),
    kill(B),
    ok = call(A, set, [k, 2]),
    B = node(b, [{cluster_join, A}], Config),
    C = node(c, [{cluster_join, A}], Config),
    await(fun() ->
        roles(A) =:= [{A, leader}, {B, voter}, {C, voter}]
    end),
    await(fun() -> call(B, get, [k]) =:= {ok, 2} end).

writes_go_on_without_the_leader(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    [ok = call(B, set, [K, K]) || K <- lists:seq(1, 100)],
    kill(A),
    %% No write is refused: it waits for the next leader.
    ok = call(B, add, [sum, 1]),
    ok = call(C, add, [sum, 1]),
    A = node(a, [], Config),
    await(fun() -> call(A, get, [sum]) =:= {ok, 2} end),
    ?assertEqual({ok, 100}, call(A, get, [100])),
    await(fun() -> element(1, verify(A)) =:= ok end).

a_minority_accepts_no_writes(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    kill(B),
    kill(C),
    ?assertMatch({error, _}, call(A, set, [k, 2])),
    await(fun() ->
        maps:get(state, rpc(A, todana, info, [])) =:= read_only
    end),
    ?assertMatch({error, unavailable}, call(A, set, [k, 3])),
    %% The reason stays the same, also when the write has waited for long.
    timer:sleep(?STUCK_MS),
    #{reason := Reason} = rpc(A, todana, info, []),
    ?assertMatch("no leader: " ++ _, Reason),
    ?assertNotEqual(nomatch, string:find(Reason, "cluster force")),
    B = node(b, [], Config),
    await(fun() -> call(A, set, [k, 4]) =:= ok end),
    await(fun() -> call(B, get, [k]) =:= {ok, 4} end).

a_linear_read_sees_what_another_node_confirmed(Config) ->
    Nodes = cluster([a, b, c], Config),
    [
        begin
            ok = call(lists:nth(N rem 3 + 1, Nodes), set, [k, N]),
            At = lists:nth(N div 3 rem 3 + 1, Nodes),
            ?assertEqual({ok, N}, call(At, get, [k, linear]))
        end
     || N <- lists:seq(1, 300)
    ].

a_client_reads_its_writes_at_another_node(Config) ->
    Nodes = [A | _] = cluster([a, b, c], Config),
    [
        begin
            ok = call(A, set, [k, N]),
            Index = call(A, index, []),
            At = lists:nth(N rem 3 + 1, Nodes),
            ok = call(At, read_after, [Index]),
            ?assertEqual({ok, N}, call(At, get, [k]))
        end
     || N <- lists:seq(1, 300)
    ],
    Later = call(A, index, []) + 1_000,
    ?assertEqual({error, not_applied}, call(A, read_after, [Later])).

%% Even if it was the leader, and does not know that others lead.
a_minority_does_not_answer_for_the_others(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(B, set, [k, 1]),
    ?assertEqual({ok, 1}, call(A, get, [k, linear])),
    ?assertEqual({ok, 1}, call(A, get, [k, bounded])),
    kill(B),
    kill(C),
    ?assertEqual({error, no_leader}, call(A, get, [k, linear])),
    ?assertEqual({error, no_leader}, call(A, get, [k, bounded])),
    ?assertEqual({ok, 1}, call(A, get, [k, local])),
    B = node(b, [], Config),
    await(fun() -> call(A, get, [k, linear]) =:= {ok, 1} end),
    ?assertEqual({ok, 1}, call(A, get, [k, bounded])).

%% The log of a leader that was alone goes on where the others left it.
what_was_not_confirmed_is_replaced(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    await(fun() -> lists:member({A, leader}, roles(B)) end),
    kill(B),
    kill(C),
    %% Three entries that only this log has.
    [{error, _} = call(A, set, [{lost, N}, N]) || N <- [1, 2, 3]],
    kill(A),
    B = node(b, [], Config),
    C = node(c, [], Config),
    [await(fun() -> call(B, set, [K, K]) =:= ok end) || K <- [x, y]],
    A = node(a, [], Config),
    await(fun() -> call(A, get, [y]) =:= {ok, y} end),
    ?assertEqual(error, call(A, get, [{lost, 1}])),
    ok = call(A, set, [z, z]),
    %% Its files have both.
    kill(A),
    ok = call(B, set, [k, 2]),
    A = node(a, [], Config),
    await(fun() -> call(A, get, [k]) =:= {ok, 2} end),
    ?assertEqual({ok, z}, call(A, get, [z])),
    await(fun() -> element(1, verify(A)) =:= ok end).

a_node_catches_up_by_a_snapshot(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    kill(C),
    [ok = call(A, set, [K, K]) || K <- lists:seq(1, 500)],
    [
        await(fun() ->
            rpc(N, todana_snapshots, request_and_wait, [0, 10_000]) =:= ok
        end)
     || N <- [A, B]
    ],
    [
        ok = rpc(N, todana_log_trim, trim, [
            rpc(N, todana_raft_groups, opened, [0]), 10_000
        ])
     || N <- [A, B]
    ],
    ok = call(A, set, [last, 1]),
    C = node(c, [], Config),
    await(fun() -> call(C, get, [last]) =:= {ok, 1} end),
    ?assertEqual({ok, 500}, call(C, get, [500])),
    %% Its log has a hole where the snapshot came.
    kill(C),
    C = node(c, [], Config),
    await(fun() -> call(C, get, [last]) =:= {ok, 1} end),
    D = node(d, [{cluster_join, A}], Config),
    await(fun() -> call(D, get, [last]) =:= {ok, 1} end),
    %% Busy while a snapshot is being made.
    await(fun() -> element(1, verify(A)) =:= ok end).

%% No entry follows that would tell the restarted node what is confirmed.
a_node_is_restarted_while_nobody_writes(Config) ->
    [A, _, C] = cluster([a, b, c], Config),
    ok = call(A, set, [last, 1]),
    [
        begin
            kill(C),
            C = node(c, [], Config),
            await(fun() -> call(C, get, [last]) =:= {ok, 1} end)
        end
     || _ <- lists:seq(1, 5)
    ].

five_nodes_and_back(Config) ->
    [A, B, C, D, E] = cluster([a, b, c, d, e], Config),
    ?assertEqual(5, length([N || {N, R} <- roles(A), R =/= replica])),
    ok = call(E, set, [k, 1]),
    kill(D),
    kill(E),
    ok = call(A, set, [k, 2]),
    [ok = leave(A, N) || N <- [D, E]],
    ok = call(A, set, [k, 3]),
    kill(C),
    ok = call(B, set, [k, 4]).

a_dead_node_is_replaced(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    kill(C),
    D = node(d, [{cluster_join, B}], Config),
    await(fun() -> lists:member({D, replica}, roles(A)) end),
    ok = leave(A, C),
    await(fun() -> voters(A) =:= [A, B, D] end),
    kill(B),
    ok = call(D, set, [k, 2]),
    await(fun() -> call(A, get, [k]) =:= {ok, 2} end).

a_removed_node_stops_and_stays_out(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(B, set, [k, 1]),
    ok = leave(A, C),
    ?assertEqual(undefined, rpc(C, erlang, whereis, [todana_sup])),
    kill(C),
    ?assertMatch("data_dir: " ++ _, refused(c, [], Config)),
    ?assertMatch("data_dir: " ++ _, refused(c, [{cluster_join, A}], Config)),
    empty(c, Config),
    C = node(c, [{cluster_join, A}], Config),
    await(fun() -> voters(A) =:= [A, B, C] end),
    await(fun() -> call(C, get, [k]) =:= {ok, 1} end),
    %% It stops also if somebody was quicker to delete its directory. The node
    %% runs, and may make a file while the others are deleted.
    await(fun() -> file:del_dir_r(data_dir(c, Config)) =/= {error, eexist} end),
    ok = leave(A, C),
    ?assertEqual(undefined, rpc(C, erlang, whereis, [todana_sup])).

the_leader_can_be_moved_and_can_leave(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ?assertEqual(
        {error, "nobody@127.0.0.1 is not a member of the cluster"},
        rpc(B, todana_cluster, transfer, ['nobody@127.0.0.1'])
    ),
    ok = rpc(B, todana_cluster, transfer, [C]),
    await(fun() -> lists:member({C, leader}, roles(A)) end),
    ok = call(A, set, [k, 1]),
    ok = leave(B, C),
    await(fun() -> voters(A) =:= [A, B] end),
    ok = call(B, set, [k, 2]),
    ?assertMatch({error, _}, leave(A, C)).

%% Its node and its connections are as before, so Ra by itself would keep it.
a_leader_that_hangs_is_replaced(Config) ->
    Nodes = [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    Leader = rpc(A, todana_members, leader, [0]),
    [Other | _] = lists:delete(Leader, Nodes),
    {Server, _} = rpc(Leader, todana_ra_server, address, [0]),
    ok = rpc(Leader, sys, suspend, [Server]),
    await(fun() -> call(Other, set, [k, 2]) =:= ok end),
    ?assertNotEqual(Leader, rpc(Other, todana_members, leader, [0])),
    ok = rpc(Leader, sys, resume, [Server]),
    [await(fun() -> call(N, get, [k]) =:= {ok, 2} end) || N <- [A, B, C]],
    await(fun() -> element(1, verify(Leader)) =:= ok end).

%% The leader would confirm nothing while it waits for the other one.
a_node_that_hangs_is_not_made_the_leader(Config) ->
    Nodes = [A | _] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    Leader = rpc(A, todana_members, leader, [0]),
    [Frozen | _] = lists:delete(Leader, Nodes),
    {Server, _} = rpc(Leader, todana_ra_server, address, [0]),
    ok = signal(Frozen, "STOP"),
    try
        %% Its threads stop one after the other.
        await(fun() ->
            rpc(Leader, ra, ping, [{Server, Frozen}, 1_000]) =:= timeout
        end),
        Answer = rpc(Leader, todana_cluster, transfer, [Frozen]),
        ?assertMatch({error, _}, Answer),
        ok = call(Leader, set, [k, 2])
    after
        ok = signal(Frozen, "CONT")
    end,
    await(fun() -> call(Frozen, get, [k]) =:= {ok, 2} end).

the_last_node_can_go_on_alone(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    await(fun() -> call(A, get, [k]) =:= {ok, 1} end),
    ?assertMatch({error, _}, rpc(A, todana_cluster, force, [])),
    kill(B),
    kill(C),
    ok = rpc(A, todana_cluster, force, []),
    await(fun() -> call(A, set, [k, 2]) =:= ok end),
    ?assertEqual([{A, leader}], roles(A)),
    %% A node that was given up cannot come back.
    stays_out(b, Config),
    empty(c, Config),
    C = node(c, [{cluster_join, A}], Config),
    await(fun() -> call(C, get, [k]) =:= {ok, 2} end).

%% Its question for a snapshot waits for the leader that this node becomes. That
%% one answers it while `force' asks for snapshots of its own.
a_backup_does_not_hold_up_a_node_that_goes_on_alone(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    kill(B),
    kill(C),
    Backups = [
        spawn_monitor(fun() -> exit(rpc(A, todana_backup, prepare, [])) end)
     || _ <- [1, 2, 3]
    ],
    timer:sleep(3_000),
    ok = rpc(A, todana_cluster, force, []),
    [
        receive {'DOWN', Monitor, process, Pid, _} -> ok end
     || {Pid, Monitor} <- Backups
    ],
    await(fun() -> call(A, set, [k, 2]) =:= ok end).

%% They run, and elect a leader as soon as they reach each other again.
those_that_were_given_up_do_not_lead_it(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    await(fun() -> call(A, get, [k]) =:= {ok, 1} end),
    {Old, A} = rpc(A, todana_ra_server, address, [0]),
    [ok = signal(N, "STOP") || N <- [B, C]],
    try
        _ = [rpc(A, erlang, disconnect_node, [N]) || N <- [B, C]],
        %% From a leader whose last entry, a `clock set`, nobody has.
        {Era, NowMs, _} = rpc(A, todana_nif, group_clock, [0]),
        ok = rpc(A, todana_nif, group_clock_follow, [0, Era + 1, NowMs, 0]),
        ok = rpc(A, todana_cluster, force, []),
        ?assertMatch({Era, _, _}, rpc(A, todana_nif, group_clock, [0])),
        %% It accepts writes when this returns.
        ok = call(A, set, [k, 2])
    after
        [ok = signal(N, "CONT") || N <- [B, C]]
    end,
    %% What they send to the server that they knew reaches nobody.
    ?assertEqual(undefined, rpc(A, erlang, whereis, [Old])),
    [await(fun() -> not is_started(N) end) || N <- [B, C]],
    ?assertEqual({ok, 2}, call(A, get, [k, linear])),
    kill(A),
    A = node(a, [], Config),
    await(fun() -> is_open(A) end),
    ?assertEqual({ok, 2}, call(A, get, [k, linear])),
    empty(b, Config),
    B = node(b, [{cluster_join, A}], Config),
    await(fun() -> call(B, get, [k]) =:= {ok, 2} end),
    await(fun() -> element(1, verify(B)) =:= ok end).

%% A change of the members behind the snapshot would have the old names.
no_node_joins_while_it_goes_on_alone(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    await(fun() -> call(A, get, [k]) =:= {ok, 1} end),
    X = node(x, [{cluster_create, yes}], Config),
    Cluster = rpc(A, todana_admission, cluster, []),
    ?assertEqual({error, other_server},
                 rpc(A, todana_admission, admit, [Cluster, X, ~"x"])),
    [kill(N) || N <- [B, C]],
    ok = rpc(A, todana_data_dir, go_alone, [
        rpc(A, todana_raft_groups, opened, [0])
    ]),
    Facts = #{
        node => 'd@127.0.0.1', durability => always, version => 1,
        time_ms => erlang:system_time(millisecond), format => 100
    },
    ?assertMatch({later, _}, rpc(A, todana_admission, invite, [Facts])),
    Add = fun() -> rpc(A, todana_members, add, [0, 'd@127.0.0.1', ~"d"]) end,
    ?assertEqual({error, forced}, Add()),
    %% The note outlives the node, and is no obstacle for the command.
    kill(A),
    A = node(a, [], Config),
    await(fun() ->
        {later, Sentence} = rpc(A, todana_admission, invite, [Facts]),
        string:find(Sentence, "cluster force") =/= nomatch
    end),
    await(fun() -> rpc(A, todana_members, log_end, [0]) =/= unknown end),
    ok = rpc(A, todana_cluster, force, []),
    ok = call(A, set, [k, 2]),
    D = node(d, [{cluster_join, A}], Config),
    await(fun() -> call(D, get, [k]) =:= {ok, 2} end),
    await(fun() -> element(1, verify(A)) =:= ok end).

%% One that cannot connect to the others, with a wrong cookie, does not see that
%% they work.
nobody_goes_on_alone_beside_a_majority(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    [true = rpc(C, erlang, set_cookie, [N, wrong]) || N <- [A, B]],
    _ = [rpc(C, erlang, disconnect_node, [N]) || N <- [A, B]],
    {error, Sentence} = rpc(C, todana_cluster, force, []),
    ct:pal("~ts", [Sentence]),
    ?assertNotEqual(nomatch, string:find(Sentence, "run, and refuse this")),
    Refuse = fun() ->
        #{members := Members} = rpc(C, todana_cluster, status, []),
        [N || #{node := N, state := down, refuses := true} <- Members]
    end,
    ?assertEqual([A, B], Refuse()),
    ok = call(A, set, [k, 2]),
    %% One that hangs does not work.
    [ok = signal(N, "STOP") || N <- [A, B]],
    try
        ?assertEqual([], Refuse()),
        ok = rpc(C, todana_cluster, force, [])
    after
        [ok = signal(N, "CONT") || N <- [A, B]]
    end.

is_started(Node) ->
    Started = rpc(Node, application, which_applications, []),
    lists:keymember(todana, 1, Started).

%% A member that was down has less than another one that is left.
who_goes_on_alone_has_the_most(Config) ->
    [A, B, C, D, E] = cluster([a, b, c, d, e], Config),
    ok = call(A, set, [k, 1]),
    await(fun() -> call(E, get, [k]) =:= {ok, 1} end),
    kill(E),
    ok = call(A, set, [k, 2]),
    await(fun() -> call(B, get, [k]) =:= {ok, 2} end),
    [kill(N) || N <- [A, C, D]],
    {E, ok} = attempt(e, [], Config),
    await(fun() -> lists:member(B, rpc(E, erlang, nodes, [])) end),
    await(fun() -> rpc(E, todana_members, log_end, [0]) =/= unknown end),
    {error, Sentence} = rpc(E, todana_cluster, force, []),
    ?assertNotEqual(nomatch, string:find(Sentence, atom_to_list(B))),
    ok = rpc(B, todana_cluster, force, []),
    await(fun() -> call(B, set, [k, 3]) =:= ok end),
    ?assertEqual([{B, leader}], roles(B)).

a_refused_join_says_why(Config) ->
    [A, B] = cluster([a, b], Config),
    %% A directory of another cluster.
    X = node(x, [{cluster_create, yes}], Config),
    kill(X),
    "cluster_join: " ++ _ = refused(x, [{cluster_join, A}], Config),
    %% A directory with a log of its own.
    Y = node(y, [], Config),
    kill(Y),
    "cluster_join: " ++ _ = refused(y, [{cluster_join, A}], Config),
    %% A member whose directory is lost.
    kill(B),
    empty(b, Config),
    "cluster_join: " ++ _ = refused(b, [{cluster_join, A}], Config),
    %% One that confirms writes before they are on disk.
    ?assertMatch("durability: " ++ _, refused(
        z, [{cluster_join, A}, {durability, everysec}], Config
    )),
    ?assertMatch("durability: " ++ _,
                 refused(x, [{durability, everysec}], Config)),
    ?assertMatch("cluster_join: " ++ _, refused(
        z, [{cluster_join, A}, {cluster_create, yes}], Config
    )),
    Facts = #{
        node => 'z@127.0.0.1', durability => always,
        version => 1, time_ms => erlang:system_time(millisecond),
        format => rpc(A, todana_formats, newest, [])
    },
    Invite = fun(Changed) ->
        rpc(A, todana_admission, invite, [maps:merge(Facts, Changed)])
    end,
    ?assertMatch({ok, #{members := [_, _]}}, Invite(#{})),
    ?assertMatch({error, _}, Invite(#{version => 2})),
    ?assertMatch({error, _}, Invite(#{time_ms => 0})),
    ?assertMatch({error, _}, Invite(#{durability => everysec})).

a_node_joins_while_it_runs(Config) ->
    [A, B] = cluster([a, b], Config),
    ok = call(A, set, [k, 1]),
    {_, X} = peer(x),
    ok = rpc(X, application, ensure_started, [crypto]),
    ok = rpc(X, application, start, [todana, permanent]),
    %% The directories of another member and of something else, and an option.
    Join = fun(Peer, Directory) ->
        rpc(X, todana_cluster, join, [Peer, #{data_dir => Directory}])
    end,
    Own = rpc(X, erlang, whereis, [todana_sup]),
    {error, "node: " ++ _} = Join(A, data_dir(b, Config)),
    {error, "data_dir: " ++ _} = Join(A, filename:dirname(data_dir(b, Config))),
    ok = rpc(X, application, set_env, [todana, durability, everysec]),
    {error, "durability: " ++ _} = Join(A, data_dir(x, Config)),
    ok = rpc(X, application, unset_env, [todana, durability]),
    ?assertEqual(Own, rpc(X, erlang, whereis, [todana_sup])),
    ?assertNot(filelib:is_file(data_dir(x, Config))),
    ok = Join(A, data_dir(x, Config)),
    await(fun() -> call(X, get, [k]) =:= {ok, 1} end),
    await(fun() -> voters(A) =:= lists:sort([A, B, X]) end),
    ?assertEqual(permanent, restart_type(X)),
    %% The release goes on without the application.
    ok = leave(A, X),
    await(fun() -> not is_started(X) end),
    ?assertEqual(undefined, restart_type(X)).

restart_type(Node) ->
    {started, Started} = lists:keyfind(
        started, 1, rpc(Node, application, info, [])
    ),
    proplists:get_value(todana, Started).

%% Not even that durable tables are closed.
a_refused_join_changes_nothing(Config) ->
    [A, B] = cluster([a, b], Config),
    X = node(x, [{cluster_create, yes}], Config),
    ok = call(B, set, [k, 1]),
    Join = fun(Node) ->
        Options = #{data_dir => data_dir(new, Config)},
        {error, Sentence} = rpc(Node, todana_cluster, join, [X, Options]),
        Sentence
    end,
    Cluster = binary_to_list(rpc(A, todana_admission, cluster, [])),
    ?assertEqual("this node already is a member of the cluster " ++ Cluster,
                 Join(B)),
    ?assertEqual(1, rpc(B, todana, get, [cluster_suite, k, none])),
    %% A node with a log and clients of its own.
    Y = node(y, [{listen_resp, '127.0.0.1:0'}], Config),
    await(fun() -> is_open(Y) end),
    ok = call(Y, set, [k, 2]),
    ?assertMatch("databases: db0 was opened in this node" ++ _, Join(Y)),
    ?assertEqual(2, rpc(Y, todana, get, [cluster_suite, k, none])),
    ?assertNot(filelib:is_file(data_dir(new, Config))),
    %% A port that is taken is found only then; the old options are in force.
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    Z = node(z, [], Config),
    ok = rpc(Z, application, set_env, [
        todana, listen_kyoto, lists:concat(["127.0.0.1:", Port])
    ]),
    Refused = Join(Z),
    ?assertNotEqual(nomatch, string:find(Refused, integer_to_list(Port))),
    ?assertNotEqual(nomatch, string:find(Refused, "with its old options")),
    ?assertEqual({ok, data_dir(z, Config)},
                 rpc(Z, application, get_env, [todana, data_dir])).

%% Those of a listener, which are in memory. Neither a join nor a start leaves a
%% directory behind, which would be taken for that of a removed member.
databases_that_are_open_do_not_join(Config) ->
    [A] = cluster([a], Config),
    {_, X} = peer(x),
    ok = rpc(X, application, load, [todana]),
    ok = rpc(X, application, set_env, [todana, listen_resp, "127.0.0.1:0"]),
    {ok, _} = rpc(X, application, ensure_all_started, [todana]),
    Directory = data_dir(x, Config),
    Refused = fun({error, Sentence}) ->
        ct:pal("~ts", [Sentence]),
        ?assertMatch("databases: db0 was opened in this node" ++ _, Sentence),
        ?assertNotEqual(nomatch, string:find(Sentence, "restart it")),
        ?assertNot(filelib:is_file(Directory))
    end,
    Join = fun() ->
        rpc(X, todana_cluster, join, [A, #{data_dir => Directory}])
    end,
    Refused(Join()),
    Refused(Join()),
    ?assert(is_started(X)),
    ok = rpc(X, application, stop, [todana]),
    Start = fun(Options) ->
        rpc(X, todana_peers, start, [Directory, Options])
    end,
    Refused(Start([])),
    Refused(Start([{cluster_join, A}])),
    %% As the sentence says.
    X = node(x, [{cluster_join, A}, {listen_resp, '127.0.0.1:0'}], Config),
    await(fun() -> is_open(X) end).

%% Its directory is that of a node that is no member, and never was one.
a_join_that_was_interrupted_goes_on(Config) ->
    [A] = cluster([a], Config),
    ok = call(A, set, [k, 1]),
    {_, X} = peer(x),
    {ok, Invitation} = rpc(A, todana_admission, invite, [#{
        node => X, durability => always, version => 1,
        time_ms => erlang:system_time(millisecond), format => 100
    }]),
    {ok, _} = rpc(X, todana_data_dir_open, open, [
        data_dir(x, Config), always, {join, Invitation}, [{members, [A, X]}]
    ]),
    X = node(x, [], Config),
    await(fun() -> call(X, get, [k]) =:= {ok, 1} end).

a_stranger_gets_nothing(Config) ->
    [A] = cluster([a], Config),
    {ok, Peer, _} = peer:start(#{
        name => name(stranger), host => "127.0.0.1", longnames => true,
        connection => standard_io, wait_boot => 60_000,
        args => ["-setcookie", "wrong"]
    }),
    ?assertEqual(pang, peer:call(Peer, net_adm, ping, [A])),
    ?assertMatch(pong, rpc(A, net_adm, ping, [A])),
    ok = stop(Peer).

a_difference_is_found(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    await(fun() -> element(1, verify(A)) =:= ok end),
    await(fun() -> call(C, get, [k]) =:= {ok, 1} end),
    ok = call(C, spoil, [k]),
    await(fun() ->
        {error, Sentence} = verify(B),
        string:find(Sentence, "records differ") =/= nomatch
    end).

nodes_are_started_in_any_order(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    [kill(N) || N <- [A, B, C]],
    C = node(c, [], Config),
    B = node(b, [], Config),
    await(fun() -> call(C, get, [k]) =:= {ok, 1} end),
    await(fun() -> is_open(B) end),
    ok = call(B, set, [k, 2]),
    A = node(a, [], Config),
    await(fun() -> call(A, get, [k]) =:= {ok, 2} end).

%% The node of a lost directory creates a cluster of its own, since the command
%% line of its service says so. The others neither count it as the lost member
%% nor believe what it says of them.
a_lost_directory_does_not_begin_anew(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    kill(A),
    empty(a, Config),
    %% The others know it as a member.
    Create = [data_dir(a, Config), [{cluster_create, yes}]],
    IsKnown = fun(Sentence) ->
        string:find(Sentence, "is a member of the cluster") =/= nomatch
    end,
    ?assert(IsKnown(refused(a, lists:last(Create), Config))),
    %% So they do if its emulator needs long to become reachable, as that of a
    %% large release does.
    Unnamed = unnamed_peer(a),
    timer:sleep(?LONG_BOOT_MS),
    {error, Late} = peer:call(
        Unnamed, todana_peers, start_as, [A | Create], ?WAIT_MS
    ),
    ?assert(IsKnown(Late)),
    %% While they are down, nobody can know that.
    kill(B),
    kill(C),
    A = node(a, [{cluster_create, yes}], Config),
    await(fun() -> is_open(A) end),
    %% Their files may have had this option since they joined it.
    [B, C] = [
        node(Letter, [{cluster_join, A}], Config) || Letter <- [b, c]
    ],
    [await(fun() -> is_open(N) end) || N <- [B, C]],
    State = fun(At, Of) ->
        #{members := Members} = rpc(At, todana_cluster, status, []),
        hd([S || #{node := N, state := S} <- Members, N =:= Of])
    end,
    await(fun() -> State(B, A) =:= stranger end),
    ?assertEqual(serving, State(A, A)),
    %% It knows that, too, and says so until the others have removed it.
    Claims = fun() ->
        #{claims := Found} = rpc(A, todana_cluster, status, []),
        [Node || #{node := Node} <- Found]
    end,
    await(fun() -> Claims() =:= [B, C] end),
    {error, Claimed} = rpc(A, todana_stranger, verdict, []),
    ?assertMatch([_ | _], string:find(
        lists:flatten(Claimed), "a member of the cluster"
    )),
    ?assertEqual(ok, rpc(B, todana_stranger, verdict, [])),
    ok = call(A, set, [k, other]),
    [
        begin
            ok = call(N, add, [sum, 1]),
            timer:sleep(1_000)
        end
     || N <- [B, C, B, C, B, C]
    ],
    await(fun() -> call(B, get, [sum]) =:= {ok, 6} end),
    ?assertEqual({ok, 1}, call(B, get, [k])),
    ?assertEqual(error, call(A, get, [sum])),
    ok = leave(B, A),
    await(fun() -> element(1, verify(C)) =:= ok end),
    await(fun() -> rpc(A, todana_stranger, verdict, []) =:= ok end).

%% The cluster has no member of that name, which says nothing about the member.
another_name_does_not_harm_a_directory(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    kill(C),
    {Peer, _} = peer(cc),
    {error, Sentence} = peer:call(Peer, todana_peers, start, [
        data_dir(c, Config), []
    ], ?WAIT_MS),
    ?assertMatch([_ | _], string:find(Sentence, "belongs to the node")),
    C = node(c, [], Config),
    await(fun() -> call(C, get, [k]) =:= {ok, 1} end),
    await(fun() -> element(1, verify(B)) =:= ok end).

%% What only the leader has heard of is no change.
a_change_needs_a_majority(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    Replace = fun(Dead, New) ->
        rpc(A, todana_cluster, replace, [Dead, New])
    end,
    ?assertMatch({error, _}, Replace(C, B)),
    kill(B),
    kill(C),
    ?assertMatch({error, _}, leave(A, B)),
    ?assertMatch({error, _}, Replace(B, C)),
    B = node(b, [], Config),
    await(fun() -> is_open(B) end),
    ok = call(B, set, [k, 1]),
    C = node(c, [], Config),
    await(fun() -> call(C, get, [k]) =:= {ok, 1} end).

a_replica_that_is_down_stops_nobody(Config) ->
    [A, B] = cluster([a, b], Config),
    kill(B),
    ok = call(A, set, [k, 1]),
    %% Longer than a node is silent before it refuses writes.
    timer:sleep(6_000),
    ok = call(A, set, [k, 2]),
    ?assertEqual({ok, 2}, call(A, get, [k, linear])),
    %% It reads its own log, too.
    kill(A),
    A = node(a, [], Config),
    await(fun() -> is_open(A) end),
    ?assertEqual({ok, 2}, call(A, get, [k])),
    ok = call(A, set, [k, 3]).

two_nodes_that_were_given_up_stay_out(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    [
        await(fun() -> has_noted(N, Letter, 3, Config) end)
     || {N, Letter} <- [{B, b}, {C, c}]
    ],
    kill(B),
    kill(C),
    ok = rpc(A, todana_cluster, force, []),
    await(fun() -> call(A, set, [k, 2]) =:= ok end),
    ?assertMatch("data_dir: " ++ _, refused(b, [], Config)),
    ?assertMatch("data_dir: " ++ _, refused(c, [], Config)),
    ?assertEqual({ok, 2}, call(A, get, [k])).

%% As its sentence says. All that was acknowledged is there afterwards.
a_member_with_a_damaged_log_joins_anew(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    [await(fun() -> has_noted(N, L, 3, Config) end)
     || {N, L} <- [{A, a}, {B, b}]],
    kill(C),
    [ok = call(A, set, [N, N]) || N <- lists:seq(1, 50)],
    await(fun() -> call(B, get, [50]) =:= {ok, 50} end),
    kill(B),
    flip(log_file(b, Config)),
    ok = at_peer(b, fun(Peer) ->
        ok = peer:call(Peer, todana_peers, start, [data_dir(b, Config), []]),
        await(fun() ->
            maps:get(state, peer:call(Peer, todana, info, [])) =:= failed
        end),
        #{reason := Reason} = peer:call(Peer, todana, info, []),
        ct:pal("~ts", [Reason]),
        ?assertEqual(nomatch, string:find(Reason, "todana repair")),
        ?assertNotEqual(nomatch, string:find(Reason, lists:concat([
            "cluster leave ", B
        ])))
    end),
    ok = at_peer(b, fun(Peer) ->
        {error, Refusal} = peer:call(
            Peer, todana_offline, repair, [data_dir(b, Config)]
        ),
        ?assertNotEqual(nomatch, string:find(Refusal, "cluster leave"))
    end),
    %% Those that stay must be able to confirm that.
    ?assertMatch({error, _}, leave(A, B)),
    C = node(c, [], Config),
    await(fun() -> is_open(C) end),
    await(fun() -> leave(A, B) =:= ok end),
    empty(b, Config),
    B = node(b, [{cluster_join, A}], Config),
    await(fun() -> length(voters(A)) =:= 3 end),
    [
        await(fun() -> call(At, get, [N]) =:= {ok, N} end)
     || At <- [A, B, C], N <- lists:seq(1, 50)
    ],
    await(fun() -> element(1, verify(B)) =:= ok end).

%% One has a log that was cut, and is elected by another one that has missed the
%% same entries. The third one notices when it hears of them, and before it
%% starts; its log stays as it is.
members_that_disagree_stop(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    [await(fun() -> has_noted(N, L, 3, Config) end)
     || {N, L} <- [{A, a}, {B, b}, {C, c}]],
    kill(C),
    [ok = call(A, set, [N, N]) || N <- lists:seq(1, 100)],
    await(fun() -> call(B, get, [100]) =:= {ok, 100} end),
    ok = rpc(A, todana_log_SUITE, await_noted, []),
    kill(B),
    ok = cut(b, Config),
    ok = signal(A, "STOP"),
    {B, ok} = attempt(b, [], Config),
    {C, ok} = attempt(c, [], Config),
    await(fun() -> call(B, set, [k, b]) =:= ok end),
    await(fun() -> call(C, get, [k]) =:= {ok, b} end),
    ?assertEqual(error, call(C, get, [100])),
    ok = signal(A, "CONT"),
    await(fun() -> rpc(A, erlang, whereis, [todana_sup]) =:= undefined end),
    stop(of_node(A)),
    Logs = logs(a, Config),
    ?assertMatch([_ | _], Logs),
    Sentence = refused(a, [], Config),
    [
        ?assertNotEqual(nomatch, string:find(Sentence, Part))
     || Part <- ["has confirmed entry", lists:concat(["cluster leave ", A])]
    ],
    ?assertEqual(Logs, logs(a, Config)),
    %% The others go on, and `verify' reports the difference. If the leader has
    %% met the third member, its log may have ended, and is read again.
    await(fun() -> call(B, set, [k, c]) =:= ok end),
    ?assertMatch({error, _}, verify(B)),
    await(fun() -> leave(B, A) =:= ok end),
    empty(a, Config),
    A = node(a, [{cluster_join, B}], Config),
    await(fun() -> call(A, get, [k]) =:= {ok, c} end),
    await(fun() -> element(1, verify(A)) =:= ok end).

%% The newest file of the log of a node that does not run.
log_file(Letter, Config) ->
    Pattern = filename:join([data_dir(Letter, Config), "always", "*.wal"]),
    lists:last([
        File
     || File <- lists:sort(filelib:wildcard(Pattern)),
        byte_size(todana_log_writer:read_used(File)) > 1_000
    ]).

logs(Letter, Config) ->
    Pattern = filename:join([data_dir(Letter, Config), "always", "**"]),
    [
        {File, file:read_file(File)}
     || File <- filelib:wildcard(Pattern),
        lists:member(filename:extension(File), [".wal", ".segment"])
    ].

%% Changes a byte in the middle of a record.
flip(File) ->
    {ok, Bytes} = file:read_file(File),
    At = byte_size(todana_log_writer:read_used(File)) div 2,
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    ok = file:write_file(File, [Before, Byte bxor 1, After]).

%% What `repair' does where it does not refuse.
cut(Letter, Config) ->
    flip(log_file(Letter, Config)),
    DataDir = data_dir(Letter, Config),
    at_peer(Letter, fun(Peer) ->
        UId = peer:call(Peer, todana_offline, uid, [DataDir]),
        {ok, Text} = peer:call(Peer, todana_log_tail, repair, [
            filename:join(DataDir, "always"), UId, always
        ]),
        ct:pal("~ts", [Text])
    end).

%% Does something at a node with this name, which ends afterwards.
at_peer(Letter, Do) ->
    {Peer, _} = peer(Letter),
    Do(Peer),
    stop(Peer).

has_noted(Node, Letter, Count, Config) ->
    case rpc(Node, todana_data_dir, identity, [data_dir(Letter, Config)]) of
        {ok, #{members := Members}} -> length(Members) =:= Count;
        _ -> false
    end.

%% A node that was given up notices it before it starts, or soon after.
stays_out(Letter, Config) ->
    case attempt(Letter, [], Config) of
        {_, {error, "data_dir: " ++ _}} ->
            ok;
        {Node, ok} ->
            await(fun() ->
                rpc(Node, erlang, whereis, [todana_sup]) =:= undefined
            end)
    end.

%% It does not know the members before its log runs. "No member" would be taken
%% for the success of an earlier question.
a_node_that_starts_denies_no_member(Config) ->
    [A, B] = cluster([a, b], Config),
    {Name, _} = rpc(A, todana_ra_server, address, [0]),
    ok = rpc(A, sys, suspend, [Name]),
    true = rpc(A, ets, delete, [ra_leaderboard, Name]),
    ?assertEqual({error, "the cluster has no leader"}, asked_to_leave(A, B)),
    ok = rpc(A, sys, resume, [Name]),
    await(fun() -> asked_to_leave(A, B) =:= {ok, true} end),
    await(fun() ->
        {error, Sentence} = asked_to_leave(A, B),
        string:find(Sentence, "is not a member of the cluster") =/= nomatch
    end).

asked_to_leave(Asked, Node) ->
    Answer = rpc(Asked, todana_cluster_commands, run, [
        ~"leave", #{~"argument" => atom_to_binary(Node)}
    ]),
    case Answer of
        {error, Sentence} -> {error, lists:flatten(Sentence)};
        {ok, _} -> Answer
    end.

%% The others are up: a has all records, and b none of the later ones.
an_older_copy_is_refused(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 0]),
    kill(C),
    ok = copy(c, Config),
    kill(B),
    C = node(c, [], Config),
    %% If that took long, a has refused writes meanwhile.
    await(fun() -> call(A, set, [k, 0]) =:= ok end),
    [ok = call(A, set, [K, K]) || K <- lists:seq(1, 20)],
    await(fun() -> call(C, get, [20]) =:= {ok, 20} end),
    kill(C),
    ok = restore(c, Config),
    %% What the leader knows to the entry, not what was announced; although it
    %% has had no majority for longer than it takes to notice that.
    timer:sleep(3_000),
    C = node(c, [], Config),
    await(fun() -> is_older_copy(C) end),
    kill(A),
    B = node(b, [], Config),
    %% Nothing leads, and nothing is lost.
    ?assertMatch({error, _}, call(B, set, [k, lost])),
    kill(C),
    C = node(c, [], Config),
    await(fun() -> is_older_copy(C) end),
    ?assertMatch({error, _}, call(B, set, [k, lost])),
    A = node(a, [], Config),
    [
        await(fun() -> call(N, get, [20, linear]) =:= {ok, 20} end)
     || N <- [A, B]
    ],
    %% The way that the sentence names.
    ok = leave(A, C),
    kill(C),
    empty(c, Config),
    C = node(c, [{cluster_join, A}], Config),
    await(fun() -> voters(A) =:= [A, B, C] end),
    await(fun() -> call(C, get, [20]) =:= {ok, 20} end).

%% A member announces once a second, and what it has when it stops.
the_last_moment_before_a_stop_is_remembered(Config) ->
    [A, _B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 0]),
    await(fun() -> call(C, get, [k]) =:= {ok, 0} end),
    await(fun() -> remembers(b, C, index(C), Config) end),
    ok = call(A, set, [k, 1]),
    await(fun() -> call(C, get, [k]) =:= {ok, 1} end),
    Index = index(C),
    ok = rpc(C, application, stop, [todana]),
    await(fun() -> remembers(b, C, Index, Config) end).

%% It runs, and waits for others, when the one comes that remembers.
an_older_copy_that_starts_first_is_refused(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    kill(C),
    ok = copy(c, Config),
    C = node(c, [], Config),
    [ok = call(A, set, [K, K]) || K <- lists:seq(1, 20)],
    await(fun() -> remembers(b, C, index(C), Config) end),
    [kill(N) || N <- [A, B, C]],
    ok = restore(c, Config),
    C = node(c, [], Config),
    await(fun() -> rpc(C, todana_ra_server, is_running, [0]) end),
    B = node(b, [], Config),
    await(fun() ->
        rpc(C, erlang, whereis, [todana_sup]) =:= undefined
    end),
    ?assertMatch({error, _}, call(B, set, [k, lost])),
    A = node(a, [], Config),
    await(fun() -> call(B, get, [20, linear]) =:= {ok, 20} end).

%% The copies are not of the same moment, so b remembers more of c than c has.
older_copies_of_all_are_accepted_by_an_option(Config) ->
    Nodes = [A, B, C] = cluster([a, b, c], Config),
    ok = call(A, set, [k, 1]),
    [await(fun() -> call(N, get, [k]) =:= {ok, 1} end) || N <- Nodes],
    kill(A),
    kill(C),
    [copy(Letter, Config) || Letter <- [a, c]],
    C = node(c, [], Config),
    await(fun() -> is_open(C) end),
    [ok = call(C, set, [K, K]) || K <- lists:seq(1, 20)],
    await(fun() -> remembers(b, C, index(C), Config) end),
    kill(B),
    kill(C),
    ok = copy(b, Config),
    Restored = fun(Options) ->
        [restore(Letter, Config) || Letter <- [a, b, c]],
        [A, B, C] = [node(Letter, Options, Config) || Letter <- [a, b, c]]
    end,
    _ = Restored([]),
    await(fun() ->
        is_older_copy(C) orelse
            rpc(C, erlang, whereis, [todana_sup]) =:= undefined
    end),
    [kill(N) || N <- Nodes],
    _ = Restored([{cluster_accept_older, yes}]),
    await(fun() -> call(A, set, [k, 2]) =:= ok end),
    [await(fun() -> call(N, get, [k, linear]) =:= {ok, 2} end) || N <- Nodes],
    await(fun() -> element(1, verify(A)) =:= ok end),
    %% From then on they remember each other as before.
    await(fun() -> remembers(b, C, index(C), Config) end),
    [kill(N) || N <- Nodes],
    [A, B, C] = [node(Letter, [], Config) || Letter <- [a, b, c]],
    await(fun() -> call(B, get, [k, linear]) =:= {ok, 2} end).

%% Nobody who was up knew that c had confirmed more. The one that does is not
%% made to forget what only it has.
a_member_does_not_follow_an_older_copy(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    [kill(N) || N <- [B, C]],
    ok = copy(c, Config),
    C = node(c, [], Config),
    [await(fun() -> call(A, set, [K, K]) =:= ok end) || K <- lists:seq(1, 50)],
    await(fun() -> remembers(a, C, index(C), Config) end),
    [kill(N) || N <- [A, C]],
    ok = restore(c, Config),
    [B, C] = [node(Letter, [], Config) || Letter <- [b, c]],
    await(fun() -> call(B, set, [k, other]) =:= ok end),
    %% What it knows of itself, or what the others remember, comes first.
    case attempt(a, [], Config) of
        {A, ok} ->
            await(fun() -> has_failed(A, "leads the cluster with") end);
        {A, {error, Sentence}} ->
            ?assertNotEqual(
                nomatch, string:find(Sentence, "others in its place")
            )
    end,
    %% The others go on, as long as nobody decides.
    ok = call(C, set, [k, another]),
    [kill(N) || N <- [A, B, C]],
    Files = filelib:wildcard(filename:join(data_dir(a, Config), "always/*")),
    ?assert(lists:any(fun(File) ->
        {ok, Bytes} = file:read_file(File),
        binary:match(Bytes, ~"cluster_suite") =/= nomatch
    end, [F || F <- Files, filelib:is_regular(F)])).

%% A node that is killed has all that it has confirmed, whatever the others
%% write meanwhile, and whichever of them is up.
a_member_with_all_it_confirmed_comes_back(Config) ->
    [A, B, C] = Nodes = cluster([a, b, c], Config),
    Letters = #{A => a, B => b, C => c},
    Writer = spawn_link(fun() -> write_on(Nodes, 1) end),
    [
        begin
            kill(N),
            N = node(maps:get(N, Letters), [], Config),
            await(fun() -> is_open(N) end)
        end
     || _ <- lists:seq(1, 3), N <- Nodes
    ],
    true = unlink(Writer),
    true = exit(Writer, kill),
    %% One stays down.
    [kill(N) || N <- Nodes],
    [B, C] = [node(Letter, [], Config) || Letter <- [b, c]],
    await(fun() -> call(B, set, [last, 1]) =:= ok end),
    kill(C),
    C = node(c, [], Config),
    await(fun() -> call(C, get, [last, linear]) =:= {ok, 1} end).

%% Two while both others are up, one while one of them is down.
wait_counts_members_that_are_up(Config) ->
    A = node(a, [
        {cluster_create, yes}, {listen_resp, '127.0.0.1:0'}
    ], Config),
    [B, C] = [node(N, [{cluster_join, A}], Config) || N <- [b, c]],
    await(fun() -> voters(A) =:= [A, B, C] end),
    #{resp := Address} = maps:from_list(rpc(A, todana_listener, addresses, [])),
    [Host, Port] = string:split(Address, ":"),
    {ok, Socket} = gen_tcp:connect(Host, list_to_integer(Port), [
        binary, {active, false}
    ]),
    Wait = fun() ->
        ok = gen_tcp:send(Socket, ~"SET k 1\r\nWAIT 2 1000\r\n"),
        {ok, Reply} = gen_tcp:recv(Socket, length("+OK\r\n:2\r\n")),
        Reply
    end,
    await(fun() -> Wait() =:= ~"+OK\r\n:2\r\n" end),
    kill(C),
    await(fun() -> Wait() =:= ~"+OK\r\n:1\r\n" end),
    C = node(c, [], Config),
    await(fun() -> Wait() =:= ~"+OK\r\n:2\r\n" end),
    ok = gen_tcp:close(Socket).

%% A node writes its place into the map before its listeners are open.
a_client_learns_the_ports_that_are_not_in_the_map(Config) ->
    A = node(a, [
        {cluster_create, yes}, {listen_resp, '127.0.0.1:0'}
    ], Config),
    await(fun() -> is_open(A) end),
    #{resp := Address} = maps:from_list(rpc(A, todana_listener, addresses, [])),
    [Host, Port] = string:split(Address, ":"),
    Key = {node, A},
    Entry = fun() ->
        %% The table is opened a moment later.
        try rpc(A, todana, get, [todana_cluster_map, Key])
        catch _:_ -> error
        end
    end,
    await(fun() -> Entry() =/= error end),
    {ok, Own} = Entry(),
    ok = rpc(A, todana, put, [todana_cluster_map, Key, Own#{
        host := list_to_binary(Host), resp := 0
    }]),
    ok = rpc(A, todana_topology, note, []),
    {ok, Socket} = gen_tcp:connect(Host, list_to_integer(Port), [
        binary, {active, false}
    ]),
    ok = gen_tcp:send(Socket, ~"CLUSTER SLOTS\r\n"),
    {ok, Reply} = gen_tcp:recv(Socket, 0),
    Node = iolist_to_binary([~"127.0.0.1\r\n:", Port, ~"\r\n"]),
    ?assertNotEqual(nomatch, string:find(Reply, Node), Reply),
    ok = gen_tcp:close(Socket).

write_on(Nodes, N) ->
    At = lists:nth(N rem 3 + 1, Nodes),
    _ = try call(At, set, [n, N]) catch _:_ -> ok end,
    write_on(Nodes, N + 1).

copy(Letter, Config) ->
    Directory = data_dir(Letter, Config),
    "" = os:cmd(lists:concat(["cp -a ", Directory, " ", Directory, ".copy"])),
    ok.

restore(Letter, Config) ->
    Directory = data_dir(Letter, Config),
    ok = file:del_dir_r(Directory),
    "" = os:cmd(lists:concat(["cp -a ", Directory, ".copy ", Directory])),
    ok.

index(Node) ->
    await(fun() -> is_open(Node) end),
    call(Node, index, []).

%% Whether a directory remembers that another node has confirmed this entry.
remembers(Letter, Other, Index, Config) ->
    Rows = todana_confirmed:read(data_dir(Letter, Config)),
    lists:any(fun({_, N, I}) -> N =:= Other andalso I >= Index end, Rows).

is_older_copy(Node) -> has_failed(Node, "older copy").

has_failed(Node, Words) ->
    case rpc(Node, todana, info, []) of
        #{state := failed, reason := Reason} ->
            string:find(Reason, Words) =/= nomatch;
        #{} ->
            false
    end.

%% ------------------------------------------------------------------ nodes ---

%% Writers of all members, and then the leader is killed below them.
batches_of_several_members_become_one_entry(Config) ->
    [A, _, C] = Nodes = cluster([a, b, c], Config),
    Figures = fun() -> rpc(C, todana_nif, group_info, [0]) end,
    #{batches := Batches, applied_index := Index} = Figures(),
    ok = at_once([fun() -> ok = call(Node, add_at_once, [Node, 8, 50]) end
                  || Node <- Nodes]),
    Total = 8 * 50,
    [
        await(fun() -> call(At, get, [Node]) =:= {ok, Total} end)
     || At <- Nodes, Node <- Nodes
    ],
    #{batches := More, applied_index := Last, format_used := 5} = Figures(),
    %% Each of them would be an entry.
    ?assert(More - Batches > Last - Index),
    ?assertMatch({ok, _}, verify(A)),
    Leader = rpc(A, todana_members, leader, [0]),
    Left = Nodes -- [Leader],
    Kill = fun() -> timer:sleep(50), kill(Leader) end,
    ok = at_once([Kill | [
        fun() -> ok = call(Node, add_at_once, [Node, 8, 50]) end
     || Node <- Left
    ]]),
    %% An increment without an answer is done once, or not at all.
    [
        await(fun() ->
            [{ok, Count}, Same] = [call(At, get, [Node]) || At <- Left],
            Same =:= {ok, Count} andalso Count > Total andalso
                Count =< 2 * Total
        end)
     || Node <- Left
    ].

at_once(Funs) ->
    Monitors = [element(2, spawn_monitor(Fun)) || Fun <- Funs],
    _ = [
        receive {'DOWN', Monitor, process, _, Why} -> normal = Why end
     || Monitor <- Monitors
    ],
    ok.

%% A member that announces nothing reads the first format.
a_format_is_written_that_all_members_read(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    Common = fun(Node) -> rpc(Node, todana_formats, common, [0]) end,
    Newest = rpc(A, todana_formats, newest, []),
    [await(fun() -> Common(Node) =:= Newest end) || Node <- [A, B, C]],
    %% A member knows it when it accepts its first write.
    B = node(b, [], Config),
    await(fun() -> is_open(B) end),
    ?assertEqual(Newest, Common(B)),
    kill(C),
    {ok, Entry} = rpc(A, todana, get, [todana_cluster_map, {node, C}]),
    Old = maps:remove(format, Entry),
    ok = rpc(A, todana, put, [todana_cluster_map, {node, C}, Old]),
    %% All members read the format that is in the log, whatever the map says:
    %% that of an entry of several batches. A node that cannot ask for the
    %% members now goes on with what it knew.
    [
        begin
            ok = rpc(Node, todana_formats, renew, [0]),
            ?assert(Common(Node) >= 5)
        end
     || Node <- [A, B]
    ],
    %% A new node of an older version would stop at it.
    Facts = #{
        node => 'old@127.0.0.1', durability => always, version => 1,
        time_ms => erlang:system_time(millisecond)
    },
    Invite = fun() -> rpc(A, todana_admission, invite, [Facts]) end,
    {error, Sentence} = Invite(),
    ?assertNotEqual(nomatch, string:find(Sentence, "reads none newer than 1")),
    ok = leave(A, C),
    %% It is in the map before it has all records, and keeps nothing back.
    empty(c, Config),
    C = node(c, [{cluster_join, A}], Config),
    await(fun() -> lists:keymember(C, 1, roles(A)) end),
    await(fun() ->
        case rpc(A, todana, get, [todana_cluster_map, {node, C}]) of
            {ok, #{format := Newest}} -> Common(A) =:= Newest;
            _ -> false
        end
    end).

keys_keep_the_node_of_their_identifiers(Config) ->
    Nodes = [A, B, _] = cluster([a, b, c], Config),
    [ok = call(Node, put_identifiers, []) || Node <- Nodes],
    Expected = lists:sort(Nodes),
    await(fun() ->
        lists:all(
            fun(Node) ->
                {Kept, Own} = call(Node, identifiers, []),
                Own =:= {ok, Node} andalso
                    lists:sort([Owner || {Owner, Owner} <- Kept]) =:= Expected
            end,
            Nodes
        )
    end),
    await(fun() -> element(1, verify(B)) =:= ok end),
    %% What an earlier version has stored can still be read.
    Before = length(element(1, call(A, identifiers, []))),
    ok = call(A, put_old_identifier, []),
    await(fun() -> length(element(1, call(B, identifiers, []))) > Before end),
    {Kept, _} = call(B, identifiers, []),
    ?assert(lists:member({B, old}, Kept)).

call(Node, Function, Arguments) -> rpc(Node, ?MODULE, Function, Arguments).

%% ----------------------------------------------------- in the peer's node ---

%% The pid has the same text on each node.
put_identifiers() ->
    {ok, _} = todana:open(identifiers, #{durable => true, codec => term}),
    todana:put(identifiers, {session, [whereis(init)]}, node()).

%% For each record the node of the pid in its key, and its value; and what is
%% found by this node's own pid.
identifiers() ->
    {
        [
            {node(Pid), Value}
         || {{_, [Pid]}, Value} <- todana:to_list(identifiers)
        ],
        todana:get(identifiers, {session, [whereis(init)]})
    }.

put_old_identifier() ->
    Marked = {session, [{'$local', pid, ~"<0.0.0>"}]},
    Key = <<2, (term_to_binary(Marked, [deterministic]))/binary>>,
    Value = todana_codec:value(old),
    todana_commit:commit_encoded(identifiers, [{Key, Value, 0, never}]).

set(Key, Value) -> outcome(fun() -> todana:put(table(), Key, Value) end).

add(Key, Number) ->
    outcome(fun() ->
        _ = todana:update_counter(table(), Key, Number, #{initial => 0}),
        ok
    end).

%% Processes that increment a counter this number of times each.
add_at_once(Key, Processes, Times) ->
    Add = fun() -> [_ = add(Key, 1) || _ <- lists:seq(1, Times)] end,
    Monitors = [
        element(2, spawn_monitor(Add)) || _ <- lists:seq(1, Processes)
    ],
    _ = [receive {'DOWN', Monitor, _, _, _} -> ok end || Monitor <- Monitors],
    ok.

get(Key) -> outcome(fun() -> todana:get(table(), Key) end).

get(Key, Level) ->
    outcome(fun() ->
        case todana:get(table(), Key, none, #{read => Level}) of
            none -> error;
            Value -> {ok, Value}
        end
    end).

index() -> todana:index(table()).

read_after(Index) ->
    outcome(fun() -> todana:read_after(table(), Index) end).

%% Changes a record of this node alone, as a fault of the memory would.
spoil(Key) ->
    ok = sys:suspend(todana_batcher),
    Table = table(),
    _ = spawn(fun() -> todana:put(Table, Key, spoilt) end),
    {_, Batch} = taken(),
    {done, _} = todana_nif:group_apply(
        0, Batch, 0, todana_nif:group_applied(0) + 1,
        erlang:system_time(millisecond)
    ),
    sys:resume(todana_batcher).

taken() ->
    case todana_nif:group_take(0, 0) of
        empty -> taken();
        Taken -> Taken
    end.

table() ->
    {ok, Table} = todana:open(cluster_suite, #{
        durable => true, codec => term
    }),
    Table.

outcome(Do) ->
    try
        Do()
    catch
        error:Reason -> {error, Reason}
    end.
