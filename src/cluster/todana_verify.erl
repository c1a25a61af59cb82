%% Compares the records that all members of a group have.
%%
%% They must be the same after the same entries of the log. So the order to
%% compare is an entry itself: each member takes a view of its records when it
%% applies that entry, and reads it while the log goes on. This process reads;
%% `run/1' asks those of all members for what they found.
-module(todana_verify).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, run/1]).
%% Other nodes call them.
-export([await/2, await/3, has_begun/2, has_begun/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% For all that a comparison does. The command line waits longer.
-define(TIMEOUT_MS, 60_000).
%% For an answer to a question, and for the entry to be applied by all members.
-define(ANSWER_TIMEOUT_MS, 10_000).
%% A view is refused beside a snapshot, which takes a moment.
-define(ATTEMPTS, 20).
-define(PAUSE_MS, 250).
-define(POLL_MS, 20).

-type outcome() :: {Index :: non_neg_integer(), Digest :: non_neg_integer()}
    | busy.

-record(state, {
    %% The last comparison, and the callers that wait for its outcome.
    ref = none :: none | reference(),
    outcome = none :: none | outcome(),
    waiting = [] :: [{reference(), gen_server:from()}]
}).

-spec start_link(todana_raft_groups:id()) -> gen_server:start_ret().
start_link(Group) ->
    gen_server:start_link({local, name(Group)}, ?MODULE, [], []).

-spec name(todana_raft_groups:id()) -> atom().
name(Group) -> todana_raft_groups:name(?MODULE, Group).

-doc "The digest that all members have, or which ones differ.".
-spec run(todana_raft_groups:id()) -> {ok, map()} | {error, iodata()}.
run(Group) ->
    DeadlineMs = erlang:monotonic_time(millisecond) + ?TIMEOUT_MS,
    run(Group, ?ATTEMPTS, DeadlineMs).

-spec run(todana_raft_groups:id(), non_neg_integer(), integer()) ->
    {ok, map()} | {error, iodata()}.
run(Group, Left, DeadlineMs) ->
    Ref = make_ref(),
    Nodes = todana_members:known(Group),
    case ask(Group, Nodes, await, [Ref, 0], ?ANSWER_TIMEOUT_MS) of
        {[], _} ->
            case todana_members:command(Group, {digest, Ref}) of
                ok -> begun(Group, Ref, Nodes, Left, DeadlineMs);
                {error, _} -> {error, "the cluster has no leader"}
            end;
        {Silent, _} ->
            {error, silent(Silent)}
    end.

%% The nodes that do not answer, and the answers of the others.
-spec ask(todana_raft_groups:id(), [node()], atom(), [term()], timeout()) ->
    {[node()], [{node(), term()}]}.
ask(Group, Nodes, Function, Arguments, TimeoutMs) ->
    Question = todana_raft_groups:question(Group, Arguments),
    Answers = lists:zip(Nodes, [
        known(Answer)
     || Answer <- erpc:multicall(
            Nodes, ?MODULE, Function, Question, TimeoutMs
        )
    ]),
    {
        [Node || {Node, Answer} <- Answers, element(1, Answer) =/= ok],
        [{Node, Answer} || {Node, {ok, Answer}} <- Answers]
    }.

%% A version without the question answers when it has read its records.
-spec known({ok, term()} | {atom(), term()}) -> {ok, term()} | {atom(), term()}.
known({error, {exception, undef, [{?MODULE, has_begun, _, _} | _]}}) ->
    {ok, true};
known(Answer) ->
    Answer.

%% A member that does not follow the leader never gets the entry.
-spec begun(
    todana_raft_groups:id(), reference(), [node()], non_neg_integer(), integer()
) -> {ok, map()} | {error, iodata()}.
begun(Group, Ref, Nodes, Left, DeadlineMs) ->
    {Silent, Found} = ask(
        Group, Nodes, has_begun, [Ref, ?ANSWER_TIMEOUT_MS],
        2 * ?ANSWER_TIMEOUT_MS
    ),
    case {Silent, [Node || {Node, false} <- Found]} of
        {[], []} ->
            collect(Group, Ref, Nodes, Left, DeadlineMs);
        {[_ | _], _} ->
            {error, silent(Silent)};
        {[], Late} ->
            {error, io_lib:format(
                "~ts ~s not applied the entry of the comparison within ~b s, "
                "so nothing was compared: see `bin/todana cluster status`",
                [names(Late), verb(Late, "has", "have"),
                 ?ANSWER_TIMEOUT_MS div 1_000]
            )}
    end.

-spec collect(
    todana_raft_groups:id(), reference(), [node()], non_neg_integer(), integer()
) -> {ok, map()} | {error, iodata()}.
collect(Group, Ref, Nodes, Left, DeadlineMs) ->
    LeftMs = max(0, DeadlineMs - erlang:monotonic_time(millisecond)),
    {Silent, Found} = ask(Group, Nodes, await, [Ref, LeftMs], LeftMs + 1_000),
    Busy = [Node || {Node, busy} <- Found],
    case {Silent, [Node || {Node, later} <- Found]} of
        {[_ | _], _} ->
            {error, silent(Silent)};
        {[], [_ | _] = Late} ->
            {error, [names(Late), $\s, verb(Late, "reads", "read"),
                     " records still: try again when the cluster has less to "
                     "do"]};
        {[], []} when Busy =/= [], Left > 0, LeftMs > ?PAUSE_MS ->
            timer:sleep(?PAUSE_MS),
            run(Group, Left - 1, DeadlineMs);
        {[], []} when Busy =/= [] ->
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

-spec silent([node(), ...]) -> iodata().
silent(Nodes) ->
    [names(Nodes), $\s, verb(Nodes, "does", "do"), " not answer"].

-spec verb([node(), ...], string(), string()) -> string().
verb([_], OfOne, _OfSeveral) -> OfOne;
verb(_, _OfOne, OfSeveral) -> OfSeveral.

-spec names([node()]) -> iodata().
names(Nodes) -> lists:join(", ", [atom_to_list(Node) || Node <- Nodes]).

-doc "The outcome of a comparison in this node; `later' if it takes longer.".
-spec await(todana_raft_groups:id(), reference(), timeout()) ->
    outcome() | later.
