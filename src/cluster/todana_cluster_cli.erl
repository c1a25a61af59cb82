%% `bin/todana cluster': asks the running node, and prints its answers.
-module(todana_cluster_cli).
-moduledoc false.

-export([run/1]).

-define(TIMEOUT_MS, 120_000).

-doc "Runs the command in these arguments, and ends the emulator.".
-spec run([string()]) -> no_return().
run(["status" | Rest]) ->
    {DataDir, Flags, []} = parse(Rest, []),
    Answer = ask(DataDir, #{command => status}),
    case lists:member("--json", Flags) of
        true -> finish([json:encode(Answer), $\n]);
        false -> finish(text(Answer))
    end;
run(["verify" | Rest]) ->
    {DataDir, _, []} = parse(Rest, []),
    #{~"members" := Members, ~"index" := Index, ~"digest" := Digest} =
        ask(DataDir, #{command => verify}),
    finish(io_lib:format(
        "~b members have the same records at entry ~b: ~s~n",
        [Members, Index, Digest]
    ));
run([Command | Rest]) when Command =:= "leave"; Command =:= "transfer" ->
    case parse(Rest, []) of
        {DataDir, _, [Node]} ->
            true = ask(DataDir, #{
                command => list_to_binary(Command),
                argument => list_to_binary(Node)
            }),
            finish("done\n");
        _ ->
            throw(["cluster ", Command, ": name one node"])
    end;
run(["force" | Rest]) ->
    case parse(Rest, []) of
        {DataDir, ["--i-accept-data-loss"], []} ->
            true = ask(DataDir, #{command => force}),
            finish("this node is the only member now\n");
        _ ->
            throw("cluster force: writes that this node does not have are "
                  "lost: say --i-accept-data-loss")
    end;
run(_) ->
    throw("cluster: say `status`, `verify`, `leave NODE`, `transfer NODE` or "
          "`force`").

-spec parse([string()], [string()]) ->
    {file:filename(), [string()], [string()]}.
parse(Arguments, _) ->
    {DataDir, Rest} = data_dir(Arguments, []),
    {Flags, Names} = lists:partition(
        fun(Word) -> lists:prefix("--", Word) end, Rest
    ),
    {DataDir, Flags, Names}.

-spec data_dir([string()], [string()]) -> {file:filename(), [string()]}.
data_dir(["--data-dir", DataDir | Rest], Before) ->
    {DataDir, lists:reverse(Before, Rest)};
data_dir(["--data-dir=" ++ DataDir | Rest], Before) ->
    {DataDir, lists:reverse(Before, Rest)};
data_dir([Word | Rest], Before) ->
    data_dir(Rest, [Word | Before]);
data_dir([], _Before) ->
    throw("cluster: name the data directory of a running member, for example "
          "with --data-dir").

-spec ask(file:filename(), map()) -> term().
ask(DataDir, Request) ->
    case todana_control:ask(DataDir, Request, ?TIMEOUT_MS) of
        {ok, Answer} -> Answer;
        {error, Sentence} -> throw(["cluster: ", Sentence])
    end.

-spec text(map()) -> iodata().
text(#{~"cluster" := Cluster, ~"leader" := Leader, ~"members" := Members}) ->
    [
        io_lib:format("cluster ~ts, leader ~ts~n", [Cluster, Leader]),
        [row(Member) || Member <- Members]
    ].

-spec row(map()) -> iodata().
row(#{~"node" := Node, ~"role" := Role} = Member) ->
    io_lib:format("  ~-24ts ~-10ts ~-10ts entry ~w~n", [
        Node, Role, maps:get(~"state", Member, ~"unknown"),
        maps:get(~"applied_index", Member, 0)
    ]).

-spec finish(iodata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).
