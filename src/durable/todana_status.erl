%% Says how the log of the durable databases is doing.
%%
%% - `info/0' has the figures for `todana:info/0'.
%% - `<data_dir>/status', a Unix socket of mode 0600, writes them as one JSON
%%   object to each client: `todana_status_client'.
%% - It notes them in native code each second, for INFO of Redis clients, and
%%   carries out what these ask for: BGSAVE, SAVE, WAITAOF.
-module(todana_status).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, info/0, plain/1]).
%% For `todana_status_client'
-export([socket/1, fits/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(SOCKET, "status").
%% Before another attempt, to synchronize the log or to accept a client.
-define(PAUSE_MS, 1_000).
%% Longest path of a socket on every supported system.
-define(PATH_BYTES_MAX, 100).

-type request() :: snapshot | waited_snapshot | sync.

-record(state, {
    data_dir :: file:filename(),
    %% The process that answers clients, and its socket.
    acceptor = none :: none | {pid(), gen_tcp:socket()},
    %% The highest request such that it and all before it are done.
    done = 0 :: non_neg_integer(),
    waiting = [] :: [pos_integer()],
    last_request = 0 :: non_neg_integer(),
    %% Records in the log when the last snapshot was noted.
    snapshots = 0 :: non_neg_integer(),
    records = 0 :: non_neg_integer()
}).

-doc "Starts the process.".
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "The figures; `durability` is `none` in a node without a data directory.".
-spec info() -> map().
info() ->
    case {whereis(?MODULE), whereis(todana_sup)} of
        {Pid, _} when is_pid(Pid) ->
            maps:without([gate], group_info());
        {undefined, undefined} ->
            #{state => failed, durability => none,
              reason => "the application todana does not run"};
        {undefined, _} ->
            without_process(todana_data_dir:is_open())
    end.

%% It has ended, and is about to start again.
-spec without_process(boolean()) -> map().
without_process(true) -> group_info();
without_process(false) -> #{state => serving, durability => none}.

-spec group_info() -> map().
group_info() -> todana_group:info(todana_raft_groups:first()).

%% --------------------------------------------------------------- process ---

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    Group = todana_raft_groups:first(),
    #{data_dir := DataDir} = todana_raft_groups:opened(Group),
    {Done, Last} = todana_nif:persistence_attach(self()),
    Acceptor = listen(DataDir),
    self() ! beat,
    Lost = lists:seq(Done + 1, Last),
    ok = make_good(Lost),
    {ok, #state{
        data_dir = DataDir,
        acceptor = Acceptor,
        done = Done,
        waiting = Lost,
        last_request = Last
    }}.

%% Nobody knows what a predecessor was asked for that was killed meanwhile.
-spec make_good([pos_integer()]) -> ok.
make_good([]) ->
    ok;
make_good(Lost) ->
    begin_work([waited_snapshot, sync], Lost).

-spec begin_work([request()], [pos_integer()]) -> ok.
begin_work(Requests, Numbers) ->
    Keeper = self(),
    _ = spawn(fun() ->
        ok = lists:foreach(fun carry_out/1, Requests),
        gen_server:cast(Keeper, {done, Numbers})
    end),
    ok.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast({done, [pos_integer()]}, #state{}) -> {noreply, #state{}}.
handle_cast({done, Numbers}, #state{waiting = Waiting} = State) ->
    {noreply, note(State#state{waiting = Waiting -- Numbers})}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    {noreply, note(State)};
handle_info({todana_keeper, Request, Number}, State) ->
    ok = begin_work([Request], [Number]),
    Waiting = [Number | State#state.waiting],
    {noreply, State#state{waiting = Waiting, last_request = Number}};
handle_info({'EXIT', Pid, Reason}, #state{acceptor = {Pid, Socket}} = State) ->
    logger:error("todana: an answer to `status` failed: ~0tP", [Reason, 30]),
    {noreply, State#state{acceptor = start_acceptor(Socket)}};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{data_dir = DataDir}) ->
    _ = file:delete(socket(DataDir)),
    ok.

-spec carry_out(request()) -> ok.
carry_out(snapshot) ->
    log(todana_snapshots:request(todana_raft_groups:first()));
carry_out(waited_snapshot) ->
    Group = todana_raft_groups:first(),
    log(todana_snapshots:request_and_wait(Group, infinity));
carry_out(sync) ->
    case todana_disk:sync() of
        ok ->
            ok;
        {error, Reason} ->
            %% The client waits on: the write is not on disk.
            ok = log({error, Reason}),
            timer:sleep(?PAUSE_MS),
            carry_out(sync)
    end.

-spec log(ok | {error, term()}) -> ok.
log(ok) ->
    ok;
log({error, Reason}) ->
    logger:warning("todana: a client's request to the log failed: ~0tp",
                   [Reason]).

%% --------------------------------------------------------------- figures ---

-spec note(#state{}) -> #state{}.
note(#state{data_dir = DataDir, waiting = Waiting} = State) ->
    Info = group_info(),
    Snapshots = todana_group_notes:kept(snapshots, 0),
    Records = maps:get(records, Info, 0),
    New =
        case State of
            #state{snapshots = Snapshots} -> State;
            _ -> State#state{snapshots = Snapshots, records = Records}
        end,
    Last = maps:get(last_snapshot, Info, #{}),
    Failed = todana_group_notes:kept(last_attempt, ok) =/= ok,
    Done = lists:min([State#state.last_request | [N - 1 || N <- Waiting]]),
    ok = todana_nif:persistence_note(#{
        data_dir => unicode:characters_to_binary(DataDir),
        always => maps:get(durability, Info, always) =:= always,
        loading_percent => maps:get(progress, Info, 0),
        log_bytes => maps:get(log_bytes, Info, 0),
        snapshot_bytes => maps:get(bytes, Last, 0),
        changes => max(0, Records - New#state.records),
        snapshots => Snapshots,
        snapshot_in_progress => maps:get(snapshot_in_progress, Info, false),
        snapshot_failed => Failed,
        snapshot_at_s => at_s(Last),
        snapshot_seconds => seconds(Last),
        commit_us => p50_p99(commit_us, Info),
        fsync_us => p50_p99(fsync_us, Info),
        done => Done
    }),
    New#state{done = Done}.

-spec at_s(map()) -> non_neg_integer().
at_s(#{age_ms := AgeMs}) ->
    (erlang:system_time(millisecond) - AgeMs) div 1000;
at_s(#{}) ->
    0.

-spec seconds(map()) -> non_neg_integer() | none.
seconds(#{duration_ms := Ms}) -> Ms div 1000;
seconds(#{}) -> none.

-spec p50_p99(atom(), map()) ->
    {non_neg_integer(), non_neg_integer()} | none.
p50_p99(Name, Info) ->
    case Info of
        #{Name := #{p50 := Half, p99 := Most}} -> {Half, Most};
        #{} -> none
    end.

%% ---------------------------------------------------------------- socket ---

%% Without the socket the node works as well.
-spec listen(file:filename()) -> none | {pid(), gen_tcp:socket()}.
listen(DataDir) ->
    Path = socket(DataDir),
    _ = file:delete(Path),
    maybe
        ok ?= fits(Path),
        {ok, Socket} ?= gen_tcp:listen(0, [
            {ifaddr, {local, Path}}, binary, {active, false}
        ]),
        ok ?= file:change_mode(Path, 8#600),
        start_acceptor(Socket)
    else
        {error, Reason} ->
            logger:warning(
                "todana: `status` will not work: ~ts: ~ts",
                [Path, inet:format_error(Reason)]
            ),
            none
    end.

%% The socket belongs to this process, so it outlives the acceptor.
-spec start_acceptor(gen_tcp:socket()) -> {pid(), gen_tcp:socket()}.
start_acceptor(Socket) ->
    {spawn_link(fun() -> accept(Socket) end), Socket}.

-doc "The socket of the node that uses this data directory.".
-spec socket(file:filename()) -> file:filename().
socket(DataDir) -> filename:join(DataDir, ?SOCKET).

-doc "Whether the path is short enough for a socket.".
-spec fits(file:filename()) -> ok | {error, enametoolong}.
fits(Path) ->
    case byte_size(unicode:characters_to_binary(Path)) of
        Bytes when Bytes =< ?PATH_BYTES_MAX -> ok;
        _ -> {error, enametoolong}
    end.

-spec accept(gen_tcp:socket()) -> no_return().
accept(Listening) ->
    case gen_tcp:accept(Listening) of
        {ok, Socket} ->
            _ = gen_tcp:send(Socket, json:encode(plain(info()))),
            gen_tcp:close(Socket);
        {error, _} ->
            timer:sleep(?PAUSE_MS)
    end,
    accept(Listening).

-doc "The figures with texts as JSON has them.".
-spec plain(term()) -> json:encode_value().
plain(Map) when is_map(Map) ->
    #{Key => plain(Value) || Key := Value <- Map};
plain([First | _] = Text) when is_integer(First) ->
    case unicode:characters_to_binary(Text) of
        Bytes when is_binary(Bytes) -> Bytes;
        _ -> printed(Text)
    end;
plain(Value) when is_atom(Value); is_number(Value); is_binary(Value) ->
    Value;
plain(Value) ->
    printed(Value).

-spec printed(term()) -> binary().
printed(Value) ->
    iolist_to_binary(io_lib:format("~0p", [Value])).
