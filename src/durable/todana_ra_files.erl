%% The files from which Ra concludes that a server exists, before it starts.
%%
%% Without them it would delete the server's log as that of a stranger: it
%% ignores, and then deletes, records of a server whose name it does not know or
%% whose configuration it cannot read.
-module(todana_ra_files).
-moduledoc false.

-export([prepare/2, forget_applied/2, unreadable/1]).

%% Of a segment file; Ra synchronizes it before it writes anything else.
-define(SEGMENT_HEADER_BYTES, 8).
%% Of a file, at a time.
-define(READ_BYTES, 1 bsl 20).

-doc "Makes the files usable for Ra, or says which one is not.".
-spec prepare(ra:server_id(), todana_data_dir:opened()) ->
    ok | {error, todana_log_tail:problem()}.
prepare(_Server, #{has_group := false, class_dir := Directory}) ->
    %% What a first start has left that did not get so far as to have a group:
    %% files that a power failure may have left empty, and no records.
    case file:del_dir_r(Directory) of
        ok -> ok;
        {error, enoent} -> ok;
        {error, Reason} ->
            {error, {unusable, Directory, file:format_error(Reason)}}
    end;
prepare({Name, _Node}, Opened) ->
    #{class_dir := Directory, uid := UId, durability := Durability} = Opened,
    Config = filename:join([Directory, UId, "config"]),
    case todana_data_dir:read_terms(Config) of
        %% Each part that Ra would follow without a word, if it was damaged.
        {ok, [#{
            uid := UId, id := {Name, _}, initial_members := [_ | _],
            cluster_name := Name, machine := {module, todana_machine, #{}},
            log_init_args := #{uid := UId, snapshot_module := todana_snapshot}
        }]} ->
            maybe
                ok ?= todana_log_tail:mend(Directory, UId, Durability),
                ok ?= forget_writers(Directory),
                ok ?= forget_begun_segment(
                    filename:join(Directory, binary_to_list(UId))
                ),
                ensure_rows(Directory, Name, UId)
            end;
        {ok, _} ->
            {error, {unusable, Config, "it is damaged, or that of another "
                     "group: restore a backup"}};
        {error, Reason} ->
            {error, {unusable, Config, file:format_error(Reason)}}
    end.

%% Ra writes its table of names half a second late, and neither of its tables
%% survives each power failure: dets writes in place.
-spec ensure_rows(file:filename(), atom(), binary()) ->
    ok | {error, {unusable, file:filename(), iodata()}}.
ensure_rows(Directory, Name, UId) ->
    maybe
        ok ?= ensure_row(
            filename:join(Directory, "names.dets"),
            Name,
            fun(Row) -> Row =:= {Name, UId} end,
            fun() -> {Name, UId} end
        ),
        ensure_row(
            filename:join(Directory, "meta.dets"),
            UId,
            fun(Row) -> is_integer(element(2, Row)) end,
            fun() -> {UId, later_term(Directory, UId), undefined, 0} end
        )
    end.

-doc """
Lets Ra find out again how much of the log is confirmed, since the log has got
shorter. It would confirm new entries at once up to where the old log went.
""".
-spec forget_applied(file:filename(), binary()) ->
    ok | {error, {unusable, file:filename(), iodata()}}.
forget_applied(Directory, UId) ->
    File = filename:join(Directory, "meta.dets"),
    Table = make_ref(),
    case dets:open_file(Table, [{file, File}, {repair, true}]) of
        {ok, Table} ->
            Result = case dets:lookup(Table, UId) of
                [{UId, Term, Vote, _}] ->
                    dets:insert(Table, {UId, Term, Vote, 0});
                _ ->
                    ok
            end,
            result(File, [Result, dets:close(Table)]);
        %% `prepare' makes it again.
        {error, _} ->
            ok
    end.

%% When Ra begins a file of the log, it notes the last index of the files before
%% it, and believes this note even if the log has lost its end since: then its
%% server does not start. Without the note it looks at the files.
-spec forget_writers(file:filename()) ->
    ok | {error, todana_log_tail:problem()}.
forget_writers(Directory) ->
    File = filename:join(Directory, "writers.snapshot"),
    case file:delete(File, [raw]) of
        ok -> ok;
        {error, enoent} -> ok;
        {error, Reason} ->
            {error, {unusable, File, file:format_error(Reason)}}
    end.

%% A segment file that has no more than its header, which may be torn: the power
%% failed when it had just been created. Ra would stop at a torn header.
-spec forget_begun_segment(file:filename()) ->
    ok | {error, todana_log_tail:problem()}.
forget_begun_segment(Directory) ->
    Files = filelib:wildcard("*.segment", Directory),
    Begun = [
        File
     || Name <- lists:nthtail(max(0, length(Files) - 1), lists:sort(Files)),
        File <- [filename:join(Directory, Name)],
        filelib:file_size(File) =< ?SEGMENT_HEADER_BYTES
    ],
    case [{File, file:delete(File, [raw])} || File <- Begun] of
        [{File, {error, Reason}}] ->
            {error, {unusable, File, file:format_error(Reason)}};
        _ ->
            ok
    end.

-doc "The first file of the log or of a snapshot that cannot be read.".
-spec unreadable(file:filename()) -> todana_log_tail:problem() | none.
unreadable(Directory) ->
    Patterns = ["*.wal", "*/*.segment", "*/snapshots/*/*"],
    Files = [
        filename:join(Directory, Name)
     || Pattern <- Patterns, Name <- filelib:wildcard(Pattern, Directory)
    ],
    first_unreadable(Files).

-spec first_unreadable([file:filename()]) -> todana_log_tail:problem() | none.
first_unreadable([]) ->
    none;
first_unreadable([File | Files]) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            Result = read_all(Fd),
            _ = file:close(Fd),
            case Result of
                eof -> first_unreadable(Files);
                {error, Reason} ->
                    {unusable, File, file:format_error(Reason)}
            end;
        {error, enoent} ->
            first_unreadable(Files);
        {error, Reason} ->
            {unusable, File, file:format_error(Reason)}
    end.

-spec read_all(file:fd()) -> eof | {error, term()}.
read_all(Fd) ->
    case file:read(Fd, ?READ_BYTES) of
        {ok, _} -> read_all(Fd);
        Ended -> Ended
    end.

%% A term that is later than each of the log: the names of snapshots are
%% compared by it. The only member of a group votes for nobody else, so all
%% that matters is that terms grow. The clock may have been set back since the
%% last time, so the files count, too.
-spec later_term(file:filename(), binary()) -> pos_integer().
later_term(Directory, UId) ->
    Server = filename:join(Directory, binary_to_list(UId)),
    1 + lists:max(
        [os:system_time(second)] ++
        terms(filename:join(Server, "snapshots"), fun snapshot_terms/1) ++
        terms(Directory, fun(File) -> file_terms(File, UId) end) ++
        terms(Server, fun segment_terms/1)
    ).

-spec terms(
    file:filename(), fun((file:filename()) -> [non_neg_integer()])
) -> [non_neg_integer()].
terms(Directory, Terms) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            lists:append([
                Terms(filename:join(Directory, Name)) || Name <- Names
            ]);
        {error, _} ->
            []
    end.

-spec snapshot_terms(file:filename()) -> [non_neg_integer()].
snapshot_terms(Directory) ->
    case io_lib:fread("~16u", filename:basename(Directory)) of
        {ok, [Term], _} when is_integer(Term) -> [Term];
        _ -> []
    end.

%% Terms grow with the entries.
-spec file_terms(file:filename(), binary()) -> [non_neg_integer()].
file_terms(File, UId) ->
    case filename:extension(File) =:= ".wal" andalso
        todana_log_file:scan(File, UId)
    of
        {ok, #{last := #{term := Term}}} -> [Term];
        _ -> []
    end.

-spec segment_terms(file:filename()) -> [non_neg_integer()].
segment_terms(File) ->
    case filename:extension(File) of
        ".segment" ->
            try
                [Term || {_, Term, _} <- ra_log_segment:dump_index(File)]
            catch
                _:_ -> []
            end;
        _ ->
            []
    end.

-spec ensure_row(
    file:filename(),
    term(),
    fun((tuple()) -> boolean()),
    fun(() -> tuple())
) -> ok | {error, {unusable, file:filename(), iodata()}}.
ensure_row(File, Key, IsRight, Row) ->
    Table = make_ref(),
    case dets:open_file(Table, [{file, File}, {repair, true}]) of
        {ok, Table} ->
            Result =
                case dets:lookup(Table, Key) of
                    [Found] -> IsRight(Found) orelse dets:insert(Table, Row());
                    _ -> dets:insert(Table, Row())
                end,
            case [Why || {error, Why} <- [Result, dets:close(Table)]] of
                [] -> ok;
                [{file_error, _, Reason} | _] ->
                    {error, {unusable, File, file:format_error(Reason)}};
                [_ | _] -> ensure_new_row(File, Key, IsRight, Row)
            end;
        {error, {file_error, _, Reason}} ->
            {error, {unusable, File, file:format_error(Reason)}};
        {error, _} ->
            ensure_new_row(File, Key, IsRight, Row)
    end.

%% A damaged table contains nothing that is not known here.
-spec ensure_new_row(
    file:filename(),
    term(),
    fun((tuple()) -> boolean()),
    fun(() -> tuple())
) -> ok | {error, {unusable, file:filename(), iodata()}}.
ensure_new_row(File, Key, IsRight, Row) ->
    case file:rename(File, File ++ ".damaged") of
        ok -> ensure_row(File, Key, IsRight, Row);
        {error, Reason} ->
            {error, {unusable, File, file:format_error(Reason)}}
    end.

-spec result(file:filename(), [term()]) ->
    ok | {error, {unusable, file:filename(), iodata()}}.
result(File, Results) ->
    case [Reason || {error, Reason} <- Results] of
        [] -> ok;
        [Reason | _] ->
            {error, {unusable, File, io_lib:format("~tp", [Reason])}}
    end.
