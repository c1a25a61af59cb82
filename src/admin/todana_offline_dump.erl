%% `bin/todana dump': the records of a data directory that no node uses.
%%
%% It reads the records as a start of the node does, without listeners; so it
%% also completes files as a start does. A member of a cluster would take part
%% in it, so its directory is refused. One that was removed has left it, and
%% perhaps with writes that it had confirmed and that the others do not have (a
%% mistaken `cluster force'): it becomes the directory of a node without a
%% cluster, so that nobody is reached, and all that its log has counts.
-module(todana_offline_dump).
-moduledoc false.

-export([dump/2]).

-define(SCAN_RECORDS, 256).
-define(POLL_MS, 20).
-define(TROUBLE_MS_MAX, 20_000).

-doc """
Calls `Print` with the records of each durable table, a line of JSON each. The
application must not run, and no node may use the directory.
""".
-spec dump(file:filename(), fun((iodata()) -> ok)) -> ok | {error, iodata()}.
dump(DataDir, Print) ->
    maybe
        ok ?= todana_data_rights:owner(filename:absname(DataDir)),
        none ?= todana_log_remedy:member(filename:absname(DataDir)),
        {ok, {ok, Databases}} ?= todana_offline:locked(
            filename:absname(DataDir), fun() -> {ok, prepared(DataDir)} end
        ),
        ok = lists:foreach(
            fun({Name, Value}) -> application:set_env(todana, Name, Value) end,
            [{data_dir, DataDir}, {is_dump, true} | Databases]
        ),
        Started = application:ensure_all_started(todana),
        ok = application:unset_env(todana, is_dump),
        {ok, _} ?= Started,
        ok ?= await(0),
        Names = [
            list_to_atom("db" ++ integer_to_list(N)) || N <- lists:seq(0, 15)
        ],
        lists:foreach(
            fun(Name) ->
                {ok, _} = todana_open:open(Name, #{}),
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
            [
                Table
             || Table <- todana_nif:durable_tables(),
                not todana_cluster_map:is_table(Table)
            ]
        )
    else
        {member, Sentence} -> {error, Sentence};
        {ok, {error, Sentence}} -> {error, Sentence};
        {error, Reason} -> {error, Reason}
    end.

-spec prepared(file:filename()) ->
    {ok, [{databases, string()}]} | {error, iodata()}.
prepared(DataDir) ->
    maybe
        {ok, Databases} ?= readable(DataDir),
        ok ?= detached(todana_data_dir:identity(DataDir), DataDir),
        {ok, Databases}
    end.

-spec detached({ok, map()} | none, file:filename()) -> ok | {error, iodata()}.
detached({ok, #{cluster := Cluster, left_ms := _}}, DataDir) ->
    ok = say_removed(Cluster),
    todana_data_dir:detach(filename:absname(DataDir), Cluster);
detached({ok, #{removed_from := Cluster}}, _DataDir) ->
    say_removed(Cluster);
detached(_, _DataDir) ->
    ok.

-spec say_removed(binary()) -> ok.
say_removed(Cluster) ->
    io:format(
        standard_error,
        "todana: dump: these are the records of a member when it was removed "
        "from the cluster ~ts: those of the others may be newer, and the last "
        "writes of these may never have been confirmed~n",
        [Cluster]
    ).

%% A start would find damage in the middle of the log only after a while.
-spec readable(file:filename()) ->
    {ok, [{databases, string()}]} | {error, string()}.
readable(DataDir) ->
    Directory = filename:absname(DataDir),
    UId = binary_to_list(todana_offline:uid(Directory)),
    Problems = [
        Problem
     || Class <- ["always", "everysec"],
        {error, Problem} <- [
            todana_log_missing:are_whole(
                filename:join([Directory, Class, UId])
            )
        ]
    ],
    case Problems of
        [] -> {ok, named(DataDir)};
        [Problem | _] -> {error, todana_log_problem:describe(Problem)}
    end.

%% The option `databases' that has the names which the directory keeps.
-spec named(file:filename()) -> [{databases, string()}].
named(DataDir) ->
    Named = case file:consult(filename:join(DataDir, "databases")) of
        {ok, Rows} -> Rows;
        {error, _} -> []
    end,
    InMemory = todana_named_databases:in_memory(filename:absname(DataDir)),
    case [Number || {Number, _, _} <- Named] ++ InMemory of
        [] ->
            [];
        Numbers ->
            Names = [
                case lists:keyfind(Number, 1, Named) of
                    {_, Name, nil} -> Name ++ "#type=hash";
                    {_, Name, Order} -> Name ++ "#type=tree" ++ order(Order);
                    false -> unnamed(Number, lists:member(Number, InMemory))
                end
             || Number <- lists:seq(0, lists:max(Numbers))
            ],
            [{databases, lists:flatten(lists:join(" ", Names))}]
    end.

-spec unnamed(0..15, IsInMemory :: boolean()) -> string().
unnamed(_Number, true) -> ":";
unnamed(Number, false) -> "db" ++ integer_to_list(Number) ++ ".kch".

-spec order(todana_kyoto_database:order()) -> string().
order(lexical) -> "";
order(decimal) -> "#rcomp=dec";
order(lexical_descending) -> "#rcomp=lexdesc";
order(decimal_descending) -> "#rcomp=decdesc".

%% A reason that stays, such as a full disk, ends it.
-spec await(non_neg_integer()) -> ok | {error, iodata()}.
await(TroubleMs) ->
    case todana_nif:durable_state() of
        closed ->
            case todana_status:info() of
                #{state := failed, reason := Reason} ->
                    {error, Reason};
                #{reason := Reason} when TroubleMs >= ?TROUBLE_MS_MAX ->
                    {error, Reason};
                #{reason := _} ->
                    timer:sleep(?POLL_MS),
                    await(TroubleMs + ?POLL_MS);
                #{} ->
                    timer:sleep(?POLL_MS),
                    await(0)
            end;
        _ ->
            ok
    end.

-spec print(atom(), fun((iodata()) -> ok)) -> ok.
print(Table, Print) ->
    #{codec := Codec} = todana_tables:info(Table),
    print(#{table => Table, codec => Codec}, snapshot(Table), Print).

%% The log may be writing a snapshot of its own, for example of a directory that
%% has just left its cluster: there is one at a time.
-spec snapshot(atom()) -> todana_nif:snapshot().
snapshot(Table) ->
    case todana_nif:snapshot(todana_nif:handle(Table)) of
        {ok, Snapshot} ->
            Snapshot;
        {error, busy} ->
            timer:sleep(?POLL_MS),
            snapshot(Table)
    end.

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
        more ->
            print(About, Snapshot, Print);
        done ->
            ok;
        abandoned ->
            throw("dump: the log began a snapshot of its own, so these are not "
                  "all records: run the command again")
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
