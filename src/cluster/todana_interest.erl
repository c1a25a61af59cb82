%% Which messages to channels the nodes of the cluster want, so that each gets
%% only those (todana_spread).
%%
%% A member announces to the other members what its clients and those of its
%% guests subscribe to, and a guest announces it to its seat. Native code has
%% the items and compares them (native/server/src/interest.rs); this process
%% carries the announcements:
%%
%%     {hello, Kind, Pid}            a member or guest that knows this one not
%%     {announced, Kind, Pid, {Number, IsFull, Items}}
%%     {known, Pid, Number}          the answer: it is observed from now on
%%     {again, Pid}                  one before it is missing
%%     {leave, Pid}                  a guest has another seat
%%
%% A node that has announced nothing gets everything: one of an earlier version,
%% and one that has just been connected. SUBSCRIBE is answered when all nodes
%% that have announcements of this one know the new item, or have not answered
%% for some time. A seat answers its guest when its own announcement is known.
%%
%% Members and guests have the process, of one name. What an announcement says
%% is forgotten when the process that sent it ends, or the connection to it.
-module(todana_interest).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% Announcements that follow each other at once are gathered for this time.
-define(GATHER_MS, 2).
%% A node that does not answer for this time keeps no client waiting, and gets
%% no announcements until it does.
-define(LATE_MS, 1_000).

-type kind() :: member | guest | seat.
-type announcement() :: todana_nif:announcement().

-record(peer, {
    node :: node(),
    kind :: kind(),
    %% The numbers of the announcements that it has been sent, and that it
    %% knows.
    sent :: non_neg_integer(),
    known :: non_neg_integer(),
    %% When the first of those was sent that it does not know.
    sent_ms :: integer(),
    is_late = false :: boolean()
}).

