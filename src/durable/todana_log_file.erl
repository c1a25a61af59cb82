%% One file of Ra's write-ahead log, read without Ra: where its good records
%% end, and what follows.
%%
%%     "RAWA" 1                                  5 bytes, then records:
%%     trunc:1 0:1 0:22 length:16 uid            the first of the file, or
%%     trunc:1 1:1 0:22                          each other
%%     checksum:32 length:32 index:64 term:64 data
%%
%% The checksum is Adler-32 of index, term and data. The log has one writer, so
%% its number is 0. Ra itself stops without a word at a header of zeros, at a
%% length that leads beyond the end of the file, and in front of data whose
%% writer it does not know; here each of them is damage, unless nothing but
%% zeros follows.
%%
%% The end of a file may be room for records to come, which todana_log_extent
%% makes: zeros. So a file ends with its last byte that is not zero, or with a
%% few zeros that belong to a record.
%%
%% Behind damage, further records are found by the bytes of their header, a
%% plausible index and their checksum. They tell how much was written after the
%% damaged record.
-module(todana_log_file).
-moduledoc false.

-export([scan/2, is_begun/1, first_index/1]).

-export_type([scanned/0, damage/0, entry/0]).

-define(MAGIC, "RAWA", 1).
-define(FIRST_OFFSET, 5).
%% Of the disk, or a divisor of it: what is on it completely or not at all.
-define(SECTOR_BYTES, 512).
%% How far the index of a later record may be from the last good one.
-define(INDEX_DISTANCE_MAX, (1 bsl 24)).
%% The data of a record ends with a process in most cases, whose last four bytes
%% tell its node from an earlier one of the name. They are not zero, unless the
%% node has no name: then they are, and further eight may be.
-define(END_ZEROS_MAX, 3).
-define(NAMELESS, "nonode@nohost").
-define(NAMELESS_END_ZEROS_MAX, 12).

-type entry() :: #{
    index := non_neg_integer(),
    term := non_neg_integer(),
    %% Of a batch.
    sequence => term(),
    %% When the leader took it.
    time_ms => integer()
}.
-type damage() :: #{
    offset := non_neg_integer(),
    %% A part of the record was never written: see has_hole/3.
    is_torn := boolean(),
    %% The file ends within the record, or has only zeros from there on.
    is_short := boolean(),
    %% What can still be read behind it.
    behind := [entry()]
}.
%% Index, term and data of a record.
-type log_record() :: {non_neg_integer(), non_neg_integer(), binary()}.
-type found() :: log_record() | none.
-type scanned() :: #{
    %% Without room for records to come.
    bytes := non_neg_integer(),
    first := entry() | none,
    last := entry() | none,
    %% The lowest index: records may be written again, behind later ones.
    lowest := non_neg_integer() | none,
    damage := damage() | none
}.

-doc "Reads a file of this writer. Its size is that of a file of the log.".
-spec scan(file:filename(), binary()) ->
    {ok, scanned()} | {error, file:posix() | badarg | terminated | format}.
scan(File, UId) ->
    case file:read_file(File, [raw]) of
        {ok, <<?MAGIC, _/binary>> = Bytes} ->
            {ok, scan_records(Bytes, UId, ?FIRST_OFFSET, none, none, none)};
        {ok, _} ->
            {error, format};
        {error, Reason} ->
            {error, Reason}
    end.

-doc """
Whether the power failed when this file had just been created: it has no more
than its first bytes, which may be missing or zero.
""".
-spec is_begun(file:filename()) -> boolean().
is_begun(File) ->
    filelib:file_size(File) =< ?FIRST_OFFSET andalso
        case file:read_file(File, [raw]) of
            {ok, Bytes} ->
                Size = byte_size(Bytes),
                lists:member(Bytes, [
                    binary:part(<<?MAGIC>>, 0, Size), <<0:Size/unit:8>>
                ]);
            {error, _} ->
                false
        end.

-doc "The first entry of a file of which this was read; 0 without one.".
-spec first_index({ok, binary()} | eof | {error, term()}) -> non_neg_integer().
first_index({ok, <<?MAGIC, _:24, IdBytes:16, _:IdBytes/binary, _:64, Index:64,
                   _/binary>>}) ->
    Index;
first_index(_Other) ->
    0.

-spec scan_records(
    binary(), binary(), pos_integer(), found(), found(),
    non_neg_integer() | none
) -> scanned().
scan_records(Bytes, UId, Offset, First, Last, Lowest) ->
    case record_at(Bytes, UId, Offset) of
        {ok, {Index, _, _} = Record, Next} when First =:= none ->
            scan_records(Bytes, UId, Next, Record, Record, Index);
        {ok, {Index, _, _} = Record, Next} ->
            scan_records(Bytes, UId, Next, First, Record, min(Index, Lowest));
        bad ->
            Written = written(Bytes, Offset, byte_size(Bytes)),
            #{
                bytes => Written,
                first => entry(First),
                last => entry(Last),
                lowest => Lowest,
                damage => damage(Bytes, Offset, Written, Last)
            }
    end.

