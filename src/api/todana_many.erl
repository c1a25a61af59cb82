%% Functions on many keys: each loops over native calls of bounded length.
-module(todana_many).
-moduledoc false.

-export([get/2, put/3, delete/2]).

-define(ENCODED, 3).
%% An atomic write of more pairs runs on a dirty scheduler.
-define(PAIRS_MAX, 100).
%% Pairs or keys of one write to a durable table, and their bytes: a part has
%% more only if its first element has.
-define(PART_PAIRS_MAX, 512).
-define(PART_BYTES_MAX, (1 bsl 20)).
%% An atomic write of this many pairs holds its locks for some ten milliseconds.
-define(ATOMIC_PAIRS_MAX, 32768).

-doc "Keys that have a record, with their values.".
-spec get(todana:table(), [term()]) -> map() | todana_nif:misuse().
get(Table, Keys) when is_list(Keys) ->
    get(Table, Keys, []);
get(_Table, _Keys) ->
    {badarg, 2, not_a_list}.

-spec get(todana:table(), [term()], [{term(), {ok | encoded, term()}}]) ->
    map() | todana_nif:misuse().
get(Table, Keys, Found) ->
    case todana_nif:get_many(Table, Keys, Found) of
        {done, All} ->
            #{Key => todana_codec:found(Value) || {Key, Value} <- All};
        {more, Rest, Some} ->
            get(Table, Rest, Some);
        {encode, [Key | Rest], Some} ->
            Get = fun(K, F) -> todana_nif:get(Table, K, F) end,
            case encoded(Table, Key, Get) of
                error -> get(Table, Rest, Some);
                {badarg, _, _} = Misuse -> Misuse;
                Value -> get(Table, Rest, [{Key, Value} | Some])
            end;
        {{badarg, _, _} = Misuse, _, _} ->
            Misuse;
        Misuse ->
            Misuse
    end.

-doc "Stores pairs, in one step or one after another.".
-spec put(todana:table(), [{term(), term()}] | map(), map()) ->
    ok | {error, atom()} | todana_nif:misuse().
put(Table, Pairs, Wanted) when is_map(Pairs) ->
    put(Table, maps:to_list(Pairs), Wanted);
