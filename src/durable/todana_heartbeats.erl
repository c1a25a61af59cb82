%% How often a node shows others that it lives: the application aten, by which
%% Ra notices that a node is gone.
%%
%% It sends ten heartbeats a second to each connected node. A node without a
%% cluster needs none, and would wake up for them. In somebody else's node,
%% whose application may use Ra, too, nothing changes, nor if somebody has set
%% the interval.
-module(todana_heartbeats).
-moduledoc false.

-export([prepare/0, adapt/1]).

%% The default of aten, and what a node without a cluster has, in milliseconds.
-define(BEATING_MS, 100).
-define(RESTING_MS, 60_000).
%% In the environment of aten: it may be changed.
-define(OURS, todana).

-doc "Called before aten is started.".
-spec prepare() -> ok.
prepare() ->
    _ = application:load(aten),
    application:set_env(aten, ?OURS, todana_foreground:is_starting() andalso
        interval_ms() =:= ?BEATING_MS).

-doc "Adapts the interval to a member of a cluster, or to a node without one.".
-spec adapt(todana_data_dir:opened()) -> ok.
adapt(#{cluster := Cluster}) ->
    Wanted = case Cluster of none -> ?RESTING_MS; _ -> ?BEATING_MS end,
    case application:get_env(aten, ?OURS, false) andalso
        interval_ms() =/= Wanted of
        true ->
            ok = application:set_env(aten, heartbeat_interval, Wanted),
            %% It reads it when it starts.
            _ = supervisor:terminate_child(aten_sup, aten_emitter),
            _ = supervisor:restart_child(aten_sup, aten_emitter),
            ok;
        false ->
            ok
    end.

-spec interval_ms() -> term().
interval_ms() -> application:get_env(aten, heartbeat_interval, unset).
