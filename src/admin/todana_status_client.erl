%% Asks a node that runs how its log is doing: the client of the socket of
%% `todana_status'.
-module(todana_status_client).
-moduledoc false.

-export([ask/1]).

-define(ASK_TIMEOUT_MS, 10_000).

-doc "Asks the node that uses this data directory; its JSON object.".
-spec ask(file:filename()) -> {ok, map()} | {error, string()}.
ask(DataDir) ->
    Path = todana_status:socket(filename:absname(DataDir)),
    Options = [binary, {active, false}],
    maybe
        ok ?= todana_status:fits(Path),
        {ok, Socket} ?= gen_tcp:connect({local, Path}, 0, Options,
                                        ?ASK_TIMEOUT_MS),
        {ok, [_ | _] = Parts} ?= receive_all(Socket, []),
        {ok, json:decode(iolist_to_binary(Parts))}
    else
        {ok, []} ->
            {error, Path ++ ": the node closed the connection"};
        {error, timeout} ->
            {error, Path ++ ": the node does not answer"};
        {error, Reason} when Reason =:= enoent; Reason =:= econnrefused ->
            {error, unicode:characters_to_list(
                todana_control_path:no_node(Path)
            )};
        {error, Reason} ->
            {error, lists:flatten(io_lib:format(
                "~ts: ~ts", [Path, inet:format_error(Reason)]
            ))}
    end.

-spec receive_all(gen_tcp:socket(), [binary()]) ->
    {ok, [binary()]} | {error, term()}.
receive_all(Socket, Parts) ->
    case gen_tcp:recv(Socket, 0, ?ASK_TIMEOUT_MS) of
        {ok, Bytes} -> receive_all(Socket, [Bytes | Parts]);
        {error, closed} -> {ok, lists:reverse(Parts)};
        {error, _} = Error -> Error
    end.
