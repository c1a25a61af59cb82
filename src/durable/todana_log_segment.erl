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

-export([files/1, begun/1, indexes/1, damage/1, readable/2]).
-export([is_torn/1, left_over/1, bytes/2]).

-export_type([damage/0]).

%% Ra synchronizes it before it writes anything else.
-define(HEADER_BYTES, 8).
-define(MAGIC, "RASG", 2:16).
-define(ROW_BYTES, 32).
%% Of the disk, or a divisor of it: what is on it completely or not at all.
-define(SECTOR_BYTES, 512).

-record(row, {
    index :: non_neg_integer(),
    term :: non_neg_integer(),
    offset :: pos_integer(),
    bytes :: non_neg_integer(),
    checksum :: non_neg_integer()
}).

-type problem() :: todana_log_problem:problem().
%% An entry without its right data, and whether a part of that was never
%% written.
-type damage() :: {non_neg_integer(), IsTorn :: boolean(), problem()}.

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
    read(File, fun(_Fd, Index) ->
        {ok, [Entry || #row{index = Entry} <- live(used(Index))]}
    end).

-doc "The same, and those that are not whole: reads each.".
-spec damage(file:filename()) ->
    {ok, [non_neg_integer()], [damage()]} | {error, problem()}.
damage(File) ->
    read(File, fun(Fd, Index) ->
        damage(File, Fd, live(used(Index)), [], [])
    end).

-spec damage(
    file:filename(), file:io_device(), [#row{}], [non_neg_integer()], [damage()]
) -> {ok, [non_neg_integer()], [damage()]} | {error, problem()}.
damage(_File, _Fd, [], Entries, Damage) ->
    {ok, lists:reverse(Entries), lists:reverse(Damage)};
damage(File, Fd, [#row{index = Entry, offset = At} = Row | Rows], Entries,
       Damage) ->
    case data(Fd, Row) of
        {ok, _} ->
            damage(File, Fd, Rows, [Entry | Entries], Damage);
        {bad, IsTorn} ->
            Why = io_lib:format("entry ~b fails its checksum", [Entry]),
            Found = {Entry, IsTorn, {broken, File, At, Why}},
            damage(File, Fd, Rows, [Entry | Entries], [Found | Damage]);
        {error, Reason} ->
            unusable(File, Reason)
    end.

-doc "Those of these entries that the file has, with their right checksums.".
-spec readable(file:filename(), sets:set(non_neg_integer())) ->
    [non_neg_integer()].
readable(File, Wanted) ->
    Found = read(File, fun(Fd, Index) ->
        {ok, [
            Entry
         || #row{index = Entry} = Row <- live(used(Index)),
            sets:is_element(Entry, Wanted), {ok, _} <- [data(Fd, Row)]
        ]}
    end),
    case Found of
        {ok, Entries} -> Entries;
        {error, _} -> []
    end.

-doc """
Whether something is behind the rows of the index that are in use: sectors of
rows behind them are on disk, and one before is not.
""".
-spec is_torn(file:filename()) -> {ok, boolean()} | {error, problem()}.
is_torn(File) ->
    read(File, fun(_Fd, Index) ->
        Used = length(used(Index)) * ?ROW_BYTES,
        <<_:Used/binary, Rest/binary>> = Index,
        {ok, not is_zero(Rest)}
    end).

-doc "Where the data ends, if the file goes on behind it.".
-spec left_over(file:filename()) ->
    {ok, none | pos_integer()} | {error, problem()}.
left_over(File) ->
    read(File, fun(_Fd, Index) ->
        End = case used(Index) of
            [] ->
                ?HEADER_BYTES + byte_size(Index);
            [_ | _] = Rows ->
                #row{offset = Offset, bytes = Bytes} = lists:last(Rows),
                Offset + Bytes
        end,
        case filelib:file_size(File) > End of
            true -> {ok, End};
            false -> {ok, none}
        end
    end).

-doc "A segment file that has these entries of another one.".
-spec bytes(file:filename(), [non_neg_integer()]) ->
    {ok, iolist()} | {error, problem()}.
bytes(File, Entries) ->
    read(File, fun(Fd, Index) ->
        Rows = [
            Row || #row{index = Entry} = Row <- live(used(Index)),
                   lists:member(Entry, Entries)
        ],
        Read = [{Row, data(Fd, Row)} || Row <- Rows],
        Whole = [{Row, Data} || {Row, {ok, Data}} <- Read],
        case [Result || {_, Result} <- Read, element(1, Result) =/= ok] of
            [] -> {ok, segment(Index, Whole)};
            [{error, Reason} | _] -> unusable(File, Reason);
            [{bad, _} | _] -> unusable(File, eio)
        end
    end).

-spec segment(binary(), [{#row{}, binary()}]) -> iolist().
segment(Index, Entries) ->
    {Rows, _} = lists:mapfoldl(
        fun({Row, Data}, Offset) ->
            #row{index = Entry, term = Term, checksum = Checksum} = Row,
            Bytes = byte_size(Data),
            {<<Entry:64, Term:64, Offset:64, Bytes:32, Checksum:32>>,
             Offset + Bytes}
        end,
        ?HEADER_BYTES + byte_size(Index), Entries
    ),
    Unused = byte_size(Index) - length(Rows) * ?ROW_BYTES,
    [
        <<?MAGIC, (byte_size(Index) div ?ROW_BYTES):16>>, Rows,
        <<0:Unused/unit:8>>, [Data || {_, Data} <- Entries]
    ].

%% ------------------------------------------------------------------ read ---

%% With the index.
-spec read(
    file:filename(),
    fun((file:io_device(), binary()) -> Result | {error, problem()})
) -> Result | {error, problem()}.
read(File, Do) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            try index(Fd) of
                {ok, Index} -> Do(Fd, Index);
                {error, Reason} -> unusable(File, Reason);
                _ -> header(File)
            after
                file:close(Fd)
            end;
        {error, enoent} ->
            header(File);
        {error, Reason} ->
            unusable(File, Reason)
    end.

-spec index(file:io_device()) -> {ok, binary()} | eof | {error, term()}.
index(Fd) ->
    maybe
        {ok, <<?MAGIC, Rows:16>>} ?= file:pread(Fd, 0, ?HEADER_BYTES),
        file:pread(Fd, ?HEADER_BYTES, Rows * ?ROW_BYTES)
    else
        {error, Reason} -> {error, Reason};
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
-spec live([#row{}]) -> [#row{}].
live(Rows) -> live(Rows, 0, #{}).

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
-spec data(file:io_device(), #row{}) ->
    {ok, binary()} | {bad, IsTorn :: boolean()} | {error, term()}.
data(_Fd, #row{bytes = 0}) ->
    {bad, true};
data(Fd, #row{offset = Offset, bytes = Bytes, checksum = Checksum}) ->
    case file:pread(Fd, Offset, Bytes) of
        {ok, Data} when byte_size(Data) =:= Bytes ->
            case erlang:crc32(Data) of
                Checksum -> {ok, Data};
                _ -> {bad, has_hole(Data, Offset)}
            end;
        {error, Reason} ->
            {error, Reason};
        _Short ->
            {bad, true}
    end.

%% Whether a sector of the data is zeros, as one that was never written; the
%% first and the last are shared with others.
-spec has_hole(binary(), pos_integer()) -> boolean().
has_hole(<<>>, _Offset) ->
    false;
has_hole(Data, Offset) ->
    Length = min(?SECTOR_BYTES - Offset rem ?SECTOR_BYTES, byte_size(Data)),
    <<Part:Length/binary, Rest/binary>> = Data,
    is_zero(Part) orelse has_hole(Rest, Offset + Length).

-spec is_zero(binary()) -> boolean().
is_zero(Bytes) -> Bytes =:= <<0:(byte_size(Bytes))/unit:8>>.

%% -------------------------------------------------------------- problems ---

-spec header(file:filename()) -> {error, problem()}.
header(File) ->
    {error, {broken, File, 0, "its header or index is damaged"}}.

-spec unusable(file:filename(), term()) -> {error, problem()}.
unusable(File, Reason) ->
    {error, {unusable, File, file:format_error(Reason)}}.
