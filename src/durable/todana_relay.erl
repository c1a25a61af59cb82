%% Batches of other members, which the leader puts into entries of the log.
%%
%% An entry costs each member about the same, however long it is: a message to
%% and from each of the others, and an fdatasync. So a member does not give its
%% batch to Ra, but to the batcher of the node that leads. What waits there when
%% the entry before has been applied becomes one entry, with the leader's own
%% batch if there is one. The answer of Ra goes back to the members.
%%
%% The batches are not kept: a member that gets no answer sends its batch again,
%% as it does when Ra has dropped it, and each is applied once. Members of an
%% earlier version give their batches to Ra, and so do all of them until the
%% log may have entries of several batches.
-module(todana_relay).
-moduledoc false.

-export([new/1, is_allowed/1, may_mark/2, send/4]).
-export([add/4, is_empty/1, is_due/3, take/2, number/1, entry/1, combine/1]).
-export([sent/4, in_flight/2, answer/3, forget/2, forget_old/2,
         forget_all/1]).

-export_type([relay/0, owner/0]).

%% The format of such entries: native/group/src/batch.rs.
-define(FORMAT, 5).
-define(MAGIC, 16#B1).
%% If this much waits, it does not wait for the entry before.
-define(AHEAD_BYTES, (64 bsl 10)).
%% An entry has no more batches, and no more bytes unless it is one batch.
-define(BATCHES_MAX, 16).
-define(BYTES_MAX, (512 bsl 10)).
%% Entries without a batch of this node that are on their way at once.
-define(IN_FLIGHT_MAX, 2).
%% After that an entry without a batch of this node does not count as on its way
%% any more, since Ra may have dropped it; and after this time nobody waits for
%% its answer.
-define(COUNTS_FOR_MS, 5_000).
-define(FORGOTTEN_AFTER_MS, 60_000).

%% The batcher of a member, and the number of its batch.
-type owner() :: {pid(), pos_integer()}.

-record(relay, {
    group :: todana_raft_groups:id(),
    %% In the order in which they came.
    waiting = queue:new() :: queue:queue({owner(), binary()}),
    bytes = 0 :: non_neg_integer(),
    %% Whether an entry of this node has left the first one behind.
    is_passed = false :: boolean(),
    %% That of the last entry without a batch of this node. They are negative,
    %% without gaps, and lower than those of an earlier process.
    number = -erlang:system_time(microsecond) :: neg_integer(),
    %% The entries on their way, by the numbers that Ra answers with: those
    %% without a batch of this node are negative.
    sent = #{} :: #{integer() => {[owner()], SentMs :: integer()}}
}).
-opaque relay() :: #relay{}.

-doc "Nothing waits for the log of this group.".
-spec new(todana_raft_groups:id()) -> relay().
new(Group) -> #relay{group = Group}.

%% ---------------------------------------------------------------- member ---

-doc "Whether all members read entries of several batches.".
-spec is_allowed(todana_raft_groups:id()) -> boolean().
is_allowed(Group) -> todana_formats:unasked(Group) >= ?FORMAT.

-doc "Gives a batch of the caller to the batcher of the node that leads.".
-spec send(todana_raft_groups:id(), node(), pos_integer(), binary()) -> ok.
send(Group, Leader, Sequence, Batch) ->
    Batcher = todana_raft_groups:name(todana_batcher, Group),
    gen_server:cast({Batcher, Leader}, {batch, self(), Sequence, Batch}).

%% ---------------------------------------------------------------- leader ---

-doc "A batch has come. One that waits already has been sent again.".
-spec add(pid(), pos_integer(), binary(), relay()) -> relay().
add(Pid, Sequence, Batch, #relay{waiting = Waiting} = Relay) ->
    Owner = {Pid, Sequence},
    case queue:any(fun({Other, _}) -> Other =:= Owner end, Waiting) of
        true ->
            Relay;
        false ->
            Relay#relay{
                waiting = queue:in({Owner, Batch}, Waiting),
                bytes = Relay#relay.bytes + byte_size(Batch)
            }
    end.

-doc "Whether nothing waits.".
-spec is_empty(relay()) -> boolean().
is_empty(#relay{waiting = Waiting}) -> queue:is_empty(Waiting).

-doc """
Whether what waits becomes an entry now, while others are on their way: if much
waits, or if an entry of this node had no room for it.
""".
-spec is_due(non_neg_integer(), integer(), relay()) -> boolean().
is_due(InFlight, NowMs, #relay{bytes = Bytes, is_passed = IsPassed} = Relay) ->
    not is_empty(Relay) andalso in_flight(NowMs, Relay) < ?IN_FLIGHT_MAX andalso
        (InFlight =:= 0 orelse IsPassed orelse Bytes >= ?AHEAD_BYTES).

-doc """
What waits, for one entry: beside a batch of this number of bytes, or, with 0,
alone. Then the first batch may have any length. It is one batch if entries must
not have several.
""".
-spec take(non_neg_integer(), relay()) -> {[owner()], [binary()], relay()}.
take(OwnBytes, Relay) ->
    {Owners, Batches, Left} = case {is_empty(Relay), OwnBytes} of
        {true, _} -> {[], [], Relay};
        {false, 0} -> take(Relay, 0, 0, [], []);
        {false, _} -> take(Relay, 1, OwnBytes, [], [])
    end,
    IsPassed = Owners =:= [] andalso not is_empty(Left),
    {Owners, Batches, Left#relay{is_passed = IsPassed}}.

-spec take(
    relay(), non_neg_integer(), non_neg_integer(), [owner()], [binary()]
) -> {[owner()], [binary()], relay()}.
take(#relay{waiting = Waiting} = Relay, Count, Sum, Owners, Batches) ->
    IsAllowed = Count =:= 0 orelse is_allowed(Relay#relay.group),
    case IsAllowed andalso queue:out(Waiting) of
        {{value, {Owner, Batch}}, Rest} when
            Count =:= 0;
            Count < ?BATCHES_MAX, Sum + byte_size(Batch) =< ?BYTES_MAX
        ->
            Bytes = byte_size(Batch),
            Left = Relay#relay{
                waiting = Rest, bytes = Relay#relay.bytes - Bytes
            },
            take(Left, Count + 1, Sum + Bytes,
                 [Owner | Owners], [Batch | Batches]);
        _ ->
            {lists:reverse(Owners), lists:reverse(Batches), Relay}
    end.

-doc "A number for an entry without a batch of this node.".
-spec number(relay()) -> {neg_integer(), relay()}.
number(#relay{number = Last} = Relay) ->
    {Last - 1, Relay#relay{number = Last - 1}}.

-doc "An entry of these batches, in the lowest format.".
-spec entry([binary()]) -> binary().
entry([Batch]) -> Batch;
entry(Batches) -> combine(Batches).

-doc """
Whether this batch may be an entry of the format of several batches. Then those
who read the log later know that all members read this format.
""".
-spec may_mark(todana_raft_groups:id(), binary()) -> boolean().
may_mark(Group, Batch) ->
    byte_size(Batch) =< ?BYTES_MAX andalso is_allowed(Group).

-doc "An entry of the format of several batches.".
-spec combine([binary()]) -> binary().
combine(Batches) ->
    iolist_to_binary([
        <<?MAGIC, ?FORMAT, 0>>
        | [[<<(byte_size(Batch)):32/little>>, Batch] || Batch <- Batches]
    ]).

-doc "An entry with batches of others was given to Ra.".
-spec sent(integer(), [owner()], integer(), relay()) -> relay().
sent(_Number, [], _NowMs, Relay) ->
    Relay;
sent(Number, Owners, NowMs, #relay{sent = Sent} = Relay) ->
    Relay#relay{sent = Sent#{Number => {Owners, NowMs}}}.

-doc """
Sends the answer of Ra about an entry to the owners of its batches. It is made
of the number of a batch.
""".
-spec answer(integer(), fun((pos_integer()) -> term()), relay()) -> relay().
answer(Number, Answer, #relay{group = Group, sent = Sent} = Relay) ->
    case maps:take(Number, Sent) of
        {{Owners, _}, Rest} ->
            Server = todana_ra_server:address(Group),
            _ = [
                erlang:send(
                    Pid, {ra_event, Server, Answer(Sequence)}, [noconnect]
                )
             || {Pid, Sequence} <- Owners
            ],
            Relay#relay{sent = Rest};
        error ->
            Relay
    end.

-doc """
The batch of this node in the entry is sent again, alone. What Ra then says
about it is no answer to the others.
""".
-spec forget(integer(), relay()) -> relay().
forget(Number, #relay{sent = Sent} = Relay) ->
    Relay#relay{sent = maps:remove(Number, Sent)}.

-doc """
Forgets all entries: the leader has changed, and Ra may have dropped them.
""".
-spec forget_all(relay()) -> relay().
forget_all(Relay) -> Relay#relay{sent = #{}}.

-doc "Forgets the entries that Ra does not answer.".
-spec forget_old(integer(), relay()) -> relay().
forget_old(NowMs, #relay{sent = Sent} = Relay) ->
    Relay#relay{sent = maps:filter(
        fun(_, {_, SentMs}) -> NowMs - SentMs < ?FORGOTTEN_AFTER_MS end, Sent
    )}.

-doc "The entries on their way that have batches of others alone.".
-spec in_flight(integer(), relay()) -> non_neg_integer().
in_flight(_NowMs, #relay{sent = Sent}) when map_size(Sent) =:= 0 ->
    0;
in_flight(NowMs, #relay{sent = Sent}) ->
    length([
        Number
     || Number := {_, SentMs} <- Sent,
        Number < 0, NowMs - SentMs < ?COUNTS_FOR_MS
    ]).
