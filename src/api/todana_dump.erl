%% `todana:dump' and `todana:load': a table's records in a file, and back.
%%
%% docs/internals/dump-format.md describes the file. Both walk through it with
%% bounded memory: a block at a time.
-module(todana_dump).
-moduledoc false.

-export([dump/2, load/2, store_encoded/2]).

-define(MAGIC, <<16#89, "TODANA\n">>).
-define(VERSION, 1).
-define(BLOCK, $B).
-define(TRAILER, $E).
-define(OPTIONS_BYTES_MAX, 65_536).
%% A block ends with the record that makes it as long as this.
-define(BLOCK_BYTES, 262_144).
%% The longest block: one less than that, and the largest record.
-define(PAYLOAD_BYTES_MAX, 262_144 + 20 + 65_536 + 536_870_912).
%% Records that one native call returns, about.
-define(COUNT, 100).
%% Key and value are given as the table stores them.
-define(ENCODED, 3).
%% Records of one write to a durable table.
-define(PART_RECORDS, 256).
%% Tables with other bytes of keys than those of `todana_codec:key/1'.
-define(ORDERED_TERM, 2).
-define(TERM, 1).

-type written() :: #{records := non_neg_integer(), bytes := pos_integer()}.
-type loaded() ::
    #{loaded := non_neg_integer(), expired := non_neg_integer()}.
-type failure() :: #{
    reason := term(),
    offset := non_neg_integer(),
    loaded := non_neg_integer()
}.
%% The file being written: blocks, records and bytes so far.
-record(out, {
    file :: file:io_device(),
    blocks = 0 :: non_neg_integer(),
    records = 0 :: non_neg_integer(),
    bytes = 0 :: non_neg_integer()
}).
%% The file being read, from this offset on.
-record(in, {
    file :: file:io_device() | none,
    table :: todana:table(),
    durable = false :: boolean(),
    kind = 0 :: 0..2,
    offset = 0 :: non_neg_integer(),
    blocks = 0 :: non_neg_integer(),
    loaded = 0 :: non_neg_integer(),
    expired = 0 :: non_neg_integer()
}).

%% ------------------------------------------------------------------ dump ---

-doc "See `todana:dump/2`.".
-spec dump(todana:table(), file:name_all()) ->
    {ok, written()} | {error, term()} | todana_error:cause().
dump(Table, Path) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        _ ->
            case name(Path) of
                {ok, Name} -> dump_named(Table, Name);
                error -> {badarg, 2, not_a_file_name}
            end
    end.

-spec name(term()) -> {ok, string() | binary()} | error.
name(Path) when is_binary(Path), Path =/= ~"" ->
    {ok, Path};
name(Path) ->
    try filename:flatten(Path) of
        Name when is_list(Name), Name =/= "" -> {ok, Name};
        _ -> error
    catch
        error:_ -> error
    end.

%% Under another name in the same directory, until it is complete.
-spec dump_named(todana:table(), string() | binary()) ->
    {ok, written()} | {error, term()} | todana_error:cause().
dump_named(Table, Name) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Suffix = "." ++ os:getpid() ++ "." ++ Unique ++ ".tmp",
    Partial =
        case Name of
            <<_/binary>> -> <<Name/binary, (list_to_binary(Suffix))/binary>>;
            _ -> Name ++ Suffix
        end,
    case file:open(Partial, [write, exclusive, raw, binary]) of
        {ok, File} ->
            try write(Table, File) of
                {ok, Written} -> publish(Partial, Name, Written);
                Failure -> Failure
            after
                %% Nothing is lost: a complete file was synced.
                _ = file:close(File),
                _ = file:delete(Partial)
            end;
        {error, badarg} ->
            %% For example, the name contains a zero byte.
            {badarg, 2, not_a_file_name};
        {error, _} = Error ->
            Error
    end.

-spec publish(string() | binary(), string() | binary(), written()) ->
    {ok, written()} | {error, term()}.
publish(Partial, Name, Written) ->
    case file:rename(Partial, Name) of
        ok ->
            case sync_directory(filename:dirname(Name)) of
                ok -> {ok, Written};
                Error -> Error
            end;
        Error ->
            Error
    end.

-spec sync_directory(string() | binary()) -> ok | {error, term()}.
sync_directory(Directory) ->
    case file:open(Directory, [read, raw, directory]) of
        {ok, File} ->
            Synced = file:sync(File),
            _ = file:close(File),
            Synced;
        Error ->
            Error
    end.

-spec write(todana:table(), file:io_device()) ->
    {ok, written()} | {error, term()} | todana_error:cause().
write(Table, File) ->
    case todana_nif:snapshot(Table) of
        {ok, Snapshot} ->
            try
                Out0 = put_bytes(header(Table), #out{file = File}),
                Out1 = write_blocks(Snapshot, [], 0, 0, Out0),
                #out{blocks = Blocks, records = Records} = Out1,
                Trailer = <<?TRAILER, Blocks:32, Records:64>>,
                #out{bytes = Bytes} = put_bytes(summed(Trailer), Out1),
                case file:sync(File) of
                    ok -> {ok, #{records => Records, bytes => Bytes}};
                    Unsynced -> Unsynced
                end
            catch
                throw:{error, _} = Error -> Error
            after
                todana_nif:snapshot_end(Snapshot)
            end;
        Failure ->
            Failure
    end.

-spec header(todana:table()) -> iodata().
header(Table) ->
    Info = maps:without([database], info(Table)),
    Options = term_to_binary(Info, [deterministic]),
    Size = byte_size(Options),
    Head = <<?MAGIC/binary, ?VERSION:16, (kind(Table)), Size:32>>,
    summed([Head, Options]).

-spec info(todana:table()) -> map().
info(Table) ->
    todana_error:answer(info, [Table], todana_tables:info(Table)).

%% Tables of the same kind store the same bytes for the same keys and values.
-spec kind(todana:table()) -> 0..2.
kind(Table) ->
    case info(Table) of
        #{codec := raw} -> 0;
        #{codec := term, type := set} -> 1;
        #{codec := term, type := ordered_set} -> ?ORDERED_TERM
    end.

-spec kind_name(byte()) -> atom().
kind_name(0) -> raw;
kind_name(?TERM) -> term;
kind_name(?ORDERED_TERM) -> ordered_term;
kind_name(_) -> unknown.

%% Count and bytes are those of the records that are not written yet.
-spec write_blocks(
    todana_nif:snapshot(), iodata(), non_neg_integer(), non_neg_integer(),
    #out{}
) -> #out{}.
write_blocks(Snapshot, Records0, Bytes0, Count0, Out0) ->
    {Word, New} = part(Snapshot),
    {Records, Bytes, Count, Out} = gather(New, Records0, Bytes0, Count0, Out0),
    case Word of
        more -> write_blocks(Snapshot, Records, Bytes, Count, Out);
        done when Count =:= 0 -> Out;
        done -> write_block(Records, Bytes, Count, Out);
        abandoned -> throw({error, abandoned})
    end.

-spec part(todana_nif:snapshot()) ->
    {more | done | abandoned, [todana_nif:stored()]} | todana_nif:misuse().
part(Snapshot) ->
    case todana_nif:snapshot_records(Snapshot, ?COUNT) of
        dirty -> todana_nif:snapshot_records_dirty(Snapshot, ?COUNT);
        Result -> Result
    end.

-spec gather(
    [todana_nif:stored()], iodata(), non_neg_integer(), non_neg_integer(),
    #out{}
) -> {iodata(), non_neg_integer(), non_neg_integer(), #out{}}.
gather([], Records, Bytes, Count, Out) ->
    {Records, Bytes, Count, Out};
gather(New, Records, Bytes, Count, Out) when Bytes >= ?BLOCK_BYTES ->
    gather(New, [], 0, 0, write_block(Records, Bytes, Count, Out));
gather([{Key, Value, Flags, Expiry} | New], Records, Bytes, Count, Out) ->
    %% No record that a table keeps expires at 0.
    AtMs =
        case Expiry of
            infinity -> 0;
            _ -> Expiry
        end,
    Head = <<(byte_size(Key)):32, (byte_size(Value)):32, Flags:32, AtMs:64>>,
    Size = 20 + byte_size(Key) + byte_size(Value),
    gather(New, [Records, Head, Key, Value], Bytes + Size, Count + 1, Out).

-spec write_block(iodata(), non_neg_integer(), pos_integer(), #out{}) ->
    #out{}.
write_block(Payload, Bytes, Count, #out{blocks = Blocks} = Out) ->
    Head = summed(<<?BLOCK, Blocks:32, Count:32, Bytes:32>>),
    #out{records = Records} = Next = put_bytes(summed([Head, Payload]), Out),
    Next#out{blocks = Blocks + 1, records = Records + Count}.

-spec summed(iodata()) -> iodata().
summed(Bytes) ->
    [Bytes, <<(erlang:crc32(Bytes)):32>>].

-spec put_bytes(iodata(), #out{}) -> #out{}.
put_bytes(Bytes, #out{file = File, bytes = Before} = Out) ->
    case file:write(File, Bytes) of
        ok -> Out#out{bytes = Before + iolist_size(Bytes)};
        {error, _} = Error -> throw(Error)
    end.

%% ------------------------------------------------------------------ load ---

-doc "See `todana:load/2`.".
-spec load(todana:table(), file:name_all()) ->
    {ok, loaded()} | {error, failure()} | todana_error:cause().
load(Table, Path) ->
    case {todana_nif:handle(Table), name(Path)} of
        {{badarg, _, _} = Misuse, _} ->
            Misuse;
        {_, error} ->
            {badarg, 2, not_a_file_name};
        {Handle, {ok, Name}} ->
            case file:open(Name, [read, raw, binary]) of
                {ok, File} ->
                    #{durable := IsDurable} = info(Handle),
                    In = #in{
                        file = File, table = Handle, durable = IsDurable
                    },
                    try
                        read_header(In)
                    catch
                        throw:{Reason, At} -> failed(Reason, At);
                        throw:{badarg, _, _} = Misuse -> Misuse
                    after
                        file:close(File)
                    end;
                {error, badarg} ->
                    {badarg, 2, not_a_file_name};
                {error, Reason} ->
                    failed(Reason, #in{file = none, table = Handle})
            end
    end.

-spec failed(term(), #in{}) -> {error, failure()}.
failed(Reason, #in{offset = Offset, loaded = Loaded}) ->
    {error, #{reason => Reason, offset => Offset, loaded => Loaded}}.

-spec read_header(#in{}) -> {ok, loaded()}.
read_header(#in{table = Table} = In) ->
    {<<Magic:8/binary, Version:16, Kind, Size:32>> = Head, _} = take(15, In),
    Magic =:= ?MAGIC orelse throw({not_a_dump, In}),
    Version =:= ?VERSION orelse throw({{version, Version}, In}),
    Size =< ?OPTIONS_BYTES_MAX orelse throw({corrupted, In}),
    {<<_:15/binary, Options:Size/binary, Sum:32>>, Next} =
        take(15 + Size + 4, In),
    Sum =:= erlang:crc32([Head, Options]) orelse throw({corrupted, In}),
    %% The bytes of another kind would be other keys and values.
    Kind =:= kind(Table) orelse throw({{codec, kind_name(Kind)}, In}),
    read_blocks(Next#in{kind = Kind}).

%% Each block is checked before any of its records is stored.
-spec read_blocks(#in{}) -> {ok, loaded()}.
read_blocks(#in{blocks = Blocks, loaded = Loaded, expired = Expired} = In) ->
    {<<Bytes:13/binary, Sum:32>>, Next} = take(17, In),
    Sum =:= erlang:crc32(Bytes) orelse throw({corrupted, In}),
    All = Loaded + Expired,
    case Bytes of
        <<?BLOCK, Blocks:32, Count:32, Size:32>> when
            Size =< ?PAYLOAD_BYTES_MAX
        ->
            {<<Payload:Size/binary, PayloadSum:32>>, Behind} =
                take(Size + 4, Next, In),
            PayloadSum =:= erlang:crc32([Bytes, <<Sum:32>>, Payload]) orelse
                throw({corrupted, In}),
            Records = records(Payload, []),
            length(Records) =:= Count orelse throw({corrupted, In}),
            are_keys(In, Records) orelse throw({corrupted, In}),
            Stored = store_all(Records, In),
            read_blocks(Stored#in{
                offset = Behind#in.offset, blocks = Blocks + 1
            });
        <<?TRAILER, Blocks:32, All:64>> ->
            case file:pread(Next#in.file, Next#in.offset, 1) of
                eof -> {ok, #{loaded => Loaded, expired => Expired}};
                {ok, _} -> throw({corrupted, Next});
                {error, Reason} -> throw({Reason, Next})
            end;
        _ ->
            throw({corrupted, In})
    end.

-spec records(binary(), [tuple()]) -> [tuple()].
records(<<K:32, V:32, Flags:32, AtMs:64, Bytes/binary>>, Records) when
    K + V =< byte_size(Bytes)
->
    <<Key:K/binary, Value:V/binary, Rest/binary>> = Bytes,
    records(Rest, [{Key, Value, Flags, AtMs} | Records]);
records(<<>>, Records) ->
    lists:reverse(Records);
records(_, _) ->
    [].

%% The bytes of another key could not be returned as a term, or would not be at
%% their place in the order.
-spec are_keys(#in{}, [tuple()]) -> boolean().
are_keys(#in{kind = ?ORDERED_TERM, table = Table}, Records) ->
    lists:all(fun({Key, _, _, _}) -> is_key(Table, Key) end, Records);
are_keys(_, _) ->
    true.

-spec is_key(todana:table(), binary()) -> boolean().
is_key(Table, Key) ->
    case todana_codec:is_ordered_key(Table, Key) of
        {badarg, _, _} = Misuse -> throw(Misuse);
        IsKey -> IsKey
    end.

-doc """
Stores records that have the form of a table's own; replaces those that are
there. Returns how many were stored and had expired, and what failed.
""".
-spec store_encoded(todana:table(), [
    {Key :: binary(), Value :: binary(), Flags :: non_neg_integer(),
     ExpiresAtMs :: non_neg_integer()}
]) ->
    {non_neg_integer(), non_neg_integer(), ok | {error, term()}}.
store_encoded(Table, Records) ->
    #{durable := IsDurable} = info(Table),
    In = #in{
        file = none, table = Table, durable = IsDurable, kind = kind(Table)
    },
    try
        are_keys(In, Records) orelse throw({corrupted, In}),
        store_all(Records, In)
    of
        #in{loaded = Loaded, expired = Expired} -> {Loaded, Expired, ok}
    catch
        throw:{badarg, _, Cause} ->
            {0, 0, {error, Cause}};
        throw:{Reason, #in{loaded = Loaded, expired = Expired}} ->
            {Loaded, Expired, {error, Reason}}
    end.

-spec store_all([tuple()], #in{}) -> #in{}.
store_all(Records, #in{durable = false} = In) ->
    lists:foldl(fun store/2, In, Records);
store_all(Records, #in{durable = true, expired = Expired} = In) ->
    NowMs = todana_nif:time_ms(In#in.table),
    {Dead, Live} = lists:partition(
        fun({_, _, _, AtMs}) -> AtMs > 0 andalso AtMs =< NowMs end, Records
    ),
    Writes = [
        {key(Key, In), Value, Flags, expires(AtMs)}
     || {Key, Value, Flags, AtMs} <- Live
    ],
    commit(Writes, In#in{expired = Expired + length(Dead)}).

%% The key in this table: those of tables in memory and of durable tables have
%% different identifiers.
-spec key(binary(), #in{}) -> binary().
key(Key, #in{kind = ?TERM, table = Table} = In) ->
    try todana_codec:moved(Table, Key) of
        {badarg, 1, _} = Misuse -> throw(Misuse);
        {badarg, _, Cause} -> throw({Cause, In});
        Bytes -> Bytes
    catch
        error:badarg -> throw({corrupted, In})
    end;
key(Key, _In) ->
    Key.

%% Several records of a durable table are one write of its log.
-spec commit([todana_commit:write()], #in{}) -> #in{}.
commit([], In) ->
    In;
commit(Writes, #in{table = Table, loaded = Loaded} = In) ->
    {Part, Rest} = lists:split(min(?PART_RECORDS, length(Writes)), Writes),
    case todana_commit:commit_encoded(Table, Part) of
        ok -> commit(Rest, In#in{loaded = Loaded + length(Part)});
        {error, Reason} -> throw({Reason, In});
        {badarg, Argument, _} = Misuse when Argument < 2 -> throw(Misuse);
        {badarg, _, Cause} -> throw({Cause, In})
    end.

-spec expires(non_neg_integer()) -> never | {at, pos_integer()}.
expires(0) -> never;
expires(AtMs) -> {at, AtMs}.

-spec store(tuple(), #in{}) -> #in{}.
store({Key, Value, Flags, AtMs}, #in{loaded = Loaded} = In) ->
    case AtMs > 0 andalso AtMs =< todana_nif:time_ms(In#in.table) of
        true ->
            In#in{expired = In#in.expired + 1};
        false ->
            case put(In#in.table, key(Key, In), Value, expires(AtMs), Flags) of
                {ok, _Version} -> In#in{loaded = Loaded + 1};
                {error, Reason} -> throw({Reason, In});
                {badarg, 1, _} = Misuse -> throw(Misuse);
                {badarg, _, Cause} -> throw({Cause, In})
            end
    end.

-spec put(
    todana:table(), binary(), binary(), term(), non_neg_integer()
) ->
    dynamic().
put(Table, Key, Value, Expires, Flags) ->
    case
        todana_nif:put_with(
            Table, Key, Value, always, Expires, Flags, ?ENCODED
        )
    of
        dirty ->
            case todana_nif:handle(Table) of
                {badarg, _, _} = Misuse ->
                    Misuse;
                Handle ->
                    todana_nif:put_with_dirty(
                        Handle, Key, Value, always, Expires, Flags, ?ENCODED
                    )
            end;
        Result ->
            Result
    end.

%% The next bytes, all of them.
-spec take(pos_integer(), #in{}) -> {binary(), #in{}}.
take(Size, In) ->
    take(Size, In, In).

%% A failure is reported at the offset of `At'.
-spec take(pos_integer(), #in{}, #in{}) -> {binary(), #in{}}.
take(Size, #in{file = File, offset = Offset} = In, At) ->
    case file:pread(File, Offset, Size) of
        {ok, Bytes} when byte_size(Bytes) =:= Size ->
            {Bytes, In#in{offset = Offset + Size}};
        {ok, _Fewer} ->
            throw({truncated, At});
        eof ->
            throw({truncated, At});
        {error, Reason} ->
            throw({Reason, At})
    end.
