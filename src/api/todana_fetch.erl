%% `todana:fetch' for a missing record: one of the callers computes the value.
%%
%% `todana_flight' chooses that caller. A hit does not reach this module.
-module(todana_fetch).
-moduledoc false.

-export([miss/4]).

%% How often and how long to wait for a coordinator that is being restarted;
%% after that, each caller computes the value itself.
-define(RETRIES_MAX, 10).
-define(RETRY_MS, 10).

-doc "The value, computed by this process or by another.".
-spec miss(todana:table(), term(), fun(() -> term()), map()) ->
    {ok, term()} | {error, term()} | {badarg, pos_integer(), term()}.
miss(Table, Key, Compute, Wanted) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Handle ->
            Id = {Handle, key(todana_nif:options(Handle), Key)},
            #{timeout_ms := TimeoutMs} = Wanted,
            Deadline = deadline(TimeoutMs),
            join(Id, Table, Key, Compute, Wanted, Deadline, ?RETRIES_MAX)
    end.

%% Iodata with the same bytes is the same key.
-spec key(tuple(), term()) -> term().
key({_, raw, _, _, _, _, _}, Key) -> iolist_to_binary(Key);
key(_, Key) -> Key.

-spec join(
    {reference(), term()}, todana:table(), term(), fun(() -> term()), map(),
    integer() | infinity, non_neg_integer()
) -> {ok, term()} | {error, term()} | {badarg, pos_integer(), term()}.
join(Id, Table, Key, Compute, Wanted, Deadline, Retries) ->
    case todana_flight:join(Id, left(Deadline)) of
        {lead, Flight} ->
            lead(Flight, Table, Key, Compute, Wanted);
        {landed, Result} ->
            Result;
        timeout ->
            {error, timeout};
        recursive ->
            {badarg, 2, recursive};
        down when Retries > 0 ->
            timer:sleep(?RETRY_MS),
            join(Id, Table, Key, Compute, Wanted, Deadline, Retries - 1);
        down ->
            compute(Table, Key, Compute, Wanted)
    end.

-spec lead(
    todana_flight:flight(), todana:table(), term(), fun(() -> term()), map()
) -> {ok, term()} | {error, term()}.
lead(Flight, Table, Key, Compute, Wanted) ->
    try
        %% Another process may have stored the value since the miss.
        case todana_records:get(Table, Key) of
            {ok, _} = Found -> Found;
            error -> compute(Table, Key, Compute, Wanted)
        end
    of
        Result ->
            todana_flight:land(Flight, Result),
            Result
    catch
        Class:Reason:Stack ->
            todana_flight:abandon(Flight),
            erlang:raise(Class, Reason, Stack)
    end.

-spec compute(todana:table(), term(), fun(() -> term()), map()) ->
    {ok, term()} | {error, term()}.
compute(Table, Key, Compute, Wanted) ->
    case Compute() of
        {ok, Value} ->
            Options = maps:with([ttl_ms, expires_at_ms, flags], Wanted),
            store(Table, Key, Value, Options);
        {ok, Value, Options} ->
            store(Table, Key, Value, Options);
        {error, _} = Error ->
            Error;
        Other ->
            error({bad_return_value, Other})
    end.

%% If the table has no room, or its log does not answer in time, the caller
%% gets the value all the same.
-spec store(todana:table(), term(), term(), map()) -> {ok, term()}.
store(Table, Key, Value, Options) ->
    Allowed = maps:without([only], Options),
    case todana_records:put(Table, Key, Value, Allowed) of
        ok -> {ok, Value};
        {error, full} -> {ok, Value};
        {error, unknown} -> {ok, Value}
    end.

-spec deadline(timeout()) -> integer() | infinity.
deadline(infinity) -> infinity;
deadline(TimeoutMs) -> erlang:monotonic_time(millisecond) + TimeoutMs.

-spec left(integer() | infinity) -> timeout().
left(infinity) -> infinity;
left(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).
