%% The rules that concern several options.
-module(todana_config_rules).
-moduledoc false.

-export([fit_defaults/1, without_data_dir/1, check/1, is_loopback/1]).

%% Descriptors that `select' supports, minus those not used for connections.
-define(SELECT_CONNECTIONS_MAX, 960).

%% The first database of a node with a data directory.
-define(DURABLE_DATABASE, "db0.kch").

-doc "Adjusts defaults that would contradict the value of another option.".
-spec fit_defaults(todana_options:loaded()) -> todana_options:loaded().
fit_defaults(Loaded) ->
    fit_body(fit_connections(fit_databases(Loaded))).

%% With a data directory, the first database is durable unless it is named.
-spec fit_databases(todana_options:loaded()) -> todana_options:loaded().
fit_databases(#{data_dir := {off, _}} = Loaded) ->
    Loaded;
fit_databases(#{databases := {_, default}} = Loaded) ->
    {ok, Database} = todana_kyoto_database:parse(?DURABLE_DATABASE),
    Loaded#{databases := {[Database], default}};
fit_databases(Loaded) ->
    Loaded.

-spec fit_connections(todana_options:loaded()) -> todana_options:loaded().
fit_connections(#{
    event_backend := {select, _},
    connections_max := {_, default}
} = Loaded) ->
    Loaded#{connections_max := {?SELECT_CONNECTIONS_MAX, default}};
fit_connections(Loaded) ->
    Loaded.

-spec fit_body(todana_options:loaded()) -> todana_options:loaded().
fit_body(#{
    input_bytes_max := {InputMax, _},
    kyoto_body_bytes_max := {BodyMax, default}
} = Loaded) ->
    Loaded#{kyoto_body_bytes_max := {min(InputMax, BodyMax), default}};
fit_body(Loaded) ->
    Loaded.

-doc """
Refuses what promises that records outlive the process, if there is no directory
for them: throws a sentence.
""".
-spec without_data_dir(todana_options:loaded()) -> ok.
without_data_dir(#{no_replica := {yes, _}} = Loaded) ->
    case Loaded of
        #{data_dir := {Directory, _}} when Directory =/= off ->
            throw("no_replica: a node without a replica has no records, and so "
                  "no data_dir: leave out one of the two");
        #{cluster_create := {yes, _}} ->
            throw("no_replica: a node without a replica cannot create a "
                  "cluster: leave out one of the two");
        #{cluster_join := {off, _}} ->
            throw("no_replica: name a member of the cluster by cluster_join");
        #{durability := {_, Origin}} when Origin =/= default ->
            throw("durability: the members of the cluster have the records, "
                  "and this node has none (no_replica)");
        #{} ->
            ok
    end;
without_data_dir(#{
    data_dir := {off, _}, durability := {Class, Origin}
}) when Origin =/= default ->
    throw(sentence(
        "durability: `~ts` needs a directory for the records: set data_dir",
        [Class]
    ));
without_data_dir(#{
    data_dir := {off, _}, databases := {Databases, _}
} = Loaded) ->
    Durable = [
        Text
     || #{text := Text, kind := Kind} <- Databases,
        todana_kyoto_database:is_durable(Kind)
    ],
    case Durable of
        [] ->
            without_data_dir(maps:remove(databases, Loaded));
        [Text | _] ->
            throw(sentence(
                "database `~ts` is kept on disk, and needs a directory for its "
                "records: set data_dir (--data-dir DIRECTORY, or "
                "TODANA_DATA_DIR=DIRECTORY), or name a database in memory, "
                "such as `:`",
                [Text]
            ))
    end;
without_data_dir(#{data_dir := {off, _}} = Loaded) ->
    case [
        Name
     || Name <- [cluster_create, cluster_join],
        #{Name := {Value, _}} <- [Loaded],
        Value =/= no, Value =/= off
    ] of
        [] -> ok;
        [Name | _] -> throw(sentence(
            "~ts: the nodes of a cluster keep their records on disk: set "
            "data_dir", [Name]
        ))
    end;
without_data_dir(_Loaded) ->
    ok.

-doc "Checks the rules that concern several options.".
-spec check(todana_options:values()) -> ok | {error, string()}.
check(#{password_file := off} = Options) ->
    Open = [
        {Name, {Ip, Port}}
     || Name <- [
            listen_resp, listen_resp_cluster, listen_memcached, listen_kyoto,
            listen_http
        ],
        #{Name := [_ | _] = Addresses} <- [Options],
        Address <- Addresses,
        {Ip, Port} <- [{element(1, Address), element(2, Address)}],
        not is_loopback(Ip)
    ],
    case Open of
        [] ->
            sizes(Options);
        [{Name, Address} | _] ->
            Text = todana_option_type:format(addresses, [Address]),
            {error, sentence(
                "~ts: ~ts is not a loopback address: set password_file, so "
                "that only clients with the password can read and write",
                [Name, Text])}
    end;
check(#{password_file := File} = Options) ->
    case todana_password:read(File) of
        {ok, _} -> sizes(Options);
        {error, Sentence} -> {error, Sentence}
    end.

%% Checks the sizes of which one must not exceed another.
-spec sizes(todana_options:values()) -> ok | {error, string()}.
sizes(#{output_bytes_soft := Soft, output_bytes_hard := Hard}) when
    Soft > Hard
->
    {error, "output_bytes_soft is above output_bytes_hard"};
sizes(#{kyoto_body_bytes_max := Body, input_bytes_max := Input}) when
    Body > Input
->
    {error, "kyoto_body_bytes_max is above input_bytes_max"};
sizes(#{durable_value_bytes_max := Value, group_queue_bytes_max := Queue}) when
    Value > Queue
->
    {error, "durable_value_bytes_max is above group_queue_bytes_max"};
sizes(#{data_dir := Path}) when Path =/= off ->
    case filelib:is_regular(Path) of
        true -> {error, a_file(Path)};
        false -> ok
    end;
sizes(_Options) ->
    ok.

-spec a_file(string()) -> string().
a_file(Path) ->
    Hint =
        case filename:extension(Path) of
            ".kc" ++ _ ->
                "; Todana does not read the files of Kyoto Cabinet, "
                "docs/durability.md says how to copy their records";
            _ ->
                ""
        end,
    sentence("data_dir: ~ts is a file, not a directory~ts", [Path, Hint]).

-doc "Whether only this host reaches the address.".
-spec is_loopback(inet:ip_address()) -> boolean().
is_loopback({127, _, _, _}) -> true;
is_loopback({0, 0, 0, 0, 0, 0, 0, 1}) -> true;
is_loopback(_) -> false.

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
