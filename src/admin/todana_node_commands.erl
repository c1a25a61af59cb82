%% The commands of `bin/todana' for one node, at that node.
-module(todana_node_commands).
-moduledoc false.

-export([run/1, own_process/0]).

-export_type([result/0, write/0]).

-type result() ::
    {ok, json:encode_value()}
    %% The node ends after the answer.
    | {stop, json:encode_value()}
    %% It ends by itself, or the application does.
    | {ends, json:encode_value()}
    %% The answer is what this function sends.
    | {write, write()}
    %% The function reads more of the client, and has the answer.
    | {read, fun((todana_load:next()) -> result())}
    | {error, unicode:chardata()}.
-type write() ::
    fun((fun((binary()) -> ok | {error, term()})) -> ok | {error, term()}).

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
run(~"backup") ->
    case todana_backup:prepare() of
        {ok, Backup} ->
            {write, fun(Send) -> todana_backup:send(Backup, Send) end};
        {error, Sentence} ->
            {error, Sentence}
    end;
run(~"clock") ->
    case has_log() andalso todana_clock:info(todana_raft_groups:first()) of
        #{now_ms := _} = Info -> {ok, Info};
        #{} -> {error, "this node does not know the time of its log yet"};
        false -> {error, "this node has no durable databases"}
    end;
run(~"clock_set") ->
    case has_log() andalso todana_clock:set(todana_raft_groups:first()) of
        {ok, ByMs} -> {ok, #{by_ms => ByMs}};
        {error, Sentence} -> {error, Sentence};
        false -> {error, "this node has no durable databases"}
    end;
run(~"load") ->
    {read, fun todana_load:run/1};
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

-spec has_log() -> boolean().
has_log() ->
    Name = todana_raft_groups:name(todana_clock, todana_raft_groups:first()),
    whereis(Name) =/= undefined.

-doc "The process that ends with the node, unless that is another release's.".
-spec own_process() -> json:encode_value().
own_process() ->
    case todana_reload:is_running() of
        true -> #{pid => pid()};
        false -> true
    end.

-spec pid() -> binary().
pid() -> list_to_binary(os:getpid()).
