%% What an orderly stop does so that the next start is fast.
%%
%% A start loads the snapshot with all processors, and then applies the log
%% entry by entry. So if the log is long, the last act of a node is a snapshot,
%% unless that would take longer than those who stop a node wait: ten seconds,
%% with Docker.
-module(todana_stop).
-moduledoc false.

-export([prepare/2, is_worthwhile/1]).

-export_type([facts/0]).

%% After this time the node stops without it. A test sets another one.
-define(LIMIT_MS, 8_000).
%% A log of fewer bytes is applied in a fraction of a second.
-define(LOG_BYTES_MIN, (8 bsl 20)).
%% The log is short if it has less than this part of the data's bytes.
-define(DATA_PART, 8).
%% A snapshot that is expected to take longer is not begun.
-define(SNAPSHOT_MS_MAX, 4_000).
%% Of a snapshot, if none was written since the start.
-define(BYTES_PER_MS, 100_000).
%% Three quarters of the time of an earlier one were pauses for those who write.
-define(PAUSES, 4).

-type facts() :: #{
    log_bytes := non_neg_integer(),
    data_bytes := non_neg_integer(),
    last_snapshot => #{
        bytes := non_neg_integer(), duration_ms := integer(), _ => _
    },
    disk_free_bytes => non_neg_integer(),
    _ => _
}.

-doc "Writes a snapshot, if that is worthwhile. The log accepts no writes.".
-spec prepare(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
prepare(Group, Opened) ->
    Facts = maps:merge(
        maps:merge(todana_nif:group_info(Group), todana_disk:info()),
        todana_group_notes:last_snapshot()
    ),
    case is_worthwhile(Facts) of
        true ->
            LimitMs = application:get_env(todana, stop_limit_ms, ?LIMIT_MS),
            EndMs = erlang:monotonic_time(millisecond) + LimitMs,
            case snapshot(Group, LimitMs) of
                ok ->
                    LeftMs = EndMs - erlang:monotonic_time(millisecond),
                    todana_log_trim:trim(Opened, max(0, LeftMs));
                {error, Reason} ->
                    logger:notice(
                        "todana: no snapshot was written at the stop: ~0tp",
                        [Reason]
                    )
            end;
        false ->
            ok
    end.

-spec snapshot(todana_raft_groups:id(), non_neg_integer()) ->
    ok | {error, term()}.
snapshot(Group, TimeoutMs) ->
    Before = todana_group_notes:attempts(),
    case todana_snapshots:request(Group) of
        %% One was begun a moment ago.
        {error, busy} ->
            todana_group_notes:await_attempt(Before, TimeoutMs);
        ok ->
            todana_group_notes:await_attempt(Before, TimeoutMs);
        {error, Reason} ->
            {error, Reason}
    end.

-doc "Whether a snapshot makes the next start faster, and takes a few seconds.".
-spec is_worthwhile(facts()) -> boolean().
is_worthwhile(#{log_bytes := LogBytes, data_bytes := DataBytes} = Facts) ->
    LogBytes >= ?LOG_BYTES_MIN andalso
        LogBytes >= DataBytes div ?DATA_PART andalso
        DataBytes div bytes_per_ms(Facts) =< ?SNAPSHOT_MS_MAX andalso
        maps:get(disk_free_bytes, Facts, 0) > DataBytes.

-spec bytes_per_ms(facts()) -> pos_integer().
bytes_per_ms(#{last_snapshot := #{bytes := Bytes, duration_ms := Ms}}) when
    Bytes > ?BYTES_PER_MS
->
    max(1, ?PAUSES * Bytes div max(1, Ms));
bytes_per_ms(#{}) ->
    ?BYTES_PER_MS.
