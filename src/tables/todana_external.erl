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

-define(VERSION, 131).
-define(SMALL_TUPLE, 104).
-define(LARGE_TUPLE, 105).
-define(NIL, 106).
-define(STRING, 107).
-define(LIST, 108).
-define(MAP, 116).
-define(SMALL_TUPLE_MAX, 255).
-define(STRING_MAX, 16#ffff).

-doc "The bytes of a term. Two terms have equal bytes if they match.".
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
    Elements = all_written(tuple_to_list(Tuple)),
    case tuple_size(Tuple) of
        Size when Size =< ?SMALL_TUPLE_MAX -> [?SMALL_TUPLE, Size | Elements];
        Size -> [?LARGE_TUPLE, <<Size:32>> | Elements]
    end;
written([_ | _] = List) ->
    {Elements, Tail} = split(List, []),
    Length = length(Elements),
    IsString = Tail =:= [] andalso Length =< ?STRING_MAX andalso
        lists:all(fun is_byte/1, Elements),
    case IsString of
        true -> [?STRING, <<Length:16>>, Elements];
        false -> [?LIST, <<Length:32>>, all_written(Elements), written(Tail)]
    end;
written([]) ->
    [?NIL];
written(Map) when is_map(Map) ->
    [
        ?MAP, <<(map_size(Map)):32>>
        | [[Key, written(Value)] || {Key, Value} <- ordered(Map)]
    ];
written(Term) ->
    <<?VERSION, Bytes/binary>> = deterministic(Term),
    Bytes.

-spec all_written([term()]) -> [iodata()].
all_written(Terms) -> [written(Term) || Term <- Terms].

-spec split(term(), [term()]) -> {[term()], Tail :: term()}.
split([Head | Tail], Before) -> split(Tail, [Head | Before]);
split(Tail, Before) -> {lists:reverse(Before), Tail}.

-spec is_byte(term()) -> boolean().
is_byte(Term) -> is_integer(Term) andalso Term >= 0 andalso Term =< 255.

%% The keys' bytes, with the values.
-spec ordered(map()) -> [{binary(), term()}].
ordered(Map) ->
    case has_map(maps:keys(Map)) of
        false ->
            [
                {iolist_to_binary(written(Key)), Value}
             || {Key, Value} <- maps:to_list(maps:iterator(Map, ordered))
            ];
        true ->
            lists:keysort(1, [
                {iolist_to_binary(written(Key)), Value}
             || Key := Value <- Map
            ])
    end.
