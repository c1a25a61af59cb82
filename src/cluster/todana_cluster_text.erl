%% The state of a cluster as one screen for a person, and what to do about it.
-module(todana_cluster_text).
-moduledoc false.

-export([screen/1]).

%% A member that lacks more entries is behind.
-define(BEHIND_MIN, 100).

-doc "The screen for an answer of `todana_cluster:status/0`, as JSON has it.".
-spec screen(map()) -> iodata().
screen(#{~"cluster" := Cluster, ~"members" := Members} = Status) ->
    Leader = maps:get(~"leader", Status, ~"none"),
    Entries = [entry(M) || M <- Members],
    Last = lists:max([0 | Entries]),
    [
        io_lib:format("cluster ~ts, ~ts~n", [Cluster, leader(Leader)]),
        row("NODE", ["ROLE", "STATE", "ENTRY", "BEHIND", "COMMIT", "DISK"]),
        [row(maps:get(~"node", M), columns(M, Last)) || M <- Members],
        [["- ", Sentence, $\n] || Sentence <- advice(Leader, Members, Last)]
    ].

-spec leader(binary()) -> iodata().
leader(~"none") -> "without a leader";
leader(Node) -> ["led by ", Node].

-spec row(unicode:chardata(), [iodata()]) -> iodata().
row(Node, [Role, State, Entry, Behind, Commit, Disk]) ->
    io_lib:format("  ~-28ts ~-10ts ~-11ts ~10ts ~8ts ~12ts ~9ts~n",
                  [Node, Role, State, Entry, Behind, Commit, Disk]).

-spec columns(map(), non_neg_integer()) -> [iodata()].
columns(#{~"role" := Role, ~"state" := ~"down"}, _Last) ->
    [Role, "down", "", "", "", ""];
columns(#{~"role" := Role} = Member, Last) ->
    Entry = entry(Member),
    [
        Role,
        state(Member),
        integer_to_list(Entry),
        integer_to_list(Last - Entry),
        case Member of
            #{~"commit_us" := #{~"p99" := Us}} ->
                io_lib:format("~.1f ms p99", [Us / 1000]);
            #{} ->
                ""
        end,
        case Member of
            #{~"disk_free_bytes" := Bytes} ->
                io_lib:format("~.1fgb", [Bytes / (1 bsl 30)]);
            #{} ->
                ""
        end
    ].

-spec state(map()) -> iodata().
state(#{~"state" := ~"recovering", ~"progress" := Percent}) ->
    io_lib:format("copies ~b%", [Percent]);
state(#{~"state" := State}) ->
    State;
state(#{}) ->
    "unknown".

-spec entry(map()) -> non_neg_integer().
entry(Member) -> maps:get(~"applied_index", Member, 0).

%% ---------------------------------------------------------------- advice ---

-spec advice(binary(), [map()], non_neg_integer()) -> [iodata()].
advice(Leader, Members, Last) ->
    Voters = [M || #{~"role" := R} = M <- Members, is_voter(R)],
    Down = [M || #{~"state" := ~"down"} = M <- Voters],
    quorum(Leader, length(Voters), length(Down)) ++
        lists:append([about(M, Last) || M <- Members]) ++
        spare(Leader, length(Voters), length(Down)).

-spec is_voter(binary()) -> boolean().
is_voter(Role) -> Role =:= ~"leader" orelse Role =:= ~"voter".

-spec quorum(binary(), non_neg_integer(), non_neg_integer()) -> [iodata()].
quorum(~"none", _Voters, _Down) ->
    ["nobody leads: this node reaches no majority of the cluster, and accepts "
     "no writes. Start the other nodes or mend the network. Only if a majority "
     "is lost for good: `bin/todana cluster force --i-accept-data-loss`"];
quorum(_Leader, _Voters, _Down) ->
    [].

-spec spare(binary(), non_neg_integer(), non_neg_integer()) -> [iodata()].
spare(~"none", _Voters, _Down) ->
    [];
spare(_Leader, 1, _Down) ->
    ["only one node votes: if it fails, the cluster stands still. Let two more "
     "join"];
spare(_Leader, Voters, Down) ->
    case (Voters - 1) div 2 - Down of
        Left when Left > 0 ->
            [io_lib:format("~b of ~b voters may fail", [Left, Voters])];
        _ ->
            ["no further voter may fail"]
    end.

-spec about(map(), non_neg_integer()) -> [iodata()].
about(#{~"node" := Node, ~"state" := ~"down", ~"role" := Role}, _Last) ->
    [[Node, " (", Role, ") is down: start it again, or let another node join "
      "and then run `bin/todana cluster replace ", Node, " NEW`"]];
about(#{~"node" := Node, ~"state" := ~"read_only", ~"reason" := Why}, _) ->
    [[Node, " accepts no writes: ", Why]];
about(#{~"node" := Node, ~"state" := ~"failed", ~"reason" := Why}, _Last) ->
    [[Node, " does not serve: ", Why]];
about(#{~"node" := Node, ~"role" := ~"replica"}, _Last) ->
    [[Node, " has all records and no vote until another node joins, so that "
      "the number of voters is odd"]];
about(#{~"node" := Node, ~"role" := ~"candidate"}, _Last) ->
    [[Node, " gets its vote when it has all records"]];
about(#{~"node" := Node} = Member, Last) ->
    case Last - entry(Member) of
        Behind when Behind > ?BEHIND_MIN ->
            [[Node, " catches up"]];
        _ ->
            []
    end.
