%% Changes of a cluster, and its state, as a person asks for them.
-module(todana_cluster).
-moduledoc """
Makes this node a member of a cluster, and changes the members, from a release
that contains Todana. `bin/todana cluster` has the same functions as commands,
which docs/cluster.md describes. Errors are sentences.
""".

-export([join/2, visit/1, leave/1, replace/2, transfer/1, force/0]).
%% For `bin/todana cluster', and for other nodes
-export([status/0, facts/0]).

-export_type([join_options/0]).

%% An option of the application, and its value.
-type setting() :: {atom(), {ok, term()} | undefined}.

-define(LOG_END_TIMEOUT_MS, 5_000).
-define(FACTS_TIMEOUT_MS, 2_000).
%% How long a member that was removed may take to stop.
-define(STOP_TIMEOUT_MS, 10_000).
%% A member that lacks at most this number of entries has caught up.
-define(BEHIND_MAX, 1_000).

-doc """
- `data_dir`: the directory for this node's records. It does not exist, or is
  empty.
""".
-type join_options() :: #{data_dir := file:filename()}.

-doc """
Makes this node a member of the cluster of `Peer`, with an empty data directory.

The application is started again with the options `data_dir` and `cluster_join`,
and with the restart type that it had. So connections to its listeners end, and
tables in memory lose their records. The node keeps its name and its cookie;
both nodes must be able to connect.

If this node or the cluster refuses, the sentence says why, and nothing has
changed: the application is not stopped. A node whose databases `db0` to `db15`
are open, as they are with a listener, refuses if one of them would become
durable: set `data_dir` and `cluster_join` for its next start. If the
application cannot be started again, for example because another program has
taken the port of a listener, it is started with the options that it had; then
durable tables have to be opened again. A permanent or transient one ends the
node instead, as Erlang does whenever such an application cannot be started.

A later start needs `data_dir` among the options of the application; the
directory knows the rest.
""".
-spec join(node(), join_options()) -> ok | {error, Sentence :: string()}.
join(Peer, Options) ->
    case join_misuse(Peer, Options) of
        none ->
            #{data_dir := DataDir} = Options,
            join_with(Peer, DataDir);
        Misuse ->
            todana_error:raise(?MODULE, join, [Peer, Options], Misuse)
    end.

-spec join_misuse(term(), term()) -> none | todana_error:cause().
join_misuse(Peer, _Options) when not is_atom(Peer); Peer =:= node() ->
    {badarg, 1, not_another_node};
join_misuse(_Peer, #{data_dir := _} = Options) when map_size(Options) =:= 1 ->
    none;
join_misuse(_Peer, _Options) ->
    {badarg, 2, not_join_options}.

-spec join_with(node(), file:filename()) -> ok | {error, string()}.
join_with(Peer, DataDir) ->
    start_with(
        #{data_dir => DataDir, cluster_join => atom_to_list(Peer)},
        fun may_join/0
    ).

-doc """
Makes this node a guest of the cluster of `Peer`: it serves clients and has the
Erlang API, and the members have the records. It has no `data_dir`.

The application is started again, as by `join/2`, with the options `no_replica`
and `cluster_join`, and what `join/2` says about connections, tables in memory
and refusals holds for this function, too. A guest that stops leaves nothing
behind in the cluster.
""".
-spec visit(node()) -> ok | {error, Sentence :: string()}.
visit(Peer) when is_atom(Peer), Peer =/= node() ->
    start_with(
        #{no_replica => "yes", cluster_join => atom_to_list(Peer)},
        fun may_visit/0
    );
visit(Peer) ->
    Misuse = {badarg, 1, not_another_node},
    todana_error:raise(?MODULE, visit, [Peer], Misuse).

-spec start_with(#{atom() => term()}, fun(() -> ok | {error, string()})) ->
    ok | {error, string()}.
start_with(Options, May) ->
    Old = [
        {Name, application:get_env(todana, Name)} || Name := _ <- Options
    ],
    ok = maps:foreach(
        fun(Name, Value) -> application:set_env(todana, Name, Value) end,
        Options
    ),
    case May() of
        ok ->
            restart(restart_type(), Old);
        {error, Sentence} ->
            ok = lists:foreach(fun restore/1, Old),
            {error, Sentence}
    end.

-spec may_visit() -> ok | {error, string()}.
may_visit() ->
    maybe
        ok ?= is_no_member(),
        {ok, Options} ?= todana_config:embedded(),
        ok ?= todana_release:check(Options),
        {ok, Visiting, #{seed := Seed}} ?= todana_cluster_start:visit(Options),
        todana_databases:set(Visiting, Seed)
    else
        {error, {todana, Sentence}} -> {error, Sentence};
        {error, Sentence} -> {error, Sentence}
    end.

%% What a start would refuse, while nothing has been stopped. The cluster is
%% asked, too.
-spec may_join() -> ok | {error, string()}.
may_join() ->
    maybe
        ok ?= is_no_member(),
        {ok, #{data_dir := DataDir} = Options} ?= todana_config:embedded(),
        ok ?= todana_release:check(Options),
        ok ?= todana_cluster_start:check(Options),
        {ok, Origin} ?= todana_cluster_start:prepare(Options),
        case todana_data_dir:is_open() of
            true ->
                todana_databases:may_join(Options);
            false ->
                Seed = todana_data_dir:seed(DataDir, Origin),
                todana_databases:set(Options, Seed)
        end
    else
        {error, {todana, Sentence}} -> {error, Sentence};
        {error, Sentence} -> {error, Sentence}
    end.

-spec is_no_member() -> ok | {error, string()}.
is_no_member() ->
    case todana_data_dir:is_open() andalso todana_admission:cluster() of
        Cluster when is_binary(Cluster) ->
            {error, "this node already is a member of the cluster " ++
                binary_to_list(Cluster)};
        _ ->
            ok
    end.

-spec restart_type() -> application:restart_type().
restart_type() ->
    Started = proplists:get_value(started, application:info(), []),
    proplists:get_value(todana, Started, temporary).

-spec restart(application:restart_type(), Old :: [setting()]) ->
    ok | {error, string()}.
restart(Type, Old) ->
    _ = application:stop(todana),
    maybe
        {error, Sentence} ?= start(Type),
        ok = lists:foreach(fun restore/1, Old),
        case start(Type) of
            ok ->
                {error, Sentence};
            {error, Again} ->
                {error, Sentence ++ "; and the application cannot be started "
                        "with its old options: " ++ Again}
        end
    end.

-spec start(application:restart_type()) -> ok | {error, string()}.
start(Type) ->
    case application:ensure_all_started(todana, Type) of
        {ok, _} -> ok;
        {error, Reason} -> {error, sentence(Reason)}
    end.

-spec restore(setting()) -> ok.
restore({Name, {ok, Value}}) -> application:set_env(todana, Name, Value);
restore({Name, undefined}) -> application:unset_env(todana, Name).

-spec sentence(term()) -> string().
sentence({todana, {{todana, Sentence}, _}}) -> Sentence;
sentence(Reason) -> lists:flatten(io_lib:format("~0tp", [Reason])).

%% --------------------------------------------------------------- changes ---

-doc """
Removes a member, which may be down, or lead, or be this node. Its application
`todana` stops, and its data directory cannot be used again.
""".
-spec leave(node()) -> ok | {error, Sentence :: string()}.
leave(Node) -> flat(remove(Node)).

-spec flat(ok | {error, iodata()}) -> ok | {error, string()}.
flat(ok) -> ok;
flat({error, Text}) -> {error, unicode:characters_to_list(Text)}.

-spec remove(node()) -> ok | {error, iodata()}.
remove(Node) ->
    maybe
        {ok, Leader, Members} ?= members(),
        {ok, _} ?= member(Node, Members),
        ok ?= is_not_last(Members),
        ok ?= go_on_without(Node, Members),
        ok ?= step_down(Node, Leader, Members),
        ok ?= result(todana_members:remove(group(), Node)),
        %% A person may delete its directory next.
        _ = [
            todana_membership:await_end(N, ?STOP_TIMEOUT_MS)
         || N <- nodes(), N =:= Node
        ],
        %% The end of this node ends the caller, too, which answers before.
        _ = Node =:= node() andalso
            todana_membership:ask_now(todana_members:leader(group())),
        ok
    end.

-spec is_not_last([todana_members:member()]) -> ok | {error, iodata()}.
is_not_last([_]) -> {error, "the last member cannot leave"};
is_not_last(_) -> ok.

%% Those that stay must be able to confirm the change, and all writes after it.
-spec go_on_without(node(), [todana_members:member()]) ->
    ok | {error, iodata()}.
go_on_without(Node, Members) ->
    Voters = voters(Members) -- [Node],
    Up = lists:filter(fun is_up/1, facts_of(Voters)),
    case 2 * length(Up) > length(Voters) of
        true ->
            ok;
        false ->
            {error, io_lib:format(
                "of the ~b voters that stay, only ~b can be reached: they "
                "could confirm nothing. Start the others first",
                [length(Voters), length(Up)]
            )}
    end.

-spec voters([todana_members:member()]) -> [node()].
voters(Members) ->
    [
        Node
     || #{node := Node, role := Role} <- Members,
        Role =:= leader orelse Role =:= voter
    ].

-spec step_down(node(), node(), [todana_members:member()]) ->
    ok | {error, iodata()}.
step_down(Leader, Leader, Members) ->
    Others = voters(Members) -- [Leader],
    HasTaken = fun(Node) ->
        todana_members:transfer(group(), Node) =:= ok
    end,
    case lists:any(HasTaken, Others) of
        true -> ok;
        false -> {error, "no other member is ready to lead"}
    end;
step_down(_Node, _Leader, _Members) ->
    ok.

-doc """
Removes a member that is down, when another one has joined and has all records.
""".
-spec replace(Dead :: node(), New :: node()) ->
    ok | {error, Sentence :: string()}.
replace(Dead, New) -> flat(remove(Dead, New)).

-spec remove(node(), node()) -> ok | {error, iodata()}.
remove(Dead, New) ->
    maybe
        {ok, Leader, Members} ?= members(),
        {ok, _} ?= member(Dead, Members),
        {ok, _} ?= member(New, Members),
        ok ?= is_dead(Dead),
        ok ?= has_caught_up(New, Leader),
        remove(Dead)
    end.

-spec is_dead(node()) -> ok | {error, iodata()}.
is_dead(Node) ->
    [Facts] = facts_of([Node]),
    case is_up(Facts) of
        true -> {error, [atom_to_list(Node), " works: to remove it, use "
                         "`cluster leave ", atom_to_list(Node), "`"]};
        false -> ok
    end.

-spec has_caught_up(node(), Leader :: node()) -> ok | {error, iodata()}.
has_caught_up(New, Leader) ->
    case facts_of([New, Leader]) of
        [#{state := serving, applied_index := Has}, #{applied_index := Most}]
                when Has + ?BEHIND_MAX >= Most ->
            ok;
        [#{state := State}, _] when State =:= down; State =:= stranger ->
            {error, [atom_to_list(New), " does not answer"]};
        _ ->
            {error, [atom_to_list(New), " is still copying the records: see "
                     "`bin/todana cluster status`, and try again later"]}
    end.

-doc "Has another member lead.".
-spec transfer(node()) -> ok | {error, Sentence :: string()}.
transfer(Node) -> flat(lead(Node)).

-spec lead(node()) -> ok | {error, iodata()}.
lead(Node) ->
    maybe
        {ok, _Leader, Members} ?= members(),
        {ok, _} ?= member(Node, Members),
        result(todana_members:transfer(group(), Node))
    end.

-doc """
Makes this node the only member, if a majority is lost for good. Writes that
this node does not have are lost.
""".
-spec force() -> ok | {error, Sentence :: string()}.
force() -> flat(go_on_alone()).

-spec go_on_alone() -> ok | {error, iodata()}.
go_on_alone() ->
    Group = group(),
    #{forced := IsBegun} = Opened = todana_raft_groups:opened(Group),
    case {IsBegun, todana_members:is_confirmed(Group) andalso members()} of
        {_, false} ->
            maybe
                ok ?= is_nobody_hidden(),
                ok ?= has_most(),
                logger:warning(
                    "todana: this node goes on alone: cluster force"
                ),
                todana_alone:go_on(Group)
            end;
        %% It was interrupted.
        {true, {ok, Node, [_]}} when Node =:= node() ->
            todana_alone:go_on(Group);
        {_, {ok, _, _}} ->
            _ = IsBegun andalso todana_data_dir:went_alone(Opened),
            {error, "a majority of the members answers, so nothing is lost: "
                    "`cluster leave NODE` removes a member"};
        {_, {error, Sentence}} ->
            {error, Sentence}
    end.

%% A member that runs and refuses this node, for its cookie or certificate, may
%% be one of a majority that works. And if a majority is connected, it needs
%% something else, such as room on its disks.
-spec is_nobody_hidden() -> ok | {error, iodata()}.
is_nobody_hidden() ->
    Others = todana_members:known(group()) -- [node()],
    Connected = [N || N <- Others, lists:member(N, nodes())],
    Ours = ours(Connected),
    Refusing = [
        N || N <- Others -- Connected, todana_distribution:is_alive(N)
    ],
    if
        Refusing =/= [] ->
            {error, [
                names(Refusing),
                case Refusing of
                    [_] -> " runs, and refuses";
                    _ -> " run, and refuse"
                end,
                " this node, so a majority may work without it: compare their "
                "cookies and certificates with those of this node, and start "
                "it again. To give up a node that runs, stop it first"
            ]};
        2 * (1 + length(Ours)) > 1 + length(Others) ->
            {error, [
                names(Ours), " can be reached, so a majority is there: see "
                "`bin/todana cluster status` for what it needs, such as room "
                "on a disk. To give a node up, stop it first"
            ]};
        true ->
            ok
    end.

-spec names([node()]) -> iodata().
names(Nodes) -> lists:join(" and ", [atom_to_list(N) || N <- Nodes]).

%% Those that run as members of this cluster.
-spec ours([node()]) -> [node()].
ours(Nodes) ->
    Cluster = todana_admission:cluster(),
    [Node || {Node, {ok, Own}} <- clusters(Nodes), Own =:= Cluster].

%% The cluster of each node, or why it did not answer.
-spec clusters([node()]) -> [{node(), {ok, none | binary()} | tuple()}].
clusters(Nodes) ->
    lists:zip(Nodes, erpc:multicall(
        Nodes, todana_admission, cluster, [], ?LOG_END_TIMEOUT_MS
    )).

%% Whether no member that answers has entries that this one does not have. One
%% of them may be confirmed, although nobody has applied it.
-spec has_most() -> ok | {error, iodata()}.
has_most() ->
    has_most(todana_members:log_end(group())).

-spec has_most({non_neg_integer(), non_neg_integer()} | unknown) ->
    ok | {error, iodata()}.
has_most(unknown) ->
    {error, "the log of this node is not open yet: try again"};
has_most(Own) ->
    Others = without_strangers(todana_members:connected(group())),
    Question = todana_raft_groups:question(group(), []),
    Answers = erpc:multicall(
        Others, todana_members, log_end, Question, ?LOG_END_TIMEOUT_MS
    ),
    Ends = [
        {End, N} || {N, {ok, {_, _} = End}} <- lists:zip(Others, Answers)
    ],
    case lists:max([{Own, node()} | Ends]) of
        {End, Node} when End > Own ->
            {_, Index} = End,
            {error, io_lib:format(
                "the log of ~ts goes on to entry ~b, which this node does not "
                "have: run `cluster force` on ~ts, or stop that node to give "
                "its entries up", [Node, Index, Node]
            )};
        _ ->
            ok
    end.

%% The log of another cluster says nothing about this one.
-spec without_strangers([node()]) -> [node()].
without_strangers(Nodes) ->
    Cluster = todana_admission:cluster(),
    [
        Node
     || {Node, Answer} <- clusters(Nodes),
        case Answer of {ok, Other} -> Other =:= Cluster; _ -> true end
    ].

-spec member(node(), [todana_members:member()]) ->
    {ok, todana_members:member()} | {error, iodata()}.
member(Node, Members) ->
    case [Member || #{node := N} = Member <- Members, N =:= Node] of
        [Member] ->
            {ok, Member};
        [] ->
            {error, [atom_to_list(Node), " is not a member of the cluster"]}
    end.

-spec members() ->
    {ok, Leader :: node(), [todana_members:member()]} | {error, iodata()}.
members() ->
    Group = group(),
    case todana_members:list(Group, todana_members:known(Group)) of
        {ok, Leader, Members} -> {ok, Leader, Members};
        {error, _} -> {error, "the cluster has no leader"}
    end.

-spec result(ok | todana_members:failure()) -> ok | {error, iodata()}.
result(ok) -> ok;
result({error, timeout}) -> {error, "the leader does not answer"};
result({error, forced}) ->
    {error, "`cluster force` has begun on this node but has not finished: run "
            "it again"};
result({error, {silent, Node}}) ->
    {error, [atom_to_list(Node), " does not answer"]};
result({error, unconfirmed}) ->
    {error, "the change has begun, but no majority has confirmed it yet: "
            "see `bin/todana cluster status`"};
result({error, cluster_change_not_permitted}) ->
    {error, "another change of the members is in progress: try again"};
result({error, Reason}) -> {error, io_lib:format("~0tp", [Reason])}.

%% ---------------------------------------------------------------- status ---

-doc false.
%% The members, with what each says of itself.
-spec status() -> map().
status() ->
    case todana_guest:is_guest() of
        true -> todana_away:ask(?MODULE, status, none, []);
        false -> own_status()
    end.

-spec own_status() -> map().
own_status() ->
    {Leader, Members} = known_members(led_members()),
    Nodes = [Node || #{node := Node} <- Members],
    Map = todana_cluster_map:nodes(Nodes),
    Facts = with_refusals(Nodes),
    #{
        cluster => todana_admission:cluster(),
        node => node(),
        leader => Leader,
        claims => todana_stranger:claims(),
        guests => [
            #{node => Guest, seat => Seat}
         || {Seat, #{guests := Guests}} <- lists:zip(Nodes, Facts),
            Guest <- Guests
        ],
        members => [
            maps:remove(guests, maps:merge(
                maps:merge(Member, place(Member, Map)), Own
            ))
         || {Member, Own} <- lists:zip(Members, Facts)
        ]
    }.

%% The facts of each node. One that runs and refuses the connection is not down.
-spec with_refusals([node()]) -> [map()].
with_refusals(Nodes) ->
    Facts = facts_of(Nodes),
    Refusing = refusing([
        Node || {Node, #{state := down}} <- lists:zip(Nodes, Facts)
    ]),
    [
        case lists:member(Node, Refusing) of
            true -> Own#{refuses => true};
            false -> Own
        end
     || {Node, Own} <- lists:zip(Nodes, Facts)
    ].

-spec refusing([node()]) -> [node()].
refusing(Down) ->
    Until = {abs, erlang:monotonic_time(millisecond) + ?FACTS_TIMEOUT_MS},
    Requests = [
        {Node, erpc:send_request(
            node(), todana_distribution, is_alive, [Node]
        )}
     || Node <- Down, not lists:member(Node, nodes())
    ],
    [
        Node
     || {Node, Request} <- Requests,
        try erpc:receive_response(Request, Until) catch _:_ -> false end
    ].

%% A leader that reaches no majority does not know that it leads nobody.
-spec known_members(
    {ok, Leader :: node(), [todana_members:member()]}
    | todana_members:failure()
) -> {Leader :: node() | none, [todana_members:member()]}.
known_members({ok, Leader, Members}) ->
    case todana_members:read_index(group(), [Leader], ?FACTS_TIMEOUT_MS) of
        {ok, _} -> {Leader, Members};
        {error, _} -> {none, [without_lead(Member) || Member <- Members]}
    end;
known_members({error, _}) ->
    {none, [#{node => Node, role => unknown} || Node <- noted_members()]}.

%% While the log of this node does not run, those that its directory names.
-spec noted_members() -> [node()].
noted_members() ->
    case todana_members:listed(group()) of
        {ok, Nodes} ->
            Nodes;
        unknown ->
            #{data_dir := DataDir} = todana_raft_groups:opened(group()),
            case todana_data_dir:identity(DataDir) of
                {ok, #{members := Nodes}} -> lists:usort([node() | Nodes]);
                _ -> [node()]
            end
    end.

-spec without_lead(todana_members:member()) -> todana_members:member().
without_lead(#{role := leader} = Member) -> Member#{role := voter};
without_lead(Member) -> Member.

%% A person waits: only the leader is asked, and not for long.
-spec led_members() ->
    {ok, Leader :: node(), [todana_members:member()]}
    | todana_members:failure().
led_members() ->
    case todana_members:leader(group()) of
        none -> {error, no_leader};
        Leader -> todana_members:list(group(), [Leader], ?FACTS_TIMEOUT_MS)
    end.

%% Where clients reach it.
-spec place(todana_members:member(), #{node() => todana_cluster_map:entry()}) ->
    map().
place(#{node := Node}, Map) ->
    maps:with(
        [host, resp, resp_cluster, memcached, kyoto, zone, format],
        maps:get(Node, Map, #{})
    ).

%% What each node says of itself, if it is the member of this cluster.
-spec facts_of([node()]) -> [map()].
facts_of(Nodes) ->
    Cluster = todana_admission:cluster(),
    [
        case Answer of
            {ok, #{cluster := Other}} when Other =/= Cluster -> stranger(Other);
            {ok, Facts} -> maps:remove(cluster, Facts);
            _ -> #{state => down}
        end
     || Answer <- erpc:multicall(Nodes, ?MODULE, facts, [], ?FACTS_TIMEOUT_MS)
    ].

%% A node with the name of a member, and a data directory of its own.
-spec stranger(none | binary()) -> map().
stranger(none) -> stranger(~"none");
stranger(Cluster) -> #{state => stranger, other_cluster => Cluster}.

-spec is_up(map()) -> boolean().
is_up(#{state := State}) -> State =/= down andalso State =/= stranger.

-doc false.
%% What this node says of itself. Other nodes call it.
-spec facts() -> map().
facts() ->
    maps:with(
        [
            state, reason, progress, applied_index, log_time_ms, commit_us,
            clock_differs_ms, disk_free_bytes, in_flight, oldest_ms, version,
            format_used, cluster, guests
        ],
        (todana_group:info(group()))#{
            version => version(), cluster => todana_admission:cluster(),
            guests => todana_seats:guests()
        }
    ).

%% There is one group, whose members are those of the cluster.
-spec group() -> todana_raft_groups:id().
group() -> todana_raft_groups:first().

-spec version() -> string().
version() ->
    case application:get_key(todana, vsn) of
        {ok, Version} -> Version;
        undefined -> "unknown"
    end.
