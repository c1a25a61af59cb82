%% Removes expired records in the background.
%%
%% Readers never see an expired record; this process frees the memory. At each
%% interval it sweeps every table until no record is due, in slices between
%% which the scheduler may run other processes. While no record expires and
%% nobody writes, it sweeps once a second.
%%
%% Once a second it also gives the memory of tables that have shrunk back to the
%% system.
-module(todana_sweeper).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, sweep/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Removing a record takes two microseconds or less.
-define(RECORDS_PER_SLICE, 256).

-record(state, {
    interval_ms :: pos_integer(),
    %% Whether the next interval ends some time.
    is_waiting = false :: boolean(),
    %% What the tables had been written when they were swept last.
    written = none :: non_neg_integer() | none
}).

-doc "Starts the process.".
-spec start_link(pos_integer()) -> gen_server:start_ret().
start_link(IntervalMs) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, IntervalMs, []).

-doc "Sweeps now; returns the number of records removed.".
-spec sweep() -> non_neg_integer().
sweep() ->
    gen_server:call(?MODULE, sweep, infinity).

-spec init(pos_integer()) -> {ok, #state{}}.
init(IntervalMs) ->
    {ok, again(#state{interval_ms = IntervalMs})}.

-spec handle_call(sweep, gen_server:from(), #state{}) ->
    {reply, non_neg_integer(), #state{}}.
handle_call(sweep, _From, State) ->
    {reply, sweep_tables(), again(State)}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(sweep, State) ->
    {noreply, swept(State#state{is_waiting = false})};
handle_info(beat, #state{is_waiting = IsWaiting} = State) ->
    ok = todana_nif:release_memory(),
    %% If the next sweep has no interval to wait for, it is now.
    {noreply, if IsWaiting -> State; true -> swept(State) end};
handle_info(_Message, State) ->
    {noreply, State}.

%% If nobody has written since the last sweep, and nothing expires, the next one
%% comes with the beat.
-spec swept(#state{}) -> #state{}.
swept(#state{written = Before, interval_ms = IntervalMs} = State) ->
    _ = sweep_tables(),
    %% The beat is no reason to sweep more often than was asked for.
    MayRest = IntervalMs < todana_beat:interval_ms(),
    case todana_nif:sweep_rest() of
        Before when Before =/= none, MayRest -> State;
        Written -> again(State#state{written = Written})
    end.

-spec again(#state{}) -> #state{}.
again(#state{is_waiting = true} = State) ->
    State;
again(#state{interval_ms = IntervalMs} = State) ->
    _ = erlang:send_after(IntervalMs, self(), sweep),
    State#state{is_waiting = true}.

-spec sweep_tables() -> non_neg_integer().
sweep_tables() ->
    lists:sum([sweep_table(Handle, 0) || {_, Handle} <- todana_nif:tables()]).

-spec sweep_table(reference(), non_neg_integer()) -> non_neg_integer().
sweep_table(Handle, Removed) ->
    case slice(Handle) of
        {More, true} -> sweep_table(Handle, Removed + More);
        {Last, false} -> Removed + Last;
        %% The table has been closed meanwhile.
        {badarg, _, _} -> Removed
    end.

-spec slice(reference()) ->
    {non_neg_integer(), boolean()} | todana_nif:misuse().
slice(Handle) ->
    case todana_nif:sweep(Handle, ?RECORDS_PER_SLICE) of
        dirty -> todana_nif:sweep_dirty(Handle, ?RECORDS_PER_SLICE);
        Result -> Result
    end.
