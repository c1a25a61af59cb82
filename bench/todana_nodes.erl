%% Todana on the peers of a measurement.
%%
%% Used by e2_replicated.erl, e3.erl, e3_names.erl, guests.erl and
%% names_many.erl.
-module(todana_nodes).

-export([form/2, begin_on/3, await_ready/2, await/3]).
%% For the peers.
-export([start/2, is_serving/0]).

-type options() :: [{atom(), string()}].

-define(POLL_MS, 20).

%% The first node creates a cluster, and the others join. Returns when all of
%% them vote and serve. Each has a directory of its own below Place.
-spec form([node()], string()) -> ok.
form([First | Others] = Nodes, Place) ->
    ok = begin_on(First, data_dir(First, Place), [{cluster_create, "yes"}]),
    Join = [{cluster_join, atom_to_list(First)}],
    [ok = begin_on(Node, data_dir(Node, Place), Join) || Node <- Others],
    ok = await_ready(fun() -> voters(First) =:= length(Nodes) end, 120_000),
    lists:foreach(fun await_serving/1, Nodes).

%% Starts Todana with this directory, or `"off"'.
-spec begin_on(node(), string(), options()) -> ok.
begin_on(Node, DataDir, Options) ->
    erpc:call(Node, ?MODULE, start, [DataDir, Options], 300_000).

-spec start(string(), options()) -> ok.
start(DataDir, Options) ->
    _ = application:load(todana),
    [
        ok = application:set_env(todana, Name, Value)
     || {Name, Value} <- [{data_dir, DataDir} | Options]
    ],
    {ok, _} = application:ensure_all_started(todana),
    ok.

-spec await_serving(node()) -> ok.
await_serving(Node) ->
    await_ready(fun() -> erpc:call(Node, ?MODULE, is_serving, []) end, 120_000).

-spec is_serving() -> boolean().
is_serving() ->
    maps:get(state, todana:info()) =:= serving.

%% Waits for a node that may not be ready: its failures are a `no'.
-spec await_ready(fun(() -> boolean()), pos_integer()) -> ok.
await_ready(Is, WaitMs) ->
    await(fun() -> try Is() catch _:_ -> false end end, ?POLL_MS, WaitMs).

-spec await(fun(() -> boolean()), pos_integer(), pos_integer()) -> ok.
await(Is, PollMs, WaitMs) ->
    await_until(Is, PollMs, erlang:monotonic_time(millisecond) + WaitMs).

-spec await_until(fun(() -> boolean()), pos_integer(), integer()) -> ok.
await_until(Is, PollMs, DeadlineMs) ->
    case Is() of
        true ->
            ok;
        false ->
            case erlang:monotonic_time(millisecond) < DeadlineMs of
                true -> timer:sleep(PollMs);
                false -> error({not_ready, Is})
            end,
            await_until(Is, PollMs, DeadlineMs)
    end.

-spec data_dir(node(), string()) -> string().
data_dir(Node, Place) ->
    filename:join(Place, hd(string:lexemes(atom_to_list(Node), "@"))).

-spec voters(node()) -> non_neg_integer().
voters(At) ->
    #{members := Members} = erpc:call(At, todana_cluster, status, []),
    length([
        voter
     || #{role := Role} <- Members, Role =:= leader orelse Role =:= voter
    ]).
