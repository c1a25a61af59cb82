%% When the leader of a group has last proved that it leads, as far as this node
%% knows.
%%
%% `todana_read_index' asks it. The times are in a persistent term, because
%% many processes read them, and nobody waits.
-module(todana_leader_proof).
-moduledoc false.

-export([begin_notes/1, note/2, end_notes/1, is_silent/2, answered_ms/1]).

%% Two times of the last answer: that of its question, which is the moment that
%% it proves something about, and its own.
-define(PROVED, 1).
-define(ANSWERED, 2).

-doc "From now on a leader is expected to prove that it leads.".
-spec begin_notes(todana_raft_groups:id()) -> ok.
begin_notes(Group) ->
    Counter = atomics:new(2, []),
    ok = atomics:put(Counter, ?PROVED, now_ms()),
    ok = atomics:put(Counter, ?ANSWERED, now_ms()),
    persistent_term:put({?MODULE, Group}, Counter).

-doc "It has answered a question that was sent at this time.".
-spec note(todana_raft_groups:id(), SentMs :: integer()) -> ok.
note(Group, SentMs) ->
    Counter = persistent_term:get({?MODULE, Group}),
    ok = atomics:put(Counter, ?PROVED, SentMs),
    atomics:put(Counter, ?ANSWERED, now_ms()).

-doc "A node that belongs to no cluster next has nobody to wait for.".
-spec end_notes(todana_raft_groups:id()) -> ok.
end_notes(Group) ->
    _ = persistent_term:erase({?MODULE, Group}),
    ok.

-doc "Whether no leader has proved it for this time.".
-spec is_silent(todana_raft_groups:id(), non_neg_integer()) -> boolean().
is_silent(Group, ForMs) ->
    case persistent_term:get({?MODULE, Group}, none) of
        none -> false;
        Counter -> now_ms() - atomics:get(Counter, ?PROVED) > ForMs
    end.

-doc "When the leader has answered for the last time.".
-spec answered_ms(todana_raft_groups:id()) -> integer().
answered_ms(Group) ->
    atomics:get(persistent_term:get({?MODULE, Group}), ?ANSWERED).

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