await(Group, Ref, TimeoutMs) ->
    gen_server:call(name(Group), {await, Ref, TimeoutMs}, infinity).

-doc "That of the first group: `todana_raft_groups:question/2`.".
-spec await(reference(), timeout()) -> outcome() | later.
await(Ref, TimeoutMs) -> await(todana_raft_groups:first(), Ref, TimeoutMs).

-doc "Whether this node has applied the entry of a comparison by this time.".
-spec has_begun(todana_raft_groups:id(), reference(), non_neg_integer()) ->
    boolean().
has_begun(Group, Ref, LeftMs) ->
    case gen_server:call(name(Group), ref, infinity) of
        Ref ->
            true;
        _ when LeftMs =< 0 ->
            false;
        _ ->
            timer:sleep(?POLL_MS),
            has_begun(Group, Ref, LeftMs - ?POLL_MS)
    end.

-doc "The same of the first group.".
-spec has_begun(reference(), non_neg_integer()) -> boolean().
has_begun(Ref, LeftMs) -> has_begun(todana_raft_groups:first(), Ref, LeftMs).

%% --------------------------------------------------------------- process ---

-spec init([]) -> {ok, #state{}}.
init([]) -> {ok, #state{}}.

-spec handle_call(ref | {await, reference(), timeout()}, gen_server:from(),
                  #state{}) ->
    {reply, none | reference() | outcome() | later, #state{}}
    | {noreply, #state{}}.
handle_call(ref, _From, #state{ref = Ref} = State) ->
    {reply, Ref, State};
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

%% `todana_machine' takes the view, in the process that applies the log.
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
