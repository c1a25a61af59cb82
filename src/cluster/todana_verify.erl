%% Compares the records of all members.
%%
%% They must be the same after the same entries of the log. So the order to
%% compare is an entry itself: each member takes a view of its records when it
%% applies that entry, and reads it while the log goes on. This process reads;
%% `run/0' asks those of all members for what they found.
-module(todana_verify).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, run/0]).
%% Called in the process that applies the log
-export([begin_digest/2]).
%% Called by other nodes
-export([await/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TIMEOUT_MS, 60_000).
%% A view is refused beside a snapshot, which takes a moment.
-define(ATTEMPTS, 20).
-define(PAUSE_MS, 250).

-type outcome() :: {Index :: non_neg_integer(), Digest :: non_neg_integer()}
    | busy.

-record(state, {
    %% The last comparison, and the callers that wait for its outcome.
    ref = none :: none | reference(),
    outcome = none :: none | outcome(),
    waiting = [] :: [{reference(), gen_server:from()}]
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "The digest that all members have, or which ones differ.".
-spec run() -> {ok, map()} | {error, iodata()}.
run() -> run(?ATTEMPTS).

-spec run(non_neg_integer()) -> {ok, map()} | {error, iodata()}.
run(Left) ->
    Ref = make_ref(),
    Nodes = todana_members:known(),
    Asked = erpc:multicall(Nodes, ?MODULE, await, [Ref, 0], ?TIMEOUT_MS),
    Answers = lists:zip(Nodes, Asked),
    case [Node || {Node, Answer} <- Answers, Answer =/= {ok, later}] of
        [] ->
            case todana_members:command({digest, Ref}) of
                ok -> collect(Ref, Nodes, Left);
                {error, _} -> {error, "the cluster has no leader"}
            end;
        Silent ->
            {error, [names(Silent), " does not answer"]}
    end.

-spec collect(reference(), [node()], non_neg_integer()) ->
    {ok, map()} | {error, iodata()}.
collect(Ref, Nodes, Left) ->
    Answers = lists:zip(Nodes, erpc:multicall(
        Nodes, ?MODULE, await, [Ref, ?TIMEOUT_MS], ?TIMEOUT_MS
    )),
    Silent = [Node || {Node, Answer} <- Answers, element(1, Answer) =/= ok],
    Found = [{Node, Outcome} || {Node, {ok, Outcome}} <- Answers],
    Busy = [Node || {Node, busy} <- Found],
    Late = [Node || {Node, later} <- Found],
    case {Silent ++ Late, Busy} of
        {[_ | _] = Missing, _} ->
            {error, [names(Missing), " does not answer"]};
        {[], [_ | _]} when Left > 0 ->
            timer:sleep(?PAUSE_MS),
            run(Left - 1);
        {[], [_ | _]} ->
            {error, ["a snapshot is being made by ", names(Busy),
                     ": try again later"]};
        {[], []} ->
            compare([{Node, Outcome} || {Node, {_, _} = Outcome} <- Found])
    end.

-spec compare([{node(), {non_neg_integer(), non_neg_integer()}}]) ->
    {ok, map()} | {error, iodata()}.
compare(Found) ->
    case lists:usort([Outcome || {_, Outcome} <- Found]) of
        [{Index, Digest}] ->
            {ok, #{
                index => Index,
                digest => integer_to_binary(Digest, 16),
                members => length(Found)
            }};
        _ ->
            {error, ["the records differ: ", lists:join(", ", [
                io_lib:format("~s has ~.16b at entry ~b", [Node, Digest, Index])
             || {Node, {Index, Digest}} <- Found
            ])]}
    end.

-spec names([node()]) -> iodata().
names(Nodes) -> lists:join(", ", [atom_to_list(Node) || Node <- Nodes]).

-doc "Takes the view. The process that applies the log does not wait.".
-spec begin_digest(reference(), pos_integer()) -> ok.
begin_digest(Ref, Index) ->
    gen_server:cast(?MODULE, {digest, Ref, Index, todana_nif:group_digest()}).

-doc "The outcome of a comparison in this node; `later' if it takes longer.".
-spec await(reference(), timeout()) -> outcome() | later.
await(Ref, TimeoutMs) ->
    gen_server:call(?MODULE, {await, Ref, TimeoutMs}, infinity).

%% --------------------------------------------------------------- process ---

-spec init([]) -> {ok, #state{}}.
init([]) -> {ok, #state{}}.

-spec handle_call({await, reference(), timeout()}, gen_server:from(),
                  #state{}) ->
    {reply, outcome() | later, #state{}} | {noreply, #state{}}.
handle_call({await, Ref, _}, _From, #state{
    ref = Ref, outcome = Outcome
} = State) when Outcome =/= none ->
    {reply, Outcome, State};
handle_call({await, _Ref, 0}, _From, State) ->
    {reply, later, State};
handle_call({await, Ref, TimeoutMs}, From, State) ->
    _ = erlang:send_after(TimeoutMs, self(), {late, From}),
    Waiting = [{Ref, From} | State#state.waiting],
    {noreply, State#state{waiting = Waiting}}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({digest, Ref, Index, {ok, Digest}}, State) ->
    Keeper = self(),
    _ = spawn(fun() ->
        gen_server:cast(Keeper, {done, Ref, read(Index, Digest)})
    end),
    {noreply, State#state{ref = Ref, outcome = none}};
handle_cast({digest, Ref, _Index, {error, busy}}, State) ->
    {noreply, done(busy, State#state{ref = Ref})};
handle_cast({done, Ref, Outcome}, #state{ref = Ref} = State) ->
    {noreply, done(Outcome, State)};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({late, From}, #state{waiting = Waiting} = State) ->
    {Late, Others} = lists:partition(fun({_, F}) -> F =:= From end, Waiting),
    _ = [gen_server:reply(From, later) || _ <- Late],
    {noreply, State#state{waiting = Others}};
handle_info(_Message, State) ->
    {noreply, State}.

-spec done(outcome(), #state{}) -> #state{}.
done(Outcome, #state{ref = Ref, waiting = Waiting} = State) ->
    {Now, Others} = lists:partition(fun({R, _}) -> R =:= Ref end, Waiting),
    _ = [gen_server:reply(From, Outcome) || {_, From} <- Now],
    State#state{outcome = Outcome, waiting = Others}.

-spec read(pos_integer(), reference()) -> outcome().
read(Index, Digest) ->
    case todana_nif:group_digest_next(Digest) of
        more -> read(Index, Digest);
        {done, Number} -> {Index, Number};
        {error, abandoned} -> busy
    end.
