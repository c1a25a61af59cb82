%% A note of an entry that was confirmed, so that a start notices if the end of
%% the log has gone.
%%
%% A log whose last file was deleted, or cut, looks like one that never had its
%% end. So a node notes the last entry that was confirmed, several times a
%% second, and the last of all at an orderly stop. What it names is on disk
%% before it is, also with `everysec'. A log that ends before it has lost
%% confirmed writes.
%%
%% The note itself is synchronized before the node serves, soon after each new
%% file of the log and each snapshot, and at an orderly stop. In between, its
%% bytes are replaced in place, without a sync: that costs one write, and is
%% enough for all but a power failure, after which the note may be older.
%%
%%     <server>/todana.mark   "TDLM" 2 | checksum:32 | index:64 | term:64 |
%%                            is_final:8
%%
%% The term is 0 if it is not known. `is_final' is 1 after an orderly stop,
%% until the next start serves: then nothing was confirmed behind the entry. So
%% no write is accepted before that note is replaced. Format 1 ends with the
%% index.
-module(todana_log_mark).
-moduledoc false.

-export([read/1, facts/1, write/2, forget/1]).
-export([keep/3, renew/2, stopped/2]).
%% Processes
-export([renew_and_exit/2, do_and_exit/1]).

-export_type([facts/0]).

-define(MAGIC, "TDLM").
-define(FORMAT_1, 1).
-define(FORMAT, 2).
%% Of the header of a log file and of its first record.
-define(HEAD_BYTES, 128).
%% The name of the process that writes it: one at a time.
-define(KEEPER, todana_log_mark_keeper).
%% The entry that was noted last, and the last one whose note was synchronized.
-define(NOTED, log_mark).
-define(SYNCED, log_mark_synced).
-define(LOOKED, log_mark_looked).
%% Why the last attempt failed; reported once.
-define(FAILED, log_mark_failed).

-type facts() :: #{
    index := non_neg_integer(),
    term := non_neg_integer(),
    is_final := boolean()
}.
-type result() ::
    ok | {error, file:posix() | badarg | terminated | system_limit}.

-doc "The entry that the note names; 0 without one.".
-spec read(file:filename()) ->
    {ok, non_neg_integer()} | damaged | {error, todana_log_problem:problem()}.
