%% Whether all files of a log are there, and whole: the start and
%% `bin/todana check' ask the same functions.
%%
%% The log begins with entry 1 or behind the newest snapshot. From there on each
%% entry must be in a segment file or in a file of the log, up to the last one,
%% which must not be before the one that was noted as confirmed
%% (todana_log_mark). What this cannot see: the loss of entries behind that note
%% at the end of the log, that is, of about the last half second.
-module(todana_log_missing).
-moduledoc false.

-export([problems/2, confirmed_behind/2, are_whole/1, segments/1,
         is_in_log/2, may_have_had/2, unneeded/2]).

-type file() :: {file:filename(), todana_log_file:scanned()}.
-type problem() :: todana_log_problem:problem().
%% The entries of a file, from the first to the last one.
-type span() :: {non_neg_integer(), non_neg_integer(), file:filename()}.

-doc """
The holes in a log with these scanned files, whose server has this directory.
The first problem is the one to report.
""".
-spec problems([file()], file:filename()) -> [problem()].
problems(Files, Server) ->
    Segments = todana_log_segments:indexes(Server),
    Spans = spans(Segments, Files),
    Broken = [
        Problem
     || {File, {error, Problem}} <- Segments,
        not is_unneeded(File, Spans, Server)
    ],
    case {Broken, snapshot(Server)} of
        {[_ | _], _} ->
            Broken;
        {[], {missing, Why}} ->
            [{missing, filename:join(Server, "snapshots"), Why}];
        {[], {ok, Snapshot}} ->
            holes(Spans, Snapshot, Snapshot, none) ++
                short(Spans, Snapshot, Server)
    end.

-doc "Reads the segment files and the newest snapshot as a whole.".
-spec are_whole(file:filename()) -> ok | {error, problem()}.
are_whole(Server) ->
    Problems = [Problem || {_, {error, Problem}} <- segments(Server)],
    case {Problems, todana_snapshot_files:newest_problem(Server)} of
        {[Problem | _], _} -> {error, Problem};
        {[], none} -> ok;
        {[], Problem} -> {error, Problem}
    end.

-doc """
Reads each segment file: the number of its entries, or the first problem that a
start does not mend.
""".
-spec segments(file:filename()) -> [{
    file:filename(), {ok, non_neg_integer()} | unneeded | {error, problem()}
}].
segments(Server) ->
    Found = todana_log_segments:damage(Server),
    IsWhole = fun({ok, _, Damage}) -> Damage =:= []; (_) -> false end,
    case lists:all(fun({_, Result}) -> IsWhole(Result) end, Found) of
        true -> [{File, {ok, length(Has)}} || {File, {ok, Has, _}} <- Found];
        false -> segments(Found, Server)
    end.

-spec segments([{file:filename(), tuple()}], file:filename()) -> [{
    file:filename(), {ok, non_neg_integer()} | unneeded | {error, problem()}
}].
segments(Found, Server) ->
    Directory = filename:dirname(Server),
    Files = scanned(Directory, list_to_binary(filename:basename(Server))),
    Unneeded = unneeded(Files, Server),
    IsMended = is_mended(durability(Directory), Files, Server),
    [
        case lists:member(File, Unneeded) of
            true -> {File, unneeded};
            false -> {File, segment(Result, IsMended)}
        end
     || {File, Result} <- Found
    ].

-spec segment(tuple(), fun((todana_log_segment:damage()) -> boolean())) ->
    {ok, non_neg_integer()} | {error, problem()}.
segment({error, Problem}, _IsMended) ->
    {error, Problem};
segment({ok, Entries, Damage}, IsMended) ->
    case lists:dropwhile(IsMended, Damage) of
        [] -> {ok, length(Entries)};
        [{_, _, Problem} | _] -> {error, Problem}
    end.

%% An entry that is not whole in a segment file is none if the snapshot or a
%% file of the log has it: the power failed while it was being copied, and a
%% start copies it again. With `everysec', a file of the log may have had it,
%% and lost it too before it was synchronized; then the log ends there.
-spec is_mended(todana_data_dir:durability(), [file()], file:filename()) ->
    fun((todana_log_segment:damage()) -> boolean()).
is_mended(Durability, Files, Server) ->
    Snapshot = lists:max([0 | todana_snapshot_files:indexes(Server)]),
    Synced = case todana_log_mark:read(Server) of
        {ok, Noted} -> Noted;
        _ -> 0
    end,
    fun({Index, IsTorn, _}) ->
        Index =< Snapshot orelse is_in_log(Index, Files) orelse
            (Durability =:= everysec andalso IsTorn andalso Index > Synced
                andalso may_have_had(Index, Files))
    end.

