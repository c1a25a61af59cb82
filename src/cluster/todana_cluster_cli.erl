%% `bin/todana cluster': asks the running node, and prints its answers.
-module(todana_cluster_cli).
-moduledoc false.

-export([run/2, help/0]).

-type find() :: fun((Options :: [string()]) -> file:filename() | none).

-define(TIMEOUT_MS, 120_000).
-define(WATCH_MS, 1_000).
-define(CLEAR, "\e[H\e[2J").

-doc """
Runs the command in these arguments, and ends the emulator. `Find` returns the
control socket of the node with these options.
""".
-spec run([string()], find()) -> no_return().
run([], _Find) ->
    finish(help());
run([Word | _], _Find) when Word =:= "help"; Word =:= "--help"; Word =:= "-h" ->
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
    run(Command, Find(Options), Flags, Names).

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
    change(Path, #{command => force});
run("force", _Path, _, _) ->
    throw("cluster force: writes that this node does not have are lost for "
          "good: say --i-accept-data-loss");
run(Command, _Path, _Flags, _Names) ->
    {_, Usage, _} = lists:keyfind(Command, 1, usage()),
    throw(["cluster: say `cluster ", Usage, "`"]).

-spec change(file:filename() | none, map()) -> no_return().
change(Path, Request) ->
    true = ask(Path, Request),
    finish("done\n").

-spec watch(file:filename() | none) -> no_return().
watch(Path) ->
    Screen = todana_cluster_text:screen(ask(Path, #{command => status})),
    io:put_chars([?CLEAR, Screen]),
    timer:sleep(?WATCH_MS),
    watch(Path).

-spec text(string()) -> binary().
text(Word) -> unicode:characters_to_binary(Word).

%% What this command takes, and what finds the node: an option has a value.
-spec split([string()], {[string()], [string()], [string()]}) ->
    {Flags :: [string()], Names :: [string()], Options :: [string()]}.
split([Flag | Rest], {Flags, Names, Options}) when
    Flag =:= "--json"; Flag =:= "--watch"; Flag =:= "--i-accept-data-loss"
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
ask(none, _Request) ->
    throw("cluster: name the data directory of a running member, with "
          "--data-dir or --config");
ask(Path, Request) ->
    case todana_control:ask(Path, Request, ?TIMEOUT_MS) of
        {ok, Answer} -> Answer;
        {error, no_node} ->
            throw(["cluster: no node is running here: there is no answer from ",
                   Path]);
        {error, Sentence} -> throw(["cluster: ", Sentence])
    end.

-spec finish(iodata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).

-spec usage() -> [{string(), string(), string()}].
usage() ->
    [
        {"status", "status [--json | --watch]",
            "the members, and what to do if something is wrong"},
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
        "usage: todana cluster COMMAND --data-dir DIRECTORY\n\n"
        "DIRECTORY is that of a member that runs on this host; --config FILE\n"
        "finds it, too. `join` has the options of `todana start`.\n\n",
        [
            io_lib:format("  ~-29s ~s~n", [Usage, Text])
         || {_, Usage, Text} <- usage()
        ],
        "\nA node joins when it is started with an empty data directory:\n\n"
        "  todana start --data-dir d1 --node a@127.0.0.1 --cluster-create\n"
        "  todana start --data-dir d2 --node b@127.0.0.1 "
        "--cluster-join a@127.0.0.1\n"
    ].
