%% The external format of a term, with the same bytes at each node, in each run.
%%
%% `term_to_binary/2' with `deterministic' orders the keys of a map as terms
%% compare, but keys with maps in them by the numbers that this node gave to
%% atoms (Erlang/OTP 29), so that nodes with other atoms write other bytes.
%% Maps with such keys are therefore written here, in the order of the keys'
%% bytes.
-module(todana_external).
-moduledoc false.

-export([bytes/1]).
%% Parts of the format: without the version.
-export([tuple/1, list/3, nil/0, map/1]).

-define(VERSION, 131).
-define(SMALL_TUPLE, 104).
-define(LARGE_TUPLE, 105).
-define(NIL, 106).
-define(STRING, 107).
-define(LIST, 108).
-define(MAP, 116).
-define(SMALL_TUPLE_MAX, 255).
-define(STRING_MAX, 16#ffff).

-doc "The bytes of a term. Terms that match, and no others, have the same.".
-spec bytes(term()) -> binary().
bytes(Term) ->
    case has_map_in_key(Term) of
        false -> deterministic(Term);
        true -> iolist_to_binary([?VERSION, written(Term)])
    end.

-spec deterministic(term()) -> binary().
deterministic(Term) ->
    term_to_binary(Term, [deterministic, {minor_version, 2}]).

%% Whether a map has a key with a map in it.
-spec has_map_in_key(term()) -> boolean().
has_map_in_key([Head | Tail]) ->
    has_map_in_key(Head) orelse has_map_in_key(Tail);
has_map_in_key(Tuple) when is_tuple(Tuple) ->
    has_map_in_key(tuple_to_list(Tuple));
has_map_in_key(Map) when is_map(Map) ->
    has_map(maps:keys(Map)) orelse has_map_in_key(maps:values(Map));
has_map_in_key(_Term) ->
    false.

-spec has_map(term()) -> boolean().
has_map([Head | Tail]) -> has_map(Head) orelse has_map(Tail);
has_map(Tuple) when is_tuple(Tuple) -> has_map(tuple_to_list(Tuple));
has_map(Term) -> is_map(Term).

%% Without the version.
-spec written(term()) -> iodata().
written(Tuple) when is_tuple(Tuple) ->
    tuple([written(Element) || Element <- tuple_to_list(Tuple)]);
written([_ | _] = List) ->
    {Elements, Tail} = split(List, []),
    list(Elements, fun written/1, written(Tail));
written([]) ->
    nil();
written(Map) when is_map(Map) ->
    map([{Key, written(Value)} || {Key, Value} <- ordered(Map)]);
written(Term) ->
    <<?VERSION, Bytes/binary>> = deterministic(Term),
    Bytes.

-spec split(term(), [term()]) -> {[term()], Tail :: term()}.
split([Head | Tail], Before) -> split(Tail, [Head | Before]);
split(Tail, Before) -> {lists:reverse(Before), Tail}.

%% The keys' bytes, with the values.
-spec ordered(map()) -> [{binary(), term()}].
ordered(Map) ->
    Pairs = [
        {iolist_to_binary(written(Key)), Value}
     || {Key, Value} <- maps:to_list(maps:iterator(Map, ordered))
    ],
    case has_map(maps:keys(Map)) of
        true -> lists:keysort(1, Pairs);
        false -> Pairs
    end.

-doc "A tuple of elements, which are written.".
-spec tuple([iodata()]) -> iodata().
tuple(Elements) ->
    case length(Elements) of
        Size when Size =< ?SMALL_TUPLE_MAX -> [?SMALL_TUPLE, Size | Elements];
        Size -> [?LARGE_TUPLE, <<Size:32>> | Elements]
    end.

-doc "A list of one element or more, before a tail that is written.".
-spec list([Element, ...], fun((Element) -> iodata()), Tail :: iodata()) ->
    iodata().
list(Elements, Write, Tail) ->
    Length = length(Elements),
    IsString = Tail =:= nil() andalso Length =< ?STRING_MAX andalso
        lists:all(fun is_byte/1, Elements),
    case IsString of
        true ->
            [?STRING, <<Length:16>>, Elements];
        false ->
            Written = [Write(Element) || Element <- Elements],
            [?LIST, <<Length:32>>, Written, Tail]
    end.

-spec is_byte(term()) -> boolean().
is_byte(Term) -> is_integer(Term) andalso Term >= 0 andalso Term =< 255.

-spec nil() -> iodata().
nil() -> [?NIL].

-doc "A map of keys and values, which are written, in the order of the keys.".
-spec map([{Key :: iodata(), Value :: iodata()}]) -> iodata().
map(Pairs) ->
    [?MAP, <<(length(Pairs)):32>> | [[Key, Value] || {Key, Value} <- Pairs]].
