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
%% and one that has just been connected. So a seat wants everything for a guest
%% that has announced nothing.
%%
%% SUBSCRIBE is answered when all nodes that announcements go to know the new
%% item, or have not answered for some time. A node counts as one that knows
%% nothing from the moment when it is connected, and when its process has ended:
%% it may have something that an earlier process has announced. The process of
%% another node is the judge: each hello is answered with all that is wanted,
%% and only what a node has answered counts as known. A seat answers its guest
%% when its own announcement is known.
%%
%% Members and guests have the process, of one name. What an announcement says
%% is forgotten when the process that sent it ends, or the connection to it.
%% Nothing here may wait for another process or node: clients wait for this one.
-module(todana_interest).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
%% A process
-export([ask_and_exit/0]).

%% Announcements that follow each other at once are gathered for this time.
-define(GATHER_MS, 2).
%% A node that does not answer for this time keeps no client waiting, and gets
%% no announcements until it does.
-define(LATE_MS, 1_000).
%% What a node knows that may know nothing; before the first number.
-define(NOTHING, -1).

-type kind() :: member | guest | seat.
-type announcement() :: todana_nif:announcement().
-type known() :: ?NOTHING | non_neg_integer().

-record(peer, {
    node :: node(),
    kind :: kind(),
    monitor :: reference(),
    %% The numbers of the announcements that it has been sent, and that it
    %% knows. Of a guest: what it has announced.
    sent = ?NOTHING :: known(),
    known = ?NOTHING :: known(),
    %% When the first of those was sent that it does not know.
    sent_ms :: integer(),
    is_late = false :: boolean()
}).

