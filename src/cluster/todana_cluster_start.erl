%% Decides with which cluster a data directory is opened, before it is.
%%
%% What a directory is part of is in its file `node', and the options of a
%% restart may be those of the first start: they have no effect then.
-module(todana_cluster_start).
-moduledoc false.

-export([prepare/1, visit/1, check/1, is_joining/0, notes/2]).
-export([cookie_note/1]).
%% A process
-export([ask_and_exit/3]).

-define(JOIN_TIMEOUT_MS, 30_000).
-define(JOIN_PAUSE_MS, 500).
-define(JOIN_PROGRESS_MS, 5_000).
-define(ANSWER_TIMEOUT_MS, 2_000).
%% Members of a cluster connect to those that they miss once a second. An
%% attempt to reach a host that does not answer repeats its first packet after
%% 1, 3 and 7 seconds, and no other one begins meanwhile. The own host always
%% answers.
-define(CLAIM_TIMEOUT_MS, 6_000).
-define(CLAIM_NEAR_TIMEOUT_MS, 2_500).
-define(CLAIM_PAUSE_MS, 50).
%% The name of the process that asks to join.
-define(JOINING, todana_cluster_join).
-define(CLUSTER_BYTES, 8).

-doc "Starts the distribution if it is needed, and asks the cluster to join.".
-spec prepare(todana_config:options()) ->
    {ok, todana_data_dir:origin()} | {error, string()}.
prepare(#{data_dir := DataDir} = Options) ->
    Known = todana_data_dir:identity(DataDir),
    MayBeKnown = may_be_known(with_cookie(Known, Options)),
    maybe
        ok ?= is_one_way(Known, Options),
        ok ?= todana_distribution:check_join(Known, Options),
        ok ?= has_cookie(Known, with_cookie(Known, Options)),
        ok ?= is_own_name(Known, node_name(Known, Options), DataDir),
        ok ?= name(node_name(Known, Options), with_cookie(Known, Options)),
        {ok, Origin} ?= origin(Known, Options),
        ok ?= is_unclaimed(Origin, MayBeKnown),
        ok = say_created(Known, Options),
        ok ?= is_member_still(Known, Options),
        ok ?= agrees_still(Known, Options),
        {ok, Origin}
    else
        {error, Sentence} ->
            {error, unicode:characters_to_list(Sentence)}
    end.

-doc """
For a node without a replica: starts the distribution, and asks the cluster. The
result has the databases of the members among the options.
""".
-spec visit(todana_config:options()) ->
    {ok, todana_config:options(), todana_seat:invitation()}
    | {error, string()}.
visit(Options) ->
    maybe
        ok ?= todana_distribution:check_join(none, Options),
        ok ?= name(maps:get(node, Options), Options),
        Peers = todana_distribution:peers(Options),
        {ok, Invitation} ?= asked(Peers, fun ask_to_visit/1),
        #{databases := Theirs} = Invitation,
        {ok, Databases} ?= fitting(maps:get(databases, Options), Theirs),
        {ok, Options#{databases := Databases}, Invitation}
    else
        {error, Sentence} ->
            {error, unicode:characters_to_list(Sentence)}
    end.

%% A node that names its databases names those of the members.
-spec fitting(Own, Theirs) -> {ok, Theirs} | {error, iodata()} when
    Own :: [todana_kyoto_database:database()],
    Theirs :: [todana_kyoto_database:database()].
fitting(Own, Theirs) ->
    Natives = fun(Databases) ->
        {[todana_kyoto_database:native(D) || D <- Databases],
         todana_named_databases:durable(Databases)}
    end,
    {ok, Default} = todana_option_type:parse(databases, ":"),
    case Own =:= Default orelse Natives(Own) =:= Natives(Theirs) of
        true -> {ok, Theirs};
        false -> {error, ["databases: the members of the cluster have other "
                          "ones: ", todana_option_type:format(
                              databases, Theirs
                          )]}
    end.

-doc "Whether a start would refuse these options, as far as a file can say.".
-spec check(todana_config:options()) -> ok | {error, string()}.
check(#{data_dir := off}) ->
    ok;
check(#{data_dir := DataDir} = Options) ->
    Known = todana_data_dir:identity(DataDir),
    Checked =
        maybe
            ok ?= todana_data_dir_check:check(DataDir),
            ok ?= is_one_way(Known, Options),
            ok ?= todana_distribution:check_join(Known, Options),
            ok ?= has_cookie(Known, with_cookie(Known, Options)),
            ok ?= is_own_name(Known, node_name(Known, Options), DataDir),
            check_name(node_name(Known, Options), Options)
        end,
    case Checked of
        ok -> ok;
        {error, Sentence} -> {error, unicode:characters_to_list(Sentence)}
    end.

-spec check_name(atom(), todana_config:options()) -> ok | {error, iodata()}.
check_name(off, Options) ->
    name(off, Options);
check_name(Name, Options) ->
    maybe
        ok ?= certificates(Options),
        todana_distribution:check(Name)
    end.

-doc """
What a new directory notes at once, for its next start: the others have answered
with this cookie, or there are none yet.
""".
-spec notes(todana_data_dir:origin(), todana_config:options()) ->
    [todana_data_dir:noted()].
notes(alone, _Options) ->
    [];
notes({create, _Cluster}, Options) ->
    [{members, [node()]} | cookie_note(Options)];
notes({join, #{members := Members}}, Options) ->
    [{members, lists:usort([node() | Members])} | cookie_note(Options)].

-doc "The cookie file, if it is not the default.".
-spec cookie_note(todana_config:options()) -> [todana_data_dir:noted()].
cookie_note(Options) ->
    [
        {cookie_file, filename:absname(File)}
     || #{cookie_file := File} <- [Options], File =/= auto
    ].

%% A node that was removed while it was down must not elect a leader together
%% with others that were. Members that are down cannot be asked. One that has
%% only been invited is none yet, and goes on to become one.
-spec is_member_still({ok, map()} | none, todana_config:options()) ->
    ok | {error, iodata()}.
is_member_still({ok, #{joining := _}}, _Options) ->
    ok;
is_member_still(
    {ok, #{cluster := Cluster, uid := UId, members := Members}},
    #{data_dir := DataDir} = Options
) ->
    Asked = [
        ask_peer(Member, is_removed, [Cluster, node(), UId])
     || Member <- Members, Member =/= node()
    ],
    DeadlineMs = deadline(?ANSWER_TIMEOUT_MS),
    SaysRemoved = fun(Peer) -> answer(Peer, DeadlineMs) =:= {ok, true} end,
    case lists:any(SaysRemoved, Asked) of
        true ->
            _ = todana_data_dir:left(#{data_dir => DataDir}),
            removed(Cluster, Options);
        false ->
            ok
    end;
is_member_still(_Known, _Options) ->
    ok.

-spec agrees_still({ok, map()} | none, todana_config:options()) ->
    ok | {error, iodata()}.
agrees_still({ok, Identity}, #{data_dir := DataDir}) ->
    todana_agreement:at_start(filename:absname(DataDir), Identity);
agrees_still(none, _Options) ->
    ok.

-spec removed(binary(), todana_config:options()) -> {error, iodata()}.
removed(Cluster, #{data_dir := DataDir}) ->
    {error, ["data_dir: ", DataDir, " was removed from the cluster ", Cluster,
             ", which has gone on without it: join with an empty directory. "
             "`bin/todana dump ", DataDir, "` reads what this one has"]}.

-spec is_one_way({ok, map()} | none, todana_config:options()) ->
    ok | {error, string()}.
is_one_way(_Known, #{cluster_create := yes, cluster_join := Peer}) when
    Peer =/= off
->
    {error, "cluster_join: a node creates a cluster or joins one, not both"};
is_one_way(Known, #{durability := everysec} = Options) ->
    IsMember = case Known of
        {ok, #{cluster := Cluster}} -> is_binary(Cluster);
        _ -> false
    end,
    case Options of
        #{cluster_create := no, cluster_join := off} when not IsMember ->
            ok;
        #{} ->
            {error, "durability: a member of a cluster must not lose what it "
                    "has confirmed: use `always`"}
    end;
is_one_way(_Known, _Options) ->
    ok.

%% The directory of a member knows its node's name.
-spec node_name({ok, map()} | none, todana_config:options()) -> atom().
node_name({ok, #{cluster := _, node := Name}}, #{node := off}) -> Name;
node_name(_Known, #{node := Name}) -> Name.

%% A restart needs only the directory.
-spec with_cookie({ok, map()} | none, todana_config:options()) ->
    todana_config:options().
with_cookie({ok, #{cookie_file := File}}, #{cookie_file := auto} = Options) ->
    Options#{cookie_file := File};
with_cookie(_Known, Options) ->
    Options.

%% Under another name, the cluster would say that this node is no member.
-spec is_own_name({ok, map()} | none, atom(), file:filename()) ->
    ok | {error, iodata()}.
is_own_name({ok, #{cluster := _, node := Name}}, Wanted, DataDir) ->
    case given_name(Wanted) of
        Name ->
            ok;
        This ->
            {error, [
                "node: ", DataDir, " belongs to the node ",
                atom_to_list(Name), ", and this node is ", atom_to_list(This),
                ": start it as ", atom_to_list(Name), ", or let ",
                atom_to_list(This), " join with an empty directory"
            ]}
    end;
is_own_name(_Known, _Wanted, _DataDir) ->
    ok.

%% A node of another release has one before.
-spec given_name(atom()) -> atom().
given_name(Wanted) when node() =:= nonode@nohost -> Wanted;
given_name(_Wanted) -> node().

%% Whether other nodes may know this one. Nobody else has a cookie that this
%% start makes.
-spec may_be_known(todana_config:options()) -> boolean().
may_be_known(#{cookie_file := File}) when node() =:= nonode@nohost ->
    filelib:is_regular(todana_distribution:cookie_file(File));
may_be_known(_Options) ->
    true.

%% A first start that is none: the directory is lost, and the other members
%% wait for this node. Two clusters would have members of one name.
-spec is_unclaimed(todana_data_dir:origin(), boolean()) ->
    ok | {error, iodata()}.
is_unclaimed({create, _Cluster}, true) ->
    await_claim([], deadline(claim_ms()));
is_unclaimed(_Origin, _MayBeKnown) ->
    ok.

%% How long other members may take to connect to this node, once they can reach
%% it. A node that had its name before this start may have got it only a moment
%% ago: the wait is the whole one.
-spec claim_ms() -> pos_integer().
claim_ms() ->
    case todana_distribution:is_near(node()) of
        true -> ?CLAIM_NEAR_TIMEOUT_MS;
        false -> ?CLAIM_TIMEOUT_MS
    end.

-spec await_claim(Asked :: [node()], DeadlineMs :: integer()) ->
    ok | {error, iodata()}.
await_claim(Asked, DeadlineMs) ->
    New = nodes() -- Asked,
    Processes = [{N, ask_peer(N, claim, [node()])} || N <- New],
    Claims = [
        {N, Cluster}
     || {N, Process} <- Processes,
        {ok, {member_of, Cluster}} <- [
            answer(Process, deadline(?ANSWER_TIMEOUT_MS))
        ]
    ],
    case {Claims, erlang:monotonic_time(millisecond) < DeadlineMs} of
        {[{Node, Cluster} | _], _} ->
            {error, claimed(Node, Cluster)};
        {[], true} ->
            timer:sleep(?CLAIM_PAUSE_MS),
            await_claim(New ++ Asked, DeadlineMs);
        {[], false} ->
            ok
    end.

-spec claimed(node(), binary()) -> iodata().
claimed(Node, Cluster) ->
    io_lib:format(
        "cluster_create: ~s is a member of the cluster ~ts, as ~s says, with "
        "another data directory. Start it with that one. If it is lost, run "
        "`bin/todana cluster leave ~s` on ~s, and start this node with the "
        "option cluster_join = ~s (--cluster-join ~s) in place of "
        "cluster_create. If that cluster is given up, stop its nodes first",
        [node(), Cluster, Node, node(), Node, Node, Node]
    ).

%% While the option stays in the file, a lost disk looks like a first start.
-spec say_created({ok, map()} | none, todana_config:options()) -> ok.
say_created(
    {ok, #{cluster := _, members := [_, _ | _] = Members}},
    #{cluster_create := yes}
) ->
    [Other | _] = Members -- [node()],
    logger:notice(
        "todana: cluster_create has no effect any more; put `cluster_join = "
        "~s` in its place, so that this node does not begin a cluster of its "
        "own if its data directory is lost", [Other]
    );
