%% The socket by which `bin/todana ping', `stop', `top', `reload' and `cluster'
%% reach the running node.
%%
%% It is a Unix socket of mode 0600; `todana_control_path' knows where. A client
%% sends one JSON object, {"command": "leave", "argument": "b@127.0.0.1"}, and a
%% line end; the answer is one JSON object, {"ok": ...} or {"error": "a
%% sentence"}, and the end of the connection. Each client has a process of its
%% own, since a change of the members takes long.
%%
%% The answer to `backup' is the bytes of the file, or an object with an error.
%% The lines of `load' follow its request, up to the end of what the client
%% sends.
-module(todana_control).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, ask/3, ask_bytes/4, ask_with/4]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(REQUEST_TIMEOUT_MS, 5_000).
%% For a client that takes no bytes of a backup, or sends none of a load.
-define(STALLED_TIMEOUT_MS, 300_000).
%% How long a node that ends by itself may take.
-define(END_TIMEOUT_MS, 10_000).
-define(CHUNK_BYTES, (1 bsl 20)).
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
after `stop`, and after `leave` of the node itself, when it ends.
""".
-spec ask(file:filename(), map(), timeout()) ->
    {ok, term()} | {error, no_node | iodata()}.
ask(Path, Request, TimeoutMs) ->
    ask_with(Path, Request, fun(_Socket) -> ok end, TimeoutMs).

-doc "The same, and sends more after the request by this function.".
-spec ask_with(
    file:filename(), map(), fun((gen_tcp:socket()) -> ok | {error, iodata()}),
    timeout()
) -> {ok, term()} | {error, no_node | iodata()}.
ask_with(Path, Request, Send, TimeoutMs) ->
    Result =
        maybe
            {ok, Socket} ?= connect(Path, Request),
            ok ?= Send(Socket),
            {ok, Bytes} ?= receive_all(Socket, TimeoutMs, []),
            decode(Bytes)
        end,
    answered(Path, Result).

-doc """
Calls `Take` with the bytes of the answer as they come, and the results of the
call before. An answer that begins as a JSON object is an error.
""".
-spec ask_bytes(file:filename(), map(), fun((binary(), Acc) -> Acc), Acc) ->
    {ok, Acc} | {error, no_node | iodata()}.
ask_bytes(Path, Request, Take, Acc) ->
    Result =
        maybe
            {ok, Socket} ?= connect(Path, Request),
            {ok, First} ?= gen_tcp:recv(Socket, 0),
            answer_bytes(Socket, First, Take, Acc)
        end,
    answered(Path, Result).

-spec answer_bytes(
    gen_tcp:socket(), binary(), fun((binary(), Acc) -> Acc), Acc
) -> {ok, Acc} | {error, term()}.
answer_bytes(Socket, <<${, _/binary>> = First, _Take, _Acc) ->
    case receive_all(Socket, infinity, [First]) of
        {ok, Bytes} -> decode(Bytes);
        {error, _} = Error -> Error
    end;
answer_bytes(Socket, First, Take, Acc) ->
    take_all(Socket, Take, Take(First, Acc)).

-spec take_all(gen_tcp:socket(), fun((binary(), Acc) -> Acc), Acc) -> {ok, Acc}.
take_all(Socket, Take, Acc) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> take_all(Socket, Take, Take(Bytes, Acc));
        %% What came may be incomplete.
        {error, _} -> {ok, Acc}
    end.

-spec connect(file:filename(), map()) ->
    {ok, gen_tcp:socket()} | {error, inet:posix() | closed}.
connect(Path, Request) ->
    Options = [binary, {active, false}, {buffer, ?CHUNK_BYTES}],
    maybe
        {ok, Socket} ?= gen_tcp:connect({local, Path}, 0, Options),
        ok ?= gen_tcp:send(Socket, [json:encode(Request), $\n]),
        {ok, Socket}
    end.

-spec decode(binary()) -> {ok, term()} | {error, binary()}.
decode(Bytes) ->
    case json:decode(Bytes) of
        #{~"ok" := Answer} -> {ok, Answer};
        #{~"error" := Sentence} -> {error, Sentence}
    end.

-spec answered(file:filename(), {ok, term()} | {error, term()}) ->
    {ok, dynamic()} | {error, no_node | iodata()}.
answered(Path, Result) ->
    case Result of
        {ok, Answer} ->
            {ok, Answer};
        {error, timeout} ->
            {error, "the node does not answer; what was asked for may still "
                    "happen"};
        {error, Reason} when Reason =:= enoent; Reason =:= econnrefused ->
            {error, no_node};
        {error, Reason} when Reason =:= closed; Reason =:= econnreset;
                             Reason =:= epipe ->
            {error, "the node closed the connection; its log says why"};
        {error, Reason} when is_atom(Reason) ->
            {error, [Path, ": ", inet:format_error(Reason)]};
        {error, Sentence} ->
            {error, Sentence}
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
                    case run(Command, Request) of
                        {read, Read} -> answer(read(Socket, Read));
                        Result -> answer(Result)
                    end
                catch
                    Class:Reason:Stack ->
                        logger:error("todana: a command failed: ~0tP",
                                     [{Class, Reason, Stack}, 40]),
                        answer({error, "the command failed; the log of the "
                                       "node says why"})
                end,
            case Then of
                {write, _} -> ok;
                _ -> _ = gen_tcp:send(Socket, [json:encode(Answer), $\n]), ok
            end,
            case Then of
                close ->
                    gen_tcp:close(Socket);
                {write, Write} ->
                    ok = write(Socket, Write),
                    gen_tcp:close(Socket);
                %% The client sees the end of the node by that of the
                %% connection: this process ends with the application.
                await_end ->
                    timer:sleep(?END_TIMEOUT_MS),
                    gen_tcp:close(Socket);
                stop ->
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

%% What the client sends behind its request. It is read to its end, so that the
%% client can read the answer.
-spec read(
    gen_tcp:socket(),
    fun((todana_load:next()) -> todana_node_commands:result())
) -> todana_node_commands:result().
read(Socket, Read) ->
    ok = inet:setopts(Socket, [
        {packet, raw}, {buffer, ?CHUNK_BYTES}, {exit_on_close, false}
    ]),
    Next = fun() -> gen_tcp:recv(Socket, 0, ?STALLED_TIMEOUT_MS) end,
    Result = Read(Next),
    ok = skip(Next),
    Result.

-spec skip(todana_load:next()) -> ok.
skip(Next) ->
    case Next() of
        {ok, _} -> skip(Next);
        {error, _} -> ok
    end.

-spec write(gen_tcp:socket(), todana_node_commands:write()) -> ok.
write(Socket, Write) ->
    ok = inet:setopts(Socket, [
        {send_timeout, ?STALLED_TIMEOUT_MS}, {send_timeout_close, true}
    ]),
    case Write(fun(Bytes) -> gen_tcp:send(Socket, Bytes) end) of
        ok ->
            ok;
        {error, Reason} ->
            logger:warning("todana: an answer to `bin/todana` was not sent to "
                           "its end: ~0tp", [Reason])
    end.

-spec answer(todana_node_commands:result()) ->
    {map(), close | await_end | stop | {write, todana_node_commands:write()}}.
answer({write, Write}) -> {#{}, {write, Write}};
answer({ok, Value}) -> {#{ok => Value}, close};
answer({stop, Value}) -> {#{ok => Value}, stop};
answer({ends, Value}) -> {#{ok => Value}, await_end};
answer({error, Sentence}) ->
    {#{error => unicode:characters_to_binary(Sentence)}, close}.
