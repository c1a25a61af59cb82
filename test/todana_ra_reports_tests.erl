%% Which reports of Ra's processes reach the log of the node.
-module(todana_ra_reports_tests).

-include_lib("eunit/include/eunit.hrl").

reports_of_others_pass_test() ->
    ?assertEqual(lists:duplicate(9, ignore), in_process([], fun() ->
        [report({badmatch, N}) || N <- lists:seq(1, 9)]
    end)).

a_known_cause_is_said_by_todana_test() ->
    Known = [
        {ra_log_segment_crc_check_failure, 7, {1, 2, 3, 4}, <<"x.segment">>},
        {{badmatch, {error, enospc}}, []},
        {todana, "the snapshot is missing"},
        reached_max_restart_intensity
    ],
    ?assertEqual([stop || _ <- Known], in_process(['a'], fun() ->
        [report(Reason) || Reason <- Known]
    end)).

%% Nobody sees the report of the cause, so the sentence about its effect has it.
the_cause_is_in_the_sentence_about_the_end_test() ->
    _ = persistent_term:erase(todana_ra_words),
    Ends = [shutdown, {server, killed}, {noproc, {gen_statem, call, []}}],
    Sentences = fun() -> [todana_ra_words:describe(End) || End <- Ends] end,
    ?assertMatch(["processes of the log ended" ++ _, _, _], Sentences()),
    _ = in_process(['a'], fun() -> [report({badmatch, {error, eio}})] end),
    _ = in_process(['a'], fun() -> [report({noproc, shutdown})] end),
    ?assertEqual(
        lists:duplicate(3, "the disk reports an input/output error"),
        Sentences()
    ),
    persistent_term:erase(todana_ra_words).

of_unknown_causes_a_few_pass_test() ->
    ?assertEqual(
        [ignore, ignore, ignore, stop, stop],
        in_process(['a'], fun() ->
            [report({badmatch, N}) || N <- lists:seq(1, 5)]
        end)
    ).

what_ra_says_in_other_processes_test() ->
    Message = {"Ra: failed to start ra server ~ts, err ~p",
               [ra_todana_always_server_sup_sup, shutdown]},
    ?assertEqual([stop, ignore, ignore], in_process([], fun() ->
        [
            todana_ra_reports:filter(
                #{level => error, msg => Msg, meta => Meta}, atomics:new(2, [])
            )
         || {Msg, Meta} <- [
                {Message, #{domain => [ra]}},
                {Message, #{}},
                {{"~p ~p", [other, shutdown]}, #{domain => [ra]}}
            ]
        ]
    end)).

%% On a full disk; the other supervisor belongs to another user of Ra.
what_has_no_name_of_ours_test() ->
    Full = {badmatch, {error, enospc}},
    Supervisor = fun(System) -> {report, #{
        label => {supervisor, start_error},
        report => [
            {supervisor, {self(), ra_system_sup}}, {errorContext, start_error},
            {reason, Full},
            {offender, [
                {id, ra_log_sup},
                {mfargs, {ra_log_sup, start_link, [#{name => System}]}}
            ]}
        ]
    }} end,
    Writer = {"Error in process ~p with exit value:~n~p~n", [
        self(), {Full, [{ra_log_segment_writer, open_file, 2, []}]}
    ]},
    Filtered = fun(Message) ->
        todana_ra_reports:filter(#{
            level => error, msg => Message,
            meta => #{error_logger => #{emulator => true, tag => error}}
        }, atomics:new(2, []))
    end,
    ?assertEqual([stop, ignore, ignore], in_process([], fun() ->
        [Filtered(M) || M <- [
            Supervisor(todana_always), Supervisor(default), Writer
        ]]
    end)),
    true = register(todana_foreground, self()),
    ?assertEqual(stop, in_process([], fun() -> Filtered(Writer) end)),
    true = unregister(todana_foreground).

%% A number before the cause hides it no more than a text does.
a_cause_behind_a_number_is_known_test() ->
    ?assert(todana_ra_words:is_known(
        {"segment_writer: ~b failures, ~p", [1, [{badmatch, {error, enospc}}]]}
    )),
    ?assertNot(todana_ra_words:is_known({"~b failures, ~ts", [1, "enospc"]})).

%% `todana_alone' has said why.
a_group_that_was_stopped_is_no_error_test() ->
    Report = fun(Supervisor, Reason) ->
        #{
            label => {supervisor, child_terminated},
            report => [{supervisor, {local, Supervisor}}, {reason, Reason}]
        }
    end,
    ?assertEqual([stop, stop, ignore, ignore], in_process([], fun() ->
        [
            todana_ra_reports:filter(
                #{level => error, msg => {report, R}, meta => #{}},
                atomics:new(2, [])
            )
         || R <- [
                Report(todana_group_sup, shutdown),
                Report(todana_durable_sup, shutdown),
                Report(todana_durable_sup, killed),
                Report(my_sup, shutdown)
            ]
        ]
    end)).

notices_pass_test() ->
    [ignore] = in_process(['a'], fun() ->
        Counts = atomics:new(2, []),
        Event = #{level => notice, msg => {string, "enospc"}, meta => #{}},
        [todana_ra_reports:filter(Event, Counts)]
    end).

report(Reason) ->
    Counts = case get(counts) of
        undefined ->
            New = atomics:new(2, []),
            _ = put(counts, New),
            New;
        Present ->
            Present
    end,
    Report = #{label => {gen_statem, terminate}, reason => {exit, Reason, []}},
    Event = #{level => error, msg => {report, Report}, meta => #{}},
    todana_ra_reports:filter(Event, Counts).

%% As one whose supervisor is Ra's, or not.
in_process(Kind, Do) ->
    Ancestors = [
        self() | [ra_todana_always_server_sup_sup || Kind =/= []]
    ],
    {Pid, Monitor} = spawn_monitor(fun() ->
        _ = put('$ancestors', Ancestors),
        exit({done, Do()})
    end),
    receive
        {'DOWN', Monitor, process, Pid, {done, Result}} -> Result
    end.
