%% The codec `term' where the native library leaves it to Erlang: large terms,
%% and keys with maps, funs, pids, ports or references inside.
%% native/nif/src/codec.rs has the format.
-module(todana_codec).
-moduledoc false.

-export([key/1, value/1, decode/1, pair/1, found/1]).

-define(BINARY, 0).
-define(ATOM, 1).
-define(LOCAL, 2).
-define(INTEGER_MIN, -16#8000000000000000).
-define(INTEGER_MAX, 16#7fffffffffffffff).

%% Marks what stands for an identifier in a key of kind ?LOCAL: {?MARK, Type,
%% Text}. A tuple that begins with it becomes {?MARK, tuple, Tuple}.
-define(MARK, '$local').

-doc """
The bytes of a key: equal keys, and only they, have equal bytes, now and later.

The external format of a pid, port or reference of this node holds the node's
name, which changes when distribution starts. So a key with one inside is kept
with their texts (`<0.84.0>`) or numbers, which do not. A fun, unless it is
external, is misuse: its bytes hold all that it closes over, its creator, and
its code's version.
""".
-spec key(term()) -> binary() | {badarg, 2, local_fun}.
key(Term) ->
    try is_local(Term) of
        false ->
            encode(Term, [deterministic]);
        true ->
            Bytes = term_to_binary(marked(Term), [deterministic]),
            <<?LOCAL, Bytes/binary>>
    catch
        throw:local_fun -> {badarg, 2, local_fun}
    end.

-doc "The bytes of a value.".
-spec value(term()) -> binary().
value(Term) ->
    encode(Term, []).

-spec encode(term(), list()) -> binary().
encode(Term, _) when is_binary(Term) ->
    <<?BINARY, Term/binary>>;
encode(Term, _) when is_atom(Term) ->
    <<?ATOM, (atom_to_binary(Term))/binary>>;
encode(Term, _) when
    is_integer(Term), Term >= ?INTEGER_MIN, Term =< ?INTEGER_MAX
->
    integer_to_binary(Term);
encode(Term, Options) ->
    term_to_binary(Term, Options).

-doc "The term that `key/1` or `value/1` encoded.".
-spec decode(binary()) -> term().
decode(<<131, _/binary>> = Bytes) -> binary_to_term(Bytes);
decode(<<?BINARY, Bytes/binary>>) -> Bytes;
decode(<<?ATOM, Name/binary>>) -> binary_to_atom(Name);
decode(<<?LOCAL, Bytes/binary>>) -> unmarked(binary_to_term(Bytes));
decode(Bytes) -> binary_to_integer(Bytes).

%% Whether there is an identifier of this node in a term.
-spec is_local(term()) -> boolean().
is_local([Head | Tail]) ->
    %% Both, so that a fun behind an identifier is found.
    is_local(Head) or is_local(Tail);
is_local(Tuple) when is_tuple(Tuple) ->
    is_local(tuple_to_list(Tuple));
is_local(Map) when is_map(Map) ->
    is_local(maps:to_list(Map));
is_local(Fun) when is_function(Fun) ->
    case erlang:fun_info(Fun, type) of
        {type, external} -> false;
        {type, local} -> throw(local_fun)
    end;
is_local(Term) ->
    text(Term) =/= none.

%% The type and text of an identifier of this node. In a text, the node is 0,
%% but so it is for what an earlier run of a node of this name made: that is
%% told by its creation, and is not ours. References go by their numbers:
%% list_to_ref/1 does not take those that name a resource.
-spec text(term()) -> {pid | port | reference, binary()} | none.
text(Pid) when is_pid(Pid) ->
    case pid_to_list(Pid) of
        "<0." ++ _ = Text -> text(pid, Text, list_to_pid(Text) =:= Pid);
        _ -> none
    end;
text(Port) when is_port(Port) ->
    case port_to_list(Port) of
        "#Port<0." ++ _ = Text -> text(port, Text, list_to_port(Text) =:= Port);
        _ -> none
    end;
text(Reference) when is_reference(Reference) ->
    {_, Node, Numbers} = parts(Reference),
    case parts(make_ref()) of
        {_, Node, _} -> {reference, Numbers};
        _ -> none
    end;
text(_Term) ->
    none.

-spec text(pid | port, string(), boolean()) -> {pid | port, binary()} | none.
text(Type, Text, true) -> {Type, list_to_binary(Text)};
text(_Type, _Text, false) -> none.

%% The external format of a reference: what it begins with, node and creation,
%% and its numbers of 4 bytes each.
-spec parts(reference()) -> {binary(), binary(), binary()}.
parts(Reference) ->
    <<Head:2/binary, Count:16, Rest/binary>> = term_to_binary(Reference),
    {Node, Numbers} = split_binary(Rest, byte_size(Rest) - 4 * Count),
    {Head, Node, Numbers}.

-spec marked(term()) -> term().
marked([Head | Tail]) ->
    [marked(Head) | marked(Tail)];
marked(Tuple) when is_tuple(Tuple), tuple_size(Tuple) > 0 ->
    Marked = list_to_tuple(marked(tuple_to_list(Tuple))),
    case element(1, Tuple) of
        ?MARK -> {?MARK, tuple, Marked};
        _ -> Marked
    end;
marked(Map) when is_map(Map) ->
    #{marked(Key) => marked(Value) || Key := Value <- Map};
marked(Term) ->
    case text(Term) of
        {Type, Text} -> {?MARK, Type, Text};
        none -> Term
    end.

-spec unmarked(term()) -> term().
unmarked([Head | Tail]) ->
    [unmarked(Head) | unmarked(Tail)];
unmarked({?MARK, pid, Text}) ->
    list_to_pid(binary_to_list(Text));
unmarked({?MARK, port, Text}) ->
    list_to_port(binary_to_list(Text));
unmarked({?MARK, reference, Numbers}) ->
    {Head, Node, _} = parts(make_ref()),
    Count = byte_size(Numbers) div 4,
    binary_to_term(<<Head/binary, Count:16, Node/binary, Numbers/binary>>);
unmarked({?MARK, tuple, Tuple}) ->
    list_to_tuple(unmarked(tuple_to_list(Tuple)));
unmarked(Tuple) when is_tuple(Tuple) ->
    list_to_tuple(unmarked(tuple_to_list(Tuple)));
unmarked(Map) when is_map(Map) ->
    #{unmarked(Key) => unmarked(Value) || Key := Value <- Map};
unmarked(Term) ->
    Term.

-doc "A record of a page, which native code may have left encoded.".
-spec pair({K, V} | nonempty_improper_list(term(), term())) ->
    {K | term(), V | term()}.
pair({_Key, _Value} = Pair) -> Pair;
pair([Key | Value]) -> {maybe_decode(Key), maybe_decode(Value)}.

-doc "A value that was found.".
-spec found({ok | encoded, term()}) -> term().
found({ok, Value}) -> Value;
found({encoded, Bytes}) -> decode(Bytes).

-spec maybe_decode({term(), boolean()}) -> term().
maybe_decode({Term, false}) -> Term;
maybe_decode({Bytes, true}) -> decode(Bytes).
