%% Evaluates expressions that a test sends to the node.
%%
%% The test listens on a port, whose number is in the environment, and starts
%% the node with `-s erlang_door'. Each process of this module connects to it,
%% reads one expression per line and answers each with one line.
-module(erlang_door).
-moduledoc false.

-export([start/0]).

-define(PROCESSES, 3).

-spec start() -> ok.
start() ->
    Port = list_to_integer(os:getenv("ERLANG_DOOR_PORT")),
    lists:foreach(
        fun(_) -> spawn(fun() -> serve(Port) end) end,
        lists:seq(1, ?PROCESSES)
    ).

-spec serve(inet:port_number()) -> no_return() | ok.
serve(Port) ->
    Options = [binary, {active, false}, {packet, line}, {buffer, 1 bsl 20}],
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, Options),
    loop(Socket).

-spec loop(gen_tcp:socket()) -> ok.
loop(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            Answer = io_lib:format("~0p~n", [value(binary_to_list(Line))]),
            ok = gen_tcp:send(Socket, Answer),
            loop(Socket);
        {error, closed} ->
            ok
    end.

-spec value(string()) -> term().
value(Line) ->
    {ok, Tokens, _} = erl_scan:string(Line),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    try erl_eval:exprs(Expressions, []) of
        {value, Value, _} -> Value
    catch
        Class:Reason -> {Class, Reason}
    end.
