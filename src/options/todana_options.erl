%% The only definition of the options. From these rows are derived the keys of
%% the configuration file, the flags, the TODANA_* variables, the keys of the
%% application's environment, `todana config show', `--help' and
%% docs/configuration.md.
%%
%% Each option that native code reads has a second row there: `Config' in
%% native/server/src/config.rs, `Limits' in native/protocol/src/limits.rs,
%% `KyotoSettings' in native/kyoto/src/settings.rs. The test
%% todana_options_tests compares the two sides.
-module(todana_options).
-moduledoc false.

-export([all/0, names/0, find/1, flag/1, variable/1, nearest/1, hint/2]).

-export_type([option/0, name/0, type/0, address/0,
              values/0, origin/0, loaded/0, texts/0]).

-type name() :: atom().
-type type() ::
    addresses
    | {addresses, auto}
    | name
    | databases
    | hosts
    | origins
    | file
    | {file, Without :: off | auto}
    | node
    | nodes
    | directory
    | {integer, Min :: integer(), Max :: integer()}
    | {integer, Min :: integer(), Max :: integer(), Without :: off | auto}
    | {bytes, Min :: integer(), Max :: integer()}
    | {bytes, Min :: integer(), Max :: integer(), Without :: off | auto}
    | {choice, [atom()]}.
%% The read level of its clients, if it has one of its own.
-type address() ::
    {inet:ip_address(), inet:port_number()}
    | {inet:ip_address(), inet:port_number(), local | bounded | linear}.
%% The values of all options, and where they are from.
-type values() :: #{name() => term()}.
-type origin() :: default | file | env | flag.
-type loaded() :: #{name() => {term(), origin()}}.
-type texts() :: #{name() => string()}.
-type option() :: #{
    name := name(),
    type := type(),
    %% In the notation of the configuration file.
    default := string(),
    %% The default when embedded in another release, if it differs.
    embedded => string(),
    group := string(),
    doc := string()
}.

-define(MAX, 16#7fffffff).
-define(KB, 1024).
-define(MB, (1024 * 1024)).
-define(GB, (1024 * 1024 * 1024)).
-define(TB, (1024 * 1024 * 1024 * 1024)).

-doc "Every option, in the order of the documentation.".
-spec all() -> [option()].
all() ->
    listeners() ++ memory() ++ durability() ++ cluster() ++ clients() ++
        requests() ++ kyoto() ++ observing() ++ log().

-spec listeners() -> [option()].
listeners() ->
    G = "Listeners",
    [
        (row(G, listen_resp, addresses, "127.0.0.1:6379",
            "Addresses for Redis clients (RESP2 and RESP3), separated by "
            "commas. Port 0 selects any free port. An address that is not a "
            "loopback address requires `password_file`."))#{embedded => "off"},
        row(G, listen_resp_cluster, addresses, "off",
            "Addresses for clients of Redis Cluster. A request for the leader "
            "of the cluster is redirected to it (`MOVED`), which saves a hop. "
            "Other listeners execute all commands."),
        (row(G, listen_memcached, addresses, "127.0.0.1:11211",
            "Addresses for memcached clients."))#{embedded => "off"},
        (row(G, listen_kyoto, addresses, "127.0.0.1:1978",
            "Addresses for Kyoto Tycoon clients, for HTTP and for its binary "
            "protocol."))#{embedded => "off"},
        (row(G, listen_http, {addresses, auto}, "auto",
            "Addresses for monitors, by HTTP: `/metrics` for Prometheus, "
            "`/healthz`, `/readyz`, `/status.json`, `/names` and `/groups`. "
            "`auto` is 127.0.0.1:9379, or no address if that port is "
            "taken."))#{
            embedded => "off"
        },
        row(G, password_file, file, "off",
            "A file whose first line is the password that clients must give. "
            "The file has at most 4kb, and only its owner may write it. "
            "Without a password, the server listens on loopback addresses "
            "only."),
        row(G, event_loops, {integer, 1, 1024, auto}, "auto",
            "Threads that serve clients. `auto` is one for each online CPU."),
        row(G, event_loop_balance, {choice, [load, even]}, "even",
            "How connections are distributed among event loops. `even`: each "
            "loop gets the same number, and keeps them. `load`: connections "
            "gather on as few loops as the load needs, and move between "
            "requests; `poll` and `select` do not support this, and distribute "
            "connections evenly."),
        row(G, event_backend, {choice, [native, portable, poll, select]},
            "native",
            "The system interface that reports ready sockets. `native` is "
            "the best one of the system; `select` supports only descriptors "
            "below 1,024.")
    ].

