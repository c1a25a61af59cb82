%% Whether the disk has room, and, with durability `everysec', the fdatasync.
%%
%% Free space is compared with the reserve each second and after each 16 MiB of
%% log. Below it, the group accepts no more writes, because a full disk stops
%% the log in the middle of a batch; as soon as there is room it accepts them
%% again.
%%
%% With `everysec' Ra writes its log without fdatasync. Each second a process
%% of its own synchronizes the newest files through other descriptors, so that
%% a slow disk delays neither the log nor the look at the free space.
-module(todana_disk).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, check/0, sync/0, info/0, sync_files/2]).
%% Processes
-export([sync_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TICK_MS, 1_000).
%% A full file of the log and its successor.
-define(RESERVED_FILES, 2).
%% How many durations of fdatasync the percentiles are taken from.
-define(SYNCS_KEPT, 600).

-record(state, {
    opened :: todana_data_dir:opened(),
    reserve :: auto | non_neg_integer(),
    free_bytes = unknown :: unknown | non_neg_integer(),
    reserve_bytes = 0 :: non_neg_integer(),
    %% The process that synchronizes, the callers that wait for it, and those
    %% that wait for the next one.
    syncing = none :: none | {pid(), [gen_server:from()]},
    next = [] :: [gen_server:from()],
    newest = 0 :: non_neg_integer(),
    sync_us = queue:new() :: queue:queue(non_neg_integer())
}).

-doc "Starts the process.".
-spec start_link(auto | non_neg_integer()) -> gen_server:start_ret().
start_link(Reserve) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Reserve, []).

-doc "Looks at the free space soon.".
-spec check() -> ok.
check() -> gen_server:cast(?MODULE, check).

-doc "Returns when all that the log had been given before is on disk.".
-spec sync() -> ok | {error, term()}.
sync() ->
    try
        gen_server:call(?MODULE, sync, infinity)
    catch
        exit:_ -> {error, unavailable}
    end.

-spec info() -> map().
info() ->
    try
        gen_server:call(?MODULE, info)
    catch
        exit:_ -> #{}
    end.

-spec init(auto | non_neg_integer()) -> {ok, #state{}}.
init(Reserve) ->
    self() ! tick,
    {ok, #state{opened = todana_data_dir:opened(), reserve = Reserve}}.

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
handle_info(tick, State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
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
    Reserve = reserve(State#state.reserve),
    case todana_nif:disk_free(unicode:characters_to_binary(Path)) of
        {ok, Free} ->
            todana_group:room(room(DataDir, Free, Reserve)),
            State#state{free_bytes = Free, reserve_bytes = Reserve};
        {error, _} ->
            State
    end.

-spec room(file:filename(), non_neg_integer(), non_neg_integer()) ->
    ok | {low, string()}.
room(_DataDir, Free, Reserve) when Free >= Reserve -> ok;
room(DataDir, Free, Reserve) ->
    Text = io_lib:format(
        "~b MiB are free on the disk of ~ts and ~b MiB are needed",
        [Free bsr 20, DataDir, (Reserve + (1 bsl 20) - 1) bsr 20]
    ),
    {low, lists:flatten(Text)}.

-spec reserve(auto | non_neg_integer()) -> non_neg_integer().
reserve(auto) ->
    ?RESERVED_FILES * todana_ra:wal_bytes_max() + todana_group:data_bytes();
reserve(Bytes) ->
    Bytes.

%% ------------------------------------------------------------------ sync ---

-spec begin_sync(#state{}) -> #state{}.
begin_sync(#state{opened = #{durability := always}} = State) ->
    State;
begin_sync(#state{syncing = none, next = Next, newest = Newest} = State) ->
    #state{opened = #{class_dir := Directory}} = State,
    {Pid, _} = spawn_monitor(?MODULE, sync_and_exit, [Directory, Newest]),
    State#state{syncing = {Pid, Next}, next = []};
begin_sync(State) ->
    State.

-spec sync_and_exit(file:filename(), non_neg_integer()) -> no_return().
sync_and_exit(Directory, Newest) ->
    exit(timer:tc(fun() -> sync_files(Directory, Newest) end)).

-spec synced(term(), #state{}) -> {ok | {error, term()}, #state{}}.
synced({Us, {ok, Newest}}, #state{sync_us = All} = State) ->
    Kept = queue:in(Us, All),
    Recent = case queue:len(Kept) > ?SYNCS_KEPT of
        true -> queue:drop(Kept);
        false -> Kept
    end,
    {ok, State#state{newest = Newest, sync_us = Recent}};
%% What the failed file should have kept is still in memory, and Ra writes it
%% to other files when it begins a new one.
synced(Failed, #state{opened = #{durability := Durability}} = State) ->
    logger:error("todana: fdatasync of the log failed: ~tp", [Failed]),
    todana_ra:roll_over(Durability),
    {{error, Failed}, State}.

-doc """
Synchronizes the files of the log from this number on; returns the number of the
newest. A file that has gone is in segment files, which Ra synchronizes.
""".
-spec sync_files(file:filename(), non_neg_integer()) ->
    {ok, non_neg_integer()} | {error, term()}.
sync_files(Directory, From) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            Numbers = [
                {Number, filename:join(Directory, Name)}
             || Name <- Names,
                filename:extension(Name) =:= ".wal",
                Number <- number(filename:rootname(Name)),
                Number >= From
            ],
            sync_each(lists:sort(Numbers), From);
        {error, enoent} ->
            {ok, From};
        {error, Reason} ->
            {error, Reason}
    end.

-spec number(string()) -> [non_neg_integer()].
number(Text) ->
    try
        [list_to_integer(Text)]
    catch
        error:badarg -> []
    end.

-spec sync_each([{non_neg_integer(), file:filename()}], non_neg_integer()) ->
    {ok, non_neg_integer()} | {error, term()}.
sync_each([], Newest) ->
    {ok, Newest};
sync_each([{Number, File} | Files], _Newest) ->
    maybe
        {ok, Fd} ?= file:open(File, [read, raw]),
        Result = file:datasync(Fd),
        _ = file:close(Fd),
        ok ?= Result,
        sync_each(Files, Number)
    else
        {error, enoent} -> sync_each(Files, Number);
        {error, Reason} -> {error, {File, Reason}}
    end.
