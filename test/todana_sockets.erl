%% For tests: clients of the network protocols of a node, in text.
-module(todana_sockets).

-export([connect/1, connect/2, lines/2, line/1]).

-define(WAIT_MS, 20_000).

connect(Node) -> connect(Node, resp).

connect(Node, Protocol) ->
    Addresses = todana_peers:rpc(Node, todana_listener, addresses, []) ++
        todana_peers:rpc(Node, todana_http, addresses, []),
    {Protocol, Address} = lists:keyfind(Protocol, 1, Addresses),
    [_, Port] = string:split(Address, ":", trailing),
    {ok, Socket} = gen_tcp:connect(
        {127, 0, 0, 1}, list_to_integer(Port), [binary, {active, false}]
    ),
    Socket.

lines(Socket, Count) -> [line(Socket) || _ <- lists:seq(1, Count)].

%% With its end.
line(Socket) -> line(Socket, <<>>).

line(Socket, Line) ->
    case binary:longest_common_suffix([Line, ~"\r\n"]) of
        2 -> Line;
        _ ->
            {ok, Byte} = gen_tcp:recv(Socket, 1, ?WAIT_MS),
            line(Socket, <<Line/binary, Byte/binary>>)
    end.
