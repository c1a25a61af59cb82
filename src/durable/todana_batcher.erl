%% Takes what clients have submitted to a group, a batch at a time, and gives it
%% to Ra.
%%
%% No batch waits for a timer. In an idle system each submission is a batch. In
%% a busy one, what comes while a batch is on its way waits for the next batch,
%% so batches become larger. Up to four are on their way if much waits, or if
%% those on their way are long scripts.
%%
%% Ra drops commands without a word in several states. So a batch that was not
%% applied within a second is sent again, as it is: the group applies each
%% sequence once. The pauses grow, because Ra may only be slow, and writes each
%% copy to the log.
%%
%% A member sends its batches to the batcher of the node that leads, which puts
%% those of several into one entry: todana_relay.
%%
%% The batches on their way are in a table that survives this process, and has
%% its name.
-module(todana_batcher).
-moduledoc false.
-behaviour(gen_server).

-export([new/1, start_link/2, oldest_ms/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The group remembers the sequences of the last 64 batches, and gives up one
%% that comes later (native/group/src/origins.rs).
-define(APART_MAX, 60).
-define(RESEND_AFTER_MS, 1_000).
-define(RESEND_AFTER_MS_MAX, 16_000).
%% The same, if a server has refused it and knows no leader.
-define(RESEND_REFUSED_AFTER_MS, 200).
%% Between two looks for batches that are to be sent again.
-define(TICK_MS, 250).
%% The same, if another node may lead, which must be noticed soon.
-define(CLUSTER_TICK_MS, 50).
%% After this many bytes the disk is looked at, besides once a second.
-define(BYTES_PER_CHECK, (16 bsl 20)).
%% If the last look at the disk of a log that is written here is longer ago, a
%% batch is not taken before the next one: what the log takes and cannot write
%% is neither done nor refused.
-define(LOOK_AFTER_MS, 50).

-type busy() :: [fun((todana_raft_groups:id(), Leader :: node()) -> ok)].

-record(state, {
    group :: todana_raft_groups:id(),
    %% The name of the table.
    table :: atom(),
    busy :: busy(),
    in_flight :: non_neg_integer(),
    %% The sequence that was taken last.
    last = 0 :: non_neg_integer(),
    tick_ms :: pos_integer(),
    %% Whether the next tick is to come. There are some while batches are taken
    %% and on their way, or while the disk has no room for one.
    is_ticking = false :: boolean(),
    has_room = true :: boolean(),
    %% Whether a batch was taken since the last tick.
    has_taken = false :: boolean(),
    bytes = 0 :: non_neg_integer(),
    %% When the disk was seen to have room.
    looked_ms = never :: never | integer(),
    %% Batches of other members, for the log.
    relay :: todana_relay:relay(),
    %% Whether the log has an entry of this process by which members that come
    %% know that entries may have several batches.
    is_marked = false :: boolean()
}).

-record(batch, {
    sequence :: pos_integer(),
    bytes :: binary(),
    first_sent_ms :: integer(),
    sent_ms :: integer(),
    %% The node that was said to lead.
    sent_to = none :: none | node(),
    %% How long it waits to be sent again.
    pause_ms = ?RESEND_AFTER_MS :: pos_integer()
}).

-doc "Makes the table of a group, which belongs to the caller.".
-spec new(todana_raft_groups:id()) -> ok.
new(Group) ->
    _ = ets:new(name(Group), [
        named_table, public, ordered_set, {keypos, #batch.sequence}
    ]),
    ok.

-doc """
Starts the process. Its table exists. It calls the functions `Busy` with the
node that leads, when the log grows after a pause.
""".
-spec start_link(todana_raft_groups:id(), busy()) -> gen_server:start_ret().
start_link(Group, Busy) ->
    gen_server:start_link({local, name(Group)}, ?MODULE, {Group, Busy}, []).

%% Of the process and of its table.
-spec name(todana_raft_groups:id()) -> atom().
name(Group) -> todana_raft_groups:name(?MODULE, Group).

-doc "How long the oldest batch has been on its way; 0 if there is none.".
-spec oldest_ms(todana_raft_groups:id()) -> non_neg_integer().
oldest_ms(Group) ->
    try ets:foldl(fun older/2, now_ms(), name(Group)) of
        Oldest -> max(0, now_ms() - Oldest)
    catch
        error:badarg -> 0
    end.

-spec older(#batch{}, integer()) -> integer().
older(#batch{first_sent_ms = Ms}, Oldest) -> min(Ms, Oldest).

-spec init({todana_raft_groups:id(), busy()}) -> {ok, #state{}}.
init({Group, Busy}) ->
    _ = process_flag(message_queue_data, off_heap),
    %% A leader that hangs must not make it hang, too: the next one is asked.
    _ = process_flag(async_dist, true),
    TickMs =
        case todana_raft_groups:opened(Group) of
            #{cluster := none} -> ?TICK_MS;
            #{} -> ?CLUSTER_TICK_MS
        end,
    ok = todana_nif:group_attach(Group, self()),
    State = #state{
        group = Group, table = name(Group), busy = Busy, in_flight = 0,
        tick_ms = TickMs, relay = todana_relay:new(Group)
    },
    %% A predecessor may have been killed between taking a batch and keeping it.
    Batches = batches(State),
    Known = [Sequence || #batch{sequence = Sequence} <- Batches],
    _ = [
        todana_nif:group_forget(Group, Sequence)
     || Sequence <- todana_nif:group_in_flight(Group) -- Known
    ],
    _ = [send(Batch, leader(State), State) || Batch <- Batches],
    {ok, go_on(State#state{in_flight = length(Known)})}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
%% Of the batcher of another member.
handle_cast({batch, Pid, Sequence, Bytes}, #state{relay = Relay} = State) ->
    {noreply, go_on(State#state{
        relay = todana_relay:add(Pid, Sequence, Bytes, Relay)
    })};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
%% The queue has something that can be taken, and had not before.
handle_info(todana_ready, State) ->
    {noreply, go_on(State)};
handle_info({ra_event, _Leader, {applied, Answers}}, State) ->
    {noreply, go_on(lists:foldl(fun applied/2, State, Answers))};
%% The leader hands over; if that fails, it leads again.
handle_info({ra_event, _, {rejected, {not_leader, undefined, Sequence}}},
            State) ->
    _ = ets:update_element(State#state.table, Sequence, {
        #batch.pause_ms, ?RESEND_REFUSED_AFTER_MS
    }),
    {noreply, go_on(rejected(Sequence, undefined, State))};
handle_info({ra_event, _, {rejected, {not_leader, {_, Leader} = Server,
                                      Sequence}}},
            State) ->
    #state{relay = Relay} = Rejected = rejected(Sequence, Server, State),
    Batches = [
        Batch
     || #batch{sent_to = SentTo} = Batch <- ets:lookup(
            State#state.table, Sequence
        ),
        SentTo =/= Leader
    ],
    {noreply, go_on(Rejected#state{
        relay = lists:foldl(send_again(Leader, State), Relay, Batches)
    })};
handle_info(todana_leader, #state{relay = Relay} = State) ->
    Batches = [
        Batch#batch{pause_ms = ?RESEND_AFTER_MS} || Batch <- batches(State)
    ],
    Left = lists:foldl(send_again(leader(State), State), Relay, Batches),
    {noreply, go_on(State#state{relay = todana_relay:forget_all(Left)})};
handle_info(tick, #state{in_flight = InFlight, relay = Relay} = State) ->
    {Leader, NowMs} = {leader(State), now_ms()},
    Due = [
        Batch
     || InFlight > 0, Kept <- batches(State), Batch <- due(Leader, NowMs, Kept)
    ],
    Left = lists:foldl(send_again(Leader, State), Relay, Due),
    {noreply, go_on(State#state{
        is_ticking = false, relay = todana_relay:forget_old(NowMs, Left)
    })};
handle_info(beat, State) ->
    {noreply, go_on(State)};
handle_info(_Message, State) ->
    {noreply, State}.

%% Whether a batch is to be sent again, and how long it then waits.
-spec due(node(), integer(), #batch{}) -> [#batch{}].
due(Leader, _NowMs, #batch{sent_to = SentTo} = Batch) when SentTo =/= Leader ->
    [Batch#batch{pause_ms = ?RESEND_AFTER_MS}];
due(_Leader, NowMs, #batch{sent_ms = SentMs, pause_ms = PauseMs} = Batch) when
    SentMs + PauseMs =< NowMs
->
    [Batch#batch{pause_ms = min(PauseMs * 2, ?RESEND_AFTER_MS_MAX)}];
due(_Leader, _NowMs, #batch{}) ->
    [].

-spec send_again(node(), #state{}) ->
    fun((#batch{}, todana_relay:relay()) -> todana_relay:relay()).
send_again(Leader, State) ->
    fun(#batch{sequence = Sequence} = Batch, Relay) ->
        ok = send(Batch, Leader, State),
        todana_relay:forget(Sequence, Relay)
    end.

%% A batch that was sent twice is answered twice.
-spec applied({integer(), term()}, #state{}) -> #state{}.
applied({Number, Reply}, #state{relay = Relay} = State) ->
    Answer = fun(Sequence) -> {applied, [{Sequence, Reply}]} end,
    Answered = State#state{relay = todana_relay:answer(Number, Answer, Relay)},
    case ets:take(State#state.table, Number) of
        [] ->
            Answered;
        [#batch{}] ->
            Answered#state{in_flight = State#state.in_flight - 1}
    end.

%% The other members whose batches are in the entry learn it, too.
-spec rejected(integer(), ra:server_id() | undefined, #state{}) -> #state{}.
rejected(Number, Leader, #state{relay = Relay} = State) ->
    Answer = fun(Sequence) ->
        {rejected, {not_leader, Leader, Sequence}}
    end,
    State#state{relay = todana_relay:answer(Number, Answer, Relay)}.

-spec go_on(#state{}) -> #state{}.
go_on(State) -> tick(relay(fill(State))).

%% Batches of others alone become an entry if this node had none for them.
-spec relay(#state{}) -> #state{}.
relay(#state{group = Group, relay = Relay} = State) ->
    NowMs = now_ms(),
    InFlight = entries(NowMs, State),
    case InFlight < todana_ra_server:in_flight_max() andalso
        todana_relay:is_due(InFlight, NowMs, Relay)
    of
        true ->
            {Owners, Batches, Taken} = todana_relay:take(0, Relay),
            {Number, Numbered} = todana_relay:number(Taken),
            Entry = todana_relay:entry(Batches),
            ok = todana_ra_server:pipeline(
                Group, leader(State), {b, Entry}, Number
            ),
            relay(State#state{
                relay = todana_relay:sent(Number, Owners, NowMs, Numbered),
                has_taken = true
            });
        false ->
            State
    end.

%% How many entries are on their way.
-spec entries(integer(), #state{}) -> non_neg_integer().
entries(NowMs, #state{in_flight = InFlight, relay = Relay}) ->
    InFlight + todana_relay:in_flight(NowMs, Relay).

%% The others learn that the log grows.
-spec tick(#state{}) -> #state{}.
tick(#state{is_ticking = true} = State) ->
    State;
tick(#state{has_room = true, has_taken = false} = State) ->
    case entries(now_ms(), State) of
        0 -> State;
        _ -> tick_later(State)
    end;
tick(State) ->
    tick_later(State).

-spec tick_later(#state{}) -> #state{}.
tick_later(#state{group = Group, tick_ms = TickMs, busy = Busy} = State) ->
    _ = erlang:send_after(TickMs, self(), tick),
    Leader = leader(State),
    ok = lists:foreach(fun(Tell) -> Tell(Group, Leader) end, Busy),
    State#state{is_ticking = true, has_taken = false}.

-spec fill(#state{}) -> #state{}.
fill(#state{table = Table, last = Last} = State) ->
    Oldest = ets:first(Table),
    NowMs = now_ms(),
    IsFar = is_integer(Oldest) andalso Last - Oldest >= ?APART_MAX,
    case IsFar orelse not has_place(NowMs, State) of
        true -> State;
        false -> fill(NowMs, State)
    end.

%% Whether a batch of this node may be on its way besides. While batches of
%% other members wait, they have half of the places.
-spec has_place(integer(), #state{}) -> boolean().
has_place(NowMs, #state{in_flight = InFlight, relay = Relay} = State) ->
    Max = todana_ra_server:in_flight_max(),
    entries(NowMs, State) < Max andalso
        (InFlight < Max div 2 orelse todana_relay:is_empty(Relay)).

-spec fill(integer(), #state{}) -> #state{}.
fill(NowMs, #state{looked_ms = LookedMs} = State) when
    LookedMs =:= never; NowMs - LookedMs > ?LOOK_AFTER_MS
->
    case leader(State) =/= node() orelse todana_disk:has_room() of
        true ->
            fill(NowMs, State#state{looked_ms = NowMs, has_room = true});
        false ->
            %% The gate closes soon, and drops what waits.
            todana_disk:check(),
            State#state{has_room = false}
    end;
fill(NowMs, State) ->
    case take(State#state.group, entries(NowMs, State)) of
        empty ->
            State;
        {Sequence, Bytes} ->
            Sent = first_send(#batch{
                sequence = Sequence,
                bytes = Bytes,
                first_sent_ms = NowMs,
                sent_ms = NowMs
            }, leader(State), State),
            Counted = count(byte_size(Bytes), Sent),
            fill(Counted#state{
                in_flight = State#state.in_flight + 1, last = Sequence,
                has_taken = true
            })
    end.

-spec take(todana_raft_groups:id(), non_neg_integer()) ->
    {Sequence :: pos_integer(), binary()} | empty.
take(Group, InFlight) ->
    case todana_nif:group_take(Group, InFlight) of
        long -> todana_nif:group_take_dirty(Group, InFlight);
        Taken -> Taken
    end.

-spec batches(#state{}) -> [#batch{}].
batches(#state{table = Table}) -> ets:tab2list(Table).

%% With what other members have sent, if this node leads.
-spec first_send(#batch{}, node(), #state{}) -> #state{}.
first_send(#batch{sequence = Sequence, bytes = Bytes} = Batch, Leader,
           #state{group = Group, relay = Relay, is_marked = IsMarked} = State)
  when Leader =:= node() ->
    {Owners, Others, Rest} = todana_relay:take(byte_size(Bytes), Relay),
    Batches = [Bytes | Others],
    Marks = not IsMarked andalso todana_relay:may_mark(Group, Bytes),
    Entry = case Marks of
        true -> todana_relay:combine(Batches);
        false -> todana_relay:entry(Batches)
    end,
    ok = keep(Batch, Leader, State),
    ok = todana_ra_server:pipeline(Group, Leader, {b, Entry}, Sequence),
    State#state{
        relay = todana_relay:sent(Sequence, Owners, now_ms(), Rest),
        is_marked = IsMarked orelse Marks
    };
first_send(Batch, Leader, State) ->
    ok = send(Batch, Leader, State),
    State.

%% Kept first, sent afterwards.
-spec send(#batch{}, node(), #state{}) -> ok.
send(#batch{sequence = Sequence, bytes = Bytes} = Batch, Leader, State) ->
    #state{group = Group} = State,
    ok = keep(Batch, Leader, State),
    case Leader =/= node() andalso todana_relay:is_allowed(Group) of
        true -> todana_relay:send(Group, Leader, Sequence, Bytes);
        false -> todana_ra_server:pipeline(
            Group, Leader, {b, Bytes}, Sequence
        )
    end.

-spec keep(#batch{}, node(), #state{}) -> ok.
keep(Batch, Leader, #state{table = Table}) ->
    true = ets:insert(Table, Batch#batch{
        sent_ms = now_ms(), sent_to = Leader
    }),
    ok.

%% If nobody is known to lead, this node's server knows it first.
-spec leader(#state{}) -> node().
leader(#state{group = Group}) ->
    case todana_members:leader(Group) of
        none -> node();
        Leader -> Leader
    end.

-spec count(non_neg_integer(), #state{}) -> #state{}.
count(More, #state{bytes = Bytes} = State) ->
    case Bytes + More of
        Enough when Enough >= ?BYTES_PER_CHECK ->
            todana_disk:check(),
            State#state{bytes = 0};
        Sum ->
            State#state{bytes = Sum}
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
