%% Whether the node lives, and whether it serves: for orchestrators, load
%% balancers and watchdogs.
-module(todana_health).
-moduledoc false.

-export([live/0, ready/0, ready/1]).

-export_type([verdict/0]).

-type verdict() :: ok | {error, Sentence :: binary()}.

%% No round of an event loop takes as long.
-define(ROUND_MS_MAX, 10_000).

-doc """
Whether the process works: an error means that only a restart helps. A node that
loads its records, or has no leader, lives.
""".
-spec live() -> verdict().
live() ->
    try todana_listener:longest_round_ms() of
        Ms when Ms > ?ROUND_MS_MAX ->
            no("an event loop has hung for ~b s", [Ms div 1_000]);
        _ ->
            ok
    catch
        exit:_ -> no("the server does not answer", [])
    end.

-doc "Whether clients can read and write, in the cluster of this node.".
-spec ready() -> verdict().
ready() ->
    ready(todana_guest:state()).

-doc "The same, by the state of the log.".
-spec ready(map()) -> verdict().
ready(Log) ->
    case {init:get_status(), todana_listener:is_serving()} of
        {{stopping, _}, _} -> no("the node stops", []);
        {_, false} -> no("the server does not run", []);
        {_, true} ->
            case live() of
                ok -> by_log(Log);
                {error, _} = Hung -> Hung
            end
    end.

-spec by_log(map()) -> verdict().
by_log(#{state := serving}) ->
    case todana_stranger:verdict() of
        ok -> ok;
        {error, Sentence} -> no("~ts", [Sentence])
    end;
by_log(#{seat := none, reason := Reason}) ->
    no("~ts", [Reason]);
by_log(#{state := recovering, progress := Percent}) ->
    no("the durable databases are being read, ~b %", [Percent]);
by_log(#{state := read_only, reason := Reason}) ->
    no("writes are refused: ~ts", [Reason]);
by_log(#{state := State, reason := Reason}) ->
    no("~ts: ~ts", [State, Reason]);
by_log(#{state := State}) ->
    no("~ts", [State]).

-spec no(string(), [term()]) -> verdict().
no(Format, Arguments) ->
    {error, unicode:characters_to_binary(io_lib:format(Format, Arguments))}.