%% The files of a log of this writer, by age. One that a power failure has left
%% without its first bytes has no entries.
-spec scanned(file:filename(), binary()) -> [file()].
scanned(Directory, UId) ->
    Files = lists:sort(filelib:wildcard(filename:join(Directory, "*.wal"))),
    [
        {File, Scanned}
     || File <- Files,
        Scanned <- case todana_log_file:scan(File, UId) of
            {ok, Found} -> [Found];
            {error, _} -> [nothing() || todana_log_file:is_begun(File)]
        end
    ].

-spec nothing() -> todana_log_file:scanned().
nothing() ->
    #{bytes => 0, first => none, last => none, lowest => none, damage => none}.

-doc """
The segments whose header or index is damaged, and whose entries the newest
snapshot has. Ra would not start with them.
""".
-spec unneeded([file()], file:filename()) -> [file:filename()].
unneeded(Files, Server) ->
    Segments = todana_log_segments:indexes(Server),
    case [File || {File, {error, {broken, _, _, _}}} <- Segments] of
        [] ->
            [];
        Broken ->
            Spans = spans(Segments, Files),
            [File || File <- Broken, is_unneeded(File, Spans, Server)]
    end.

%% The log grows from file to file. So a file has only entries of the snapshot
%% if a later one begins with one of them, or with the next. Behind the last
%% file there is nothing if an orderly stop has noted the last entry.
-spec is_unneeded(file:filename(), [span()], file:filename()) -> boolean().
is_unneeded(Segment, Spans, Server) ->
    Snapshot = lists:max([0 | todana_snapshot_files:indexes(Server)]),
    Snapshot > 0 andalso
        (lists:any(
            fun({First, _Last, File}) ->
                First =< Snapshot + 1 andalso is_later(File, Segment)
            end,
            Spans
        ) orelse is_all(Snapshot, Server)).

-spec is_later(file:filename(), file:filename()) -> boolean().
is_later(File, Segment) ->
    filename:extension(File) =:= ".wal" orelse File > Segment.

