%% `bin/todana cluster': asks the running node, and prints its answers.
-module(todana_cluster_cli).
-moduledoc false.

-export([run/2, help/0]).

-type find() :: fun((Options :: [string()]) -> file:filename() | none).
-type find_again() :: fun(() -> file:filename() | none).

-define(TIMEOUT_MS, 120_000).
-define(FORCE_TIMEOUT_MS, 3_900_000).
-define(WATCH_MS, 1_000).
-define(WAIT_TIMEOUT_S, "60").
-define(WAIT_PAUSE_MS, 250).
-define(WAIT_ANSWER_MS, 15_000).
-define(CLEAR, "\e[H\e[2J").

-doc """
Runs the command in these arguments, and ends the emulator. `Find` returns the
control socket of the node with these options.
""".
-spec run([string()], find()) -> no_return().
run([], _Find) ->
    finish(help());
run(["help" | _], _Find) ->
    finish(help());
run(["certificates", Directory], _Find) ->
    case todana_certificates:create(Directory) of
        ok ->
            finish(["copy ", Directory, " to every host of the cluster, and "
                    "start each node with --cluster-tls DIRECTORY\n"]);
        {error, Sentence} ->
            throw(["cluster certificates: ", Sentence])
    end;
run([Command | Rest], Find) ->
    {Flags, Names, Options} = split(Rest, {[], [], []}),
    lists:keymember(Command, 1, usage()) orelse
        throw(["cluster: there is no command `", Command,
               "`; see `todana cluster help`"]),
    {Own, Others} = timeout(Options),
    case {Command, Flags ++ Own, Names} of
        {"status", ["--wait"], []} ->
            wait(fun() -> Find(Others) end, ?WAIT_TIMEOUT_S);
        {"status", ["--wait", "--timeout", Seconds], []} ->
            wait(fun() -> Find(Others) end, Seconds);
        {_, All, _} ->
            run(Command, Find(Others), All, Names)
    end.

