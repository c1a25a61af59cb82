%% The command line, `bin/todana'.
%%
%% Every mistake is one line on standard error and exit status 1.
-module(todana_cli).
-moduledoc false.

-export([main/1]).
%% A filter of the logger
-export([is_no_writer/2]).

%% That of a program which SIGPIPE ends.
-define(CLOSED_OUTPUT_STATUS, 141).

-doc """
Executes the command in the arguments. Returns only if it starts a server.
""".
-spec main([string()]) -> ok | no_return().
main(Arguments) ->
    ok = todana_log:to_standard_error(),
    try
        run(asked(Arguments))
    catch
        Class:Reason:Stack ->
            ok = await_end_if_stopping(),
            failed(Class, Reason, Stack)
    end.

%% A node that is stopped while it starts loses what the start needs. `init'
%% ends this process then, and would report a failure in it. No module can be
%% loaded any more, `timer' neither.
-spec await_end_if_stopping() -> ok.
await_end_if_stopping() ->
    case init:get_status() of
        {stopping, _} -> receive after infinity -> ok end;
        _ -> ok
    end.

-spec failed(throw | error | exit, term(), erlang:stacktrace()) -> no_return().
failed(throw, Sentence, _Stack) -> fail(Sentence);
%% Nobody reads the output any more, as with `dump DIR | head'.
failed(error, terminated, _Stack) -> halt(?CLOSED_OUTPUT_STATUS);
failed(Class, Reason, Stack) -> erlang:raise(Class, Reason, Stack).

%% `COMMAND --help` is `help COMMAND`; ktserver's command line is its own.
-spec asked([string()]) -> [string()].
asked(["ktserver" | _] = Arguments) ->
    Arguments;
asked([Command | Rest] = Arguments) ->
    Words = lists:takewhile(fun(Word) -> Word =/= "--" end, Rest),
    case lists:member("--help", Words) orelse lists:member("-h", Words) of
        true -> ["help", Command];
        false -> Arguments
    end;
asked([]) ->
    [].

-spec run([string()]) -> ok | no_return().
run([]) -> finish(todana_help:all());
run(["help" | Topic]) -> help(Topic);
run(["--help" | _]) -> finish(todana_help:all());
run(["-h" | _]) -> finish(todana_help:all());
run(["version" | _]) -> finish(version());
run(["--version" | _]) -> finish(version());
run(["start" | Rest]) -> with_flags(Rest, fun start/1);
run(["ktserver" | Rest]) -> ktserver(todana_ktserver:parse(Rest));
run(["status" | Rest]) -> status(Rest);
run(["ping" | Rest]) -> todana_admin_cli:ping(control("ping", Rest));
run(["stop" | Rest]) -> todana_admin_cli:stop(control("stop", Rest));
run(["reload" | Rest]) -> todana_admin_cli:reload(control("reload", Rest));
run(["top" | Rest]) -> top(Rest);
run(["clock", "set" | Rest]) ->
    Path = control("clock set", Rest -- ["--yes"]),
    todana_admin_cli:set_clock(Path, lists:member("--yes", Rest));
run(["clock" | Rest]) ->
    ok = clock_words(Rest),
    todana_admin_cli:clock(control("clock", Rest));
run(["check" | Rest]) -> check_files(directory("check", Rest));
run(["dump" | Rest]) -> dump(directory("dump", Rest));
run(["backup", [First | _] = File | Rest]) when First =/= $- ->
    ok = native(),
    todana_backup_cli:backup(control("backup", Rest), File);
run(["backup" | _]) ->
    throw("backup: say `backup FILE`, and behind the file what finds the node, "
          "such as `--data-dir DIRECTORY`");
run(["restore", [First | _] = File | Rest]) when First =/= $- ->
    ok = native(),
    todana_backup_cli:restore(File, directory("restore", Rest));
run(["restore" | _]) ->
    throw("restore: say `restore FILE DIRECTORY`");
