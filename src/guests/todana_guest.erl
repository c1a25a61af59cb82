%% The link of a guest to its seat: the member that runs what the clients of
%% this node ask for.
%%
%%     event loops -> queue (native) -> this process -> `todana_seat', a member
%%     event loops <- answers          <- this process <-
%%
%% One member at a time is the seat. If it ends, refuses, or says nothing for
%% two seconds, the next one is asked. Reads that were on their way are sent
%% again; the outcome of writes is unknown. Others wait for two seconds; then
%% nothing is read or written until a member answers.
%%
%% Members are asked by a process of its own, since one that does not answer
%% must not keep this one from its clients.
-module(todana_guest).
-moduledoc false.
-behaviour(gen_server).

-export([open/1, start_link/0, seat/0, members/0, info/0, state/0, is_guest/0]).
-export([leave/0, await_seat/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
%% A process
-export([ask_and_exit/3, connect_and_exit/1]).

-export_type([welcome/0, facts/0, log/0]).

%% What a member says to a guest that comes.
-type welcome() :: #{
    seat := pid(),
    facts := facts(),
    members := [node()],
    log := log()
}.
%% Another one after `cluster force' and a restored backup.
-type log() :: atom() | binary() | none.
-type facts() ::
    {Gate :: atom(), todana_nif:seat_facts(), Reason :: binary()}.

-record(state, {
    %% In the order in which they are asked.
    members :: [node()],
    seat = none :: none | {pid(), reference()},
    %% Since when the seat has had no leader.
    leaderless_ms = none :: none | integer(),
    %% That of the last seat.
    log = none :: log(),
    %% The process that asks a member, and that member.
    asking = none :: none | {pid(), reference(), node()},
    %% The process that connects to the other members.
    connecting = none :: none | reference(),
    %% When the seat has spoken, or when it was lost.
    since_ms :: integer(),
    %% Whether the clients know that there is none.
    is_shut = false :: boolean(),
    %% Whether the members know that this node wants no heartbeats.
    rests = false :: boolean(),
    %% Why members are no seat, as far as they have been asked.
    why = #{} :: #{node() => unicode:chardata()}
}).

-define(SILENT_MS, 2_000).
%% A seat that reaches no leader for this time is none, if another member does.
-define(LEADERLESS_MS, 3_000).
-define(BEAT_MS, 1_000).
-define(RETRY_MS, 250).
-define(ASK_TIMEOUT_MS, 2_000).
-define(START_MS, 5_000).
-define(START_POLL_MS, 5).
-define(SEAT, {?MODULE, seat}).
-define(MEMBERS, {?MODULE, members}).

-doc "This node is a guest of these members from now on.".
-spec open([node()]) -> ok.
open(Members) ->
    ok = persistent_term:put(?SEAT, none),
    ok = persistent_term:put(?MEMBERS, lists:sort(Members)),
    todana_nif:guest_open().

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc """
Returns when there is a seat, or after some seconds: the node starts anyway.
""".
-spec await_seat() -> ok.
await_seat() ->
    await_seat(now_ms() + ?START_MS).

-spec await_seat(integer()) -> ok.
await_seat(DeadlineMs) ->
    case seat() =/= none orelse now_ms() > DeadlineMs of
        true ->
            ok;
        false ->
            receive after ?START_POLL_MS -> ok end,
            await_seat(DeadlineMs)
    end.

-doc "Whether this node is a guest.".
-spec is_guest() -> boolean().
is_guest() -> persistent_term:get(?SEAT, no) =/= no.

-doc "The member that is the seat now; `none` also if this node is no guest.".
-spec seat() -> node() | none.
seat() -> persistent_term:get(?SEAT, none).

-doc "The members of the cluster of which this node is a guest.".
-spec members() -> [node()].
members() -> persistent_term:get(?MEMBERS, []).

-doc "What `status` says about this guest.".
-spec info() -> #{atom() => term()}.
info() ->
    {Gate, QueueBytes, Sent} = todana_nif:guest_info(),
    #{
        seat => seat(), members => members(), gate => Gate,
        queue_bytes => QueueBytes, in_flight => Sent
    }.

-doc "The state of the log, or on a guest, whether it has a seat.".
-spec state() -> map().
state() ->
    case persistent_term:get(?SEAT, no) of
        no ->
            todana_status:info();
        none ->
            #{state => recovering, durability => none, seat => none,
              reason => "no member of the cluster serves this guest"};
        Seat ->
            #{state => serving, durability => none, seat => Seat}
    end.

-doc "This node is a guest no more, when the application has stopped.".
-spec leave() -> ok.
leave() ->
    _ = persistent_term:erase(?SEAT),
    _ = persistent_term:erase(?MEMBERS),
    todana_nif:guest_close().

-spec init([]) -> {ok, #state{}}.
init([]) ->
    process_flag(trap_exit, true),
    %% A member that hangs, so that the connection to it is full, must not
    %% suspend this process. The parcels on their way have a limit.
    process_flag(async_dist, true),
    ok = persistent_term:put(?SEAT, none),
    ok = todana_nif:guest_attach(self()),
    ok = later(beat, ?BEAT_MS),
    {ok, ask(rest(#state{
        members = shuffled(members()), since_ms = now_ms()
    }))}.

