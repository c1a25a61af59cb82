-module(todana_transaction).
-moduledoc """
Reads and writes within `todana:transaction/2,3`.

    transfer(From, To, Amount) ->
        todana:transaction(accounts, fun(Tx) ->
            Have = todana_transaction:get(Tx, From, 0),
            case Have >= Amount of
                true ->
                    Other = todana_transaction:get(Tx, To, 0),
                    ok = todana_transaction:put(Tx, From, Have - Amount),
                    ok = todana_transaction:put(Tx, To, Other + Amount);
                false ->
                    {error, {balance, Have}}
            end
        end).

A transaction is optimistic: it holds no lock while the function runs. It
records reads and collects writes. When the function returns `ok` or `{ok,
Result}`, the transaction locks all keys for a moment. If every record that it
has read is unchanged, it writes everything in one step; otherwise it calls the
function again. The function should therefore have no side effects.

A read returns the value that the transaction has written or read before. The
values of several keys may be from different moments. In that case the
transaction calls the function again, even if the function has raised an
exception or returned an error because of them: an exception or an error leaves
a transaction only if all values that it has read existed at one moment.

The process dictionary holds the transaction: a function that calls
`erlang:erase/0` makes it raise `transaction_erased`, and writes nothing.
""".

-export([get/2, get/3, is_key/2, put/3, put/4, delete/2, abort/2]).
%% For `todana'
-export([run/3]).

-export_type([tx/0]).

-doc """
A running transaction. It can be used by the process that runs it, until its
function returns.
""".
-opaque tx() :: reference().

-define(STATE, '$todana_transaction').

%% The transaction that this process runs, in the process dictionary.
-record(state, {
    tx :: tx(),
    table :: todana:table(),
    codec :: raw | term,
    reads = #{} :: #{
        binary() => {todana_commit:state(), {ok, term()} | error}
    },
    writes = #{} :: #{binary() => todana_commit:write()},
    %% Set by `abort/2', in case the function catches its exception.
    aborted = none :: none | {error, term()}
}).

%% ------------------------------------------------------- inside the function

-doc "The value of a key.".
-spec get(tx(), todana:key()) -> {ok, todana:value()} | error.
get(Tx, Key) ->
    read(Tx, Key, get, [Tx, Key]).

-doc "The value of a key, or a default.".
-spec get(tx(), todana:key(), Default) -> todana:value() | Default.
get(Tx, Key, Default) ->
    case read(Tx, Key, get, [Tx, Key, Default]) of
        {ok, Value} -> Value;
        error -> Default
    end.

-doc "Whether there is a record.".
-spec is_key(tx(), todana:key()) -> boolean().
is_key(Tx, Key) ->
    read(Tx, Key, is_key, [Tx, Key]) =/= error.