%% Where the bytes between these offsets end without their last zeros.
-spec written(binary(), pos_integer(), pos_integer()) -> pos_integer().
written(_Bytes, From, To) when To =< From ->
    From;
written(Bytes, From, To) ->
    Start = max(From, To - ?SECTOR_BYTES),
    case is_zero(Bytes, Start, To) of
        true -> written(Bytes, From, Start);
        false -> last_byte(Bytes, To)
    end.

%% The same, if there is another byte than zeros.
-spec last_byte(binary(), pos_integer()) -> pos_integer().
last_byte(Bytes, To) ->
    case binary:at(Bytes, To - 1) of
        0 -> last_byte(Bytes, To - 1);
        _ -> To
    end.

%% The first record of a file names its writer, and no other does.
-spec record_at(binary(), binary(), pos_integer()) ->
    {ok, log_record(), pos_integer()} | bad.
record_at(Bytes, UId, ?FIRST_OFFSET) ->
    IdBytes = byte_size(UId),
    case Bytes of
        <<_:?FIRST_OFFSET/binary, _:1, 0:23, IdBytes:16, UId:IdBytes/binary,
          _/binary>> ->
            body_at(Bytes, ?FIRST_OFFSET + 5 + IdBytes);
        _ ->
            bad
    end;
record_at(Bytes, _UId, Offset) ->
    short_at(Bytes, Offset).

-spec short_at(binary(), non_neg_integer()) ->
    {ok, log_record(), pos_integer()} | bad.
short_at(Bytes, Offset) ->
    case Bytes of
        <<_:Offset/binary, _:1, 1:1, 0:22, _/binary>> ->
            body_at(Bytes, Offset + 3);
        _ ->
            bad
    end.

-spec body_at(binary(), pos_integer()) ->
    {ok, log_record(), pos_integer()} | bad.
body_at(Bytes, Offset) ->
    case Bytes of
        <<_:Offset/binary, Checksum:32, Length:32, Index:64, Term:64,
          Data:Length/binary, _/binary>> ->
            case erlang:adler32([<<Index:64, Term:64>>, Data]) of
                Checksum -> {ok, {Index, Term, Data}, Offset + 24 + Length};
                _ -> bad
            end;
        _ ->
            bad
    end.

%% ---------------------------------------------------------------- damage ---

-spec damage(binary(), pos_integer(), pos_integer(), found()) ->
    damage() | none.
damage(_Bytes, Offset, Offset, _Last) ->
    none;
damage(Bytes, Offset, Written, Last) ->
    Lowest = case Last of
        none -> none;
        {Index, _, _} -> Index
    end,
    {First, Behind} = behind(Bytes, Offset, Lowest),
    IsPart = Behind =/= [] orelse not is_whole(Bytes, Offset, Written),
    IsShort = IsPart andalso Behind =:= [] andalso
        ends_within(Bytes, Offset, Written),
    #{
        offset => Offset,
        is_torn => IsShort orelse IsPart andalso has_hole(Bytes, Offset, First),
        is_short => IsShort,
        behind => Behind
    }.

%% The readable records behind the one at this offset, and where the first of
%% them begins.
-spec behind(binary(), non_neg_integer(), non_neg_integer() | none) ->
    {non_neg_integer(), [entry()]}.