-spec memory() -> [option()].
memory() ->
    G = "Memory",
    [
        row(G, memory_limit, {bytes, ?MB, 1024 * ?TB, off}, "off",
            "Maximum number of bytes of the records of all databases (`db0` "
            "to `db15`) together. Tables that Erlang code opens have their own "
            "limits."),
        row(G, memory_policy, {choice, [evict, refuse]}, "evict",
            "What a write does at the limit: `evict` removes the least used "
            "records, `refuse` returns an error. With `evict`, large values "
            "may exceed the limit by a sixteenth of it, or by 8 MiB if that is "
            "more, until enough records are evicted. A write that would "
            "exceed that is refused; the server then evicts records, so that "
            "a retry succeeds."),
        row(G, sweep_interval_ms, {integer, 1, ?MAX}, "100",
            "Interval in milliseconds at which the sweeper frees expired "
            "records, and evicts records if large values have exceeded the "
            "limit. Clients never see an expired record, even before the "
            "sweeper frees it. If no record expires and there are no writes, "
            "the sweeper runs once a second.")
    ].

-spec durability() -> [option()].
durability() ->
    G = "Durability",
    [
        row(G, data_dir, directory, "off",
            "The directory in which the node keeps the records of durable "
            "databases and tables. It is created if it does not exist; only "
            "one node at a time may use it. With `off` all records are in "
            "memory only, and a restart begins empty. With a directory, `db0` "
            "to `db15` are durable, except those that `databases` names as "
            "databases in memory."),
        row(G, durability, {choice, [always, everysec]}, "always",
            "What a reply to a write means: `always`, that the write is on "
            "disk (fdatasync); `everysec`, that the system has it, and that it "
            "is on disk a second later, so that a power failure loses at most "
            "the last second. Neither loses a write when the process is "
            "killed. Refused without `data_dir`."),
        row(G, write_timeout_ms, {integer, 1, ?MAX}, "5000",
            "How long a write to a durable database waits for its log, and a "
            "read for the leader of a cluster, in milliseconds. After that the "
            "client receives an error. It says that the write may or may not "
            "be executed, or, if the write was not passed to the log yet, that "
            "it is not executed."),
        row(G, durable_value_bytes_max, {bytes, ?KB, 64 * ?MB}, "16mb",
            "Maximum length of a value in a durable database or table."),
        row(G, group_queue_bytes_max, {bytes, ?MB, 4 * ?GB}, "32mb",
            "Maximum number of bytes of writes that wait for the log. Above "
            "it, clients wait until there is room."),
        row(G, snapshot_log_bytes, {bytes, ?MB, ?TB, auto}, "auto",
            "The number of bytes of log after which the node writes a snapshot "
            "of all durable records, which replaces the log before it. Each "
            "entry of the log counts 256 bytes besides its writes. `auto` "
            "is half of the bytes of the records, at least 64mb and at most "
            "4gb."),
        row(G, disk_reserve, {bytes, ?MB, ?TB, auto}, "auto",
            "The number of bytes that stay free on the disk of `data_dir`. "
            "Below it the node refuses writes other than removals until "
            "there is room again. `auto` is 256mb (two files of the log) and "
            "the size of a snapshot.")
    ].

