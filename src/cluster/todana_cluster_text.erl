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
    LastMs = lists:max([0 | [log_time_ms(M) || M <- Members]]),
    [
        io_lib:format("cluster ~ts, ~ts~n", [Cluster, leader(Leader)]),
        row("NODE", [
            "CLIENTS", "ROLE", "STATE", "ENTRY", "BEHIND", "COMMIT", "DISK"
        ]),
        [
            row(name(M), [place(M) | columns(M, Last, LastMs)])
         || M <- Members
        ],
        [["- ", Sentence, $\n] || Sentence <- advice(Leader, Members, Last)]
    ].

-spec leader(binary()) -> iodata().
leader(~"none") -> "without a leader";
leader(Node) -> ["led by ", Node].

-spec row(unicode:chardata(), [iodata()]) -> iodata().
row(Node, Columns) ->
    io_lib:format(
        "  ~-24ts ~-21ts ~-9ts ~-11ts ~10ts ~12ts ~12ts ~9ts~n",
        [Node | Columns]
    ).

%% With its zone, if it has one.
-spec name(map()) -> iodata().
name(#{~"node" := Node, ~"zone" := Zone}) when Zone =/= ~"" ->
    [Node, " (", Zone, ")"];
name(#{~"node" := Node}) ->
    Node.

%% Where Redis' clients reach it.
-spec place(map()) -> iodata().
place(#{~"host" := Host, ~"resp" := Port}) when Port > 0 ->
    io_lib:format("~ts:~b", [Host, Port]);
place(#{}) ->
    "".

-spec columns(map(), non_neg_integer(), integer()) -> [iodata()].
columns(#{~"role" := Role, ~"state" := ~"down"}, _Last, _LastMs) ->
    [Role, "down", "", "", "", ""];
columns(#{~"role" := Role} = Member, Last, LastMs) ->
    Entry = entry(Member),
    [
        Role,
        state(Member),
        integer_to_list(Entry),
        behind(Last - Entry, LastMs, log_time_ms(Member)),
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

-spec behind(non_neg_integer(), integer(), integer()) -> iodata().
behind(0, _LastMs, _Ms) ->
    "0";
%% It has applied nothing yet.
behind(Entries, _LastMs, 0) ->
    integer_to_list(Entries);
behind(Entries, LastMs, Ms) ->
    io_lib:format("~b, ~.1f s", [Entries, (LastMs - Ms) / 1000]).

-spec entry(map()) -> non_neg_integer().
entry(Member) -> maps:get(~"applied_index", Member, 0).

%% The time of the last entry that it has applied.
-spec log_time_ms(map()) -> integer().
log_time_ms(Member) -> maps:get(~"log_time_ms", Member, 0).

%% ---------------------------------------------------------------- advice ---

-spec advice(binary(), [map()], non_neg_integer()) -> [iodata()].
advice(Leader, Members, Last) ->
    Voters = [M || #{~"role" := R} = M <- Members, is_voter(R)],
    Down = [M || #{~"state" := ~"down"} = M <- Voters],
    quorum(Leader, Members) ++
        lists:append([about(M, Last) || M <- Members]) ++
        spare(Leader, length(Voters), length(Down)).

-spec is_voter(binary()) -> boolean().
is_voter(Role) -> Role =:= ~"leader" orelse Role =:= ~"voter".

-spec quorum(binary(), [map()]) -> [iodata()].
quorum(~"none", Members) ->
    Down = [M || #{~"state" := ~"down"} = M <- Members],
    case 2 * length(Down) < length(Members) of
        true ->
            ["nobody leads now: the members elect a leader, which takes some "
             "seconds. Look again"];
        false ->
            ["nobody leads: this node reaches no majority of the cluster, and "
             "accepts no writes. Start the other nodes or mend the network. "
             "Only if a majority is lost for good: `bin/todana cluster force "
             "--i-accept-data-loss`"]
    end;
quorum(_Leader, _Members) ->
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
    end ++
    [
        io_lib:format(
            "~b voters survive no more failures than ~b: let one more node "
            "join", [Voters, Voters - 1]
        )
     || Voters rem 2 =:= 0
    ].

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
