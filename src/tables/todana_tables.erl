%% Opens and closes tables, one at a time.
%%
%% This process does not own the tables: they are in the native registry, where
%% a restarted process finds them. It keeps a persistent term for each handle,
%% so that a closed table is freed only when no process can still access it;
%% native/nif/src/tables.rs explains how.
-module(todana_tables).
-moduledoc false.
-behaviour(gen_server).

-export([open_in_memory/2, open_kept/1, open_away/2, open_database/2,
         open_databases/0, is_open/1, database/1, differing_durable/2]).
-export([info/1, set_limits/2, close/1, close_durable/0, close_left/0]).
-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2]).

-define(KEY(Name), {?MODULE, Name}).
-define(DATABASES, 16).
%% The counts that are part of `todana:info/1'.
-define(INFO_COUNTS, [
    entries, bytes, hits, misses, expired, evicted, refused
]).

-doc "Opens a table in memory. The log has none of this name.".
-spec open_in_memory(atom(), map()) ->
    {ok, reference()} | {error, exists | {exists, map()} | full}.
open_in_memory(Name, Wanted) ->
    call({open, Name, Wanted}).

-doc "Opens a database, by its name and number.".
-spec open_database(atom(), 0..15) -> {ok, reference()} | {error, atom()}.
open_database(Name, Number) ->
    call({open_database, Name, Number}).

-doc "Whether a table of this name is open.".
-spec is_open(atom()) -> boolean().
is_open(Name) -> persistent_term:get(?KEY(Name), none) =/= none.

-doc "Opens a table of the log with the options that it has.".
-spec open_kept(atom()) ->
    {ok, reference()} | {error, term()} | todana_nif:cause().
open_kept(Name) ->
    call({open_durable, Name}).

-doc """
Opens a table of which other nodes have the records, with these options.
""".
-spec open_away(atom(), {ok, map()} | Error) -> {ok, reference()} | Error when
    Error :: error | {error, term()} | todana_nif:cause().
open_away(Name, {ok, Options}) ->
    call({open_away, Name, Options});
open_away(_Name, Error) ->
    Error.

-doc """
The options in which a table of the log differs from those that are wanted:
{Present, Wanted}.
""".
-spec differing_durable(map(), map()) -> #{atom() => {term(), term()}}.
differing_durable(#{order := Order} = Present0, #{order := Wanted} = Options) ->
    Present = Present0#{
        type => type(Order),
        ttl_ms := or_infinity(maps:get(ttl_ms, Present0)),
        shards := default(maps:get(shards, Present0))
    },
    Given = Options#{
        type => type(Wanted), shards => maps:get(shards, Options, default)
    },
    #{
        Option => {Value, maps:get(Option, Given)}
     || Option := Value <- Present,
        Value =/= nil,
        maps:get(Option, Given) =/= Value
    }.

-doc "See `todana:info/1`.".
-spec info(todana_nif:table()) -> map() | todana_nif:cause().
info(Table) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Handle ->
            case {todana_nif:options(Handle), todana_nif:counts(Handle)} of
                {{_, _, _, _, _, _, {_, Shards, _}} = Options, Counts} when
                    is_list(Counts)
                ->
                    Figures = #{
                        Name => Count
                     || {Text, Count} <- Counts,
                        Name <- ?INFO_COUNTS,
                        atom_to_binary(Name) =:= Text
                    },
                    Info = options(Options),
                    maps:merge(Info#{shards := Shards}, Figures);
                _Closed ->
                    {badarg, 1, no_such_table}
            end
    end.

-doc "See `todana:set_limits/2`.".
-spec set_limits(todana_nif:table(), term()) -> ok | todana_nif:cause().
set_limits(Table, Limits) ->
    case todana_call_options:read(limits, Limits) of
        {ok, Changes} ->
            todana_nif:set_limits(
                Table, [{Name, or_nil(Value)} || Name := Value <- Changes]
            );
        {error, Cause} ->
            {badarg, 2, Cause}
    end.

-doc "Opens `db0` to `db15`.".
-spec open_databases() -> ok.
open_databases() ->
    lists:foreach(
        fun(Number) ->
            Name = list_to_atom("db" ++ integer_to_list(Number)),
            {ok, _} = open_database(Name, Number)
        end,
        lists:seq(0, ?DATABASES - 1)
    ).

-doc "See `todana:close/1`.".
-spec close(todana_nif:table()) -> ok | todana_nif:misuse().
close(Table) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse -> Misuse;
        Handle -> call({close, Handle})
    end.

-doc "Closes the named tables of the log.".
-spec close_durable() -> ok.
close_durable() -> lists:foreach(fun close/1, durable()).

-doc """
The same when the process has ended: of those that somebody has opened while the
application was stopping, or that are open because it has failed. The next log
would find tables of its names that have the records of this one.
""".
-spec close_left() -> ok.
close_left() -> lists:foreach(fun closed/1, durable()).

-spec durable() -> [reference()].
durable() -> [Handle || {_, Handle} <- todana_nif:tables(), is_named(Handle)].

%% Whether it is a durable table, and no database.
-spec is_named(reference()) -> boolean().
is_named(Handle) ->
    case todana_nif:options(Handle) of
        {_, _, _, _, _, nil, {_, _, IsDurable}} -> IsDurable;
        _ -> false
    end.

-doc "Starts the process.".
-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec call(term()) -> dynamic().
call(Request) ->
    try
        gen_server:call(?MODULE, Request, infinity)
    catch
        %% Not running, or terminating: the request may have been executed.
        exit:{_, {gen_server, call, _}} -> {badarg, 1, not_running}
    end.

-doc "The number of the database that has this name.".
-spec database(atom()) -> 0..15 | none.
database(Name) ->
    Databases = #{
        "db" ++ integer_to_list(Number) => Number
     || Number <- lists:seq(0, ?DATABASES - 1)
    },
    maps:get(atom_to_list(Name), Databases, none).

-spec init([]) -> {ok, nostate}.
init([]) ->
    lists:foreach(
        fun({Name, Handle}) -> persistent_term:put(?KEY(Name), Handle) end,
        todana_nif:tables()
    ),
    {ok, nostate}.

-spec handle_call(term(), gen_server:from(), nostate) ->
    {reply, term(), nostate}.
handle_call({open, Name, Wanted}, _From, State) ->
    #{
        codec := Codec,
        order := Order,
        ttl_ms := TtlMs,
        entries_max := EntriesMax,
        bytes_max := BytesMax,
        when_full := WhenFull
    } = Wanted,
    Limits = {or_nil(EntriesMax), or_nil(BytesMax), WhenFull},
    Shards = maps:get(shards, Wanted, nil),
    Result = todana_nif:open(
        Name, Codec, or_nil(TtlMs), Limits, Shards, Order
    ),
    ok = report_opened(Name, Result),
    case keep(Name, Result) of
        {error, exists} ->
            {reply, {error, {exists, differing(Name, Wanted)}}, State};
        Kept ->
            {reply, Kept, State}
    end;
handle_call({open_durable, Name}, _From, State) ->
    Result = todana_nif:open_durable(Name, atom_to_binary(Name)),
    ok = report_opened(Name, Result),
    case keep(Name, Result) of
        {error, exists} ->
            {reply, {error, {exists, #{durable => {false, true}}}}, State};
        Kept ->
            {reply, Kept, State}
    end;
handle_call({open_away, Name, Options}, _From, State) ->
    #{codec := Codec, ttl_ms := TtlMs, order := Order, shards := Shards} =
        Options,
    Result = todana_nif:open_away(Name, Codec, TtlMs, Order, Shards),
    ok = report_opened(Name, Result),
    {reply, keep(Name, Result), State};
handle_call({open_database, Name, Number}, _From, State) ->
    {reply, keep(Name, todana_nif:open_database(Name, Number)), State};
handle_call({close, Handle}, _From, State) ->
    {reply, closed(Handle), State}.

-spec handle_cast(term(), nostate) -> {noreply, nostate}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec closed(reference()) -> ok | todana_nif:misuse().
closed(Handle) ->
    case todana_nif:options(Handle) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Options ->
            Name = element(1, Options),
            %% Missing only if the process was killed before it stored the term.
            persistent_term:put(?KEY(Name), Handle),
            Result = todana_nif:close(Handle),
            _ = persistent_term:erase(?KEY(Name)),
            ok = todana_events:report(
                [todana, table, closed], #{table => Name}
            ),
            Result
    end.

%% Unless it was open.
-spec report_opened(atom(), {ok, reference()} | {error, atom()}) -> ok.
report_opened(Name, {ok, Handle}) ->
    case persistent_term:get(?KEY(Name), none) of
        Handle -> ok;
        _ -> todana_events:report([todana, table, opened], #{table => Name})
    end;
report_opened(_Name, _Error) ->
    ok.

-spec keep(atom(), {ok, reference()} | {error, atom()}) ->
    {ok, reference()} | {error, atom()}.
keep(Name, {ok, Handle}) ->
    persistent_term:put(?KEY(Name), Handle),
    {ok, Handle};
keep(_Name, Error) ->
    Error.

%% The options in which an open table differs from those that are wanted:
%% {Present, Wanted}.
-spec differing(atom(), map()) -> #{atom() => {term(), term()}}.
differing(Name, #{order := Order} = Wanted0) ->
    Wanted = maps:merge(#{shards => default}, Wanted0#{type => type(Order)}),
    Present = options(todana_nif:options(Name)),
    #{
        Option => {maps:get(Option, Present), Value}
     || Option := Value <- Wanted,
        Value =/= nil,
        is_map_key(Option, Present),
        map_get(Option, Present) =/= Value
    }.

-spec options(tuple()) -> #{atom() => term()}.
options({Name, Codec, TtlMs, Limits, Order, Database, ShardsAndDurable}) ->
    {Shards, _, IsDurable} = ShardsAndDurable,
    {EntriesMax, BytesMax, WhenFull} = Limits,
    Options = #{
        name => Name,
        type => type(Order),
        codec => Codec,
        ttl_ms => or_infinity(TtlMs),
        entries_max => or_infinity(EntriesMax),
        bytes_max => or_infinity(BytesMax),
        when_full => WhenFull,
        durable => IsDurable,
        shards => default(Shards)
    },
    Optional = #{order => Order, database => Database},
    maps:merge(Options, maps:filter(fun(_, V) -> V =/= nil end, Optional)).

-spec type(todana_nif:order() | nil) -> set | ordered_set.
type(nil) -> set;
type(_Order) -> ordered_set.

-spec default(pos_integer() | nil) -> pos_integer() | default.
default(nil) -> default;
default(Shards) -> Shards.

-spec or_infinity(T | nil) -> T | infinity.
or_infinity(nil) -> infinity;
or_infinity(Limit) -> Limit.

-spec or_nil(T | infinity) -> T | nil.
or_nil(infinity) -> nil;
or_nil(Limit) -> Limit.
