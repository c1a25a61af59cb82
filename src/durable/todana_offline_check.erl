%% `bin/todana check': reads every byte of the log and of the snapshots of a
%% data directory that no node uses, and changes nothing.
-module(todana_offline_check).
-moduledoc false.

-export([check/1]).

%% The state of a file: a note is no damage.
-type finding() :: {ok | note | damaged, file:filename(), iodata()}.

-doc "Verifies the files. An error is a sentence; findings name the files.".
-spec check(file:filename()) -> {ok, [finding()]} | {error, string()}.
check(DataDir) ->
    Directory = filename:absname(DataDir),
    todana_offline:locked(Directory, fun() ->
        {ok, lists:uniq(node_file(Directory) ++ lists:append([
            class(Directory, Durability) || Durability <- [always, everysec]
        ]))}
    end).

-spec node_file(file:filename()) -> [finding()].
node_file(Directory) ->
    [
        case file:consult(File) of
            {ok, Terms} when Name =:= "node" ->
                log_of(Directory, Terms);
            {ok, Terms} ->
                {ok, File, io_lib:format("~b terms", [length(Terms)])};
            {error, enoent} ->
                {note, File, "is not there"};
            {error, Reason} ->
                {damaged, File, file:format_error(Reason)}
        end
     || Name <- ["node", "databases"],
        File <- [filename:join(Directory, Name)],
        Name =:= "node" orelse filelib:is_file(File)
    ].

%% Whether the log is there that the file `node' names.
-spec log_of(file:filename(), [term()]) -> finding().
log_of(Directory, Terms) ->
    File = filename:join(Directory, "node"),
    Belongs = todana_data_dir:belongs(#{
        data_dir => Directory,
        uid => proplists:get_value(uid, Terms, <<>>),
        has_group => proplists:is_defined(group, Terms)
    }),
    case Belongs of
        ok -> {ok, File, io_lib:format("~b terms", [length(Terms)])};
        {error, Sentence} -> {damaged, File, Sentence}
    end.

-spec class(file:filename(), todana_data_dir:durability()) -> [finding()].
class(DataDir, Durability) ->
    UId = todana_offline:uid(DataDir),
    Directory = filename:join(DataDir, atom_to_list(Durability)),
    Server = filename:join(Directory, binary_to_list(UId)),
    Logs = files(Directory, "*.wal"),
    Scanned = [
        {File, Found}
     || File <- Logs, {ok, Found} <- [todana_log_file:scan(File, UId)]
    ],
    Confirmed = case todana_log_mark:read(Server) of
        {ok, Index} -> Index;
        _ -> 0
    end,
    Config = [todana_ra_files:check_config(Server) || filelib:is_dir(Server)],
    problems(Config) ++
        [wal(File, UId, Confirmed) || File <- Logs] ++
        [gap(Gap) || {_, _, _, true} = Gap <-
                         todana_log_cover:gaps(Scanned, Server)] ++
        [segment(File, Durability, Scanned)
         || File <- files(Directory, "*/*.segment")] ++
        [snapshot(File) || File <- files(Directory, "*/snapshots/*/data.tds")]
        ++ problems([
            todana_log_tail:examine(Scanned, Server, Durability)
         || Logs =/= [] orelse filelib:is_dir(Server),
            are_readable(Logs)
        ]) ++ [
            {note, File, "was set aside or cut off because it is damaged"}
         || File <- files(Directory, "*/damaged/*")
        ].

%% Nothing is known to be missing while a file cannot be read.
-spec are_readable([file:filename()]) -> boolean().
are_readable(Files) -> todana_log_unreadable:first_of(Files) =:= none.

%% What a start would refuse, in its words; damage is found file by file.
-spec problems([ok | {error, todana_log_problem:problem()}]) -> [finding()].
problems(Results) ->
    [
        {damaged, File, todana_log_problem:words(Problem)}
     || {error, Problem} <- Results,
        {Kind, File} <- [{element(1, Problem), element(2, Problem)}],
        Kind =/= damaged, Kind =/= broken, Kind =/= snapshot
    ].