say_created(_Known, _Options) ->
    ok.

%% With a new cookie a member would wait for the others for ever.
-spec has_cookie({ok, map()} | none, todana_config:options()) ->
    ok | {error, iodata()}.
has_cookie({ok, #{members := [_, _ | _]}}, #{cookie_file := Option}) when
    node() =:= nonode@nohost
->
    File = todana_distribution:cookie_file(Option),
    case file:read_file_info(File) of
        {error, enoent} ->
            {error, ["cookie_file: ", File, " is missing, and this node is a "
                     "member of a cluster, which has a cookie: copy the file "
                     "from another member, or name it with --cookie-file"]};
        _ ->
            ok
    end;
has_cookie(_Known, _Options) ->
    ok.

-spec name(atom(), todana_config:options()) -> ok | {error, iodata()}.
name(off, #{cluster_create := no, cluster_join := off}) ->
    ok;
name(off, _Options) when node() =/= nonode@nohost ->
    ok;
name(off, _Options) ->
    {error, "node: a member of a cluster has a name: set it, for example with "
            "`bin/todana start --node a@127.0.0.1` or, in another release, the "
            "flag `-name a@127.0.0.1` of the emulator"};
name(Name, _Options) when Name =:= node() ->
    ok;
name(Name, #{cookie_file := File, cluster_port := Port} = Options) ->
    maybe
        ok ?= certificates(Options),
        todana_distribution:start(#{
            node => Name, port => Port,
            cookie_file => todana_distribution:cookie_file(File)
        })
    end.

-spec certificates(todana_config:options()) -> ok | {error, iodata()}.
certificates(#{cluster_tls := off}) ->
    ok;
certificates(#{cluster_tls := Directory}) ->
    case {todana_distribution:has_tls(),
          todana_certificates:are_readable(Directory)} of
        {true, ok} ->
            ok;
        {false, _} ->
            {error, "cluster_tls: this emulator was started without TLS "
                    "between nodes, which bin/todana does: in another release, "
                    "use the flags of Erlang's distribution"};
        {true, {error, Sentence}} ->
            {error, ["cluster_tls: ", Sentence]}
    end.

-spec origin({ok, map()} | none, todana_config:options()) ->
    {ok, todana_data_dir:origin()} | {error, iodata()}.
origin({ok, #{left_ms := _, cluster := Cluster}}, Options) ->
    removed(Cluster, Options);
origin({ok, #{cluster := Cluster} = Known}, Options) ->
    Members = maps:get(members, Known, []),
    case in_another(Cluster, todana_distribution:peers(Options)) of
        none ->
            {ok, alone};
        {Peer, Other} ->
            case lists:member(Peer, Members) of
                %% Its directory was lost, and it has begun a cluster of its
                %% own. This one goes on without it.
                true ->
                    logger:warning(
                        "todana: ~s was a member of this cluster, and belongs "
                        "to the cluster ~ts now: see `bin/todana cluster "
                        "status`", [Peer, io_lib:format("~ts", [Other])]
                    ),
                    {ok, alone};
                false ->
                    #{data_dir := DataDir} = Options,
                    {error, [
                        "cluster_join: ", DataDir, " belongs to the cluster ",
                        Cluster, ", and ", atom_to_list(Peer), " to ",
                        io_lib:format("~ts", [Other])
                    ]}
            end
    end;
origin(_Known, #{cluster_create := yes}) ->
    Bytes = crypto:strong_rand_bytes(?CLUSTER_BYTES),
    {ok, {create, string:lowercase(binary:encode_hex(Bytes))}};
origin(_Known, #{cluster_join := off}) ->
    {ok, alone};
origin({ok, _}, #{data_dir := DataDir, cluster_join := [Peer | _]}) ->
    {error, ["cluster_join: ", DataDir, " has a log of its own, which cannot "
             "be merged with that of ", atom_to_list(Peer), ": join with an "
             "empty directory"]};
origin(none, #{durability := Durability} = Options) ->
    Peers = todana_distribution:peers(Options),
    maybe
        {ok, Facts} ?= asked(Peers, fun(P) -> ask_to_join(P, Durability) end),
        {ok, {join, Facts}}
    end.

%% Only a peer that is there can be in another cluster.
-spec in_another(binary() | none, [node()]) ->
    {node(), none | binary()} | none.
in_another(_Cluster, []) ->
    none;
in_another(Cluster, [Peer | Peers]) ->
    case cluster_of(Peer) of
        {ok, Other} when Other =/= Cluster -> {Peer, Other};
        _ -> in_another(Cluster, Peers)
    end.

-type answer() :: {ok, map()} | {later, iodata()} | {error, iodata()}.

%% What one of the peers answers, which may come later.
-spec asked([node(), ...], fun((node()) -> answer())) ->
    {ok, map()} | {error, iodata()}.
asked(Peers, Ask) ->
    true = register(?JOINING, self()),
    try
        ask(Peers, Ask, deadline(?JOIN_TIMEOUT_MS), {"", 0})
    after
        unregister(?JOINING)
    end.

-doc "Whether this node waits for the cluster that it is to join.".
-spec is_joining() -> boolean().
is_joining() -> whereis(?JOINING) =/= undefined.

-spec cluster_of(node()) -> {ok, none | binary()} | unknown.
cluster_of(Peer) when Peer =:= node() ->
    unknown;
cluster_of(Peer) ->
    answer(ask_peer(Peer, cluster, []), deadline(?ANSWER_TIMEOUT_MS)).

%% A process asks, since a peer that hangs must not keep this node from its
%% start.
-spec ask_peer(node(), atom(), [term()]) -> {pid(), reference()}.
ask_peer(Peer, Function, Arguments) ->
    spawn_monitor(?MODULE, ask_and_exit, [Peer, Function, Arguments]).

-spec ask_and_exit(node(), atom(), [term()]) -> no_return().
ask_and_exit(Peer, Function, Arguments) ->
    case todana_distribution:connect(Peer) of
        ok ->
            try erpc:call(Peer, todana_admission, Function, Arguments) of
                Answer -> exit({ok, Answer})
            catch
                _:_ -> exit(unknown)
            end;
        {error, Why} ->
            exit(Why)
    end.

-spec answer({pid(), reference()}, integer()) -> {ok, term()} | unknown.
answer({Pid, Monitor}, DeadlineMs) ->
    LeftMs = max(0, DeadlineMs - erlang:monotonic_time(millisecond)),
    receive
        {'DOWN', Monitor, process, Pid, {ok, Answer}} ->
            {ok, Answer};
        {'DOWN', Monitor, process, Pid, {refused, Sentence}} ->
            logger:notice("todana: ~ts", [Sentence]),
            unknown;
        {'DOWN', Monitor, process, Pid, _} ->
            unknown
    after LeftMs ->
        true = demonitor(Monitor, [flush]),
        true = exit(Pid, kill),
        unknown
    end.

-spec deadline(non_neg_integer()) -> integer().
deadline(TimeoutMs) -> erlang:monotonic_time(millisecond) + TimeoutMs.

%% The nodes of a cluster are often started at once, so the peer may come later.
%% Each reason to wait is said at once, and again after a while.
-spec ask(
    [node(), ...], fun((node()) -> answer()), integer(),
    Said :: {iodata(), integer()}
) -> {ok, map()} | {error, iodata()}.
ask(Peers, Ask, DeadlineMs, Said) ->
    case ask_in_turn(Peers, Ask, []) of
        {later, Sentence} ->
            NowMs = erlang:monotonic_time(millisecond),
            case NowMs < DeadlineMs of
                true ->
                    Next = say(Sentence, DeadlineMs - NowMs, NowMs, Said),
                    timer:sleep(?JOIN_PAUSE_MS),
                    ask(Peers, Ask, DeadlineMs, Next);
                false ->
                    {error, ["cluster_join: ", Sentence, ", for ",
                             integer_to_list(?JOIN_TIMEOUT_MS div 1_000),
                             " s", another(Peers)]}
            end;
        {error, Sentence} ->
            {error, ["cluster_join: ", Sentence]};
        {ok, Facts} ->
            {ok, Facts}
    end.

%% A remedy, if only one member was named.
-spec another([node(), ...]) -> string().
another([_]) -> ": any member may be named, or several, separated by commas";
another(_Several) -> "".

%% One that refuses this node is no reason to give up, as long as another one
%% may come.
-spec ask_in_turn(
    [node()], fun((node()) -> answer()), [{later | error, iodata()}]
) -> answer().
ask_in_turn([], _Ask, Failures) ->
    Answer =
        case lists:keymember(later, 1, Failures) of
            true -> later;
            false -> error
        end,
    Sentences = [Sentence || {_, Sentence} <- lists:reverse(Failures)],
    {Answer, lists:join("; ", Sentences)};
ask_in_turn([Peer | Peers], Ask, Failures) ->
    case ask_once(Peer, Ask) of
        {ok, Facts} -> {ok, Facts};
        Failure -> ask_in_turn(Peers, Ask, [Failure | Failures])
    end.

-spec say(iodata(), integer(), integer(), {iodata(), integer()}) ->
    {iodata(), integer()}.
say(Sentence, _LeftMs, NowMs, {Sentence, AtMs} = Said) when
    NowMs < AtMs + ?JOIN_PROGRESS_MS
->
    Said;
say(Sentence, LeftMs, NowMs, _Said) ->
    logger:notice("todana: waiting to join, for ~b s more: ~ts",
                  [LeftMs div 1_000, Sentence]),
    {Sentence, NowMs}.

-spec ask_once(node(), fun((node()) -> answer())) -> answer().
ask_once(Peer, Ask) ->
    case todana_distribution:connect(Peer) of
        ok ->
            try
                Ask(Peer)
            catch
                error:{exception, undef, _} ->
                    {error, [atom_to_list(Peer), " does not run Todana, or an "
                             "older version of it"]};
                _:_ ->
                    {later, [atom_to_list(Peer), " does not answer"]}
            end;
        {error, {_, Sentence}} ->
            {later, Sentence}
    end.

-spec ask_to_join(node(), todana_data_dir:durability()) -> answer().
ask_to_join(Peer, Durability) ->
    Facts = #{
        node => node(), durability => Durability,
        version => todana_admission:version(),
        time_ms => erlang:system_time(millisecond),
        format => todana_formats:newest()
    },
    erpc:call(Peer, todana_admission, invite, [Facts], 10_000).

-spec ask_to_visit(node()) -> answer().
ask_to_visit(Peer) ->
    Question = [node(), todana_nif:guest_wire()],
    erpc:call(Peer, todana_seat, invite, Question, 10_000).