run(["load", [First | _] = File | Rest]) when First =/= $- ->
    todana_backup_cli:load(control("load", Rest), File);
run(["load" | _]) ->
    throw("load: say `load FILE`, and behind the file what finds the node, "
          "such as `--data-dir DIRECTORY`");
run(["repair" | Rest]) -> repair(directory("repair", Rest));
run(["cluster", "join", [First | _] = Peer | Rest]) when First =/= $- ->
    run(["start", "--cluster-join", Peer | Rest]);
run(["cluster" | Rest]) -> todana_cluster_cli:run(Rest, fun member/1);
run(["config", "show" | Rest]) -> with_flags(Rest, fun show/1);
run(["config", "check" | Rest]) -> with_flags(Rest, fun check/1);
run(["config", "reference"]) -> finish(todana_options_page:page());
run(["config" | _]) ->
    throw("config: say `config show`, `config check` or `config reference`");
run([Other | _]) -> throw(["there is no command `", Other, "`; see `help`"]).

%% A word alone is that of a directory.
-spec clock_words([string()]) -> ok.
clock_words([[First | _] = Word | _]) when First =/= $- ->
    filelib:is_dir(Word) orelse
        throw(["clock: `", Word, "` is neither `set` nor a data directory: "
               "say `clock` or `clock set`"]),
    ok;
clock_words(_Rest) ->
    ok.

-spec help([string()]) -> no_return().
help(Topic) ->
    case todana_help:topic(Topic) of
        {ok, Text} -> finish(Text);
        error -> throw(["help: there is no command `", hd(Topic), "`"])
    end.