behind(Bytes, Offset, Lowest) ->
    From = Offset + 1,
    Places = binary:matches(
        Bytes, [<<16#400000:24>>, <<16#C00000:24>>],
        [{scope, {min(From, byte_size(Bytes)),
                  max(0, byte_size(Bytes) - From)}}]
    ),
    behind(Bytes, Lowest, Places, 0, byte_size(Bytes), []).

-spec behind(
    binary(), non_neg_integer() | none,
    [{non_neg_integer(), non_neg_integer()}], non_neg_integer(),
    non_neg_integer(), [entry()]
) -> {non_neg_integer(), [entry()]}.
behind(_Bytes, _Lowest, [], _Beyond, First, Entries) ->
    {First, lists:reverse(Entries)};
behind(Bytes, Lowest, [{At, _} | Places], Beyond, First, Entries) ->
    case At >= Beyond andalso is_plausible(Bytes, At, Lowest) andalso
        short_at(Bytes, At)
    of
        {ok, Record, Next} ->
            Found = [entry(Record) | Entries],
            behind(Bytes, Lowest, Places, Next, min(First, At), Found);
        _ ->
            behind(Bytes, Lowest, Places, Beyond, First, Entries)
    end.

-spec is_plausible(binary(), non_neg_integer(), non_neg_integer() | none) ->
    boolean().
is_plausible(Bytes, At, Lowest) ->
    case Bytes of
        <<_:At/binary, _:24, _:64, Index:64, _/binary>> ->
            Lowest =:= none orelse
                (Index > Lowest andalso Index - Lowest < ?INDEX_DISTANCE_MAX);
        _ ->
            false
    end.

-spec entry(found()) -> entry() | none.
entry(none) ->
    none;
entry({Index, Term, Data}) ->
    Entry = #{index => Index, term => Term},
    try binary_to_term(Data) of
        {'$usr', #{ts := TimeMs}, _, {notify, Sequence, _}} ->
            Entry#{time_ms => TimeMs, sequence => Sequence};
        Command when is_tuple(Command), is_map(element(2, Command)) ->
            case element(2, Command) of
                #{ts := TimeMs} -> Entry#{time_ms => TimeMs};
                #{} -> Entry
            end;
        _ ->
            Entry
    catch
        error:badarg -> Entry
    end.

%% Whether a part of the record was never written. That is so if the file ends
%% within it, or if it has a sector of zeros: a sector that the disk did not get
%% to before the power failed reads as zeros, because the file was shorter
%% before. What the file has before the record counts as written, so the sector
%% in which it begins counts from there on; a sector of the end of the file
%% counts up to there.
-spec has_hole(binary(), pos_integer(), non_neg_integer()) -> boolean().
has_hole(Bytes, Offset, End) ->
    {Head, Length} = head(Bytes, Offset),
    Own = case Offset + Head + Length of
        Within when Within =< byte_size(Bytes) -> min(Within, End);
        %% The length is damaged, or the record is the last.
        _ -> End
    end,
    has_zero_sector(Bytes, Offset, Own).

%% The bytes of the header, and those of the data that it announces.
-spec head(binary(), pos_integer()) ->
    {pos_integer(), non_neg_integer()}.
head(Bytes, Offset) ->
    Id = case Bytes of
        <<_:?FIRST_OFFSET/binary, _:24, IdBytes:16, _/binary>>
          when Offset =:= ?FIRST_OFFSET -> 5 + IdBytes;
        _ -> 3
    end,
    case Bytes of
        <<_:Offset/binary, _:Id/binary, _:32, Length:32, _/binary>> ->
            {Id + 24, Length};
        _ ->
            {Id + 24, 0}
    end.

-spec has_zero_sector(binary(), non_neg_integer(), non_neg_integer()) ->
    boolean().
has_zero_sector(_Bytes, At, End) when At >= End ->
    false;
has_zero_sector(Bytes, At, End) ->
    Next = (At div ?SECTOR_BYTES + 1) * ?SECTOR_BYTES,
    is_zero(Bytes, At, min(Next, byte_size(Bytes))) orelse
        has_zero_sector(Bytes, Next, End).

%% Whether the file ends within the record. No entry is without data.
-spec ends_within(binary(), pos_integer(), pos_integer()) -> boolean().
ends_within(Bytes, Offset, Written) ->
    {Head, Length} = head(Bytes, Offset),
    End = Offset + Head + Length,
    Length =:= 0 orelse End > byte_size(Bytes) orelse
        End > Written + end_zeros_max(Bytes, End).

%% How many zeros the record may have that ends here.
-spec end_zeros_max(binary(), pos_integer()) -> pos_integer().
end_zeros_max(Bytes, End) ->
    Before = End - ?NAMELESS_END_ZEROS_MAX - length(?NAMELESS),
    case Bytes of
        <<_:Before/binary, ?NAMELESS, _/binary>> -> ?NAMELESS_END_ZEROS_MAX;
        _ -> ?END_ZEROS_MAX
    end.

%% Whether the length alone of the last record is damaged: it has its checksum
%% up to the end of the file.
-spec is_whole(binary(), pos_integer(), pos_integer()) -> boolean().
is_whole(Bytes, Offset, Written) ->
    {Head, _} = head(Bytes, Offset),
    Summed = Offset + Head - 16,
    To = min(Written + ?NAMELESS_END_ZEROS_MAX, byte_size(Bytes)),
    case Bytes of
        <<_:(Summed - 8)/binary, Checksum:32, _:32, _/binary>>
          when Written >= Summed + 16 ->
            <<_:Summed/binary, Data:(To - Summed)/binary, _/binary>> = Bytes,
            Sums = checksums(Data, Written - Summed, To - Summed),
            lists:member(Checksum, Sums);
        _ ->
            false
    end.

%% The checksums of the first bytes, up to each of these offsets.
-spec checksums(binary(), pos_integer(), pos_integer()) -> [non_neg_integer()].
checksums(Bytes, From, To) ->
    First = erlang:adler32(binary:part(Bytes, 0, From)),
    lists:foldl(
        fun(At, [Sum | _] = Sums) ->
            [erlang:adler32(Sum, binary:part(Bytes, At, 1)) | Sums]
        end,
        [First], lists:seq(From, To - 1)
    ).

-spec is_zero(binary(), non_neg_integer(), non_neg_integer()) -> boolean().
is_zero(_Bytes, From, To) when From >= To ->
    true;
is_zero(Bytes, From, To) ->
    Length = min(To - From, ?SECTOR_BYTES),
    binary:part(Bytes, From, Length) =:= <<0:Length/unit:8>> andalso
        is_zero(Bytes, From + Length, To).
