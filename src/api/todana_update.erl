%% `todana:update': a function of the present value decides what to store, and
%% is called again if the record has changed meanwhile.
%%
%% Nothing is locked while the function runs. The write happens only if the
%% record is still the one that the function was given. Callers that meet at a
%% key take turns from then on: a conflict in a durable table costs a round trip
%% to the log, and who is unlucky would lose many.
-module(todana_update).
-moduledoc false.

-export([update/4]).

-type decide() :: fun(({ok, term()} | error) -> term()).
-type result() :: {ok, term()} | ok | {error, term()}.

-doc "See `todana:update/4`; options as `todana_call_options`
reads them.".
-spec update(todana:table(), term(), decide(), map()) ->
    result() | todana_error:cause().
update(Table, Key, Function, Wanted) ->
    %% The same table in all attempts, even if it is closed and another one is
    %% opened by its name.
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Handle ->
            case todana_commit:key(Handle, Key) of
                {badarg, _, _} = Misuse -> Misuse;
                Bytes -> attempt(Handle, Bytes, Function, Wanted, 1)
            end
    end.

-spec attempt(reference(), binary(), decide(), map(), pos_integer()) ->
    result() | todana_error:cause().
attempt(Table, Key, Function, Wanted, Attempt) ->
    case todana_commit:read(Table, Key) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Read ->
            case decided(Function(element(1, Read)), Key, Read, Wanted) of
                {write, Write, Result} ->
                    Checks = [{Key, element(2, Read)}],
                    case todana_commit:commit(Table, Checks, [Write]) of
                        ok ->
                            stored(Table, Result);
                        conflict ->
                            again(Table, Key, Function, Wanted, Attempt);
                        {badarg, 3, Cause} ->
                            {badarg, 3, {returned, Cause}};
                        Failure ->
                            Failure
                    end;
                {done, Result} ->
                    Result
            end
    end.

%% The result with the value as a later read returns it: a raw table stores
%% iodata as one binary.
-spec stored(todana_nif:table(), result()) -> result().
stored(Table, {ok, Value}) when not is_binary(Value) ->
    case todana_nif:options(Table) of
        Options when element(2, Options) =:= raw ->
            {ok, iolist_to_binary(Value)};
        _Term ->
            {ok, Value}
    end;
stored(_Table, Result) ->
    Result.

-spec again(reference(), binary(), decide(), map(), pos_integer()) ->
    result() | todana_error:cause().
again(_Table, _Key, _Function, #{attempts := Attempts}, Attempts) ->
    {error, conflict};
again(Table, Key, Function, Wanted, 1) ->
    todana_commit:in_turn(Table, Key, fun() ->
        attempt(Table, Key, Function, Wanted, 2)
    end);
again(Table, Key, Function, Wanted, Attempt) ->
    attempt(Table, Key, Function, Wanted, Attempt + 1).

%% The write that the function requests and the result after it, or the result
%% without a write.
-spec decided(term(), binary(), tuple(), map()) ->
    {write, todana_commit:write(), result()}
    | {done, result() | todana_error:cause()}.
decided({put, Value}, Key, Read, Wanted) ->
    {write, put(Key, Value, Read, Wanted), {ok, Value}};
decided({put, Value, Options}, Key, Read, Wanted) ->
    case todana_call_options:read(updated, Options) of
        {ok, Own} ->
            Both = maps:merge(Wanted, Own),
            {write, put(Key, Value, Read, Both), {ok, Value}};
        {error, Cause} ->
            {done, {badarg, 3, {returned, Cause}}}
    end;
decided(delete, Key, {{ok, _}, _, _}, _Wanted) ->
    {write, {Key}, ok};
decided(delete, _Key, _Absent, _Wanted) ->
    {done, ok};
decided(keep, _Key, _Read, _Wanted) ->
    {done, ok};
decided({error, _} = Error, _Key, _Read, _Wanted) ->
    {done, Error};
decided(Other, _Key, _Read, _Wanted) ->
    error({bad_return_value, Other}).

-spec put(binary(), term(), tuple(), map()) -> todana_commit:write().
put(Key, Value, Read, Wanted) ->
    #{flags := Flags, expires := Expires} =
        maps:merge(present(Read), Wanted),
    {Key, Value, Flags, Expires}.

%% The default of the options: an existing record keeps its flags and expiry, a
%% new one gets those of the table.
-spec present(tuple()) -> map().
present({error, _}) ->
    #{flags => 0, expires => table};
present({_, _, #{flags := Flags, expires_at_ms := infinity}}) ->
    #{flags => Flags, expires => never};
present({_, _, #{flags := Flags, expires_at_ms := AtMs}}) ->
    #{flags => Flags, expires => {at, AtMs}}.
