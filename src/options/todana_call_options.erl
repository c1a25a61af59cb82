%% Checks the option maps of the API and converts them for native code.
-module(todana_call_options).
-moduledoc false.

-export([read/2, allowed/1]).

-export_type([kind/0]).

-type kind() ::
    open
    | limits
    | put
    | expiring
    | expiry
    | counter
    | many
    | reading
    | fetch
    | update
    | updated
    | transaction
    | subscribe
    | range.

%% Limits the work of functions that visit all shards, for example clear.
-define(SHARDS_MAX, 65_536).
%% Maximum number of records in a page of a range.
-define(LIMIT_MAX, 1000).
%% How often an update or a transaction is attempted.
-define(ATTEMPTS, 100).

-define(IS_RAW_ORDER(Order),
    (Order =:= lexical orelse Order =:= decimal orelse
        Order =:= lexical_descending orelse Order =:= decimal_descending)
).
-define(IS_TERM_ORDER(Order),
    (Order =:= term orelse Order =:= term_descending)
).
%% Events in the queue of a subscription: maximum and default.
-define(QUEUE_ENTRIES_MAX, 1_048_576).
-define(QUEUE_ENTRIES_DEFAULT, 16_384).
%% The kinds of events.
-define(EVENTS, [put, delete, expire, evict, clear, swap]).

-doc "All options of this kind, with defaults; or the cause of the error.".
-spec read(kind(), term()) -> {ok, map()} | {error, term()}.
read(Kind, Options) when is_map(Options) ->
    Allowed = allowed(Kind),
    case maps:keys(maps:without(Allowed, Options)) of
        [] -> check(Kind, Options);
        [Unknown | _] -> {error, {unknown_option, Unknown}}
    end;
read(_Kind, _Options) ->
    {error, not_a_map}.

-doc "The names of the options of this kind.".
-spec allowed(kind()) -> [atom()].
allowed(open) ->
    [
        type, order, codec, ttl_ms, entries_max, bytes_max, when_full, durable,
        shards
    ];
allowed(limits) -> [ttl_ms, entries_max, bytes_max, when_full];
allowed(range) -> [limit, reverse, keys_only, cursor];
allowed(put) -> [ttl_ms, expires_at_ms, flags, only];
allowed(expiring) -> [ttl_ms, expires_at_ms, flags];
allowed(expiry) -> [ttl_ms, expires_at_ms];
allowed(counter) -> [initial, ttl_ms, expires_at_ms];
allowed(reading) -> [read];
allowed(many) -> [atomic, only, ttl_ms, expires_at_ms];
allowed(fetch) -> [timeout_ms, ttl_ms, expires_at_ms, flags];
allowed(update) -> [attempts, ttl_ms, expires_at_ms, flags];
allowed(updated) -> [ttl_ms, expires_at_ms, flags];
allowed(transaction) -> [attempts];
allowed(subscribe) -> [key, prefix, events, queue_entries_max].

