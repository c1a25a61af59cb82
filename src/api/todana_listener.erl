%% Owns the network server.
%%
%% Native threads serve the clients; this process only starts the threads, and
%% stops them when it terminates. If it is killed, the threads continue until
%% its successor stops them and binds the addresses again. If something else
%% stops the threads, this process terminates, and its successor starts them
%% again.
%%
%% Supervisor reports print its arguments, so it has none: its supervisor keeps
%% the settings in a table. They contain the name of the password file. The
%% process reads the password at each start and does not keep it; only the
%% threads do.
-module(todana_listener).
-moduledoc false.
-behaviour(gen_server).

-export([configure/1, start_link/0, addresses/0, info/0]).
-export([is_serving/0, figures/0]).
-export([longest_round_ms/0, check_password/2, incidents/0, slow_log/1]).
-export([set_option/2, set_password/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-doc "Keeps the settings of `todana_options` in a table of the caller.".
-spec configure(map()) -> ok.
configure(Settings) ->
    _ = ets:whereis(?MODULE) =:= undefined andalso
        ets:new(?MODULE, [named_table]),
    true = ets:insert(?MODULE, {settings, Settings}),
    ok.

-doc "Starts the server with these settings.".
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "The bound addresses, `[]` without a server.".
-spec addresses() -> [{todana_nif:listener(), string()}].
addresses() ->
    call(addresses, []).

-doc "Statistics of the server, `#{}` without one.".
-spec info() -> #{atom() => number() | binary()}.
info() ->
    call(info, #{}).

-doc "Whether there is a server, if an address is configured.".
-spec is_serving() -> boolean().
is_serving() ->
    try
        ets:whereis(?MODULE) =:= undefined orelse server() =/= none
    catch
        exit:_ -> false
    end.

-doc "All figures since the start of the server, `none` without one.".
-spec figures() -> todana_nif:figures() | none.
figures() ->
    of_server(fun todana_nif:server_figures/1, none).

-doc """
How long the event loop that is longest in its present round is in it, in
milliseconds.
""".
-spec longest_round_ms() -> non_neg_integer().
longest_round_ms() ->
    of_server(fun todana_nif:server_longest_round_ms/1, 0).

-doc """
Whether a client at this address that gives this password, or `nil` for none, is
authenticated, and for how many milliseconds its answer is to be delayed.
""".
-spec check_password(binary() | nil, inet:ip_address()) ->
    {boolean(), DelayMs :: non_neg_integer()}.
check_password(Password, Ip) ->
    Address = list_to_binary(inet:ntoa(Ip)),
    Check = fun(Server) ->
        todana_nif:server_check_password(Server, Password, Address)
    end,
    of_server(Check, {false, 0}).

-doc "What the log reports, as counts since the start of the server.".
-spec incidents() -> #{binary() => non_neg_integer() | binary()}.
incidents() ->
    maps:from_list(of_server(fun todana_nif:server_incidents/1, [])).

-doc "The newest commands of the slow log, without their arguments.".
-spec slow_log(non_neg_integer()) ->
    [{
        Id :: non_neg_integer(), AtS :: non_neg_integer(),
        Micros :: non_neg_integer(), Command :: binary(), Address :: binary()
    }].
slow_log(Count) ->
    Newest = fun(Server) -> todana_nif:server_slow_log(Server, Count) end,
    of_server(Newest, []).

-doc "Changes an option while the server runs.".
-spec set_option(todana_options:name(), string()) ->
    ok | {error, Sentence :: binary()}.
set_option(Name, Text) ->
    Set = fun(Server) ->
        todana_nif:server_set_option(
            Server, atom_to_binary(Name), unicode:characters_to_binary(Text)
        )
    end,
    of_server(Set, {error, ~"the server does not run"}).

-doc "Changes the password. Clients that are authenticated remain so.".
-spec set_password(binary() | nil) -> ok | {error, Sentence :: binary()}.
set_password(Password) ->
    Set = fun(Server) -> todana_nif:server_set_password(Server, Password) end,
    of_server(Set, {error, ~"the server does not run"}).

%% Calls native code in the process of the caller: it may take milliseconds.
-spec of_server(fun((todana_nif:server()) -> Answer), Default) ->
    Answer | Default.
of_server(Ask, Default) ->
    case server() of
        none ->
            Default;
        Server ->
            case ask(Ask, Server) of
                stopped -> Default;
                Answer -> Answer
            end
    end.

-spec server() -> todana_nif:server() | none.
server() ->
    call(server, none).

-spec call(term(), Default) -> dynamic() | Default.
call(Request, Default) ->
    try
        gen_server:call(?MODULE, Request)
    catch
        exit:{noproc, _} -> Default;
        %% It ends: those that ask at a stop need not fail.
        exit:{shutdown, _} -> Default
    end.

-spec init([]) ->
    {ok, todana_nif:server()} | {error, {listener, binary()}}.
init([]) ->
    process_flag(trap_exit, true),
    Settings = ets:lookup_element(?MODULE, settings, 2),
    ok = todana_nif:server_stop_all(),
    ok = todana_tables:open_databases(),
    #{password_file := File} = Settings,
    case todana_password:read(File) of
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

-spec handle_call(
    addresses | info | server, gen_server:from(), todana_nif:server()
) ->
    {reply, term(), todana_nif:server()}
    | {stop, {listener, binary()}, term(), todana_nif:server()}.
handle_call(addresses, _From, Server) ->
    case bound(Server) of
        stopped -> {stop, stopped(), [], Server};
        Addresses -> {reply, Addresses, Server}
    end;
handle_call(server, _From, Server) ->
    {reply, Server, Server};
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