-spec is_all(pos_integer(), file:filename()) -> boolean().
is_all(Snapshot, Server) ->
    case todana_log_mark:facts(Server) of
        {ok, #{index := Index, is_final := true}} -> Index =< Snapshot;
        _ -> false
    end.

-doc "Whether one of these files has this entry.".
-spec is_in_log(non_neg_integer(), [file()]) -> boolean().
is_in_log(Index, Files) ->
    lists:any(
        fun({First, Last, _}) -> First =< Index andalso Index =< Last end,
        lists:append([wal_span(File) || File <- Files])
    ).

-doc """
Whether one of these files may have had this entry, which was not on disk yet:
behind its end, or in a file without any entry that is damaged or has a
successor. Ra, or todana_log_copies, then takes away the copies from there on.
""".
-spec may_have_had(non_neg_integer(), [file()]) -> boolean().
may_have_had(Index, Files) ->
    Lost = [
        File
     || {_, #{last := none, damage := Damage}} = File <- Files,
        Damage =/= none orelse File =/= lists:last(Files)
    ],
    Lost =/= [] orelse lists:any(
        fun({First, _Last, _}) -> First =< Index end,
        lists:append([wal_span(File) || File <- Files])
    ).

-spec durability(file:filename()) -> todana_data_dir:durability().
durability(Directory) ->
    case filename:basename(Directory) of
        "everysec" -> everysec;
        _ -> always
    end.

%% The last entry of the newest snapshot, 0 without one.
-spec snapshot(file:filename()) ->
    {ok, non_neg_integer()} | {missing, iodata()}.
snapshot(Server) ->
    Indexes = todana_snapshot_files:indexes(Server),
    case Indexes =:= [] andalso todana_snapshot_files:is_born(Server) of
        false ->
            {ok, lists:max([0 | Indexes])};
        true ->
            Damaged = filename:join(Server, "damaged"),
            Hint = case filelib:is_dir(Damaged) of
                true -> [" (", Damaged, " has what was damaged)"];
                false -> ""
            end,
            {missing, ["the snapshot is missing", Hint]}
    end.

%% ----------------------------------------------------------------- spans ---

-spec spans(
    [{file:filename(), {ok, [non_neg_integer()]} | {error, problem()}}],
    [file()]
) -> [span()].
spans(Segments, Files) ->
    lists:sort(lists:append(
        [in_segment(File, Indexes) || {File, {ok, Indexes}} <- Segments] ++
        [wal_span(File) || File <- Files]
    )).

%% The index of a segment is not in order if entries were written again.
-spec in_segment(file:filename(), [non_neg_integer()]) -> [span()].
in_segment(File, Indexes) -> in_segment(File, lists:usort(Indexes), []).

-spec in_segment(file:filename(), [non_neg_integer()], [span()]) -> [span()].
in_segment(File, [Index | Rest], [{First, Last, _} | Spans])
  when Index =:= Last + 1 ->
    in_segment(File, Rest, [{First, Index, File} | Spans]);
in_segment(File, [Index | Rest], Spans) ->
    in_segment(File, Rest, [{Index, Index, File} | Spans]);
in_segment(_File, [], Spans) ->
    Spans.

-spec wal_span(file()) -> [span()].
wal_span({File, #{lowest := Lowest, last := #{index := Last}}}) ->
    [{Lowest, max(Lowest, Last), File}];
wal_span(_Empty) ->
    [].

%% Each hole between this entry and the end, before the file that follows it.
-spec holes(
    [span()], non_neg_integer(), non_neg_integer(), none | file:filename()
) -> [problem()].
holes([], _Have, _Snapshot, _Before) ->
    [];
holes([{First, Last, File} | Spans], Have, Snapshot, Before) ->
    Rest = holes(Spans, max(Have, Last), Snapshot, File),
    case First > Have + 1 of
        true -> [hole(Have + 1, First - 1, Snapshot, Before, File) | Rest];
        false -> Rest
    end.

-spec hole(
    pos_integer(), pos_integer(), non_neg_integer(),
    none | file:filename(), file:filename()
) -> problem().
hole(1, To, 0, none, File) ->
    {missing, File, [
        todana_log_problem:entries(1, To), " before this file, or the snapshot"
    ]};
hole(From, To, _Snapshot, Before, File) ->
    {missing, File, [
        todana_log_problem:entries(From, To), " before this file",
        absent(Before, File)
    ]}.

%% The names of files between these two, if they have numbers of one kind.
-spec absent(none | file:filename(), file:filename()) -> iodata().
absent(none, _File) ->
    "";
absent(Before, File) ->
    Extension = filename:extension(File),
    case filename:extension(Before) =:= Extension andalso
        {number(Before), number(File)}
    of
        {From, To} when is_integer(From), is_integer(To), To =:= From + 2 ->
            io_lib:format(" (no file ~16..0b~ts)", [From + 1, Extension]);
        {From, To} when is_integer(From), is_integer(To), To > From + 2 ->
            io_lib:format(" (no files ~16..0b~ts to ~16..0b~ts)",
                          [From + 1, Extension, To - 1, Extension]);
        _ ->
            ""
    end.

-spec number(file:filename()) -> integer() | none.
number(File) ->
    case string:to_integer(filename:rootname(filename:basename(File))) of
        {Number, ""} when is_integer(Number) -> Number;
        _ -> none
    end.

%% ------------------------------------------------------------------- end ---

-doc """
The last entry of a log with these scanned files, and the entry behind it that
was noted as confirmed.
""".
-spec confirmed_behind([file()], file:filename()) ->
    none | {non_neg_integer(), non_neg_integer()}
    | {error, problem()}.
confirmed_behind(Files, Server) ->
    Indexes = [
        Index
     || {_, {ok, Found}} <- todana_log_segments:indexes(Server), Index <- Found
    ],
    Lasts = [Last || File <- Files, {_, Last, _} <- wal_span(File)],
    Snapshots = todana_snapshot_files:indexes(Server),
    noted_behind(lists:max([0 | Indexes ++ Lasts ++ Snapshots]), Server).

-spec noted_behind(non_neg_integer(), file:filename()) ->
    none | {non_neg_integer(), non_neg_integer()} | {error, problem()}.
noted_behind(End, Server) ->
    case todana_log_mark:read(Server) of
        {ok, Confirmed} when Confirmed > End -> {End, Confirmed};
        {ok, _} -> none;
        %% It has no records, and the next start writes it again.
        damaged -> none;
        {error, Problem} -> {error, Problem}
    end.

-spec short([span()], non_neg_integer(), file:filename()) -> [problem()].
short(Spans, Snapshot, Server) ->
    End = lists:max([Snapshot | [Last || {_, Last, _} <- Spans]]),
    case noted_behind(End, Server) of
        none ->
            [];
        {error, Problem} ->
            [Problem];
        {_, Confirmed} ->
            [{short, filename:dirname(Server), io_lib:format(
                "the log ends with entry ~b, and entry ~b was confirmed, so "
                "its newest .wal file is missing or was cut", [End, Confirmed]
            )}]
    end.
