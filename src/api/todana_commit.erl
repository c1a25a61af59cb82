%% Optimistic reads and writes, the basis of `todana:update' and
%% `todana:transaction': a read also returns the state of the key, and a commit
%% writes only if every key that was read is still in that state.
%%
%% Keys are given and returned as the bytes that the table stores.
-module(todana_commit).
-moduledoc false.

-export([key/2, read/2, version/1, commit/3, commit_encoded/2, in_turn/3]).
-export([pause/1]).

-export_type([state/0, write/0, put_options/0]).

-define(KEY_ENCODED, 1).
-define(BOTH_ENCODED, 3).
%% A commit of more keys than this runs on a dirty scheduler.
-define(KEYS_MAX, 64).
%% The first attempts follow at once: another process has just committed.
-define(IMMEDIATE_ATTEMPTS, 4).
-define(PAUSE_MAX_MS, 16).
-define(TURN_TIMEOUT_MS, 1_000).

-doc "The state of a key: identifies its record; 0 if it has none.".
-type state() :: non_neg_integer().
-doc "A removal, or a value with flags and expiry.".
-type write() ::
    {binary()} | {binary(), term(), non_neg_integer(), term()}.
-doc "What a record has beside its value.".
-type put_options() :: #{
    flags := non_neg_integer(), expires_at_ms := non_neg_integer() | infinity
}.

-doc "The bytes of a key: keys are the same if their bytes are.".
-spec key(todana_nif:table(), term()) -> binary() | todana_error:cause().
key(Table, Key) ->
    case todana_nif:key_bytes(Table, Key, 0) of
        encode ->
            case todana_codec:key(Table, Key) of
                {badarg, _, _} = Misuse -> Misuse;
                Bytes -> todana_nif:key_bytes(Table, Bytes, ?KEY_ENCODED)
            end;
        Result ->
            Result
    end.

-doc "The value of a key as `todana:get/2` returns it, and the state.".
-spec read(todana_nif:table(), binary()) ->
    {{ok, term()}, state(), put_options()}
    | {error, state()}
    | todana_error:cause().
read(Table, Key) ->
    case todana_nif:get_entry(Table, Key, ?KEY_ENCODED) of
        {Stored, _Version, Flags, ExpiresAtMs, IsEncoded, State} ->
            Value =
                case IsEncoded of
                    true -> todana_codec:decode(Stored);
                    false -> Stored
                end,
            Options = #{flags => Flags, expires_at_ms => ExpiresAtMs},
            {{ok, Value}, State, Options};
        error ->
            {error, 0};
        {badarg, 0, away} ->
            todana_away:call(?MODULE, read, Table, [Key]);
        Misuse ->
            Misuse
    end.

-doc "The version of a record in this state (`native/nif/src/key_state.rs`).".
-spec version(state()) -> todana:version().
version(State) -> State bsr 4.

-doc """
Writes all, or nothing if one of the checked keys is in another state. No two
writes have the same key.
""".
-spec commit(todana_nif:table(), [{binary(), state()}], [write()]) ->
    ok | conflict | {error, full | too_large | unknown} | todana_error:cause().
commit(Table, Checks, Writes) ->
    case commit(Table, Checks, Writes, ?KEY_ENCODED) of
        encode ->
            Encoded = [encoded(Write) || Write <- Writes],
            commit(Table, Checks, Encoded, ?BOTH_ENCODED);
        {badarg, 0, away} ->
            todana_away:call(?MODULE, commit, Table, [Checks, Writes]);
        Result ->
            Result
    end.

-spec commit(
    todana_nif:table(), [{binary(), state()}], [write()], todana_nif:form()
) -> dynamic().
commit(Table, Checks, Writes, Form) ->
    todana_durable:keyed(Form, fun(F) ->
        commit_once(Table, Checks, Writes, F)
    end).

-spec commit_once(
    todana_nif:table(), [{binary(), state()}], [write()], todana_nif:form()
) -> dynamic().
commit_once(Table, Checks, Writes, Form) ->
    case length(Checks) + length(Writes) > ?KEYS_MAX of
        true ->
            commit_dirty(Table, Checks, Writes, Form);
        false ->
            case todana_nif:commit(Table, Checks, Writes, Form) of
                dirty -> commit_dirty(Table, Checks, Writes, Form);
                Result -> Result
            end
    end.

-spec commit_dirty(
    todana_nif:table(), [{binary(), state()}], [write()], todana_nif:form()
) -> dynamic().
commit_dirty(Table, Checks, Writes, Form) ->
    case todana_nif:handle(Table) of
        {badarg, _, _} = Misuse -> Misuse;
        Handle -> todana_nif:commit_dirty(Handle, Checks, Writes, Form)
    end.

-doc "Makes writes whose keys and values are the bytes that the table stores.".
-spec commit_encoded(todana_nif:table(), [write()]) ->
    ok | {error, full | too_large | unknown} | todana_error:cause().
commit_encoded(Table, Writes) ->
    commit(Table, [], Writes, ?BOTH_ENCODED).

-spec encoded(write()) -> write().
encoded({Key, Value, Flags, Expires}) ->
    {Key, todana_codec:value(Value), Flags, Expires};
encoded(Removal) ->
    Removal.

-doc """
Calls the function when all processes of this node are through that asked for a
turn at this key before. Others may still write it. Two processes that have a
turn each and ask for the other's wait for a second at most.
""".
-spec in_turn(reference(), binary(), fun(() -> Result)) -> Result.
in_turn(Table, Key, Function) ->
    case todana_flight:join({Table, {turn, Key}}, ?TURN_TIMEOUT_MS) of
        {lead, Flight} ->
            try
                Function()
            after
                todana_flight:abandon(Flight)
            end;
        _TimeoutRecursiveOrDown ->
            Function()
    end.

-doc """
Waits before the attempt that follows attempt N. Every conflict means that
another process has committed, so the first attempts follow at once. Processes
that keep meeting each other then wait for a random time.
""".
-spec pause(pos_integer()) -> ok.
pause(Attempt) when Attempt < ?IMMEDIATE_ATTEMPTS ->
    ok;
pause(Attempt) ->
    LimitMs = min(?PAUSE_MAX_MS, 1 bsl min(4, Attempt - ?IMMEDIATE_ATTEMPTS)),
    %% Not from `rand', which would leave its state in the caller's process.
    Seed = {self(), erlang:monotonic_time()},
    receive
    after erlang:phash2(Seed, LimitMs + 1) -> ok
    end.
