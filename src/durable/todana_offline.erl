%% `bin/todana check', `repair' and `dump': the data directory of a node that
%% does not run.
%%
%% `check' reads every byte of the log and of the snapshots, and changes
%% nothing. `repair' cuts the log at its first bad record. `dump' reads the
%% records as a start of the node does, without listeners; so it also completes
%% files as a start does.
-module(todana_offline).
-moduledoc false.

-export([check/1, repair/1, dump/2]).

%% The state of a file: a note is no damage.
-type finding() :: {ok | note | damaged, file:filename(), iodata()}.

-define(SCAN_RECORDS, 256).

%% ----------------------------------------------------------------- check ---

-doc "Verifies the files. An error is a sentence; findings name the files.".
-spec check(file:filename()) -> {ok, [finding()]} | {error, string()}.
check(DataDir) ->
    Directory = filename:absname(DataDir),
    locked(Directory, fun() ->
        {ok, node_file(Directory) ++ lists:append([
            class(filename:join(Directory, Class))
         || Class <- ["always", "everysec"]
        ])}
    end).

-spec locked(file:filename(), fun(() -> {ok, T})) ->
    {ok, T} | {error, string()}.
locked(Directory, Work) ->
    Lock = unicode:characters_to_binary(filename:join(Directory, "lock")),
    case filelib:is_regular(filename:join(Directory, "node")) of
        false ->
            {error, Directory ++ " is not a data directory of Todana"};
        true ->
            case todana_nif:lock_file(Lock, list_to_binary(os:getpid())) of
                ok ->
                    try
                        Work()
                    after
                        todana_nif:unlock_file(Lock)
                    end;
                {locked, Pid} ->
                    {error, lists:flatten([
                        Directory, " is in use by a running node (process ",
                        binary_to_list(Pid), "): stop it first"
                    ])};
                {error, Sentence} ->
                    {error, unicode:characters_to_list(
                        [Lock, ": ", Sentence]
                    )}
            end
    end.

