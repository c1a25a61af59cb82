%% One segment file of Ra's log, read without Ra: which entries it has, and
%% whether they have their right checksums.
%%
%%     "RASG" 2:16 rows:16                       8 bytes
%%     index:64 term:64 offset:64 length:32 checksum:32      each row
%%     data
%%
%% There is room for this number of rows; those that are not used are zeros. The
%% checksum is the CRC-32 of the data.
-module(todana_log_segment).
-moduledoc false.

-export([files/1, begun/1, indexes/1, is_torn/1]).
-export([readable/2, verify/2, broken/3, copy/3]).

%% Ra synchronizes it before it writes anything else.
-define(HEADER_BYTES, 8).
-define(ROW_BYTES, 32).

-record(row, {
    index :: non_neg_integer(),
    term :: non_neg_integer(),
    offset :: pos_integer(),
    bytes :: non_neg_integer(),
    checksum :: non_neg_integer()
}).

-type problem() :: todana_log_problem:problem().

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
    {ok, [non_neg_integer()]} | {error, problem()}.
indexes(File) ->
    read(File, fun(_Fd, Rows) ->
        {ok, [Index || #row{index = Index} <- Rows]}
    end).

-doc "Those of these entries that the file has, with their right checksums.".
-spec readable(file:filename(), sets:set(non_neg_integer())) ->
    [non_neg_integer()].
readable(File, Wanted) ->
    Found = read(File, fun(Fd, Rows) ->
        {ok, [
            Index
         || #row{index = Index} = Row <- Rows,
            sets:is_element(Index, Wanted), data(Fd, Row) =/= error
        ]}
    end),
    case Found of
        {ok, Indexes} -> Indexes;
        {error, _} -> []
    end.

-doc """
Reads each entry. The result is the number of those that are whole, or the first
problem. An entry that is not, but that a file of the log still has, is none:
the power failed while it was being copied from there, and a start copies it
again.
""".
-spec verify(file:filename(), fun((non_neg_integer()) -> boolean())) ->
    {ok, non_neg_integer()} | {error, problem()}.
verify(File, IsElsewhere) ->
    read(File, fun(Fd, Rows) ->
        Broken = [
            Row
         || #row{index = Index} = Row <- Rows,
            data(Fd, Row) =:= error, not IsElsewhere(Index)
        ],
        case Broken of
            [] -> {ok, length(Rows)};
            [Row | _] -> {error, checksum(File, Row)}
        end
    end).

-doc """
The first of the entries between these two that the file has, but damaged.
""".
-spec broken(
    file:filename(), non_neg_integer(), non_neg_integer() | infinity
) -> none | {non_neg_integer(), problem()} | {error, problem()}.
broken(File, First, Last) ->
    read(File, fun(Fd, Rows) ->
        Broken = [
            Row
         || #row{index = Index} = Row <- Rows,
            First =< Index, Index =< Last, data(Fd, Row) =:= error
        ],
        case Broken of
            [] -> none;
            [#row{index = Index} = Row | _] -> {Index, checksum(File, Row)}
        end
    end).

-doc """
Whether something is behind the rows of the index that are in use: some sectors
of rows behind them are on disk, and one before is not.
""".
-spec is_torn(file:filename()) -> boolean().
is_torn(File) ->
    Found = read_index(File, fun(_Fd, Index) ->
        Used = length(used(Index)) * ?ROW_BYTES,
        <<_:Used/binary, Rest/binary>> = Index,
        Rest =/= <<0:(byte_size(Rest))/unit:8>>
    end),
    Found =:= true.

-doc "Writes another segment file with these entries, which are whole.".
-spec copy(file:filename(), [non_neg_integer()], file:filename()) ->
    ok | {error, term()}.
copy(File, Indexes, To) ->
    read_index(File, fun(Fd, Index) ->
        Rows = [
            Row
         || #row{index = Entry} = Row <- live(used(Index), 0, #{}),
            lists:member(Entry, Indexes)
        ],
        Room = byte_size(Index) div ?ROW_BYTES,
        maybe
            {ok, Empty} ?= ra_log_segment:open(To, #{max_count => Room}),
            Copied = copy_each(Fd, Rows, Empty),
            _ = ra_log_segment:close(Empty),
            Copied
        end
    end).

-spec copy_each(file:io_device(), [#row{}], term()) -> ok | {error, term()}.
copy_each(_Fd, [], To) ->
    maybe
        {ok, _} ?= ra_log_segment:sync(To),
        ok
    end;
copy_each(Fd, [#row{index = Index, term = Term} = Row | Rows], To) ->
    maybe
        {ok, Data} ?= data(Fd, Row),
        {ok, Next} ?= ra_log_segment:append(To, Index, Term, Data),
        copy_each(Fd, Rows, Next)
    end.

%% ------------------------------------------------------------------ read ---

-spec read(file:filename(), fun((file:io_device(), [#row{}]) -> Result)) ->
    Result | {error, problem()}.
read(File, Do) ->
    read_index(File, fun(Fd, Index) -> Do(Fd, live(used(Index), 0, #{})) end).

-spec read_index(
    file:filename(), fun((file:io_device(), binary()) -> Result)
) -> Result | {error, problem()}.
read_index(File, Do) ->
    maybe
        {ok, Fd} ?= file:open(File, [read, raw, binary]),
        try index(Fd) of
            {ok, Index} -> Do(Fd, Index);
            _ -> {error, header(File)}
        after
            file:close(Fd)
        end
    else
        {error, _} -> {error, header(File)}
    end.

-spec index(file:io_device()) -> {ok, binary()} | eof | {error, term()}.
index(Fd) ->
    maybe
        {ok, <<"RASG", 2:16, Rows:16>>} ?= file:pread(Fd, 0, ?HEADER_BYTES),
        file:pread(Fd, ?HEADER_BYTES, Rows * ?ROW_BYTES)
    else
        _ -> eof
    end.

%% The rows up to the first without an offset.
-spec used(binary()) -> [#row{}].
used(<<Index:64, Term:64, Offset:64, Bytes:32, Checksum:32, Rest/binary>>)
  when Offset > 0 ->
    Row = #row{
        index = Index, term = Term, offset = Offset, bytes = Bytes,
        checksum = Checksum
    },
    [Row | used(Rest)];
used(_Unused) ->
    [].

%% The rows that count, as Ra reads them. An entry that is written again, after
%% a crash or by another leader, replaces its older row and all rows of later
%% entries.
-spec live([#row{}], non_neg_integer(), #{non_neg_integer() => #row{}}) ->
    [#row{}].
live([], _Last, Rows) ->
    [Row || _ := Row <- maps:iterator(Rows, ordered)];
live([#row{index = Index} = Row | Next], Last, Rows) when Index < Last ->
    Kept = maps:filter(fun(Older, _) -> Older < Index end, Rows),
    live(Next, Index, Kept#{Index => Row});
live([#row{index = Index} = Row | Next], _Last, Rows) ->
    live(Next, Index, Rows#{Index => Row}).

%% The data of an entry. If only the first sector of its row is on disk, it has
%% no length, and no checksum, with which Ra would be content.
-spec data(file:io_device(), #row{}) -> {ok, binary()} | error.
data(_Fd, #row{bytes = 0}) ->
    error;
data(Fd, #row{offset = Offset, bytes = Bytes, checksum = Checksum}) ->
    case file:pread(Fd, Offset, Bytes) of
        {ok, Data} when byte_size(Data) =:= Bytes ->
            case erlang:crc32(Data) of
                Checksum -> {ok, Data};
                _ -> error
            end;
        _ ->
            error
    end.

%% -------------------------------------------------------------- problems ---

-spec checksum(file:filename(), #row{}) -> problem().
checksum(File, #row{index = Index, offset = Offset}) ->
    problem(File, Offset, [
        "entry ", integer_to_list(Index), " fails its checksum"
    ]).

-spec header(file:filename()) -> problem().
header(File) -> problem(File, 0, "its header or index is damaged").

%% Unless the disk does not give the file.
-spec problem(file:filename(), non_neg_integer(), iodata()) -> problem().
problem(File, Offset, Why) ->
    case todana_log_unreadable:first_of([File]) of
        none -> {broken, File, Offset, Why};
        Problem -> Problem
    end.
