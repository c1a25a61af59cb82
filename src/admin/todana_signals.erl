%% Handles SIGHUP in a node that the command line started: the configuration is
%% read again. It never ends the node.
-module(todana_signals).
-moduledoc false.
-behaviour(gen_event).

-export([handle/0]).
-export([init/1, handle_event/2, handle_call/2]).

-doc "Handles the signal from here on. Before, `bin/todana` has it ignored.".
-spec handle() -> ok.
handle() ->
    ok = gen_event:add_handler(erl_signal_server, ?MODULE, []),
    os:set_signal(sighup, handle).

-spec init([]) -> {ok, []}.
init([]) ->
    {ok, []}.

-spec handle_event(atom(), []) -> {ok, []}.
handle_event(sighup, State) ->
    ok = todana_reload:request(),
    {ok, State};
handle_event(_Signal, State) ->
    {ok, State}.

-spec handle_call(term(), []) -> {ok, ok, []}.
handle_call(_Request, State) ->
    {ok, ok, State}.