-record(state, {
    peers = #{} :: #{pid() => #peer{}},
    %% Nodes that are to know what this one wants and have not spoken: since
    %% when, and the monitor of their processes. One that has no process, or is
    %% late, keeps nobody waiting.
    awaited = #{} :: #{node() => {integer() | late, reference()}},
    %% The members, as they were known last.
    members = unknown :: [node()] | unknown,
    %% The process that asks for them.
    asking = none :: none | reference(),
    %% Guests for which this node wants everything.
    expected = [] :: [node()],
    %% When an announcement was taken last, and whether there is a timer for the
    %% next one.
    taken_ms :: integer(),
    is_timed = false :: boolean(),
    number :: non_neg_integer(),
    %% That of the last announcement that all others know; `infinity' without
    %% others.
    known = ?NOTHING :: known() | infinity,
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
    Number = todana_nif:interest_attach(self()),
    ok = net_kernel:monitor_nodes(true),
    State = expect(#state{number = Number, taken_ms = now_ms() - ?GATHER_MS}),
    %% Of the process before.
    _ = [
        erlang:send({?MODULE, Guest}, {hello, seat, self()}, [noconnect])
     || Guest <- State#state.expected
    ],
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
    {noreply, greeted(Kind, Pid, State)};
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
    {noreply, count(left(Pid, State))};
handle_info({'DOWN', Monitor, process, _, Reason}, State) ->
    {noreply, ended(Monitor, Reason, State)};
handle_info({nodeup, _Node}, State) ->
    {noreply, greet(State)};
%% A guest has its seat here (todana_seat).
handle_info(guest, State) ->
    {noreply, expect(State)};
%% This guest has another seat, or the same one again, which may have nothing of
%% what this node has announced.
handle_info({seat, _Seat}, #state{peers = Peers} = State) ->
    Left = lists:foldl(fun leave/2, State, maps:keys(Peers)),
    {noreply, greet(Left#state{known = noted(?NOTHING)})};
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    {noreply, take(late(greet(expect(State))))};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    todana_nif:interest_detach().

%% ------------------------------------------------------------- the others ---

%% Nodes that are to know what this one wants, and do not know it.
-spec greet(#state{}) -> #state{}.
greet(State) ->
    {Kind, Wanted, Looked} = case todana_guest:is_guest() of
        true ->
            {guest, [S || S <- [todana_guest:seat()], S =/= none], State};
        false ->
            #state{members = Members} = S = members(State),
            {member, connected(Members), S}
    end,
    #state{peers = Peers, awaited = Awaited} = Now = lists:foldl(
        fun leave/2,
        Looked,
        [
            Pid
         || Pid := #peer{node = Node, kind = seat} <- Looked#state.peers,
            not lists:member(Node, Wanted)
        ]
    ),
    Met = [Node || _ := #peer{node = Node, kind = K} <- Peers, K =/= guest],
    Unknown = Wanted -- Met,
    _ = [
        erlang:send({?MODULE, Node}, {hello, Kind, self()}, [noconnect])
     || Node <- Unknown
    ],
    ok = forget_monitors(maps:without(Unknown, Awaited)),
    count(Now#state{awaited = #{
        Node => case Awaited of
            #{Node := Since} -> Since;
            #{} -> {now_ms(), monitor(process, {?MODULE, Node})}
        end
     || Node <- Unknown
    }}).

-spec connected([node()] | unknown) -> [node()].
connected(unknown) -> [];
connected(Members) -> [N || N <- Members, lists:member(N, nodes())].

-spec forget_monitors(#{node() => {integer() | late, reference()}}) -> ok.
forget_monitors(Awaited) ->
    _ = [demonitor(Monitor, [flush]) || _ := {_, Monitor} <- Awaited],
    ok.

%% Ra knows them while there is a leader. Else its server is asked, which may be
%% busy.
-spec members(#state{}) -> #state{}.
members(#state{asking = Asking} = State) ->
    case todana_members:led(todana_raft_groups:first()) of
        {ok, Nodes} ->
            State#state{members = Nodes};
        unknown when Asking =:= none ->
            {_, Monitor} = spawn_monitor(?MODULE, ask_and_exit, []),
            State#state{asking = Monitor};
        unknown ->
            State
    end.

-doc false.
-spec ask_and_exit() -> no_return().
ask_and_exit() ->
    exit({members, todana_members:listed(todana_raft_groups:first())}).

%% A process has ended, or the connection to it.
-spec ended(reference(), term(), #state{}) -> #state{}.
ended(Monitor, {members, {ok, Nodes}}, #state{asking = Monitor} = State) ->
    greet(State#state{members = Nodes, asking = none});
ended(Monitor, _Reason, #state{asking = Monitor} = State) ->
    State#state{asking = none};
ended(Monitor, Reason, #state{peers = Peers, awaited = Awaited} = State) ->
    case [Pid || Pid := #peer{monitor = M} <- Peers, M =:= Monitor] of
        [Pid] ->
            lost(Pid, Reason, State);
        [] ->
            Late = #{
                Node => {late, Monitor}
             || Node := {_, M} <- Awaited, M =:= Monitor, Reason =:= noproc
            },
            greet(State#state{awaited = maps:merge(Awaited, Late)})
    end.

%% If the process was killed, its node has what was announced until there is
%% another one, which says hello.
-spec lost(pid(), term(), #state{}) -> #state{}.
lost(Pid, killed, #state{peers = Peers, awaited = Awaited} = State) ->
    #{Pid := #peer{node = Node, kind = Kind}} = Peers,
    Known = case Kind of
        guest -> Awaited;
        _ -> Awaited#{Node => {now_ms(), make_ref()}}
    end,
    greet(left(Pid, State#state{awaited = Known}));
lost(Pid, _Reason, State) ->
    greet(left(Pid, State)).

%% A node that has nothing of this one says so: it has just come, or has seen
%% that the connection was lost, of which this one may learn later.
-spec greeted(kind(), pid(), #state{}) -> #state{}.
greeted(Kind, Pid, #state{peers = Before} = State) ->
    #state{peers = Peers} = New = met(Kind, Pid, State),
    #{Pid := #peer{kind = Is, monitor = Monitor} = Peer} = Peers,
    _ = Is =:= guest andalso
        %% So that it announces something.
        erlang:send(Pid, {hello, seat, self()}, [noconnect]),
    case Before of
        #{Pid := _} ->
            %% The end of the former connection concerns nobody any more.
            true = demonitor(Monitor, [flush]),
            Again = Peer#peer{
                monitor = monitor(process, Pid), is_late = false
            },
            count(New#state{peers = Peers#{Pid := case Is of
                guest -> Again;
                _ -> send_full(Pid, Again)
            end}});
        #{} ->
            New
    end.

%% A node says what it is. A member gets what this one has to announce, and so
%% does the seat of this guest.
-spec met(kind(), pid(), #state{}) -> #state{}.
met(_Kind, Pid, #state{peers = Peers} = State) when is_map_key(Pid, Peers) ->
    State;
met(Said, Pid, #state{peers = Peers, awaited = Awaited} = State) ->
    Kind = case {todana_guest:is_guest(), Said} of
        {true, _} -> seat;
        {false, guest} -> guest;
        {false, _} -> member
    end,
    Node = node(Pid),
    Peer = #peer{
        node = Node, kind = Kind, monitor = monitor(process, Pid),
        sent_ms = now_ms()
    },
    New = case Kind of
        guest -> Peer;
        _ -> send_full(Pid, Peer)
    end,
    ok = forget_monitors(maps:with([Node], Awaited)),
    count(State#state{
        peers = Peers#{Pid => New}, awaited = maps:remove(Node, Awaited)
    }).

%% A former seat.
-spec leave(pid(), #state{}) -> #state{}.
leave(Pid, State) ->
    _ = erlang:send(Pid, {leave, self()}, [noconnect]),
    left(Pid, State).

%% The caller counts what the rest knows, when it is clear who that is.
-spec left(pid(), #state{}) -> #state{}.
left(Pid, #state{peers = Peers} = State) ->
    case maps:take(Pid, Peers) of
        {#peer{node = Node, monitor = Monitor}, Others} ->
            true = demonitor(Monitor, [flush]),
            New = State#state{peers = Others},
            case [P || P := #peer{node = N} <- Others, N =:= Node] of
                [] -> silent(Node, New);
                _ -> New
            end;
        error ->
            State
    end.

%% Nobody says any more what a node wants.
-spec silent(node(), #state{}) -> #state{}.
silent(Node, #state{expected = Expected} = State) ->
    case lists:member(Node, guests()) of
        true ->
            ok = todana_nif:interest_expect(Node),
            State#state{expected = lists:usort([Node | Expected])};
        false ->
            ok = todana_nif:interest_forget(Node),
            State#state{expected = lists:delete(Node, Expected)}
    end.

-spec guests() -> [node()].
guests() ->
    case todana_guest:is_guest() of
        true -> [];
        false -> todana_seats:guests()
    end.

%% This node wants everything for the guests that have announced nothing.
-spec expect(#state{}) -> #state{}.
expect(#state{peers = Peers, expected = Expected} = State) ->
    Guests = guests(),
    Said = [
        Node
     || _ := #peer{node = Node, kind = guest, known = Number} <- Peers,
        Number =/= ?NOTHING
    ],
    New = (Guests -- Expected) -- Said,
    Gone = Expected -- Guests,
    ok = lists:foreach(fun todana_nif:interest_expect/1, New),
    ok = lists:foreach(fun todana_nif:interest_forget/1, Gone),
    State#state{expected = lists:usort(New ++ (Expected -- Gone))}.

%% A node has announced something.
-spec announced(announcement(), pid(), #state{}) -> #state{}.
announced({Number, _, _} = Announcement, Pid, #state{peers = Peers} = State) ->
    #{Pid := #peer{kind = Kind, node = Node}} = Peers,
    case todana_nif:interest_note(Node, Kind =:= guest, Announcement) of
        true when Kind =:= guest ->
            Gathered = [{Pid, Number} | State#state.gathered],
            soon(said(Pid, Number, State#state{gathered = Gathered}));
        true ->
            ok = answer(Pid, Number),
            State;
        false ->
            _ = erlang:send(Pid, {again, self()}, [noconnect]),
            said(Pid, ?NOTHING, State)
    end.

%% This node wants what a guest has announced, or everything.
-spec said(pid(), known(), #state{}) -> #state{}.
said(Pid, Number, #state{peers = Peers, expected = Expected} = State) ->
    case Peers of
        #{Pid := #peer{kind = guest, node = Node} = Peer} ->
            State#state{
                peers = Peers#{Pid := Peer#peer{known = Number}},
                expected = case Number of
                    ?NOTHING -> lists:usort([Node | Expected]);
                    _ -> lists:delete(Node, Expected)
                end
            };
        #{} ->
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
        #{Pid := #peer{known = Before} = Peer} ->
            Known = Peer#peer{known = max(Before, Number), sent_ms = now_ms()},
            count(State#state{peers = Peers#{Pid := Known}});
        #{} ->
            State
    end.

%% A seat answers when the members behind it have, of which one may hang. A
%% guest gives up a seat that hangs itself.
-spec late(#state{}) -> #state{}.
late(#state{peers = Peers, awaited = Awaited} = State) ->
    DueMs = now_ms() - ?LATE_MS,
    Looked = #{
        Pid => Peer#peer{is_late = is_late(Peer, DueMs)}
     || Pid := Peer <- Peers
    },
    Waits = #{
        Node => case SinceMs < DueMs of
            true -> {late, Monitor};
            false -> {SinceMs, Monitor}
        end
     || Node := {SinceMs, Monitor} <- Awaited
    },
    count(State#state{peers = Looked, awaited = Waits}).

-spec is_late(#peer{}, integer()) -> boolean().
is_late(#peer{kind = seat}, _DueMs) ->
    false;
is_late(#peer{is_late = true}, _DueMs) ->
    true;
is_late(#peer{sent = Sent, known = Known, sent_ms = Ms}, DueMs) ->
    Sent > Known andalso Ms < DueMs.

%% What all others know.
-spec count(#state{}) -> #state{}.
count(#state{waiting = Waiting, known = Before} = State) ->
    Now = case common(State) of
        Before -> Before;
        Known -> noted(Known)
    end,
    {Done, Left} = lists:partition(
        fun({Number, _, _}) -> Number =< Now end, Waiting
    ),
    _ = [answer(Pid, Theirs) || {_, Pid, Theirs} <- lists:reverse(Done)],
    State#state{known = Now, waiting = Left}.

-spec common(#state{}) -> known() | infinity.
common(#state{peers = Peers, awaited = Awaited, members = Members}) ->
    Known = [
        N
     || _ := #peer{known = N, kind = Kind, is_late = false} <- Peers,
        Kind =/= guest
    ],
    Awaits = lists:any(fun({Since, _}) -> Since =/= late end,
                       maps:values(Awaited)),
    IsLost = case todana_guest:is_guest() of
        true -> todana_guest:seat() =:= none;
        false -> Members =:= unknown
    end,
    case Awaits orelse IsLost of
        true -> ?NOTHING;
        false -> lists:min([infinity | Known])
    end.

-spec noted(known() | infinity) -> known() | infinity.
noted(Known) ->
    ok = todana_nif:interest_known(case Known of
        ?NOTHING -> none;
        _ -> Known
    end),
    Known.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
