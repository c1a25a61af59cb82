%% Notifies systemd of the state of the node, in a unit of `Type=notify': that
%% it serves, that it stops, and, with `WatchdogSec', that it lives.
%%
%% Without $NOTIFY_SOCKET there is no such process, and the calls do nothing.
-module(todana_systemd).
-moduledoc false.

-export([start/0, ready/0, stopping/0, address/1]).
%% Process
-export([init/2]).

%% How often it says its state. While the node reads its log, or stops, it asks
%% for more time then.
-define(EVERY_MS, 5_000).
-define(EXTEND_US, 60_000_000).

-doc "Starts the process, if systemd waits for notifications.".
-spec start() -> ok.
start() ->
    case os:getenv("NOTIFY_SOCKET", "") of
        "" ->
            ok;
        Path ->
            Watchdog = string:to_integer(os:getenv("WATCHDOG_USEC", "")),
            EveryMs =
                case Watchdog of
                    {Us, ""} when is_integer(Us), Us > 0 ->
                        max(1, min(Us div 2_000, ?EVERY_MS));
                    _ -> ?EVERY_MS
                end,
            true = register(
                ?MODULE, spawn(?MODULE, init, [address(Path), EveryMs])
            ),
            ok
    end.

-doc "A name that begins with `@` is no file.".
-spec address(string()) -> {local, binary()}.
address("@" ++ Name) ->
    {local, <<0, (unicode:characters_to_binary(Name))/binary>>};
address(Path) ->
    {local, unicode:characters_to_binary(Path)}.

-doc "The node serves.".
-spec ready() -> ok.
ready() -> say(ready).

-doc "The node stops.".
-spec stopping() -> ok.
stopping() -> say(stopping).

-spec say(ready | stopping) -> ok.
say(Word) ->
    case whereis(?MODULE) of
        undefined ->
            ok;
        Pid ->
            Pid ! Word,
            ok
    end.

-spec init({local, binary()}, pos_integer()) -> no_return().
init(Address, EveryMs) ->
    {ok, Socket} = gen_udp:open(0, [local, {active, false}]),
    loop(Socket, Address, EveryMs, starting).

-spec loop(
    gen_udp:socket(), {local, binary()}, pos_integer(),
    starting | serving | stopping
) -> no_return().
loop(Socket, Address, EveryMs, State) ->
    Send = fun(Lines) ->
        %% If systemd does not listen, nobody misses it.
        _ = gen_udp:send(Socket, Address, 0, lists:join($\n, Lines)),
        ok
    end,
    PauseMs =
        case State of
            serving -> EveryMs;
            _ -> ?EVERY_MS
        end,
    receive
        ready ->
            ok = Send(["READY=1", "STATUS=serving"]),
            loop(Socket, Address, EveryMs, serving);
        stopping ->
            ok = Send(["STOPPING=1", "STATUS=stopping", extend()]),
            loop(Socket, Address, EveryMs, stopping);
        _ ->
            loop(Socket, Address, EveryMs, State)
    after PauseMs ->
        _ = case {State, State =:= serving andalso todana_health:live()} of
            {serving, ok} ->
                ok = Send(["WATCHDOG=1"]),
                %% A log that is slow to answer is no reason to be killed.
                spawn(fun() -> Send([["STATUS=", state("serving")]]) end);
            {serving, {error, Why}} -> Send([["STATUS=", Why]]);
            {starting, _} ->
                Send([["STATUS=", state("starting")], extend()]);
            {stopping, _} -> Send([extend()])
        end,
        loop(Socket, Address, EveryMs, State)
    end.

-spec extend() -> iodata().
extend() ->
    ["EXTEND_TIMEOUT_USEC=", integer_to_list(?EXTEND_US)].

-spec state(iodata()) -> iodata().
state(Word) ->
    case todana_health:ready() of
        ok -> Word;
        {error, Why} -> Why
    end.