-spec with_flags([string()], fun((map()) -> Result)) -> Result.
with_flags(Arguments, Do) ->
    Do(flags(Arguments, #{})).

-spec flags([string()], map()) -> map().
flags([], Flags) ->
    Flags;
flags(["--" | Names], Flags) ->
    databases(Names, Flags);
flags(["--" ++ Flag | Rest], Flags) ->
    {Name, Value, Left} =
        case {string:split(Flag, "="), Rest} of
            {[N, V], _} -> {N, V, Rest};
            {[N], _} when
                N =:= "cluster-create"; N =:= "cluster-accept-older"
            ->
                {N, "yes", Rest};
            {[N], [V | Rest1]} -> {N, V, Rest1};
            {[N], []} ->
                _ = key(N),
                throw(["--", N, ": a value is missing"])
        end,
    Key = key(Name),
    is_map_key(Key, Flags) andalso throw(["--", Name, " is given twice"]),
    flags(Left, Flags#{Key => Value});
flags(["-" ++ [_ | _] = Other | _], _Flags) ->
    throw(["`", Other, "` is neither a command nor a flag; see `help`"]);
flags(Names, Flags) ->
    Late = [Name || "--" ++ _ = Name <- Names],
    Late =:= [] orelse
        throw([hd(Late), ": flags come before the names of databases"]),
    databases(Names, Flags).

%% The names of databases after the flags.
-spec databases([string()], map()) -> map().
databases([], Flags) ->
    Flags;
databases(_Names, #{databases := _}) ->
    throw("databases are named twice, by --databases and after the flags");
databases(Names, Flags) ->
    Broken = [Name || Name <- Names, string:lexemes(Name, " \t") =/= [Name]],
    Broken =:= [] orelse
        throw(["database `", hd(Broken), "`: a name has no blanks"]),
    Flags#{databases => lists:flatten(lists:join(" ", Names))}.

-spec key(string()) -> atom().
key("config") ->
    config;
key(Flag) ->
    Text = lists:flatten(string:replace(Flag, "-", "_", all)),
    case todana_options:find(Text) of
        {ok, #{name := Name}} ->
            Name;
        error ->
            Hint =
                case todana_options:nearest(Text) of
                    {ok, Near} ->
                        Meant = todana_options:flag(list_to_atom(Near)),
                        ["; did you mean ", Meant, "?"];
                    error ->
                        ""
                end,
            throw(["there is no flag --", Flag, Hint])
    end.

-spec load(map()) -> {todana_config:loaded(), string()}.
load(Flags) ->
    case todana_config:load(Flags) of
        {ok, Loaded, File} -> {Loaded, File};
        {error, Sentence} -> throw(Sentence)
    end.

-spec start(map()) -> ok.
start(Flags) ->
    {Loaded, _File} = Source = load(Flags),
    case todana_log:configure(#{Name => V || Name := {V, _} <- Loaded}) of
        ok -> ok;
        {error, Sentence} -> throw(Sentence)
    end,
    ok = serve(Source),
    ok = todana_log:started(Loaded),
    ok = todana_reload:start(Flags, #{}, Loaded),
    todana_foreground:when_serving(fun ready/0).

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
    ok = native(),
    ok = todana_signals:handle(),
    ok = todana_systemd:start(),
    ok = todana_foreground:start(),
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

%% The command line of Kyoto Tycoon's server.
-spec ktserver(todana_ktserver:parsed()) -> ok.
ktserver(help) ->
    finish(todana_ktserver:help());
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
    AllFlags = databases(Databases, Flags),
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
    todana_foreground:when_serving(fun ready/0).

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

%% Calls the native library for the first time, which loads it.
-spec native() -> ok.
native() ->
    try
        _ = todana_nif:forward_interrupt(),
        ok
    catch
        error:Reason when Reason =:= undef; Reason =:= not_loaded ->
            throw("the native library is missing or does not fit: "
                  "run `make build`")
    end.

%% Reports to the supervisor or the user that the server executes requests.
-spec ready() -> ok.
ready() ->
    Addresses = todana_listener:addresses() ++ todana_http:addresses(),
    Addresses =/= [] orelse
        logger:warning("no address to listen on: every listener is off"),
    io:put_chars([ready(Addresses), cluster(), durability(), $\n]),
    todana_systemd:ready().

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

%% A member that has just joined gets its vote a moment later; until then the
%% others cannot count on it.
-spec cluster() -> iodata().
cluster() ->
    case whereis(todana_membership) of
        undefined ->
            "";
        _ ->
            [" cluster=", todana_admission:cluster(), " votes=",
             case todana_members:votes() of
                 true -> "yes";
                 false -> "no"
             end]
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
    case todana_app:sentence(Reason) of
        {ok, Sentence} -> {known, Sentence};
        error -> {unknown, io_lib:format("did not start: ~0tp", [Reason])}
    end.

%% The directory is named alone, or found as `start' finds it.
-spec directory(string(), [string()]) -> string() | no_return().
directory(_Command, [[First | _] = DataDir]) when First =/= $- ->
    DataDir;
directory(Command, Arguments) ->
    Flags = with_flags(Arguments, fun(Flags) -> Flags end),
    is_map_key(databases, Flags) andalso one_directory(Command),
    case load(Flags) of
        {#{data_dir := {off, _}}, _File} -> one_directory(Command);
        {#{data_dir := {DataDir, _}}, _File} -> DataDir
    end.

-spec one_directory(string()) -> no_return().
one_directory(Command) ->
    throw([Command, ": name one data directory, and nothing else, or say it as "
           "`--data-dir DIRECTORY`; a node without one keeps everything in "
           "memory"]).

%% The control socket of the running node, which is found by its directory, or
%% by the options that it was started with. Without any option it is the only
%% node of this host.
-spec control(string(), [string()]) -> file:filename() | no_return().
control(_Command, [[First | _] = DataDir]) when First =/= $- ->
    todana_control_path:of_directory(DataDir);
control(Command, Arguments) ->
    {Loaded, _File} = with_flags(Arguments, fun load/1),
    Options = #{Name => Value || Name := {Value, _Origin} <- Loaded},
    Path = todana_control_path:of_options(Options),
    Origins = [Origin || _ := {_, Origin} <- Loaded],
    case lists:all(fun(Origin) -> Origin =:= default end, Origins) of
        true -> only_node(Command, Path);
        false when Path =:= none -> names_no_node(Command);
        false -> Path
    end.

-spec names_no_node(string()) -> no_return().
names_no_node(Command) ->
    throw([Command, ": these options name no node: say its --data-dir, its "
           "first listener or its --control-socket"]).

%% The node with these default options, or else the only one.
-spec only_node(string(), file:filename() | none) -> file:filename().
only_node(Command, Default) ->
    Found = todana_control_path:found(),
    case {lists:member(Default, Found), Found} of
        {false, [Path]} ->
            Path;
        {false, [_, _ | _]} ->
            throw([Command, ": several nodes are running here: say the "
                   "--data-dir or the --control-socket of one: ",
                   lists:join(", ", Found)]);
        {_, _} when Default =:= none ->
            names_no_node(Command);
        {_, _} ->
            Default
    end.

%% The same of a member of a cluster, which has a data directory.
-spec member([string()]) -> file:filename() | none | no_return().
member(Arguments) ->
    case with_flags(Arguments, fun load/1) of
        {#{data_dir := {off, _}, control_socket := {auto, _}}, _File} when
            Arguments =/= []
        ->
            none;
        _ ->
            control("cluster", Arguments)
    end.

-spec top([string()]) -> no_return().
top(Arguments) ->
    Own = ["--once", "--json"],
    Path = control("top", Arguments -- Own),
    [Once, Json] = [lists:member(Flag, Arguments) || Flag <- Own],
    todana_admin_cli:top(Path, #{once => Once, json => Json}).

%% A node with a data directory has a socket for its state alone, which answers
%% in any release.
-spec status([string()]) -> no_return().
status(Arguments) ->
    IsJson = lists:member("--json", Arguments),
    case status_of(lists:delete("--json", Arguments)) of
        {directory, DataDir} ->
            case todana_status:ask(DataDir) of
                {ok, Info} when IsJson -> finish([json:encode(Info), $\n]);
                {ok, Info} -> finish(todana_status_text:text(Info));
                {error, Sentence} -> throw(["status: ", Sentence])
            end;
        {control, Path} ->
            Figures = todana_admin_cli:status(Path),
            finish(case IsJson of
                true -> [json:encode(Figures), $\n];
                false -> todana_status_text:of_memory(Figures)
            end)
    end.

-spec status_of([string()]) ->
    {directory | control, file:filename()} | no_return().
status_of([[First | _] = DataDir]) when First =/= $- ->
    {directory, DataDir};
status_of(Arguments) ->
    case with_flags(Arguments, fun load/1) of
        {#{data_dir := {[_ | _] = DataDir, _}}, _} ->
            {directory, DataDir};
        _ ->
            Path = control("status", Arguments),
            case todana_control_path:directory_of(Path) of
                {ok, DataDir} -> {directory, DataDir};
                none -> {control, Path}
            end
    end.

%% Exit status 1 if a file is damaged.
-spec check_files(string()) -> no_return().
check_files(DataDir) ->
    ok = native(),
    case todana_offline_check:check(DataDir) of
        {ok, Findings} ->
            io:put_chars([
                [string:pad(atom_to_list(Word), 8), File, ": ", Text, $\n]
             || {Word, File, Text} <- Findings
            ]),
            case [File || {damaged, File, _} <- Findings] of
                [] -> halt(0);
                Damaged -> throw(io_lib:format(
                    "check: ~b of ~b files are damaged",
                    [length(Damaged), length(Findings)]
                ))
            end;
        {error, Sentence} ->
            throw(["check: ", Sentence])
    end.

-spec dump(string()) -> no_return().
dump(DataDir) ->
    ok = native(),
    _ = application:load(todana),
    ok = logger:set_primary_config(level, warning),
    ok = logger:add_primary_filter(?MODULE, {fun ?MODULE:is_no_writer/2, []}),
    ok = todana_log_held:hold(),
    case todana_offline_dump:dump(DataDir, fun io:put_chars/1) of
        ok ->
            ok = todana_log_held:log(),
            ok = application:stop(todana),
            ok = todana_log:flush(),
            halt(0);
        {error, Sentence} when is_binary(Sentence) -> throw(Sentence);
        {error, [First | _] = Sentence} when is_integer(First) ->
            throw(["dump: ", Sentence]);
        {error, Reason} ->
            not_started(Reason)
    end.

-doc "Stops OTP's message that nobody reads the output any more.".
-spec is_no_writer(logger:log_event(), []) -> logger:filter_return().
is_no_writer(#{msg := {"Writer crashed" ++ _, [epipe]}}, []) -> stop;
is_no_writer(_Event, []) -> ignore.

%% Cuts the log at its first damaged record.
-spec repair(string()) -> no_return().
repair(DataDir) ->
    ok = native(),
    case todana_offline:repair(DataDir) of
        {ok, Text} -> finish(Text);
        {error, Sentence} -> throw(["repair: ", Sentence])
    end.

-spec show(map()) -> no_return().
show(Flags) ->
    {Loaded, File} = load(Flags),
    Width = lists:max([length(atom_to_list(N)) || N <- todana_options:names()]),
    Lines = [
        begin
            #{Name := {Value, Origin}} = Loaded,
            %% string:pad/2, because a field width would truncate longer text.
            Text = string:pad(todana_option_type:format(Type, Value), 24),
            io_lib:format("~-*ts = ~ts # ~ts~n",
                          [Width, Name, Text, where(Origin, Name, File)])
        end
     || #{name := Name, type := Type} <- todana_options:all()
    ],
    ok = remarks(Loaded),
    finish(Lines).

-spec where(todana_config:origin(), atom(), string()) -> string().
where(default, _Name, _File) -> "default";
where(file, _Name, File) -> "file " ++ File;
where(env, Name, _File) -> "env " ++ todana_options:variable(Name);
where(flag, Name, _File) -> "flag " ++ todana_options:flag(Name).

-spec check(map()) -> no_return().
check(Flags) ->
    {Loaded, _File} = load(Flags),
    Options = #{Name => Value || Name := {Value, _Origin} <- Loaded},
    Checked =
        maybe
            ok ?= todana_cluster_start:check(Options),
            check_cookie(Options)
        end,
    case Checked of
        ok -> ok;
        {error, Sentence} -> throw(Sentence)
    end,
    ok = remarks(Loaded),
    finish("the configuration is good\n").

%% A node with a name reads the file. The directory of a member knows it.
-spec check_cookie(todana_config:options()) -> ok | {error, iodata()}.
check_cookie(#{data_dir := off}) ->
    ok;
check_cookie(#{data_dir := DataDir, node := Name, cookie_file := File}) ->
    Known = case todana_data_dir:identity(DataDir) of
        {ok, #{} = Terms} -> Terms;
        none -> #{}
    end,
    case {Name =:= off andalso not is_map_key(cluster, Known), File, Known} of
        {true, _, _} -> ok;
        {false, auto, #{cookie_file := Noted}} ->
            todana_distribution:check_cookie(Noted);
        {false, _, _} ->
            todana_distribution:check_cookie(File)
    end.

%% Prints the remarks that `start' would log, to standard error as well.
-spec remarks(todana_config:loaded()) -> ok.
remarks(#{databases := {Databases, _Origin}}) ->
    Remarks = todana_kyoto_database:remarks(Databases),
    io:put_chars(standard_error, [["todana: ", R, $\n] || R <- Remarks]).

-spec version() -> iodata().
version() ->
    _ = application:load(todana),
    {ok, Version} = application:get_key(todana, vsn),
    ["todana ", Version, " (Erlang/OTP ", erlang:system_info(otp_release),
     ")\n"].

-spec finish(iodata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).

-spec fail(iodata()) -> no_return().
fail(Sentence) ->
    ok = todana_log:flush(),
    io:put_chars(standard_error, ["todana: ", Sentence, $\n]),
    halt(1).