put(Table, Pairs, #{atomic := true} = Wanted) when is_list(Pairs) ->
    #{expires := Expires, only := Only} = Wanted,
    IfAbsent = Only =:= absent,
    IsLonger = is_longer(Pairs, ?ATOMIC_PAIRS_MAX),
    case IsLonger orelse put_all(Table, Pairs, Expires, IfAbsent, 0) of
        true ->
            {badarg, 2, {too_many_pairs, ?ATOMIC_PAIRS_MAX}};
        encode ->
            case are_pairs(Pairs) of
                true ->
                    put_encoded(Table, Pairs, Expires, IfAbsent);
                false ->
                    {badarg, 2, not_a_pair}
            end;
        Result ->
            Result
    end;
put(Table, Pairs, #{expires := Expires}) when is_list(Pairs) ->
    put_each(Table, Pairs, Expires);
put(_Table, _Pairs, _Wanted) ->
    {badarg, 2, not_a_list}.

-spec put_all(todana:table(), list(), term(), boolean(), 0..3) ->
    ok | {error, atom()} | todana_nif:misuse().
put_all(Table, Pairs, Expires, IfAbsent, Form) ->
    todana_durable:keyed(Form, fun(F) ->
        put_some(Table, Pairs, Expires, IfAbsent, F)
    end).

-spec put_some(todana:table(), list(), term(), boolean(), todana_nif:form()) ->
    dynamic().
put_some(Table, Pairs, Expires, IfAbsent, Form) ->
    case is_longer(Pairs, ?PAIRS_MAX) of
        true ->
            put_all_dirty(Table, Pairs, Expires, IfAbsent, Form);
        false ->
            case todana_nif:put_all(Table, Pairs, Expires, IfAbsent, Form) of
                dirty -> put_all_dirty(Table, Pairs, Expires, IfAbsent, Form);
                Result -> Result
            end
    end.

-spec put_all_dirty(
    todana:table(), list(), term(), boolean(), todana_nif:form()
) -> ok | {error, atom()} | todana_nif:misuse().
put_all_dirty(Table, Pairs, Expires, IfAbsent, Form) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Handle ->
            todana_nif:put_all_dirty(Handle, Pairs, Expires, IfAbsent, Form)
    end.

-spec is_longer(list(), non_neg_integer()) -> boolean().
is_longer([], _Most) -> false;
is_longer(_Pairs, 0) -> true;
is_longer([_ | Rest], Most) -> is_longer(Rest, Most - 1);
is_longer(_Improper, _Most) -> false.

-spec are_pairs(term()) -> boolean().
are_pairs([]) -> true;
are_pairs([{_, _} | Rest]) -> are_pairs(Rest);
are_pairs(_) -> false.

-spec put_encoded(todana:table(), [{term(), term()}], term(), boolean()) ->
    ok | {error, atom()} | todana_nif:misuse().
put_encoded(Table, Pairs, Expires, IfAbsent) ->
    Encoded = [
        {todana_codec:key(Table, K), todana_codec:value(V)}
     || {K, V} <- Pairs
    ],
    case [Misuse || {{badarg, _, _} = Misuse, _} <- Encoded] of
        [] -> put_all(Table, Encoded, Expires, IfAbsent, ?ENCODED);
        [Misuse | _] -> Misuse
    end.

-spec put_each(todana:table(), [{term(), term()}], term()) ->
    ok | {error, atom()} | todana_nif:misuse().
put_each(Table, Pairs, Expires) ->
    case todana_nif:put_many(Table, Pairs, Expires, 0) of
        {done, _Written} ->
            ok;
        {more, Rest, _Written} ->
            put_each(Table, Rest, Expires);
        {encode, [Pair | Rest], _Written} ->
            case put_encoded(Table, [Pair], Expires, false) of
                ok -> put_each(Table, Rest, Expires);
                Failure -> Failure
            end;
        {dirty, [Pair | Rest], _Written} ->
            case put_all_dirty(Table, [Pair], Expires, false, 0) of
                ok -> put_each(Table, Rest, Expires);
                Failure -> Failure
            end;
        {Failure, _Rest, _Written} when is_tuple(Failure) ->
            Failure;
        durable ->
            put_parts(Table, Pairs, Expires);
        Misuse ->
            Misuse
    end.

%% In a durable table each part is one write of the log.
-spec put_parts(todana:table(), [{term(), term()}], term()) ->
    ok | {error, atom()} | todana_nif:misuse().
put_parts(_Table, [], _Expires) ->
    ok;
put_parts(Table, Pairs, Expires) ->
    {Part, Rest} = part(Pairs),
    Stored =
        case put_all(Table, Part, Expires, false, 0) of
            encode -> put_encoded(Table, Part, Expires, false);
            Result -> Result
        end,
    case Stored of
        ok -> put_parts(Table, Rest, Expires);
        Failure -> Failure
    end.

%% The first elements, and the rest, which may be no proper list.
-spec part(nonempty_maybe_improper_list()) -> {term(), term()}.
part([Element | Rest]) ->
    Bytes = ?PART_BYTES_MAX - erlang:external_size(Element),
    part(Rest, ?PART_PAIRS_MAX - 1, Bytes, [Element]).

-spec part(term(), non_neg_integer(), integer(), [term()]) ->
    {term(), term()}.
part([Element | Others] = Rest, Left, BytesLeft, Part) ->
    Bytes = BytesLeft - erlang:external_size(Element),
    case Left > 0 andalso Bytes >= 0 of
        true -> part(Others, Left - 1, Bytes, [Element | Part]);
        false -> {lists:reverse(Part), Rest}
    end;
part(End, _Left, _BytesLeft, Part) ->
    {lists:reverse(Part, End), []}.

-doc "Removes records; returns the number removed.".
-spec delete(todana:table(), [term()]) ->
    non_neg_integer() | todana_nif:misuse().
delete(Table, Keys) when is_list(Keys) ->
    delete(Table, Keys, 0);
delete(_Table, _Keys) ->
    {badarg, 2, not_a_list}.

-spec delete(todana:table(), [term()], non_neg_integer()) ->
    non_neg_integer() | todana_nif:misuse().
delete(Table, Keys, Deleted) ->
    case todana_nif:delete_many(Table, Keys, Deleted) of
        {done, All} ->
            All;
        {more, Rest, Some} ->
            delete(Table, Rest, Some);
        {encode, [Key | Rest], Some} ->
            Delete = fun(K, F) -> todana_nif:delete(Table, K, always, F) end,
            case encoded(Table, Key, Delete) of
                ok -> delete(Table, Rest, Some + 1);
                error -> delete(Table, Rest, Some);
                Misuse -> Misuse
            end;
        {{badarg, _, _} = Misuse, _, _} ->
            Misuse;
        durable ->
            delete_parts(todana_nif:handle(Table), Keys, Deleted);
        Misuse ->
            Misuse
    end.

-spec delete_parts(
    reference() | todana_nif:misuse(), [term()], non_neg_integer()
) -> non_neg_integer() | {error, atom()} | todana_nif:misuse().
delete_parts({badarg, _, _} = Misuse, _Keys, _Deleted) ->
    Misuse;
delete_parts(_Handle, [], Deleted) ->
    Deleted;
delete_parts(Handle, Keys, Deleted) ->
    {Part, Rest} = part(Keys),
    case delete_part(Handle, Part, 0) of
        Number when is_integer(Number) ->
            delete_parts(Handle, Rest, Deleted + Number);
        Failure ->
            Failure
    end.

-spec delete_part(reference(), [term()], todana_nif:form()) -> dynamic().
delete_part(Handle, Keys, Form) ->
    Deleted = todana_durable:write(fun(Ref) ->
        todana_nif:delete_all(Handle, Keys, {Form, Ref})
    end),
    case Deleted of
        encode ->
            Encoded = [todana_codec:key(Handle, Key) || Key <- Keys],
            case [Misuse || {badarg, _, _} = Misuse <- Encoded] of
                [] -> delete_part(Handle, Encoded, ?ENCODED);
                [Misuse | _] -> Misuse
            end;
        Result ->
            Result
    end.

%% Calls with the encoded key, if native code does not encode it itself.
-spec encoded(
    todana:table(), term(), fun((binary(), todana_nif:form()) -> Result)
) -> Result | todana_error:cause().
encoded(Table, Key, Call) ->
    case todana_codec:key(Table, Key) of
        {badarg, _, _} = Misuse -> Misuse;
        Bytes -> Call(Bytes, ?ENCODED)
    end.
