%% The HTTP port for monitors, by Cowboy: metrics, health and status.
%%
%% It serves few and short requests, and is bounded accordingly: connections,
%% the length of a request's head, and every wait for the client. Cowboy is
%% started with the port, and only with it.
%%
%% A connection beyond the limit is served, and the one closed whose last
%% request, or beginning, is longest ago: clients that send half a request, or
%% none, must not keep a probe of this node's health waiting.
%%
%% While the port is open, this process has the VM measure how busy its
%% schedulers are.
-module(todana_http).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, addresses/0, used/1]).
%% The protocol of Ranch.
-export([start_link/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% The address that `auto' stands for.
-define(AUTO, {{127, 0, 0, 1}, 9379}).
-define(CONNECTIONS_MAX, 128).
%% Those that are being closed included. Further ones wait in the backlog.
-define(CONNECTIONS_CEILING, 1_024).
-define(BACKLOG, 128).
-define(REQUEST_TIMEOUT_MS, 5_000).
-define(IDLE_TIMEOUT_MS, 30_000).
-define(KEEP_ALIVE_MAX, 1_000).
%% A name or a cursor may be long.
-define(LINE_BYTES_MAX, 8_192).
-define(HEADERS_MAX, 64).
-define(HEADER_BYTES_MAX, 4_096).

-record(state, {
    refs :: [ranch:ref()],
    ranch :: reference(),
    %% The connections, with a number that grows with their last use.
    used = #{} :: #{pid() => pos_integer()},
    uses = 0 :: non_neg_integer()
}).

-type address() :: {inet:ip_address(), inet:port_number()}.

-doc "Opens the port. `ignore` if `auto` finds its port taken.".
-spec start_link([address()] | auto) -> gen_server:start_ret().
start_link(Addresses) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Addresses, []).

-doc "The bound addresses, `[]` without a port.".
-spec addresses() -> [{http, string()}].
addresses() ->
    try
        gen_server:call(?MODULE, addresses)
    catch
        exit:_ -> []
    end.

-doc "A request has come on a connection.".
-spec used(pid()) -> ok.
used(Connection) ->
    gen_server:cast(?MODULE, {used, Connection}).

-doc false.
-spec start_link(ranch:ref(), module(), cowboy:opts()) -> {ok, pid()}.
start_link(Ref, Transport, Options) ->
    {ok, Connection} = cowboy_clear:start_link(Ref, Transport, Options),
    ok = used(Connection),
    {ok, Connection}.

-spec init([address()] | auto) ->
    {ok, #state{}} | ignore | {error, {listener, binary()}}.
init(Addresses) ->
    _ = process_flag(trap_exit, true),
    maybe
        ok ?= start_cowboy(),
        %% Of a predecessor that was killed.
        ok = close(listening()),
        {ok, Refs} ?= listen(Addresses),
        Ranch = monitor(process, ranch_sup),
        _ = erlang:system_flag(scheduler_wall_time, true),
        {ok, #state{refs = Refs, ranch = Ranch}}
    else
        ignore -> ignore;
        {error, Sentence} ->
            {error, {listener, unicode:characters_to_binary(Sentence)}}
    end.

%% Temporary, since its end must not end the node.
-spec start_cowboy() -> ok | {error, iodata()}.
start_cowboy() ->
    case application:ensure_all_started(cowboy, temporary) of
        {ok, _} ->
            ok;
        {error, Reason} ->
            {error, io_lib:format(
                "listen_http: the library Cowboy does not start: ~0tp",
                [Reason]
            )}
    end.

-spec listen([address()] | auto) ->
    {ok, [ranch:ref()]} | ignore | {error, iodata()}.
listen(auto) ->
    case open(1, ?AUTO) of
        {ok, Ref} ->
            {ok, [Ref]};
        {error, eaddrinuse} ->
            logger:warning("todana: no port for monitors: ~ts",
                           [in_words(?AUTO, eaddrinuse)]),
            ignore;
        {error, Reason} ->
            {error, in_words(?AUTO, Reason)}
    end;
listen(Addresses) ->
    listen(lists:enumerate(Addresses), []).

-spec listen([{pos_integer(), address()}], [ranch:ref()]) ->
    {ok, [ranch:ref()]} | {error, iodata()}.
listen([], Refs) ->
    {ok, lists:reverse(Refs)};
listen([{Number, Address} | Rest], Refs) ->
    case open(Number, Address) of
        {ok, Ref} ->
            listen(Rest, [Ref | Refs]);
        {error, Reason} ->
            ok = close(Refs),
            {error, in_words(Address, Reason)}
    end.

-spec in_words(address(), term()) -> iodata().
in_words(Address, Reason) ->
    Text = todana_option_type:format(addresses, [Address]),
    Why =
        case is_atom(Reason) of
            true -> inet:format_error(Reason);
            false -> io_lib:format("~0tp", [Reason])
        end,
    ["listen_http: cannot listen on ", Text, ": ", Why].

-spec open(pos_integer(), address()) -> {ok, ranch:ref()} | {error, term()}.
open(Number, {Ip, Port}) ->
    Ref = {?MODULE, Number},
    Transport = #{
        socket_opts => [
            {port, Port}, {backlog, ?BACKLOG},
            {send_timeout, ?REQUEST_TIMEOUT_MS}, {send_timeout_close, true}
            | bound_to(Ip)
        ],
        num_acceptors => 2,
        %% The maximum is for each supervisor of connections.
        num_conns_sups => 1,
        max_connections => ?CONNECTIONS_CEILING,
        connection_type => supervisor
    },
    Protocol = #{
        connection_type => supervisor,
        env => #{dispatch => cowboy_router:compile([
            {'_', [{'_', todana_http_handler, []}]}
        ])},
        protocols => [http],
        request_timeout => ?REQUEST_TIMEOUT_MS,
        idle_timeout => ?IDLE_TIMEOUT_MS,
        inactivity_timeout => ?IDLE_TIMEOUT_MS,
        linger_timeout => 0,
        max_keepalive => ?KEEP_ALIVE_MAX,
        max_empty_lines => 1,
        max_method_length => 16,
        max_request_line_length => ?LINE_BYTES_MAX,
        max_header_name_length => 64,
        max_header_value_length => ?HEADER_BYTES_MAX,
        max_headers => ?HEADERS_MAX,
        %% A body is refused, so it is not read either.
        max_skip_body_length => 0
    },
    maybe
        ok ?= try_to_listen(Ip, Port),
        {ok, _} ?= ranch:start_listener(
            Ref, ranch_tcp, Transport, ?MODULE, Protocol
        ),
        {ok, Ref}
    end.

%% Ranch reports an address that is in use as a crash of three processes.
-spec try_to_listen(inet:ip_address(), inet:port_number()) ->
    ok | {error, term()}.
try_to_listen(Ip, Port) ->
    maybe
        {ok, Socket} ?=
            gen_tcp:listen(Port, [{reuseaddr, true} | bound_to(Ip)]),
        gen_tcp:close(Socket)
    end.

-spec bound_to(inet:ip_address()) -> [gen_tcp:listen_option()].
bound_to(Ip) ->
    [{ip, Ip} | [{ipv6_v6only, true} || tuple_size(Ip) =:= 8]].

-spec listening() -> [ranch:ref()].
listening() ->
    [Ref || {?MODULE, _} = Ref <- maps:keys(ranch:info())].

-spec close([ranch:ref()]) -> ok.
close(Refs) ->
    lists:foreach(fun cowboy:stop_listener/1, Refs).

-spec handle_call(addresses, gen_server:from(), #state{}) ->
    {reply, [{http, string()}], #state{}}.
handle_call(addresses, _From, #state{refs = Refs} = State) ->
    Bound = [
        {http, todana_option_type:format(addresses, [{Ip, Port}])}
     || Ref <- Refs,
        {Ip, Port} <- [ranch:get_addr(Ref)],
        Ip =/= undefined
    ],
    {reply, Bound, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({used, Connection}, #state{used = Used, uses = Uses} = State) ->
    _ = [monitor(process, Connection) || not is_map_key(Connection, Used)],
    Kept = close_oldest(Used#{Connection => Uses + 1}),
    {noreply, State#state{used = Kept, uses = Uses + 1}};
handle_cast(_Message, State) ->
    {noreply, State}.

%% A successor opens the port again.
-spec handle_info(term(), #state{}) ->
    {noreply, #state{}} | {stop, {listener, binary()}, #state{}}.
handle_info({'DOWN', Ranch, process, _, _}, #state{ranch = Ranch} = State) ->
    {stop, {listener, ~"the library Ranch has ended"}, State};
handle_info({'DOWN', _, process, Pid, _}, #state{used = Used} = State) ->
    {noreply, State#state{used = maps:remove(Pid, Used)}};
handle_info(_Message, State) ->
    {noreply, State}.

-spec close_oldest(#{pid() => pos_integer()}) -> #{pid() => pos_integer()}.
close_oldest(Used) when map_size(Used) =< ?CONNECTIONS_MAX ->
    Used;
close_oldest(Used) ->
    {_, Oldest} = lists:min([{Use, Pid} || Pid := Use <- Used]),
    ok = disconnect(Oldest),
    maps:remove(Oldest, Used).

%% Cowboy notices that the socket is closed, and ends the process in order.
-spec disconnect(pid()) -> ok.
disconnect(Connection) ->
    Sockets =
        case process_info(Connection, links) of
            {links, Links} -> [Link || Link <- Links, is_port(Link)];
            undefined -> []
        end,
    lists:foreach(
        fun(Socket) -> _ = gen_tcp:shutdown(Socket, read_write) end,
        Sockets
    ).

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{refs = Refs}) ->
    try
        close(Refs)
    catch
        %% Ranch has ended.
        exit:_ -> ok
    end.