read(Server) ->
    case facts(Server) of
        {ok, #{index := Index}} -> {ok, Index};
        Other -> Other
    end.

-doc "All that the note says.".
-spec facts(file:filename()) ->
    {ok, facts()} | damaged | {error, todana_log_problem:problem()}.
facts(Server) ->
    case file:read_file(file(Server), [raw]) of
        {ok, Bytes} ->
            decode(Bytes);
        {error, enoent} ->
            {ok, #{index => 0, term => 0, is_final => false}};
        {error, Reason} ->
            todana_log_problem:unusable(file(Server), {error, Reason})
    end.

-spec decode(binary()) -> {ok, facts()} | damaged.
decode(<<?MAGIC, ?FORMAT_1, Crc:32, Body:8/binary>>) ->
    <<Index:64>> = Body,
    checked(Crc, Body, #{index => Index, term => 0, is_final => false});
decode(<<?MAGIC, ?FORMAT, Crc:32, Body:17/binary>>) ->
    <<Index:64, Term:64, Final:8>> = Body,
    checked(Crc, Body, #{
        index => Index, term => Term, is_final => Final =:= 1
    });
decode(_Bytes) ->
    damaged.

-spec checked(non_neg_integer(), binary(), facts()) -> {ok, facts()} | damaged.
checked(Crc, Body, Facts) ->
    case erlang:crc32(Body) of
        Crc -> {ok, Facts};
        _ -> damaged
    end.

-spec encode(facts()) -> binary().
encode(#{index := Index, term := Term, is_final := IsFinal}) ->
    Final = case IsFinal of true -> 1; false -> 0 end,
    Body = <<Index:64, Term:64, Final:8>>,
    <<?MAGIC, ?FORMAT, (erlang:crc32(Body)):32, Body/binary>>.

-doc """
Writes a note about what is on disk. It is on disk when this returns. On a full
disk, which has no room for a new file, it replaces the bytes of the old one.
""".
-spec write(file:filename(), facts()) -> result().
write(Server, Facts) ->
    Replaced = todana_small_file:replace(file(Server), encode(Facts)),
    case Replaced of
        {error, Reason} when Reason =:= enospc; Reason =:= edquot ->
            case filelib:is_regular(file(Server)) of
                true -> write_in_place(Server, Facts, fun file:datasync/1);
                false -> Replaced
            end;
        _ ->
            Replaced
    end.

%% Its length stays the same, and it lies in one sector.
-spec write_in_place(
    file:filename(), facts(), fun((file:fd()) -> result())
) -> result().
write_in_place(Server, Facts, Sync) ->
    maybe
        {ok, Fd} ?= file:open(file(Server), [read, write, raw]),
        Written = file:pwrite(Fd, 0, encode(Facts)),
        Synced = Sync(Fd),
        ok ?= file:close(Fd),
        ok ?= Written,
        Synced
    end.

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

-doc """
Notes this entry, which was applied, if the note is of an older one. An error if
the note of an orderly stop is still there: a later start would believe it, and
drop what was confirmed after it.
""".
-spec keep(
    todana_raft_groups:id(), todana_data_dir:opened(), non_neg_integer()
) -> ok | {error, {mark, Sentence :: string()}}.
keep(Group, #{server_dir := Server} = Opened, Applied) ->
    ok = alone(fun() ->
        case is_of_stop(Server) of
            true -> synchronize(
                Server, running(Group, Opened, Applied), todana_disk:sync()
            );
            false -> keep_alone(Group, Opened, Applied)
        end
    end),
    case is_of_stop(Server) of
        true -> {error, {mark, cannot_replace(Server)}};
        false -> ok
    end.

%% One that cannot be read may be.
-spec is_of_stop(file:filename()) -> boolean().
is_of_stop(Server) ->
    case facts(Server) of
        {ok, #{is_final := IsFinal}} -> IsFinal;
        damaged -> false;
        {error, _} -> true
    end.

-spec cannot_replace(file:filename()) -> string().
cannot_replace(Server) ->
    Why =
        case todana_group_notes:kept(?FAILED, none) of
            none -> "the log cannot be synchronized";
            Reason -> file:format_error(Reason)
        end,
    lists:flatten(io_lib:format(
        "~ts has the note of the last stop, which must be replaced before the "
        "first write, and cannot be: ~ts", [file(Server), Why]
    )).

-spec keep_alone(
    todana_raft_groups:id(), todana_data_dir:opened(), non_neg_integer()
) -> ok.
keep_alone(Group, Opened, Applied) ->
    #{class_dir := Class, server_dir := Server} = Opened,
    Noted = todana_group_notes:kept(?NOTED, 0),
    Behind = max(todana_group_notes:last_index(), newest(Class) - 1),
    OnDisk = todana_disk:on_disk(Opened, Applied),
    IsDue = todana_group_notes:kept(?SYNCED, 0) =< Behind,
    if
        IsDue, Applied > Behind ->
            synchronize(
                Server, running(Group, Opened, Applied), todana_disk:sync()
            );
        Noted > 0, OnDisk > Noted ->
            Facts = running(Group, Opened, OnDisk),
            noted(Facts, write_in_place(
                Server, Facts, fun(_Fd) -> ok end
            ));
        true ->
            ok
    end.

-spec running(
    todana_raft_groups:id(), todana_data_dir:opened(), non_neg_integer()
) -> facts().
running(Group, Opened, Index) ->
    #{index => Index, term => term(Group, Opened, Index), is_final => false}.

%% Only other members have use for it.
-spec term(
    todana_raft_groups:id(), todana_data_dir:opened(), non_neg_integer()
) -> non_neg_integer().
term(_Group, #{cluster := none}, _Index) -> 0;
term(Group, #{}, Index) -> todana_log_terms:term_at(Group, Index).

-doc "The same in a process of its own, unless that of the last call runs.".
-spec renew(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
renew(Group, Opened) ->
    _ = whereis(?KEEPER) =:= undefined andalso
        spawn(?MODULE, renew_and_exit, [Group, Opened]),
    ok.

-spec renew_and_exit(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
renew_and_exit(Group, Opened) ->
    try
        true = register(?KEEPER, self()),
        Applied = on_disk(Group, Opened),
        Looked = {Applied, todana_disk:on_disk(Opened, Applied)},
        case todana_group_notes:kept(?LOOKED, none) of
            Looked ->
                ok;
            _ ->
                ok = keep_alone(Group, Opened, Applied),
                todana_group_notes:keep(?LOOKED, Looked)
        end
    catch
        %% There is one already, or the group is being closed.
        error:_ -> ok
    end.

-doc "Notes the last entry. The log has ended, and is on disk.".
-spec stopped(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
stopped(Group, #{cluster := none} = Opened) ->
    #{class_dir := Class, server_dir := Server} = Opened,
    alone(fun() ->
        Applied = todana_nif:group_applied(Group),
        Last = max(Applied, todana_group_notes:kept(?NOTED, 0)),
        Facts = #{index => Last, term => 0, is_final => true},
        synchronize(Server, Facts, todana_disk_sync:sync_files(Class, 0))
    end);
%% Its log has ended, and it cannot be asked any more.
stopped(_Group, #{}) ->
    ok.

%% The last entry that was applied is on disk, unless other members have
%% confirmed it first.
-spec on_disk(todana_raft_groups:id(), todana_data_dir:opened()) ->
    non_neg_integer().
on_disk(Group, #{cluster := none}) -> todana_nif:group_applied(Group);
on_disk(Group, #{}) -> todana_members:confirmed(Group).

%% Writes it so that the note itself is on disk, if the entry is.
-spec synchronize(file:filename(), facts(), ok | {error, term()}) -> ok.
synchronize(Server, #{index := Index} = Facts, ok) ->
    Result = write(Server, Facts),
    _ = Result =:= ok andalso todana_group_notes:keep(?SYNCED, Index),
    noted(Facts, Result);
synchronize(_Server, _Facts, {error, _}) ->
    ok.

-spec noted(facts(), ok | {error, term()}) -> ok.
noted(#{index := Index}, ok) ->
    todana_group_notes:keep(?NOTED, Index);
noted(_Facts, {error, Reason}) ->
    _ = todana_group_notes:kept(?FAILED, none) =/= Reason andalso
        logger:warning("todana: todana.mark: ~ts", [file:format_error(Reason)]),
    todana_group_notes:keep(?FAILED, Reason).

%% Does this in the process that has the name, when it is free: the note and
%% its temporary file have one writer at a time. An exception ends the caller.
-spec alone(fun(() -> ok)) -> ok.
alone(Do) ->
    {Pid, Monitor} = spawn_monitor(?MODULE, do_and_exit, [Do]),
    receive
        {'DOWN', Monitor, process, Pid, done} -> ok;
        {'DOWN', Monitor, process, Pid, taken} -> alone(Do);
        {'DOWN', Monitor, process, Pid, Reason} -> exit(Reason)
    end.

-spec do_and_exit(fun(() -> ok)) -> no_return().
do_and_exit(Do) ->
    try
        true = register(?KEEPER, self())
    catch
        error:badarg ->
            _ = await_end(whereis(?KEEPER)),
            exit(taken)
    end,
    ok = Do(),
    exit(done).

-spec await_end(pid() | undefined) -> ok.
await_end(undefined) ->
    ok;
await_end(Pid) ->
    Monitor = monitor(process, Pid),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

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