-spec check(kind(), map()) -> {ok, map()} | {error, term()}.
check(_Kind, #{ttl_ms := _, expires_at_ms := _}) ->
    {error, {conflicting_options, ttl_ms, expires_at_ms}};
check(expiry, Options) when map_size(Options) =:= 0 ->
    {error, no_time};
check(subscribe, #{key := _, prefix := _}) ->
    {error, {conflicting_options, key, prefix}};
check(open, #{durable := true, entries_max := Max}) when Max =/= infinity ->
    {error, {conflicting_options, durable, entries_max}};
check(open, #{durable := true, bytes_max := Max}) when Max =/= infinity ->
    {error, {conflicting_options, durable, bytes_max}};
check(open, #{durable := true, when_full := _}) ->
    {error, {conflicting_options, durable, when_full}};
check(many, #{only := _} = Options) when
    not is_map_key(atomic, Options); not map_get(atomic, Options)
->
    {error, {bad_option, only}};
check(open, #{order := _} = Options) when
    not is_map_key(type, Options); map_get(type, Options) =/= ordered_set
->
    {error, {needs, order, type, ordered_set}};
check(open, #{order := Order, codec := term}) when ?IS_RAW_ORDER(Order) ->
    {error, {needs, {order, Order}, codec, raw}};
check(open, #{order := Order} = Options) when
    ?IS_TERM_ORDER(Order),
    not is_map_key(codec, Options) orelse map_get(codec, Options) =:= raw
->
    {error, {needs, {order, Order}, codec, term}};
check(Kind, Options) ->
    Bad = [N || {N, V} <- maps:to_list(Options), not is_good(Kind, N, V)],
    case lists:sort(Bad) of
        [] -> {ok, defaults(Kind, Options)};
        [limit | _] when Kind =:= range ->
            {error, {not_between, limit, 1, ?LIMIT_MAX}};
        [queue_entries_max | _] ->
            Name = queue_entries_max,
            {error, {not_between, Name, 1, ?QUEUE_ENTRIES_MAX}};
        [Name | _] ->
            {error, {bad_option, Name}}
    end.

-define(IS_POSITIVE(N), is_integer(N), N > 0, N < 1 bsl 63).
-define(IS_INT64(N), is_integer(N), N >= -(1 bsl 63), N < 1 bsl 63).

-spec is_good(kind(), atom(), term()) -> boolean().
is_good(_, ttl_ms, N) when ?IS_POSITIVE(N) -> true;
is_good(_, ttl_ms, infinity) -> true;
is_good(Kind, ttl_ms, keep) ->
    lists:member(Kind, [put, expiring, many, update, updated]);
is_good(_, attempts, infinity) -> true;
is_good(_, attempts, N) when ?IS_POSITIVE(N) -> true;
is_good(_, expires_at_ms, N) -> is_integer(N) andalso N >= 0
    andalso N < 1 bsl 63;
is_good(_, flags, N) -> is_integer(N) andalso N >= 0 andalso N < 1 bsl 32;
is_good(put, only, {version, N}) -> is_integer(N) andalso N >= 0
    andalso N < 1 bsl 64;
is_good(put, only, Only) -> Only =:= absent orelse Only =:= present;
is_good(many, only, Only) -> Only =:= absent;
is_good(reading, read, Level) ->
    lists:member(Level, [local, bounded, linear]);
is_good(_, atomic, Atomic) -> is_boolean(Atomic);
is_good(_, durable, Durable) -> is_boolean(Durable);
is_good(_, initial, N) when ?IS_INT64(N) -> true;
is_good(_, timeout_ms, infinity) -> true;
is_good(_, timeout_ms, N) -> is_integer(N) andalso N >= 0
    andalso N < 1 bsl 32;
is_good(_, type, Type) -> Type =:= set orelse Type =:= ordered_set;
is_good(_, order, Order) ->
    ?IS_RAW_ORDER(Order) orelse ?IS_TERM_ORDER(Order);
is_good(range, limit, N) -> is_integer(N) andalso N > 0
    andalso N =< ?LIMIT_MAX;
is_good(_, cursor, start) -> true;
is_good(_, cursor, {cursor, Key}) -> is_binary(Key);
is_good(_, Flag, Value) when Flag =:= reverse; Flag =:= keys_only ->
    is_boolean(Value);
is_good(subscribe, Keys, _) when Keys =:= key; Keys =:= prefix -> true;
is_good(subscribe, events, Kinds) when
    is_list(Kinds), length(Kinds) > 0
->
    lists:all(
        fun(Kind) -> lists:member(Kind, ?EVENTS) end,
        Kinds
    );
is_good(_, queue_entries_max, N) -> is_integer(N) andalso N > 0
    andalso N =< ?QUEUE_ENTRIES_MAX;
is_good(_, codec, Codec) -> Codec =:= raw orelse Codec =:= term;
is_good(_, when_full, What) -> What =:= evict orelse What =:= refuse;
is_good(_, shards, N) -> is_integer(N) andalso N > 0
    andalso N =< ?SHARDS_MAX;
is_good(_, Limit, infinity) when
    Limit =:= entries_max; Limit =:= bytes_max
-> true;
is_good(_, Limit, N) when
    Limit =:= entries_max, ?IS_POSITIVE(N);
    Limit =:= bytes_max, ?IS_POSITIVE(N)
-> true;
is_good(_, _, _) -> false.

-spec defaults(kind(), map()) -> map().
defaults(limits, Options) ->
    Options;
defaults(open, Options) ->
    maps:merge(
        #{
            order => order(Options),
            type => set,
            codec => raw,
            ttl_ms => infinity,
            entries_max => infinity,
            bytes_max => infinity,
            when_full => evict,
            durable => false
        },
        Options
    );
defaults(range, Options) ->
    maps:merge(
        #{
            limit => 100,
            reverse => false,
            keys_only => false,
            cursor => start
        },
        Options
    );
defaults(transaction, Options) ->
    maps:merge(#{attempts => ?ATTEMPTS}, Options);
defaults(update, Options) ->
    maps:merge(#{attempts => ?ATTEMPTS}, defaults(updated, Options));
defaults(updated, Options) ->
    %% Only what was asked for: the rest is as the record has it.
    case expires(Options) of
        Kept when Kept =:= table; Kept =:= keep ->
            maps:with([attempts, flags], Options);
        Expires ->
            (maps:with([attempts, flags], Options))#{expires => Expires}
    end;
defaults(subscribe, Options) ->
    maps:merge(
        #{
            events => ?EVENTS,
            queue_entries_max => ?QUEUE_ENTRIES_DEFAULT
        },
        Options
    );
defaults(_Kind, Options) ->
    Defaults = #{
        only => always,
        flags => 0,
        atomic => false,
        initial => 0,
        timeout_ms => 5000
    },
    (maps:merge(Defaults, Options))#{expires => expires(Options)}.

-spec order(map()) -> lexical | term | nil.
order(#{type := ordered_set, codec := term}) -> term;
order(#{type := ordered_set}) -> lexical;
order(#{}) -> nil.

-spec expires(map()) -> table | never | keep | {ttl | at, non_neg_integer()}.
expires(#{ttl_ms := infinity}) -> never;
expires(#{ttl_ms := keep}) -> keep;
expires(#{ttl_ms := TtlMs}) -> {ttl, TtlMs};
expires(#{expires_at_ms := AtMs}) -> {at, AtMs};
expires(#{}) -> table.
