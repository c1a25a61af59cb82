%% One segment file of Ra's log, read without Ra's processes: which entries it
%% has, and whether they have their right checksums.
-module(todana_log_segment).
-moduledoc false.

-export([files/1, begun/1, indexes/1, readable/2, verify/2]).

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
            [Index || {Index, _, _} <- Rows,
             are_readable(Segment, Index, Index)]
        end)
    catch
        _:_ -> []
    end.

-doc """
Reads each entry. The result is the number of those that are whole, or the first
problem. An entry that is not, but that a file of the log still has, is none:
the power failed while it was being copied from there, and a start copies it
again.
""".
-spec verify(file:filename(), fun((non_neg_integer()) -> boolean())) ->
    {ok, non_neg_integer()} | {error, todana_log_problem:problem()}.
verify(File, IsElsewhere) ->
    try
        Rows = rows(File),
        with_segment(File, fun(Segment) ->
            Broken = [
                Row
             || Run <- runs(Rows), {Index, _, _} = Row <- broken(Segment, Run),
                not IsElsewhere(Index)
            ],
            case Broken of
                [] ->
                    {ok, length(Rows)};
                [{Index, _, Offset} | _] ->
                    broken(File, Offset, [
                        "entry ", integer_to_list(Index), " fails its checksum"
                    ])
            end
        end)
    catch
        _:_ -> broken(File, 0, "its header or index is damaged")
    end.

%% Rows of consecutive entries, which are read at once.
-spec runs([row()]) -> [[row(), ...]].
runs([]) ->
    [];
runs([Row | Rows]) ->
    runs(Rows, [Row], []).

-spec runs([row()], [row(), ...], [[row(), ...]]) -> [[row(), ...]].
runs([{Index, _, _} = Row | Rows], [{Last, _, _} | _] = Run, Runs)
  when Index =:= Last + 1 ->
    runs(Rows, [Row | Run], Runs);
runs([Row | Rows], Run, Runs) ->
    runs(Rows, [Row], [lists:reverse(Run) | Runs]);
runs([], Run, Runs) ->
    lists:reverse(Runs, [lists:reverse(Run)]).

%% Those of a run that fail their checksums.
-spec broken(term(), [row(), ...]) -> [row()].
broken(Segment, [{First, _, _} | _] = Run) ->
    {Last, _, _} = lists:last(Run),
    case are_readable(Segment, First, Last) of
        true -> [];
        false -> [
            Row
         || {Index, _, _} = Row <- Run, not are_readable(Segment, Index, Index)
        ]
    end.

%% Unless the disk does not give the file.
-spec broken(file:filename(), non_neg_integer(), iodata()) ->
    {error, todana_log_problem:problem()}.
broken(File, Offset, Why) ->
    case todana_log_unreadable:first_of([File]) of
        none -> {error, {broken, File, Offset, Why}};
        Problem -> {error, Problem}
    end.

%% The rows that count, as Ra reads them. An entry that is written again, after
%% a crash or by another leader, replaces its older row and all rows of later
%% entries. Room in the index that is not used has the offset 0.
-spec rows(file:filename()) -> [row()].
rows(File) ->
    Used = lists:takewhile(
        fun({_, _, Offset}) -> Offset > 0 end, ra_log_segment:dump_index(File)
    ),
    live(Used, 0, #{}).

-spec live([row()], non_neg_integer(), #{non_neg_integer() => row()}) ->
    [row()].
live([], _Last, Rows) ->
    lists:sort(maps:values(Rows));
live([{Index, _, _} = Row | Next], Last, Rows) when Index < Last ->
    Kept = maps:filter(fun(Older, _) -> Older < Index end, Rows),
    live(Next, Index, Kept#{Index => Row});
live([{Index, _, _} = Row | Next], _Last, Rows) ->
    live(Next, Index, Rows#{Index => Row}).

-spec with_segment(file:filename(), fun((term()) -> Result)) -> Result.
with_segment(File, Do) ->
    {ok, Segment} = ra_log_segment:open(File, #{mode => read}),
    try
        Do(Segment)
    after
        ra_log_segment:close(Segment)
    end.

-spec are_readable(term(), non_neg_integer(), non_neg_integer()) ->
    boolean().
are_readable(Segment, First, Last) ->
    Count = fun(_Entry, N) -> N + 1 end,
    try
        ra_log_segment:fold(
            Segment, First, Last, fun(Bytes) -> Bytes end, Count, 0
        ) =:= Last - First + 1
    catch
        _:_ -> false
    end.
