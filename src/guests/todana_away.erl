%% Calls of the Erlang API in a guest: the seat executes them.
%%
%% A durable table is open in a guest with its options, and without records, so
%% that functions on records answer `{badarg, 0, away}'. A call that only reads
%% is repeated at the next seat if the first one is lost; one that writes ends
%% with `{error, unknown}', unless there was no seat at all.
-module(todana_away).
-moduledoc false.

-export([call/4, call/5, ask/4, name/1, table/1, open/2, drop/1]).
-export([stopping/1, is_stopping/0]).
%% Guests call it
-export([serve/5]).

-type times_ms() :: {WithoutSeat :: integer(), Altogether :: integer()}.

-define(PAUSE_MS, 10).
%% How often a call looks whether its seat was lost.
-define(LOOK_MS, 200).
-define(STOPPING, {?MODULE, stopping}).
%% Pauses until a seat that is behind has applied an entry.
-define(WAITS, 100).
%% The functions that guests call belong to the version of what they and members
%% say to each other (GUEST_WIRE in native/group/src/parcel.rs).
-define(READS, [
    get, get_entry, is_key, ttl, get_many, range, prefix, first, last, next,
    prev, scan, count, bytes, stats, info, index, refresh, read_after,
    native, read, await, await_entry, table,
    basis, find_here, find_page_here, groups_here, joined
]).

-doc """
The result of a function of this application, at the seat. Its first argument is
the table.
""".
-spec call(module(), atom(), todana_nif:table(), [term()]) -> dynamic().
call(Module, Function, Table, Arguments) ->
    TimeoutMs = todana_durable:timeout_ms(),
    call(Module, Function, Table, Arguments, {TimeoutMs, TimeoutMs}).

-doc """
The same within these times: without a seat, and altogether. Then it is
`unavailable`, or if it writes, unknown.
""".
-spec call(module(), atom(), todana_nif:table(), [term()], times_ms()) ->
    dynamic().
call(Module, Function, Table, Arguments, {SeatMs, AnswerMs}) ->
    case name(Table) of
        {badarg, _, _} = Misuse ->
            Misuse;
        Name ->
            Kind = case lists:member(Function, ?READS) of
                true -> read;
                false -> write
            end,
            NowMs = now_ms(),
            at_seat(Kind, [Module, Function, Name, [Name | Arguments]],
                    {NowMs + SeatMs, NowMs + AnswerMs})
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
    DeadlineMs = now_ms() + todana_durable:timeout_ms(),
    at_seat(Kind, Question, {DeadlineMs, DeadlineMs}).

-spec at_seat(read | write, [term()], Deadlines :: times_ms()) -> dynamic().
at_seat(Kind, Question, {SeatMs, DeadlineMs} = Deadlines) ->
    NowMs = now_ms(),
    case todana_guest:seat() of
        _ when NowMs >= DeadlineMs ->
            {badarg, 0, unavailable};
        none when NowMs >= SeatMs ->
            {badarg, 0, unavailable};
        none ->
            receive after ?PAUSE_MS -> ok end,
            at_seat(Kind, Question, Deadlines);
        Seat ->
            Request = erpc:send_request(
                Seat, ?MODULE, serve, Question ++ [seen()]
            ),
            case answer(Seat, Request, DeadlineMs) of
                {Index, Result} ->
                    ok = note(Index),
                    Result;
                lost when Kind =:= write ->
                    {error, unknown};
                _LostOrNotBegun ->
                    receive after ?PAUSE_MS -> ok end,
                    at_seat(Kind, Question, Deadlines)
            end
    end.

%% While the application stops, this node is no guest any more. A call that is
%% on its way is executed nevertheless, and no misuse.
-spec seen() -> non_neg_integer().
seen() ->
    try
        todana_nif:guest_index()
    catch
        error:badarg -> 0
    end.

-spec note(non_neg_integer()) -> ok.
note(Index) ->
    try
        todana_nif:guest_note_index(Index)
    catch
        error:badarg -> ok
    end.

%% One that hangs answers no more, and the node has another seat soon.
-spec answer(node(), erpc:request_id(), integer()) ->
    {non_neg_integer(), term()} | not_begun | lost.
answer(Seat, Request, DeadlineMs) ->
    LeftMs = max(0, DeadlineMs - now_ms()),
    try erpc:wait_response(Request, min(?LOOK_MS, LeftMs)) of
        {response, Answer} ->
            Answer;
        no_response ->
            case LeftMs > ?LOOK_MS andalso todana_guest:seat() =:= Seat of
                true -> answer(Seat, Request, DeadlineMs);
                false -> abandoned(Request)
            end
    catch
        %% Or the application stops there.
        error:{erpc, _} -> lost;
        error:{exception, _, _} -> lost;
        exit:{signal, _} -> lost;
        exit:{exception, _} -> lost
    end.

%% No late answer becomes a message of the caller.
-spec abandoned(erpc:request_id()) -> {non_neg_integer(), term()} | lost.
abandoned(Request) ->
    try
        erpc:receive_response(Request, 0)
    catch
        _:_ -> lost
    end.

-doc "Whether this node executes calls of guests no more, because it stops.".
-spec is_stopping() -> boolean().
is_stopping() -> persistent_term:get(?STOPPING, false).

-doc "The application begins to stop, or starts.".
-spec stopping(boolean()) -> ok.
stopping(Is) -> persistent_term:put(?STOPPING, Is).

-doc """
Calls the function for a guest, when this node has applied the entry that the
guest has seen. Misuse is a value. The result comes with the last entry that is
applied then.
""".
-spec serve(module(), atom(), atom(), [term()], non_neg_integer()) ->
    {non_neg_integer(), term()} | not_begun.
serve(Module, Function, Name, Arguments, Seen) ->
    %% It may begin to stop while this waits. Then no table must be opened any
    %% more.
    case is_stopping() orelse not has_applied(Seen, ?WAITS) orelse
        is_stopping()
    of
        true ->
            not_begun;
        false ->
            ok = make_open(Name),
            Result = result(Module, Function, Arguments),
            {applied(), Result}
    end.

-spec has_applied(non_neg_integer(), non_neg_integer()) -> boolean().
has_applied(Seen, Left) ->
    case applied() >= Seen of
        true ->
            true;
        false when Left =:= 0 ->
            false;
        false ->
            timer:sleep(?PAUSE_MS),
            has_applied(Seen, Left - 1)
    end.

%% 0 while the log stops.
-spec applied() -> non_neg_integer().
applied() ->
    try
        todana_nif:group_applied(todana_raft_groups:first())
    catch
        error:badarg -> 0
    end.

-spec result(module(), atom(), [term()]) -> term().
result(Module, Function, Arguments) ->
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
