%% Copies of entries to segment files end with the process that began them.
-module(todana_flush_guard_tests).

-include_lib("eunit/include/eunit.hrl").

only_the_copies_of_the_dead_writer_end_test() ->
    {Writer, Copy} = writer(),
    {Other, Beside} = writer(),
    exit(Writer, kill),
    ok = todana_flush_guard:end_copies(Writer),
    ?assertNot(is_process_alive(Copy)),
    ?assert(is_process_alive(Beside)),
    [exit(Pid, kill) || Pid <- [Other, Beside]].

a_guard_follows_each_writer_of_the_name_test() ->
    #{segment_writer := Name} = todana_ra_system:names(everysec),
    {ok, Guard} = todana_flush_guard:start_link(everysec),
    lists:foreach(
        fun(_) ->
            {Writer, Copy} = writer(),
            true = register(Name, Writer),
            await(fun() ->
                {monitored_by, Pids} = process_info(Writer, monitored_by),
                lists:member(Guard, Pids)
            end),
            exit(Writer, kill),
            await(fun() -> not is_process_alive(Copy) end)
        end,
        lists:seq(1, 3)
    ),
    ok = gen_server:stop(Guard).

%% Each attempt to start the log asks, while it cannot start.
a_guard_looks_no_more_often_if_it_is_asked_often_test() ->
    {ok, Guard} = todana_flush_guard:start_link(everysec),
    _ = [ok = todana_flush_guard:end_writer() || _ <- lists:seq(1, 200)],
    1 = erlang:trace(Guard, true, ['receive']),
    timer:sleep(100),
    1 = erlang:trace(Guard, false, ['receive']),
    ok = gen_server:stop(Guard),
    Looks = looks(0),
    ?assert(Looks > 0),
    ?assert(Looks < 100).

looks(Count) ->
    receive
        {trace, _, 'receive', look} -> looks(Count + 1);
        {trace, _, 'receive', _} -> looks(Count)
    after 0 -> Count
    end.

%% Like Ra's segment writer, with a copy that goes on for ever.
writer() ->
    Test = self(),
    Writer = spawn(fun() ->
        {Copy, _} = spawn_monitor(fun() -> timer:sleep(infinity) end),
        Test ! {self(), Copy},
        timer:sleep(infinity)
    end),
    receive {Writer, Copy} -> {Writer, Copy} end.

await(Holds) -> await(Holds, 2_000).

await(Holds, 0) ->
    ?assert(Holds());
await(Holds, Times) ->
    case Holds() of
        true -> ok;
        false -> timer:sleep(5), await(Holds, Times - 1)
    end.
