%% The command line, `bin/todana'.
%%
%% Every mistake is one line on standard error and exit status 1.
-module(todana_cli).
-moduledoc false.

-export([main/1]).

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
run(["start" | Rest]) ->
    with_flags(Rest, fun todana_cli_start:start/1);
run(["ktserver" | Rest]) ->
    todana_cli_start:ktserver(todana_ktserver:parse(Rest));
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
run(["check" | Rest]) ->
    todana_cli_files:check(directory("check", Rest));
run(["dump" | Rest]) ->
    todana_cli_files:dump(directory("dump", Rest));
run(["backup", [First | _] = File | Rest]) when First =/= $- ->
    ok = native(),
    todana_backup_cli:backup(control("backup", Rest), File);
run(["backup" | _]) ->
    throw("backup: use `backup FILE`, then an option that identifies the node, "
          "such as `--data-dir DIRECTORY`");
run(["restore", [First | _] = File | Rest]) when First =/= $- ->
    ok = native(),
    todana_backup_cli:restore(File, directory("restore", Rest));
run(["restore" | _]) ->
    throw("restore: use `restore FILE DIRECTORY`");
run(["load", [First | _] = File | Rest]) when First =/= $- ->
    todana_backup_cli:load(control("load", Rest), File);
run(["load" | _]) ->
    throw("load: use `load FILE`, then an option that identifies the node, "
          "such as `--data-dir DIRECTORY`");
run(["repair" | Rest]) ->
    todana_cli_files:repair(directory("repair", Rest));
run(["cluster", "join", [First | _] = Peer | Rest]) when First =/= $- ->
    run(["start", "--cluster-join", Peer | Rest]);
run(["cluster" | Rest]) ->
    todana_cluster_cli:run(Rest, fun todana_cli_node:member/1);
run(["config", "show" | Rest]) ->
    with_flags(Rest, fun todana_cli_config:show/1);
run(["config", "check" | Rest]) ->
    with_flags(Rest, fun todana_cli_config:check/1);
run(["config", "reference"]) -> finish(todana_options_page:page());
run(["config" | _]) ->
    throw("config: use `config show`, `config check` or `config reference`");
run([Other | _]) -> throw(["there is no command `", Other, "`; see `help`"]).

%% A word alone is that of a directory.
-spec clock_words([string()]) -> ok.
clock_words([[First | _] = Word | _]) when First =/= $- ->
    filelib:is_dir(Word) orelse
        throw(["clock: `", Word, "` is neither `set` nor a data directory: "
               "use `clock` or `clock set`"]),
    ok;
clock_words(_Rest) ->
    ok.

-spec help([string()]) -> no_return().
help(Topic) ->
    case todana_help:topic(Topic) of
        {ok, Text} -> finish(Text);
        error -> throw(["help: there is no command `", hd(Topic), "`"])
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
    case todana_cli_node:status_of(lists:delete("--json", Arguments)) of
        {directory, DataDir} ->
            case todana_status_client:ask(DataDir) of
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

-spec version() -> iodata().
version() ->
    _ = application:load(todana),
    {ok, Version} = application:get_key(todana, vsn),
    ["todana ", Version, " (Erlang/OTP ", erlang:system_info(otp_release),
     ")\n"].

-spec fail(iodata()) -> no_return().
fail(Sentence) ->
    ok = todana_log:flush(),
    io:put_chars(standard_error, ["todana: ", Sentence, $\n]),
    halt(1).

-spec with_flags([string()], fun((map()) -> Result)) -> Result.
with_flags(Arguments, Do) -> todana_cli_flags:with_flags(Arguments, Do).

-spec control(string(), [string()]) -> file:filename() | no_return().
control(Command, Arguments) -> todana_cli_node:control(Command, Arguments).

-spec directory(string(), [string()]) -> string() | no_return().
directory(Command, Arguments) -> todana_cli_node:directory(Command, Arguments).

-spec native() -> ok.
native() -> todana_cli_process:native().

-spec finish(iodata()) -> no_return().
finish(Text) -> todana_cli_process:finish(Text).
