%% The commands of `bin/todana' for one node, at that node.
-module(todana_node_commands).
-moduledoc false.

-export([run/1]).

-export_type([result/0]).

-type result() ::
    {ok, json:encode_value()}
    %% The node ends after the answer.
    | {stop, json:encode_value()}
    | {error, unicode:chardata()}.

-doc "Runs a command of `todana_control'; `unknown` if it is not one of these.".
-spec run(binary()) -> result() | unknown.
run(~"ping") ->
    case todana_health:ready() of
        ok -> {ok, #{ready => true, pid => pid()}};
        {error, Why} -> {ok, #{ready => false, reason => Why, pid => pid()}}
    end;
run(~"figures") ->
    Value = todana_status_json:value(todana_figures:collect()),
    {ok, Value#{slow_log => [
        #{at_s => AtS, us => Micros, command => Command, client => Address}
     || {_Id, AtS, Micros, Command, Address} <- todana_listener:slow_log(8)
    ]}};
run(~"reload") ->
    todana_reload:run();
run(~"stop") ->
    case todana_reload:is_running() of
        true ->
            logger:notice("todana: `stop` was called"),
            {stop, #{pid => pid()}};
        false ->
            {error, "this node is part of another release, which stops it"}
    end;
run(_Command) ->
    unknown.

-spec pid() -> binary().
pid() -> list_to_binary(os:getpid()).
