%% The group's server: the process of Ra that keeps this node's part of the log.
%%
%% It has the same name on every node.
-module(todana_ra_server).
-moduledoc false.

-export([address/0, address/1, is_running/0, stop/0, stop/1]).
-export([ask/1, pipeline/1, pipeline/3, in_flight_max/0]).

%% `todana_log_tail' depends on it: what is behind more batches is confirmed.
-define(IN_FLIGHT_MAX, 4).

-doc "Its address on this node.".
-spec address() -> ra:server_id().
address() -> address(node()).

-doc "Its address on a node.".
-spec address(node()) -> ra:server_id().
address(Node) -> {name(), Node}.

-spec name() -> atom().
name() -> todana_data_dir:server().

-spec is_running() -> boolean().
is_running() -> whereis(name()) =/= undefined.

-doc "Stops it. It takes part in nothing when this returns.".
-spec stop() -> ok.
stop() ->
    #{durability := Durability} = todana_data_dir:opened(),
    stop(Durability).

-spec stop(todana_data_dir:durability()) -> ok.
stop(Durability) ->
    System = todana_ra_system:name(Durability),
    _ = try ra:stop_server(System, address()) catch _:_ -> ok end,
    ok.

-doc "Waits until the group has applied a question; returns its entry.".
-spec ask(timeout()) -> {ok, pos_integer()} | {error, term()}.
ask(TimeoutMs) ->
    try ra:process_command(address(), ping, TimeoutMs) of
        {ok, {index, Index}, _} -> {ok, Index};
        {timeout, _} -> {error, timeout};
        {error, Reason} -> {error, Reason}
    catch
        Class:Reason -> {error, {Class, Reason}}
    end.

-doc "Sends a command whose result nobody waits for.".
-spec pipeline(term()) -> ok.
pipeline(Command) ->
    ra:pipeline_command(address(), Command).

-doc """
Sends a batch to the server of a node. The caller gets a `ra_event` that names
the sequence.
""".
-spec pipeline(node(), term(), integer()) -> ok.
pipeline(Node, Command, Sequence) ->
    ra:pipeline_command(address(Node), Command, Sequence, normal).

-doc "How many batches of a node are on their way at once.".
-spec in_flight_max() -> pos_integer().
in_flight_max() -> ?IN_FLIGHT_MAX.
