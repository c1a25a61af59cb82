%% Keeps each member of a group informed how far the logs of the others are, for
%% WAIT.
%%
%% Only the leader knows it: a member answers each entry that it has on disk. So
%% the leader sends all members what it knows, when that has changed.
-module(todana_copies).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, busy/2, last/1, do_all_vote/1]).
%% The decision, for tests
-export([of_others/3]).
%% Processes
-export([ask_and_exit/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Between two questions while members lack entries.
-define(TICK_MS, 50).
%% Before the first one after a pause: the entry is written meanwhile.
-define(SOON_MS, 10).
%% Looks without news before it rests.
-define(QUIET_LOOKS, 2).
-define(ASK_TIMEOUT_MS, 1_000).

%% The last entry of each member, and the number of voters.
-type copies() :: {#{node() => non_neg_integer()}, Voters :: pos_integer()}.

%% The note of what the leader of a group sent last.
-define(KNOWN(Group), {copies, Group}).

-record(state, {
    group :: todana_raft_groups:id(),
    %% Whether the next tick is to come.
    is_ticking = false :: boolean(),
    %% Looks without news since the last message that the log grows.
    quiet = 0 :: non_neg_integer(),
    asker = none :: none | pid(),
    %% Whether the members get the answer although they may know it: some may
    %% have come.
    is_repeated = false :: boolean(),
    sent = none :: none | copies(),
    %% What the leader sent last.
    known = none :: none | copies()
}).

-spec start_link(todana_raft_groups:id()) -> gen_server:start_ret().
start_link(Group) ->
    gen_server:start_link({local, name(Group)}, ?MODULE, Group, []).

-spec name(todana_raft_groups:id()) -> atom().
name(Group) -> todana_raft_groups:name(?MODULE, Group).

-doc "Some member gives the log of this leader something, after a pause.".
-spec busy(todana_raft_groups:id(), node()) -> ok.
busy(Group, Leader) ->
    _ = erlang:send({name(Group), Leader}, busy, [noconnect, nosuspend]),
    ok.

-doc "The last entry of each member, as the leader has sent it.".
-spec last(todana_raft_groups:id()) -> #{node() => non_neg_integer()}.
last(Group) ->
    {Members, _Voters} = todana_group_notes:kept(?KNOWN(Group), {#{}, 0}),
    Members.

-doc "Whether each member has a vote, as the leader has sent it.".
-spec do_all_vote(todana_raft_groups:id()) -> boolean().
do_all_vote(Group) ->
    {Members, Voters} = todana_group_notes:kept(?KNOWN(Group), {#{}, 0}),
    Voters =:= length(todana_members:known(Group)) andalso
        Voters =:= map_size(Members).

-spec init(todana_raft_groups:id()) -> {ok, #state{}}.
init(Group) ->
    ok = net_kernel:monitor_nodes(true),
    self() ! beat,
    {ok, #state{group = Group}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({copies, Copies}, #state{group = Group} = State) ->
    ok = todana_group_notes:keep(?KNOWN(Group), Copies),
    {noreply, count(State#state{known = Copies})};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    {noreply, look(State#state{is_repeated = true})};
handle_info(busy, State) ->
    {noreply, tick(?SOON_MS, State#state{quiet = 0})};
handle_info(tick, #state{asker = none} = State) ->
    {noreply, look(State#state{is_ticking = false})};
%% The answer that is to come may be older.
handle_info(tick, State) ->
    {noreply, tick(?TICK_MS, State#state{is_ticking = false})};
handle_info({'DOWN', _, process, Pid, Result}, #state{asker = Pid} = State) ->
    New = State#state{asker = none},
    case Result of
        {led, Copies} ->
            Quiet = case State#state.sent of
                Copies -> State#state.quiet + 1;
                _ -> 0
            end,
            {noreply, go_on(Copies, send(Copies, New#state{quiet = Quiet}))};
        _ -> {noreply, New}
    end;
handle_info({Change, _Node}, State) when
    Change =:= nodeup; Change =:= nodedown
->
    {noreply, count(State)};
handle_info(_Message, State) ->
    {noreply, State}.

%% A member that is down does not count, also while nobody leads.
-spec count(#state{}) -> #state{}.
count(#state{known = none} = State) ->
    State;
count(#state{group = Group, known = Copies} = State) ->
    {AtLeast, Known} = of_others(node(), nodes(), Copies),
    ok = todana_nif:group_copies(Group, AtLeast, Known),
    State.

-spec look(#state{}) -> #state{}.
look(#state{group = Group, asker = none} = State) ->
    case todana_members:leader(Group) =:= node() of
        true ->
            {Pid, _} = spawn_monitor(?MODULE, ask_and_exit, [Group]),
            State#state{asker = Pid};
        false ->
            State
    end;
look(State) ->
    State.

%% A leader whose members have everything, for some looks, is asked at the next
%% beat. A member that is down has not, and learns it later.
-spec go_on(copies(), #state{}) -> #state{}.
go_on({Members, _Voters}, #state{group = Group, quiet = Quiet} = State) ->
    #{last_index := Written} = todana_members:facts(Group),
    Up = maps:values(maps:with([node() | nodes()], Members)),
    case Quiet >= ?QUIET_LOOKS andalso
        lists:all(fun(Last) -> Last >= Written end, Up) of
        true -> State;
        false -> tick(?TICK_MS, State)
    end.

-spec tick(pos_integer(), #state{}) -> #state{}.
tick(AfterMs, #state{is_ticking = false} = State) ->
    _ = erlang:send_after(AfterMs, self(), tick),
    State#state{is_ticking = true};
tick(_AfterMs, State) ->
    State.

-spec ask_and_exit(todana_raft_groups:id()) -> no_return().
ask_and_exit(Group) ->
    case todana_members:list(Group, [node()], ?ASK_TIMEOUT_MS) of
        {ok, Leader, Members} when Leader =:= node() ->
            Known = #{
                Node => Index
             || #{node := Node, match_index := Index} <- Members
            },
            Voters = length([
                R || #{role := R} <- Members, R =:= leader orelse R =:= voter
            ]),
            Own = Known#{node() => todana_members:written(Group)},
            exit({led, {Own, max(1, Voters)}});
        _ ->
            exit(not_led)
    end.

-spec send(copies(), #state{}) -> #state{}.
send({Members, _} = Copies, #state{group = Group, sent = Sent} = State) ->
    _ = [
        erlang:send(
            {name(Group), Node}, {'$gen_cast', {copies, Copies}},
            [noconnect, nosuspend]
        )
     || Copies =/= Sent orelse State#state.is_repeated,
        Node <- maps:keys(Members), lists:member(Node, [node() | nodes()])
    ],
    State#state{sent = Copies, is_repeated = false}.

-doc """
How many other members have each confirmed entry anyway, and the last entries of
the others; of those that are connected. The number of voters may be about to
fall by one.
""".
-spec of_others(node(), Up :: [node()], copies()) ->
    {AtLeast :: non_neg_integer(), [non_neg_integer()]}.
of_others(Node, Up, {Members, Voters}) ->
    Known = maps:values(maps:with(Up, maps:remove(Node, Members))),
    {min((Voters - 1) div 2, length(Known)), Known}.
