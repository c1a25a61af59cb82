%% The socket by which `bin/todana ping', `stop', `top', `reload' and `cluster'
%% reach the running node.
%%
%% It is a Unix socket of mode 0600; `todana_control_path' knows where. A client
%% sends one JSON object, {"command": "leave", "argument": "b@127.0.0.1"}, and a
%% line end; the answer is one JSON object, {"ok": ...} or {"error": "a
%% sentence"}, and the end of the connection. Each client has a process of its
%% own, since a change of the members takes long.
-module(todana_control).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, ask/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(REQUEST_TIMEOUT_MS, 5_000).
%% Longest path of a socket on every supported system.
-define(PATH_BYTES_MAX, 100).

-record(state, {
    path :: file:filename(),
    listening = none :: none | gen_tcp:socket(),
    acceptor = none :: none | pid()
}).

-spec start_link(file:filename()) -> gen_server:start_ret().
start_link(Path) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Path, []).

-doc """
Asks the node with this socket. The node closes the connection after its answer;
after `stop`, when it ends.
""".
-spec ask(file:filename(), map(), timeout()) ->
    {ok, term()} | {error, no_node | iodata()}.
ask(Path, Request, TimeoutMs) ->
    Options = [binary, {active, false}],
    maybe
        {ok, Socket} ?= gen_tcp:connect({local, Path}, 0, Options),
        ok ?= gen_tcp:send(Socket, [json:encode(Request), $\n]),
        {ok, Bytes} ?= receive_all(Socket, TimeoutMs, []),
        case json:decode(Bytes) of
            #{~"ok" := Answer} -> {ok, Answer};
            #{~"error" := Sentence} -> {error, Sentence}
        end
    else
        {error, timeout} ->
            {error, "the node does not answer; what was asked for may still "
                    "happen"};
        {error, Reason} when Reason =:= enoent; Reason =:= econnrefused ->
            {error, no_node};
        {error, Reason} ->
            {error, [Path, ": ", inet:format_error(Reason)]}
    end.

%% Until the node closes the connection.
-spec receive_all(gen_tcp:socket(), timeout(), [binary()]) ->
    {ok, binary()} | {error, term()}.
receive_all(Socket, TimeoutMs, Parts) ->
    case gen_tcp:recv(Socket, 0, TimeoutMs) of
        {ok, Bytes} ->
            receive_all(Socket, TimeoutMs, [Bytes | Parts]);
        {error, closed} when Parts =/= [] ->
            {ok, iolist_to_binary(lists:reverse(Parts))};
        {error, Reason} ->
            {error, Reason}
    end.

-spec init(file:filename()) -> {ok, #state{}}.
init(Path) ->
    _ = process_flag(trap_exit, true),
    Options = [
        {ifaddr, {local, Path}}, binary, {active, false}, {packet, line},
        {buffer, 1 bsl 16}
    ],
    PathBytes = byte_size(unicode:characters_to_binary(Path)),
    Fits = PathBytes =< ?PATH_BYTES_MAX,
    case Fits andalso listen(Path, Options) of
        {ok, Socket} ->
            ok = file:change_mode(Path, 8#600),
            {ok, accept(#state{path = Path, listening = Socket})};
        false ->
            logger:warning("todana: `stop`, `top` and the like will not work: "
                           "~ts is too long for a socket", [Path]),
            {ok, #state{path = Path}};
        {error, Reason} ->
            logger:warning("todana: `stop`, `top` and the like will not work: "
                           "~ts: ~ts", [Path, inet:format_error(Reason)]),
            {ok, #state{path = Path}}
    end.

-spec listen(file:filename(), [gen_tcp:listen_option()]) ->
    {ok, gen_tcp:socket()} | {error, inet:posix()}.
listen(Path, Options) ->
    maybe
        ok ?= todana_control_path:prepare(Path),
        _ = file:delete(Path),
        gen_tcp:listen(0, Options)
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'EXIT', Pid, _}, #state{acceptor = Pid} = State) ->
    {noreply, accept(State)};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{path = Path}) ->
    _ = file:delete(Path),
    ok.

%% Each acceptor serves one client; then another one takes its place.
-spec accept(#state{}) -> #state{}.
accept(#state{listening = Listening} = State) ->
    Keeper = self(),
    Pid = spawn_link(fun() ->
        case gen_tcp:accept(Listening) of
            {ok, Socket} ->
                true = unlink(Keeper),
                Keeper ! {'EXIT', self(), accepted},
                serve(Socket);
            {error, _} ->
                timer:sleep(?REQUEST_TIMEOUT_MS)
        end
    end),
    State#state{acceptor = Pid}.

-spec serve(gen_tcp:socket()) -> ok.
serve(Socket) ->
    case gen_tcp:recv(Socket, 0, ?REQUEST_TIMEOUT_MS) of
        {ok, Line} ->
            {Answer, Then} =
                try
                    #{~"command" := Command} = Request = json:decode(Line),
                    answer(run(Command, Request))
                catch
                    Class:Reason:Stack ->
                        logger:error("todana: a command failed: ~0tP",
                                     [{Class, Reason, Stack}, 40]),
                        answer({error, "the command failed; the log of the "
                                       "node says why"})
                end,
            _ = gen_tcp:send(Socket, [json:encode(Answer), $\n]),
            case Then of
                close ->
                    gen_tcp:close(Socket);
                stop ->
                    %% The client sees the end of the node by that of the
                    %% connection.
                    ok = init:stop(),
                    timer:sleep(infinity)
            end;
        {error, _} ->
            gen_tcp:close(Socket)
    end.

-spec run(binary(), map()) -> todana_node_commands:result().
run(Command, Request) ->
    case todana_node_commands:run(Command) of
        unknown -> todana_cluster_commands:run(Command, Request);
        Result -> Result
    end.

-spec answer(todana_node_commands:result()) -> {map(), close | stop}.
answer({ok, Value}) -> {#{ok => Value}, close};
answer({stop, Value}) -> {#{ok => Value}, stop};
answer({error, Sentence}) ->
    {#{error => unicode:characters_to_binary(Sentence)}, close}.
