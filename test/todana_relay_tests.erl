%% What the leader does with the batches of other members.
-module(todana_relay_tests).

-include_lib("eunit/include/eunit.hrl").

-define(AHEAD_BYTES, (64 bsl 10)).
-define(BYTES_MAX, (512 bsl 10)).
-define(BATCHES_MAX, 16).

new(Batches) ->
    lists:foldl(
        fun({Sequence, Batch}, Relay) ->
            todana_relay:add(self(), Sequence, Batch, Relay)
        end,
        todana_relay:new(0), lists:enumerate(Batches)
    ).

batch(Bytes) -> binary:copy(~"b", Bytes).

an_entry_has_what_waits_in_the_order_in_which_it_came_test() ->
    Relay = new([~"one", ~"two", ~"three"]),
    ?assertNot(todana_relay:is_due(0, 1_000, todana_relay:new(0))),
    ?assert(todana_relay:is_due(0, 1_000, Relay)),
    ?assert(todana_relay:is_empty(todana_relay:new(0))),
    ?assertNot(todana_relay:is_empty(Relay)),
    {Owners, Batches, Rest} = todana_relay:take(0, Relay),
    ?assert(todana_relay:is_empty(Rest)),
    ?assertEqual([{self(), N} || N <- [1, 2, 3]], Owners),
    ?assertEqual([~"one", ~"two", ~"three"], Batches),
    ?assertNot(todana_relay:is_due(0, 1_000, Rest)),
    ?assertEqual({[], [], Rest}, todana_relay:take(0, Rest)),
    ?assertEqual(~"one", todana_relay:entry([~"one"])),
    ?assertEqual(
        <<16#B1, 5, 0, 3:32/little, "one", 0:32, 4:32/little, "four">>,
        todana_relay:entry([~"one", ~"", ~"four"])
    ),
    ?assertEqual(<<16#B1, 5, 0, 1:32/little, "x">>,
                 todana_relay:combine([~"x"])).

a_batch_that_is_sent_again_waits_once_test() ->
    Relay = todana_relay:add(self(), 1, ~"one", new([~"one"])),
    ?assertMatch({[_], [~"one"], _}, todana_relay:take(0, Relay)),
    Other = spawn(fun() -> ok end),
    Both = todana_relay:add(Other, 1, ~"other", Relay),
    ?assertMatch({[_, {Other, 1}], [~"one", ~"other"], _},
                 todana_relay:take(0, Both)).

much_does_not_wait_for_the_entry_before_test() ->
    Less = new([batch(?AHEAD_BYTES - 1)]),
    ?assertNot(todana_relay:is_due(1, 1_000, Less)),
    ?assert(todana_relay:is_due(0, 1_000, Less)),
    Enough = todana_relay:add(self(), 2, ~"x", Less),
    ?assert(todana_relay:is_due(1, 1_000, Enough)),
    {_, _, Rest} = todana_relay:take(0, Enough),
    ?assertNot(todana_relay:is_due(1, 1_000, Rest)).

%% The leader may always have entries on their way that have no room for others.
what_had_no_room_is_due_test() ->
    Long = new([batch(?BYTES_MAX), ~"x"]),
    ?assertNot(todana_relay:is_due(3, 1_000, new([~"x"]))),
    {[], [], Passed} = todana_relay:take(1, Long),
    ?assert(todana_relay:is_due(3, 1_000, Passed)),
    {[_], [_], Rest} = todana_relay:take(0, Passed),
    ?assertNot(todana_relay:is_due(3, 1_000, Rest)),
    %% At most two at once.
    {-2, Two} = lists:foldl(
        fun(N, {_, Before}) ->
            {N, todana_relay:sent(N, [{self(), 1}], 1_000, Before)}
        end,
        {0, Passed}, [-1, -2]
    ),
    ?assertNot(todana_relay:is_due(0, 1_000, Two)),
    ?assert(todana_relay:is_due(0, 6_000, Two)),
    ?assert(todana_relay:is_due(0, 1_000, todana_relay:forget_all(Two))).

numbers_are_negative_and_have_no_gaps_test() ->
    {First, Relay} = todana_relay:number(todana_relay:new(0)),
    {Second, _} = todana_relay:number(Relay),
    ?assertEqual({true, First - 1}, {First < 0, Second}).

an_entry_is_bounded_unless_it_is_one_batch_test() ->
    Count = fun(Own, Batches) ->
        {Owners, _, _} = todana_relay:take(Own, new(Batches)),
        length(Owners)
    end,
    Long = batch(?BYTES_MAX + 1),
    Half = batch(?BYTES_MAX div 2),
    ?assertEqual(1, Count(0, [Long, ~"x"])),
    ?assertEqual(0, Count(1, [Long, ~"x"])),
    ?assertEqual(2, Count(0, [Half, Half, ~"x"])),
    ?assertEqual(1, Count(1, [Half, Half, ~"x"])),
    ?assertEqual(0, Count(?BYTES_MAX, [~"x"])),
    ?assertEqual(1, Count(?BYTES_MAX - 1, [~"x", ~"y"])),
    Many = lists:duplicate(?BATCHES_MAX + 4, ~"x"),
    ?assertEqual(?BATCHES_MAX, Count(0, Many)),
    ?assertEqual(?BATCHES_MAX - 1, Count(1, Many)).

%% Each owner learns it once, by the number of its own batch.
an_answer_goes_to_the_owners_test() ->
    {Owners, _, Rest} = todana_relay:take(0, new([~"one", ~"two"])),
    Sent = todana_relay:sent(-7, Owners, 1_000, Rest),
    ?assertEqual(1, todana_relay:in_flight(1_000, Sent)),
    %% One with a batch of this node is on its way as that.
    Own = todana_relay:sent(7, [{self(), 3}], 1_000, Sent),
    ?assertEqual(1, todana_relay:in_flight(1_000, Own)),
    ?assertEqual(Own, todana_relay:sent(8, [], 1_000, Own)),
    Answer = fun(Sequence) -> {applied, [{Sequence, ok}]} end,
    ?assertEqual(Own, todana_relay:answer(9, Answer, Own)),
    Left = todana_relay:answer(-7, Answer, Own),
    ?assertEqual(0, todana_relay:in_flight(1_000, Left)),
    ?assertEqual(Left, todana_relay:answer(-7, Answer, Left)),
    ?assertEqual(Rest, todana_relay:answer(7, Answer, Left)),
    ?assertEqual([1, 2, 3], received()).

received() ->
    receive
        {ra_event, _, {applied, [{Sequence, ok}]}} -> [Sequence | received()]
    after 0 ->
        []
    end.

what_ra_does_not_answer_is_forgotten_test() ->
    New = todana_relay:new(0),
    Relay = todana_relay:sent(-1, [{self(), 1}], 1_000, New),
    [
        ?assertEqual({Ms, InFlight},
                     {Ms, todana_relay:in_flight(Ms, Relay)})
     || {Ms, InFlight} <- [{1_000, 1}, {5_999, 1}, {6_000, 0}, {9_000, 0}]
    ],
    ?assertEqual(Relay, todana_relay:forget_old(60_999, Relay)),
    ?assertEqual(New, todana_relay:forget_old(61_000, Relay)).

%% The answer to a batch that was sent again, alone, is none to the others.
a_batch_that_is_sent_again_answers_for_itself_test() ->
    Relay = todana_relay:sent(5, [{self(), 1}], 1_000, todana_relay:new(0)),
    Left = todana_relay:forget(5, Relay),
    _ = todana_relay:answer(5, fun(S) -> {applied, [{S, ok}]} end, Left),
    ?assertEqual([], received()).
