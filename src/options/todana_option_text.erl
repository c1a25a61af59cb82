%% Texts about the options of `todana' functions, for the errors of
%% `todana_error': which options a function takes, and their values.
-module(todana_option_text).
-moduledoc false.

-export([example/1, names/1, form/2]).

-doc "An option map that suits the function.".
-spec example(atom()) -> string().
example(open) -> "#{codec => term}";
example(set_limits) -> "#{entries_max => 1000}";
example(Function) when Function =:= range; Function =:= prefix ->
    "#{limit => 10}";
example(fold_range) -> "#{reverse => true}";
example(scan) -> "#{count => 100}";
example(subscribe) -> "#{events => [put, delete]}";
example(transaction) -> "#{attempts => 10}";
example(Function) when
    Function =:= get; Function =:= get_entry; Function =:= get_many
->
    "#{read => linear}";
example(delete) -> "#{version => Version}";
example(_Function) -> "#{ttl_ms => 5000}".

-doc "The options that the function takes; `unknown` if it is not listed here.".
-spec names(atom()) -> [atom()] | unknown.
names(Function) ->
    case kind(Function) of
        none -> unknown;
        Kind -> todana_call_options:allowed(Kind)
    end.

-spec kind(atom()) -> todana_call_options:kind() | none.
kind(open) -> open;
kind(set_limits) -> limits;
kind(put) -> put;
kind(compare_and_swap) -> expiring;
kind(expire) -> expiry;
kind(update_counter) -> counter;
kind(put_many) -> many;
kind(Function) when
    Function =:= get; Function =:= get_entry; Function =:= get_many
->
    reading;
kind(fetch) -> fetch;
kind(update) -> update;
kind(transaction) -> transaction;
kind(subscribe) -> subscribe;
kind(Function) when
    Function =:= range; Function =:= prefix; Function =:= fold_range
->
    range;
kind(_Function) -> none.

-doc "The values of an option.".
-spec form(atom(), atom()) -> string().
form(Function, ttl_ms) ->
    Keeps = [put, compare_and_swap, put_many, update],
    Keep = [", or keep" || lists:member(Function, Keeps)],
    "a positive number of milliseconds, or infinity" ++ lists:append(Keep);
form(_, attempts) -> "a positive integer, or infinity";
form(_, expires_at_ms) -> "milliseconds since 1970, an integer from 0 on";
form(_, flags) -> "an integer of 32 bits, from 0 on";
form(put_many, only) -> "absent, together with atomic => true";
form(_, only) -> "absent, present or {version, Version}";
form(_, initial) -> "an integer of 64 bits";
form(_, timeout_ms) -> "a number of milliseconds of 32 bits, or infinity";
form(_, read) -> "local, bounded or linear";
form(_, type) -> "set or ordered_set";
form(_, order) ->
    "term or term_descending with codec => term; lexical, decimal, "
    "lexical_descending or decimal_descending with codec => raw";
form(_, cursor) -> "start, or the cursor of the previous page";
form(_, Name) when
    Name =:= reverse; Name =:= keys_only; Name =:= atomic; Name =:= durable
->
    "true or false";
form(_, events) ->
    "a list of put, delete, expire, evict, clear and swap that is not empty";
form(_, codec) -> "raw or term";
form(_, when_full) -> "evict or refuse";
form(_, shards) -> "an integer from 1 to 65,536";
form(_, Name) when Name =:= entries_max; Name =:= bytes_max ->
    "a positive integer, or infinity";
form(_, count) -> "a positive integer";
form(_, key) -> "a key of this table";
form(_, prefix) -> "a prefix of keys of this table";
form(_, version) -> "a version that get_entry/2 returned";
form(_, _) -> "of another form; see the documentation".
