%% `bin/todana start' and `bin/todana ktserver': they start a server, which runs
%% until it is stopped.
-module(todana_cli_start).
-moduledoc false.

-export([start/1, ktserver/1, not_started/1]).

-doc "`bin/todana start`.".
-spec start(map()) -> ok.
start(Flags) ->
    {Loaded, _File} = Source = todana_cli_flags:load(Flags),
    case todana_log:configure(#{Name => V || Name := {V, _} <- Loaded}) of
        ok -> ok;
        {error, Sentence} -> throw(Sentence)
    end,
    ok = serve(Source),
    ok = todana_log:started(Loaded),
    ok = todana_reload:start(Flags, #{}, Loaded),
    todana_serving:when_serving(fun ready/0).

-doc "The command line of Kyoto Tycoon's server.".
-spec ktserver(todana_ktserver:parsed()) -> ok.
ktserver(help) ->
    todana_cli_process:finish(todana_ktserver:help());
ktserver({error, Sentence}) ->
    throw(Sentence);
ktserver({ok, Command}) ->
    #{
        flags := Flags,
        defaults := Defaults,
        databases := Databases,
        log := Log,
        pid_file := PidFile,
        remarks := Remarks
    } = Command,
    AllFlags = todana_cli_flags:databases(Databases, Flags),
    {Loaded, _File} = Source =
        case todana_config:load(AllFlags, Defaults) of
            {ok, Options, File} -> {Options, File};
            {error, Sentence} -> throw(Sentence)
        end,
    ok = log(Log),
    ok = serve(Source),
    ok = todana_log:started(Loaded),
    lists:foreach(
        fun(Remark) -> logger:warning("ktserver: ~ts", [Remark]) end,
        Remarks ++ todana_ktserver:remarks(Command, Loaded)
    ),
    ok = todana_reload:start(AllFlags, Defaults, Loaded),
    ok = pid_file(PidFile),
    todana_serving:when_serving(fun ready/0).

%% Starts the server, which runs until it is stopped.
-spec serve({todana_config:loaded(), string()}) -> ok.
serve({Loaded, File}) ->
    _ = application:load(todana),
    lists:foreach(
        fun(#{name := Name, type := Type}) ->
            #{Name := {Value, _Origin}} = Loaded,
            Text = todana_option_type:format(Type, Value),
            application:set_env(todana, Name, Text)
        end,
        [Option || Option <- todana_options:all(), has_effect(Option, Loaded)]
    ),
    application:set_env(todana, config_file, File),
    ok = todana_cli_process:native(),
    ok = todana_signals:handle(),
    ok = todana_systemd:start(),
    ok = todana_serving:start(),
    start_application().

%% One line says why the application does not start. The reports of OTP are
%% logged too if that line is not a sentence of Todana's.
-spec start_application() -> ok.
start_application() ->
    ok = todana_log_held:hold(),
    %% If a permanent application does not start, the emulator ends, on a busy
    %% machine before the sentence is printed.
    case application:ensure_all_started(todana, temporary) of
        {ok, _} ->
            todana_log_held:log();
        {error, Reason} ->
            not_started(Reason)
    end.

-doc "Ends the emulator with the reason why the application does not start.".
-spec not_started(term()) -> no_return().
not_started(Reason) ->
    case why(Reason) of
        {known, Sentence} ->
            ok = todana_log_held:drop(),
            throw(Sentence);
        {unknown, Text} ->
            ok = todana_log_held:log(),
            throw(Text)
    end.

%% Without a data directory the application refuses to be given `durability'.
-spec has_effect(todana_options:option(), todana_config:loaded()) -> boolean().
has_effect(#{name := durability}, #{data_dir := {off, _}}) -> false;
has_effect(_Option, _Loaded) -> true.

-spec log(todana_ktserver:log()) -> ok.
log({none, Level}) ->
    logger:set_primary_config(level, Level);
log({File, Level}) ->
    Settings = #{
        log_level => Level, log_file => File, log_file_bytes => off,
        log_file_count => 0, log_format => text
    },
    case todana_log:configure(Settings) of
        ok -> ok;
        {error, Sentence} -> throw(["-log: ", Sentence])
    end.

-spec pid_file(none | string()) -> ok.
pid_file(none) ->
    ok;
pid_file(File) ->
    case todana_pid_file:write(File) of
        ok ->
            ok;
        {error, Reason} ->
            throw(["-pid: ", File, ": ", file:format_error(Reason)])
    end.

%% Reports to the supervisor or the user that the server executes requests.
-spec ready() -> ok.
ready() ->
    Addresses = todana_listener:addresses() ++ todana_http:addresses(),
    Addresses =/= [] orelse
        logger:warning("no address to listen on: every listener is off"),
    io:put_chars([ready(Addresses), cluster(), durability(), $\n]),
    todana_systemd:ready().

%% A member that has just joined gets its vote a moment later; until then the
%% others cannot count on it.
-spec cluster() -> iodata().
cluster() ->
    case whereis(todana_membership) of
        undefined ->
            "";
        _ ->
            [" cluster=", todana_admission:cluster(), " votes=",
             case todana_members:votes(todana_raft_groups:first()) of
                 true -> "yes";
                 false -> "no"
             end]
    end.

%% What becomes of the records when the process ends.
-spec durability() -> iodata().
durability() ->
    case application:get_env(todana, data_dir, "off") of
        "off" ->
            " in memory";
        Directory ->
            {ok, Class} = application:get_env(todana, durability),
            [" durability=", Class, " data=", filename:absname(Directory)]
    end.

-spec ready([{atom(), string()}]) -> iodata().
ready(Addresses) ->
    Listeners = [
        [" ", atom_to_list(Protocol), "=",
         lists:join(",", proplists:get_all_values(Protocol, Addresses))]
     || Protocol <- [resp, resp_cluster, memcached, kyoto, http],
        proplists:is_defined(Protocol, Addresses)
    ],
    ["todana ready", Listeners].

%% Why the application did not start.
-spec why(term()) -> {known | unknown, iodata()}.
why(Reason) ->
    case todana_start_reason:sentence(Reason) of
        {ok, Sentence} -> {known, Sentence};
        error -> {unknown, io_lib:format("did not start: ~0tp", [Reason])}
    end.