-spec files(file:filename(), string()) -> [file:filename()].
files(Directory, Pattern) ->
    [filename:join(Directory, F) || F <- filelib:wildcard(Pattern, Directory)].

-spec snapshot(file:filename()) -> finding().
snapshot(File) ->
    case todana_snapshot_files:verify(File) of
        [] -> {ok, File, [size_of(File), " bytes"]};
        [Problem] -> {damaged, File, todana_log_problem:words(Problem)}
    end.

-spec size_of(file:filename()) -> string().
size_of(File) ->
    integer_to_list(filelib:file_size(File)).

%% The entry was noted as confirmed.
-spec wal(file:filename(), binary(), non_neg_integer()) -> finding().
wal(File, UId, Confirmed) ->
    case todana_log_file:scan(File, UId) of
        {ok, #{
            damage := #{is_torn := true, behind := []} = Damage,
            last := #{index := Last}
        }} when Last < Confirmed ->
            #{offset := Offset} = Damage,
            {damaged, File, io_lib:format(
                "offset ~b: the file ends within an entry, and entry ~b was "
                "confirmed", [Offset, Confirmed]
            )};
        {ok, #{damage := none, first := none}} ->
            {ok, File, "no entries"};
        {ok, #{damage := none, first := First, last := Last}} ->
            #{index := From} = First,
            #{index := To} = Last,
            {ok, File, io_lib:format("entries ~b to ~b", [From, To])};
        {ok, #{damage := #{is_torn := true, behind := []} = Damage}} ->
            #{offset := Offset} = Damage,
            {note, File, io_lib:format(
                "at offset ~b an entry that is not complete, and none behind "
                "it: it was not confirmed", [Offset]
            )};
        {ok, #{damage := #{offset := Offset, behind := Behind} = Damage}} ->
            Torn = case Damage of
                #{is_torn := true} -> " (not written completely)";
                _ -> ""
            end,
            {damaged, File, io_lib:format(
                "offset ~b: an entry is damaged~s, and ~b are readable "
                "behind it", [Offset, Torn, length(Behind)]
            )};
        {error, format} ->
            case todana_log_file:is_begun(File) of
                true -> {note, File, "is empty: it had just been created"};
                false -> {damaged, File, "offset 0: is not a file of the log"}
            end;
        {error, Reason} ->
            {damaged, File, file:format_error(Reason)}
    end.

%% The next start sets the file aside: see todana_log_cover.
-spec gap({file:filename(), integer(), integer(), true}) -> finding().
gap({File, First, Last, true}) ->
    {note, File, io_lib:format(
        "entries ~b to ~b are missing behind its end, and segment files have "
        "them", [First, Last]
    )}.

-spec segment(
    file:filename(), todana_data_dir:durability(),
    [{file:filename(), todana_log_file:scanned()}]
) -> finding().
segment(File, Durability, Scanned) ->
    IsBegun = lists:member(
        File, todana_log_segment:begun(filename:dirname(File))
    ),
    Snapshot = lists:max([
        0 | todana_snapshot_files:indexes(filename:dirname(File))
    ]),
    IsElsewhere = fun(Index) ->
        Index =< Snapshot orelse
            todana_log_missing:is_in_log(Index, Durability, Scanned)
    end,
    case IsBegun orelse todana_log_segment:verify(File, IsElsewhere) of
        true ->
            {note, File, "has no entries: it had just been created"};
        {ok, Count} ->
            {ok, File, io_lib:format("~b entries", [Count])};
        {error, Problem} ->
            Unneeded = todana_log_missing:unneeded(
                Scanned, filename:dirname(File)
            ),
            case lists:member(File, Unneeded) of
                true ->
                    {note, File, "is damaged, and the snapshot has its "
                     "entries: the next start sets it aside"};
                false ->
                    {damaged, File, todana_log_problem:words(Problem)}
            end
    end.