-spec node_file(file:filename()) -> [finding()].
node_file(Directory) ->
    [
        case file:consult(File) of
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

-spec class(file:filename()) -> [finding()].
class(Directory) ->
    UId = uid(filename:dirname(Directory)),
    Server = filename:join(Directory, binary_to_list(UId)),
    Logs = files(Directory, "*.wal"),
    Scanned = [
        {File, Found}
     || File <- Logs, {ok, Found} <- [todana_log_file:scan(File, UId)]
    ],
    [wal(File, UId) || File <- Logs] ++
        [gap(Gap) || Gap <- todana_log_cover:gaps(Scanned, Server)] ++
        [segment(File) || File <- files(Directory, "*/*.segment")] ++
        [snapshot(File) || File <- files(Directory, "*/snapshots/*/data.tds")]
        ++ [
            {note, File, "was set aside or cut off because it is damaged"}
         || File <- files(Directory, "*/damaged/*")
        ].

%% That of the log's only writer.
-spec uid(file:filename()) -> binary().
uid(Directory) ->
    case todana_data_dir:read_terms(filename:join(Directory, "node")) of
        {ok, Terms} -> proplists:get_value(uid, Terms, <<>>);
        {error, _} -> <<>>
    end.

-spec files(file:filename(), string()) -> [file:filename()].
files(Directory, Pattern) ->
    [filename:join(Directory, F) || F <- filelib:wildcard(Pattern, Directory)].

-spec snapshot(file:filename()) -> finding().
snapshot(File) ->
    case todana_nif:snapshot_verify(unicode:characters_to_binary(File)) of
        ok -> {ok, File, [size_of(File), " bytes"]};
        {_Word, Sentence} -> {damaged, File, Sentence}
    end.

-spec size_of(file:filename()) -> string().
size_of(File) ->
    integer_to_list(filelib:file_size(File)).

-spec wal(file:filename(), binary()) -> finding().
wal(File, UId) ->
    case todana_log_file:scan(File, UId) of
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
            case filelib:file_size(File) of
                0 -> {note, File, "is empty: it had just been created"};
                _ -> {damaged, File, "offset 0: is not a file of the log"}
            end;
        {error, Reason} ->
            {damaged, File, file:format_error(Reason)}
    end.

%% The next start sets the file aside, or refuses: see todana_log_tail.
-spec gap({file:filename(), integer(), integer(), boolean()}) -> finding().
gap({File, First, Last, IsCovered}) ->
    Words = io_lib:format("entries ~b to ~b are missing behind its end, ~ts", [
        First, Last,
        case IsCovered of
            true -> "and segment files have them";
            false -> "before the next file begins"
        end
    ]),
    case IsCovered of
        true -> {note, File, Words};
        false -> {damaged, File, Words}
    end.

-spec segment(file:filename()) -> finding().
segment(File) ->
    try
        %% Room in the index that is not used has the offset 0.
        Index = [
            Row
         || {_, _, Offset} = Row <- ra_log_segment:dump_index(File), Offset > 0
        ],
        {ok, Segment} = ra_log_segment:open(File, #{mode => read}),
        try
            segment(File, Segment, Index, 0)
        after
            ra_log_segment:close(Segment)
        end
    catch
        _:_ -> {damaged, File, "offset 0: its header or index is damaged"}
    end.

-spec segment(file:filename(), term(), [tuple()], non_neg_integer()) ->
    finding().
segment(File, Segment, [{Index, _Term, Offset} | Rest], Count) ->
    try
        Read = fun(_Entry, N) -> N + 1 end,
        1 = ra_log_segment:fold(
            Segment, Index, Index, fun(Bytes) -> Bytes end, Read, 0
        ),
        segment(File, Segment, Rest, Count + 1)
    catch
        _:_ ->
            {damaged, File, io_lib:format(
                "offset ~b: entry ~b fails its checksum", [Offset, Index]
            )}
    end;
segment(File, _Segment, [], Count) ->
    {ok, File, io_lib:format("~b entries", [Count])}.

%% ---------------------------------------------------------------- repair ---

-doc "Cuts the log at its first bad record; says what was done and lost.".
-spec repair(file:filename()) -> {ok, iodata()} | {error, string()}.
repair(DataDir) ->
    Directory = filename:absname(DataDir),
    UId = uid(Directory),
    Repaired = locked(Directory, fun() ->
        {ok, [
            todana_log_tail:repair(Class, UId, Durability)
         || Durability <- [always, everysec],
            Class <- [filename:join(Directory, atom_to_list(Durability))],
            filelib:is_dir(Class)
        ]}
    end),
    case Repaired of
        {ok, Results} ->
            case [Problem || {error, Problem} <- Results] of
                [Problem | _] -> {error, todana_log_tail:describe(Problem)};
                [] -> {ok, said([Text || {ok, Text} <- Results])}
            end;
        {error, Sentence} ->
            {error, Sentence}
    end.

-spec said([iolist()]) -> iodata().
said([]) -> "No entry of the log is damaged.\n";
said(Texts) -> Texts.

%% ------------------------------------------------------------------ dump ---

-doc """
Calls `Print` with the records of each durable table, a line of JSON each. The
application must not run, and no node may use the directory.
""".
-spec dump(file:filename(), fun((iodata()) -> ok)) -> ok | {error, iodata()}.
dump(DataDir, Print) ->
    maybe
        {ok, Databases} ?= locked(filename:absname(DataDir), fun() ->
            {ok, named(DataDir)}
        end),
        ok = lists:foreach(
            fun({Name, Value}) -> application:set_env(todana, Name, Value) end,
            [{data_dir, DataDir} | Databases]
        ),
        {ok, _} ?= application:ensure_all_started(todana),
        ok ?= await(),
        Names = [
            list_to_atom("db" ++ integer_to_list(N)) || N <- lists:seq(0, 15)
        ],
        lists:foreach(
            fun(Name) ->
                {ok, _} = todana_tables:open(Name, #{}),
                print(Name, Print)
            end,
            Names
        ),
        lists:foreach(
            fun(Bytes) ->
                Name = binary_to_atom(Bytes),
                {ok, _} = todana_tables:open_kept(Name),
                print(Name, Print)
            end,
            todana_nif:durable_tables()
        )
    end.

%% The option `databases' that has the names which the directory keeps.
-spec named(file:filename()) -> [{databases, string()}].
named(DataDir) ->
    case file:consult(filename:join(DataDir, "databases")) of
        {ok, [_ | _] = Named} ->
            Last = lists:max([Number || {Number, _, _} <- Named]),
            Names = [
                case lists:keyfind(Number, 1, Named) of
                    {_, Name, nil} -> Name ++ "#type=hash";
                    {_, Name, Order} -> Name ++ "#type=tree" ++ order(Order);
                    false -> "db" ++ integer_to_list(Number) ++ ".kch"
                end
             || Number <- lists:seq(0, Last)
            ],
            [{databases, lists:flatten(lists:join(" ", Names))}];
        _ ->
            []
    end.

-spec order(todana_kyoto_database:order()) -> string().
order(lexical) -> "";
order(decimal) -> "#rcomp=dec";
order(lexical_descending) -> "#rcomp=lexdesc";
order(decimal_descending) -> "#rcomp=decdesc".

-spec await() -> ok | {error, iodata()}.
await() ->
    case todana_nif:durable_state() of
        closed ->
            case todana_status:info() of
                #{state := failed, reason := Reason} ->
                    {error, Reason};
                _ ->
                    timer:sleep(20),
                    await()
            end;
        _ ->
            ok
    end.

-spec print(atom(), fun((iodata()) -> ok)) -> ok.
print(Table, Print) ->
    #{codec := Codec} = todana_tables:info(Table),
    {ok, Snapshot} = todana_nif:snapshot(todana_nif:handle(Table)),
    print(#{table => Table, codec => Codec}, Snapshot, Print).

-spec print(map(), todana_nif:snapshot(), fun((iodata()) -> ok)) -> ok.
print(About, Snapshot, Print) ->
    {More, Records} =
        case todana_nif:snapshot_records(Snapshot, ?SCAN_RECORDS) of
            dirty ->
                todana_nif:snapshot_records_dirty(Snapshot, ?SCAN_RECORDS);
            Part ->
                Part
        end,
    ok = Print([line(About, Record) || Record <- Records]),
    case More of
        more -> print(About, Snapshot, Print);
        done -> ok
    end.

-spec line(map(), todana_nif:stored()) -> iodata().
line(#{table := Table} = About, {Key, Value, Flags, ExpiresAtMs}) ->
    {_, Version, _, _, _, _} = todana_nif:get_entry(Table, Key, 1),
    [
        json:encode(About#{
            key => text(Key),
            value => text(Value),
            flags => Flags,
            expires_at_ms =>
                case ExpiresAtMs of
                    infinity -> null;
                    _ -> ExpiresAtMs
                end,
            version => Version
        }),
        $\n
    ].

%% Bytes that are not text are an object.
-spec text(binary()) -> binary() | #{base64 := binary()}.
text(Bytes) ->
    case unicode:characters_to_binary(Bytes) of
        Bytes -> Bytes;
        _ -> #{base64 => base64:encode(Bytes)}
    end.
