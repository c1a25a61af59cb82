%% What the processes of Ra note about the group: why the server does not
%% start, and how snapshots went. `todana_group' shows it.
%%
%% The notes are in a public table, because those processes must not wait.
-module(todana_group_notes).
-moduledoc false.

-export([new/0, is_lost/0, keep/2, kept/2]).
-export([refuse/2, refuse_for_now/2, failure/2, failure/0,
         forget_failure/0]).
-export([snapshot_found/3, snapshot_began/1, snapshot_ended/2,
         snapshot_abandoned/0, last_snapshot/0, last_index/0, last_bytes/0,
         attempts/0, last_attempt/1, await_attempt/2]).
-export([log_room/2]).

-export_type([room/0]).

%% All writes are accepted, only removals, or nothing; and why.
-type room() :: ok | {removals | low, string()}.

-define(POLL_MS, 10).
%% A snapshot that was asked for begins within this time, or Ra has ignored it.
-define(BEGINS_WITHIN_MS, 15_000).

-doc "Makes the table, which belongs to the caller.".
-spec new() -> ok.
new() ->
    ?MODULE = ets:new(?MODULE, [named_table, public]),
    ok.

-doc "Whether the table has ended with its owner.".
-spec is_lost() -> boolean().
is_lost() -> ets:whereis(?MODULE) =:= undefined.

-doc """
Ends a process of Ra for a reason that a person has to read, and that no later
attempt removes.
""".
-spec refuse(io:format(), [term()]) -> no_return().
refuse(Format, Arguments) -> refuse(Format, Arguments, true).

-doc "The same for a reason that may go away.".
-spec refuse_for_now(io:format(), [term()]) -> no_return().
refuse_for_now(Format, Arguments) -> refuse(Format, Arguments, false).

-spec refuse(io:format(), [term()], boolean()) -> no_return().
refuse(Format, Arguments, IsFinal) ->
    Sentence = lists:flatten(io_lib:format(Format, Arguments)),
    keep(failure, {Sentence, IsFinal}),
    exit({todana, Sentence}).

-doc "The reason that was noted; this one, if none was. Is it final?".
-spec failure(string(), boolean()) -> {string(), boolean()}.
failure(Sentence, IsFinal) ->
    case failure() of
        none ->
            keep(failure, {Sentence, IsFinal}),
            {Sentence, IsFinal};
        Noted ->
            Noted
    end.

-doc "Why the log did not start the last time, and whether that is final.".
-spec failure() -> {string(), boolean()} | none.
failure() -> kept(failure, none).

-spec forget_failure() -> ok.
forget_failure() -> keep(failure, none).

-doc "Notes the snapshot that a start has loaded, by its file.".
-spec snapshot_found(pos_integer(), integer(), non_neg_integer()) -> ok.
snapshot_found(Index, AtMs, Bytes) ->
    case last_index() of
        %% This node has written it, and knows more.
        Index -> ok;
        _ -> keep(last_snapshot, #{
            at_ms => AtMs, index => Index, bytes => Bytes
        })
    end.

-spec snapshot_began(pos_integer()) -> ok.
snapshot_began(Index) ->
    keep(began_ms, erlang:monotonic_time(millisecond)),
    keep(snapshot_in_progress, Index).

-doc "Ends the note of a snapshot whose process is gone.".
-spec snapshot_abandoned() -> ok.
snapshot_abandoned() ->
    case kept(snapshot_in_progress, false) of
        false -> ok;
        Index -> snapshot_ended(Index, {error, interrupted})
    end.

-spec snapshot_ended(
    pos_integer(),
    {ok, Bytes :: non_neg_integer()} | {error, term()}
) -> ok.
snapshot_ended(Index, {ok, Bytes}) ->
    NowMs = erlang:monotonic_time(millisecond),
    keep(last_snapshot, #{
        at_ms => erlang:system_time(millisecond),
        index => Index,
        bytes => Bytes,
        duration_ms => NowMs - kept(began_ms, NowMs)
    }),
    attempted(ok);
snapshot_ended(_Index, {error, Reason}) ->
    logger:error("todana: a snapshot was not written: ~tp", [Reason]),
    attempted({error, Reason}).

-spec attempted(ok | {error, term()}) -> ok.
attempted(Result) ->
    keep(last_attempt, Result),
    keep(snapshot_in_progress, false),
    keep(snapshots, kept(snapshots, 0) + 1).

-doc "How many snapshots were written, or not.".
-spec attempts() -> non_neg_integer().
attempts() -> kept(snapshots, 0).

-doc "The result of the last attempt after these.".
-spec last_attempt(non_neg_integer()) -> ok | {error, term()} | none.
last_attempt(Before) ->
    case attempts() of
        Before -> none;
        _ -> kept(last_attempt, ok)
    end.

-doc """
Waits for the end of an attempt after these; returns its result. `{error,
ignored}` if none is going on for a while.
""".
-spec await_attempt(non_neg_integer(), timeout()) -> ok | {error, term()}.
await_attempt(Before, TimeoutMs) ->
    await_attempt(Before, TimeoutMs, ?BEGINS_WITHIN_MS).

-spec await_attempt(non_neg_integer(), timeout(), timeout()) ->
    ok | {error, term()}.
await_attempt(Before, TimeoutMs, BeginsMs) ->
    case {attempts(), kept(snapshot_in_progress, false)} of
        {Before, _} when TimeoutMs =< 0 ->
            {error, timeout};
        {Before, false} when BeginsMs =< 0 ->
            {error, ignored};
        {Before, false} ->
            timer:sleep(?POLL_MS),
            await_attempt(Before, less(TimeoutMs), less(BeginsMs));
        {Before, _Index} ->
            timer:sleep(?POLL_MS),
            await_attempt(Before, less(TimeoutMs), ?BEGINS_WITHIN_MS);
        _ ->
            kept(last_attempt, ok)
    end.

-spec less(timeout()) -> timeout().
less(infinity) -> infinity;
less(Ms) -> Ms - ?POLL_MS.

-doc "Logs that the disk has become full, or has room again.".
-spec log_room(room(), room()) -> ok.
log_room(ok, {_Low, Sentence}) ->
    logger:error("todana: writes are refused: ~ts", [Sentence]);
log_room({_Low, _}, ok) ->
    logger:notice("todana: the disk has room again; writes are accepted");
log_room(_, _) ->
    ok.

-spec keep(term(), term()) -> ok.
keep(Key, Value) ->
    try ets:insert(?MODULE, {Key, Value}) of
        true -> ok
    catch
        error:badarg -> ok
    end.

-spec kept(term(), Default) -> Default | term().
kept(Key, Default) ->
    try
        ets:lookup_element(?MODULE, Key, 2, Default)
    catch
        error:badarg -> Default
    end.

-spec last_snapshot() -> map().
last_snapshot() ->
    case kept(last_snapshot, none) of
        none ->
            #{};
        #{at_ms := AtMs} = Last ->
            Age = max(0, erlang:system_time(millisecond) - AtMs),
            #{last_snapshot => (maps:remove(at_ms, Last))#{age_ms => Age}}
    end.

-doc "The entry of the last snapshot; 0 without one.".
-spec last_index() -> non_neg_integer().
last_index() ->
    #{index := Index} = kept(last_snapshot, #{index => 0}),
    Index.

-doc "The bytes of the last snapshot; 0 without one.".
-spec last_bytes() -> non_neg_integer().
last_bytes() ->
    #{bytes := Bytes} = kept(last_snapshot, #{bytes => 0}),
    Bytes.
