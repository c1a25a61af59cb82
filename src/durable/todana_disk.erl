%% Whether the disk has room, and, with durability `everysec', the fdatasync.
%%
%% Free space is compared with the reserve each second, after each 16 MiB of
%% log, and before a batch is written when the last look was a while ago. Below
%% it, the group accepts only removals, and far below it nothing, because a full
%% disk stops the log in the middle of a batch; as soon as there is room it
%% accepts all writes again. A snapshot is written if that frees much.
%%
%% With `everysec' Ra writes its log without fdatasync. Each second a process
%% of its own synchronizes the newest files through other descriptors, so that
%% a slow disk delays neither the log nor the look at the free space.
-module(todana_disk).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/2, check/0, has_room/0, sync/0, on_disk/2, info/0]).
%% Processes
-export([sync_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% How many durations of fdatasync the percentiles are taken from.
-define(SYNCS_KEPT, 600).
%% Between two snapshots that are written to make room.
-define(RELIEF_PAUSE_MS, 60_000).
%% Ra ignores a snapshot while it completes the one before. It is asked again
%% when the native library has dropped the handle, after 10 s.
-define(IGNORED_AFTER_MS, 12_000).
%% The note of the files whose fdatasync has failed, which outlives the process.
-define(LOST, lost_files).
%% The note of an entry that is on disk, and all before it.
-define(SYNCED, synced_index).
%% The note of the directory whose free space is looked at, and of the bytes.
-define(LOOKED_AT, looked_at).

-type report() :: fun((todana_group_notes:room()) -> ok).

-record(state, {
    opened :: todana_data_dir:opened(),
    reserve :: auto | non_neg_integer(),
    report :: report(),
    free_bytes = unknown :: unknown | non_neg_integer(),
    reserve_bytes = 0 :: non_neg_integer(),
    %% The process that synchronizes, the callers that wait for it, and those
    %% that wait for the next one.
    syncing = none :: none | {pid(), [gen_server:from()]},
    %% The last entry that was applied when it began.
    covers = 0 :: non_neg_integer(),
    next = [] :: [gen_server:from()],
    progress :: todana_disk_sync:progress(),
    sync_us = queue:new() :: queue:queue(non_neg_integer()),
    %% When a snapshot was last asked for because of the disk.
    relieved_ms = never :: never | integer(),
    %% The bytes of the records then.
    relieved_bytes = 0 :: non_neg_integer(),
    %% The number of attempts before it, until it has ended.
    relief = none :: none | non_neg_integer()
}).

-doc "Starts the process. It calls `Report` after each look at the free space.".
-spec start_link(auto | non_neg_integer(), report()) -> gen_server:start_ret().
start_link(Reserve, Report) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, {Reserve, Report}, []).

-doc "Looks at the free space soon.".
-spec check() -> ok.
check() -> gen_server:cast(?MODULE, check).

-doc """
Whether the disk still has the room for what was accepted when this process
looked: for all writes, or for removals.
""".
-spec has_room() -> boolean().
has_room() ->
    maybe
        {Path, Needed} ?= todana_group_notes:kept(?LOOKED_AT, none),
        {ok, Free} ?= todana_nif:disk_free(Path),
        Free >= Needed
    else
        _ -> true
    end.

-doc "Returns when all that the log had been given before is on disk.".
-spec sync() -> ok | {error, term()}.
sync() ->
    try
        gen_server:call(?MODULE, sync, infinity)
    catch
        exit:_ -> {error, unavailable}
    end.

-doc "The last of the entries up to this one, applied, that is on disk.".
-spec on_disk(todana_data_dir:opened(), non_neg_integer()) ->
    non_neg_integer().
on_disk(#{durability := always}, Applied) ->
    Applied;
on_disk(#{durability := everysec}, Applied) ->
    min(Applied, todana_group_notes:kept(?SYNCED, 0)).

-spec info() -> map().
info() ->
    try
        gen_server:call(?MODULE, info)
    catch
        exit:_ -> #{}
    end.

-spec init({auto | non_neg_integer(), report()}) -> {ok, #state{}}.
init({Reserve, Report}) ->
    self() ! beat,
    Lost = todana_group_notes:kept(?LOST, []),
    {ok, #state{
        opened = todana_raft_groups:opened(group()),
        reserve = Reserve,
        report = Report,
        progress = todana_disk_sync:new(Lost)
    }}.

-spec handle_call(sync | info, gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}}.
handle_call(sync, _From, #state{opened = #{durability := always}} = State) ->
    {reply, ok, State};
handle_call(sync, From, State) ->
    {noreply, begin_sync(State#state{next = [From | State#state.next]})};
handle_call(info, _From, State) ->
    #state{free_bytes = Free, reserve_bytes = Reserve, sync_us = Us} = State,
    Sorted = lists:sort(queue:to_list(Us)),
    Info = #{
        disk_free_bytes => Free,
        disk_reserve_bytes => Reserve,
        fsync_us => #{
            p50 => percentile(Sorted, 0.5), p99 => percentile(Sorted, 0.99)
        }
    },
    Absent = [Key || Key := Value <- Info,
                     Value =:= unknown orelse
                     (Key =:= fsync_us andalso Sorted =:= [])],
    {reply, maps:without(Absent, Info), State}.

-spec percentile([non_neg_integer()], float()) -> non_neg_integer().
percentile([], _Part) -> 0;
percentile(Sorted, Part) ->
    lists:nth(max(1, ceil(length(Sorted) * Part)), Sorted).

-spec handle_cast(check, #state{}) -> {noreply, #state{}}.
handle_cast(check, State) ->
    {noreply, look(State)}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    {noreply, begin_sync(look(State))};
handle_info({'DOWN', _, process, Pid, Result}, #state{
    syncing = {Pid, Waiting}
} = State) ->
    {Answer, New} = synced(Result, State),
    _ = [gen_server:reply(From, Answer) || From <- Waiting],
    case New#state.next of
        [] -> {noreply, New#state{syncing = none}};
        _ -> {noreply, begin_sync(New#state{syncing = none})}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

%% ----------------------------------------------------------------- space ---

-spec look(#state{}) -> #state{}.
look(#state{opened = #{class_dir := Directory, data_dir := DataDir}} = State) ->
    Path = case filelib:is_dir(Directory) of
        true -> Directory;
        false -> DataDir
    end,
    Name = unicode:characters_to_binary(Path),
    case todana_nif:disk_free(Name) of
        {ok, Free} ->
            Known = todana_disk_space:facts(DataDir, Free),
            Reserve = reserve(State#state.reserve, Known),
            Facts = Known#{reserve := Reserve},
            {Room, Relief} = todana_disk_space:judge(Facts),
            Needed = case Room of
                ok -> Reserve;
                _ -> todana_disk_space:floor_bytes(Facts)
            end,
            ok = todana_group_notes:keep(?LOOKED_AT, {Name, Needed}),
            ok = (State#state.report)(Room),
            relieve(Relief, Facts, shrink(State#state{
                free_bytes = Free, reserve_bytes = Reserve
            }));
        {error, _} ->
            State
    end.

-spec reserve(auto | non_neg_integer(), todana_disk_space:facts()) ->
    non_neg_integer().
reserve(auto, Facts) -> todana_disk_space:reserve(Facts);
reserve(Bytes, _Facts) -> Bytes.

%% Has a snapshot written, but not again and again if that makes no room.
-spec relieve(
    todana_disk_space:relief(), todana_disk_space:facts(), #state{}
) -> #state{}.
relieve(none, _Facts, State) ->
    State;
relieve(snapshot, Facts, #state{relieved_ms = LastMs} = State) ->
    NowMs = erlang:monotonic_time(millisecond),
    Attempts = todana_group_notes:attempts(),
    Bytes = State#state.relieved_bytes,
    IsDue = LastMs =:= never orelse NowMs - LastMs >= pause_ms(State) orelse
        todana_disk_space:has_shrunk(Bytes, Facts),
    case IsDue andalso todana_nif:durable_state() =/= closed of
        true ->
            case todana_snapshots:request(group()) of
                ok ->
                    logger:notice(
                        "todana: the disk is nearly full; a snapshot is "
                        "written, after which the log is deleted but for its "
                        "newest files"
                    ),
                    State#state{
                        relieved_ms = NowMs,
                        relieved_bytes = maps:get(data_bytes, Facts),
                        relief = Attempts
                    };
                {error, _} ->
                    State
            end;
        false ->
            State
    end.

-spec pause_ms(#state{}) -> pos_integer().
pause_ms(#state{relief = none}) -> ?RELIEF_PAUSE_MS;
pause_ms(#state{}) -> ?IGNORED_AFTER_MS.

%% Deletes the log before the snapshot.
-spec shrink(#state{}) -> #state{}.
shrink(#state{relief = none} = State) ->
    State;
shrink(#state{relief = Before, opened = Opened} = State) ->
    case todana_group_notes:last_attempt(Before) of
        none ->
            State;
        ok ->
            _ = spawn(todana_log_trim, trim, [Opened, ?RELIEF_PAUSE_MS]),
            State#state{relief = none};
        {error, _} ->
            State#state{relief = none}
    end.

%% ------------------------------------------------------------------ sync ---

-spec begin_sync(#state{}) -> #state{}.
begin_sync(#state{opened = #{durability := always}} = State) ->
    State;
begin_sync(#state{syncing = none, next = Next} = State) ->
    #state{opened = #{class_dir := Directory}, progress = Progress} = State,
    %% The log is written before it is applied.
    Applied = todana_nif:group_applied(group()),
    {Pid, _} = spawn_monitor(?MODULE, sync_and_exit, [Directory, Progress]),
    State#state{syncing = {Pid, Next}, next = [], covers = Applied};
begin_sync(State) ->
    State.

-spec sync_and_exit(file:filename(), todana_disk_sync:progress()) ->
    no_return().
sync_and_exit(Directory, Progress) ->
    exit(timer:tc(fun() ->
        todana_disk_sync:synchronize(Directory, Progress)
    end)).

-spec synced(term(), #state{}) -> {ok | {error, term()}, #state{}}.
synced({Us, {ok, Progress}}, #state{sync_us = All} = State) ->
    Kept = queue:in(Us, All),
    Recent = case queue:len(Kept) > ?SYNCS_KEPT of
        true -> queue:drop(Kept);
        false -> Kept
    end,
    ok = todana_group_notes:keep(?SYNCED, State#state.covers),
    {ok, with_progress(Progress, State#state{sync_us = Recent})};
synced({_Us, {{failed, Failed}, Progress}}, State) ->
    #state{opened = #{durability := Durability}} = State,
    logger:error("todana: fdatasync of the log failed: ~0tp", [Failed]),
    todana_ra_system:roll_over(Durability),
    {{error, Failed}, with_progress(Progress, State)};
synced({_Us, {{error, Reason}, Progress}}, State) ->
    {{error, Reason}, with_progress(Progress, State)};
synced(Crash, State) ->
    logger:error("todana: fdatasync of the log failed: ~0tp", [Crash]),
    {{error, Crash}, State}.

-spec with_progress(todana_disk_sync:progress(), #state{}) -> #state{}.
with_progress(Progress, State) ->
    todana_group_notes:keep(?LOST, todana_disk_sync:lost(Progress)),
    State#state{progress = Progress}.

%% One disk has the logs of all groups. This one's entries are counted, and its
%% snapshot makes room.
-spec group() -> todana_raft_groups:id().
group() -> todana_raft_groups:first().
