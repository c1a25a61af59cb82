%% The server of a group: the process of Ra that keeps this node's part of its
%% log.
%%
%% It has the same name on every node.
-module(todana_ra_server).
-moduledoc false.

-export([address/1, address/2, is_running/1, stop/1, stop/2]).
-export([ask/2, pipeline/2, pipeline/4, in_flight_max/0]).

%% `todana_log_tail' depends on it: what is behind more batches is confirmed.
-define(IN_FLIGHT_MAX, 4).

-doc "Its address on this node.".
-spec address(todana_raft_groups:id()) -> ra:server_id().
address(Group) -> address(Group, node()).

-doc "Its address on a node.".
-spec address(todana_raft_groups:id(), node()) -> ra:server_id().
address(Group, Node) -> {name(Group), Node}.

%% Also while the node uses no directory.
-spec name(todana_raft_groups:id()) -> atom().
name(_Group) -> todana_data_dir:server().

-spec is_running(todana_raft_groups:id()) -> boolean().
is_running(Group) -> whereis(name(Group)) =/= undefined.

-doc "Stops it. It takes part in nothing when this returns.".
-spec stop(todana_raft_groups:id()) -> ok.
stop(Group) ->
    #{durability := Durability} = todana_raft_groups:opened(Group),
    stop(Group, Durability).

-spec stop(todana_raft_groups:id(), todana_data_dir:durability()) -> ok.
stop(Group, Durability) ->
    System = todana_ra_system:name(Durability),
    _ = try ra:stop_server(System, address(Group)) catch _:_ -> ok end,
    ok.

-doc "Waits until the group has applied a question; returns its entry.".
-spec ask(todana_raft_groups:id(), timeout()) ->
    {ok, pos_integer()} | {error, term()}.
ask(Group, TimeoutMs) ->
    try ra:process_command(address(Group), ping, TimeoutMs) of
        {ok, {index, Index}, _} -> {ok, Index};
        {timeout, _} -> {error, timeout};
        {error, Reason} -> {error, Reason}
    catch
        Class:Reason -> {error, {Class, Reason}}
    end.

-doc "Sends a command whose result nobody waits for.".
-spec pipeline(todana_raft_groups:id(), term()) -> ok.
pipeline(Group, Command) ->
    ra:pipeline_command(address(Group), Command).

-doc """
Sends a batch to the server of a node. The caller gets a `ra_event` that names
the sequence.
""".
-spec pipeline(todana_raft_groups:id(), node(), term(), integer()) -> ok.
pipeline(Group, Node, Command, Sequence) ->
    ra:pipeline_command(address(Group, Node), Command, Sequence, normal).

-doc "How many batches of a node are on their way at once.".
-spec in_flight_max() -> pos_integer().
in_flight_max() -> ?IN_FLIGHT_MAX.
