%% Room at the end of the newest file of the log, ahead of its writer.
%%
%% A file that grows with each write needs a new length on disk with each
%% fdatasync. That is a change of the file system's own records, and costs the
%% write more than its bytes do. So the file is extended by some MiB at a time:
%% by a process of its own, through a descriptor of its own, while Ra writes at
%% its own position. The kernel neither shortens a file nor changes its bytes
%% for that (fallocate of Linux, on the usual file systems), so nothing can go
%% wrong between the two; if the writer comes to the end first, the file grows
%% as without this.
%%
%% The room reads as zeros, which `todana_log_file' takes for the end of the
%% log, as Ra does. What the file has before is synchronized first, so a file
%% with room has its first bytes.
%%
%% With `everysec' nobody waits for the fdatasync, and nothing is extended.
-module(todana_log_extent).
-moduledoc false.

-export([renew/1]).
%% Processes
-export([extend_and_exit/2]).

%% Of Ra's counters of a log: the files begun, the bytes of the newest one, and
%% how many it may get.
-define(COUNTERS, [wal_files, current_file_size, max_file_size]).
%% Room for at least this many bytes is ahead of the writer, and for what it has
%% written since the last look, some times over.
-define(AHEAD_BYTES_MIN, (2 bsl 20)).
-define(AHEAD_LOOKS, 4).
%% The name of the process that extends the file: one at a time.
-define(EXTENDER, todana_log_extender).
%% The notes of the newest file, by its number: the bytes that it had at the
%% last look, and where its room ends.
-define(SEEN, log_extent_seen).
-define(END, log_extent_end).

-doc "Extends the newest file if its room is small; does not wait for that.".
-spec renew(todana_data_dir:opened()) -> ok.
renew(#{durability := always, class_dir := Class}) ->
    _ = whereis(?EXTENDER) =:= undefined andalso
        [spawn(?MODULE, extend_and_exit, [Class, Due]) || Due <- due()],
    ok;
renew(#{durability := everysec}) ->
    ok.

-spec extend_and_exit(
    file:filename(), {pos_integer(), pos_integer()}
) -> ok.
extend_and_exit(Class, {Number, Until}) ->
    try
        true = register(?EXTENDER, self()),
        true = todana_disk:has_room(),
        {ok, Names} = file:list_dir(Class),
        Newest = lists:max([
            Name || Name <- Names, filename:extension(Name) =:= ".wal"
        ]),
        File = unicode:characters_to_binary(filename:join(Class, Newest)),
        %% Otherwise that may be the next file.
        {Number, _, _} = counters(),
        End = case todana_nif:extend_file(File, Until) of
            ok -> Until;
            %% Not on this file system, or it is full: until the next file.
            {error, _} -> infinity
        end,
        todana_group_notes:keep(?END, {Number, End})
    catch
        %% There is one already, or the group is being closed.
        error:_ -> ok
    end.

%% The number of the file that is too short, and how long it should be.
-spec due() -> [{pos_integer(), pos_integer()}].
due() ->
    case counters() of
        %% While Ra begins a new file, the other numbers are of the old one.
        {Number, Bytes, BytesMax} when Bytes < BytesMax ->
            Growth = Bytes - of_file(?SEEN, Number),
            ok = todana_group_notes:keep(?SEEN, {Number, Bytes}),
            Ahead = max(?AHEAD_BYTES_MIN, ?AHEAD_LOOKS * Growth),
            End = of_file(?END, Number),
            [
                {Number, min(BytesMax, Bytes + 2 * Ahead)}
             || End < min(BytesMax, Bytes + Ahead)
            ];
        _ ->
            []
    end.

-spec of_file(atom(), pos_integer()) -> non_neg_integer() | infinity.
of_file(Note, Number) ->
    case todana_group_notes:kept(Note, none) of
        {Number, Value} -> Value;
        _ -> 0
    end.

-spec counters() ->
    {pos_integer(), non_neg_integer(), non_neg_integer()} | none.
counters() ->
    #{wal := Wal} = todana_ra_system:names(always),
    case ra_counters:counters(Wal, ?COUNTERS) of
        #{wal_files := Number, current_file_size := Bytes,
          max_file_size := BytesMax} ->
            {Number, Bytes, BytesMax};
        undefined ->
            none
    end.
