%% A note of an entry that was confirmed, so that a start notices if the end of
%% the log has gone.
%%
%% A log whose last file was deleted looks like one that never had it. So the
%% note names an entry of the newest file, behind the last snapshot. A node
%% writes it before it serves, soon after each new file and each snapshot, and
%% with the last entry at an orderly stop. What it names
%% is on disk before it is, also with `everysec'. A log that ends before it has
%% lost confirmed writes.
%%
%%     <server>/todana.mark   "TDLM" 1 | checksum:32 | index:64
-module(todana_log_mark).
-moduledoc false.

-export([read/1, write/2, forget/1]).
-export([keep/2, renew/1, stopped/1]).
%% Processes
-export([keep_and_exit/1]).

-define(MAGIC, "TDLM", 1).
%% Of the header of a log file and of its first record.
-define(HEAD_BYTES, 128).
-define(KEEPER, todana_log_mark_keeper).
-define(NOTED, log_mark).
-define(LOOKED, log_mark_looked).
%% Why the last attempt failed; reported once.
-define(FAILED, log_mark_failed).

-doc "The entry that the note names; 0 without one.".
-spec read(file:filename()) ->
    {ok, non_neg_integer()} | damaged | {error, todana_log_problem:problem()}.
read(Server) ->
    case file:read_file(file(Server), [raw]) of
        {ok, <<?MAGIC, Crc:32, Index:64>>} ->
            case erlang:crc32(<<Index:64>>) of
                Crc -> {ok, Index};
                _ -> damaged
            end;
        {ok, _} ->
            damaged;
        {error, enoent} ->
            {ok, 0};
        {error, Reason} ->
            todana_log_problem:unusable(file(Server), {error, Reason})
    end.

-doc "Notes this entry, which is on disk.".
-spec write(file:filename(), non_neg_integer()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write(Server, Index) ->
    Crc = erlang:crc32(<<Index:64>>),
    Bytes = <<?MAGIC, Crc:32, Index:64>>,
    todana_small_file:replace(file(Server), Bytes).

-doc "Deletes the note: the log was cut on purpose.".
-spec forget(file:filename()) -> ok | {error, todana_log_problem:problem()}.
forget(Server) ->
    case file:delete(file(Server), [raw]) of
        {error, enoent} -> ok;
        Result -> todana_log_problem:unusable(file(Server), Result)
    end.

-spec file(file:filename()) -> file:filename().
file(Server) -> filename:join(Server, "todana.mark").

%% --------------------------------------------------------- a running node ---

-doc "Notes this entry, which was applied, if the note is of an older file.".
-spec keep(todana_data_dir:opened(), non_neg_integer()) -> ok.
keep(#{class_dir := Class, server_dir := Server}, Applied) ->
    Noted = todana_group_notes:kept(?NOTED, 0),
    Behind = max(todana_group_notes:last_index(), newest(Class) - 1),
    case Noted =< Behind andalso Applied > Behind of
        true -> note(Server, Applied, todana_disk:sync());
        false -> ok
    end.

-doc "The same in a process of its own, unless that of the last call runs.".
-spec renew(todana_data_dir:opened()) -> ok.
renew(Opened) ->
    _ = whereis(?KEEPER) =:= undefined andalso
        spawn(?MODULE, keep_and_exit, [Opened]),
    ok.

-spec keep_and_exit(todana_data_dir:opened()) -> ok.
keep_and_exit(Opened) ->
    try
        true = register(?KEEPER, self()),
        Applied = on_disk(Opened),
        case todana_group_notes:kept(?LOOKED, 0) of
            Applied ->
                ok;
            _ ->
                ok = keep(Opened, Applied),
                todana_group_notes:keep(?LOOKED, Applied)
        end
    catch
        %% There is one already, or the group is being closed.
        error:_ -> ok
    end.

-doc "Notes the last entry. The log has ended, and is on disk.".
-spec stopped(todana_data_dir:opened()) -> ok.
stopped(#{class_dir := Class, server_dir := Server, cluster := none}) ->
    Applied = todana_nif:group_applied(),
    Last = max(Applied, todana_group_notes:kept(?NOTED, 0)),
    note(Server, Last, todana_disk_sync:sync_files(Class, 0));
%% Its log has ended, and it cannot be asked any more.
stopped(#{}) ->
    ok.

%% The last entry that was applied is on disk, unless other members have
%% confirmed it first.
-spec on_disk(todana_data_dir:opened()) -> non_neg_integer().
on_disk(#{cluster := none}) -> todana_nif:group_applied();
on_disk(#{}) -> todana_members:confirmed().

-spec note(file:filename(), non_neg_integer(), ok | {error, term()}) -> ok.
note(Server, Index, ok) ->
    case write(Server, Index) of
        ok ->
            todana_group_notes:keep(?NOTED, Index);
        {error, Reason} ->
            _ = todana_group_notes:kept(?FAILED, none) =/= Reason andalso
                logger:warning("todana: ~ts: ~ts",
                               [file(Server), file:format_error(Reason)]),
            todana_group_notes:keep(?FAILED, Reason)
    end;
note(_Server, _Index, {error, _}) ->
    ok.

%% The first entry of the newest file of the log that has one.
-spec newest(file:filename()) -> non_neg_integer().
newest(Class) ->
    case file:list_dir(Class) of
        {ok, Names} ->
            Files = [
                Name || Name <- Names, filename:extension(Name) =:= ".wal"
            ],
            lists:max([0 | [
                first(filename:join(Class, lists:max(Files))) || Files =/= []
            ]]);
        {error, _} ->
            0
    end.

-spec first(file:filename()) -> non_neg_integer().
first(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            Head = file:read(Fd, ?HEAD_BYTES),
            _ = file:close(Fd),
            todana_log_file:first_index(Head);
        {error, _} ->
            0
    end.
