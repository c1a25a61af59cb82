%% Subscriptions to the changes of a table.
%%
%% The native library keeps the queue, watches the subscriber and sends the
%% messages: native/nif/src/subscription.rs. No process is involved.
-module(todana_subscription).
-moduledoc false.

-export([subscribe/2, subscribe_at_seat/3, events/1, unsubscribe/1]).

-define(ENCODED, 1).

-doc "See `todana:subscribe/2`.".
-spec subscribe(todana:table(), term()) ->
    {ok, reference()}
    | {error, too_many_subscriptions}
    | todana_error:cause().
subscribe(Table, Options) ->
    case todana_call_options:read(subscribe, Options) of
        {ok, #{events := Kinds, queue_entries_max := EntriesMax} = Wanted} ->
            case is_away(Table) orelse filter(Table, Wanted) of
                true ->
                    Name = todana_away:name(Table),
                    at_seat(Name, Options, self());
                {badarg, _, _} = Misuse ->
                    Misuse;
                Filter ->
                    open(Table, Filter, Kinds, EntriesMax)
            end;
        {error, Cause} ->
            {badarg, 2, Cause}
    end.

-doc """
Subscribes another process of this guest to a durable table: the caller waits
for the seat.
""".
-spec subscribe_at_seat(todana:table(), map(), Subscriber :: pid()) ->
    dynamic().
subscribe_at_seat(Table, Options, Subscriber) ->
    case todana_away:name(Table) of
        {badarg, _, _} = Misuse -> Misuse;
        Name -> at_seat(Name, Options, Subscriber)
    end.

-spec at_seat(atom(), map(), pid()) -> dynamic().
at_seat(Name, Options, Subscriber) ->
    todana_away_events:subscribe(?MODULE, Name, Options, Subscriber).

%% Whether a member has the records, and this guest has none.
-spec is_away(todana:table()) -> boolean().
is_away(Table) ->
    todana_guest:is_guest() andalso todana_nif:is_away(Table).

-spec filter(todana:table(), map()) ->
    all | {key, term()} | {prefix, binary()} | todana_error:cause().
filter(_Table, #{key := Key}) ->
    {key, Key};
filter(Table, #{prefix := Prefix}) ->
    case todana_nif:options(Table) of
        {badarg, _, _} = Misuse -> Misuse;
        {_Name, raw, _, _, _Order, _, _} -> raw_prefix(Prefix);
        {_Name, term, _, _, nil, _, _} -> {badarg, 2, prefix_of_terms};
        {_Name, term, _, _, _Order, _, _} -> term_prefix(Table, Prefix)
    end;
filter(_Table, #{}) ->
    all.

-spec raw_prefix(term()) -> {prefix, binary()} | todana_error:cause().
raw_prefix(Prefix) ->
    try
        {prefix, iolist_to_binary(Prefix)}
    catch
        error:badarg -> {badarg, 2, {bad_option, prefix}}
    end.

-spec term_prefix(todana:table(), term()) ->
    {prefix, binary()} | todana_error:cause().
term_prefix(Table, Prefix) ->
    case todana_codec:prefix(Table, Prefix) of
        {badarg, _, _} = Misuse -> Misuse;
        Bytes -> {prefix, Bytes}
    end.

-spec open(
    todana:table(),
    all | {key, term()} | {prefix, binary()},
    [atom()],
    pos_integer()
) -> dynamic() | todana_error:cause().
open(Table, Filter, Kinds, EntriesMax) ->
    case subscribe(Table, Filter, Kinds, EntriesMax, 0) of
        encode ->
            {key, Key} = Filter,
            case todana_codec:key(Table, Key) of
                {badarg, _, _} = Misuse ->
                    Misuse;
                Bytes ->
                    Encoded = {key, Bytes},
                    subscribe(Table, Encoded, Kinds, EntriesMax, ?ENCODED)
            end;
        {badarg, 2, not_iodata} ->
            {badarg, 2, {bad_option, key}};
        Result ->
            Result
    end.

-spec subscribe(
    todana:table(),
    all | {key, term()} | {prefix, binary()},
    [atom()],
    pos_integer(),
    todana_nif:form()
) -> dynamic() | todana_nif:misuse().
subscribe(Table, Filter, Kinds, EntriesMax, Form) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse -> Misuse;
        Handle -> todana_nif:subscribe(Handle, Filter, Kinds, EntriesMax, Form)
    end.

-doc "See `todana:events/1`.".
-spec events(term()) -> [todana:event()] | todana_error:cause().
events(Subscription) ->
    case todana_nif:events(Subscription) of
        Events when is_list(Events) ->
            [event(Event) || Event <- Events];
        Misuse ->
            case todana_guest:is_guest() andalso
                todana_away_events:events(Subscription) of
                Events when is_list(Events) -> Events;
                _ -> Misuse
            end
    end.

-spec event(tuple()) -> todana:event().
event({Kind, Bytes, Version, encoded}) ->
    {Kind, todana_codec:decode(Bytes), Version};
event(Event) ->
    Event.

-doc "See `todana:unsubscribe/1`.".
-spec unsubscribe(term()) -> ok | todana_error:cause().
unsubscribe(Subscription) ->
    case todana_nif:unsubscribe(Subscription) of
        ok ->
            flush(Subscription);
        Misuse ->
            case todana_guest:is_guest() andalso
                todana_away_events:unsubscribe(Subscription) of
                ok -> flush(Subscription);
                _ -> Misuse
            end
    end.

-spec flush(reference()) -> ok.
flush(Subscription) ->
    receive
        {todana, Subscription, _} -> flush(Subscription)
    after 0 -> ok
    end.
