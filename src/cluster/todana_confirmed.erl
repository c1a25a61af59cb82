%% What each member has confirmed, as the other members remember it.
%%
%% Raft counts on a member having what it has confirmed. A directory that is
%% restored from a copy has less, looks whole, and votes for a leader that lacks
%% the rest. So the others remember: each member announces once a second which
%% entry it has applied and has on disk, the others note it, and before a
%% server starts, it meets the members that are up. Each of two that meet says
%% which entry its log ends with, and what it remembers of the other one.
%%
%% - The log of one ends earlier than the other one remembers: it is an older
%%   copy. Its server does not start, or stops, and the directory notes it, so
%%   that no later start needs the others to find it out.
%% - The one with the older copy leads already: the cluster has gone on without
%%   some entries that it had confirmed. Then the server of the other one does
%%   not start, since it would be made to forget them, too.
%%
%% A server can be met before it asks others itself. So of two that start at the
%% same time, the later one meets the other one before it can vote.
%%
%%     <data_dir>/confirmed    Erlang terms: the members, and a checksum
%%
%% A member that has all that it has confirmed is never refused: only entries
%% count that a majority has, which no later leader replaces.
-module(todana_confirmed).
-moduledoc false.

-export([new/2, check/1, stays/1]).
-export([announce/2, note/4, keep/1]).
%% Other nodes call them.
-export([meet/1, has/0]).
%% The decision, and the file, for tests
-export([verdict/2, sure/3, read/1, remembered/0]).
%% Processes
-export([meet_and_exit/2]).

-export_type([card/0, row/0]).

-define(MEET_TIMEOUT_MS, 2_000).
%% A member that is connected and hangs counts as down after this time. It is
%% more than the time after which a connection without an answer is closed.
-define(MEET_ALL_TIMEOUT_MS, 10_000).
-define(MEET_AGAIN_MS, 200).
-define(ASK_TIMEOUT_MS, 1_000).
%% How long ago a leader may have proved that it leads.
-define(PROVED_MS, 3_000).

%% Looks with one leader, a second apart, after which its log is that of all.
-define(STEADY_LOOKS, 2).

%% The confirmed entry and the leader of the last look, and the number of looks
%% in a row with this leader.
-type sample() :: {
    non_neg_integer(), todana_members:leadership() | none, non_neg_integer()
}.
%% A server, its node, and an entry that it has confirmed.
-type row() :: {UId :: binary(), node(), non_neg_integer()}.
%% What a member says of itself when it meets another one.
-type card() :: #{
    cluster := binary(),
    node := node(),
    uid := binary(),
    %% The last entry of its log.
    has := non_neg_integer(),
    %% What it remembers, by the UId.
    remembers := #{binary() => non_neg_integer()},
    %% Its operator gives up what it does not have.
    accepts := boolean(),
    leads := boolean()
}.
%% Of two members: which one has forgotten entries that the other one knows it
%% to have confirmed.
%% Or the other one leads without an entry that a majority had confirmed.
-type verdict() ::
    none | {own | other | cluster, Confirmed :: non_neg_integer()}.
-type opened() :: todana_data_dir:opened().

-doc """
Makes the table, which belongs to the caller, with what the directory remembers.
What other members announce is added to it from then on, and written.
""".
-spec new(todana_config:options(), opened()) -> ok.
new(Options, Opened) ->
    ?MODULE = ets:new(?MODULE, [named_table, public]),
    Accepts = maps:get(cluster_accept_older, Options, no) =:= yes,
    keep(accepts, Accepts),
    load(Opened, Accepts).

%% ----------------------------------------------------------------- start ---