-spec cluster() -> [option()].
cluster() ->
    G = "Cluster",
    [
        row(G, node, node, "off",
            "The name of this node, NAME@HOST, by which the other nodes of its "
            "cluster reach it: HOST is an address or a name of this host. A "
            "data directory remembers it. With `off`, a node without a cluster "
            "has no name. Ignored in a node that has a name already."),
        row(G, cluster_create, {choice, [no, yes]}, "no",
            "With `yes`, the node creates a cluster with its data directory, "
            "and other nodes can join. The option has no effect if the "
            "directory belongs to a cluster already. After the first start, "
            "replace the option by `cluster_join` with the name of another "
            "member, so that the node does not create a second cluster if its "
            "directory is lost."),
        row(G, cluster_join, nodes, "off",
            "Members of the cluster that this node joins with an empty data "
            "directory: one is enough, and if several are named, one of them "
            "has to run. The option has no effect if the directory belongs to "
            "a cluster already."),
        row(G, no_replica, {choice, [no, yes]}, "no",
            "With `yes`, this node is a guest of the cluster of "
            "`cluster_join`: it serves clients and has the Erlang API, and the "
            "members have the records. It has no `data_dir`. The databases are "
            "those of the members."),
        row(G, cluster_accept_older, {choice, [no, yes]}, "no",
            "With `yes`, this start accepts that the data directory of a "
            "member is older than what the other members know it to have "
            "confirmed: writes that it has confirmed since may be lost. It "
            "also forgets what this member knows of the others. Only for a "
            "start after all members were restored from copies."),
        row(G, cookie_file, {file, auto}, "auto",
            "The file with the secret that all nodes of a cluster know. Only "
            "its owner may read it. If it does not exist, it is created. "
            "`auto` is `.todana.cookie` in the home directory."),
        row(G, cluster_tls, directory, "off",
            "A directory with the certificates of the cluster, made by `todana "
            "cluster certificates DIRECTORY`: the nodes connect by TLS. "
            "Needed if a node has an address that is not a loopback address. "
            "In another release, use the emulator's flags for distribution "
            "over TLS instead."),
        row(G, cluster_port, {integer, 1, 65535, auto}, "auto",
            "The port on which the other nodes reach this one. `auto` is any "
            "free port; epmd, on port 4369, knows it."),
        row(G, announce_host, name, "off",
            "The address or name of this host, as `CLUSTER SLOTS` and `MOVED` "
            "announce it to clients. With `off` it is the address of the first "
            "listener, or the host in the name of the node, if that listener "
            "listens on all addresses."),
        row(G, zone, name, "off",
            "The zone of this node, such as a data centre or a rack, as "
            "`cluster status` shows it."),
        row(G, read_level, {choice, [local, bounded, linear]}, "bounded",
            "How new the records of durable databases must be that clients "
            "read on a node of a cluster. `local`: as the node has them. "
            "`bounded`: with everything that any node acknowledged more than "
            "`read_bound_ms` ago. `linear`: with everything that was "
            "acknowledged before the request; each read asks the leader. A "
            "RESP client may choose another level with `TODANA.READ`. Erlang "
            "functions read locally unless they are called with a level."),
        row(G, read_bound_ms, {integer, 1, ?MAX}, "1000",
            "How old a `bounded` read may be, in milliseconds.")
    ].

-spec clients() -> [option()].
clients() ->
    G = "Clients",
    [
        row(G, connections_max, {integer, 1, 1_000_000}, "10000",
            "Maximum number of connected clients. The server sends further "
            "clients an error and closes the connection. The default with the "
            "event back end `select` is 960."),
        row(G, idle_timeout_ms, {integer, 1, ?MAX * 1000, off}, "off",
            "The server closes a client that has neither sent a request nor "
            "received a reply for this number of milliseconds, unless the "
            "server is executing a request of the client, or the client waits "
            "for a signal."),
        row(G, authentication_timeout_ms, {integer, 1, ?MAX}, "10000",
            "If a password is set, the server closes a client that has not "
            "sent it within this number of milliseconds. The time at which the "
            "server receives the password counts, not the time at which it "
            "replies."),
        row(G, tcp_keepalive_s, {integer, 1, 32767, off}, "300",
            "Idle time of a connection before TCP keepalive probes, in "
            "seconds."),
        row(G, clients_memory_limit, {bytes, 0, 1024 * ?TB, auto}, "auto",
            "Maximum number of bytes that the server holds for all clients "
            "together: incomplete requests, commands queued by MULTI, and "
            "pending replies. Above the limit, the server closes the client "
            "that holds most. `auto` is an eighth of the memory of the machine "
            "or container, at least 256mb; 0 is no limit."),
        row(G, input_bytes_max, {bytes, 64 * ?KB, ?TB}, "128mb",
            "Maximum number of bytes of an incomplete request that the "
            "server holds for one client."),
        row(G, tracking_keys_max, {integer, 1, 1_000_000_000}, "1000000",
            "Maximum number of keys that are tracked for clients that cache "
            "values (`CLIENT TRACKING`). Beyond that, the server invalidates "
            "other keys."),
        row(G, subscriptions_max, {integer, 1, 1_048_576}, "10000",
            "Maximum number of subscriptions of a client: channels, patterns "
            "and sharded channels together."),
        row(G, subscriber_output_bytes_hard, {bytes, 64 * ?KB, ?TB}, "32mb",
            "Like `output_bytes_hard`, for clients with subscriptions."),
        row(G, subscriber_output_bytes_soft, {bytes, 64 * ?KB, ?TB}, "8mb",
            "Like `output_bytes_soft`, for clients with subscriptions."),
        row(G, subscriber_output_soft_ms, {integer, 1, ?MAX}, "60000",
            "The time for `subscriber_output_bytes_soft`, in milliseconds."),
        row(G, output_bytes_hard, {bytes, 64 * ?KB, ?TB}, "256mb",
            "The server closes a client with more pending output "
            "immediately."),
        row(G, output_bytes_soft, {bytes, 64 * ?KB, ?TB}, "32mb",
            "The server closes a client that has had more pending output for "
            "`output_soft_ms`."),
        row(G, output_soft_ms, {integer, 1, ?MAX}, "60000",
            "The time for `output_bytes_soft`, in milliseconds.")
    ].

