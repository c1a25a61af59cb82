%% Whether this node may rely on its sessions, or the leader may have freed what
%% its processes have in a scope.
%%
%% The node is in doubt about a scope from when its heartbeats have not been
%% answered for ?DOUBT_MS, counted from the sending of the last answered one,
%% until the records say what has become of the session
%% (todana_scope_session). Every registration looks here, and asks no process:
%% the time counts also if the process that has the table is late.
-module(todana_scope_doubt).
-moduledoc false.

-export([create/1, answered/1, from_ms/0, is_answered/0]).
-export([doubt/1, trust/1, is_doubtful/1, is_certain/1]).

%% Less than ?SILENT_MS - ?PROOF_MS of `todana_session_leader': a leader that
%% answers may have been replaced for as long as its proof is old. The
%% difference is for clocks that differ in rate, by a tenth at most.
-define(DOUBT_MS, 7_000).

-doc """
A table of the process that calls this. It is in doubt about these scopes, and
its time begins now.
""".
-spec create([atom()]) -> ok.
create(Scopes) ->
    ?MODULE = ets:new(?MODULE, [named_table, {read_concurrency, true}]),
    lists:foreach(fun doubt/1, Scopes),
    answered(now_ms()).

-doc "The leader has answered a heartbeat that was sent at this time.".
-spec answered(SentMs :: integer()) -> ok.
answered(SentMs) ->
    LastMs = ets:lookup_element(?MODULE, answered_ms, 2, SentMs),
    true = ets:insert(?MODULE, {answered_ms, max(SentMs, LastMs)}),
    ok.

-doc "When the doubt begins, unless a later heartbeat is answered.".
-spec from_ms() -> integer().
from_ms() -> ets:lookup_element(?MODULE, answered_ms, 2) + ?DOUBT_MS.

-doc "Whether that is not yet so.".
-spec is_answered() -> boolean().
is_answered() -> now_ms() < from_ms().

-doc "The doubt about a scope begins.".
-spec doubt(atom()) -> ok.
doubt(Scope) ->
    true = ets:insert(?MODULE, {{scope, Scope}}),
    ok.

-doc "It ends.".
-spec trust(atom()) -> ok.
trust(Scope) ->
    true = ets:delete(?MODULE, {scope, Scope}),
    ok.

-doc "Whether it has begun and not ended.".
-spec is_doubtful(atom()) -> boolean().
is_doubtful(Scope) -> ets:member(?MODULE, {scope, Scope}).

-doc """
Whether what is registered in this session now is kept until a doubt begins.
""".
-spec is_certain(todana_name_scopes:shared()) -> boolean().
is_certain(#{scope := Scope} = Shared) ->
    try
        is_answered() andalso not is_doubtful(Scope) andalso
            todana_name_scopes:table(Scope) =:= Shared
    catch
        %% The process that has the table is being restarted.
        error:badarg -> false
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
