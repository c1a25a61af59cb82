%% The socket by which `bin/todana cluster' reaches the running node.
%%
%% `<data_dir>/control' is a Unix socket of mode 0600. A client sends one JSON
%% object, {"command": "leave", "argument": "b@127.0.0.1"}, and a line end; the
%% answer is one JSON object, {"ok": ...} or {"error": "a sentence"}. Each
%% client has a process of its own, since a change of the members takes long.
-module(todana_control).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, ask/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(SOCKET, "control").
-define(REQUEST_TIMEOUT_MS, 5_000).
%% Longest path of a socket on every supported system.
-define(PATH_BYTES_MAX, 100).

-record(state, {
    path :: file:filename(),
    listening = none :: none | gen_tcp:socket(),
    acceptor = none :: none | pid()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "Asks the node that uses this data directory.".
-spec ask(file:filename(), map(), timeout()) ->
    {ok, term()} | {error, iodata()}.
ask(DataDir, Request, TimeoutMs) ->
    Path = filename:join(filename:absname(DataDir), ?SOCKET),
    Options = [binary, {active, false}, {packet, line}, {buffer, 1 bsl 20}],
    maybe
        {ok, Socket} ?= gen_tcp:connect({local, Path}, 0, Options),
        ok ?= gen_tcp:send(Socket, [json:encode(Request), $\n]),
        {ok, Line} ?= gen_tcp:recv(Socket, 0, TimeoutMs),
        ok = gen_tcp:close(Socket),
        case json:decode(Line) of
            #{~"ok" := Answer} -> {ok, Answer};
            #{~"error" := Sentence} -> {error, Sentence}
        end
    else
        {error, timeout} ->
            {error, "the node does not answer; what was asked for may still "
                    "happen"};
        {error, Reason} when Reason =:= enoent; Reason =:= econnrefused ->
            {error, ["no member of a cluster is running with the data "
                     "directory ", DataDir]};
        {error, Reason} ->
            {error, [Path, ": ", inet:format_error(Reason)]}
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    #{data_dir := DataDir} = todana_data_dir:opened(),
    Path = filename:join(DataDir, ?SOCKET),
    _ = file:delete(Path),
    Options = [
        {ifaddr, {local, Path}}, binary, {active, false}, {packet, line},
        {buffer, 1 bsl 16}
    ],
    PathBytes = byte_size(unicode:characters_to_binary(Path)),
    case PathBytes =< ?PATH_BYTES_MAX andalso gen_tcp:listen(0, Options) of
        {ok, Socket} ->
            ok = file:change_mode(Path, 8#600),
            {ok, accept(#state{path = Path, listening = Socket})};
        false ->
            logger:warning("todana: `cluster` will not work: ~ts is too long "
                           "for a socket", [Path]),
            {ok, #state{path = Path}};
        {error, Reason} ->
            logger:warning("todana: `cluster` will not work: ~ts: ~ts",
                           [Path, inet:format_error(Reason)]),
            {ok, #state{path = Path}}
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
            Answer =
                try
                    #{~"command" := Command} = Request = json:decode(Line),
                    answer(todana_cluster_commands:run(Command, Request))
                catch
                    Class:Reason:Stack ->
                        logger:error("todana: a command failed: ~0tP",
                                     [{Class, Reason, Stack}, 40]),
                        answer({error, "the command failed; the log of the "
                                       "node says why"})
                end,
            _ = gen_tcp:send(Socket, [json:encode(Answer), $\n]),
            gen_tcp:close(Socket);
        {error, _} ->
            gen_tcp:close(Socket)
    end.

-spec answer({ok, json:encode_value()} | {error, iodata()}) -> map().
answer({ok, Value}) -> #{ok => Value};
answer({error, Sentence}) ->
    #{error => unicode:characters_to_binary(Sentence)}.
