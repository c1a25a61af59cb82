%% The texts of `bin/todana help': all commands, and each one.
-module(todana_help).
-moduledoc false.

-export([all/0, topic/1]).

%% The first words name the command; usage, and lines that explain it.
-type row() :: {[Word :: string()], Usage :: string(), [string()]}.

%% The lines of a row begin here.
-define(INDENT, 16).

-doc "The text of `help` and `--help`.".
-spec all() -> iodata().
all() ->
    [
        "usage: todana COMMAND [FLAGS]\n\n",
        [text(Row) || Row <- rows()],
        "\n",
        flags()
    ].

-doc "The text of `help TOPIC`.".
-spec topic([string()]) -> {ok, iodata()} | error.
topic([]) ->
    {ok, all()};
topic(["ktserver" | _]) ->
    {ok, todana_ktserver:help()};
topic(["cluster" | _]) ->
    {ok, todana_cluster_cli:help()};
topic([Word | _]) ->
    case [Row || {Words, _, _} = Row <- rows(), lists:member(Word, Words)] of
        [] ->
            error;
        Rows ->
            {ok, [
                "usage: todana ", hd([Usage || {_, Usage, _} <- Rows]), "\n\n",
                [text(Row) || Row <- Rows],
                [["\n", flags()] || takes_flags(Word)]
            ]}
    end.

%% These have the options of `start', or find a node by them.
-spec takes_flags(string()) -> boolean().
takes_flags(Word) -> not lists:member(Word, ["version", "help"]).

-spec text(row()) -> iodata().
text({_, Usage, [First | Rest] = Lines}) ->
    case length(Usage) + 3 < ?INDENT of
        true ->
            [string:pad("  " ++ Usage, ?INDENT), First, $\n,
             [indented(Line) || Line <- Rest]];
        false ->
            ["  ", Usage, $\n, [indented(Line) || Line <- Lines]]
    end.

-spec indented(string()) -> iodata().
indented(Line) -> [lists:duplicate(?INDENT, $\s), Line, $\n].

-spec rows() -> [row()].
rows() ->
    [
        {["start"], "start [FLAGS] [--] [DATABASE...]", [
            "serve, in the foreground; Ctrl-C or SIGTERM stops",
            "kinds: - : hash, * cache (#capcnt #capsiz), + % ordered (#rcomp);",
            "on disk, with --data-dir: x.kch hash, x.kct ordered"
        ]},
        {["ktserver"], "ktserver", [
            "the same with the command line of Kyoto Tycoon's server;",
            "see `todana help ktserver`"
        ]},
        {["ping", "stop", "reload"], "ping, stop, reload", [
            "ask the running node whether it serves, stop it, have it read",
            "its configuration again; found by --data-dir, by the options or",
            "the file that it was started with, or, without any option, as",
            "the only node of this host; so do `top`, `status`, `backup`,",
            "`load`, `clock` and `cluster`"
        ]},
        {["top"], "top [--once] [--json]", [
            "what the running node does, each second"
        ]},
        {["clock"], "clock, clock set [--yes]", [
            "the time of the log, by which durable records expire, and the",
            "clocks; set it to them: without --yes, what this would do"
        ]},
        {["status"], "status [--json] [DIRECTORY]", [
            "the state of the running node, which uses this directory;",
            "here and below, --data-dir DIRECTORY means the same"
        ]},
        {["check"], "check DIRECTORY", [
            "verify the files of a data directory that no node uses"
        ]},
        {["dump"], "dump DIRECTORY", [
            "print its records as lines of JSON"
        ]},
        {["load"], "load FILE", [
            "have the running node store the records that `dump` printed"
        ]},
        {["backup"], "backup FILE", [
            "write the durable records of the running node to a new file"
        ]},
        {["restore"], "restore FILE DIRECTORY", [
            "make a new data directory of a backup"
        ]},
        {["repair"], "repair DIRECTORY", [
            "cut the log of a stopped node at its first damaged record"
        ]},
        {["cluster"], "cluster COMMAND", [
            "see and change the members of a cluster;",
            "see `todana help cluster`"
        ]},
        {["config"], "config show", [
            "print every option, its value and its source"
        ]},
        {["config"], "config check", [
            "whether `start` would accept the options"
        ]},
        {["version"], "version", ["print the version"]},
        {["help"], "help [COMMAND]", ["print this text, or that of a command"]}
    ].

-spec flags() -> iodata().
flags() ->
    Rows = [
        {[todana_options:flag(Name), " ", placeholder(Type)], Default}
     || #{name := Name, type := Type, default := Default} <-
            todana_options:all()
    ],
    Width = lists:max([iolist_size(Flag) || {Flag, _} <- Rows]),
    [
        "Options are flags (--listen-resp off), environment variables\n"
        "(TODANA_LISTEN_RESP=off) or keys of the configuration file\n"
        "(listen_resp = off), in this order. Flags and their defaults:\n\n",
        [
            io_lib:format("  ~-*ts  ~ts~n", [Width, Flag, Default])
         || {Flag, Default} <- [{"--config FILE", "none"} | Rows]
        ]
    ].

-spec placeholder(todana_options:type()) -> string().
placeholder(addresses) -> "HOST:PORT";
placeholder({addresses, _}) -> "HOST:PORT";
placeholder(name) -> "NAME";
placeholder(node) -> "NAME@HOST";
placeholder({file, _}) -> "FILE";
placeholder(databases) -> "NAMES";
placeholder(hosts) -> "NAMES";
placeholder(origins) -> "ORIGINS";
placeholder(file) -> "FILE";
placeholder(directory) -> "DIRECTORY";
placeholder({choice, _}) -> "WORD";
placeholder(Type) when element(1, Type) =:= bytes -> "SIZE";
placeholder(_) -> "N".