-doc """
Whether this directory has all that the members that are up, and those that it
has met, know it to have confirmed. Called before its server starts.
""".
-spec check(opened()) -> ok | {error, todana_log_problem:problem()}.
check(#{cluster := none}) ->
    ok;
check(#{has_group := false}) ->
    keep(has, 0);
check(#{server_dir := Server} = Opened) ->
    Has = todana_log_end:last(Server),
    keep(has, Has),
    case own(Opened) > Has of
        true -> {error, older(Opened, "this directory notes", own(Opened))};
        false -> meet_all(Opened)
    end.

-doc "The same after the start: whom it has met since then counts, too.".
-spec stays(opened()) -> ok | {error, todana_log_problem:problem()}.
stays(#{cluster := Cluster} = Opened) ->
    case Cluster =/= none andalso own(Opened) > has() of
        true ->
            ok = todana_ra_server:stop(group()),
            {error, older(Opened, "this directory notes", own(Opened))};
        false ->
            ok
    end.

%% Those that are remembered are accepted as they are, too.
-spec load(opened(), boolean()) -> ok.
load(#{cluster := none}, _Accepts) ->
    ok;
load(#{data_dir := DataDir}, true) ->
    write(DataDir);
load(#{data_dir := DataDir}, false) ->
    lists:foreach(fun remember/1, read(DataDir)).

-spec meet_all(opened()) -> ok | {error, todana_log_problem:problem()}.
meet_all(#{data_dir := DataDir, joining := Joining} = Opened) ->
    Noted =
        case todana_data_dir:identity(DataDir) of
            {ok, #{members := Members}} -> Members;
            _ -> []
        end,
    Others = lists:usort(Noted ++ Joining) -- [node()],
    meet_each(Others, now_ms() + ?MEET_ALL_TIMEOUT_MS, Opened).

%% A busy host may answer late, and one that is opening its log may fail to
%% answer, so those that are connected are asked again.
-spec meet_each([node()], integer(), opened()) ->
    ok | {error, todana_log_problem:problem()}.
meet_each(Others, DeadlineMs, Opened) ->
    Card = card(Opened),
    Asked = [
        {N, spawn_monitor(?MODULE, meet_and_exit, [N, Card])} || N <- Others
    ],
    SoonMs = now_ms() + ?MEET_TIMEOUT_MS,
    Answers = [{N, answer(Process, SoonMs)} || {N, Process} <- Asked],
    Problems = [Problem || {_, {ok, Other}} <- Answers, {error, Problem} <- [
        met(Other, Opened)
    ]],
    case {Problems, [N || {N, silent} <- Answers]} of
        {[Problem | _], _} -> {error, Problem};
        {[], []} -> stays(Opened);
        {[], Silent} -> meet_again(Silent, DeadlineMs, Opened)
    end.

-spec meet_again([node()], integer(), opened()) ->
    ok | {error, todana_log_problem:problem()}.
meet_again(Silent, DeadlineMs, Opened) ->
    ok = timer:sleep(?MEET_AGAIN_MS),
    Up = [N || N <- Silent, lists:member(N, nodes())],
    case Up =/= [] andalso now_ms() < DeadlineMs of
        true -> meet_each(Up, DeadlineMs, Opened);
        false -> stays(Opened)
    end.

-spec meet_and_exit(node(), card()) -> no_return().
meet_and_exit(Node, Card) ->
    case todana_distribution:connect(Node) of
        ok ->
            try erpc:call(Node, ?MODULE, meet, [Card], ?MEET_TIMEOUT_MS) of
                Answer -> exit({met, Answer})
            catch
                %% An earlier version, which remembers nothing.
                error:{exception, undef, [{?MODULE, meet, _, _} | _]} ->
                    exit(unknown);
                error:{erpc, timeout} ->
                    exit(silent);
                %% It may know something, and just cannot say it.
                _:Reason ->
                    ok = report_failed(Node, Reason),
                    exit(silent)
            end;
        %% Both may be connecting to each other.
        {error, {refused, _}} ->
            exit(silent);
        {error, _} ->
            exit(unknown)
    end.

-spec report_failed(node(), term()) -> ok.
report_failed(Node, Reason) ->
    logger:warning(
        "todana: ~ts did not say what it knows of this member: ~0tP",
        [Node, Reason, 12]
    ).

-spec answer({pid(), reference()}, integer()) ->
    {ok, card()} | unknown | silent.
answer({Pid, Monitor}, DeadlineMs) ->
    receive
        {'DOWN', Monitor, process, Pid, {met, {ok, Card}}} -> {ok, Card};
        {'DOWN', Monitor, process, Pid, silent} -> silent;
        {'DOWN', Monitor, process, Pid, _} -> unknown
    after max(0, DeadlineMs - now_ms()) ->
        true = demonitor(Monitor, [flush]),
        true = exit(Pid, kill),
        silent
    end.

%% --------------------------------------------------------------- meeting ---

-doc """
A member with this card meets this one. If this one has forgotten what it had
confirmed, its server has ended when this returns, unless it leads.
""".
-spec meet(card()) -> {ok, card()} | unknown.
meet(#{cluster := Cluster} = Other) ->
    try {todana_raft_groups:opened(group()), kept(has)} of
        {#{cluster := Cluster} = Opened, Has} when is_integer(Has) ->
            Card = with_leaders_view(Other, card(Opened)),
            _ = met(Other, Opened),
            {ok, Card};
        _ ->
            unknown
    catch
        %% It is starting: it will ask itself.
        error:badarg -> unknown
    end.

-spec card(opened()) -> card().
card(#{cluster := Cluster, uid := UId}) ->
    #{
        cluster => Cluster,
        node => node(),
        uid => UId,
        has => has(),
        remembers => #{Id => Index || {Id, _, Index} <- remembered()},
        accepts => kept(accepts),
        leads => leads()
    }.

%% A leader that is cut off does not know that another one leads.
-spec leads() -> boolean().
leads() ->
    todana_members:leader(group()) =:= node() andalso
        not todana_leader_proof:is_silent(group(), ?PROVED_MS).

%% A leader knows to the entry what another member has on disk. Of that, only
%% what is confirmed is there to stay. This is true although it may lead nobody
%% any more, which is so if the member was its majority, and comes back.
-spec with_leaders_view(card(), card()) -> card().
with_leaders_view(#{node := Node, uid := UId}, Card) ->
    case todana_members:leader(group()) =:= node() andalso
        todana_members:list(group(), [node()], ?ASK_TIMEOUT_MS)
    of
        {ok, Leader, Members} when Leader =:= node() ->
            #{remembers := Remembers} = Card,
            #{committed := Committed} = todana_members:facts(group()),
            Known = [
                min(Index, Committed)
             || #{node := N, match_index := Index} = M <- Members,
                N =:= Node, maps:get(uid, M, UId) =:= UId
            ],
            Most = lists:max([maps:get(UId, Remembers, 0) | Known]),
            Card#{remembers := Remembers#{UId => Most}};
        _ ->
            Card
    end.

%% What follows from a meeting for this node.
-spec met(card(), opened()) -> ok | {error, todana_log_problem:problem()}.
met(Other, Opened) ->
    Own = card(Opened),
    case verdict(Own, Other) of
        none ->
            settle(Own, Other);
        {own, Index} ->
            #{node := Node} = Other,
            regressed(Node, Index, Own, Opened);
        {Whose, Index} ->
            #{node := Node, has := Has} = Other,
            ok = report(Node, Has, Index),
            case Whose of
                cluster -> {error, gone_on(Opened, Node, Has, Index)};
                other -> ok
            end
    end.

-spec report(node(), non_neg_integer(), non_neg_integer()) -> ok.
report(Node, Has, Index) ->
    logger:error(
        "todana: the log of ~ts ends with entry ~b, and entry ~b was "
        "confirmed: a directory is an older copy", [Node, Has, Index]
    ).

-doc "What follows for the first one of two members that meet.".
-spec verdict(card(), card()) -> verdict().
verdict(#{remembers := Remembers} = Own, #{has := Has} = Other) ->
    Most = lists:max([0 | maps:values(Remembers)]),
    case {forgotten(Own, Other), forgotten(Other, Own), Other} of
        {none, _, #{leads := true, accepts := false}} when Most > Has ->
            {cluster, Most};
        {none, none, _} ->
            none;
        {none, Index, _} ->
            {other, Index};
        {Index, _, _} ->
            {own, Index}
    end.

%% The entry that the second one knows the first one to have confirmed, if that
%% one does not have it.
-spec forgotten(card(), card()) -> non_neg_integer() | none.
forgotten(#{accepts := true}, _Other) ->
    none;
forgotten(#{uid := UId, has := Has}, #{remembers := Remembers}) ->
    case maps:get(UId, Remembers, 0) of
        Index when Index > Has -> Index;
        _ -> none
    end.

%% A member whose operator gives up what it has forgotten begins anew.
-spec settle(card(), card()) -> ok.
settle(#{remembers := Remembers}, #{accepts := true, uid := UId, has := Has})
  when is_map_key(UId, Remembers), map_get(UId, Remembers) > Has ->
    true = ets:delete(?MODULE, UId),
    ok;
settle(_Own, _Other) ->
    ok.

%% If the leader does not have that entry either, the cluster goes on: to stop
%% would not bring it back.
-spec regressed(node(), non_neg_integer(), card(), opened()) ->
    ok | {error, todana_log_problem:problem()}.
regressed(Node, Index, #{has := Has} = Own, Opened) ->
    case is_lost(Index, Own) of
        true -> report(node(), Has, Index);
        false -> refuse(Node, Index, Own, Opened)
    end.

-spec is_lost(non_neg_integer(), card()) -> boolean().
is_lost(_Index, #{leads := true}) ->
    true;
is_lost(Index, #{node := Node}) ->
    case todana_members:leader(group()) of
        Leader when Leader =:= none; Leader =:= Node ->
            false;
        Leader ->
            try erpc:call(Leader, ?MODULE, has, [], ?ASK_TIMEOUT_MS) of
                Has -> Has < Index
            catch
                _:_ -> false
            end
    end.

-spec refuse(node(), non_neg_integer(), card(), opened()) ->
    {error, todana_log_problem:problem()}.
refuse(Node, Index, #{uid := UId}, #{data_dir := DataDir} = Opened) ->
    remember({UId, node(), Index}),
    ok = write(DataDir),
    Problem = older(Opened, [atom_to_list(Node), " remembers"], Index),
    case todana_ra_server:is_running(group()) of
        true ->
            ok = todana_ra_server:stop(group()),
            _ = spawn(fun() -> stop(todana_log_problem:describe(Problem)) end),
            {error, Problem};
        false ->
            {error, Problem}
    end.

-spec stop(string()) -> ok.
stop(Sentence) ->
    case todana_foreground:failed(Sentence, final, 1) of
        true ->
            ok;
        false ->
            logger:error("todana: ~ts", [Sentence]),
            _ = application:stop(todana),
            ok
    end.

-spec older(opened(), iodata(), non_neg_integer()) ->
    todana_log_problem:problem().
older(#{data_dir := DataDir}, Who, Index) ->
    {older, DataDir, io_lib:format(
        "the log ends with entry ~b, and ~ts that this member had confirmed "
        "entry ~b, so the directory is an older copy", [has(), Who, Index]
    )}.

-spec gone_on(opened(), node(), non_neg_integer(), non_neg_integer()) ->
    todana_log_problem:problem().
gone_on(#{data_dir := DataDir}, Node, Has, Index) ->
    {gone_on, DataDir, io_lib:format(
        "~ts leads the cluster with an older copy of its directory, from entry "
        "~b on, and it had confirmed entry ~b: this directory may have writes "
        "that the cluster has lost", [Node, Has, Index]
    )}.

%% -------------------------------------------------------------- once a second

-doc "Sends these nodes what this member has confirmed, and has.".
-spec announce(opened(), [node()]) -> ok.
announce(#{uid := UId}, Nodes) ->
    Now = todana_members:confirmed(group()),
    %% In this order: a change of the leader comes before that of the log.
    #{leader := Leader} = todana_members:facts(group()),
    {Sure, Sample} = sure(Now, Leader, kept(sample, {0, none, 0})),
    keep(sample, Sample),
    Message = {confirmed, UId, node(), Sure, has()},
    _ = [
        erlang:send({todana_membership, Node}, Message, [noconnect, nosuspend])
     || Sure > 0, Node <- Nodes
    ],
    ok.

-doc """
What a member announces of an entry that is confirmed by its figures, and what
it keeps for the next time. While a log is replaced that was not confirmed, the
figures of Ra belong to both for a moment. That happens only soon after another
leader was elected. So an entry counts if it was there a second ago, or at once
if this leader was there in two looks before: then the last look, at an orderly
stop, announces the last second, too.
""".
-spec sure(non_neg_integer(), todana_members:leadership() | none, sample()) ->
    {non_neg_integer(), sample()}.
sure(Now, Leader, {_Before, Leader, Looks}) when
    Leader =/= none, Looks >= ?STEADY_LOOKS
->
    {Now, {Now, Leader, Looks}};
sure(Now, Leader, {Before, Leader, Looks}) ->
    {min(Now, Before), {Now, Leader, Looks + 1}};
sure(Now, Leader, {Before, _Other, _Looks}) ->
    {min(Now, Before), {Now, Leader, 1}}.

-doc "Notes what a member has announced.".
-spec note(binary(), node(), non_neg_integer(), non_neg_integer()) -> ok.
note(UId, Node, Index, Has) ->
    case ets:lookup(?MODULE, UId) of
        [{UId, _, Noted}] when Noted > Has ->
            %% The nodes met too late, when both ran already.
            _ = spawn(fun() -> meet_late(Node) end),
            ok;
        _ ->
            %% The node may have joined anew, with another directory.
            _ = [
                ets:delete(?MODULE, Id)
             || {Id, N, _} <- remembered(), N =:= Node, Id =/= UId
            ],
            remember({UId, Node, Index})
    end.

-spec meet_late(node()) -> ok.
meet_late(Node) ->
    Opened = todana_raft_groups:opened(group()),
    Asked = spawn_monitor(?MODULE, meet_and_exit, [Node, card(Opened)]),
    case answer(Asked, now_ms() + ?MEET_TIMEOUT_MS) of
        {ok, Other} ->
            case met(Other, Opened) of
                ok -> ok;
                {error, Problem} -> report_once(Node, Problem)
            end;
        _ ->
            ok
    end.

%% They meet once a second as long as both run.
-spec report_once(node(), todana_log_problem:problem()) -> ok.
report_once(Node, Problem) ->
    case kept({reported, Node}) of
        none ->
            logger:error(
                "todana: ~ts", [todana_log_problem:describe(Problem)]
            ),
            keep({reported, Node}, true);
        true ->
            ok
    end.

-doc "Writes down what is remembered of these members, if it has changed.".
-spec keep(opened()) -> ok.
keep(#{data_dir := DataDir}) ->
    Group = group(),
    _ = case {todana_members:leader(Group), todana_members:listed(Group)} of
        {Leader, {ok, Members}} when Leader =/= none ->
            [
                ets:delete(?MODULE, UId)
             || {UId, Node, _} <- remembered(), not lists:member(Node, Members)
            ];
        _ ->
            []
    end,
    case remembered() =:= kept(written, []) of
        true -> ok;
        false -> write(DataDir)
    end.

%% ------------------------------------------------------------------ file ---

-doc "What the file of a directory remembers. Damaged, it remembers nothing.".
-spec read(file:filename()) -> [row()].
read(DataDir) ->
    case todana_small_file:read_terms(file(DataDir)) of
        {ok, [{members, Rows}, {checksum, Sum}]} ->
            case checksum(Rows) of
                Sum -> Rows;
                _ -> []
            end;
        _ ->
            []
    end.

-spec write(file:filename()) -> ok.
write(DataDir) ->
    _ = global:trans({?MODULE, self()}, fun() ->
        Rows = remembered(),
        Text = io_lib:format("~tp.~n~tp.~n", [
            {members, Rows}, {checksum, checksum(Rows)}
        ]),
        Bytes = unicode:characters_to_binary(Text),
        case todana_small_file:replace(file(DataDir), Bytes) of
            ok ->
                keep(written, Rows);
            {error, Reason} ->
                _ = kept(failed, none) =/= Reason andalso
                    logger:warning("todana: ~ts: ~ts", [
                        file(DataDir), file:format_error(Reason)
                    ]),
                keep(failed, Reason)
        end
    end, [node()]),
    ok.

-spec file(file:filename()) -> file:filename().
file(DataDir) -> filename:join(DataDir, "confirmed").

-spec checksum([row()]) -> non_neg_integer().
checksum(Rows) -> erlang:crc32(term_to_binary(Rows, [deterministic])).

%% ----------------------------------------------------------------- table ---

-doc "What this node remembers.".
-spec remembered() -> [row()].
remembered() -> lists:sort(ets:match_object(?MODULE, {'_', '_', '_'})).

-spec remember(row()) -> ok.
remember({UId, _, Index} = Row) ->
    _ = ets:lookup_element(?MODULE, UId, 3, 0) < Index andalso
        ets:insert(?MODULE, Row),
    ok.

%% What this directory is known to have confirmed.
-spec own(opened()) -> non_neg_integer().
own(#{uid := UId}) -> ets:lookup_element(?MODULE, UId, 3, 0).

-doc """
The last entry of this node's log: at its start, or since then. A leader whose
disk is slow leads without having its own entries on disk.
""".
-spec has() -> non_neg_integer().
has() ->
    Written = max(kept(has, 0), todana_members:written(group())),
    case leads() of
        true ->
            #{last_index := Last} = todana_members:facts(group()),
            max(Written, Last);
        false ->
            Written
    end.

-spec keep(term(), term()) -> ok.
keep(Key, Value) ->
    true = ets:insert(?MODULE, {Key, Value}),
    ok.

-spec kept(term()) -> term().
kept(Key) -> kept(Key, none).

-spec kept(term(), term()) -> term().
kept(Key, Default) -> ets:lookup_element(?MODULE, Key, 2, Default).

%% The one whose log the directory has.
-spec group() -> todana_raft_groups:id().
group() -> todana_raft_groups:first().

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
