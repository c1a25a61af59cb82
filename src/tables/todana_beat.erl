%% Wakes the processes that look at something once a second, all at one moment.
%%
%% An idle node wakes up for this alone. A timer for each process would wake it
%% a dozen times a second. Work that cannot wait so long has a timer of its own,
%% and only while there is some.
%%
%% Each process gets the message `beat', and looks when it starts, too. One that
%% does not run is passed over.
-module(todana_beat).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, flush/0, interval_ms/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(INTERVAL_MS, 1_000).
%% By their registered names.
-define(WOKEN, [
    todana_sweeper, todana_log_events,
    todana_disk, todana_group, todana_batcher, todana_clock, todana_status,
    todana_read_index, todana_watchdog, todana_copies, todana_agreement,
    todana_membership, todana_topology
]).

-doc "Starts the process.".
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "Between two beats.".
-spec interval_ms() -> pos_integer().
interval_ms() -> ?INTERVAL_MS.

-doc """
Drops the beats that have come while the caller waited for something: one look
is enough.
""".
-spec flush() -> ok.
flush() ->
    receive
        beat -> flush()
    after 0 -> ok
    end.

-spec init([]) -> {ok, no_state}.
init([]) ->
    ok = again(),
    {ok, no_state}.

-spec handle_call(term(), gen_server:from(), no_state) ->
    {reply, ok, no_state}.
handle_call(_Request, _From, no_state) ->
    {reply, ok, no_state}.

-spec handle_cast(term(), no_state) -> {noreply, no_state}.
handle_cast(_Message, no_state) ->
    {noreply, no_state}.

-spec handle_info(term(), no_state) -> {noreply, no_state}.
handle_info(beat, no_state) ->
    ok = again(),
    _ = [Pid ! beat || Name <- ?WOKEN, Pid <- [whereis(Name)], is_pid(Pid)],
    {noreply, no_state};
handle_info(_Message, no_state) ->
    {noreply, no_state}.

-spec again() -> ok.
again() ->
    _ = erlang:send_after(?INTERVAL_MS, self(), beat),
    ok.
