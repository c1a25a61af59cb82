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
        ]) ++ confirmed(Directory))}
    end).

-spec node_file(file:filename()) -> [finding()].
node_file(Directory) ->
    [
        case todana_small_file:read_terms(File) of
            {ok, Terms} when Name =:= "node" ->
                log_of(Directory, Terms);
            {ok, Terms} ->
                {ok, File, io_lib:format("~b terms", [length(Terms)])};
            {error, enoent} ->
                {note, File, "is not there"};
            {error, Reason} when is_tuple(Reason), Name =:= "node" ->
                {damaged, File, [
                    "is damaged (line ", file:format_error(Reason), "): ",
                    todana_log_remedy:words(Directory)
                ]};
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
    Verified =
        maybe
            ok ?= todana_data_dir_check:verify(Directory, Terms),
            todana_data_dir_check:belongs(#{
                data_dir => Directory,
                uid => proplists:get_value(uid, Terms),
                has_group => proplists:is_defined(group, Terms)
            })
        end,
    case Verified of
        ok -> {ok, File, io_lib:format("~b terms", [length(Terms)])};
        {error, Words} -> {damaged, File, Words}
    end.

%% The file `node' names the log. If it is damaged, or of another directory, the
%% directory of the log still has the name.
-spec uid(file:filename(), file:filename()) -> binary().
uid(DataDir, Class) ->
    UId = todana_offline:uid(DataDir),
    Present = [
        list_to_binary(filename:basename(Server))
     || Server <- filelib:wildcard(filename:join(Class, "TODANA0_*"))
    ],
    case lists:member(UId, Present) orelse Present of
        [Other] -> Other;
        _ -> UId
    end.

-spec class(file:filename(), todana_data_dir:durability()) -> [finding()].
class(DataDir, Durability) ->
    Directory = filename:join(DataDir, atom_to_list(Durability)),
    case {filelib:is_dir(Directory), uid(DataDir, Directory)} of
        {false, _} -> [];
        %% Nobody knows whose entries the files have.
        {true, <<>>} -> [];
        {true, UId} -> class(DataDir, Directory, UId, Durability)
    end.

-spec class(
    file:filename(), file:filename(), binary(), todana_data_dir:durability()
) -> [finding()].
class(DataDir, Directory, UId, Durability) ->
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
    Ends = [
        todana_log_tail:examine(Scanned, Server, Durability)
     || Logs =/= [] orelse filelib:is_dir(Server),
        are_readable(Logs)
    ],
    IsShort = [short || {error, {short, _, _}} <- Ends] =/= [],
    problems([todana_offline:config(DataDir, Server)]) ++
        [wal(File, UId, Confirmed, IsShort) || File <- Logs] ++
        [gap(Gap) || {_, _, _, true} = Gap <-
                         todana_log_cover:gaps(Scanned, Server)] ++
        segments(Server) ++
        lists:append([
            snapshot(File)
         || File <- files(Directory, "*/snapshots/*/data.tds")
        ]) ++
        problems(Ends) ++
        mark(Server) ++
        table(filename:join(Directory, "meta.dets"), UId) ++ [
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

%% Two files: the records, and what Ra says about them.
-spec snapshot(file:filename()) -> [finding()].
snapshot(File) ->
    case todana_snapshot_files:verify(File) of
        [] -> [{ok, File, [size_of(File), " bytes"]}];
        [Problem] -> [
            {damaged, element(2, Problem), todana_log_problem:words(Problem)}
        ]
    end.

%% --------------------------------------------------- what a start remakes ---

%% Without the note a start does not notice that the end of the log is gone.
-spec mark(file:filename()) -> [finding()].
mark(Server) ->
    File = filename:join(Server, "todana.mark"),
    case filelib:is_file(File) andalso todana_log_mark:read(Server) of
        false ->
            [];
        {ok, Index} ->
            [{ok, File, io_lib:format("entry ~b was confirmed", [Index])}];
        damaged ->
            [{damaged, File, "is damaged: a start ignores it, and "
              "does not notice if the end of the log is missing"}];
        {error, Problem} ->
            [{damaged, File, todana_log_problem:words(Problem)}]
    end.

%% The module that writes it takes a damaged file for an empty one.
-spec confirmed(file:filename()) -> [finding()].
confirmed(DataDir) ->
    File = filename:join(DataDir, "confirmed"),
    Read = todana_confirmed:read(DataDir),
    case todana_small_file:read_terms(File) of
        {error, enoent} ->
            [];
        {ok, [{members, Read}, {checksum, _}]} ->
            [{ok, File, io_lib:format("~b members", [length(Read)])}];
        {error, Reason} when is_atom(Reason) ->
            [{damaged, File, file:format_error(Reason)}];
        _ ->
            [{damaged, File, "is damaged: a start ignores it, and "
              "does not notice if the directory of another member is an older "
              "copy"}]
    end.

%% Ra's table of terms and votes. After a kill it is not closed.
-spec table(file:filename(), binary()) -> [finding()].
table(File, UId) ->
    Table = make_ref(),
    Options = [{file, File}, {access, read}, {repair, false}],
    case filelib:is_file(File) andalso dets:open_file(Table, Options) of
        false ->
            [];
        {ok, Table} ->
            Rows = dets:lookup(Table, UId),
            _ = dets:close(Table),
            case Rows of
                [{UId, Term, _Vote, _Applied}] when is_integer(Term) ->
                    [{ok, File, io_lib:format("term ~b", [Term])}];
                [] ->
                    [{note, File, "has no row of this log: the next start "
                      "makes it"}];
                _ ->
                    [{note, File, "its row of this log is not one of Ra's: "
                      "the next start makes it again"}]
            end;
        {error, {Kind, _}} when Kind =:= needs_repair; Kind =:= not_closed ->
            [{note, File, "was not closed, as after a kill: the next start "
              "repairs it"}];
        {error, {file_error, _, Reason}} ->
            [{damaged, File, file:format_error(Reason)}];
        {error, _} ->
            [{note, File, "is damaged, as after a power failure: the next "
              "start makes it again"}]
    end.

%% --------------------------------------------------------------- the log ---

-spec size_of(file:filename()) -> string().
size_of(File) ->
    integer_to_list(filelib:file_size(File)).

%% The entry was noted as confirmed; a log may end before it.
-spec wal(file:filename(), binary(), non_neg_integer(), boolean()) ->
    finding().
wal(File, UId, Confirmed, IsShort) ->
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
                true when IsShort -> {note, File, "is empty"};
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

-spec segments(file:filename()) -> [finding()].
segments(Server) ->
    [
        {note, File, "has no entries: it had just been created"}
     || File <- todana_log_segment:begun(Server)
    ] ++ [
        case Found of
            {ok, Count} ->
                torn_or_whole(File, Count, todana_log_segment:is_torn(File));
            unneeded ->
                {note, File, "is damaged, and the snapshot has its entries: "
                 "the next start sets it aside"};
            {error, Problem} ->
                {damaged, File, todana_log_problem:words(Problem)}
        end
     || {File, Found} <- todana_log_missing:segments(Server)
    ].

-spec torn_or_whole(
    file:filename(), non_neg_integer(), {ok, boolean()} | {error, term()}
) -> finding().
torn_or_whole(File, Count, {ok, true}) ->
    {note, File, io_lib:format(
        "~b entries, and behind them what a power failure has torn: the next "
        "start takes that out", [Count]
    )};
torn_or_whole(File, Count, _) ->
    {ok, File, io_lib:format("~b entries", [Count])}.
