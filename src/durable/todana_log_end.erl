%% The last entry in the files of a server's log, before Ra starts it.
-module(todana_log_end).
-moduledoc false.

-export([last/1]).

-doc """
The last entry of the newest snapshot, the segment files and the newest file of
the log that has one; 0 without any. Files that cannot be read have none: a
start verifies them before.
""".
-spec last(file:filename()) -> non_neg_integer().
last(Server) ->
    Directory = filename:dirname(Server),
    UId = list_to_binary(filename:basename(Server)),
    Files = filelib:wildcard(filename:join(Directory, "*.wal")),
    Segments = [
        Index
     || {_, {ok, Indexes}} <- todana_log_segments:indexes(Server),
        Index <- Indexes
    ],
    lists:max([
        newest(lists:reverse(lists:sort(Files)), UId)
        | todana_snapshot_files:indexes(Server) ++ Segments
    ]).

-spec newest([file:filename()], binary()) -> non_neg_integer().
newest([], _UId) ->
    0;
newest([File | Older], UId) ->
    case todana_log_file:scan(File, UId) of
        {ok, #{last := #{index := Index}}} -> Index;
        _ -> newest(Older, UId)
    end.
