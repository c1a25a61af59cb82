%% `bin/todana ping', `stop', `reload', `clock' and `top': asks the running node
%% by its control socket, and prints the answers.
-module(todana_admin_cli).
-moduledoc false.

-export([ping/1, stop/1, reload/1, status/1, top/2]).
-export([clock/1, set_clock/2, await_end/1]).
%% For tests
-export([clocks/1]).

-define(TIMEOUT_MS, 60_000).
%% A node may write a snapshot when it stops.
-define(STOP_TIMEOUT_MS, 180_000).
%% From the end of the connection to that of the process.
-define(END_TIMEOUT_MS, 10_000).
-define(POLL_MS, 20).
-define(TOP_MS, 1_000).
-define(CLEAR, "\e[H\e[2J").

-doc "Exit status 0 if the node serves.".
-spec ping(file:filename()) -> no_return().
ping(Path) ->
    case ask("ping", Path, ping, ?TIMEOUT_MS) of
        #{~"ready" := true, ~"pid" := Pid} ->
            finish(["serving, process ", Pid, $\n]);
        #{~"reason" := Reason} ->
            throw(["ping: the node does not serve: ", Reason])
    end.

-doc "Stops the node, and returns when it has ended.".
-spec stop(file:filename()) -> no_return().
stop(Path) ->
    #{~"pid" := Pid} = ask("stop", Path, stop, ?STOP_TIMEOUT_MS),
    ok = await_end(Pid),
    finish("stopped\n").

-doc """
Returns when a process has ended, which is seen only if it is of the same
container, or after a while.
""".
-spec await_end(binary()) -> ok.
await_end(Pid) ->
    await_end(binary_to_list(Pid), ?END_TIMEOUT_MS div ?POLL_MS).

-spec await_end(string(), non_neg_integer()) -> ok.
await_end(Pid, Left) ->
    IsNumber = lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Pid),
    case IsNumber andalso os:cmd("kill -0 " ++ Pid ++ " 2>&1") of
        "" when Left > 0 ->
            timer:sleep(?POLL_MS),
            await_end(Pid, Left - 1);
        _ ->
            ok
    end.

-doc "Prints what has changed.".
-spec reload(file:filename()) -> no_return().
reload(Path) ->
    case ask("reload", Path, reload, ?TIMEOUT_MS) of
        [] -> finish("nothing has changed\n");
        Lines -> finish([[Line, $\n] || Line <- Lines])
    end.

-doc "Prints the time of the log and the clocks.".
-spec clock(file:filename()) -> no_return().
clock(Path) ->
    finish(clocks(ask("clock", Path, clock, ?TIMEOUT_MS))).

-doc "Sets the time of the log, or prints what that would do.".
-spec set_clock(file:filename(), boolean()) -> no_return().
set_clock(Path, true) ->
    #{~"by_ms" := ByMs} = ask("clock set", Path, clock_set, ?TIMEOUT_MS),
    finish(["the time of the log was set ", moved(ByMs), $\n]);
set_clock(Path, false) ->
    #{~"clock_early_ms" := Ms} = Clock = ask("clock", Path, clock, ?TIMEOUT_MS),
    finish([clocks(Clock), $\n, would(Ms)]).

-doc "The times and what they mean, for the answer of `clock`.".
-spec clocks(map()) -> iodata().
clocks(#{~"now_ms" := NowMs, ~"wall_ms" := WallMs} = Clock) ->
    #{~"clock_early_ms" := EarlyMs} = Clock,
    [
        "time of the log      ", at(NowMs), $\n,
        "clock of this node   ", at(WallMs),
        differs(NowMs - WallMs), $\n,
        "the log's time is    ", case EarlyMs of
            0 -> "right\n";
            _ -> [moved(EarlyMs), " of the clocks, and is corrected slowly\n"]
        end,
        own(NowMs - WallMs, EarlyMs)
    ].

%% The figure of the warning in the log, and of `status'.
-spec differs(integer()) -> iodata().
differs(Ms) ->
    case todana_status_text:clock_differs(Ms) of
        none -> "";
        Text -> [", ", Text]
    end.

%% The median of the clocks may be right where this one is not.
-spec own(integer(), integer()) -> iodata().
own(DiffersMs, EarlyMs) ->
    case todana_status_text:clock_differs(DiffersMs - EarlyMs) of
        none -> "";
        _ -> "this node's clock is wrong: set it. The warning in the log ends "
             "when the clock agrees again\n"
    end.

-spec would(integer()) -> iodata().
would(0) ->
    "There is nothing to set.\n";
would(EarlyMs) ->
    [
        "`clock set --yes` sets the time of the log ", moved(-EarlyMs), ".\n"
        "Then records whose time of expiry a client gave (EXPIREAT, EXAT) "
        "expire when\nit said. Records with a time to live ",
        case EarlyMs > 0 of
            true -> "that were written with the wrong time\nlive longer";
            false -> "live shorter"
        end,
        " by this time.\n"
    ].

-spec moved(integer()) -> iodata().
moved(Ms) ->
    Word = if Ms < 0 -> "back"; true -> "ahead" end,
    io_lib:format("~.1f s ~s", [abs(Ms) / 1000, Word]).

-spec at(integer()) -> string().
at(Ms) ->
    calendar:system_time_to_rfc3339(Ms, [{unit, millisecond}, {offset, "Z"}]).

-doc "The figures of a node without a data directory.".
-spec status(file:filename()) -> map().
status(Path) -> figures("status", Path).

-doc """
A screen, or a line of JSON, each second; only one with `once`.
""".
-spec top(file:filename(), #{once := boolean(), json := boolean()}) ->
    no_return().
top(Path, Options) ->
    top(Path, Options, figures("top", Path)).

-spec top(file:filename(), #{once := boolean(), json := boolean()}, map()) ->
    no_return().
top(Path, #{once := Once, json := Json} = Options, Before) ->
    timer:sleep(?TOP_MS),
    Now = figures("top", Path),
    Rates = todana_top:rates(Before, Now),
    Text =
        case Json of
            true -> [json:encode(Rates), $\n];
            false -> todana_top:screen(Rates)
        end,
    case Once of
        true ->
            finish(Text);
        false ->
            io:put_chars([[?CLEAR || not Json], Text]),
            top(Path, Options, Now)
    end.

-spec figures(string(), file:filename()) -> map().
figures(Command, Path) ->
    ask(Command, Path, figures, ?TIMEOUT_MS).

-spec ask(string(), file:filename(), atom(), timeout()) -> dynamic().
ask(Command, Path, Request, TimeoutMs) ->
    case todana_control:ask(Path, #{command => Request}, TimeoutMs) of
        {ok, Answer} ->
            Answer;
        {error, no_node} ->
            throw([Command, ": ", todana_control_path:no_node(Path)]);
        {error, Sentence} ->
            throw([Command, ": ", Sentence])
    end.

-spec finish(unicode:chardata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).