%% `--timeout' belongs to this command, and not to those that find the node.
-spec timeout([string()]) -> {[string()], [string()]}.
timeout(["--timeout=" ++ Seconds | Rest]) ->
    {["--timeout", Seconds], Rest};
timeout(["--timeout", Seconds | Rest]) ->
    {["--timeout", Seconds], Rest};
timeout([Other | Rest]) ->
    {Own, Others} = timeout(Rest),
    {Own, [Other | Others]};
timeout([]) ->
    {[], []}.

-spec run(string(), file:filename() | none, [string()], [string()]) ->
    no_return().
run("status", Path, [], []) ->
    finish(todana_cluster_text:screen(ask(Path, #{command => status})));
run("status", Path, ["--json"], []) ->
    finish([json:encode(ask(Path, #{command => status})), $\n]);
run("status", Path, ["--watch"], []) ->
    watch(Path);
run("verify", Path, [], []) ->
    #{~"members" := Members, ~"index" := Index, ~"digest" := Digest} =
        ask(Path, #{command => verify}),
    finish(io_lib:format(
        "~b members have the same records at entry ~b: digest ~s~n",
        [Members, Index, Digest]
    ));
run(Command, Path, [], [Node]) when
    Command =:= "leave"; Command =:= "transfer"
->
    change(Path, #{
        command => list_to_binary(Command), argument => text(Node)
    });
run("replace", Path, [], [Dead, New]) ->
    change(Path, #{
        command => replace, argument => text(Dead), new => text(New)
    });
run("force", Path, ["--i-accept-data-loss"], []) ->
    %% It takes a snapshot.
    true = ask(Path, #{command => force}, ?FORCE_TIMEOUT_MS),
    finish("done\n");
run("force", _Path, _, _) ->
    throw("cluster force: writes that this node does not have are lost for "
          "good: to accept that, give --i-accept-data-loss");
run(Command, _Path, _Flags, _Names) ->
    Usages = [
        ["`cluster ", Usage, "`"] || {C, Usage, _} <- usage(), C =:= Command
    ],
    throw(["cluster: use ", lists:join(" or ", Usages)]).

-spec change(file:filename() | none, map()) -> no_return().
change(Path, Request) ->
    ok = case ask(Path, Request) of
        true -> ok;
        %% It was the node itself that has left.
        #{~"pid" := Pid} -> todana_admin_cli:await_end(Pid)
    end,
    finish("done\n").

-spec watch(file:filename() | none) -> no_return().
watch(Path) ->
    Screen = todana_cluster_text:screen(ask(Path, #{command => status})),
    io:put_chars([?CLEAR, Screen]),
    timer:sleep(?WATCH_MS),
    watch(Path).

-spec wait(find_again(), string()) -> no_return().
wait(Find, Seconds) ->
    case string:to_integer(Seconds) of
        {S, ""} when is_integer(S), S >= 0 ->
            wait(Find, Seconds, now_ms() + 1_000 * S);
        _ ->
            throw(["--timeout: ", Seconds, " is no number of seconds"])
    end.

%% A node that has just been started has no socket yet, so it is looked for each
%% time. An answer takes some seconds if hosts have vanished.
-spec wait(find_again(), string(), integer()) -> no_return().
wait(Find, Seconds, DeadlineMs) ->
    Path = found(Find()),
    LeftMs = max(?WAIT_ANSWER_MS, DeadlineMs - now_ms()),
    Answer = todana_control:ask(Path, #{command => status}, LeftMs),
    MayFail =
        case Answer of
            {ok, Status} -> todana_cluster_text:may_fail(Status);
            {error, _} -> -1
        end,
    case {MayFail > 0, now_ms() < DeadlineMs, Answer} of
        {true, _, {ok, Now}} ->
            finish(todana_cluster_text:screen(Now));
        {false, true, _} ->
            timer:sleep(?WAIT_PAUSE_MS),
            wait(Find, Seconds, DeadlineMs);
        {false, false, {ok, Now}} ->
            io:put_chars(todana_cluster_text:screen(Now)),
            throw(["cluster: after ", Seconds, " s no member may fail yet"]);
        {false, false, {error, no_node}} ->
            throw(["cluster: ", todana_control_path:no_node(Path)]);
        {false, false, {error, Sentence}} ->
            throw(["cluster: ", Sentence])
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).

-spec text(string()) -> binary().
text(Word) -> unicode:characters_to_binary(Word).

%% What this command takes, and what finds the node: an option has a value.
-spec split([string()], {[string()], [string()], [string()]}) ->
    {Flags :: [string()], Names :: [string()], Options :: [string()]}.
split([Flag | Rest], {Flags, Names, Options}) when
    Flag =:= "--json"; Flag =:= "--watch"; Flag =:= "--wait";
    Flag =:= "--i-accept-data-loss"
->
    split(Rest, {[Flag | Flags], Names, Options});
split(["--" ++ _ = Option | Rest], {Flags, Names, Options}) ->
    case {lists:member($=, Option), Rest} of
        {false, [Value | More]} ->
            split(More, {Flags, Names, [Value, Option | Options]});
        _ ->
            split(Rest, {Flags, Names, [Option | Options]})
    end;
split([Name | Rest], {Flags, Names, Options}) ->
    split(Rest, {Flags, [Name | Names], Options});
split([], {Flags, Names, Options}) ->
    {lists:reverse(Flags), lists:reverse(Names), lists:reverse(Options)}.

-spec ask(file:filename() | none, map()) -> term().
ask(Path, Request) -> ask(Path, Request, ?TIMEOUT_MS).

-spec ask(file:filename() | none, map(), timeout()) -> term().
ask(Path, Request, TimeoutMs) ->
    case todana_control:ask(found(Path), Request, TimeoutMs) of
        {ok, Answer} -> Answer;
        {error, no_node} ->
            throw(["cluster: ", todana_control_path:no_node(Path)]);
        {error, Sentence} -> throw(["cluster: ", Sentence])
    end.

-spec found(file:filename() | none) -> file:filename() | no_return().
found(none) ->
    throw("cluster: name the data directory of a running member, with "
          "--data-dir or --config");
found(Path) ->
    Path.

-spec finish(iodata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).

-spec usage() -> [{string(), string(), string()}].
usage() ->
    [
        {"status", "status [--json | --watch]",
            "the members, and what to do if something is wrong"},
        {"status", "status --wait [--timeout S]",
            "wait until one member may fail, about 60 s or S seconds"},
        {"verify", "verify", "compare the records of all members"},
        {"join", "join NODE --data-dir NEW ..",
            "start a node that joins the cluster of NODE"},
        {"leave", "leave NODE", "remove a member, which may be down"},
        {"replace", "replace DEAD NEW",
            "remove DEAD, now that NEW has joined and has all records"},
        {"transfer", "transfer NODE", "have this member lead"},
        {"certificates", "certificates DIRECTORY",
            "make what the nodes of several hosts need to connect"},
        {"force", "force --i-accept-data-loss",
            "make this node the only member, if a majority is lost for good"}
    ].

-doc "The text of `todana cluster help`.".
-spec help() -> iodata().
help() ->
    [
        "usage: todana cluster COMMAND [--data-dir DIRECTORY]\n\n"
        "DIRECTORY is that of a member that runs on this host; --config FILE\n"
        "finds it, too, and the only node of this host needs neither.\n"
        "`join` has the options of `todana start`.\n\n",
        [
            io_lib:format("  ~-29s ~s~n", [Usage, Text])
         || {_, Usage, Text} <- usage()
        ],
        "\nA node joins when it is started with an empty data directory:\n\n"
        "  todana start --data-dir d1 --node a@127.0.0.1 --cluster-create\n"
        "  todana start --data-dir d2 --node b@127.0.0.1 "
        "--cluster-join a@127.0.0.1\n"
    ].
