%% Names in cluster scopes on three nodes, which fail, hang and come back.
-module(todana_names_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_name_has_one_owner/1,
    a_name_is_used_from_each_node/1,
    a_process_that_ends_frees_its_names/1,
    a_node_that_stops_frees_its_names/1,
    a_node_that_is_killed_frees_its_names/1,
    a_node_that_hangs_loses_its_names/1,
    a_minority_registers_nothing/1,
    names_outlive_the_leader/1,
    a_name_is_unregistered_from_another_node/1,
    tokens_grow_on_a_node_that_goes_on_alone/1,
    a_group_has_members_of_all_nodes/1,
    a_lock_has_one_owner_while_nodes_are_killed/1,
    the_leader_of_the_page_is_safe/1
]).
%% Called in the peer nodes
-export([owner/2, owners/2, noticed/1, race/1, member/1, watcher/1]).

-import(todana_peers, [
    node/3, guest/3, kill/1, signal/2, rpc/4, await/1, cluster/2, is_open/1,
    roles/1
]).

-define(SCOPE, services).
%% More than the silence after which a session ends.
-define(HANG_MS, 14_000).

all() ->
    [
        a_name_has_one_owner,
        a_name_is_used_from_each_node,
        a_process_that_ends_frees_its_names,
        a_node_that_stops_frees_its_names,
        a_node_that_is_killed_frees_its_names,
        a_node_that_hangs_loses_its_names,
        a_minority_registers_nothing,
        names_outlive_the_leader,
        a_name_is_unregistered_from_another_node,
        tokens_grow_on_a_node_that_goes_on_alone,
        a_group_has_members_of_all_nodes,
        a_lock_has_one_owner_while_nodes_are_killed,
        the_leader_of_the_page_is_safe
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

%% Processes of all nodes ask for the same names at once.
a_name_has_one_owner(Config) ->
    Nodes = nodes_with_scope(Config),
    Names = lists:seq(1, 50),
    Winners = at_once([
        fun() -> call(Node, race, [Names]) end || Node <- Nodes, _ <- [1, 2]
    ]),
    Won = lists:append(Winners),
    ?assertEqual(Names, lists:sort([Name || {Name, _} <- Won])),
    [
        await(fun() -> whereis_name(Node, Name) =:= Pid end)
     || Node <- Nodes, {Name, Pid} <- Won
    ],
    [?assertEqual(50, names(Node, count, [?SCOPE])) || Node <- Nodes].

a_name_is_used_from_each_node(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    {Pid, {yes, Token}} = call(A, owner, [{user, 7}, #{metadata => m}]),
    Name = {?SCOPE, {user, 7}},
    [
        begin
            await(fun() -> whereis_name(Node, {user, 7}) =:= Pid end),
            Via = {via, todana_names, Name},
            ?assertEqual(
                [], rpc(Node, gen_server, call, [Via, noticed])
            ),
            ?assertEqual({ok, Pid, m}, names(Node, lookup, [Name])),
            ?assertEqual({ok, Pid, Token}, names(Node, lookup_token, [Name])),
            ?assertEqual(
                [{user, 7}], names(Node, which_names, [?SCOPE, Pid])
            ),
            ?assertEqual([{user, 7}], names(Node, which_names, [?SCOPE, A]))
        end
     || Node <- [A, B, C]
    ],
    {_, no} = call(B, owner, [{user, 7}, #{}]),
    ?assertEqual([], names(B, which_names, [?SCOPE, C])),
    ok = names(B, set_metadata, [Name, n]),
    await(fun() -> names(C, lookup, [Name]) =:= {ok, Pid, n} end).

a_process_that_ends_frees_its_names(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    Owned = call(B, owners, [lists:seq(1, 500), #{}]),
    await(fun() -> names(C, count, [?SCOPE]) =:= 500 end),
    [true = rpc(B, erlang, exit, [Pid, kill]) || {Pid, _} <- Owned],
    [
        await(fun() -> names(Node, which_names, [?SCOPE]) =:= [] end)
     || Node <- [A, B, C]
    ],
    {Pid, {yes, _}} = call(C, owner, [1, #{}]),
    await(fun() -> whereis_name(B, 1) =:= Pid end).

%% Before it is gone: nobody has to miss it for a while.
a_node_that_stops_frees_its_names(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    {_, {yes, Before}} = call(C, owner, [name, #{}]),
    ok = rpc(C, application, stop, [todana]),
    {Pid, {yes, Token}} = call(B, owner, [name, #{}]),
    ?assert(Token > Before),
    await(fun() -> whereis_name(A, name) =:= Pid end).

a_node_that_is_killed_frees_its_names(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    {Pid, {yes, Before}} = call(C, owner, [name, #{}]),
    _ = call(C, owners, [lists:seq(1, 1_100), #{}]),
    await(fun() -> whereis_name(A, name) =:= Pid end),
    kill(C),
    %% Nobody knows yet whether it lives.
    {_, no} = call(A, owner, [name, #{}]),
    {_, {yes, Token}} = await_owner(B, name),
    ?assert(Token > Before),
    await(fun() -> names(A, which_names, [?SCOPE]) =:= [name] end),
    %% It comes back with the same name.
    C = node(c, [], Config),
    await(fun() -> is_open(C) end),
    ok = names(C, start_scope, [?SCOPE, cluster]),
    {_, no} = call(C, owner, [name, #{}]),
    {_, {yes, _}} = call(C, owner, [other, #{}]).

%% It is noticed, and has no name that another node has.
a_node_that_hangs_loses_its_names(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    [{Lost, {yes, Old}}, {Again, {yes, _}}, {Silent, {yes, _}}] = [
        call(C, owner, [Name, #{again => Again, notify => Notify}])
     || {Name, Again, Notify} <- [
            {lost, true, true}, {again, true, true}, {silent, true, false}
        ]
    ],
    ok = signal(C, "STOP"),
    {Pid, {yes, New}} = await_owner(A, lost),
    ?assert(New > Old),
    ok = signal(C, "CONT"),
    Noticed = fun(Process) -> call(C, noticed, [Process]) end,
    await(fun() -> Noticed(Lost) =:= [{lost, {?SCOPE, lost}}] end),
    await(fun() ->
        Noticed(Again) =:=
            [{lost, {?SCOPE, again}}, {regained, {?SCOPE, again}}]
    end),
    ?assertEqual([], Noticed(Silent)),
    [
        begin
            await(fun() -> whereis_name(Node, lost) =:= Pid end),
            await(fun() -> whereis_name(Node, again) =:= Again end),
            await(fun() -> whereis_name(Node, silent) =:= Silent end),
            await(fun() -> names(Node, count, [?SCOPE]) =:= 3 end)
        end
     || Node <- [A, B, C]
    ].

%% Its names stay: nobody else could have got them.
a_minority_registers_nothing(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    {Pid, {yes, Token}} = call(A, owner, [name, #{notify => true}]),
    kill(B),
    kill(C),
    await(fun() -> whereis_name(A, name) =:= undefined end),
    {_, {error, Reason}} = call(A, owner, [other, #{}]),
    ?assert(Reason =:= unavailable orelse Reason =:= unknown),
    timer:sleep(?HANG_MS),
    ?assertEqual([{lost, {?SCOPE, name}}], call(A, noticed, [Pid])),
    B = node(b, [], Config),
    C = node(c, [], Config),
    await(fun() -> whereis_name(A, name) =:= Pid end),
    await(fun() ->
        call(A, noticed, [Pid]) =:=
            [{lost, {?SCOPE, name}}, {regained, {?SCOPE, name}}]
    end),
    ?assertEqual({ok, Pid, Token}, names(A, lookup_token, [{?SCOPE, name}])),
    %% A registration without an outcome has none later.
    await(fun() -> names(A, which_names, [?SCOPE]) =:= [name] end).

names_outlive_the_leader(Config) ->
    [A, B, C] = Nodes = nodes_with_scope(Config),
    Owned = [{Node, call(Node, owner, [Node, #{}])} || Node <- Nodes],
    [Leader] = [Node || {Node, leader} <- roles(A)],
    [Other | _] = Others = [A, B, C] -- [Leader],
    kill(Leader),
    {_, {yes, _}} = await_owner(Other, Leader),
    [
        await(fun() -> whereis_name(At, Node) =:= Pid end)
     || At <- Others, {Node, {Pid, {yes, _}}} <- Owned, Node =/= Leader
    ].

a_name_is_unregistered_from_another_node(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    {Pid, {yes, Token}} = call(A, owner, [name, #{}]),
    Name = {?SCOPE, name},
    ?assertEqual(no, names(B, unregister_name_token, [Name, Token + 1])),
    ?assertEqual(ok, names(B, unregister_name_token, [Name, Token])),
    {_, {yes, _}} = call(C, owner, [name, #{}]),
    %% Its former owner takes nothing along.
    true = rpc(A, erlang, exit, [Pid, kill]),
    {_, {yes, _}} = call(A, owner, [other, #{}]),
    ?assertEqual(ok, names(A, unregister_name, [{?SCOPE, other}])),
    ?assertEqual([name], names(A, which_names, [?SCOPE])),
    ?assertEqual(ok, names(A, unregister_name, [Name])),
    await(fun() -> whereis_name(C, name) =:= undefined end).

%% What the others knew of a name is lost, and its versions come again.
tokens_grow_on_a_node_that_goes_on_alone(Config) ->
    [A, B, C] = nodes_with_scope(Config),
    ok = signal(A, "STOP"),
    Tokens = [
        begin
            {Pid, {yes, Token}} = call(B, owner, [name, #{}]),
            true = rpc(B, erlang, exit, [Pid, kill]),
            await(fun() -> whereis_name(B, name) =:= undefined end),
            Token
        end
     || _ <- lists:seq(1, 20)
    ],
    [kill(Node) || Node <- [B, C]],
    ok = signal(A, "CONT"),
    await(fun() -> rpc(A, todana_cluster, force, []) =:= ok end),
    {_, {yes, Token}} = await_owner(A, name),
    ?assert(Token > lists:max(Tokens)),
    ?assert(Token bsr 33 > lists:max(Tokens) bsr 33).

a_group_has_members_of_all_nodes(Config) ->
    [A, B, C] = Nodes = nodes_with_scope(Config),
    Group = {room, 9},
    Sorted = fun(Node) ->
        lists:sort(rpc(Node, todana_groups, get_members, [?SCOPE, Group]))
    end,
    Watchers = [call(Node, watcher, [Group]) || Node <- Nodes],
    Members = [call(Node, member, [Group]) || Node <- Nodes, _ <- [1, 2]],
    Is = fun(Expected) ->
        [
            await(fun() -> Sorted(Node) =:= lists:sort(Expected) end)
         || Node <- Nodes, is_up(Node)
        ],
        [
            await(fun() ->
                lists:sort(call(node(Watcher), noticed, [Watcher])) =:=
                    lists:sort(Expected)
            end)
         || Watcher <- Watchers, is_up(node(Watcher))
        ]
    end,
    Is(Members),
    [First, Second | Others] = Members,
    true = rpc(A, erlang, exit, [First, kill]),
    ok = rpc(A, todana_groups, leave, [?SCOPE, Group, Second]),
    Is(Others),
    [
        ?assertEqual(
            [Group], rpc(Node, todana_groups, which_groups, [?SCOPE])
        )
     || Node <- Nodes
    ],
    kill(C),
    Is([Pid || Pid <- Others, node(Pid) =:= B]).

%% Processes of all nodes take a lock and give it back, and nodes are killed
%% meanwhile. By the times at which the calls began and ended, nobody had it
%% together with somebody else, and the tokens only grew.
a_lock_has_one_owner_while_nodes_are_killed(Config) ->
    Nodes = nodes_with_scope(Config),
    Self = self(),
    Letters = [{hd(atom_to_list(Node)), Node} || Node <- Nodes],
    Workers = [
        spawn_link(fun() -> take(Node, Self, []) end)
     || Node <- Nodes, _ <- [1, 2]
    ],
    Kills = [
        begin
            timer:sleep(3_000),
            {Letter, Node} = lists:nth(1 + N rem 3, Letters),
            KilledUs = now_us(),
            kill(Node),
            timer:sleep(1_000),
            Node = node(list_to_atom([Letter]), [], Config),
            await(fun() -> is_open(Node) end),
            await(fun() ->
                names(Node, start_scope, [?SCOPE, cluster]) =:= ok
            end),
            {Node, KilledUs}
        end
     || N <- lists:seq(1, 4)
    ],
    timer:sleep(3_000),
    Held = lists:append([
        begin
            Worker ! {finish, Self},
            receive {Worker, Of} -> Of end
        end
     || Worker <- Workers
    ]),
    Intervals = lists:sort([
        {From, min(To, killed(Node, From, Kills)), Token, Node}
     || {Node, From, To, Token} <- Held
    ]),
    ct:pal("~b holds", [length(Intervals)]),
    ?assert(length(Intervals) > 50),
    lists:foldl(
        fun({From, _, Token, _} = Hold, {_, To, Last, _} = Before) ->
            ?assert(From > To, {Before, Hold, Kills}),
            ?assert(Token > Last, {Before, Hold, Kills}),
            Hold
        end,
        hd(Intervals),
        tl(Intervals)
    ).

%% When the owner of a lock was killed with its node.
killed(Node, From, Kills) ->
    lists:min([infinity | [Us || {N, Us} <- Kills, N =:= Node, Us > From]]).

%% The holds of a worker: from the end of the call that took the lock to the
%% beginning of the one that gives it back.
take(Node, Parent, Held) ->
    Taken =
        try call(Node, owner, [lock, #{again => false}]) of
            {Pid, {yes, Token}} ->
                From = now_us(),
                timer:sleep(rand:uniform(5)),
                To = now_us(),
                Name = {?SCOPE, lock},
                _ = if_up(Node, todana_names, unregister_name_token, [
                    Name, Token
                ]),
                _ = if_up(Node, erlang, exit, [Pid, kill]),
                [{Node, From, To, Token}];
            {Pid, _NotTaken} ->
                _ = if_up(Node, erlang, exit, [Pid, kill]),
                []
        catch
            _:_ -> timer:sleep(100), []
        end,
    receive
        {finish, Parent} -> Parent ! {self(), Taken ++ Held}
    after 0 ->
        take(Node, Parent, Taken ++ Held)
    end.

if_up(Node, Module, Function, Arguments) ->
    try
        rpc(Node, Module, Function, Arguments)
    catch
        _:_ -> down
    end.

%% The modules of docs/names-and-groups.md, on a member and a guest.
the_leader_of_the_page_is_safe(Config) ->
    [A, _, C] = Members = nodes_with_scope(Config),
    Z = guest(z, A, []),
    ok = names(Z, start_scope, [?SCOPE, cluster]),
    [of_page(Module, [Z | Members], Config) || Module <- [leader, resource]],
    {ok, Resource} = rpc(A, gen_server, start, [resource, nothing, []]),
    Leaders = #{
        Node => element(2, rpc(Node, gen_server, start, [leader, Resource, []]))
     || Node <- [C, Z]
    },
    Act = fun(Node, Value) ->
        try
            rpc(Node, leader, act, [map_get(Node, Leaders), Value])
        catch
            %% The node is frozen, or has just gone on.
            _:_ -> failed
        end
    end,
    Acts = fun(Node, Value) -> await(fun() -> Act(Node, Value) =:= ok end) end,
    Pids = maps:from_list([{Pid, Node} || Node := Pid <- Leaders]),
    await(fun() -> is_map_key(whereis_name(A, leader), Pids) end),
    {ok, Pid, Token} = names(A, lookup_token, [{?SCOPE, leader}]),
    #{Pid := First} = Pids,
    [Second] = [C, Z] -- [First],
    ok = Acts(First, first),
    ?assertEqual({error, not_leading}, Act(Second, second)),
    ok = signal(First, "STOP"),
    timer:sleep(?HANG_MS),
    ok = Acts(Second, second),
    ok = signal(First, "CONT"),
    Wrong = [
        Result
     || _ <- lists:seq(1, 50), Result <- [Act(First, first)],
        not lists:member(Result, [
            {error, not_leading}, {error, outdated}, failed
        ])
    ],
    ?assertEqual([], Wrong),
    ?assertEqual(
        {error, outdated},
        rpc(A, gen_server, call, [Resource, {store, Token, first}])
    ),
    ok = Acts(Second, second),
    {_Greatest, second} = rpc(A, sys, get_state, [Resource]),
    true = rpc(Second, erlang, exit, [map_get(Second, Leaders), kill]),
    ok = Acts(First, first).

%% Loads a module that is in the page, in lines with four spaces before them.
of_page(Module, Nodes, Config) ->
    Page = todana_tree:read("docs/names-and-groups.md"),
    First = <<"    -module(", (atom_to_binary(Module))/binary, ").">>,
    Lines = lists:dropwhile(
        fun(Line) -> Line =/= First end, binary:split(Page, ~"\n", [global])
    ),
    Code = lists:takewhile(
        fun(Line) -> Line =:= <<>> orelse hd_is_space(Line) end, Lines
    ),
    Name = filename:join(
        proplists:get_value(directory, Config), atom_to_list(Module) ++ ".erl"
    ),
    ok = file:write_file(Name, [[Line, $\n] || Line <- Code]),
    {ok, Module, Binary} = compile:file(Name, [binary, return_errors]),
    [
        {module, Module} =
            rpc(Node, code, load_binary, [Module, Name, Binary])
     || Node <- Nodes
    ].

hd_is_space(Line) -> binary:first(Line) =:= $\s.

now_us() -> erlang:monotonic_time(microsecond).

is_up(Node) -> try rpc(Node, erlang, node, []) =:= Node catch _:_ -> false end.

%% --------------------------------------------------------------- functions ---

nodes_with_scope(Config) ->
    Nodes = cluster([a, b, c], Config),
    [ok = names(Node, start_scope, [?SCOPE, cluster]) || Node <- Nodes],
    Nodes.

names(Node, Function, Arguments) ->
    rpc(Node, todana_names, Function, Arguments).

whereis_name(Node, Name) -> names(Node, whereis_name, [{?SCOPE, Name}]).

call(Node, Function, Arguments) -> rpc(Node, ?MODULE, Function, Arguments).

%% A process of the node that has got the name at last.
await_owner(Node, Name) ->
    Self = self(),
    await(fun() ->
        case call(Node, owner, [Name, #{}]) of
            {_, {yes, _}} = Owner -> Self ! {owner, Owner}, true;
            _ -> false
        end
    end),
    receive {owner, Owner} -> Owner end.

at_once(Functions) ->
    Self = self(),
    Workers = [
        spawn_link(fun() -> Self ! {self(), Function()} end)
     || Function <- Functions
    ],
    [receive {Worker, Result} -> Result end || Worker <- Workers].

%% ----------------------------------------------------- in the peer's node ---

%% A process, and what has become of its registration.
owner(Name, Options) ->
    Pid = spawn(fun() -> own([]) end),
    {Pid, todana_names:register_name_token({?SCOPE, Name}, Pid, Options)}.

owners(Names, Options) -> [owner(Name, Options) || Name <- Names].

%% What a process was noticed about its name.
noticed(Pid) -> gen_server:call(Pid, noticed).

own(Noticed) ->
    receive
        {'$gen_call', From, noticed} ->
            gen_server:reply(From, lists:reverse(Noticed)),
            own(Noticed);
        {todana_names, What, Name} ->
            own([{What, Name} | Noticed])
    end.

%% The names that a process of this caller has got.
race(Names) ->
    Asked = [{Name, owner(Name, #{})} || Name <- Names],
    [{Name, Pid} || {Name, {Pid, {yes, _}}} <- Asked].

member(Group) ->
    Pid = spawn(fun() -> own([]) end),
    ok = todana_groups:join(?SCOPE, Group, Pid),
    Pid.

%% A process that knows the members by what it is sent.
watcher(Group) ->
    spawn(fun() ->
        {Ref, Members} = todana_groups:monitor(?SCOPE, Group),
        follow(Ref, Group, Members)
    end).

follow(Ref, Group, Members) ->
    receive
        {Ref, join, Group, Pids} ->
            follow(Ref, Group, Pids ++ Members);
        {Ref, leave, Group, Pids} ->
            [] = Pids -- Members,
            follow(Ref, Group, Members -- Pids);
        {'$gen_call', From, noticed} ->
            gen_server:reply(From, Members),
            follow(Ref, Group, Members)
    end.
