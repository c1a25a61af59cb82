%% fdatasync of the log's files, for durability `everysec'.
%%
%% After an fdatasync that failed, the operating system may drop what it could
%% not write, and report success the next time. So such a file is never reported
%% as synchronized again. Ra still has its entries in memory: when it begins a
%% new file, it writes them to segments, synchronizes these, and deletes the
%% file. Then all is on disk.
-module(todana_disk_sync).
-moduledoc false.

-export([new/1, lost/1, synchronize/2, sync_files/2]).

-export_type([progress/0]).

-record(progress, {
    %% The number of the newest file that was synchronized.
    newest = 0 :: non_neg_integer(),
    %% The files whose fdatasync failed.
    lost = [] :: [non_neg_integer()]
}).
-opaque progress() :: #progress{}.

-doc "Nothing is synchronized yet, and these files failed before.".
-spec new([non_neg_integer()]) -> progress().
new(Lost) -> #progress{lost = Lost}.

-doc "The files whose fdatasync has failed, and that are still there.".
-spec lost(progress()) -> [non_neg_integer()].
lost(#progress{lost = Lost}) -> Lost.

-doc """
Synchronizes what the log has got since the last time. The result is `failed`
with a file that has failed for the first time: Ra should begin a new one. It is
`error` as long as a file is there that has failed.
""".
-spec synchronize(file:filename(), progress()) ->
    {ok | {failed | error, term()}, progress()}.
synchronize(Directory, #progress{newest = Newest, lost = Lost} = Progress) ->
    case files(Directory) of
        {ok, Files} ->
            Left = [File || {Number, _} = File <- Files,
                            lists:member(Number, Lost)],
            Due = [File || {Number, _} = File <- Files -- Left,
                           Number >= Newest],
            Numbers = [Number || {Number, _} <- Left],
            each(Due, Progress#progress{lost = Numbers}, Left);
        {error, Reason} ->
            {{error, {Directory, Reason}}, Progress}
    end.

-spec each(
    [{non_neg_integer(), file:filename()}],
    progress(),
    [{non_neg_integer(), file:filename()}]
) -> {ok | {failed | error, term()}, progress()}.
each([], Progress, []) ->
    {ok, Progress};
each([], Progress, [{_, File} | _]) ->
    {{error, {File, "its fdatasync has failed before"}}, Progress};
each([{Number, File} | Rest], #progress{lost = Lost} = Progress, Left) ->
    case sync_file(File) of
        ok ->
            each(Rest, Progress#progress{newest = Number}, Left);
        {failed, Reason} ->
            Failed = Progress#progress{lost = [Number | Lost]},
            {{failed, {File, Reason}}, Failed};
        {error, Reason} ->
            {{error, {File, Reason}}, Progress}
    end.

-doc "Synchronizes the files of a log from this number on.".
-spec sync_files(file:filename(), non_neg_integer()) -> ok | {error, term()}.
sync_files(Directory, From) ->
    case synchronize(Directory, #progress{newest = From}) of
        {ok, _} -> ok;
        {{_, Reason}, _} -> {error, Reason}
    end.

-spec files(file:filename()) ->
    {ok, [{non_neg_integer(), file:filename()}]} | {error, term()}.
files(Directory) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            {ok, lists:sort([
                {Number, filename:join(Directory, Name)}
             || Name <- Names,
                filename:extension(Name) =:= ".wal",
                Number <- number(filename:rootname(Name))
            ])};
        {error, enoent} ->
            {ok, []};
        {error, Reason} ->
            {error, Reason}
    end.

-spec number(string()) -> [non_neg_integer()].
number(Text) ->
    try
        [list_to_integer(Text)]
    catch
        error:badarg -> []
    end.

%% A file that has gone is in segments, which Ra synchronizes. One that cannot
%% be opened has lost nothing.
-spec sync_file(file:filename()) -> ok | {failed | error, term()}.
sync_file(File) ->
    case file:open(File, [read, raw]) of
        {ok, Fd} ->
            Result = file:datasync(Fd),
            _ = file:close(Fd),
            case Result of
                ok -> ok;
                {error, Reason} -> {failed, Reason}
            end;
        {error, enoent} ->
            ok;
        {error, Reason} ->
            {error, Reason}
    end.
