%% The files from which Ra concludes that a server exists, before it starts.
%%
%% Without them it would delete the server's log as that of a stranger: it
%% ignores, and then deletes, records of a server whose name it does not know or
%% whose configuration it cannot read.
-module(todana_ra_files).
-moduledoc false.

-export([prepare/2]).

-doc "Makes the files usable for Ra, or says which one is not.".
-spec prepare(ra:server_id(), todana_data_dir:opened()) ->
    ok | {error, {unusable, file:filename(), iodata()}}.
prepare(_Server, #{has_group := false, class_dir := Directory}) ->
    %% What a first start has left that did not get so far as to have a group:
    %% files that a power failure may have left empty, and no records.
    case file:del_dir_r(Directory) of
        ok -> ok;
        {error, enoent} -> ok;
        {error, Reason} ->
            {error, {unusable, Directory, file:format_error(Reason)}}
    end;
prepare({Name, _Node}, #{class_dir := Directory, uid := UId}) ->
    Config = filename:join([Directory, UId, "config"]),
    case todana_data_dir:read_terms(Config) of
        {ok, [#{uid := UId}]} ->
            ensure_rows(Directory, Name, UId);
        {ok, _} ->
            {error, {unusable, Config, "is not that of this group"}};
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
            fun(Row) -> Row =:= {Name, UId} end,
            {Name, UId}
        ),
        ensure_row(
            filename:join(Directory, "meta.dets"),
            fun(Row) -> is_integer(element(2, Row)) end,
            {UId, later_term(Directory, UId), undefined, 0}
        )
    end.

%% A term that is later than each of the log: the names of snapshots are
%% compared by it. The only member of a group votes for nobody else, so all
%% that matters is that terms grow.
-spec later_term(file:filename(), binary()) -> pos_integer().
later_term(Directory, UId) ->
    Snapshots = filename:join([Directory, binary_to_list(UId), "snapshots"]),
    Names = case file:list_dir(Snapshots) of
        {ok, Found} -> Found;
        {error, _} -> []
    end,
    Terms = [Term || Name <- Names, {ok, [Term], _} <- [hex(Name)]],
    1 + lists:max([os:system_time(second) | Terms]).

-spec hex(string()) -> term().
hex(Text) -> io_lib:fread("~16u", Text).

-spec ensure_row(file:filename(), fun((tuple()) -> boolean()), tuple()) ->
    ok | {error, {unusable, file:filename(), iodata()}}.
ensure_row(File, IsRight, Row) ->
    Table = make_ref(),
    case dets:open_file(Table, [{file, File}, {repair, true}]) of
        {ok, Table} ->
            Result =
                case dets:lookup(Table, element(1, Row)) of
                    [Found] -> IsRight(Found) orelse dets:insert(Table, Row);
                    _ -> dets:insert(Table, Row)
                end,
            Closed = dets:close(Table),
            case [Reason || {error, Reason} <- [Result, Closed]] of
                [] ->
                    ok;
                [Reason | _] ->
                    {error, {unusable, File, io_lib:format("~tp", [Reason])}}
            end;
        {error, {file_error, _, Reason}} ->
            {error, {unusable, File, file:format_error(Reason)}};
        {error, _} ->
            %% It contains nothing that is not known here.
            case file:rename(File, File ++ ".damaged") of
                ok -> ensure_row(File, IsRight, Row);
                {error, Reason} ->
                    {error, {unusable, File, file:format_error(Reason)}}
            end
    end.
