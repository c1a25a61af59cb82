%% The node that bench/stalls measures: Todana with its listeners, a probe that
%% reads a record repeatedly, and every call of the API, run on request.
%%
%% Reads one term per line and answers each with a line of JSON:
%%     {fill, Kind, Table, Count}            loads records
%%     {probe, Table, Key, get | fetch}      the probe begins
%%     probed                                its longest wait, in microseconds
%%     {prepare, Name, Sizes}                a caller gets ready, not measured
%%     {call, RepeatMs, TimeoutMs}           the caller calls
%%     occupied                              longest scheduler occupation of it
%%                                           or of Todana's processes, in ms
%%     {clear, Table}                        a table is emptied
-module(stalls).

-export([main/0]).

%% Pause between two samples of the probe.
-define(PAUSE_MS, 1).
-define(LOOKS, 10).
-define(BATCH, 1_000).
%% Enough for what callers prepare, so that their own garbage is not measured.
-define(CALLER_HEAP_WORDS, 8_000_000).
-define(READY_MS, 300_000).
-define(PIECE_BYTES, 64).

-spec main() -> no_return().
main() ->
    {ok, _} = application:ensure_all_started(todana),
    [{ok, _} = todana:open(Name, #{}) || Name <- databases()],
    Watch = spawn_link(fun() -> watch([]) end),
    _ = erlang:system_monitor(Watch, [{long_schedule, 1}]),
    Probe = spawn_link(fun idle/0),
    Addresses = #{
        Protocol => iolist_to_binary(Address)
     || {Protocol, Address} <- todana_listener:addresses()
    },
    answer(#{addresses => Addresses, pid => list_to_integer(os:getpid())}),
    serve(#{probe => Probe, watch => Watch, caller => none}).

-spec databases() -> [atom()].
databases() ->
    [db0, db1, db2, db3, db4, db5, db6].

-spec answer(term()) -> ok.
answer(Term) ->
    io:put_chars(["answer ", json:encode(Term), $\n]).

-spec serve(map()) -> no_return().
serve(State) ->
    case io:get_line("") of
        eof ->
            halt(0);
        Line ->
            {ok, Tokens, _} = erl_scan:string(Line),
            {ok, Term} = erl_parse:parse_term(Tokens),
            {Answer, Next} = handle(Term, State),
            answer(Answer),
            serve(Next)
    end.

-spec handle(term(), map()) -> {term(), map()}.
handle({fill, Kind, Table, Count}, State) ->
    {fill(Kind, Table, Count), State};
handle({probe, Table, Key, How}, #{probe := Probe} = State) ->
    Probe ! {probe, Table, Key, How},
    {ok, State};
handle(probed, #{probe := Probe} = State) ->
    Probe ! {probed, self()},
    {receive {Probe, Us} -> Us after ?READY_MS -> null end, State};
handle({prepare, Name, Sizes}, State) ->
    Self = self(),
    {Pid, Monitor} = spawn_opt(
        fun() -> caller(Self, Name, Sizes) end,
        [monitor, {min_heap_size, ?CALLER_HEAP_WORDS}]
    ),
    receive
        {Pid, ready} ->
            {ok, State#{caller := Pid}};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {#{failed => words(Reason)}, State}
    end;
handle({call, RepeatMs, TimeoutMs}, #{caller := Pid} = State) ->
    Pid ! {call, RepeatMs},
    receive
        {Pid, Found} ->
            receive {'DOWN', _, process, Pid, _} -> ok end,
            {Found, State};
        {'DOWN', _, process, Pid, Reason} ->
            {#{failed => words(Reason)}, State}
    after TimeoutMs ->
        exit(Pid, kill),
        receive {'DOWN', _, process, Pid, _} -> ok after TimeoutMs -> ok end,
        {#{timed_out => true}, State}
    end;
handle({clear, Table}, State) ->
    {todana:clear(Table), State};
handle(occupied, #{watch := Watch, caller := Caller} = State) ->
    Watch ! {tell, self()},
    All = receive {Watch, Found} -> Found end,
    Ms = [Each || {Pid, Each} <- All, is_measured(Pid, Caller)],
    {lists:max([0 | Ms]), State}.

-spec is_measured(pid(), pid() | none) -> boolean().
is_measured(Caller, Caller) ->
    true;
is_measured(Pid, _Caller) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> lists:prefix("todana", atom_to_list(Name));
        _ -> false
    end.

-spec words(term()) -> binary().
words(Term) ->
    Words = unicode:characters_to_binary(io_lib:format("~0tP", [Term, 12])),
    string:slice(Words, 0, 200).

-spec watch([{pid(), pos_integer()}]) -> no_return().
watch(Found) ->
    receive
        {monitor, Pid, long_schedule, Facts} when is_pid(Pid) ->
            {timeout, Ms} = lists:keyfind(timeout, 1, Facts),
            watch([{Pid, Ms} | Found]);
        {monitor, _Port, long_schedule, _Facts} ->
            watch(Found);
        {tell, To} ->
            To ! {self(), Found},
            watch([])
    end.

%% ----------------------------------------------------------------- probe ---

-spec idle() -> no_return().
idle() ->
    receive
        {probe, Table, Key, How} -> probe(Table, Key, How, clock(), 0)
    end.

%% Reads the record a few times, pauses, and measures how much longer than the
%% pause that took.
-spec probe(atom(), binary(), get | fetch, integer(), integer()) ->
    no_return().
probe(Table, Key, How, Before, Longest) ->
    look(How, Table, Key, ?LOOKS),
    receive
        {probed, To} ->
            To ! {self(), max(0, max(Longest, clock() - Before))},
            idle()
    after ?PAUSE_MS ->
        Now = clock(),
        Wait = Now - Before - ?PAUSE_MS * 1000,
        probe(Table, Key, How, Now, max(Longest, Wait))
    end.

-spec look(get | fetch, atom(), binary(), non_neg_integer()) -> ok.
look(_How, _Table, _Key, 0) ->
    ok;
look(get, Table, Key, Times) ->
    _ = todana:get(Table, Key),
    look(get, Table, Key, Times - 1);
look(fetch, Table, Key, Times) ->
    Missing = <<Key/binary, Times>>,
    {error, none} =
        todana:fetch(Table, Missing, fun() -> {error, none} end),
    look(fetch, Table, Key, Times - 1).

-spec clock() -> integer().
clock() ->
    erlang:monotonic_time(microsecond).

%% ---------------------------------------------------------------- filling ---

%% Two processes store the keys key:000000000001 and so on.
-spec fill(plain | expiring | {at, integer()}, atom(), pos_integer()) -> ok.
fill(Kind, Table, Count) ->
    Half = Count div 2,
    Workers = [
        spawn_monitor(fun() -> fill(Kind, Table, From, To, Count) end)
     || {From, To} <- [{1, Half}, {Half + 1, Count}]
    ],
    [
        receive {'DOWN', Monitor, process, Pid, normal} -> ok end
     || {Pid, Monitor} <- Workers
    ],
    ok.

-spec fill(term(), atom(), pos_integer(), pos_integer(), pos_integer()) -> ok.
fill(_Kind, _Table, From, To, _Count) when From > To ->
    ok;
fill(Kind, Table, From, To, Count) ->
    Last = min(To, From + batch(Kind) - 1),
    Pairs = [{key(N), <<"value:0123456789">>} || N <- lists:seq(From, Last)],
    ok = todana:put_many(Table, Pairs, lifetime(Kind, From, Count)),
    fill(Kind, Table, Last + 1, To, Count).

-spec batch(term()) -> pos_integer().
batch(expiring) -> 50;
batch(_Kind) -> ?BATCH.

%% Expiring records expire evenly over five minutes: 16,600 per second of five
%% million.
-spec lifetime(term(), pos_integer(), pos_integer()) -> map().
lifetime(plain, _At, _Count) -> #{};
lifetime(expiring, At, Count) -> #{ttl_ms => 1 + At * 300_000 div Count};
lifetime({at, Ms}, _At, _Count) -> #{expires_at_ms => Ms}.

-spec key(non_neg_integer()) -> binary().
key(N) ->
    <<_, Digits/binary>> = integer_to_binary(1_000_000_000_000 + N),
    <<"key:", Digits/binary>>.

-spec keys(pos_integer()) -> [binary()].
keys(Count) ->
    [key(N) || N <- lists:seq(1, Count)].

-spec pairs(pos_integer()) -> [{binary(), binary()}].
pairs(Count) ->
    [{Key, <<"value:0123456789">>} || Key <- keys(Count)].

-spec big(pos_integer()) -> binary().
big(Bytes) ->
    binary:copy(<<"x">>, Bytes).

%% ----------------------------------------------------------------- callers ---

-spec caller(pid(), atom(), map()) -> ok.
caller(Parent, Name, Sizes) ->
    {Call, End} = row(Name, Sizes),
    erlang:garbage_collect(),
    Parent ! {self(), ready},
    receive {call, RepeatMs} ->
        Started = clock(),
        {Result, Calls} = repeat(Call, Started + RepeatMs * 1000, 0),
        Found = #{
            seconds => (clock() - Started) / 1.0e6,
            calls => Calls,
            answer => words(Result)
        },
        End(),
        Parent ! {self(), Found}
    end.

-spec repeat(fun(() -> term()), integer(), non_neg_integer()) ->
    {term(), pos_integer()}.
repeat(Call, End, Calls) ->
    Result = Call(),
    case clock() >= End of
        true -> {Result, Calls + 1};
        false -> repeat(Call, End, Calls + 1)
    end.

-define(ROW(Call), {fun() -> Call end, fun() -> ok end}).

%% Prepares a call; returns the call and the function that cleans up after it.
-spec row(atom(), map()) -> {fun(() -> term()), fun(() -> term())}.
row(open, _) ->
    {
        fun() ->
            {ok, Handle} = todana:open(stalls_open, #{}),
            todana:close(Handle)
        end,
        fun() -> ok end
    };
row(close_full, #{records := Records}) ->
    {ok, Handle} = todana:open(stalls_full, #{}),
    ok = fill(plain, stalls_full, Records),
    ?ROW(todana:close(Handle));
row(drop_full, #{records := Records}) ->
    {ok, Handle} = todana:open(stalls_dropped, #{}),
    ok = fill(plain, stalls_dropped, Records),
    ?ROW(todana:drop(Handle));
row(list, _) -> ?ROW(todana:list());
row(info, _) -> ?ROW(todana:info(db0));
row(info_node, _) -> ?ROW(todana:info());
row(set_limits, _) ->
    {ok, Handle} = todana:open(stalls_limits, #{}),
    {
        fun() -> todana:set_limits(Handle, #{entries_max => 1000}) end,
        fun() -> todana:close(Handle) end
    };
row(handle, _) -> ?ROW(todana:handle(db0));
row(count, _) -> ?ROW(todana:count(db0));
row(bytes, _) -> ?ROW(todana:bytes(db0));
row(stats, _) -> ?ROW(todana:stats(db0));
%% One key.
row(get, _) -> ?ROW(todana:get(db0, key(1)));
row(get_default, _) -> ?ROW(todana:get(db0, ~"none", none));
row(get_big, Sizes) -> with_big(Sizes, fun(Key) -> todana:get(db4, Key) end);
row(get_long_key, #{key_characters := Count}) ->
    Key = lists:duplicate(Count, $a),
    ?ROW(refused(fun() -> todana:get(db0, Key) end));
row(get_deep_key, #{key_characters := Count}) ->
    Piece = big(?PIECE_BYTES),
    Pieces = lists:seq(1, Count div ?PIECE_BYTES),
    Key = lists:foldl(fun(_, Acc) -> [Acc | Piece] end, [], Pieces),
    ?ROW(refused(fun() -> todana:get(db0, Key) end));
row(get_entry, _) -> ?ROW(todana:get_entry(db0, key(1)));
row(get_at, _) -> ?ROW(todana:get(db0, key(1), none, #{read => linear}));
row(get_entry_at, _) -> ?ROW(todana:get_entry(db0, key(1), #{read => linear}));
row(get_many_at, _) ->
    ?ROW(todana:get_many(db0, [key(1)], #{read => linear}));
row(refresh, _) -> ?ROW(todana:refresh(db0, linear));
row(index, _) -> ?ROW(todana:index(db0));
row(read_after, _) -> ?ROW(todana:read_after(db0, 0));
row(get_entry_big, Sizes) ->
    with_big(Sizes, fun(Key) -> todana:get_entry(db4, Key) end);
row(is_key, _) -> ?ROW(todana:is_key(db0, key(1)));
row(put, _) -> ?ROW(todana:put(db0, key(1), ~"value:0123456789"));
row(put_megabyte, _) ->
    Value = big(1 bsl 20),
    ?ROW(todana:put(db4, ~"megabyte", Value));
row(put_big, #{value_bytes := Bytes}) ->
    Value = big(Bytes),
    ?ROW(todana:put(db4, ~"big", Value));
row(put_evicting, #{value_bytes := Bytes}) ->
    Value = big(Bytes * 15 div 16),
    ?ROW(todana:put(db3, ~"big", Value));
row(put_with, _) ->
    ?ROW(todana:put(db0, key(1), ~"value:0123456789", #{only => present}));
row(put_long_value, #{key_characters := Count}) ->
    Value = lists:duplicate(Count, $a),
    ?ROW(refused(fun() -> todana:put(db4, ~"long", Value) end));
row(compare_and_swap, _) ->
    ?ROW(todana:compare_and_swap(db0, key(1), 1, ~"value:0123456789"));
row(compare_and_swap_with, _) ->
    ?ROW(todana:compare_and_swap(db0, key(1), 1, ~"x", #{ttl_ms => keep}));
row(take, _) ->
    {
        fun() ->
            ok = todana:put(db4, ~"taken", ~"value"),
            todana:take(db4, ~"taken")
        end,
        fun() -> ok end
    };
row(take_big, Sizes) -> with_big(Sizes, fun(Key) -> todana:take(db4, Key) end);
row(delete, _) -> ?ROW(todana:delete(db4, ~"none"));
row(delete_big, Sizes) ->
    with_big(Sizes, fun(Key) -> todana:delete(db4, Key) end);
row(delete_version, _) ->
    ?ROW(todana:delete(db0, key(1), #{version => 1}));
row(update_counter, _) ->
    ok = todana:put(db4, ~"counter", ~"1"),
    ?ROW(todana:update_counter(db4, ~"counter", 1));
row(update_counter_with, _) ->
    ?ROW(todana:update_counter(db4, ~"counter", 1, #{initial => 0}));
row(update, _) ->
    ?ROW(todana:update(db0, key(1), fun({ok, Value}) -> {put, Value} end));
row(update_with, _) ->
    Rewrite = fun({ok, Value}) -> {put, Value} end,
    ?ROW(todana:update(db0, key(1), Rewrite, #{attempts => 1}));
row(update_big, Sizes) ->
    with_big(Sizes, fun(Key) ->
        {ok, _} = todana:update(db4, Key, fun({ok, Value}) -> {put, Value} end)
    end);
row(transaction, _) ->
    ?ROW(todana:transaction(db0, fun(Tx) -> rewrite(Tx, key(1)) end));
row(transaction_with, _) ->
    Options = #{attempts => 1},
    ?ROW(todana:transaction(db0, fun(Tx) -> rewrite(Tx, key(1)) end, Options));
row(transaction_most, #{many := Count}) ->
    Keys = keys(min(9_000, Count)),
    ?ROW(todana:transaction(db0, fun(Tx) ->
        lists:foreach(fun(Key) -> ok = rewrite(Tx, Key) end, Keys)
    end));
row(ttl, _) -> ?ROW(todana:ttl(db0, key(1)));
row(expire, _) -> ?ROW(todana:expire(db0, key(2), 1_000_000));
row(expire_big, Sizes) ->
    with_big(Sizes, fun(Key) -> todana:expire(db4, Key, 1_000_000) end);
row(persist, _) -> ?ROW(todana:persist(db0, key(2)));
row(persist_big, Sizes) ->
    with_big(Sizes, fun(Key) ->
        ok = todana:expire(db4, Key, 1_000_000),
        todana:persist(db4, Key)
    end);
row(fetch, _) ->
    ?ROW(todana:fetch(db0, key(1), fun() -> {error, none} end));
row(fetch_timeouts, #{waiters := Count}) ->
    ?ROW(fetch_timeouts(Count));
%% Several keys.
row(get_many, #{many := Count}) ->
    Keys = keys(Count),
    ?ROW(map_size(todana:get_many(db0, Keys)));
row(put_many, #{many := Count}) ->
    Pairs = pairs(Count),
    ?ROW(todana:put_many(db0, Pairs));
row(put_many_atomic, #{many := Count}) ->
    Pairs = pairs(Count div 2),
    ?ROW(todana:put_many(db0, Pairs, #{atomic => true}));
row(put_many_atomic_most, #{bulk := Count}) ->
    Pairs = pairs(Count),
    ?ROW(todana:put_many(db0, Pairs, #{atomic => true}));
row(delete_many, #{many := Count}) ->
    Keys = keys(Count),
    {
        fun() -> todana:delete_many(db0, Keys) end,
        fun() -> todana:put_many(db0, pairs(Count)) end
    };
%% Ordered tables.
row(range, _) ->
    ?ROW(todana:range(db1, first, last, #{limit => 1000}));
row(range_default, _) -> ?ROW(todana:range(db1, first, last));
row(prefix, _) -> ?ROW(todana:prefix(db1, ~"key:", #{limit => 1000}));
row(prefix_default, _) -> ?ROW(todana:prefix(db1, ~"key:"));
row(prefix_decimal, _) -> ?ROW(todana:prefix(db6, ~"none", #{limit => 1000}));
row(first, _) -> ?ROW(todana:first(db1));
row(last, _) -> ?ROW(todana:last(db1));
row(next, _) -> ?ROW(todana:next(db1, key(1)));
row(prev, _) -> ?ROW(todana:prev(db1, key(1000)));
row(fold_range, _) ->
    ?ROW(todana:fold_range(fun count/3, 0, db1, first, last));
%% The whole table.
row(scan, _) -> ?ROW(element(2, todana:scan(db0)));
row(scan_from, _) -> ?ROW(element(2, todana:scan(db0, start)));
row(scan_most, #{records := Records}) ->
    ?ROW(element(2, todana:scan(db0, start, #{count => Records})));
row(scan_one_shard, Sizes) ->
    one_shard(Sizes),
    ?ROW(element(2, todana:scan(stalls_shard, start, #{count => 1})));
row(fold, _) -> ?ROW(todana:fold(fun count/3, 0, db0));
row(subscribe, _) ->
    ?ROW(begin
        {ok, Subscription} = todana:subscribe(db0, #{}),
        todana:unsubscribe(Subscription)
    end);
row(set_event_handler, _) -> ?ROW(todana:set_event_handler(none));
row(events_batch, _) ->
    Subscription = with_full_queue(),
    {
        fun() -> length(todana:events(Subscription)) end,
        fun() -> todana:close(stalls_events) end
    };
row(unsubscribe_full, _) ->
    Subscription = with_full_queue(),
    {
        fun() -> todana:unsubscribe(Subscription) end,
        fun() -> todana:close(stalls_events) end
    };
row(to_list, _) -> ?ROW(length(todana:to_list(db0)));
row(dump, _) -> dumped(fun(File) -> {ok, _} = todana:dump(db0, File) end);
row(load, _) ->
    {Load, Delete} = dumped(fun(File) -> {ok, _} = todana:load(db0, File) end),
    {ok, _} = todana:dump(db0, dump_file()),
    {Load, Delete};
row(fold_snapshot, _) -> ?ROW(todana:fold_snapshot(fun count/3, 0, db0));
row(fold_snapshot_one_shard, Sizes) ->
    one_shard(Sizes),
    ?ROW(todana:fold_snapshot(fun count/3, 0, stalls_shard));
row(fold_snapshot_left, #{records := Records}) ->
    %% Writes of another process make the snapshot retain the old records.
    Reader = held_snapshot(db0),
    ok = fill(plain, db0, Records),
    ?ROW(ended(Reader, kill));
row(clear, _) -> ?ROW(todana:clear(db0));
row(clear_snapshot, _) ->
    Reader = held_snapshot(db0),
    {fun() -> todana:clear(db0) end, fun() -> ended(Reader, kill) end};
row(clear_one_shard, Sizes) ->
    one_shard(Sizes),
    ?ROW(todana:clear(stalls_shard)).

%% A subscription to a table that was written to until the queue was full.
-spec with_full_queue() -> todana:subscription().
with_full_queue() ->
    {ok, Table} = todana:open(stalls_events, #{}),
    Options = #{queue_entries_max => 1_048_576},
    {ok, Subscription} = todana:subscribe(Table, Options),
    [
        ok = todana:put(Table, key(N rem 1000), ~"")
     || N <- lists:seq(1, 400_000)
    ],
    Subscription.

%% A call with the name of a file, and what removes the file.
-spec dumped(fun((string()) -> term())) ->
    {fun(() -> term()), fun(() -> term())}.
dumped(Call) ->
    File = dump_file(),
    {fun() -> element(1, Call(File)) end, fun() -> file:delete(File) end}.

-spec dump_file() -> string().
dump_file() ->
    filename:join(
        os:getenv("TMPDIR", "/tmp"), "todana_stalls." ++ os:getpid()
    ).

-spec rewrite(todana_transaction:tx(), binary()) -> ok.
rewrite(Tx, Key) ->
    Value = todana_transaction:get(Tx, Key, ~"none"),
    todana_transaction:put(Tx, Key, Value).

%% A call whose key or value exceeds the limit raises badarg.
-spec refused(fun(() -> term())) -> term().
refused(Call) ->
    try Call() catch error:badarg -> badarg end.

-spec with_big(map(), fun((binary()) -> term())) ->
    {fun(() -> term()), fun(() -> term())}.
with_big(#{value_bytes := Bytes}, Call) ->
    ok = todana:put(db4, ~"big", big(Bytes)),
    ?ROW(Call(~"big")).

-spec count(term(), term(), non_neg_integer()) -> pos_integer().
count(_Key, _Value, Count) ->
    Count + 1.

%% A table whose records are all in one shard.
-spec one_shard(map()) -> ok.
one_shard(#{shard_records := Records}) ->
    {ok, _} = todana:open(stalls_shard, #{shards => 1}),
    case todana:count(stalls_shard) of
        Records -> ok;
        _ -> fill(plain, stalls_shard, Records)
    end.

%% A process that begins to read a snapshot and does not continue.
-spec held_snapshot(atom()) -> {pid(), reference()}.
held_snapshot(Table) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        todana:fold_snapshot(
            fun(_, _, First) ->
                Self ! {self(), First},
                receive never -> ok end
            end,
            begun,
            Table
        )
    end),
    receive {Pid, begun} -> ok end,
    {Pid, Monitor}.

-spec ended({pid(), reference()}, term()) -> ok.
ended({Pid, Monitor}, Reason) ->
    exit(Pid, Reason),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

%% One process computes; the others wait for it and time out at the same moment.
-spec fetch_timeouts(pos_integer()) -> ok.
fetch_timeouts(Count) ->
    Self = self(),
    Compute = fun() ->
        Self ! {self(), computes},
        receive done -> {error, none} end
    end,
    First = spawn_monitor(fun() -> todana:fetch(db4, ~"slow", Compute) end),
    %% If another process were first, it would compute for ever.
    {Leader, _} = First,
    receive {Leader, computes} -> ok end,
    Waiters = [
        spawn_monitor(fun() ->
            todana:fetch(db4, ~"slow", Compute, #{timeout_ms => 500})
        end)
     || _ <- lists:seq(1, Count)
    ],
    [
        receive {'DOWN', Monitor, process, Pid, _} -> ok end
     || {Pid, Monitor} <- Waiters
    ],
    ended(First, kill).
