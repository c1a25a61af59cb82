%% The codec `term' where the native library leaves it to Erlang: large terms,
%% and keys with maps or funs inside. native/nif/src/codec.rs has the format.
-module(todana_codec).
-moduledoc false.

-export([key/1, value/1, decode/1, pair/1, found/1]).

-define(BINARY, 0).
-define(ATOM, 1).
-define(INTEGER_MIN, -16#8000000000000000).
-define(INTEGER_MAX, 16#7fffffffffffffff).

-doc "The bytes of a key: equal keys, and only they, have equal bytes.".
-spec key(term()) -> binary().
key(Term) ->
    encode(Term, [deterministic, {minor_version, 2}]).

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
decode(Bytes) -> binary_to_integer(Bytes).

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
