%% Deletes the files of the log that the last snapshot replaces.
%%
%% Ra does so by itself, but a file that is being written stays until it is
%% full. So Ra begins a new file here, and the entries of the old one that the
%% snapshot has are written nowhere else.
-module(todana_log_trim).
-moduledoc false.

-export([trim/2]).
%% Processes
-export([trim_and_exit/1]).

-define(POLL_MS, 5).

-doc "Returns when the files are deleted, or after this time.".
-spec trim(todana_data_dir:opened(), timeout()) -> ok.
trim(Opened, TimeoutMs) ->
    {Pid, Monitor} = spawn_monitor(?MODULE, trim_and_exit, [Opened]),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    after TimeoutMs ->
        true = demonitor(Monitor, [flush]),
        true = exit(Pid, kill),
        ok
    end.

-spec trim_and_exit(todana_data_dir:opened()) -> ok.
trim_and_exit(#{durability := Durability, uid := UId}) ->
    ok = await_snapshot(UId, todana_group_notes:last_index()),
    #{wal := Wal, segment_writer := Writer} =
        todana_ra_system:names(Durability),
    ok = ra_log_wal:force_roll_over(Wal),
    %% It answers when it has begun the new file.
    {ok, _} = ra_log_wal:last_writer_seq(Wal, UId),
    ra_log_segment_writer:await(Writer).

%% The server learns of its snapshot a moment after that is on disk.
-spec await_snapshot(binary(), non_neg_integer()) -> ok.
await_snapshot(UId, Index) ->
    case ra_snapshot:last_index_for(UId) of
        Known when is_integer(Known), Known >= Index ->
            ok;
        _ ->
            timer:sleep(?POLL_MS),
            await_snapshot(UId, Index)
    end.
