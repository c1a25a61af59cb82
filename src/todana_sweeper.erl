%% Removes expired records in the background.
%%
%% Readers never see an expired record; this process frees the memory. At each
%% interval it sweeps every table until no record is due, in slices between
%% which the scheduler may run other processes.
-module(todana_sweeper).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, sweep/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Removing a record takes two microseconds or less.
-define(RECORDS_PER_SLICE, 256).

-doc "Starts the process.".
-spec start_link(pos_integer()) -> gen_server:start_ret().
start_link(IntervalMs) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, IntervalMs, []).

-doc "Sweeps now; returns the number of records removed.".
-spec sweep() -> non_neg_integer().
sweep() ->
    gen_server:call(?MODULE, sweep, infinity).

-spec init(pos_integer()) -> {ok, pos_integer()}.
init(IntervalMs) ->
    {ok, again(IntervalMs)}.

-spec handle_call(sweep, gen_server:from(), pos_integer()) ->
    {reply, non_neg_integer(), pos_integer()}.
handle_call(sweep, _From, IntervalMs) ->
    {reply, sweep_tables(), IntervalMs}.

-spec handle_cast(term(), pos_integer()) -> {noreply, pos_integer()}.
handle_cast(_Message, IntervalMs) ->
    {noreply, IntervalMs}.

-spec handle_info(term(), pos_integer()) -> {noreply, pos_integer()}.
handle_info(sweep, IntervalMs) ->
    _ = sweep_tables(),
    {noreply, again(IntervalMs)};
handle_info(_Message, IntervalMs) ->
    {noreply, IntervalMs}.

-spec again(pos_integer()) -> pos_integer().
again(IntervalMs) ->
    _ = erlang:send_after(IntervalMs, self(), sweep),
    IntervalMs.

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