-spec requests() -> [option()].
requests() ->
    G = "Requests",
    [
        row(G, key_bytes_max, {bytes, 1, ?MB}, "64kb",
            "Maximum length of a key. With memcached, a key has at most 250 "
            "bytes in any case."),
        row(G, value_bytes_max, {bytes, 1, 512 * ?MB}, "64mb",
            "Maximum length of a value in RESP."),
        row(G, memcached_value_bytes_max, {bytes, 1, 512 * ?MB}, "1mb",
            "Maximum length of a value in the memcached protocol."),
        row(G, arguments_max, {integer, 1, 1_048_576}, "65536",
            "Maximum number of arguments of a RESP command."),
        row(G, script_steps_max, {integer, 1_000, 1_000_000_000}, "2000000",
            "Maximum number of steps of a script. A simple instruction of Lua "
            "is one; a call of a command is about 130 (GET, INCR) or 200 "
            "(SET), and more with large values: by default some 9,800 SETs."),
        row(G, script_bytes_max, {bytes, 64 * ?KB, ?GB}, "16mb",
            "Maximum memory of a script, in bytes."),
        row(G, line_bytes_max, {bytes, 64, 16 * ?MB}, "64kb",
            "Maximum length of an inline command or a line of text."),
        row(G, unauthenticated_arguments_max, {integer, 1, 1_048_576}, "10",
            "Maximum number of arguments of a command before the client has "
            "authenticated."),
        row(G, unauthenticated_argument_bytes_max, {bytes, 1, ?MB}, "16kb",
            "Maximum length of an argument before the client has "
            "authenticated."),
        row(G, queued_bytes_max, {bytes, 1, ?TB}, "128mb",
            "Maximum number of bytes of the commands between MULTI and EXEC.")
    ].

-spec kyoto() -> [option()].
kyoto() ->
    G = "Kyoto Tycoon",
    [
        row(G, databases, databases, ":",
            "The databases, beginning with `db0`, as Kyoto Cabinet names "
            "them. `+` and `%` are ordered: by the bytes of the keys, or with "
            "`#rcomp=dec` by the decimal number at their beginning. "
            "`*#capcnt=100000` holds at most 100,000 records. The databases "
            "after the last name are like `:`, and Kyoto Tycoon clients do not "
            "see them. The names may also follow the flags of `start`, without "
            "this flag."),
        row(G, kyoto_hosts, hosts, "off",
            "Names that the `Host` of an HTTP request may have, besides "
            "`localhost` and addresses. The server refuses other names, so "
            "that a web page cannot reach it through a DNS name of the page's "
            "author."),
        row(G, kyoto_origins, origins, "off",
            "Origins of the web pages that may send requests from a browser."),
        row(G, kyoto_body_bytes_max, {bytes, 1, 256 * ?MB}, "64mb",
            "Maximum length of the body of a request; at most "
            "`input_bytes_max`. The default is lowered to `input_bytes_max` if "
            "that is less."),
        row(G, kyoto_timeout_ms, {integer, 1, ?MAX, off}, "30000",
            "The server closes a client that has sent a part of a request, and "
            "then nothing for this number of milliseconds.")
    ].

