%% Logs what happens in the native server: its own lines, and what it counts.
%%
%% Once a second the counters are compared with their last values. For each
%% subject there is at most one line in ten seconds, with all that happened
%% since the one before. No request pays for it.
-module(todana_log_events).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, lines/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([incidents/0]).

-define(PAUSE_MS, 10_000).
%% Of the slow log, at each look.
-define(SLOW_MAX, 128).

-type incidents() :: #{binary() => non_neg_integer() | binary()}.
-type slow() :: {
    Id :: non_neg_integer(), AtS :: non_neg_integer(),
    Micros :: non_neg_integer(), Command :: binary(), Address :: binary()
}.

-record(state, {
    %% The counters when a line of the subject was written last.
    seen = #{} :: incidents(),
    %% When a line of the subject may be written again.
    again_ms = #{} :: #{term() => integer()},
    %% Of the last entry of the slow log that was looked at.
    slow_id = -1 :: integer(),
    slow = [] :: [slow()],
    %% Whether the log has it that the server does not work.
    is_hung = false :: boolean()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    ok = todana_nif:log_attach(self()),
    %% What happened before was logged by a predecessor, or never happened.
    {ok, #state{
        seen = todana_listener:incidents(),
        slow_id = lists:max([-1 | ids(todana_listener:slow_log(1))])
    }}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana_line, Level, Line}, State) ->
    logger:log(Level, "todana: ~ts", [Line]),
    {noreply, State};
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    %% A server that is busy, or starts again, is looked at later.
    try
        {noreply, look(State)}
    catch
        exit:_ -> {noreply, State}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

-spec look(#state{}) -> #state{}.
look(State) ->
    NowMs = erlang:monotonic_time(millisecond),
    look_at_slow(NowMs, look_at_counters(NowMs, look_at_health(State))).

%% A watchdog kills such a process, and then only the log knows why.
-spec look_at_health(#state{}) -> #state{}.
look_at_health(#state{is_hung = WasHung} = State) ->
    case todana_health:live() of
        ok ->
            State#state{is_hung = false};
        {error, Why} when not WasHung ->
            logger:error("todana: ~ts", [Why]),
            State#state{is_hung = true};
        {error, _} ->
            State
    end.

-spec look_at_counters(integer(), #state{}) -> #state{}.
look_at_counters(NowMs, #state{seen = Seen, again_ms = Again} = State) ->
    Now = todana_listener:incidents(),
    Lines = [
        Line
     || {Key, _, _} = Line <- lines(Seen, Now),
        maps:get(Key, Again, NowMs) =< NowMs
    ],
    ok = lists:foreach(
        fun({_, Level, Text}) -> logger:log(Level, "todana: ~ts", [Text]) end,
        Lines
    ),
    Written = [Key || {Key, _, _} <- Lines],
    State#state{
        seen = maps:merge(Seen, maps:with(Written, Now)),
        again_ms = maps:merge(Again, maps:from_keys(Written, NowMs + ?PAUSE_MS))
    }.

-doc "The lines for what was counted between two looks.".
-spec lines(incidents(), incidents()) -> [{binary(), logger:level(), iodata()}].
lines(Before, Now) ->
    [
        {Key, Level, Text(Count - Old, Now)}
     || {Key, Level, Text} <- subjects(),
        #{Key := Count} <- [Now],
        %% A server that was started again begins at 0.
        Old <- [case Before of
            #{Key := Seen} when Seen =< Count -> Seen;
            #{} -> 0
        end],
        Count > Old
    ].

-spec subjects() ->
    [{
        binary(), logger:level(),
        fun((pos_integer(), incidents()) -> iodata())
    }].
subjects() ->
    Plain = fun(Format, One, Many) ->
        fun(N, _) -> io_lib:format(Format, [N, noun(N, One, Many)]) end
    end,
    [
        {~"connections_rejected", warning,
            Plain("~b ~s rejected, because connections_max clients are "
                  "connected", "client was", "clients were")},
        {~"authentication_failures", warning, fun(N, Now) ->
            io_lib:format("~b ~s given, the last one from ~ts", [
                N, noun(N, "wrong password was", "wrong passwords were"),
                maps:get(~"last_failure", Now, ~"")
            ])
        end},
        {~"output_limit_disconnections", warning,
            Plain("~b ~s their replies (output_bytes_hard, output_bytes_soft)",
                  "client was closed, because it did not read",
                  "clients were closed, because they did not read")},
        {~"evicted", notice,
            Plain("~b ~s evicted to make room (memory_limit, or the limit of a "
                  "database)", "record was", "records were")},
        {~"refused", warning,
            Plain("~b ~s refused, because there was no room (memory_limit, or "
                  "the limit of a database)", "write was", "writes were")}
    ].

-spec noun(pos_integer(), string(), string()) -> string().
noun(1, One, _Many) -> One;
noun(_, _One, Many) -> Many.

%% The oldest ones first; those between two lines are counted, and the slowest
%% of them is named. Without the arguments, which may be secret.
-spec look_at_slow(integer(), #state{}) -> #state{}.
look_at_slow(NowMs, #state{slow_id = Last, slow = Old} = State) ->
    New = [
        Entry
     || {Id, _, _, _, _} = Entry <- todana_listener:slow_log(?SLOW_MAX),
        Id > Last
    ],
    Waiting = New ++ Old,
    Next = State#state{
        slow_id = lists:max([Last | ids(New)]), slow = Waiting
    },
    case maps:get(slow, State#state.again_ms, NowMs) =< NowMs of
        true when Waiting =/= [] ->
            logger:warning("todana: ~ts", [slow(Waiting)]),
            Again = (Next#state.again_ms)#{slow => NowMs + ?PAUSE_MS},
            Next#state{slow = [], again_ms = Again};
        _ ->
            Next
    end.

-spec slow([slow(), ...]) -> iodata().
slow(Entries) ->
    {_, _, Micros, Command, Address} = lists:last(lists:keysort(3, Entries)),
    [
        case length(Entries) of
            1 -> "a command was slow: ";
            N -> io_lib:format("~b commands were slow (slow_log_us), most of "
                               "all ", [N])
        end,
        io_lib:format("~ts of ~ts took ~.1f ms", [Command, Address,
                                                  Micros / 1_000])
    ].

-spec ids([slow()]) -> [non_neg_integer()].
ids(Entries) -> [element(1, Entry) || Entry <- Entries].
