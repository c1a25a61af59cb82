%% Owns the network server.
%%
%% Native threads serve the clients; this process only starts the threads, and
%% stops them when it terminates. If it is killed, the threads continue until
%% its successor stops them and binds the addresses again. If something else
%% stops the threads, this process terminates, and its successor starts them
%% again.
%%
%% Supervisor reports print its argument, so the argument contains the name of
%% the password file. The process reads the password at each start and does not
%% keep it; only the threads do.
-module(todana_listener).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, addresses/0, info/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-doc "Starts the server with the settings of `todana_options`.".
-spec start_link(map()) -> gen_server:start_ret().
start_link(Settings) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Settings, []).

-doc "The bound addresses, `[]` without a server.".
-spec addresses() -> [{todana_nif:listener(), string()}].
addresses() ->
    call(addresses, []).

-doc "Statistics of the server, `#{}` without one.".
-spec info() -> #{atom() => number() | binary()}.
info() ->
    call(info, #{}).

-spec call(term(), Default) -> dynamic() | Default.
call(Request, Default) ->
    try
        gen_server:call(?MODULE, Request)
    catch
        exit:{noproc, _} -> Default
    end.

-spec init(map()) ->
    {ok, todana_nif:server()} | {error, {listener, binary()}}.
init(Settings) ->
    process_flag(trap_exit, true),
    ok = todana_nif:server_stop_all(),
    ok = todana_tables:open_databases(),
    #{password_file := File} = Settings,
    case todana_config:password(File) of
        {ok, Password} ->
            serve(Settings#{password => Password});
        {error, Sentence} ->
            {error, {listener, unicode:characters_to_binary(Sentence)}}
    end.

%% An exception would write the settings, and so the password, to the log.
-spec serve(map()) ->
    {ok, todana_nif:server()} | {error, {listener, binary()}}.
serve(Settings) ->
    try todana_nif:server_start(Settings) of
        {ok, Server} ->
            ok = todana_events:report(
                [todana, server, started], #{addresses => bound(Server)}
            ),
            {ok, Server};
        {error, Sentence} ->
            {error, {listener, Sentence}};
        {badarg, Name} ->
            Sentence = <<"the server refuses its setting ", Name/binary>>,
            {error, {listener, Sentence}}
    catch
        error:_ -> {error, {listener, ~"the server refuses its settings"}}
    end.

-spec handle_call(addresses | info, gen_server:from(), todana_nif:server()) ->
    {reply, term(), todana_nif:server()}
    | {stop, {listener, binary()}, term(), todana_nif:server()}.
handle_call(addresses, _From, Server) ->
    case bound(Server) of
        stopped -> {stop, stopped(), [], Server};
        Addresses -> {reply, Addresses, Server}
    end;
handle_call(info, _From, Server) ->
    case ask(fun todana_nif:server_info/1, Server) of
        stopped ->
            {stop, stopped(), #{}, Server};
        Info ->
            {reply, #{binary_to_atom(Name) => V || {Name, V} <- Info}, Server}
    end.

-spec bound(todana_nif:server()) ->
    [{todana_nif:listener(), string()}] | stopped.
bound(Server) ->
    case ask(fun todana_nif:server_addresses/1, Server) of
        stopped ->
            stopped;
        Bound ->
            [
                {binary_to_atom(Protocol), address(binary_to_list(Ip), Port)}
             || {Protocol, Ip, Port} <- Bound
            ]
    end.

%% The present instance of the native library does not know a server that a
%% purged instance started. Such a server stops when this process releases it.
-spec ask(fun((todana_nif:server()) -> Answer), todana_nif:server()) ->
    Answer | stopped.
ask(Ask, Server) ->
    try
        Ask(Server)
    catch
        error:badarg -> stopped
    end.

%% The reason to terminate; the supervisor then starts another listener.
-spec stopped() -> {listener, binary()}.
stopped() ->
    {listener, ~"the server was stopped with its native library"}.

-spec address(string(), 0..65535) -> string().
address(Ip, Port) ->
    case lists:member($:, Ip) of
        true -> lists:concat(["[", Ip, "]:", Port]);
        false -> lists:concat([Ip, ":", Port])
    end.

-spec handle_cast(term(), todana_nif:server()) ->
    {noreply, todana_nif:server()}.
handle_cast(_Message, Server) ->
    {noreply, Server}.

%% Native code sends this message if something else has stopped the server.
-spec handle_info(term(), todana_nif:server()) ->
    {noreply, todana_nif:server()}
    | {stop, {listener, binary()}, todana_nif:server()}.
handle_info({todana_server, stopped}, Server) ->
    {stop, stopped(), Server};
handle_info(_Message, Server) ->
    {noreply, Server}.

-spec terminate(term(), todana_nif:server()) -> ok.
terminate(Reason, Server) ->
    _ = ask(fun todana_nif:server_stop/1, Server),
    todana_events:report([todana, server, stopped], #{reason => Reason}).
