%% Native records (`-record #name{}.`), which Erlang/OTP 29 introduced, are
%% values of tables with codec `term`, and misuse in keys.
-module(todana_record_tests).

-include_lib("eunit/include/eunit.hrl").

-define(SOURCE, [
    "-module(todana_native_record).",
    "-export([make/1]).",
    "-record #state{a = none, b = 2}.",
    "make(A) -> #state{a = A}."
]).

native_records_test_() ->
    case compiled() of
        {ok, Module} ->
            {foreach, fun() -> start(Module) end, fun stop/1, [
                fun are_values/1,
                fun are_refused_in_keys/1,
                fun are_refused_in_keys_of_an_ordered_table/1,
                fun are_not_iodata/1
            ]};
        error ->
            Release = erlang:system_info(otp_release),
            ?debugFmt("skipped: no native records in OTP ~s", [Release]),
            []
    end.

are_values(Record) ->
    Values = [Record, {Record}, [a | Record], #{Record => Record}],
    [
        ?_test(begin
            ok = todana:put(Table, a, Value),
            ?assertEqual({ok, Value}, todana:get(Table, a)),
            ?assertEqual([{a, Value}], todana:to_list(Table))
        end)
     || Table <- [set, ordered], Value <- Values
    ].

are_refused_in_keys(Record) ->
    [?_assertEqual(#{2 => native_record}, cause(Call, [set, Key | Rest]))
     || Key <- keys(Record), {Call, Rest} <- calls()].

are_refused_in_keys_of_an_ordered_table(Record) ->
    [?_assertEqual(#{2 => no_order}, cause(Call, [ordered, Key | Rest]))
     || Key <- keys(Record),
        {Call, Rest} <- [{prefix, []}, {next, []} | calls()]].

are_not_iodata(Record) ->
    [
        ?_assertEqual(#{2 => not_iodata}, cause(put, [raw, Record, v])),
        ?_assertEqual(#{2 => not_iodata}, cause(put, [raw, [Record], v])),
        ?_assertEqual(#{3 => not_iodata}, cause(put, [raw, ~"k", Record])),
        ?_assertEqual(#{3 => not_iodata}, cause(put, [raw, ~"k", [Record]]))
    ].

keys(Record) ->
    [Record, {Record}, {a, [Record]}, [a | Record], #{Record => 1},
     #{a => Record}, {Record, lists:seq(1, 3000)}].

calls() ->
    [{put, [v]}, {get, []}, {put, [v, #{ttl_ms => 1000}]}, {delete, []}].

start(Module) ->
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(set, #{codec => term}),
    {ok, _} = todana:open(ordered, #{codec => term, type => ordered_set}),
    {ok, _} = todana:open(raw, #{}),
    Module:make({self(), <<1:1>>}).

stop(_Record) ->
    [ok = todana:close(Table) || Table <- [set, ordered, raw]],
    application:stop(todana).

%% Loads a module with a native record, if this version of Erlang has them.
compiled() ->
    case compile:forms(forms(?SOURCE, 1), [return_errors]) of
        {ok, Module, Beam} ->
            {module, Module} = code:load_binary(Module, "", Beam),
            {ok, Module};
        _ ->
            error
    end.

%% A form that does not parse becomes one that the compiler refuses.
forms([], _Line) ->
    [];
forms([Text | Rest], Line) ->
    {ok, Tokens, _} = erl_scan:string(Text, Line),
    Form =
        case erl_parse:parse_form(Tokens) of
            {ok, Parsed} -> Parsed;
            {error, Reason} -> {error, Reason}
        end,
    [Form | forms(Rest, Line + 1)].

cause(Function, Arguments) ->
    try
        {no_misuse, apply(todana, Function, Arguments)}
    catch
        error:badarg:Stack ->
            [{todana, _, _, Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            #{} = todana_error:format_error(badarg, Stack),
            Cause
    end.
