%% Whether all members of a group have confirmed the same entries of its log.
%%
%% Raft guarantees that, unless a member has forgotten what it had confirmed:
%% somebody has cut its log, or replaced its directory by an older copy. Then a
%% majority without these entries may have elected a leader, and confirmed
%% others in their place. Ra does not notice it: its leader ends again and again
%% because a follower is ahead, or it overwrites entries that the follower has
%% applied.
%%
%% So each member asks the others once a second for the terms of the entries
%% that they have applied (todana_log_terms), and less often while it applies
%% none. If they contradict its own, a member stops that is not one of a
%% majority that agrees. It asks before it starts, too, because Ra changes the
%% log as soon as it runs. It names the cause, and changes no file: a person
%% decides which records are wanted.
-module(todana_agreement).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, at_start/2]).
%% Other nodes call them.
-export([terms/1, terms/2]).
%% For tests
-export([judge/3]).
%% A process
-export([compare_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(ANSWER_TIMEOUT_MS, 2_000).
%% Between two questions while this node applies nothing.
-define(IDLE_BEATS, 5).

-type ranges() :: [todana_log_terms:range()].
%% The members whose entries contradict those of this node, and whether it is
%% one of a majority that agrees.
-type verdict() :: agreed | {stop | go_on, [node()]}.

-record(state, {
    group :: todana_raft_groups:id(),
    %% The process that asks, and the contradictions that were logged.
    asking = none :: none | pid(),
    beats = 0 :: non_neg_integer(),
    %% What this node had applied, and which members it reached, when all agreed
    %% last.
    agreed = none :: none | {ranges(), [node()]},
    reported = [] :: [node()]
}).

-spec start_link(todana_raft_groups:id()) -> gen_server:start_ret().
start_link(Group) ->
    Name = todana_raft_groups:name(?MODULE, Group),
    gen_server:start_link({local, Name}, ?MODULE, Group, []).

-doc "What this member has applied, if its cluster is this one.".
-spec terms(todana_raft_groups:id(), binary()) -> ranges().
terms(Group, Cluster) ->
    case todana_admission:cluster() of
        Cluster -> todana_log_terms:ranges(Group);
        _ -> []
    end.

-doc "The same of the first group: `todana_raft_groups:question/2`.".
-spec terms(binary()) -> ranges().
terms(Cluster) -> terms(todana_raft_groups:first(), Cluster).

-doc """
Says why the node with this directory must not start. Members that are down
cannot be asked.
""".
-spec at_start(file:filename(), map()) -> ok | {error, iodata()}.
at_start(DataDir, #{cluster := Cluster, uid := UId, members := Members}) ->
    Server = filename:join([DataDir, "always", binary_to_list(UId)]),
    case todana_log_mark:facts(Server) of
        {ok, #{index := Index, term := Term}} when Term > 0 ->
            %% todana_cluster_start has connected to those that answer.
            Others = [N || N <- Members, lists:member(N, nodes())],
            %% The directory has the log of this group alone.
            Answers = ask(todana_raft_groups:first(), Others, Cluster),
            case judge([{Term, Index, Index}], Answers, length(Members)) of
                {stop, Differing} ->
                    {error, ["data_dir: ", DataDir, ": ",
                             sentence(Index, Term, Differing)]};
                _ ->
                    ok
            end;
        _ ->
            ok
    end;
at_start(_DataDir, #{}) ->
    ok.

-spec ask(todana_raft_groups:id(), [node()], binary()) -> [{node(), ranges()}].
ask(Group, Nodes, Cluster) ->
    Question = todana_raft_groups:question(Group, [Cluster]),
    Answers = erpc:multicall(
        Nodes, ?MODULE, terms, Question, ?ANSWER_TIMEOUT_MS
    ),
    [{Node, Ranges} || {Node, {ok, Ranges}} <- lists:zip(Nodes, Answers)].

-doc "Compares these entries with those of others, of that number of members.".
-spec judge(ranges(), [{node(), ranges()}], pos_integer()) -> verdict().
judge(Own, Answers, Members) ->
    Known = [
        {Node, todana_log_terms:first_conflict(Own, Ranges) =/= none}
     || {Node, [_ | _] = Ranges} <- Answers
    ],
    Agreeing = 1 + length([Node || {Node, false} <- Known]),
    case [Node || {Node, true} <- Known] of
        [] -> agreed;
        Differing when 2 * Agreeing > Members -> {go_on, Differing};
        Differing -> {stop, Differing}
    end.

-spec sentence(pos_integer(), pos_integer(), [node()]) -> iodata().
sentence(Index, Term, Differing) ->
    io_lib:format(
        "this node has confirmed entry ~b of term ~b, and ~ts confirmed "
        "others in its place, so the cluster has lost confirmed writes: the "
        "log of a member was cut, or its directory replaced by an older copy. "
        "To go on without the writes that only this node has, run `bin/todana "
        "cluster leave ~s` on another member, and let this node join again "
        "with an empty directory; keep a copy of this one",
        [Index, Term, others(Differing), node()]
    ).

-spec others([node()]) -> iodata().
others([Node]) -> [atom_to_list(Node), " has"];
others(Nodes) -> [lists:join(", ", lists:map(fun atom_to_list/1, Nodes)),
                  " have"].

%% --------------------------------------------------------------- process ---

-spec init(todana_raft_groups:id()) -> {ok, #state{}}.
init(Group) ->
    self() ! beat,
    {ok, #state{group = Group}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, #state{asking = Asking, beats = Beats} = State) ->
    ok = todana_beat:flush(),
    New = #state{group = Group} = State#state{beats = Beats + 1},
    IsDue = Beats rem ?IDLE_BEATS =:= 0 orelse
        {todana_log_terms:ranges(Group), todana_members:connected(Group)} =/=
            State#state.agreed,
    case Asking of
        none when IsDue ->
            Opened = todana_raft_groups:opened(Group),
            {Pid, _} = spawn_monitor(?MODULE, compare_and_exit, [
                Group, Opened
            ]),
            {noreply, New#state{asking = Pid}};
        _ ->
            {noreply, New}
    end;
handle_info({'DOWN', _, process, Pid, Result}, #state{asking = Pid} = State) ->
    {noreply, judged(Result, State#state{asking = none})};
handle_info(_Message, State) ->
    {noreply, State}.

-spec compare_and_exit(todana_raft_groups:id(), todana_data_dir:opened()) ->
    no_return().
compare_and_exit(Group, #{cluster := Cluster}) ->
    Members = todana_members:known(Group),
    Others = todana_members:connected(Group),
    case todana_log_terms:ranges(Group) of
        [_ | _] = Own when Others =/= [] ->
            Answers = ask(Group, Others, Cluster),
            Verdict = judge(Own, Answers, length(Members)),
            exit({judged, Verdict, Own, Others});
        _ ->
            exit(nothing)
    end.

-spec judged(term(), #state{}) -> #state{}.
judged({judged, {stop, Differing}, Own, _}, State) ->
    {Term, _, Index} = lists:last(Own),
    logger:error("todana: ~ts; the node stops",
                 [sentence(Index, Term, Differing)]),
    _ = spawn(application, stop, [todana]),
    State;
judged({judged, {go_on, Differing}, _, _}, #state{reported = Old} = State) ->
    _ = [
        logger:error(
            "todana: ~s has confirmed entries that this node and a majority "
            "do not have, or have others in their place; unless it was made "
            "to go on alone, it stops, and its log says what to do", [Node]
        )
     || Node <- Differing -- Old
    ],
    State#state{reported = Differing};
judged({judged, agreed, Own, Others}, State) ->
    State#state{reported = [], agreed = {Own, Others}};
judged(_Nothing, State) ->
    State.
