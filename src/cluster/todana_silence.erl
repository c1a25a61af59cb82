%% How long the leader has given no sign of its work, as a follower sees it.
%%
%% A sign is an answer to `todana_read_index', which a leader gives only after a
%% majority has confirmed that it leads, or an entry that was committed. A node
%% that has not looked for a while was not scheduled, or stopped: it starts
%% anew. If the next leader gives no sign either, twice the time has to pass,
%% and so on, so that an election gets the time that a slow cluster needs.
-module(todana_silence).
-moduledoc false.

-export([new/1, look/2, leader/1, since_ms/1, is_missed/2, is_long/2]).

-export_type([facts/0, silence/0]).

%% How long a leader may give no sign.
-define(SILENT_AFTER_MS, 3_000).
%% The same, if several leaders in a row gave none.
-define(SILENT_AFTER_MS_MAX, 48_000).
%% How soon a leader gives a sign that was lost for a moment, and is back.
-define(BACK_AFTER_MS, 500).
%% After a longer pause between two looks, which are a second apart, it is this
%% node that was away.
-define(AWAY_AFTER_MS, 1_750).
%% A leader that works gives a sign more often, also while nobody writes.
-define(MISSED_AFTER_MS, 1_250).

%% What a look finds.
-type facts() :: #{
    now_ms := integer(),
    leader := todana_members:leadership() | none,
    term => non_neg_integer(),
    %% The last entry that this node knows to be committed.
    committed := non_neg_integer(),
    last_index => non_neg_integer(),
    %% When the leader has answered for the last time.
    answered_ms := integer()
}.
-opaque silence() :: #{
    leader := todana_members:leadership() | none,
    committed := non_neg_integer(),
    looked_ms := integer(),
    %% When the leader was seen first, and when it gave the last sign.
    began_ms := integer(),
    sign_ms := integer(),
    patience_ms := pos_integer()
}.

-doc "Nothing is known.".
-spec new(integer()) -> silence().
new(NowMs) ->
    #{
        leader => none, committed => 0, looked_ms => NowMs, began_ms => NowMs,
        sign_ms => NowMs, patience_ms => ?SILENT_AFTER_MS
    }.

-doc "The same after one more look.".
-spec look(facts(), silence()) -> silence().
look(#{leader := none, now_ms := NowMs}, Silence) ->
    %% Ra holds an election. A message of the old leader may end it.
    #{sign_ms := SignMs, patience_ms := PatienceMs} = Silence,
    Silence#{
        looked_ms := NowMs,
        sign_ms := max(SignMs, NowMs - PatienceMs + ?BACK_AFTER_MS)
    };
look(#{leader := Leader} = Facts, #{leader := Leader} = Silence) ->
    #{now_ms := NowMs, committed := Committed, answered_ms := Ms} = Facts,
    #{looked_ms := LookedMs, sign_ms := SignMs} = Silence,
    IsSign =
        NowMs - LookedMs > ?AWAY_AFTER_MS orelse
            Committed =/= maps:get(committed, Silence),
    Last =
        case IsSign of
            true -> NowMs;
            false -> SignMs
        end,
    forgive(Ms, Silence#{
        committed := Committed, looked_ms := NowMs, sign_ms := max(Ms, Last)
    });
look(#{leader := Leader} = Facts, Silence) ->
    #{now_ms := NowMs, committed := Committed, answered_ms := Ms} = Facts,
    (forgive(Ms, again(NowMs, Silence)))#{
        leader := Leader, committed := Committed, looked_ms := NowMs,
        began_ms := NowMs
    }.

%% A leader that has answered since it began ends the row of those that did not.
-spec forgive(integer(), silence()) -> silence().
forgive(AnsweredMs, #{began_ms := BeganMs} = Silence) when
    AnsweredMs > BeganMs
->
    Silence#{patience_ms := ?SILENT_AFTER_MS};
forgive(_AnsweredMs, #{leader := none} = Silence) ->
    Silence#{patience_ms := ?SILENT_AFTER_MS};
forgive(_AnsweredMs, Silence) ->
    Silence.

%% It waits anew, and for longer.
-spec again(integer(), silence()) -> silence().
again(NowMs, #{patience_ms := PatienceMs} = Silence) ->
    Silence#{
        sign_ms := NowMs,
        patience_ms := min(2 * PatienceMs, ?SILENT_AFTER_MS_MAX)
    }.

-doc "The leader, as far as this node knows.".
-spec leader(silence()) -> todana_members:leadership() | none.
leader(#{leader := Leader}) -> Leader.

-doc "When there was the last sign.".
-spec since_ms(silence()) -> integer().
since_ms(#{sign_ms := SignMs}) -> SignMs.

-doc "Whether a sign is missing that a leader would have given.".
-spec is_missed(integer(), silence()) -> boolean().
is_missed(NowMs, #{sign_ms := SignMs}) ->
    NowMs - SignMs > ?MISSED_AFTER_MS.

-doc "Whether another node leads, and has given no sign for too long.".
-spec is_long(integer(), silence()) -> boolean().
is_long(_NowMs, #{leader := none}) ->
    false;
is_long(_NowMs, #{leader := {Node, _Term}}) when Node =:= node() ->
    false;
is_long(NowMs, #{sign_ms := SignMs, patience_ms := PatienceMs}) ->
    NowMs - SignMs > PatienceMs.
