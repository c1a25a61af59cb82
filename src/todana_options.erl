%% The options, once. From these rows come the keys of the configuration file,
%% the flags, the TODANA_* variables, the keys of the application's environment,
%% `todana config show', `--help' and docs/configuration.md.
-module(todana_options).
-moduledoc false.

-export([all/0, names/0, find/1, flag/1, variable/1, nearest/1]).

-export_type([option/0, name/0, type/0]).

-type name() :: atom().
-type type() ::
    addresses
    | databases
    | hosts
    | origins
    | file
    | {integer, Min :: integer(), Max :: integer()}
    | {integer, Min :: integer(), Max :: integer(), Without :: off | auto}
    | {bytes, Min :: integer(), Max :: integer()}
    | {bytes, Min :: integer(), Max :: integer(), Without :: off | auto}
    | {choice, [atom()]}.
-type option() :: #{
    name := name(),
    type := type(),
    %% As it would be written in a file.
    default := string(),
    %% Where the default differs when embedded in another release.
    embedded => string(),
    group := string(),
    doc := string()
}.

-define(MAX, 16#7fffffff).
-define(KB, 1024).
-define(MB, (1024 * 1024)).
-define(TB, (1024 * 1024 * 1024 * 1024)).

-doc "Every option, in the order of the documentation.".
-spec all() -> [option()].
all() ->
    listeners() ++ memory() ++ clients() ++ requests() ++ kyoto() ++
        observing().

-spec listeners() -> [option()].
listeners() ->
    G = "Listeners",
    [
        (row(G, listen_resp, addresses, "127.0.0.1:6379",
            "Addresses for Redis clients (RESP2 and RESP3), separated by "
            "commas. Port 0 takes any free port. An address that is not a "
            "loopback address needs `password_file`."))#{embedded => "off"},
        (row(G, listen_memcached, addresses, "127.0.0.1:11211",
            "Addresses for memcached clients."))#{embedded => "off"},
        (row(G, listen_kyoto, addresses, "127.0.0.1:1978",
            "Addresses for Kyoto Tycoon clients, by HTTP and by its binary "
            "protocol."))#{embedded => "off"},
        row(G, password_file, file, "off",
            "A file with the password that clients must give, in its first "
            "line: at most 4kb, which none but its owner may write. Without "
            "one, only loopback addresses may be listened on."),
        row(G, event_loops, {integer, 1, 1024, auto}, "auto",
            "Threads that serve clients. `auto` is one for each CPU online."),
        row(G, event_backend, {choice, [native, portable, poll, select]},
            "native",
            "How threads learn of ready sockets. `native` is the best the "
            "system has; `select` takes descriptors below 1,024 only.")
    ].

-spec memory() -> [option()].
memory() ->
    G = "Memory",
    [
        row(G, memory_limit, {bytes, ?MB, 1024 * ?TB, off}, "off",
            "Most bytes of records in the databases `db0` to `db15` together. "
            "Tables that Erlang code opens have limits of their own."),
        row(G, memory_policy, {choice, [evict, refuse]}, "evict",
            "What a write does at the limit: `evict` the records that are "
            "used least, or `refuse` the write. Where records are evicted, "
            "large values may take a sixteenth of the limit, or 8 MiB, beyond "
            "it until room is made; a write that would take more is refused, "
            "and the room for it is made meanwhile."),
        row(G, sweep_interval_ms, {integer, 1, ?MAX}, "100",
            "How often expired records are freed, and room is made that large "
            "values took beyond the limit, in milliseconds. Expired records "
            "are invisible from the moment they expire in any case.")
    ].

-spec clients() -> [option()].
clients() ->
    G = "Clients",
    [
        row(G, connections_max, {integer, 1, 1_000_000}, "10000",
            "Most clients at one time. More are told so and turned away. "
            "The default with the event back end `select` is 960."),
        row(G, idle_timeout_ms, {integer, 1, ?MAX, off}, "off",
            "Clients that send nothing and take no reply for so many "
            "milliseconds are closed, unless the server is at work on a "
            "request of theirs, or they wait for a signal."),
        row(G, authentication_timeout_ms, {integer, 1, ?MAX}, "10000",
            "With a password: clients that have not given it after so many "
            "milliseconds are closed. A password that came in time counts, "
            "however long its answer is held back."),
        row(G, tcp_keepalive_s, {integer, 1, 32767, off}, "300",
            "TCP keepalive in seconds."),
        row(G, clients_memory_limit, {bytes, 0, 1024 * ?TB, auto}, "auto",
            "Most bytes that the server holds for all clients together: "
            "requests under way, commands queued by MULTI, replies that "
            "wait. Beyond it the client that holds most is closed. `auto` is "
            "an eighth of the memory of the machine or container, at least "
            "256mb; 0 is no limit."),
        row(G, input_bytes_max, {bytes, 64 * ?KB, ?TB}, "128mb",
            "Most bytes of a request under way that one client may make the "
            "server hold."),
        row(G, output_bytes_hard, {bytes, 64 * ?KB, ?TB}, "256mb",
            "A client with more output waiting is closed at once."),
        row(G, output_bytes_soft, {bytes, 64 * ?KB, ?TB}, "32mb",
            "A client with more output waiting for `output_soft_ms` is "
            "closed."),
        row(G, output_soft_ms, {integer, 1, ?MAX}, "60000",
            "See `output_bytes_soft`, in milliseconds.")
    ].

-spec requests() -> [option()].
requests() ->
    G = "Requests",
    [
        row(G, key_bytes_max, {bytes, 1, ?MB}, "64kb",
            "Longest key. memcached has 250 bytes at most in any case."),
        row(G, value_bytes_max, {bytes, 1, 512 * ?MB}, "64mb",
            "Longest value by RESP."),
        row(G, memcached_value_bytes_max, {bytes, 1, 512 * ?MB}, "1mb",
            "Longest value by memcached."),
        row(G, arguments_max, {integer, 1, 1_048_576}, "65536",
            "Most arguments of a RESP command."),
        row(G, line_bytes_max, {bytes, 64, 16 * ?MB}, "64kb",
            "Longest inline or text line."),
        row(G, unauthenticated_arguments_max, {integer, 1, 1_048_576}, "10",
            "Most arguments of a command before the password was given."),
        row(G, unauthenticated_argument_bytes_max, {bytes, 1, ?MB}, "16kb",
            "Longest argument before the password was given."),
        row(G, queued_bytes_max, {bytes, 1, ?TB}, "128mb",
            "Most bytes that the commands between MULTI and EXEC may take.")
    ].

-spec kyoto() -> [option()].
kyoto() ->
    G = "Kyoto Tycoon",
    [
        row(G, databases, databases, ":",
            "The databases, `db0` first, by Kyoto Cabinet's names. `+` and "
            "`%` are ordered, by the number at the front of keys with "
            "`#rcomp=dec`; `*#capcnt=100000` holds so many records at most. "
            "Those after the last name are like `:`, and Kyoto Tycoon clients "
            "do not see them. After the flags of `start`, names may stand by "
            "themselves."),
        row(G, kyoto_hosts, hosts, "off",
            "Names that the `Host` of an HTTP request may have, beside "
            "`localhost` and addresses. Others are refused, so that a web "
            "page cannot reach the server under a name of its own."),
        row(G, kyoto_origins, origins, "off",
            "Web pages that may send requests from a browser."),
        row(G, kyoto_body_bytes_max, {bytes, 1, 256 * ?MB}, "64mb",
            "Longest body of a request; at most `input_bytes_max`, which the "
            "default follows."),
        row(G, kyoto_timeout_ms, {integer, 1, ?MAX, off}, "30000",
            "A client that has sent a part of a request, and then nothing for "
            "so many milliseconds, is closed.")
    ].

-spec observing() -> [option()].
observing() ->
    G = "Observing",
    [
        row(G, slow_log_us, {integer, 0, ?MAX, off}, "10000",
            "Commands that take as many microseconds are in the slow log."),
        row(G, slow_log_entries_max, {integer, 0, 1_000_000}, "128",
            "Most entries in the slow log.")
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

-doc "The option that a text names.".
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

-doc "The name that was probably meant, if one is near.".
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
