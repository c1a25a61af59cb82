%% The end of the log after a power failure.
%%
%% File systems write the sectors of a file in any order. If the power fails
%% before the fdatasync of a batch, some of its sectors may be on the disk and
%% others not, so that a record is damaged and a later one is whole. Ra then
%% refuses the file, since it cannot tell this from a defect of the disk.
%% Nothing in such a batch was acknowledged (with durability `everysec': nothing
%% older than a second), so the log may end before it.
%%
%% A sector that was never written reads as zeros, which a flipped bit does not.
%% So the file is cut at its first damaged record if there is such a sector in
%% the record, and if not more records follow than can be on their way at once.
%% The whole file is kept aside. This is called only after Ra has refused the
%% log, before it is started again.
-module(todana_torn_log).
-moduledoc false.

-export([cut/1]).

-define(SECTOR_BYTES, 512).
%% `todana_batcher' has four batches on their way; the others are small commands
%% of Ra and of this application.
-define(UNSYNCED_RECORDS_MAX, 16).
-define(HEAD_BYTES, 5).

-type place() :: {file:filename(), Offset :: non_neg_integer()}.

-doc "Cuts the log if it is torn; says where it is damaged otherwise.".
-spec cut(todana_data_dir:opened()) ->
    {cut, place()} | {damaged, place()} | whole | {error, term()}.
cut(#{class_dir := Directory} = Opened) ->
    Files = lists:sort(filelib:wildcard(filename:join(Directory, "*.wal"))),
    cut_first(Files, Opened).

-spec cut_first([file:filename()], todana_data_dir:opened()) ->
    {cut, place()} | {damaged, place()} | whole | {error, term()}.
cut_first([], _Opened) ->
    whole;
cut_first([File | Newer], #{durability := Durability} = Opened) ->
    case file:read_file(File) of
        {ok, <<"RAWA", 1, Records/binary>>} ->
            case first_damaged(Records, 0) of
                none ->
                    cut_first(Newer, Opened);
                Offset ->
                    Place = {File, ?HEAD_BYTES + Offset},
                    Rest = records_after(Records, Offset),
                    IsUnsynced = Durability =:= everysec orelse
                        (lists:all(fun is_empty/1, Newer) andalso
                         Rest =< ?UNSYNCED_RECORDS_MAX),
                    case IsUnsynced andalso has_hole(Records, Offset) of
                        true -> cut_at(Place, Newer, Opened);
                        false -> {damaged, Place}
                    end
            end;
        {ok, _} ->
            cut_first(Newer, Opened);
        {error, Reason} ->
            {error, {File, Reason}}
    end.

-spec is_empty(file:filename()) -> boolean().
is_empty(File) -> filelib:file_size(File) =< ?HEAD_BYTES.

%% ------------------------------------------------- records, as Ra has them ---

%% The offset of the first record whose checksum is wrong.
-spec first_damaged(binary(), non_neg_integer()) -> none | non_neg_integer().
first_damaged(Records, Offset) ->
    case record(Records, Offset) of
        {whole, Next} -> first_damaged(Records, Next);
        {damaged, _Next} -> Offset;
        %% Zeros, or less than a record.
        none -> none
    end.

-spec records_after(binary(), non_neg_integer()) -> non_neg_integer().
records_after(Records, Offset) ->
    case record(Records, Offset) of
        {_, Next} -> 1 + records_after(Records, Next);
        none -> 0
    end.

-spec record(binary(), non_neg_integer()) ->
    {whole | damaged, Next :: non_neg_integer()} | none.
record(Records, Offset) ->
    case Records of
        <<_:Offset/binary, _:1, 0:1, 0:22, IdBytes:16, _:IdBytes/binary,
          0:32, 0:32, _/binary>> ->
            none;
        <<_:Offset/binary, _:1, 0:1, _:22, IdBytes:16, _:IdBytes/binary,
          Sum:32, Bytes:32, Head:16/binary, Data:Bytes/binary, _/binary>> ->
            {is_whole(Sum, Head, Data), Offset + 5 + IdBytes + 24 + Bytes};
        <<_:Offset/binary, _:1, 1:1, _:22, Sum:32, Bytes:32, Head:16/binary,
          Data:Bytes/binary, _/binary>> ->
            {is_whole(Sum, Head, Data), Offset + 3 + 24 + Bytes};
        _ ->
            none
    end.

-spec is_whole(non_neg_integer(), binary(), binary()) -> whole | damaged.
is_whole(Sum, Head, Data) ->
    case erlang:adler32(erlang:adler32(Head), Data) of
        Sum -> whole;
        _ -> damaged
    end.

%% Whether a sector of the record was not written. Of its first sector, what is
%% before the record was.
-spec has_hole(binary(), non_neg_integer()) -> boolean().
has_hole(Records, Offset) ->
    {damaged, End} = record(Records, Offset),
    has_hole(Records, Offset, End).

-spec has_hole(binary(), non_neg_integer(), non_neg_integer()) -> boolean().
has_hole(_Records, From, End) when From >= End ->
    false;
has_hole(Records, From, End) ->
    Next = ((From + ?HEAD_BYTES) div ?SECTOR_BYTES + 1) * ?SECTOR_BYTES
        - ?HEAD_BYTES,
    Bytes = min(Next, byte_size(Records)) - From,
    case binary:part(Records, From, Bytes) of
        <<0:Bytes/unit:8>> -> true;
        _ -> has_hole(Records, Next, End)
    end.

%% --------------------------------------------------------------- cutting ---

-spec cut_at(place(), [file:filename()], todana_data_dir:opened()) ->
    {cut, place()} | {error, term()}.
cut_at({File, Offset} = Place, Newer, #{server_dir := Server}) ->
    Damaged = filename:join(Server, "damaged"),
    maybe
        ok ?= filelib:ensure_path(Damaged),
        {ok, _} ?= file:copy(File, filename:join(
            Damaged, filename:basename(File)
        )),
        %% They begin behind what is cut off.
        ok ?= each(fun(Name) ->
            file:rename(Name, filename:join(Damaged, filename:basename(Name)))
        end, Newer),
        {ok, Fd} ?= file:open(File, [read, write, raw]),
        {ok, Offset} ?= file:position(Fd, Offset),
        ok ?= file:truncate(Fd),
        ok ?= file:sync(Fd),
        ok ?= file:close(Fd),
        logger:warning(
            "todana: the end of the log was torn by a power failure, before "
            "it was acknowledged: ~ts was cut at offset ~b; the whole file is "
            "in ~ts", [File, Offset, Damaged]
        ),
        {cut, Place}
    end.

-spec each(fun((T) -> ok | {error, term()}), [T]) -> ok | {error, term()}.
each(_Do, []) -> ok;
each(Do, [First | Rest]) ->
    case Do(First) of
        ok -> each(Do, Rest);
        Error -> Error
    end.
