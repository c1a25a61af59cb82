%% A node that was started by the command line: it ends if its durable databases
%% cannot serve.
%%
%% A process waits for the failures that `todana_foreground' reports, and for
%% the end of the application.
-module(todana_serving).
-moduledoc false.

-export([start/0, when_serving/1]).
%% Processes
-export([watch/0, await_and_do/1]).

%% The name of the process, by which `todana_foreground' finds it.
-define(NAME, todana_foreground).
-define(POLL_MS, 10).
-define(PROGRESS_EVERY_MS, 5_000).

-doc "Starts the process. Called before the application is started.".
-spec start() -> ok.
start() ->
    Pid = spawn(?MODULE, watch, []),
    true = register(?NAME, Pid),
    ok.

-doc """
Calls this fun once the durable databases can be read and written, or only read
because the disk has no room. Logs the progress until then. Returns at once.
""".
-spec when_serving(fun(() -> ok)) -> ok.
when_serving(Do) ->
    ?NAME ! started,
    _ = spawn(?MODULE, await_and_do, [Do]),
    ok.

-spec await_and_do(fun(() -> ok)) -> ok.
await_and_do(Do) ->
    ok = await_serving(erlang:monotonic_time(millisecond)),
    ?NAME ! serving,
    Do().

%% Without the application the node is about to end.
-spec await_serving(integer()) -> ok.
await_serving(LoggedMs) ->
    case {whereis(todana_sup), todana_nif:durable_state()} of
        {Pid, State} when is_pid(Pid), State =/= closed ->
            ok;
        _ ->
            timer:sleep(?POLL_MS),
            await_serving(progress(LoggedMs))
    end.

-spec progress(integer()) -> integer().
progress(LoggedMs) ->
    NowMs = erlang:monotonic_time(millisecond),
    case NowMs - LoggedMs >= ?PROGRESS_EVERY_MS andalso todana_status:info() of
        false ->
            LoggedMs;
        #{state := recovering, progress := Percent} ->
            logger:notice("todana: the durable databases are being read, ~b %",
                          [Percent]),
            NowMs;
        #{} ->
            NowMs
    end.

%% --------------------------------------------------------------- process ---

-spec watch() -> no_return().
watch() -> watch(starting).

-spec watch(starting | serving) -> no_return().
watch(State) ->
    receive
        started ->
            _ = monitor(process, todana_sup),
            watch(State);
        %% From here on reads go on without the log, and `todana_group'
        %% reports failures itself.
        serving ->
            true = unregister(?NAME),
            watch(serving);
        {failed, Sentence, final, _Attempts} ->
            stop(Sentence);
        {failed, Sentence, Failure, Attempts} when State =:= starting ->
            case todana_foreground:is_over(Failure, Attempts) of
                true ->
                    stop(io_lib:format("~ts (~b attempts)",
                                       [Sentence, Attempts]));
                false ->
                    watch(State)
            end;
        {'DOWN', _, process, _, Reason} ->
            ended(Reason);
        _ ->
            watch(State)
    end.

-spec stop(iodata()) -> no_return().
stop(Sentence) ->
    %% What follows are reports of the same failure.
    ok = logger:set_primary_config(level, none),
    ok = todana_log:flush(),
    io:put_chars(standard_error, ["todana: ", Sentence, $\n]),
    halt(1).

%% Ends the emulator if the application has ended by itself.
-spec ended(term()) -> ok.
ended(Reason) ->
    case init:get_status() of
        {stopping, _} ->
            ok;
        _ ->
            logger:error("todana: the server has ended: ~0tp", [Reason]),
            ok = todana_log:flush(),
            halt(1)
    end.
