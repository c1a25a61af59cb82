%% Reads and writes of one record that need more than one native call: keys and
%% values that native code does not encode itself, writes that wait for the log,
%% and options.
%%
%% `todana' makes the first call itself.
-module(todana_records).
-moduledoc false.

-export([get/2, found/3, value/3, entry/3, on_key/4]).
-export([put/4, put_slowly/4, swap/6, create_counter/4, change_key/4]).

-type table() :: todana:table().
-type key() :: todana:key().
-type value() :: todana:value().

%% The form of keys and values that are given as the table stores them.
-define(ENCODED, 3).

-doc "See `todana:get/2`.".
-spec get(table(), key()) -> {ok, value()} | error.
get(Table, Key) ->
    found(get, [Table, Key], todana_nif:get(Table, Key)).

-doc """
The value of a key, from the answer of the first native call. `Function` and
`Arguments` are those of the call of `todana`.
""".
-spec found(atom(), [term()], term()) -> {ok, value()} | error.
found(_Function, _Arguments, {ok, _} = Found) ->
    Found;
found(_Function, _Arguments, error) ->
    error;
found(_Function, _Arguments, {encoded, Bytes}) ->
    {ok, todana_codec:decode(Bytes)};
found(Function, [Table, Key | _] = Arguments, encode) ->
    Encoded = encoded(Function, Arguments, Table, Key),
    Result = todana_nif:get(Table, Encoded, ?ENCODED),
    found(Function, Arguments, Result);
found(Function, Arguments, Misuse) ->
    todana_error:answer(Function, Arguments, Misuse).

-doc "The same, or a default.".
-spec value([term()], Default, term()) -> value() | Default.
value(Arguments, _Default, {badarg, 0, away} = Misuse) ->
    todana_error:answer(get, Arguments, Misuse);
value(Arguments, Default, Answer) ->
    case found(get, Arguments, Answer) of
        {ok, Value} -> Value;
        error -> Default
    end.

-doc "See `todana:get_entry/2,3`.".
-spec entry([term()], table(), key()) -> {ok, todana:entry()} | error.
entry(Arguments, Table, Key) ->
    Get = fun(K, Form) -> todana_nif:get_entry(Table, K, Form) end,
    case on_key(get_entry, Arguments, Key, Get) of
        {Value, Version, Flags, ExpiresAtMs, IsEncoded, _State} ->
            {ok, #{
                value =>
                    case IsEncoded of
                        true -> todana_codec:decode(Value);
                        false -> Value
                    end,
                version => Version,
                flags => Flags,
                expires_at_ms => ExpiresAtMs
            }};
        %% From a member.
        {ok, _} = Entry ->
            Entry;
        error ->
            error
    end.

-doc "See `todana:put/3`; the last argument is the first answer.".
-spec put_slowly(table(), key(), value(), term()) ->
    ok | {error, full | unknown}.
put_slowly(Table, Key, Value, encode) ->
    K = encoded(put, [Table, Key, Value], Table, Key),
    V = todana_codec:value(Value),
    case todana_nif:put(Table, K, V, ?ENCODED) of
        dirty ->
            Handle = handle(Table),
            Done = todana_nif:put_dirty(Handle, K, V, ?ENCODED),
            todana_error:answer(put, [Table, Key, Value], Done);
        Result ->
            todana_error:answer(put, [Table, Key, Value], Result)
    end;
put_slowly(Table, Key, Value, dirty) ->
    Result = todana_nif:put_dirty(handle(Table), Key, Value, 0),
    todana_error:answer(put, [Table, Key, Value], Result);
put_slowly(Table, Key, Value, durable) ->
    Result = put_durable(Table, Key, Value),
    todana_error:answer(put, [Table, Key, Value], Result);
put_slowly(Table, Key, Value, Misuse) ->
    todana_error:answer(put, [Table, Key, Value], Misuse).

-spec put_durable(table(), key(), value()) -> term().
put_durable(Table, Key, Value) ->
    case put_durable(Table, Key, Value, 0) of
        encode ->
            case todana_codec:key(Table, Key) of
                {badarg, _, _} = Misuse ->
                    Misuse;
                Bytes ->
                    Encoded = todana_codec:value(Value),
                    put_durable(Table, Bytes, Encoded, ?ENCODED)
            end;
        Result ->
            Result
    end.

-spec put_durable(table(), key(), value(), todana_nif:form()) -> term().
put_durable(Table, Key, Value, Form) ->
    todana_durable:write(fun(Ref) ->
        case todana_nif:put(Table, Key, Value, {Form, Ref}) of
            dirty ->
                Handle = handle(Table),
                todana_nif:put_dirty(Handle, Key, Value, {Form, Ref});
            Result ->
                Result
        end
    end).

-doc "See `todana:put/4`.".
-spec put(table(), key(), value(), todana:put_options()) ->
    ok | {error, full | present | absent | version_differs | unknown}.
put(Table, Key, Value, Options) ->
    Arguments = [Table, Key, Value, Options],
    Wanted = todana_error:wanted(put, Arguments, put, Options),
    case put_with(Table, Key, Value, Wanted) of
        {ok, _Version} -> ok;
        Result -> todana_error:answer(put, Arguments, Result)
    end.

-doc "See `todana:compare_and_swap/5`.".
-spec swap(
    [term()], table(), key(), todana:version(), value(), todana:put_options()
) ->
    {ok, todana:version()} | {error, absent | version_differs | full | unknown}.
swap(Arguments, Table, Key, Version, Value, Options) when
    is_integer(Version), Version >= 0, Version < 1 bsl 64
->
    Wanted0 = todana_error:wanted(
        compare_and_swap, Arguments, expiring, Options
    ),
    Wanted = Wanted0#{only => {version, Version}},
    case put_with(Table, Key, Value, Wanted) of
        {badarg, 3, Cause} ->
            %% The value is an argument later than in put/4.
            Misuse = {badarg, 4, Cause},
            todana_error:raise(compare_and_swap, Arguments, Misuse);
        Result ->
            todana_error:answer(compare_and_swap, Arguments, Result)
    end;
swap(Arguments, _Table, _Key, _Version, _Value, _Options) ->
    Misuse = {badarg, 3, not_a_version},
    todana_error:raise(compare_and_swap, Arguments, Misuse).

-spec put_with(table(), key(), value(), map()) -> term().
put_with(Table, Key, Value, Wanted) ->
    #{only := Only, expires := Expires, flags := Flags} = Wanted,
    Call = fun(K, V, Form) ->
        case todana_nif:put_with(Table, K, V, Only, Expires, Flags, Form) of
            dirty ->
                Handle = handle(Table),
                todana_nif:put_with_dirty(
                    Handle, K, V, Only, Expires, Flags, Form
                );
            Result ->
                Result
        end
    end,
    Put = fun(K, V, Form) ->
        todana_durable:keyed(Form, fun(F) -> Call(K, V, F) end)
    end,
    case Put(Key, Value, 0) of
        encode ->
            case todana_codec:key(Table, Key) of
                {badarg, _, _} = Misuse -> Misuse;
                Bytes -> Put(Bytes, todana_codec:value(Value), ?ENCODED)
            end;
        Done ->
            Done
    end.

-doc "See `todana:update_counter/4`.".
-spec create_counter(table(), key(), integer(), todana:counter_options()) ->
    {ok, integer()} | {error, not_an_integer | overflow | full | unknown}.
create_counter(Table, Key, Increment, Options) ->
    Arguments = [Table, Key, Increment, Options],
    #{initial := Initial, expires := Expires} =
        todana_error:wanted(update_counter, Arguments, counter, Options),
    Count = fun(K, Form) ->
        todana_nif:update_counter_with(
            Table, K, Increment, Initial, Expires, Form
        )
    end,
    change_key(update_counter, Arguments, Key, Count).

-doc """
Calls native code, and once more with the encoded key if it asks for that.
""".
-spec on_key(
    atom(), [term()], key(), fun((term(), todana_nif:form()) -> term())
) -> term().
on_key(Function, Arguments, Key, Call) ->
    Result =
        case Call(Key, 0) of
            encode ->
                [Table | _] = Arguments,
                Call(encoded(Function, Arguments, Table, Key), ?ENCODED);
            Done -> Done
        end,
    todana_error:answer(Function, Arguments, Result).

-doc "The same for a write, which may have to wait for the log.".
-spec change_key(
    atom(), [term()], key(), fun((term(), todana_nif:form()) -> term())
) -> term().
change_key(Function, Arguments, Key, Call) ->
    Changed =
        case Call(Key, 0) of
            durable ->
                todana_durable:write(fun(Ref) -> Call(Key, {0, Ref}) end);
            Done ->
                Done
        end,
    Result =
        case Changed of
            encode ->
                Bytes = encoded(Function, Arguments, hd(Arguments), Key),
                todana_durable:keyed(?ENCODED, fun(F) -> Call(Bytes, F) end);
            _ ->
                Changed
        end,
    todana_error:answer(Function, Arguments, Result).

%% The bytes of a key that native code does not encode itself.
-spec encoded(atom(), [term()], table(), key()) -> binary().
encoded(Function, Arguments, Table, Key) ->
    case todana_codec:key(Table, Key) of
        {badarg, _, _} = Misuse ->
            todana_error:raise(Function, Arguments, Misuse);
        Bytes ->
            Bytes
    end.

-spec handle(table()) -> reference().
handle(Table) ->
    todana_error:answer(handle, [Table], todana_nif:handle(Table)).