%% So that the guests of a cluster have different seats.
-spec shuffled([node()]) -> [node()].
shuffled(Members) ->
    Drawn = [{erlang:phash2({M, node()}), M} || M <- Members],
    [M || {_, M} <- lists:sort(Drawn)].

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, {error, unknown_call}, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(todana_ready, State) ->
    ok = send(State),
    {noreply, State};
handle_info(
    {todana_answers, Pid, Answers, Index, Full}, #state{seat = {Pid, _}} = State
) ->
    ok = answer(Answers, Index, Full),
    {noreply, State#state{since_ms = now_ms()}};
handle_info(
    {todana_changes, Pid, Changes}, #state{seat = {Pid, _}} = State
) ->
    ok = changed(Changes),
    {noreply, State#state{since_ms = now_ms()}};
handle_info(
    {todana_seat, Pid, Facts, Members}, #state{seat = {Pid, _}} = State
) ->
    {noreply, spoken(Facts, Members, State)};
handle_info(
    {'DOWN', Monitor, process, _, _}, #state{seat = {_, Monitor}} = State
) ->
    {noreply, lost("it has ended", State)};
handle_info(
    {'DOWN', Monitor, process, _, Answer},
    #state{asking = {_, Monitor, Member}} = State
) ->
    {noreply, asked(Member, Answer, State#state{asking = none})};
handle_info(beat, State) ->
    ok = later(beat, ?BEAT_MS),
    {noreply, connect(beat(rest(State)))};
handle_info(
    {'DOWN', Monitor, process, _, _}, #state{connecting = Monitor} = State
) ->
    {noreply, State#state{connecting = none}};
handle_info(ask, State) ->
    {noreply, ask(State)};
%% A member asks whether this node wants any.
handle_info({heartbeats, Pid}, #state{rests = Rests} = State) ->
    _ = Rests andalso erlang:send(Pid, {rests, self()}, [noconnect]),
    {noreply, State};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{}) ->
    ok = persistent_term:put(?SEAT, none).

%% Everything that waits.
-spec send(#state{}) -> ok.
send(#state{seat = none}) ->
    ok;
send(#state{seat = {Pid, _}} = State) ->
    case todana_nif:guest_take() of
        {ok, Parcel} ->
            Pid ! {todana_parcel, Parcel},
            send(State);
        empty ->
            ok
    end.

-spec answer(binary(), non_neg_integer(), non_neg_integer()) -> ok.
answer(Answers, Index, Full) ->
    case todana_nif:guest_answer(Answers, Index, Full) of
        ok -> ok;
        dirty -> todana_nif:guest_answer_dirty(Answers, Index, Full)
    end.

-spec changed(binary()) -> ok.
changed(Changes) ->
    case todana_nif:guest_changed(Changes) of
        ok -> ok;
        dirty -> todana_nif:guest_changed_dirty(Changes)
    end.

%% Without aten nobody reads heartbeats (todana_heartbeats). Somebody else may
%% start it in this node, whose Ra may be on members, too.
-spec rest(#state{}) -> #state{}.
rest(#state{rests = Rested} = State) ->
    Rests = whereis(aten_sink) =:= undefined,
    Word = case Rests of true -> rests; false -> beats end,
    _ = [
        erlang:send({todana_heartbeats, Node}, {Word, self()}, [noconnect])
     || Rests =/= Rested, Node <- nodes()
    ],
    State#state{rests = Rests}.

-spec beat(#state{}) -> #state{}.
beat(#state{seat = {Pid, _}, since_ms = SinceMs} = State) ->
    case now_ms() - SinceMs > ?SILENT_MS of
        true ->
            lost("it has said nothing for two seconds", State);
        false ->
            Pid ! {ping, self()},
            State
    end;
beat(#state{seat = none, is_shut = false, since_ms = SinceMs} = State) ->
    case now_ms() - SinceMs > ?SILENT_MS of
        true -> shut(State);
        false -> State
    end;
beat(State) ->
    State.

%% All members hear the heartbeats of the sessions of this node.
-spec connect(#state{}) -> #state{}.
connect(#state{connecting = none, members = Members} = State) ->
    case Members -- nodes() of
        [] ->
            State;
        Missing ->
            {_, Monitor} = spawn_monitor(?MODULE, connect_and_exit, [Missing]),
            State#state{connecting = Monitor}
    end;
connect(State) ->
    State.

-doc false.
-spec connect_and_exit([node()]) -> ok.
connect_and_exit(Members) ->
    lists:foreach(fun(M) -> _ = net_kernel:connect_node(M), ok end, Members).

%% The clients get errors from now on.
-spec shut(#state{}) -> #state{}.
shut(State) ->
    Reasons = reasons(State),
    logger:warning(
        "todana: this guest reaches no member that serves: ~ts", [Reasons]
    ),
    ok = todana_nif:guest_shut(text(["no member of the cluster serves this "
                                     "guest: ", Reasons])),
    State#state{is_shut = true}.

-spec reasons(#state{}) -> unicode:chardata().
reasons(#state{members = Members, why = Why}) ->
    lists:join("; ", [
        [atom_to_list(Member), ": ", maps:get(Member, Why, "not asked yet")]
     || Member <- lists:sort(Members)
    ]).

-spec is_no_seat(node(), unicode:chardata(), #state{}) -> #state{}.
is_no_seat(Member, Reason, #state{why = Why} = State) ->
    next(State#state{why = Why#{Member => Reason}}).

-spec lost(unicode:chardata(), #state{}) -> #state{}.
lost(Why, #state{seat = {Pid, Monitor}} = State) ->
    true = demonitor(Monitor, [flush]),
    logger:notice("todana: ~s is the seat of this guest no more: ~ts", [
        node(Pid), Why
    ]),
    _ = erlang:send(Pid, {leave, self()}, [noconnect]),
    ok = persistent_term:put(?SEAT, none),
    ok = todana_nif:guest_lose_seat(),
    ok = follow(whereis(todana_interest), none),
    ask(is_no_seat(node(Pid), Why, State#state{
        seat = none, leaderless_ms = none, since_ms = now_ms()
    })).

%% The one that was asked or lost is the last one from now on.
-spec next(#state{}) -> #state{}.
next(#state{members = [First | Others]} = State) ->
    State#state{members = Others ++ [First]};
next(State) ->
    State.

-spec ask(#state{}) -> #state{}.
ask(#state{seat = none, asking = none, members = [Member | _]} = State) ->
    Seen = {State#state.log, todana_nif:guest_index()},
    {Pid, Monitor} = spawn_monitor(
        ?MODULE, ask_and_exit, [Member, self(), Seen]
    ),
    State#state{asking = {Pid, Monitor, Member}};
ask(State) ->
    State.

-doc false.
-spec ask_and_exit(node(), pid(), {log(), non_neg_integer()}) -> no_return().
ask_and_exit(Member, Link, Seen) ->
    Question = [node(), Link, todana_nif:guest_wire(), Seen],
    exit(
        try
            erpc:call(Member, todana_seat, visit, Question, ?ASK_TIMEOUT_MS)
        catch
            error:{exception, undef, _} ->
                {error, "its version of Todana has no guests"};
            _:_ ->
                {error, "it does not answer"}
        end
    ).

-spec asked(node(), term(), #state{}) -> #state{}.
asked(_Member, {ok, Welcome}, #state{log = Before} = State) ->
    #{seat := Pid, facts := Facts, members := M, log := Log} = Welcome,
    Monitor = monitor(process, Pid),
    _ = Log =/= Before andalso todana_nif:guest_forget_index(),
    logger:notice("todana: ~s is the seat of this guest", [node(Pid)]),
    ok = persistent_term:put(?SEAT, node(Pid)),
    %% Subscriptions follow.
    ok = follow(whereis(todana_away_events), node(Pid)),
    ok = follow(whereis(todana_interest), node(Pid)),
    spoken(Facts, M, State#state{
        seat = {Pid, Monitor}, log = Log
    });
asked(Member, {_Error, Sentence}, State) ->
    ok = later(ask, ?RETRY_MS),
    is_no_seat(Member, Sentence, State);
asked(Member, _Exit, State) ->
    asked(Member, {error, "it does not answer"}, State).

-spec follow(pid() | undefined, node() | none) -> ok.
follow(undefined, _Seat) ->
    ok;
follow(Process, Seat) ->
    Process ! {seat, Seat},
    ok.

%% The seat says what it is. A seat that serves nothing is none.
-spec spoken(facts(), [node()], #state{}) -> #state{}.
spoken({closed, _, Reason}, _Members, State) ->
    lost(Reason, State);
spoken({no_leader, _, Reason}, _Members, #state{leaderless_ms = SinceMs} = S)
    when is_integer(SinceMs)
->
    case now_ms() - SinceMs > ?LEADERLESS_MS of
        true -> lost(Reason, S);
        false -> S#state{since_ms = now_ms()}
    end;
spoken({Gate, Facts, Reason}, Members, Before) ->
    ok = todana_nif:guest_seat(Gate, Facts, Reason),
    State = Before#state{leaderless_ms = case Gate of
        no_leader -> now_ms();
        _ -> none
    end},
    New = noted(Members, State#state{since_ms = now_ms(), is_shut = false}),
    ok = send(New),
    New.

%% The members of the cluster change.
-spec noted([node()], #state{}) -> #state{}.
noted(Members, #state{members = Known} = State) ->
    case lists:sort(Members) =:= lists:sort(Known) of
        true ->
            State;
        false ->
            ok = persistent_term:put(?MEMBERS, lists:sort(Members)),
            Kept = [M || M <- Known, lists:member(M, Members)],
            State#state{
                members = Kept ++ shuffled(Members -- Kept),
                why = maps:with(Members, State#state.why)
            }
    end.

-spec later(beat | ask, pos_integer()) -> ok.
later(Message, Ms) ->
    _ = erlang:send_after(Ms, self(), Message),
    ok.

-spec text(unicode:chardata()) -> binary().
text(Chars) -> unicode:characters_to_binary(Chars).

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
