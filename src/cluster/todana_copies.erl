%% Keeps each member informed how far the logs of the others are, for WAIT.
%%
%% Only the leader knows it: a member answers each entry that it has on disk. So
%% the leader sends all members what it knows, when that has changed.
-module(todana_copies).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0]).
%% The decision, for tests
-export([of_others/3]).
%% Processes
-export([ask_and_exit/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TICK_MS, 50).
%% After this number of ticks without news the same is sent again, for members
%% that have come.
-define(REPEAT_TICKS, 20).
-define(ASK_TIMEOUT_MS, 1_000).

%% The last entry of each member, and the number of voters.
-type copies() :: {#{node() => non_neg_integer()}, Voters :: pos_integer()}.

-record(state, {
    ticks = 0 :: non_neg_integer(),
    asker = none :: none | pid(),
    sent = none :: none | copies(),
    %% What the leader sent last.
    known = none :: none | copies()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    ok = net_kernel:monitor_nodes(true),
    self() ! tick,
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({copies, Copies}, State) ->
    {noreply, count(State#state{known = Copies})};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(tick, #state{ticks = Ticks} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    {noreply, look(State#state{ticks = Ticks + 1})};
handle_info({'DOWN', _, process, Pid, Result}, #state{asker = Pid} = State) ->
    New = State#state{asker = none},
    case Result of
        {led, Copies} -> {noreply, send(Copies, New)};
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
count(#state{known = Copies} = State) ->
    {AtLeast, Known} = of_others(node(), nodes(), Copies),
    ok = todana_nif:group_copies(AtLeast, Known),
    State.

%% An idle leader whose members have everything is asked once a second.
-spec look(#state{}) -> #state{}.
look(#state{asker = none, ticks = Ticks, sent = Sent} = State) ->
    IsLate = Ticks rem ?REPEAT_TICKS =:= 0,
    case todana_members:leader() =:= node() andalso
        (IsLate orelse not have_all(Sent)) of
        true ->
            {Pid, _} = spawn_monitor(?MODULE, ask_and_exit, []),
            State#state{asker = Pid};
        false ->
            State
    end;
look(State) ->
    State.

-spec have_all(none | copies()) -> boolean().
have_all(none) ->
    false;
have_all({Members, _Voters}) ->
    #{committed := Committed} = todana_members:facts(),
    lists:all(fun(Last) -> Last >= Committed end, maps:values(Members)).

-spec ask_and_exit() -> no_return().
ask_and_exit() ->
    case todana_members:list([node()], ?ASK_TIMEOUT_MS) of
        {ok, Leader, Members} when Leader =:= node() ->
            Known = #{
                Node => Index
             || #{node := Node, match_index := Index} <- Members
            },
            Voters = length([
                R || #{role := R} <- Members, R =:= leader orelse R =:= voter
            ]),
            Own = Known#{node() => todana_members:written()},
            exit({led, {Own, max(1, Voters)}});
        _ ->
            exit(not_led)
    end.

-spec send(copies(), #state{}) -> #state{}.
send({Members, _} = Copies, #state{ticks = Ticks, sent = Sent} = State) ->
    IsLate = Ticks rem ?REPEAT_TICKS =< 1,
    _ = [
        gen_server:cast({?MODULE, Node}, {copies, Copies})
     || Copies =/= Sent orelse IsLate,
        Node <- maps:keys(Members), lists:member(Node, [node() | nodes()])
    ],
    State#state{sent = Copies}.

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
