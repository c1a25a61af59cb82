%% When the leader has last proved that it leads, as far as this node knows.
%%
%% `todana_read_index' asks it. The times are in a persistent term, because
%% many processes read them, and nobody waits.
-module(todana_leader_proof).
-moduledoc false.

-export([begin_notes/0, note/1, end_notes/0, is_silent/1, answered_ms/0]).

%% Two times of the last answer: that of its question, which is the moment that
%% it proves something about, and its own.
-define(PROVED, 1).
-define(ANSWERED, 2).

-doc "From now on a leader is expected to prove that it leads.".
-spec begin_notes() -> ok.
begin_notes() ->
    Counter = atomics:new(2, []),
    ok = atomics:put(Counter, ?PROVED, now_ms()),
    ok = atomics:put(Counter, ?ANSWERED, now_ms()),
    persistent_term:put(?MODULE, Counter).

-doc "It has answered a question that was sent at this time.".
-spec note(SentMs :: integer()) -> ok.
note(SentMs) ->
    Counter = persistent_term:get(?MODULE),
    ok = atomics:put(Counter, ?PROVED, SentMs),
    atomics:put(Counter, ?ANSWERED, now_ms()).

-doc "A node that belongs to no cluster next has nobody to wait for.".
-spec end_notes() -> ok.
end_notes() ->
    _ = persistent_term:erase(?MODULE),
    ok.

-doc "Whether no leader has proved it for this time.".
-spec is_silent(non_neg_integer()) -> boolean().
is_silent(ForMs) ->
    case persistent_term:get(?MODULE, none) of
        none -> false;
        Counter -> now_ms() - atomics:get(Counter, ?PROVED) > ForMs
    end.

-doc "When the leader has answered for the last time.".
-spec answered_ms() -> integer().
answered_ms() -> atomics:get(persistent_term:get(?MODULE), ?ANSWERED).

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