-record(state, {
    peers = #{} :: #{pid() => #peer{}},
    %% When an announcement was taken last, and whether there is a timer for the
    %% next one.
    taken_ms :: integer(),
    is_timed = false :: boolean(),
    number = 0 :: non_neg_integer(),
    %% That of the last announcement that all others know; `infinity' without
    %% others.
    known = infinity :: non_neg_integer() | infinity,
    %% Announcements of guests that are no part of one of this node yet.
    gathered = [] :: [{pid(), non_neg_integer()}],
    %% The same, with the number of the announcement of this node.
    waiting = [] :: [{non_neg_integer(), pid(), non_neg_integer()}]
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    %% An announcement to a node that hangs must not suspend this process, which
    %% sends nothing more to it after a second.
    process_flag(async_dist, true),
    ok = todana_nif:interest_attach(self()),
    ok = net_kernel:monitor_nodes(true),
    State = #state{taken_ms = now_ms() - ?GATHER_MS},
    {ok, greet(State)}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, {error, unknown_call}, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
%% From native code: there is something to announce.
handle_info(todana_interest, State) ->
    {noreply, soon(State)};
handle_info(take, State) ->
    {noreply, take(State#state{is_timed = false})};
handle_info({hello, Kind, Pid}, State) ->
    {noreply, met(Kind, Pid, State)};
handle_info({announced, Kind, Pid, Announcement}, State) ->
    {noreply, announced(Announcement, Pid, met(Kind, Pid, State))};
handle_info({known, Pid, Number}, State) ->
    {noreply, known(Pid, Number, State)};
%% An announcement did not reach a node.
handle_info({again, Pid}, #state{peers = Peers} = State) ->
    Full = #{
        P => send_full(P, Peer) || P := Peer <- Peers, P =:= Pid
    },
    {noreply, State#state{peers = maps:merge(Peers, Full)}};
handle_info({leave, Pid}, State) ->
    {noreply, left(Pid, State)};
handle_info({'DOWN', _, process, Pid, _}, State) ->
    {noreply, left(Pid, State)};
handle_info({nodeup, _Node}, State) ->
    {noreply, greet(State)};
%% This guest has another seat.
handle_info({seat, _Seat}, State) ->
    {noreply, greet(State)};
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    {noreply, take(late(greet(State)))};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    todana_nif:interest_detach().

%% ------------------------------------------------------------- the others ---

%% Nodes that are to know what this one wants, and do not know it.
-spec greet(#state{}) -> #state{}.
greet(#state{peers = Peers} = State) ->
    {Kind, Wanted} = case todana_guest:is_guest() of
        true -> {guest, [S || S <- [todana_guest:seat()], S =/= none]};
        false -> {member, todana_members:connected(todana_raft_groups:first())}
    end,
    Met = [{Node, Pid} || Pid := #peer{node = Node, kind = K} <- Peers,
           K =/= guest],
    Options = [noconnect],
    _ = [
        erlang:send({?MODULE, Node}, {hello, Kind, self()}, Options)
     || Node <- Wanted, not lists:keymember(Node, 1, Met), Node =/= node()
    ],
    %% A former seat.
    lists:foldl(
        fun(Pid, S) ->
            _ = erlang:send(Pid, {leave, self()}, Options),
            left(Pid, S)
        end,
        State,
        [Pid || {Node, Pid} <- Met, Kind =:= guest,
         not lists:member(Node, Wanted)]
    ).

%% A node says what it is. A member gets what this one has to announce, and so
%% does the seat of this guest.
-spec met(kind(), pid(), #state{}) -> #state{}.
met(_Kind, Pid, #state{peers = Peers} = State) when is_map_key(Pid, Peers) ->
    State;
met(Said, Pid, #state{peers = Peers} = State) ->
    _ = monitor(process, Pid),
    Kind = case todana_guest:is_guest() of true -> seat; false -> Said end,
    Peer = #peer{
        node = node(Pid), kind = Kind, sent = 0, known = 0, sent_ms = now_ms()
    },
    New = case Kind of
        guest ->
            %% So that it announces something.
            _ = erlang:send(Pid, {hello, seat, self()}, [noconnect]),
            Peer;
        _ ->
            %% Until it knows this, it sends everything.
            #peer{sent = Sent} = Begun = send_full(Pid, Peer),
            Begun#peer{known = Sent}
    end,
    count(State#state{peers = Peers#{Pid => New}}).

-spec left(pid(), #state{}) -> #state{}.
left(Pid, #state{peers = Peers} = State) ->
    case maps:take(Pid, Peers) of
        {#peer{node = Node}, Others} ->
            Again = [P || P := #peer{node = N} <- Others, N =:= Node],
            _ = Again =:= [] andalso todana_nif:interest_forget(Node),
            count(State#state{peers = Others});
        error ->
            State
    end.

%% A node has announced something.
-spec announced(announcement(), pid(), #state{}) -> #state{}.
announced({Number, _, _} = Announcement, Pid, #state{peers = Peers} = State) ->
    #{Pid := #peer{kind = Kind, node = Node}} = Peers,
    case todana_nif:interest_note(Node, Kind =:= guest, Announcement) of
        true when Kind =:= guest ->
            Gathered = [{Pid, Number} | State#state.gathered],
            soon(State#state{gathered = Gathered});
        true ->
            ok = answer(Pid, Number),
            State;
        false ->
            _ = erlang:send(Pid, {again, self()}, [noconnect]),
            State
    end.

-spec answer(pid(), non_neg_integer()) -> ok.
answer(Pid, Number) ->
    _ = erlang:send(Pid, {known, self(), Number}, [noconnect]),
    ok.

%% ------------------------------------------------------ the announcements ---

%% Takes what there is to announce, not too often.
-spec soon(#state{}) -> #state{}.
soon(#state{is_timed = true} = State) ->
    State;
soon(#state{taken_ms = TakenMs} = State) ->
    case TakenMs + ?GATHER_MS - now_ms() of
        Ms when Ms > 0 ->
            _ = erlang:send_after(Ms, self(), take),
            State#state{is_timed = true};
        _ ->
            take(State)
    end.

-spec take(#state{}) -> #state{}.
take(#state{peers = Peers} = State) ->
    NowMs = now_ms(),
    case todana_nif:interest_take() of
        empty ->
            #state{gathered = Gathered, waiting = Waiting, number = Number} =
                State,
            Covered = [{Number, Pid, Theirs} || {Pid, Theirs} <- Gathered],
            count(State#state{
                gathered = [], waiting = Covered ++ Waiting, taken_ms = NowMs
            });
        {Number, _, _} = Announcement ->
            After = #{
                Pid => tell(Pid, Peer, Announcement, NowMs)
             || Pid := Peer <- Peers
            },
            take(State#state{number = Number, peers = After})
    end.

-spec tell(pid(), #peer{}, announcement(), integer()) -> #peer{}.
tell(_Pid, #peer{kind = guest} = Peer, _Announcement, _NowMs) ->
    Peer;
tell(_Pid, #peer{is_late = true} = Peer, _Announcement, _NowMs) ->
    Peer;
tell(Pid, Peer, {Number, _, _} = Announcement, NowMs) ->
    #peer{sent = Sent, known = Known, sent_ms = SentMs} = Peer,
    ok = send(Pid, Announcement),
    Peer#peer{
        sent = Number,
        sent_ms = case Sent =:= Known of true -> NowMs; false -> SentMs end
    }.

-spec send_full(pid(), #peer{}) -> #peer{}.
send_full(Pid, Peer) ->
    {Number, true, _} = Announcement = todana_nif:interest_full(),
    ok = send(Pid, Announcement),
    Peer#peer{sent = Number, sent_ms = now_ms()}.

-spec send(pid(), announcement()) -> ok.
send(Pid, Announcement) ->
    Kind = case todana_guest:is_guest() of true -> guest; false -> member end,
    Message = {announced, Kind, self(), Announcement},
    _ = erlang:send(Pid, Message, [noconnect]),
    ok.

%% A node has answered.
-spec known(pid(), non_neg_integer(), #state{}) -> #state{}.
known(Pid, Number, #state{peers = Peers} = State) ->
    case Peers of
        #{Pid := #peer{is_late = true} = Peer} ->
            %% It has missed some.
            Full = send_full(Pid, Peer#peer{is_late = false, known = Number}),
            count(State#state{peers = Peers#{Pid := Full}});
        #{Pid := #peer{} = Peer} ->
            Known = Peer#peer{known = Number, sent_ms = now_ms()},
            count(State#state{peers = Peers#{Pid := Known}});
        #{} ->
            State
    end.

%% A seat answers when the members behind it have, of which one may hang. A
%% guest gives up a seat that hangs itself.
-spec late(#state{}) -> #state{}.
late(#state{peers = Peers} = State) ->
    DueMs = now_ms() - ?LATE_MS,
    Looked = #{
        Pid => Peer#peer{is_late = is_late(Peer, DueMs)}
     || Pid := Peer <- Peers
    },
    count(State#state{peers = Looked}).

-spec is_late(#peer{}, integer()) -> boolean().
is_late(#peer{kind = seat}, _DueMs) ->
    false;
is_late(#peer{is_late = true}, _DueMs) ->
    true;
is_late(#peer{sent = Sent, known = Known, sent_ms = Ms}, DueMs) ->
    Sent > Known andalso Ms < DueMs.

%% What all others know.
-spec count(#state{}) -> #state{}.
count(#state{peers = Peers, waiting = Waiting, known = Before} = State) ->
    Known = lists:min([
        infinity
     | [
            N
         || _ := #peer{known = N, kind = Kind, is_late = false} <- Peers,
            Kind =/= guest
        ]
    ]),
    Now = case Known of Before -> Before; _ -> noted(Known) end,
    {Done, Left} = lists:partition(
        fun({Number, _, _}) -> Number =< Now end, Waiting
    ),
    _ = [answer(Pid, Theirs) || {_, Pid, Theirs} <- lists:reverse(Done)],
    State#state{known = Now, waiting = Left}.

-spec noted(non_neg_integer() | infinity) -> non_neg_integer() | infinity.
noted(Known) ->
    ok = todana_nif:interest_known(Known),
    Known.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
