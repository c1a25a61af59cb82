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

-export([start_link/1, flush/0, interval_ms/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(INTERVAL_MS, 1_000).
-doc "Starts the process, which wakes those with these registered names.".
-spec start_link([atom()]) -> gen_server:start_ret().
start_link(Names) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Names, []).

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

-spec init([atom()]) -> {ok, [atom()]}.
init(Names) ->
    ok = again(),
    {ok, Names}.

-spec handle_call(term(), gen_server:from(), [atom()]) ->
    {reply, ok, [atom()]}.
handle_call(_Request, _From, Names) ->
    {reply, ok, Names}.

-spec handle_cast(term(), [atom()]) -> {noreply, [atom()]}.
handle_cast(_Message, Names) ->
    {noreply, Names}.

-spec handle_info(term(), [atom()]) -> {noreply, [atom()]}.
handle_info(beat, Names) ->
    ok = again(),
    _ = [Pid ! beat || Name <- Names, Pid <- [whereis(Name)], is_pid(Pid)],
    {noreply, Names};
handle_info(_Message, Names) ->
    {noreply, Names}.

-spec again() -> ok.
again() ->
    _ = erlang:send_after(?INTERVAL_MS, self(), beat),
    ok.
