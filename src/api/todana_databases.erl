%% Sets what `db0' to `db15' are: their order, their limits, and which of them
%% are durable.
%%
%% They are in the native registry and outlive the application. A database that
%% has records, or that is open, cannot change its order or its durability: its
%% users would go on with the old one.
-module(todana_databases).
-moduledoc false.

-export([set/2, may_join/1]).

-doc """
Sets all of them, or nothing. `Seed` is that of the durable tables, and `nil`
without a data directory.
""".
-spec set(todana_config:options(), Seed :: nil | non_neg_integer()) ->
    ok | {error, Sentence :: string()}.
set(#{databases := Databases} = Options, Seed) ->
    Natives = [todana_kyoto_database:native(D) || D <- Databases],
    Durable = case Seed of
        nil -> nil;
        _ -> {Seed, todana_named_databases:durable(Databases)}
    end,
    case todana_nif:set_databases(Natives, Durable) of
        ok -> ok;
        {error, {Why, Number}} -> {error, kept(Why, Number, Options)}
    end.

-doc """
Whether a node with a log of its own, which uses the databases until it stops,
can go on with these options and the log of a cluster.
""".
-spec may_join(todana_config:options()) -> ok | {error, Sentence :: string()}.
may_join(#{databases := Databases} = Options) ->
    case {todana_named_databases:durable(Databases), open_ones()} of
        {[Number | _], [_ | _]} -> {error, kept(in_use, Number, Options)};
        _ -> ok
    end.

-spec open_ones() -> [0..15].
open_ones() ->
    [
        Number
     || {_Name, Handle} <- todana_nif:tables(),
        {_, _, _, _, _, Number, _} <- [todana_nif:options(Handle)],
        is_integer(Number)
    ].

-spec kept(has_records | in_use, 0..15, todana_config:options()) -> string().
kept(Why, Number, Options) ->
    lists:concat(["databases: db", Number, kept(Why), remedy(Options)]).

-spec kept(has_records | in_use) -> string().
kept(has_records) ->
    " has records in this node, and its order and durability cannot change "
    "under them: ";
kept(in_use) ->
    " was opened in this node with another order or durability, or with "
    "another data directory, and cannot change while the node runs: ".

%% A node that has served clients from memory has its databases open. The next
%% start must have the options from the beginning.
-spec remedy(todana_config:options()) -> string().
remedy(#{data_dir := off}) ->
    "restart the node";
remedy(#{cluster_join := off}) ->
    "set `data_dir` for the next start of the node, and restart it";
remedy(#{}) ->
    "set `data_dir` and `cluster_join` for the next start of the node, and "
    "restart it".
