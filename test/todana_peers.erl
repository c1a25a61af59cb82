%% Nodes of this host for test suites: processes with a data directory each, in
%% which the application runs. Each case has its own.
-module(todana_peers).

-export([open/2, close/0]).
-export([node/3, guest/3, refused_guest/3, refused/3, attempt/3]).
-export([peer/1, unnamed_peer/1, of_node/1]).
-export([name/1, kill/1, signal/2, stop/1, empty/2, data_dir/2]).
-export([rpc/4, await/1]).
-export([cluster/2, is_open/1, leave/2, verify/1, roles/1, voters/1]).
%% Called in the peer nodes
-export([start/2, start_as/3]).

-define(COOKIE, todana_peers).
-define(WAIT_MS, 60_000).
-define(POLL_MS, 100).

%% For `init_per_testcase' and `end_per_testcase'.
open(Case, Config) ->
    Directory = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = filelib:ensure_path(Directory),
    _ = ets:new(?MODULE, [named_table, public]),
    [{directory, Directory} | Config].

close() ->
    [stop(Peer) || {_, Peer} <- ets:tab2list(?MODULE), is_pid(Peer)],
    true = ets:delete(?MODULE),
    ok.

%% The first one creates the cluster, the others join. Returns when all votes
%% are given.
cluster([First | Others], Config) ->
    A = node(First, [{cluster_create, yes}], Config),
    Nodes = [A | [node(N, [{cluster_join, A}], Config) || N <- Others]],
    Wanted = length(Nodes) - (length(Nodes) + 1) rem 2,
    await(fun() -> length(voters(A)) =:= Wanted end),
    [await(fun() -> is_open(Node) end) || Node <- Nodes],
    Nodes.

is_open(Node) -> maps:get(state, rpc(Node, todana, info, [])) =:= serving.

%% Starts a node with its own directory; an old one goes on.
node(Letter, Options, Config) ->
    started(Letter, attempt(Letter, Options, Config)).

%% Starts a node without a replica.
guest(Letter, Member, Options) ->
    started(Letter, attempt_guest(Letter, Member, Options)).

started(_Letter, {Node, ok}) -> Node;
started(Letter, {_, {error, Sentence}}) -> error({Letter, Sentence}).

refused_guest(Letter, Member, Options) ->
    refusal(attempt_guest(Letter, Member, Options)).

attempt_guest(Letter, Member, Options) ->
    {Peer, Node} = peer(Letter),
    Guest = [{cluster_join, Member}, {no_replica, yes} | Options],
    {Node, peer:call(Peer, ?MODULE, start, ["off", Guest], ?WAIT_MS)}.

refused(Letter, Options, Config) ->
    refusal(attempt(Letter, Options, Config)).

refusal({_, {error, Sentence}}) ->
    ct:pal("~ts", [Sentence]),
    Sentence.

attempt(Letter, Options, Config) ->
    {Peer, Node} = peer(Letter),
    {Node, peer:call(Peer, ?MODULE, start, [
        data_dir(Letter, Config), Options
    ], ?WAIT_MS)}.

peer(Letter) ->
    [stop(Old) || {_, Old} <- ets:lookup(?MODULE, Letter)],
    %% The port mapper learns of a kill a little later.
    await(fun() -> not is_mapped(name(Letter)) end),
    {ok, Peer, Node} = peer:start(#{
        name => name(Letter), host => "127.0.0.1", longnames => true,
        connection => standard_io, wait_boot => 60_000,
        args => [
            "-setcookie", atom_to_list(?COOKIE),
            "-kernel", "prevent_overlapping_partitions", "false",
            "-kernel", "inet_dist_use_interface", "{127,0,0,1}",
            "-pa" | code:get_path()
        ]
    }),
    true = ets:insert(?MODULE, {Letter, Peer}),
    true = ets:insert(?MODULE, {Node, Peer}),
    Pid = peer:call(Peer, os, getpid, []),
    true = ets:insert(?MODULE, {{process, Node}, Pid}),
    {Peer, Node}.

is_mapped(Name) ->
    case erl_epmd:names({127, 0, 0, 1}) of
        {ok, Mapped} -> lists:keymember(Name, 1, Mapped);
        %% There is none yet.
        {error, _} -> false
    end.

%% Nobody can reach it.
unnamed_peer(Letter) ->
    [stop(Old) || {_, Old} <- ets:lookup(?MODULE, Letter)],
    {ok, Peer, nonode@nohost} = peer:start(#{
        connection => standard_io, wait_boot => 60_000,
        args => ["-pa" | code:get_path()]
    }),
    true = ets:insert(?MODULE, {Letter, Peer}),
    Peer.

%% Runs of this suite at the same time do not meet.
name(Letter) -> lists:concat([Letter, "_", os:getpid()]).

kill(Node) ->
    [{_, Peer}] = ets:lookup(?MODULE, Node),
    ok = signal(Node, "KILL"),
    stop(Peer).

%% A stopped node does not answer, so its process is noted when it starts.
signal(Node, Name) ->
    [{_, Pid}] = ets:lookup(?MODULE, {process, Node}),
    "" = os:cmd(lists:concat(["kill -", Name, " ", Pid])),
    ok.

stop(Peer) -> try peer:stop(Peer) catch exit:_ -> ok end.

empty(Letter, Config) -> ok = file:del_dir_r(data_dir(Letter, Config)).

data_dir(Letter, Config) ->
    filename:join(proplists:get_value(directory, Config), Letter).

rpc(Node, Module, Function, Arguments) ->
    [{_, Peer}] = ets:lookup(?MODULE, Node),
    peer:call(Peer, Module, Function, Arguments, ?WAIT_MS).

leave(At, Node) -> rpc(At, todana_cluster, leave, [Node]).

verify(At) -> rpc(At, todana_verify, run, [0]).

roles(At) ->
    #{members := Members} = rpc(At, todana_cluster, status, []),
    lists:sort([{Node, Role} || #{node := Node, role := Role} <- Members]).

voters(At) ->
    [Node || {Node, Role} <- roles(At), Role =:= leader orelse Role =:= voter].

of_node(Node) ->
    [{_, Peer}] = ets:lookup(?MODULE, Node),
    Peer.

await(Is) -> await(Is, ?WAIT_MS).

await(Is, LeftMs) ->
    case Is() of
        true -> ok;
        _ when LeftMs =< 0 -> error({timeout, Is});
        _ ->
            timer:sleep(?POLL_MS),
            await(Is, LeftMs - ?POLL_MS)
    end.

%% ----------------------------------------------------- in the peer's node ---

start(DataDir, Options) ->
    _ = application:load(todana),
    ok = application:set_env(todana, data_dir, DataDir),
    [
        ok = application:set_env(todana, Name, text(Value))
     || {Name, Value} <- [{write_timeout_ms, '10000'} | Options]
    ],
    case application:ensure_all_started(todana) of
        {ok, _} -> ok;
        {error, {todana, {{todana, Sentence}, _}}} -> {error, Sentence};
        {error, Reason} -> {error, io_lib:format("~0tp", [Reason])}
    end.

%% Several names of nodes are a list.
text(Value) when is_atom(Value) -> atom_to_list(Value);
text(Values) -> Values.

%% The same, at once after the node has got its name.
start_as(Node, DataDir, Options) ->
    {ok, _} = net_kernel:start(Node, #{name_domain => longnames}),
    true = erlang:set_cookie(?COOKIE),
    start(DataDir, Options).
