%% What the log says when the cluster changes: a leader, a member, the majority
%% or this node's vote comes or goes.
%%
%% `todana_membership' looks once a second. A cluster that changes all the time
%% does not fill the log: a line costs one of a few tokens, and the next line
%% says how many were left out.
-module(todana_cluster_events).
-moduledoc false.

-export([new/0, look/2, members/2, voters/3]).

-export_type([facts/0, events/0, line/0]).

-define(TOKENS_MAX, 20).
-define(TOKEN_MS, 10_000).
%% Other members are often started a moment later.
-define(ALONE_MS, 10_000).

%% What a look finds.
-type facts() :: #{
    now_ms := integer(),
    %% A leader that has proved lately that it leads.
    leader := node() | none,
    members := [node()],
    %% Those of the members that vote, if that is known.
    voters := [node()],
    %% Those that are connected, and this node.
    up := [node()],
    votes := boolean()
}.
-type line() :: {notice | warning, string()}.
-opaque events() :: #{
    last := none | facts(),
    %% Since when this node has reached no majority, before there was a leader.
    alone_ms := none | said | integer(),
    tokens := non_neg_integer(),
    filled_ms := integer(),
    left_out := non_neg_integer()
}.

-doc "Nothing is known, and nothing was said.".
-spec new() -> events().
new() ->
    #{
        last => none, alone_ms => none,
        tokens => ?TOKENS_MAX, filled_ms => 0, left_out => 0
    }.

-doc """
The members, or, while a log that has ended and begins again does not know them,
those of the last look.
""".
-spec members({ok, [node()]} | unknown, events()) -> [node()].
members({ok, Members}, _Events) -> Members;
members(unknown, #{last := #{members := Members}}) -> Members;
members(unknown, #{last := none}) -> [node()].

-doc """
Of the nodes that vote, those that do so now: the map of the cluster may not say
yet that this node has no vote.
""".
-spec voters([node()], node(), boolean()) -> [node()].
voters(Voters, _Node, true) ->
    Voters;
voters(Voters, Node, false) ->
    case lists:delete(Node, Voters) of
        [] -> Voters;
        Others -> Others
    end.

-doc "The lines about what has changed since the last look.".
-spec look(facts(), events()) -> {[line()], events()}.
%% A node that has just started may not know the members yet.
look(#{leader := none} = Facts, #{last := none} = Events) ->
    alone(has_majority(Facts), Facts, Events);
look(#{now_ms := NowMs} = Facts, #{last := none} = Events) ->
    Lines = leader(none, Facts),
    bounded(Lines, Events#{last := Facts, filled_ms := NowMs});
look(Facts, #{last := Last} = Events) ->
    Lines =
        changes(Last, Facts) ++
        connections(Last, Facts) ++
        majority(Last, Facts) ++
        leader(maps:get(leader, Last), Facts) ++
        vote(Last, Facts),
    bounded(Lines, filled(Facts, Events#{last := Facts})).

%% A start without the others.
-spec alone(boolean(), facts(), events()) -> {[line()], events()}.
alone(true, _Facts, Events) ->
    {[], Events#{alone_ms := none}};
alone(false, #{now_ms := NowMs}, #{alone_ms := none} = Events) ->
    {[], Events#{alone_ms := NowMs}};
alone(false, #{now_ms := NowMs} = Facts, #{alone_ms := SinceMs} = Events) when
    is_integer(SinceMs), NowMs - SinceMs >= ?ALONE_MS
->
    {[no_majority(Facts)], Events#{alone_ms := said}};
alone(false, _Facts, Events) ->
    {[], Events}.

-spec leader(node() | none, facts()) -> [line()].
leader(Leader, #{leader := Leader}) ->
    [];
leader(Old, #{leader := none} = Facts) ->
    [{warning, text(
        "the cluster has no leader, after ~ts; this node reaches ~ts",
        [Old, reach(Facts)]
    )}];
leader(_Old, #{leader := New} = Facts) ->
    [{notice, text("~ts leads the cluster; this node reaches ~ts~ts",
                   [New, reach(Facts), no_vote(Facts)])}].

-spec no_vote(facts()) -> string().
no_vote(#{votes := true}) -> "";
no_vote(#{votes := false}) -> ", and has no vote itself".

-spec changes(facts(), facts()) -> [line()].
changes(#{members := Old}, #{members := New}) ->
    [{notice, text("~ts is a member now", [N])} || N <- New -- Old] ++
    [{notice, text("~ts is no longer a member", [N])} || N <- Old -- New].

%% Of nodes that were members before and are now.
-spec connections(facts(), facts()) -> [line()].
connections(#{members := Before, up := Old}, #{members := Now, up := New}) ->
    Both = [N || N <- Now, lists:member(N, Before)],
    [
        {warning, text("~ts is down, or cannot be reached", [N])}
     || N <- Both, lists:member(N, Old), not lists:member(N, New)
    ] ++
    [
        {notice, text("~ts is connected again", [N])}
     || N <- Both, lists:member(N, New), not lists:member(N, Old)
    ].

-spec majority(facts(), facts()) -> [line()].
majority(Old, New) ->
    case {has_majority(Old), has_majority(New)} of
        {true, false} ->
            [no_majority(New)];
        {false, true} ->
            [{notice, text("a majority again: this node reaches ~ts",
                           [reach(New)])}];
        _ ->
            []
    end.

-spec no_majority(facts()) -> line().
no_majority(Facts) ->
    {warning, text(
        "no majority: this node reaches ~ts, so no write is confirmed: ~ts",
        [reach(Facts), todana_log_remedy:without_majority()]
    )}.

-spec has_majority(facts()) -> boolean().
has_majority(Facts) ->
    {Reached, All} = reached(Facts),
    2 * Reached > All.

-spec reached(facts()) -> {non_neg_integer(), non_neg_integer()}.
reached(#{voters := Voters, up := Up}) ->
    {length([N || N <- Voters, lists:member(N, Up)]), length(Voters)}.

-spec reach(facts()) -> string().
reach(Facts) ->
    {Reached, All} = reached(Facts),
    text("~b of ~b voters", [Reached, All]).

-spec vote(facts(), facts()) -> [line()].
vote(#{votes := false}, #{votes := true}) ->
    [{notice, "this node votes now"}];
vote(_Old, _New) ->
    [].

-spec text(io:format(), [term()]) -> string().
text(Format, Arguments) -> lists:flatten(io_lib:format(Format, Arguments)).

%% ----------------------------------------------------------------- bound ---

-spec filled(facts(), events()) -> events().
filled(#{now_ms := NowMs}, #{filled_ms := AtMs, tokens := Tokens} = Events) ->
    New = max(0, NowMs - AtMs) div ?TOKEN_MS,
    Events#{
        tokens := min(?TOKENS_MAX, Tokens + New),
        filled_ms := AtMs + New * ?TOKEN_MS
    }.

-spec bounded([line()], events()) -> {[line()], events()}.
bounded(Lines, #{tokens := Tokens, left_out := LeftOut} = Events) ->
    {Said, Rest} = lists:split(min(Tokens, length(Lines)), Lines),
    Missing = length(Rest),
    case Said of
        [{Level, Text} | More] when LeftOut > 0 ->
            First = {Level, text("~ts (~b changes before were not logged)",
                                 [Text, LeftOut])},
            {[First | More], spent(Said, Missing, Events)};
        [] ->
            {[], Events#{left_out := LeftOut + Missing}};
        _ ->
            {Said, spent(Said, Missing, Events)}
    end.

-spec spent([line()], non_neg_integer(), events()) -> events().
spent(Said, Missing, #{tokens := Tokens} = Events) ->
    Events#{tokens := Tokens - length(Said), left_out := Missing}.
