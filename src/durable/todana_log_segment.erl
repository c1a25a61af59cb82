%% One segment file of Ra's log, read without Ra's processes: which entries it
%% has, and whether they have their right checksums.
-module(todana_log_segment).
-moduledoc false.

-export([files/1, begun/1, indexes/1, readable/2, verify/1]).

%% Ra synchronizes it before it writes anything else.
-define(HEADER_BYTES, 8).

%% Entry, term, and where its data begins in the file.
-type row() :: {non_neg_integer(), non_neg_integer(), pos_integer()}.

-doc "The segment files with entries in the directory of a server, by age.".
-spec files(file:filename()) -> [file:filename()].
files(Server) -> all(Server) -- begun(Server).

-doc """
The newest file, if it has no more than its header, which may be torn: the power
failed when it had just been created.
""".
-spec begun(file:filename()) -> [file:filename()].
begun(Server) ->
    Files = all(Server),
    [
        File
     || File <- lists:nthtail(max(0, length(Files) - 1), Files),
        filelib:file_size(File) =< ?HEADER_BYTES
    ].

-spec all(file:filename()) -> [file:filename()].
all(Server) -> lists:sort(filelib:wildcard(filename:join(Server, "*.segment"))).

-doc "The entries that the index of a file names.".
-spec indexes(file:filename()) ->
    {ok, [non_neg_integer()]} | {error, todana_log_problem:problem()}.
indexes(File) ->
    try
        {ok, [Index || {Index, _, _} <- rows(File)]}
    catch
        _:_ -> broken(File, 0, "its header or index is damaged")
    end.

-doc "Those of these entries that the file has, with their right checksums.".
-spec readable(file:filename(), sets:set(non_neg_integer())) ->
    [non_neg_integer()].
readable(File, Wanted) ->
    try
        Rows = [Row || {Index, _, _} = Row <- rows(File),
                       sets:is_element(Index, Wanted)],
        with_segment(File, fun(Segment) ->
            [Index || {Index, _, _} <- Rows, is_readable(Segment, Index)]
        end)
    catch
        _:_ -> []
    end.

-doc "Reads each entry. The result is their number, or the first problem.".
-spec verify(file:filename()) ->
    {ok, non_neg_integer()} | {error, todana_log_problem:problem()}.
verify(File) ->
    try
        Rows = rows(File),
        with_segment(File, fun(Segment) -> verify(File, Segment, Rows, 0) end)
    catch
        _:_ -> broken(File, 0, "its header or index is damaged")
    end.

-spec verify(file:filename(), term(), [row()], non_neg_integer()) ->
    {ok, non_neg_integer()} | {error, todana_log_problem:problem()}.
verify(File, Segment, [{Index, _, Offset} | Rows], Count) ->
    case is_readable(Segment, Index) of
        true ->
            verify(File, Segment, Rows, Count + 1);
        false ->
            Why = io_lib:format("entry ~b fails its checksum", [Index]),
            broken(File, Offset, Why)
    end;
verify(_File, _Segment, [], Count) ->
    {ok, Count}.

%% Unless the disk does not give the file.
-spec broken(file:filename(), non_neg_integer(), iodata()) ->
    {error, todana_log_problem:problem()}.
broken(File, Offset, Why) ->
    case todana_log_unreadable:first_of([File]) of
        none -> {error, {broken, File, Offset, Why}};
        Problem -> {error, Problem}
    end.

%% Room in the index that is not used has the offset 0.
-spec rows(file:filename()) -> [row()].
rows(File) ->
    [
        Row
     || {_, _, Offset} = Row <- ra_log_segment:dump_index(File), Offset > 0
    ].

-spec with_segment(file:filename(), fun((term()) -> Result)) -> Result.
with_segment(File, Do) ->
    {ok, Segment} = ra_log_segment:open(File, #{mode => read}),
    try
        Do(Segment)
    after
        ra_log_segment:close(Segment)
    end.

-spec is_readable(term(), non_neg_integer()) -> boolean().
is_readable(Segment, Index) ->
    Count = fun(_Entry, N) -> N + 1 end,
    try
        ra_log_segment:fold(
            Segment, Index, Index, fun(Bytes) -> Bytes end, Count, 0
        ) =:= 1
    catch
        _:_ -> false
    end.
