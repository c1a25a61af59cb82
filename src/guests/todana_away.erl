%% Calls of the Erlang API in a guest: the seat executes them.
%%
%% A durable table is open in a guest with its options, and without records, so
%% that functions on records answer `{badarg, 0, away}'. A call that only reads
%% is repeated at the next seat if the first one is lost; one that writes ends
%% with `{error, unknown}', unless there was no seat at all.
-module(todana_away).
-moduledoc false.

-export([call/4, ask/4, name/1, table/1, tables/0, open/2, drop/1]).
%% Guests call it
-export([serve/4]).

-define(PAUSE_MS, 10).
-define(READS, [
    get, get_entry, is_key, ttl, get_many, range, prefix, first, last, next,
    prev, scan, count, bytes, stats, info, index, refresh, read_after,
    native, read, await, await_entry, table, tables
]).

-doc """
The result of a function of this application, at the seat. Its first argument is
the table.
""".
-spec call(module(), atom(), todana_nif:table(), [term()]) -> dynamic().
call(Module, Function, Table, Arguments) ->
    case name(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Name ->
            Kind = case lists:member(Function, ?READS) of
                true -> read;
                false -> write
            end,
            at_seat(Kind, [Module, Function, Name, [Name | Arguments]])
    end.

-doc """
The same for a function that is no function of a table. `Name` is that of a
table that it needs, or `none`. It is repeated if the seat is lost.
""".
-spec ask(module(), atom(), Name :: atom(), [term()]) -> dynamic().
ask(Module, Function, Name, Arguments) ->
    at_seat(read, [Module, Function, Name, Arguments]).

-doc "The name of an open table.".
-spec name(todana_nif:table()) -> atom() | todana_nif:cause().
name(Table) ->
    case todana_nif:options(Table) of
        {badarg, _, _} = Misuse -> Misuse;
        Options -> element(1, Options)
    end.

-doc "The options of a named table of the cluster.".
-spec table(atom()) -> {ok, map()} | error | todana_nif:cause().
table(Name) -> at_seat(read, [todana_durable, table, none, [Name]]).

-doc "The names of all durable tables of the cluster.".
-spec tables() -> [binary()] | todana_nif:cause().
tables() -> at_seat(read, [todana_nif, durable_tables, none, []]).

-doc """
Creates a durable table in the cluster, unless it exists: the result of
`todana_durable:open/2`.
""".
-spec open(atom(), map()) ->
    ok | {error, {differs, map()} | unknown} | todana_nif:cause().
open(Name, Wanted) ->
    at_seat(write, [todana_durable, open, none, [Name, Wanted]]).

-doc "Removes a durable table of the cluster.".
-spec drop(atom()) -> ok | error | {error, unknown} | todana_nif:cause().
drop(Name) -> at_seat(write, [todana_durable, drop, none, [Name]]).

-spec at_seat(read | write, [term()]) -> dynamic().
at_seat(Kind, Question) ->
    at_seat(Kind, Question, now_ms() + todana_durable:timeout_ms()).

-spec at_seat(read | write, [term()], integer()) -> dynamic().
at_seat(Kind, Question, DeadlineMs) ->
    LeftMs = DeadlineMs - now_ms(),
    case todana_guest:seat() of
        _ when LeftMs =< 0 ->
            {badarg, 0, unavailable};
        none ->
            receive after ?PAUSE_MS -> ok end,
            at_seat(Kind, Question, DeadlineMs);
        Seat ->
            try
                erpc:call(Seat, ?MODULE, serve, Question, LeftMs)
            catch
                error:{erpc, _} when Kind =:= read ->
                    receive after ?PAUSE_MS -> ok end,
                    at_seat(Kind, Question, DeadlineMs);
                error:{erpc, _} ->
                    {error, unknown}
            end
    end.

-doc "Calls the function for a guest. Misuse is a value.".
-spec serve(module(), atom(), atom(), [term()]) -> term().
serve(Module, Function, Name, Arguments) ->
    ok = make_open(Name),
    try
        apply(Module, Function, Arguments)
    catch
        error:Reason:Stack ->
            case hd(Stack) of
                {todana, _, _, [{error_info, #{cause := Causes}}]} ->
                    misuse(maps:to_list(Causes));
                _ ->
                    erlang:raise(error, Reason, Stack)
            end
    end.

-spec misuse([{pos_integer() | general, term()}]) -> todana_nif:cause().
misuse([{general, Cause} | _]) -> {badarg, 0, Cause};
misuse([{Number, Cause} | _]) -> {badarg, Number, Cause}.

%% A member opens a table when somebody uses it there.
-spec make_open(atom()) -> ok.
make_open(none) ->
    ok;
make_open(Name) ->
    _ = todana_tables:is_open(Name) orelse
        case todana_tables:database(Name) of
            none -> todana_tables:open_kept(Name);
            Number -> todana_tables:open_database(Name, Number)
        end,
    ok.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
