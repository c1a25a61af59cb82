%% Handles the signals of a node that the command line started. SIGHUP has it
%% read its configuration again; SIGTERM and SIGINT stop it, as OTP's handler
%% would, and the log names the one that came. In a command of `bin/todana' that
%% must not leave something behind, it handles the request to end.
-module(todana_signals).
-moduledoc false.
-behaviour(gen_event).

-export([handle/0, at_end/1]).
-export([init/1, handle_event/2, handle_call/2]).

-doc """
Handles them from here on. Before, `bin/todana` has SIGHUP ignored, and SIGTERM
and SIGINT blocked: those that have come are handled now.
""".
-spec handle() -> ok.
handle() ->
    _ = gen_event:delete_handler(erl_signal_server, erl_signal_handler, []),
    ok = gen_event:add_handler(erl_signal_server, ?MODULE, none),
    ok = os:set_signal(sighup, handle),
    todana_nif:receive_signals().

-doc """
Calls this function when a command is asked to end (SIGTERM, or Ctrl-C, which
the native library turns into it), and ends it with status 1.
""".
-spec at_end(fun(() -> ok)) -> ok.
at_end(Do) ->
    _ = gen_event:delete_handler(erl_signal_server, erl_signal_handler, []),
    ok = gen_event:add_handler(erl_signal_server, ?MODULE, Do),
    os:set_signal(sigterm, handle).

%% What a command does at its end, or whether a node stops already.
-type state() :: fun(() -> ok) | none | stopping.

-spec init(state()) -> {ok, state()}.
init(State) ->
    {ok, State}.

-spec handle_event(atom(), state()) -> {ok, state()}.
handle_event(sighup, none) ->
    ok = todana_reload:request(),
    {ok, none};
%% Without this, `init' would report that the start has failed.
handle_event(sigterm, none) ->
    case todana_cluster_start:is_joining() of
        true ->
            ok = todana_log_held:log(),
            ok = todana_log:flush(),
            io:put_chars(standard_error, "todana: stopped while it was waiting "
                                         "to join\n"),
            halt(0);
        false ->
            logger:notice("todana: ~ts was received: the node stops",
                          [name()]),
            ok = init:stop(),
            {ok, stopping}
    end;
handle_event(sigterm, stopping) ->
    {ok, stopping};
%% As OTP's handler does.
handle_event(sigusr1, Node) when is_atom(Node) ->
    halt("Received SIGUSR1");
handle_event(sigquit, Node) when is_atom(Node) ->
    halt();
handle_event(sigterm, Do) when is_function(Do) ->
    ok = Do(),
    halt(1);
handle_event(_Signal, State) ->
    {ok, State}.

%% The native library turns SIGINT into SIGTERM.
-spec name() -> string().
name() ->
    case todana_nif:was_interrupted() of
        true -> "SIGINT";
        false -> "SIGTERM"
    end.

-spec handle_call(term(), state()) -> {ok, ok, state()}.
handle_call(_Request, State) ->
    {ok, ok, State}.
