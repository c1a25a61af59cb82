%% `bin/todana cluster': asks the running node, and prints its answers.
-module(todana_cluster_cli).
-moduledoc false.

-export([run/1, help/0]).

-define(TIMEOUT_MS, 120_000).
-define(WATCH_MS, 1_000).
-define(CLEAR, "\e[H\e[2J").

-doc "Runs the command in these arguments, and ends the emulator.".
-spec run([string()]) -> no_return().
run([]) ->
    finish(help());
run([Word | _]) when Word =:= "help"; Word =:= "--help"; Word =:= "-h" ->
    finish(help());
run(["certificates", Directory]) ->
    case todana_certificates:create(Directory) of
        ok ->
            finish(["copy ", Directory, " to every host of the cluster, and "
                    "start each node with --cluster-tls DIRECTORY\n"]);
        {error, Sentence} ->
            throw(["cluster certificates: ", Sentence])
    end;
run([Command | Rest]) ->
    {DataDir, Words} = data_dir(Rest, []),
    {Flags, Names} = lists:partition(
        fun(Word) -> lists:prefix("--", Word) end, Words
    ),
    run(Command, DataDir, Flags, Names).

-spec run(string(), file:filename() | none, [string()], [string()]) ->
    no_return().
run("status", DataDir, [], []) ->
    finish(todana_cluster_text:screen(ask(DataDir, #{command => status})));
run("status", DataDir, ["--json"], []) ->
    finish([json:encode(ask(DataDir, #{command => status})), $\n]);
run("status", DataDir, ["--watch"], []) ->
    watch(DataDir);
run("verify", DataDir, [], []) ->
    #{~"members" := Members, ~"index" := Index, ~"digest" := Digest} =
        ask(DataDir, #{command => verify}),
    finish(io_lib:format(
        "~b members have the same records at entry ~b: digest ~s~n",
        [Members, Index, Digest]
    ));
run(Command, DataDir, [], [Node]) when
    Command =:= "leave"; Command =:= "transfer"
->
    change(DataDir, #{
        command => list_to_binary(Command), argument => text(Node)
    });
run("replace", DataDir, [], [Dead, New]) ->
    change(DataDir, #{
        command => replace, argument => text(Dead), new => text(New)
    });
run("force", DataDir, ["--i-accept-data-loss"], []) ->
    change(DataDir, #{command => force});
run("force", _DataDir, _, _) ->
    throw("cluster force: writes that this node does not have are lost for "
          "good: say --i-accept-data-loss");
run(Command, _DataDir, _Flags, _Names) ->
    case lists:keyfind(Command, 1, usage()) of
        {_, Usage, _} -> throw(["cluster: say `cluster ", Usage, "`"]);
        false -> throw(["cluster: there is no command `", Command,
                        "`; see `todana cluster help`"])
    end.

-spec change(file:filename() | none, map()) -> no_return().
change(DataDir, Request) ->
    true = ask(DataDir, Request),
    finish("done\n").

-spec watch(file:filename() | none) -> no_return().
watch(DataDir) ->
    Screen = todana_cluster_text:screen(ask(DataDir, #{command => status})),
    io:put_chars([?CLEAR, Screen]),
    timer:sleep(?WATCH_MS),
    watch(DataDir).

-spec text(string()) -> binary().
text(Word) -> unicode:characters_to_binary(Word).

-spec data_dir([string()], [string()]) ->
    {file:filename() | none, [string()]}.
data_dir(["--data-dir", DataDir | Rest], Before) ->
    {DataDir, lists:reverse(Before, Rest)};
data_dir(["--data-dir=" ++ DataDir | Rest], Before) ->
    {DataDir, lists:reverse(Before, Rest)};
data_dir([Word | Rest], Before) ->
    data_dir(Rest, [Word | Before]);
data_dir([], Before) ->
    Words = lists:reverse(Before),
    case os:getenv("TODANA_DATA_DIR") of
        false -> {none, Words};
        DataDir -> {DataDir, Words}
    end.

-spec ask(file:filename() | none, map()) -> term().
ask(none, _Request) ->
    throw("cluster: name the data directory of a running member, with "
          "--data-dir");
ask(DataDir, Request) ->
    Path = todana_control_path:of_directory(DataDir),
    case todana_control:ask(Path, Request, ?TIMEOUT_MS) of
        {ok, Answer} -> Answer;
        {error, no_node} ->
            throw(["cluster: no node is running with the data directory ",
                   DataDir]);
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
        "DIRECTORY is that of a member that runs on this host; `join` has the\n"
        "options of `todana start`.\n\n",
        [
            io_lib:format("  ~-29s ~s~n", [Usage, Text])
         || {_, Usage, Text} <- usage()
        ],
        "\nA node joins when it is started with an empty data directory:\n\n"
        "  todana start --data-dir d1 --node a@127.0.0.1 --cluster-create\n"
        "  todana start --data-dir d2 --node b@127.0.0.1 "
        "--cluster-join a@127.0.0.1\n"
    ].