-doc "Stores a value: `put/4` without options.".
-spec put(tx(), todana:key(), todana:value()) -> ok.
put(Tx, Key, Value) ->
    put([Tx, Key, Value], Tx, Key, Value, #{}).

-doc """
Stores a value with `ttl_ms`, `expires_at_ms` and `flags`, as `todana:put/4`
does. A time to live begins when the transaction commits.
""".
-spec put(tx(), todana:key(), todana:value(), todana:put_options()) -> ok.
put(Tx, Key, Value, Options) ->
    put([Tx, Key, Value, Options], Tx, Key, Value, Options).

-spec put([term()], tx(), term(), term(), map()) -> ok.
put(Arguments, Tx, Key, Value, Options) ->
    State = state(Tx, put, Arguments),
    Bytes = key(State, Key, put, Arguments),
    Stored = value(State, Value, Arguments),
    case todana_call_options:read(expiring, Options) of
        {ok, #{flags := Flags, expires := Expires}} ->
            write(State, Bytes, {Bytes, Stored, Flags, Expires});
        {error, {unknown_option, only}} ->
            Cause = {not_in_a_transaction, only},
            raise(put, Arguments, {badarg, length(Arguments), Cause});
        {error, Cause} ->
            raise(put, Arguments, {badarg, length(Arguments), Cause})
    end.

-doc "Removes a record, if there is one.".
-spec delete(tx(), todana:key()) -> ok.
delete(Tx, Key) ->
    State = state(Tx, delete, [Tx, Key]),
    Bytes = key(State, Key, delete, [Tx, Key]),
    write(State, Bytes, {Bytes}).

-doc """
Ends the transaction from anywhere within its function: nothing is written, and
`todana:transaction/2` returns `{error, Reason}`.
""".
-spec abort(tx(), term()) -> no_return().
abort(Tx, Reason) ->
    State = state(Tx, abort, [Tx, Reason]),
    erlang:put(?STATE, State#state{aborted = {error, Reason}}),
    throw({?STATE, Tx}).

-spec read(tx(), term(), atom(), [term()]) -> {ok, term()} | error.
read(Tx, Key, Function, Arguments) ->
    State = state(Tx, Function, Arguments),
    Bytes = key(State, Key, Function, Arguments),
    case State of
        #state{writes = #{Bytes := {_, Value, _, _}}} -> {ok, Value};
        #state{writes = #{Bytes := {_}}} -> error;
        #state{reads = #{Bytes := {_, Read}}} -> Read;
        #state{} -> read_now(State, Bytes, Function, Arguments)
    end.

-spec read_now(#state{}, binary(), atom(), [term()]) -> {ok, term()} | error.
read_now(State, Bytes, Function, Arguments) ->
    #state{table = Table, reads = Reads} = State,
    {KeyState, Read} =
        case todana_commit:read(Table, Bytes) of
            {badarg, _, _} = Misuse -> raise(Function, Arguments, Misuse);
            {error, Absent} -> {Absent, error};
            {Found, Present, _} -> {Present, Found}
        end,
    erlang:put(?STATE, State#state{reads = Reads#{Bytes => {KeyState, Read}}}),
    Read.

-spec write(#state{}, binary(), todana_commit:write()) -> ok.
write(#state{writes = Writes} = State, Bytes, Write) ->
    erlang:put(?STATE, State#state{writes = Writes#{Bytes => Write}}),
    ok.

-spec state(tx(), atom(), [term()]) -> #state{}.
state(Tx, Function, Arguments) ->
    case erlang:get(?STATE) of
        #state{tx = Tx} = State -> State;
        _ -> raise(Function, Arguments, {badarg, 1, no_transaction})
    end.

-spec key(#state{}, term(), atom(), [term()]) -> binary().
key(#state{table = Table}, Key, Function, Arguments) ->
    case todana_commit:key(Table, Key) of
        {badarg, _, _} = Misuse -> raise(Function, Arguments, Misuse);
        Bytes -> Bytes
    end.

%% The value as a later read returns it.
-spec value(#state{}, term(), [term()]) -> term().
value(#state{codec = term}, Value, _Arguments) ->
    Value;
value(#state{codec = raw}, Value, Arguments) ->
    try
        iolist_to_binary(Value)
    catch
        error:badarg -> raise(put, Arguments, {badarg, 3, not_iodata})
    end.

-spec raise(atom(), [term()], todana_error:cause()) -> no_return().
raise(Function, Arguments, Misuse) ->
    todana_error:raise(?MODULE, Function, Arguments, Misuse).

%% --------------------------------------------------------- the transaction

-doc false.
-spec run(todana:table(), fun((tx()) -> term()), map()) ->
    ok | {ok, term()} | {error, term()} | todana_error:cause().
run(Table, Function, #{attempts := Attempts}) ->
    case {erlang:get(?STATE), todana_nif:handle(Table)} of
        {#state{}, _} ->
            {badarg, 2, nested_transaction};
        {undefined, {badarg, _, _} = Misuse} ->
            Misuse;
        {undefined, Handle} ->
            %% The same table in all attempts, also if it is closed and another
            %% is opened by its name.
            case todana_tables:info(Handle) of
                #{codec := Codec} ->
                    attempt(Handle, Codec, Function, Attempts, 1);
                Misuse ->
                    Misuse
            end
    end.

-spec attempt(
    todana:table(),
    raw | term,
    fun((tx()) -> term()),
    pos_integer() | infinity,
    pos_integer()
) -> ok | {ok, term()} | {error, term()} | todana_error:cause().
attempt(Table, Codec, Function, Attempts, Attempt) ->
    Tx = make_ref(),
    erlang:put(?STATE, #state{tx = Tx, table = Table, codec = Codec}),
    {Outcome, State} =
        try
            {{returned, Function(Tx)}, erase(?STATE)}
        catch
            Class:Reason:Stack ->
                {{Class, Reason, Stack}, erase(?STATE)}
        end,
    case ended(Outcome, State) of
        conflict when Attempt < Attempts ->
            ok = todana_commit:pause(Attempt),
            attempt(Table, Codec, Function, Attempts, Attempt + 1);
        conflict ->
            {error, conflict};
        {raise, Class1, Reason1, Stack1} ->
            erlang:raise(Class1, Reason1, Stack1);
        Result ->
            Result
    end.

%% Accepts the outcome of the function only if all values that it has read
%% existed at one moment.
-spec ended(tuple(), #state{} | undefined) ->
    ok
    | {ok, term()}
    | {error, term()}
    | conflict
    | {raise, error | exit | throw, term(), list()}
    | todana_error:cause().
ended(_Outcome, undefined) ->
    %% Without the record of what was read there is nothing to check.
    error(transaction_erased);
ended(_Outcome, #state{aborted = {error, _} = Error} = State) ->
    if_held(State, Error);
ended({returned, Result}, #state{writes = Writes} = State) when
    Result =:= ok;
    is_tuple(Result), tuple_size(Result) =:= 2, element(1, Result) =:= ok
->
    commit(State, maps:values(Writes), Result);
ended({returned, {error, _} = Error}, State) ->
    if_held(State, Error);
ended({returned, Other}, State) ->
    Stack = element(2, process_info(self(), current_stacktrace)),
    if_held(State, {raise, error, {bad_return_value, Other}, Stack});
ended({Class, Reason, Stack}, State) ->
    if_held(State, {raise, Class, Reason, Stack}).

-spec if_held(#state{}, Result) ->
    Result | conflict | {error, too_large} | todana_error:cause().
if_held(State, Result) ->
    commit(State, [], Result).

-spec commit(#state{}, [todana_commit:write()], Result) ->
    Result | conflict | {error, full | too_large} | todana_error:cause().
commit(#state{reads = Reads}, [], Result) when map_size(Reads) < 2 ->
    Result;
commit(#state{table = Table, reads = Reads}, Writes, Result) ->
    Checks = [{Key, State} || Key := {State, _} <- Reads],
    case todana_commit:commit(Table, Checks, Writes) of
        ok -> Result;
        {badarg, 3, Cause} -> {badarg, 2, {returned, Cause}};
        Failure -> Failure
    end.
