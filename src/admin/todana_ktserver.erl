%% The command line of Kyoto Tycoon's server, `bin/todana ktserver'.
%%
%% Options come first; every argument after the first name of a database is also
%% the name of a database. An option is refused if ignoring it would lose data
%% or break a promise. An option that only concerns the internals of ktserver is
%% accepted, and a remark is logged.
-module(todana_ktserver).
-moduledoc false.

-export([parse/1, remarks/2, help/0]).

-export_type([command/0, parsed/0, log/0]).

-type log() :: {none | string(), none | error | notice | info}.
-type command() :: #{
    %% The given options, and defaults that differ from `todana_options'.
    flags := todana_config:flags(),
    defaults := todana_config:texts(),
    databases := [string()],
    log := log(),
    pid_file := none | string(),
    %% Whether Todana chose the address, because -host was not given.
    own_host := boolean(),
    remarks := [string()]
}.
-type parsed() :: {ok, command()} | help | {error, string()}.
-type given() :: #{string() => string() | true}.

-define(HOST, "127.0.0.1").
-define(PORT, "1978").
-define(THREADS_MAX, 64).

-doc "Parses the arguments.".
-spec parse([string()]) -> parsed().
parse(Arguments) ->
    try
        case options(Arguments, #{}, []) of
            help ->
                help;
            {Given, Useless, Databases} ->
                {ok, command(Given, Useless, Databases)}
        end
    catch
        throw:Sentence -> {error, Sentence}
    end.

%% An option of ktserver: whether a value follows it, and how it is handled.
-spec option(string()) ->
    {value | flag, used | useless | {no, string()}} | none.
option(Option) ->
    Options = #{
        "-host" => {value, used},
        "-port" => {value, used},
        "-tout" => {value, used},
        "-th" => {value, used},
        "-log" => {value, used},
        "-li" => {flag, used},
        "-ls" => {flag, used},
        "-le" => {flag, used},
        "-lz" => {flag, used},
        "-pid" => {value, used},
        "-ulim" => {value, useless},
        "-uasi" => {value, useless},
        "-sid" => {value, useless},
        "-oat" => {flag, useless},
        "-oas" => {flag, useless},
        "-onl" => {flag, useless},
        "-otl" => {flag, useless},
        "-onr" => {flag, useless},
        "-asi" => {value, useless},
        "-ash" => {flag, useless},
        "-bgsi" => {value, useless},
        "-bgsc" => {value, useless},
        "-cmd" => {value, useless},
        "-mport" => {value, useless},
        "-rts" => {value, useless},
        "-riv" => {value, useless},
        "-plex" => {value, useless},
        "-ulog" => {value, {no, "there is no update log"}},
        "-bgs" => {value, {no, "there are no snapshots in the background"}},
        "-mhost" => {value, {no, "there is no replication"}},
        "-ord" => {flag, {no, "databases cannot be read-only"}},
        "-scr" => {value, {no, "there are no scripts"}},
        "-plsv" => {value, {no, "there are no plug-ins"}},
        "-pldb" => {value, {no, "there are no plug-ins"}},
        "-dmn" => {flag, {no,
            "it runs in the foreground: let a service manager, such as "
            "systemd, start it"}}
    },
    maps:get(Option, Options, none).

-spec options([string()], given(), [string()]) ->
    help | {given(), [string()], [string()]}.
options(["--" | Databases], Given, Useless) ->
    {Given, Useless, Databases};
options([Help | _], _Given, _Useless) when Help =:= "--help"; Help =:= "-h" ->
    help;
options(["-" | _], _Given, _Useless) ->
    throw("to name the database `-`, write -- before it");
options(["-" ++ _ = Option | Rest], Given, Useless) ->
    case {option(Option), Rest} of
        {none, _} ->
            throw(sentence("ktserver has no option ~ts; see "
                           "`ktserver --help`", [Option]));
        {{_, {no, _}}, _} ->
            Sentences = lists:uniq(refused([Option | Rest])),
            throw(lists:flatten(lists:join("; ", Sentences)));
        {{value, _}, []} ->
            throw(sentence("~ts: a value is missing", [Option]));
        {{value, used}, [Value | Left]} ->
            options(Left, Given#{Option => Value}, Useless);
        {{flag, used}, _} ->
            options(Rest, Given#{Option => true}, Useless);
        {{value, useless}, [_ | Left]} ->
            options(Left, Given, [Option | Useless]);
        {{flag, useless}, _} ->
            options(Rest, Given, [Option | Useless])
    end;
options(Databases, Given, Useless) ->
    {Given, Useless, Databases}.

%% All refused options, so that a user sees them in one attempt.
-spec refused([string()]) -> [string()].
refused([]) ->
    [];
refused([Option | Rest]) ->
    case {option(Option), Rest} of
        {none, _} -> [];
        {{value, What}, []} -> refusal(Option, What);
        {{value, What}, [_ | Left]} -> refusal(Option, What) ++ refused(Left);
        {{flag, What}, _} -> refusal(Option, What) ++ refused(Rest)
    end.

-spec refusal(string(), used | useless | {no, string()}) -> [string()].
refusal(Option, {no, Why}) -> [sentence("~ts: ~ts", [Option, Why])];
refusal(_Option, _) -> [].

-spec command(given(), [string()], [string()]) -> command().
command(Given, Useless, Databases) ->
    Level =
        case [L || {Option, L} <- levels(), is_map_key(Option, Given)] of
            [] -> info;
            Levels -> lists:last(Levels)
        end,
    #{
        flags => maps:from_list(
            address(Given) ++ timeout(Given) ++ threads(Given)
        ),
        defaults => maps:merge(
            #{
                listen_resp => "off", listen_memcached => "off",
                listen_http => "off"
            },
            data_dir(Databases)
        ),
        databases => Databases,
        log => {maps:get("-log", Given, none), Level},
        pid_file => maps:get("-pid", Given, none),
        own_host => not is_map_key("-host", Given),
        remarks => [
            sentence("~ts has no meaning here", [Option])
         || Option <- lists:uniq(lists:reverse(Useless))
        ]
    }.

%% In ktserver the path of a database says where its records are: a data
%% directory of this path, unless another one is set. One directory cannot have
%% the paths of several databases.
-spec data_dir([string()]) -> todana_config:texts().
data_dir(Databases) ->
    Paths = [
        hd(string:split(Text, "#"))
     || Text <- Databases,
        {ok, #{kind := Kind}} <- [todana_kyoto_database:parse(Text)],
        todana_kyoto_database:is_durable(Kind)
    ],
    case Paths of
        [[_ | _] = Path] -> #{data_dir => Path};
        _ -> #{}
    end.

%% If several are given, the quietest counts.
-spec levels() -> [{string(), none | error | notice | info}].
levels() ->
    [{"-li", info}, {"-ls", notice}, {"-le", error}, {"-lz", none}].

-spec address(given()) -> [{atom(), string()}].
address(Given) when
    is_map_key("-host", Given); is_map_key("-port", Given)
->
    Host = maps:get("-host", Given, ?HOST),
    Port = number("-port", maps:get("-port", Given, ?PORT), 0, 65535),
    IsAddress =
        case inet:parse_strict_address(Host) of
            {ok, _} -> true;
            {error, _} -> Host =:= "localhost"
        end,
    IsAddress orelse
        throw(sentence("-host: `~ts` is no IP address", [Host])),
    Written =
        case lists:member($:, Host) of
            true -> lists:concat(["[", Host, "]:", Port]);
            false -> lists:concat([Host, ":", Port])
        end,
    [{listen_kyoto, Written}];
address(_Given) ->
    [].

%% Seconds, with an optional fraction; 0 means never.
-spec timeout(given()) -> [{atom(), string()}].
timeout(#{"-tout" := Text}) ->
    Ms =
        case string:split(Text, ".") of
            [Whole] ->
                number("-tout", Whole, 0, 2_147_482) * 1000;
            [Whole, Fraction] ->
                Thousandths = lists:sublist(Fraction ++ "000", 3),
                number("-tout", Whole, 0, 2_147_482) * 1000 +
                    number("-tout", Thousandths, 0, 999)
        end,
    case Ms of
        0 -> [{kyoto_timeout_ms, "off"}];
        _ -> [{kyoto_timeout_ms, integer_to_list(Ms)}]
    end;
timeout(_Given) ->
    [].

-spec threads(given()) -> [{atom(), string()}].
threads(#{"-th" := Text}) ->
    Wanted = number("-th", Text, 1, 1 bsl 31),
    [{event_loops, integer_to_list(min(Wanted, ?THREADS_MAX))}];
threads(_Given) ->
    [].

%% A number with an optional unit, which is a power of 1,024.
-spec number(string(), string(), integer(), integer()) -> integer().
number(Option, Text, Min, Max) ->
    case todana_kyoto_database:quantity(Text) of
        {ok, N} when N >= Min, N =< Max ->
            N;
        _ ->
            throw(sentence("~ts is `~ts`, but should be a number from ~b to "
                           "~b", [Option, Text, Min, Max]))
    end.

-doc "Remarks on the options, after all sources have been read.".
-spec remarks(command(), todana_config:loaded()) -> [string()].
remarks(#{own_host := true}, #{listen_kyoto := {[_ | _], Origin}}) when
    Origin =:= default; Origin =:= flag
->
    ["without -host, ktserver listens on all addresses; Todana listens on "
     ?HOST " only, because other addresses require a password"];
remarks(_Command, _Loaded) ->
    [].

-doc "The text of `ktserver --help`.".
-spec help() -> iodata().
help() ->
    [
        "usage: todana ktserver [OPTIONS] [--] [DATABASE...]\n\n"
        "The command line of Kyoto Tycoon's server. Every option of "
        "`todana help` may be\ngiven as an environment variable.\n\n"
        "RESP and memcached are off, unless TODANA_LISTEN_RESP or\n"
        "TODANA_LISTEN_MEMCACHED is set.\n"
        "The only password in Kyoto Tycoon's protocols is HTTP Basic: for "
        "clients on\nother machines use a tunnel, or a proxy that adds the "
        "header.\n\n"
        "Databases (`:` without any), at most 16. In memory: - + : * %, "
        "names that end with\n.kcph .kcpt .kcs .kcc .kcg, or #type=; "
        "with #ktopts=p, #ktcapcnt=, #ktcapsiz=, of `*`\n#capcnt=, #capsiz=, "
        "of + and % #rcomp=. A first database `-` needs -- before it.\n"
        "On disk: names that end with .kch (hash) or .kct (ordered, #rcomp=). "
        "The path of the\nonly one is the directory of its records; for "
        "several, set TODANA_DATA_DIR.\n\n"
        "  -host ADDRESS  default " ?HOST ", not all addresses: any but\n"
        "                 loopback needs a password, and so\n"
        "                 TODANA_PASSWORD_FILE\n"
        "  -port N        default " ?PORT "\n"
        "  -tout SECONDS  the longest pause of a client inside a request; "
        "default 30,\n"
        "                 0 for no limit\n"
        "  -th N          threads, at most 64; default one for each CPU\n"
        "  -log FILE      append to this file; default standard error. Single\n"
        "                 requests are not logged\n"
        "  -li -ls -le -lz  log all (default), warnings and notices, errors, "
        "nothing\n"
        "  -pid FILE      write the process ID to this file while serving\n\n"
        "Accepted without an effect; the log names them:\n"
        "  -ulim -uasi -sid -oat -oas -onl -otl -onr -asi -ash -bgsi -bgsc "
        "-cmd\n  -mport -rts -riv -plex\n\n"
        "Refused, because Todana does not support them:\n"
        "  -ulog -bgs -mhost -ord -scr -plsv -pldb -dmn\n"
    ].

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
