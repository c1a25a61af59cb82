%% The memory of removed records goes back to the system.
-module(todana_released_memory_tests).

-include_lib("eunit/include/eunit.hrl").

-define(RECORDS, 400_000).
-define(VALUE_BYTES, 200).
%% Not all: the pages between records in use may stay.
-define(RELEASED_BYTES, ?RECORDS * ?VALUE_BYTES div 2).

memory_goes_back_when_records_are_removed_test_() ->
    case os:type() of
        {unix, linux} -> {timeout, 120, fun memory_goes_back/0};
        _ -> []
    end.

memory_goes_back() ->
    {ok, Started} = application:ensure_all_started(todana),
    {ok, _} = todana:open(?MODULE, #{}),
    try
        Value = binary:copy(~"v", ?VALUE_BYTES),
        ok = each(fun(N) -> ok = todana:put(?MODULE, <<N:32>>, Value) end),
        %% At least one look at the tables while they are full.
        timer:sleep(2 * todana_beat:interval_ms()),
        Full = held_bytes(),
        %% One of a hundred stays, so that the C library returns few pages
        %% without being asked.
        ok = each(fun
            (N) when N rem 100 =:= 0 -> ok;
            (N) -> ok = todana:delete(?MODULE, <<N:32>>)
        end),
        ?assertEqual(?RECORDS div 100, todana:count(?MODULE)),
        ok = fallen_below(Full - ?RELEASED_BYTES)
    after
        ok = todana:close(?MODULE),
        [application:stop(Application) || Application <- Started]
    end.

%% In a process that ends, without a list: what Erlang itself holds is the same
%% before and after it.
each(Step) ->
    {Pid, Monitor} = spawn_monitor(fun() -> each(1, Step) end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end.

each(N, _Step) when N > ?RECORDS -> ok;
each(N, Step) ->
    _ = Step(N),
    each(N + 1, Step).

%% The test's time limit ends it.
fallen_below(Bytes) ->
    case held_bytes() < Bytes of
        true ->
            ok;
        false ->
            timer:sleep(100),
            fallen_below(Bytes)
    end.

%% A page that was written to the swap area is held too.
held_bytes() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, Found} = re:run(
        Status, ~"(?:RssAnon|VmSwap):\\s*([0-9]+) kB",
        [global, {capture, all_but_first, binary}]
    ),
    lists:sum([binary_to_integer(Kilobytes) || [Kilobytes] <- Found]) * 1024.
