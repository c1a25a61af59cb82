%% The codec `term' for terms that the native library does not encode itself:
%% large terms, and keys that contain maps, funs, pids, ports or references.
%% native/nif/src/codec.rs documents the format.
-module(todana_codec).
-moduledoc false.

-export([
    key/2, moved/2, prefix/2, value/1, decode/1, is_ordered_key/2, pair/1,
    found/1
]).

-define(BINARY, 0).
-define(ATOM, 1).
-define(LOCAL, 2).
-define(ORDERED, 3).
-define(EXTERNAL, 131).
%% Longer keys of ordered tables are decoded on a dirty scheduler.
-define(DECODE_BYTES_MAX, 8192).
-define(INTEGER_MIN, -16#8000000000000000).
-define(INTEGER_MAX, 16#7fffffffffffffff).

%% In a key of kind ?LOCAL, {?MARK, Type, Text} represents an identifier. A
%% tuple whose first element is ?MARK becomes {?MARK, tuple, Tuple}.
-define(MARK, '$local').

-doc """
The bytes of a key. Two keys have equal bytes if and only if they are equal, now
and later, and in a durable table on all nodes.

The external format of a pid, port or reference of this node includes the node's
name, which changes when distribution starts. A key that contains one is
therefore encoded with its text (`<0.84.0>`) or its numbers, which do not
change. A fun that is not external is misuse: its bytes include the variables of
its environment, its creator, and the version of its code. So is a native record
(of Erlang/OTP 29): its bytes depend on its definition.

A durable table outlives the node, and other nodes may read it. In its keys
identifiers are those of the external format, with the node's name and creation,
so that each member of a cluster sees whose they are. Earlier versions
stored them with their text, as in a table in memory; `decode/1` reads that as
identifiers of the reading node.

An ordered table keeps other bytes, which compare like the terms:
native/nif/src/ordered_key has the format.
""".
-spec key(todana_nif:table(), term()) -> binary() | todana_nif:cause().
key(Table, Term) ->
    case todana_nif:ordered_key(Table, Term, false) of
        encode -> key(Term);
        durable -> durable_key(Term);
        dirty -> todana_nif:ordered_key_dirty(Term, false);
        Result -> Result
    end.

-doc "The bytes with which the keys of an ordered table begin that match.".
-spec prefix(todana_nif:table(), term()) -> binary() | todana_nif:cause().
prefix(Table, Prefix) ->
    case todana_nif:ordered_key(Table, Prefix, true) of
        dirty -> todana_nif:ordered_key_dirty(Prefix, true);
        Result -> Result
    end.

-spec key(term()) -> binary() | {badarg, 2, local_fun | native_record}.
key(Term) ->
    try is_local(Term) of
        false ->
            encode(Term, fun todana_external:bytes/1);
        true ->
            Bytes = todana_external:bytes(marked(Term)),
            <<?LOCAL, Bytes/binary>>
    catch
        throw:Cause -> {badarg, 2, Cause}
    end.

-spec durable_key(term()) ->
    binary() | {badarg, 2, local_fun | native_record}.
durable_key(Term) ->
    try is_local(Term) of
        _ -> encode(Term, fun todana_external:bytes/1)
    catch
        throw:Cause -> {badarg, 2, Cause}
    end.

-doc """
The bytes of a key in a table, which another table of the same codec has as
these bytes. They differ if one of the two is durable. Raises `badarg` like
`decode/1`.
""".
-spec moved(todana_nif:table(), binary()) -> binary() | todana_nif:cause().
moved(Table, <<Kind, _/binary>> = Bytes) when
    Kind =:= ?LOCAL; Kind =:= ?EXTERNAL
->
    key(Table, decode(Bytes));
moved(_Table, Bytes) ->
    Bytes.

-doc "The bytes of a value.".
-spec value(term()) -> binary().
value(Term) ->
    encode(Term, fun erlang:term_to_binary/1).

-spec encode(term(), External :: fun((term()) -> binary())) -> binary().
encode(Term, _) when is_binary(Term) ->
    <<?BINARY, Term/binary>>;
encode(Term, _) when is_atom(Term) ->
    <<?ATOM, (atom_to_binary(Term))/binary>>;
encode(Term, _) when
    is_integer(Term), Term >= ?INTEGER_MIN, Term =< ?INTEGER_MAX
->
    integer_to_binary(Term);
encode(Term, External) ->
    External(Term).

-doc """
The term that a key or value encodes. Raises `badarg` if the bytes do not encode
one.
""".
-spec decode(binary()) -> term().
decode(<<?EXTERNAL, _/binary>> = Bytes) -> binary_to_term(Bytes);
decode(<<?BINARY, Bytes/binary>>) -> Bytes;
decode(<<?ATOM, Name/binary>>) -> binary_to_atom(Name);
decode(<<?LOCAL, Bytes/binary>>) -> unmarked(binary_to_term(Bytes));
decode(<<?ORDERED, _/binary>> = Key) when byte_size(Key) > ?DECODE_BYTES_MAX ->
    todana_nif:ordered_term_dirty(Key);
decode(<<?ORDERED, _/binary>> = Key) -> todana_nif:ordered_term(Key);
decode(Bytes) -> binary_to_integer(Bytes).

-doc "Whether bytes are those of a key of this ordered table.".
-spec is_ordered_key(todana_nif:table(), binary()) ->
    boolean() | todana_nif:cause().
is_ordered_key(Table, <<?ORDERED, _/binary>> = Bytes) ->
    try key(Table, decode(Bytes)) of
        {badarg, 1, _} = Misuse -> Misuse;
        Key -> Key =:= Bytes
    catch
        error:badarg -> false
    end;
is_ordered_key(_Table, _Bytes) ->
    false.

%% Whether a term contains an identifier of this node.
-spec is_local(term()) -> boolean().
is_local([Head | Tail]) ->
    %% No short circuit: a fun after an identifier must be found.
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
is_local(Term) when is_pid(Term); is_port(Term); is_reference(Term) ->
    text(Term) =/= none;
is_local(Term) when
    Term =:= []; is_atom(Term); is_number(Term); is_bitstring(Term)
->
    false;
is_local(_) ->
    throw(native_record).

%% The type and text of an identifier of this node. The text of an identifier
%% from an earlier run of a node with this name also begins with 0; it differs
%% in its creation and does not belong to this node. References are encoded by
%% their numbers, because list_to_ref/1 does not accept references to resources.
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

%% The external format of a reference: its tag, node and creation, and its
%% numbers of 4 bytes each.
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

-doc "Decodes a record of a page if native code has not decoded it.".
-spec pair({K, V} | nonempty_improper_list(term(), term())) ->
    {K | term(), V | term()}.
pair({_Key, _Value} = Pair) -> Pair;
pair([Key | Value]) -> {maybe_decode(Key), maybe_decode(Value)}.

-doc "Decodes a value if native code has not decoded it.".
-spec found({ok | encoded, term()}) -> term().
found({ok, Value}) -> Value;
found({encoded, Bytes}) -> decode(Bytes).

-spec maybe_decode({term(), boolean()}) -> term().
maybe_decode({Term, false}) -> Term;
maybe_decode({Bytes, true}) -> decode(Bytes).