-spec observing() -> [option()].
observing() ->
    G = "Observing",
    [
        row(G, slow_log_us, {integer, 0, ?MAX * 1000, off}, "10000",
            "The slow log records commands that take at least this number of "
            "microseconds."),
        row(G, slow_log_entries_max, {integer, 0, 1_000_000}, "128",
            "Maximum number of entries in the slow log."),
        row(G, control_socket, {file, auto}, "auto",
            "The Unix socket by which `todana ping`, `stop`, `reload`, `top` "
            "and `cluster` reach the node; only its user may connect. `auto` "
            "is `control` in `data_dir`. Without one it is a file named after "
            "the first listener, in `/run/todana`, `$XDG_RUNTIME_DIR/todana` "
            "or `/tmp/todana-USER`, the first of them that the user may write. "
            "There is no socket in another release, or if that listener's port "
            "is 0. `off` disables it.")
    ].

%% Of a node that the command line starts; another release has its own logger.
-spec log() -> [option()].
log() ->
    G = "Log",
    [
        row(G, log_level, {choice, [error, warning, notice, info, debug]},
            "notice",
            "The lowest level of the messages that are logged: `error` is the "
            "most severe. Like the other options of the log, it has no effect "
            "in another release, which configures its own logger."),
        row(G, log_file, file, "off",
            "The file to which the log is appended. With `off` the log goes to "
            "standard error. If the file is renamed or removed, the node "
            "begins a new one."),
        row(G, log_file_bytes, {bytes, 16 * ?KB, ?TB, off}, "64mb",
            "The size at which the file is renamed to `FILE.0`, an existing "
            "`FILE.0` to `FILE.1` and so on, and a new file is begun. With "
            "`off` it grows."),
        row(G, log_file_count, {integer, 0, 1000}, "5",
            "Maximum number of renamed files; older ones are deleted."),
        row(G, log_format, {choice, [text, json]}, "text",
            "The form of a line: text, or a JSON object with `time`, `level` "
            "and `message`.")
    ].

-spec row(string(), name(), type(), string(), string()) -> option().
row(Group, Name, Type, Default, Doc) ->
    #{
        name => Name,
        type => Type,
        default => Default,
        group => Group,
        doc => Doc
    }.

-doc "The names of all options.".
-spec names() -> [name()].
names() ->
    [Name || #{name := Name} <- all()].

-doc "Looks up an option by its name as text.".
-spec find(string()) -> {ok, option()} | error.
find(Text) ->
    Found = [O || #{name := Name} = O <- all(), atom_to_list(Name) =:= Text],
    case Found of
        [Option] -> {ok, Option};
        [] -> error
    end.

-doc "The option's flag, `--listen-resp`.".
-spec flag(name()) -> string().
flag(Name) ->
    Words = string:replace(atom_to_list(Name), "_", "-", all),
    "--" ++ lists:flatten(Words).

-doc "The option's environment variable, `TODANA_LISTEN_RESP`.".
-spec variable(name()) -> string().
variable(Name) ->
    "TODANA_" ++ string:uppercase(atom_to_list(Name)).

-doc "The most similar option name, if one is similar enough.".
-spec nearest(string()) -> {ok, string()} | error.
nearest(Text) ->
    Ranked = [
        {string:jaro_similarity(Text, Name), Name}
     || Name <- lists:map(fun atom_to_list/1, names())
    ],
    case lists:max(Ranked) of
        {Similarity, Name} when Similarity > 0.85 -> {ok, Name};
        _ -> error
    end.

-doc """
What an error adds to an unknown name: the most similar option, as this function
writes it, if one is similar enough.
""".
-spec hint(string(), fun((name()) -> string())) -> string().
hint(Text, Spell) ->
    case nearest(Text) of
        {ok, Near} -> "; did you mean " ++ Spell(list_to_atom(Near)) ++ "?";
        error -> ""
    end.
