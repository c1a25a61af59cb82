%% Answers questions of RESP clients about names and groups.
%%
%% An event loop must not wait for Erlang. So native code sends a question here,
%% puts the client to sleep, and wakes it with the answer
%% (`native/server/src/questions.rs'), which a process of its own finds. Native
%% code has so few questions on their way that each may have one.
%%
%% Every question is answered: also if its process fails, or takes too long.
-module(todana_questions).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Longer than a guest waits for a seat. Native code waits a second longer.
-define(ANSWER_MS, 6_000).

-type question() ::
    {scopes}
    | {whereis, Scope :: binary(), Name :: binary()}
    | {names | groups, Scope :: binary(), Cursor :: binary(), 1..1000}
    | {members, Scope :: binary(), Group :: binary(), Cursor :: binary(),
        1..1000}.
%% The numbers of questions, by the process that answers each.
-type state() :: #{pid() => {non_neg_integer(), Timer :: reference()}}.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, state()}.
init([]) ->
    ok = todana_nif:question_attach(self()),
    {ok, #{}}.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, ok, state()}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
%% From native code.
handle_info({todana_question, Number, Question}, State) ->
    {Pid, _} = spawn_monitor(fun() ->
        ok = todana_nif:question_answer(Number, answer(Question))
    end),
    Timer = erlang:start_timer(?ANSWER_MS, self(), Pid),
    {noreply, State#{Pid => {Number, Timer}}};
handle_info({timeout, _Timer, Pid}, State) when is_pid(Pid) ->
    true = exit(Pid, kill),
    {noreply, State};
handle_info({'DOWN', _, process, Pid, Reason}, State) ->
    case maps:take(Pid, State) of
        {{Number, Timer}, Others} ->
            _ = erlang:cancel_timer(Timer),
            ok = ended(Number, Reason),
            {noreply, Others};
        error ->
            {noreply, State}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

-spec ended(non_neg_integer(), term()) -> ok.
ended(_Number, normal) ->
    ok;
ended(Number, killed) ->
    Late = ~"CLUSTERDOWN this node did not answer in time",
    todana_nif:question_answer(Number, {error, Late});
ended(Number, _Reason) ->
    todana_nif:question_answer(Number, {error, ~"ERR internal error"}).

-spec answer(question()) -> todana_nif:answer().
answer({scopes}) ->
    case todana_scope_reads:scopes() of
        {ok, Scopes} ->
            {map, [{Scope, atom_to_binary(Class)} || {Scope, Class} <- Scopes]};
        Problem ->
            failure(Problem)
    end;
answer({whereis, Scope, Name}) ->
    case todana_scope_reads:name(Scope, Name) of
        {ok, _Named, {Pid, Token, Metadata}} ->
            {Node, Text} = todana_term_text:process(Pid),
            {map, [
                {~"node", Node}, {~"pid", Text}
                | [{~"token", Token} || Token =/= none]
            ] ++ [{~"metadata", term(Metadata)}]};
        none ->
            none;
        Problem ->
            failure(Problem)
    end;
answer({names, Scope, Cursor, Count}) ->
    page(todana_scope_reads:names(Scope, asked(Cursor, Count)), fun(Found) ->
        {Named, Pid, Token} = Found,
        [named(Named) | process(Pid)] ++ [Token || Token =/= none]
    end);
answer({groups, Scope, Cursor, Count}) ->
    Page = todana_scope_reads:groups(Scope, asked(Cursor, Count)),
    page(Page, fun named/1);
answer({members, Scope, Group, Cursor, Count}) ->
    Page = todana_scope_reads:members(Scope, Group, asked(Cursor, Count)),
    page(Page, fun process/1).

%% As SCAN, 0 is the beginning and the end.
-spec asked(binary(), 1..1000) -> todana_scope_reads:page().
asked(~"0", Count) -> #{cursor => start, count => Count};
asked(Cursor, Count) -> #{cursor => Cursor, count => Count}.

-spec page(
    {ok, [Item], binary() | done} | todana_scope_reads:problem(),
    fun((Item) -> todana_nif:answer())
) -> todana_nif:answer().
page({ok, Items, Cursor}, Show) ->
    Next = if Cursor =:= done -> ~"0"; true -> Cursor end,
    [Next, [Show(Item) || Item <- Items]];
page(Problem, _Show) ->
    failure(Problem).

-spec process(pid()) -> [binary()].
process(Pid) -> tuple_to_list(todana_term_text:process(Pid)).

-spec named(todana_scope_reads:named()) -> binary().
named({text, Text}) -> Text;
named({bytes, _Shown, Bytes}) -> Bytes.

-spec term(term()) -> binary().
term(Term) ->
    case todana_term_text:text(Term) of
        {ok, Text} -> Text;
        none -> term_to_binary(Term)
    end.

-spec failure(todana_scope_reads:problem()) -> {error, binary()}.
failure({error, Problem}) ->
    Sentence = todana_scope_reads:sentence(Problem),
    case Problem of
        unavailable -> {error, <<"CLUSTERDOWN ", Sentence/binary>>};
        _ -> {error, <<"ERR ", Sentence/binary>>}
    end.
