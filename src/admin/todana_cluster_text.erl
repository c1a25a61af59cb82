%% The state of a cluster as one screen for a person, and what to do about it.
-module(todana_cluster_text).
-moduledoc false.

-export([screen/1, may_fail/1]).

%% A member that lacks more entries is behind.
-define(BEHIND_MIN, 100).
%% A member's clock that differs more is reported.
-define(CLOCK_MS_MAX, 5_000).

%% From here on a time is printed in seconds.
-define(LONG_US, 999_900).

-doc "The screen for an answer of `todana_cluster:status/0`, as JSON has it.".
-spec screen(map()) -> iodata().
screen(#{~"cluster" := Cluster, ~"members" := Members} = Status) ->
    Leader = maps:get(~"leader", Status, ~"none"),
    Entries = [entry(M) || M <- Members],
    Last = lists:max([0 | Entries]),
    LastMs = lists:max([0 | [log_time_ms(M) || M <- Members]]),
    Rows = [
        [Name || {Name, _, _} <- columns()]
        | [[name(M), place(M) | columns(M, Last, LastMs)] || M <- Members]
    ],
    Widths = lists:foldl(fun widths/2, [W || {_, W, _} <- columns()], Rows),
    [
        io_lib:format("cluster ~ts, ~ts~n", [Cluster, leader(Leader)]),
        [row(Row, Widths) || Row <- Rows],
        guests(maps:get(~"guests", Status, [])),
        [
            ["- ", Sentence, $\n]
         || Sentence <- claims(Status) ++ advice(Leader, Members, Last)
        ]
    ].

%% Nodes without a replica.
-spec guests([map()]) -> iodata().
guests([]) ->
    "";
guests(Guests) ->
    [
        "guests: ",
        lists:join(", ", [
            [Node, " at ", Seat]
         || #{~"node" := Node, ~"seat" := Seat} <- Guests
        ]),
        $\n
    ].

-spec leader(binary()) -> iodata().
leader(~"none") -> "without a leader";
leader(Node) -> ["led by ", Node].

%% The least width of each: a screen that is repeated does not jump.
-spec columns() -> [{string(), pos_integer(), trailing | leading}].
columns() ->
    [
        {"NODE", 24, trailing}, {"CLIENTS", 21, trailing},
        {"ROLE", 9, trailing}, {"STATE", 11, trailing}, {"ENTRY", 10, leading},
        {"BEHIND", 12, leading}, {"COMMIT", 12, leading}, {"DISK", 9, leading}
    ].

-spec widths([unicode:chardata()], [pos_integer()]) -> [pos_integer()].
widths(Row, Widths) ->
    lists:zipwith(
        fun(Text, Width) -> max(string:length(Text), Width) end, Row, Widths
    ).

-spec row([unicode:chardata()], [pos_integer()]) -> unicode:chardata().
row(Row, Widths) ->
    Padded = lists:zipwith3(
        fun(Text, Width, {_, _, Where}) -> string:pad(Text, Width, Where) end,
        Row, Widths, columns()
    ),
    ["  ", lists:join(" ", Padded), $\n].

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
columns(#{~"role" := Role, ~"state" := State}, _Last, _LastMs) when
    State =:= ~"down"; State =:= ~"stranger"
->
    [Role, State, "", "", "", ""];
columns(#{~"role" := Role} = Member, Last, LastMs) ->
    Entry = entry(Member),
    [
        Role,
        state(Member),
        integer_to_list(Entry),
        behind(Last - Entry, LastMs, log_time_ms(Member)),
        case Member of
            #{~"commit_us" := #{~"p99" := Us}} when Us < ?LONG_US ->
                io_lib:format("~.1f ms p99", [Us / 1000]);
            #{~"commit_us" := #{~"p99" := Us}} ->
                io_lib:format("~.1f s p99", [Us / 1_000_000]);
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

%% Of members of another cluster, about the node that answers.
-spec claims(map()) -> [iodata()].
claims(#{~"claims" := Claims, ~"node" := Own}) ->
    [
        todana_stranger:claimed(Own, #{node => Node, cluster => Cluster})
     || #{~"node" := Node, ~"cluster" := Cluster} <- Claims
    ];
claims(#{}) ->
    [].

-spec advice(binary(), [map()], non_neg_integer()) -> [iodata()].
advice(~"none", Members, _Last) ->
    %% Without a leader no member can join or be removed.
    [without_leader(voters(Members)) | lists:append([
        without_leader_about(M) || M <- Members
    ])];
advice(_Leader, Members, Last) ->
    old(Members) ++ clocks(Members) ++
        lists:append([about(M, Last) || M <- Members]) ++
        spare(length(voters(Members)), serving(voters(Members)),
              length(Members)).

%% All members, if nobody says which ones vote.
-spec voters([map()]) -> [map()].
voters(Members) ->
    case [M || #{~"role" := R} = M <- Members, is_voter(R)] of
        [] -> Members;
        Voters -> Voters
    end.

%% Members that keep commands of later versions from the others.
-spec old([map()]) -> [iodata()].
old(Members) ->
    Newest = lists:max([format(M) || M <- Members]),
    [
        [Node, " has an older version, and the cluster refuses commands that "
         "it does not know: upgrade it"]
     || #{~"node" := Node, ~"host" := _} = M <- Members, format(M) < Newest
    ].

-spec clocks([map()]) -> [iodata()].
clocks(Members) ->
    [
        io_lib:format(
            "the clock of ~ts is ~.1f s ~s the time of the log: set it, or see "
            "`bin/todana clock`",
            [
                Node, abs(Ms) / 1000,
                if Ms > 0 -> "behind"; true -> "ahead of" end
            ]
        )
     || #{~"node" := Node, ~"clock_differs_ms" := Ms} <- Members,
        abs(Ms) > ?CLOCK_MS_MAX
    ].

%% The newest format of the log that a member reads, as it has announced.
-spec format(map()) -> pos_integer().
format(Member) -> maps:get(~"format", Member, 1).

-spec is_voter(binary()) -> boolean().
is_voter(Role) -> Role =:= ~"leader" orelse Role =:= ~"voter".

-doc """
How many members may fail: the rest would still be a majority of the voters that
serves. Negative if there is none now.
""".
-spec may_fail(map()) -> integer().
may_fail(#{~"leader" := Leader, ~"members" := Members}) when
    Leader =/= ~"none"
->
    Voters = voters(Members),
    spares(length(Voters), serving(Voters));
may_fail(#{}) ->
    -1.

%% One whose disk is full still stores what others write, but not for long; one
%% that copies has not all records. Neither makes a majority that lasts.
-spec serving([map()]) -> non_neg_integer().
serving(Voters) ->
    length([M || #{~"state" := ~"serving"} = M <- Voters]).

-spec spares(pos_integer(), non_neg_integer()) -> integer().
spares(Voters, Serving) -> Serving - Voters div 2 - 1.

-spec is_up(map()) -> boolean().
is_up(#{~"state" := State}) ->
    State =/= ~"down" andalso State =/= ~"stranger".

-spec without_leader([map()]) -> iodata().
without_leader(Voters) ->
    %% One that does not serve elects nobody.
    Up = [M || #{~"state" := State} = M <- Voters,
               is_up(M), State =/= ~"failed"],
    Refusing = [M || #{~"refuses" := true} = M <- Voters],
    case 2 * length(Up) > length(Voters) of
        true ->
            "there is no leader: the members are electing one, which takes "
            "some seconds. Run the command again";
        false when Refusing =/= [] ->
            io_lib:format(
                "this node sees no leader: it reaches ~b of ~b voters, and "
                "accepts no writes. Those that refuse it may work without it",
                [length(Up), length(Voters)]
            );
        false ->
            io_lib:format(
                "there is no leader: this node reaches no majority of the "
                "cluster (~b of ~b voters), and accepts no writes. Start the "
                "other nodes or repair the network. Only if a majority is lost "
                "for good, start all remaining members, and run `bin/todana "
                "cluster force --i-accept-data-loss`, which gives up the "
                "writes that only the lost members have, and names the member "
                "with the most entries",
                [length(Up), length(Voters)]
            )
    end.

-spec without_leader_about(map()) -> [iodata()].
without_leader_about(#{~"refuses" := true} = Member) ->
    [refuses(Member)];
without_leader_about(#{~"node" := Node, ~"state" := ~"down"}) ->
    [[Node, " is down, or cannot be reached: start it again"]];
without_leader_about(#{~"state" := ~"stranger"} = Member) ->
    [stranger(Member)];
without_leader_about(#{
    ~"node" := Node, ~"state" := ~"failed", ~"reason" := Why
}) ->
    [[Node, " does not serve: ", Why]];
without_leader_about(#{}) ->
    [].

-spec spare(non_neg_integer(), non_neg_integer(), pos_integer()) ->
    [iodata()].
spare(1, _Serving, Members) ->
    %% A second member votes when there is a third one.
    More = case Members of 1 -> "two"; _ -> "one" end,
    [["only one node votes: if it fails, the cluster stands still. Let ", More,
      " more join"]];
spare(Voters, Serving, _Members) ->
    case spares(Voters, Serving) of
        Left when Left > 0 ->
            [io_lib:format("~b of ~b voters may fail", [Left, Voters])];
        0 ->
            ["no further voter may fail"];
        _ ->
            [io_lib:format(
                "no further voter may fail, and only ~b of ~b accept writes, "
                "which is no majority: writes may stop at any moment",
                [Serving, Voters]
            )]
    end ++
    [
        io_lib:format(
            "let one more node join: of ~b voters, ~b may fail",
            [Voters + 1, Voters div 2]
        )
     || Voters rem 2 =:= 0
    ].

-spec refuses(map()) -> iodata().
refuses(#{~"node" := Node}) ->
    [Node, " runs, and refuses this node: compare their cookies and "
     "certificates"].

-spec stranger(map()) -> iodata().
stranger(#{~"node" := Node, ~"other_cluster" := Other}) ->
    todana_stranger:sentence(Node, Other).

-spec about(map(), non_neg_integer()) -> [iodata()].
about(#{~"state" := ~"stranger"} = Member, _Last) ->
    [stranger(Member)];
about(#{~"refuses" := true} = Member, _Last) ->
    [refuses(Member)];
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
