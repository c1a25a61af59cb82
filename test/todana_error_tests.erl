%% What the API reports: causes, their texts, and the call that they name.
-module(todana_error_tests).

-include_lib("eunit/include/eunit.hrl").

-define(T, error_table).

errors_test_() ->
    {foreach, fun open/0, fun close/1, [
        fun texts_name_the_option_that_helps/0,
        fun options_in_a_list_are_named_as_such/0,
        fun texts_say_what_is_allowed/0,
        fun open_reports_which_options_differ/0,
        fun info_has_every_option_and_figure/0,
        {timeout, 60, fun every_function_is_named_with_its_arguments/0}
    ]}.

open() ->
    {ok, Started} = application:ensure_all_started(todana),
    {ok, _} = todana:open(?T, #{type => ordered_set}),
    Started.

close(Started) ->
    ok = todana:close(?T),
    [ok = application:stop(Application) || Application <- Started].

%% The application has the data directory, so that is not what is missing.
a_durable_table_needs_the_application_test() ->
    _ = application:stop(todana),
    ?assertEqual({badarg, 1, not_running},
                 todana_open:open(t, #{durable => true})),
    {ok, Started} = application:ensure_all_started(todana),
    ?assertEqual({badarg, 2, no_data_dir},
                 todana_open:open(t, #{durable => true})),
    [ok = application:stop(Application) || Application <- Started].

texts_name_the_option_that_helps() ->
    [
        begin
            {_, Texts} = misuse(F, [?T | Arguments]),
            #{N := Text} = maps:map(fun(_, T) -> lists:flatten(T) end, Texts),
            ?assertNotEqual(nomatch, string:find(Text, "codec => term"))
        end
     || {F, Arguments, N} <- [
            {put, [key, ~"v"], 2}, {put, [~"key", 1], 3}, {get, [key], 2},
            {compare_and_swap, [~"key", 1, v], 4}, {next, [key], 2}
        ]
    ].

options_in_a_list_are_named_as_such() ->
    List = [{ttl_ms, 1000}],
    [
        begin
            Number = length(Arguments),
            {Causes, Texts} = misuse(F, Arguments),
            ?assertEqual({F, #{Number => not_a_map}}, {F, Causes}),
            ?assertMatch("options must be a map" ++ _,
                         lists:flatten(maps:get(Number, Texts)))
        end
     || {F, Arguments} <- [
            {open, [new, [{codec, term}]]},
            {open, [db0, [{codec, term}]]},
            {put, [?T, ~"k", ~"v", List]},
            {compare_and_swap, [?T, ~"k", 1, ~"v", List]},
            {delete, [?T, ~"k", [{version, 1}]]},
            {update, [?T, ~"k", fun(_) -> keep end, List]},
            {update_counter, [?T, ~"k", 1, List]},
            {expire, [?T, ~"k", List]},
            {fetch, [?T, ~"k", fun() -> {ok, ~""} end, List]},
            {put_many, [?T, [], List]},
            {range, [?T, first, last, List]},
            {prefix, [?T, ~"", List]},
            {scan, [?T, start, List]}
        ]
    ].

texts_say_what_is_allowed() ->
    [
        begin
            {_, Texts} = misuse(F, Arguments),
            [Text] = [lists:flatten(T) || T <- maps:values(Texts)],
            ?assertNotEqual({Text, nomatch}, {Text, string:find(Text, Words)})
        end
     || {F, Arguments, Words} <- [
            {open, [new, #{codec => terms}], "codec must be raw or term"},
            {open, [new, #{entries_max => 0}], "a positive integer, or inf"},
            {open, [new, #{type => ordered_set, order => term}],
                "order => term needs option codec => term"},
            {open, [new, #{codecs => term}], "its options are type, order"},
            {set_limits, [?T, #{shards => 2}], "set_limits takes no option"},
            {put, [?T, ~"k", ~"v", 5000], "for example #{ttl_ms => 5000}"},
            {put, [~"k", ~"v", raw], "not a table"},
            {subscribe, [?T, #{events => [puts]}], "put, delete, expire"},
            {transaction, [?T, fun() -> ok end], "a function of arity 1"},
            {expire, [?T, ~"k", #{}], "must name a time"},
            {set_event_handler, [fun(_) -> ok end], "a function of arity 3"}
        ]
    ].

open_reports_which_options_differ() ->
    Exists = fun(Options) ->
        {error, {exists, Differing}} = todana:open(?T, Options),
        Differing
    end,
    Same = #{type => ordered_set},
    ?assertEqual(#{codec => {raw, term}, order => {lexical, term}},
                 Exists(Same#{codec => term})),
    ?assertEqual(#{type => {ordered_set, set}}, Exists(#{})),
    ?assertEqual(#{shards => {default, 8}}, Exists(Same#{shards => 8})),
    ?assertEqual(#{order => {lexical, decimal}, ttl_ms => {infinity, 5},
                   entries_max => {infinity, 6}, bytes_max => {infinity, 7},
                   when_full => {evict, refuse}},
                 Exists(Same#{order => decimal, ttl_ms => 5, entries_max => 6,
                              bytes_max => 7, when_full => refuse})).

info_has_every_option_and_figure() ->
    ok = todana:close(?T),
    {ok, _} = todana:open(?T, #{
        type => ordered_set, order => decimal, ttl_ms => 60_000, shards => 3,
        entries_max => 2, bytes_max => 10_000, when_full => refuse
    }),
    ok = todana:put(?T, ~"1", ~"v"),
    ok = todana:put(?T, ~"2", ~"v"),
    {error, full} = todana:put(?T, ~"3", ~"v"),
    {ok, _} = todana:get(?T, ~"1"),
    error = todana:get(?T, ~"3"),
    Bytes = todana:bytes(?T),
    ?assertEqual(
        #{
            name => ?T, type => ordered_set, order => decimal, codec => raw,
            ttl_ms => 60_000, entries_max => 2, bytes_max => 10_000,
            when_full => refuse, shards => 4,
            durable => false, entries => 2, bytes => Bytes,
            hits => 1, misses => 1, expired => 0, evicted => 0, refused => 1
        },
        todana:info(?T)
    ),
    {ok, Db3} = todana:open(db3, #{}),
    ?assertMatch(#{shards := 4096, type := set, database := 3},
                 todana:info(Db3)),
    ok = todana:close(Db3),
    ?assertEqual({#{1 => no_such_table}, info, [none]}, call(info, [none])).

%% The error names the function that was called, with the arguments that it was
%% given, and the right one of them.
every_function_is_named_with_its_arguments() ->
    Calls = [{F, arguments(F, Arity)}
             || {F, Arity} <- todana:module_info(exports),
                not lists:member({F, Arity}, [{module_info, 0}, {list, 0},
                                              {info, 0},
                                              {module_info, 1}, {open, 2}])],
    [
        begin
            {Causes, Function, Given} = call(F, Arguments),
            ?assertEqual({F, Arguments}, {Function, Given}),
            [?assert(N >= 1 andalso N =< length(Arguments))
             || N <- maps:keys(Causes)],
            case lists:member(no_table, Arguments) of
                true ->
                    [{Number, Cause}] = maps:to_list(Causes),
                    ?assertEqual({F, no_table, no_such_table},
                                 {F, lists:nth(Number, Arguments), Cause});
                false ->
                    ok
            end
        end
     || {F, Arguments} <- Calls
    ],
    %% A wrong key and a large one, which is encoded by a second call.
    {ok, _} = todana:open(terms, #{type => ordered_set, codec => term}),
    [
        ?assertEqual({#{2 => no_order}, F, [terms, Key | Rest]},
                     call(F, [terms, Key | Rest]))
     || Key <- [self(), {self(), lists:seq(1, 3000)},
                {lists:seq(1, 3000), self()}],
        {F, Rest} <- [
            {get, []}, {get, [default]}, {get_entry, []}, {is_key, []},
            {put, [1]}, {put, [1, #{}]}, {compare_and_swap, [1, 1]},
            {compare_and_swap, [1, 1, #{}]}, {take, []}, {delete, []},
            {delete, [#{version => 1}]}, {update_counter, [1]},
            {update_counter, [1, #{}]}, {ttl, []}, {expire, [1]}, {persist, []},
            {fetch, [fun() -> {ok, 1} end]},
            {fetch, [fun() -> {ok, 1} end, #{}]},
            {update, [fun(_) -> keep end]}, {update, [fun(_) -> keep end, #{}]},
            {range, [last]}, {range, [last, #{}]}, {next, []}, {prev, []}
        ]
    ],
    ok = todana:close(terms).

%% Arguments of which only the table is wrong. A function that is not listed
%% gets arguments of which any may be wrong.
arguments(fetch, 3) -> [no_table, k, fun() -> error end];
arguments(fetch, 4) -> arguments(fetch, 3) ++ [#{}];
arguments(update, 3) -> [no_table, k, fun(_) -> keep end];
arguments(update, 4) -> arguments(update, 3) ++ [#{}];
arguments(fold, 3) -> [fun(_, _, A) -> A end, [], no_table];
arguments(fold_snapshot, 3) -> arguments(fold, 3);
arguments(fold_range, 5) -> arguments(fold, 3) ++ [first, last];
arguments(set_limits, 2) -> [no_table, #{}];
arguments(get, 4) -> [no_table, k, v, #{}];
arguments(get_entry, 3) -> [no_table, k, #{}];
arguments(get_many, 3) -> [no_table, [k], #{}];
arguments(refresh, 2) -> [no_table, linear];
arguments(read_after, 2) -> [no_table, 1];
arguments(put, 4) -> [no_table, k, v, #{}];
arguments(compare_and_swap, Arity) ->
    lists:sublist([no_table, k, 1, v, #{}], Arity);
arguments(delete, 3) -> [no_table, k, #{version => 1}];
arguments(update_counter, Arity) ->
    lists:sublist([no_table, k, 1, #{}], Arity);
arguments(expire, 3) -> [no_table, k, 1];
arguments(range, Arity) -> lists:sublist([no_table, first, last, #{}], Arity);
arguments(prefix, Arity) -> lists:sublist([no_table, ~"", #{}], Arity);
arguments(scan, Arity) -> lists:sublist([no_table, start, #{}], Arity);
arguments(put_many, Arity) -> lists:sublist([no_table, [{k, v}], #{}], Arity);
arguments(Many, 2) when Many =:= get_many; Many =:= delete_many ->
    [no_table, [k]];
arguments(F, 1) when
    F =:= close; F =:= info; F =:= handle; F =:= first; F =:= last;
    F =:= count; F =:= bytes; F =:= clear; F =:= stats; F =:= index
->
    [no_table];
arguments(F, Arity) when
    F =:= get; F =:= put; F =:= get_entry; F =:= is_key; F =:= take;
    F =:= delete; F =:= ttl; F =:= persist; F =:= next; F =:= prev
->
    [no_table | lists:duplicate(Arity - 1, k)];
arguments(_, Arity) ->
    lists:duplicate(Arity, not_listed).

%% Causes, function and arguments of the error.
call(Function, Arguments) ->
    try apply(todana, Function, Arguments) of
        _ when hd(Arguments) =:= not_listed -> {#{}, Function, Arguments};
        Result -> error({no_error, Function, Arguments, Result})
    catch
        error:badarg:Stack ->
            [{todana, Name, Given, Location} | _] = Stack,
            #{cause := Causes} = proplists:get_value(error_info, Location),
            {Causes, Name, Given}
    end.

misuse(Function, Arguments) ->
    try apply(todana, Function, Arguments) of
        Result -> error({no_error, Function, Arguments, Result})
    catch
        error:badarg:Stack ->
            [{todana, _, _, Location} | _] = Stack,
            #{cause := Causes} = proplists:get_value(error_info, Location),
            {Causes, todana_error:format_error(badarg, Stack)}
    end.
