%% The files from which Ra concludes that a server exists, before it starts.
%%
%% Without them it would delete the server's log as that of a stranger: it
%% ignores, and then deletes, records of a server whose name it does not know or
%% whose configuration it cannot read.
-module(todana_ra_files).
-moduledoc false.

-export([prepare/2, check_config/1]).

-type check() :: fun((tuple()) -> boolean()).

-doc "Makes the files usable for Ra, or says which one is not.".
-spec prepare(ra:server_id(), todana_data_dir:opened()) ->
    ok | {error, todana_log_problem:problem()}.
prepare(_Server, #{has_group := false, class_dir := Directory}) ->
    %% What a first start has left that did not get so far as to have a group:
    %% files that a power failure may have left empty, and no records.
    case file:del_dir_r(Directory) of
        ok -> ok;
        {error, enoent} -> ok;
        {error, Reason} ->
            {error, {unusable, Directory, file:format_error(Reason)}}
    end;
prepare({Name, _Node} = Id, Opened) ->
    #{
        class_dir := Directory, server_dir := Server, uid := UId,
        durability := Durability
    } = Opened,
    maybe
        ok ?= check_config(Server),
        ok ?= todana_adopt:server(Id, Opened),
        %% Ra finds damage only after it has changed files: it deletes the log
        %% before a snapshot, and copies entries to the newest segment.
        ok ?= todana_log_missing:are_whole(Server),
        ok ?= todana_log_tail:mend(Directory, UId, Durability),
        ok ?= forget_writers(Directory),
        ok ?= forget_begun_segment(Server),
        ok ?= forget_begun_logs(Directory),
        ensure_rows(Directory, Name, UId)
    end.

%% The first server of a group is its only member at first; one that joins knows
%% the others.
-spec check_members(file:filename(), map()) ->
    ok | {error, todana_log_problem:problem()}.
check_members(_Config, #{id := Id, initial_members := [Id]}) ->
    ok;
check_members(Config, #{
    id := {Name, _} = Id, initial_members := Members, membership := non_voter
}) ->
    AreOthers = lists:all(
        fun({Other, Node}) -> Other =:= Name andalso is_atom(Node);
           (_) -> false
        end, Members
    ),
    case AreOthers andalso not lists:member(Id, Members) of
        true -> ok;
        false -> {error, foreign(Config)}
    end;
check_members(Config, #{}) ->
    {error, foreign(Config)}.

-spec foreign(file:filename()) -> todana_log_problem:problem().
foreign(Config) ->
    {missing, Config, "this file is damaged, or that of another group"}.

-doc """
Whether the configuration of the server in this directory is what it was. Ra
would follow each part without a word, if it was damaged.
""".
-spec check_config(file:filename()) ->
    ok | {error, todana_log_problem:problem()}.
check_config(Server) ->
    UId = list_to_binary(filename:basename(Server)),
    Config = filename:join(Server, "config"),
    case todana_small_file:read_terms(Config) of
        {ok, [#{
            uid := UId, id := {Name, _}, initial_members := [_ | _],
            cluster_name := Name, machine := {module, todana_machine, Machine},
            log_init_args := #{uid := UId, snapshot_module := todana_snapshot}
        } = Terms]} when is_map(Machine) ->
            Group = todana_machine:group(Machine),
            case todana_ra_system:is_server(Name) andalso
                lists:member(Group, todana_raft_groups:ids())
            of
                true -> check_members(Config, Terms);
                false -> {error, foreign(Config)}
            end;
        {ok, _} ->
            {error, foreign(Config)};
        {error, Reason} when is_tuple(Reason) ->
            {error, {missing, Config, ["this file is damaged (line ",
                                       file:format_error(Reason), ")"]}};
        %% No later attempt finds it.
        {error, enoent} ->
            {error, {missing, Config, "this file is missing, and without it "
                     "the log cannot be read"}};
        {error, Reason} ->
            {error, {unusable, Config, file:format_error(Reason)}}
    end.

%% Ra writes its table of names half a second late, and neither of its tables
%% survives each power failure: dets writes in place.
-spec ensure_rows(file:filename(), atom(), binary()) ->
    ok | {error, todana_log_problem:problem()}.
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

%% When Ra begins a file of the log, it notes the last index of the files before
%% it, and believes this note even if the log has lost its end since: then its
%% server does not start. Without the note it looks at the files.
-spec forget_writers(file:filename()) ->
    ok | {error, todana_log_problem:problem()}.
forget_writers(Directory) ->
    File = filename:join(Directory, "writers.snapshot"),
    case file:delete(File, [raw]) of
        {error, enoent} -> ok;
        Result -> todana_log_problem:unusable(File, Result)
    end.

%% Ra would stop at a header that is torn.
-spec forget_begun_segment(file:filename()) ->
    ok | {error, todana_log_problem:problem()}.
forget_begun_segment(Server) ->
    case [{File, file:delete(File, [raw])}
          || File <- todana_log_segment:begun(Server)] of
        [{File, Result}] -> todana_log_problem:unusable(File, Result);
        [] -> ok
    end.

%% Ra would stop at a file of the log without its first bytes.
-spec forget_begun_logs(file:filename()) ->
    ok | {error, todana_log_problem:problem()}.
forget_begun_logs(Directory) ->
    Begun = [
        File
     || Name <- filelib:wildcard("*.wal", Directory),
        File <- [filename:join(Directory, Name)],
        todana_log_file:is_begun(File)
    ],
    lists:foldl(
        fun(File, ok) ->
                todana_log_problem:unusable(File, file:delete(File, [raw]));
           (_File, Error) ->
                Error
        end,
        ok, Begun
    ).

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

-spec ensure_row(file:filename(), term(), check(), fun(() -> tuple())) ->
    ok | {error, todana_log_problem:problem()}.
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
-spec ensure_new_row(file:filename(), term(), check(), fun(() -> tuple())) ->
    ok | {error, todana_log_problem:problem()}.
ensure_new_row(File, Key, IsRight, Row) ->
    case file:rename(File, File ++ ".damaged") of
        ok -> ensure_row(File, Key, IsRight, Row);
        {error, Reason} ->
            {error, {unusable, File, file:format_error(Reason)}}
    end.
