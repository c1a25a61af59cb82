%% Which formats of the log a member may write.
%%
%% A format adds commands to the one before it, and an older version stops at an
%% entry of a format that it does not read. So each member announces in the map
%% of the cluster which format it reads, and native code writes none that is
%% newer than the oldest of these: it refuses a command that needs one. A member
%% that announces nothing reads the first format.
%%
%% Ra has a version of the machine for such changes. It never goes back, and
%% this must: a member may return to an older version as long as the log has no
%% newer format.
-module(todana_formats).
-moduledoc false.

-export([newest/0, common/1, unasked/1, renew/1, allowed/3]).

%% The table in which the members announce it: `todana_cluster_map'.
-define(MAP, ~"todana_cluster_map").
%% Of a version that announces nothing.
-define(FIRST, 1).
%% This format and the next are used as soon as they may be, and not only for
%% new commands; so is the one after them, for commands that have older words,
%% too. So after an upgrade they wait, and until then a member can go back to
%% the version before it.
-define(OF_ALL, 4).
-define(WAIT_MS, 3_600_000).

-doc "The newest format that this node reads. Other nodes call it.".
-spec newest() -> pos_integer().
newest() ->
    %% It is a property of the version, the same for all groups.
    {Newest, _Common, _Unasked} =
        todana_nif:group_formats(todana_raft_groups:first()),
    Newest.

-doc """
The newest format that all members read. This node writes it for a command that
needs it.
""".
-spec common(todana_raft_groups:id()) -> pos_integer().
common(Group) ->
    {_Newest, Common, _Unasked} = todana_nif:group_formats(Group),
    Common.

-doc "The newest format that this node writes although no command needs it.".
-spec unasked(todana_raft_groups:id()) -> pos_integer().
unasked(Group) ->
    {_Newest, _Common, Unasked} = todana_nif:group_formats(Group),
    Unasked.

-doc "Finds out again what all members read.".
-spec renew(todana_raft_groups:id()) -> ok.
renew(Group) ->
    case {todana_raft_groups:opened(Group), todana_members:listed(Group)} of
        {#{cluster := none}, _} ->
            ok;
        {#{}, unknown} ->
            ok;
        {#{}, {ok, Nodes}} ->
            Formats = [
                announced(Node)
             || Node <- Nodes, Node =/= node()
            ],
            Common = lists:min([newest() | Formats]),
            ForMs = for_ms(Group, Common),
            todana_nif:group_common_formats(
                Group, Common, allowed(Common, length(Nodes), ForMs)
            )
    end.

%% By its entry in the map, which can be read before the records may be.
-spec announced(node()) -> pos_integer().
announced(Node) ->
    Key = term_to_binary({node, Node}, [deterministic]),
    case todana_nif:durable_record(?MAP, Key) of
        none -> ?FIRST;
        Bytes -> maps:get(format, todana_codec:decode(Bytes), ?FIRST)
    end.

-doc """
The newest format that is written although no command needs it, if all of this
number of members have read the common one for this time. A member alone has
nobody who could go back; and a format that is in the log already is written at
once.
""".
-spec allowed(pos_integer(), pos_integer(), non_neg_integer()) ->
    pos_integer().
allowed(Common, Members, ForMs) when
    Common >= ?OF_ALL, Members > 1, ForMs < ?WAIT_MS
->
    ?OF_ALL - 1;
allowed(Common, _Members, _ForMs) ->
    Common.

%% For how long this has been the common format.
-spec for_ms(todana_raft_groups:id(), pos_integer()) -> non_neg_integer().
for_ms(Group, Common) ->
    NowMs = erlang:monotonic_time(millisecond),
    case persistent_term:get({?MODULE, Group}, none) of
        {Common, SinceMs} ->
            NowMs - SinceMs;
        _ ->
            ok = persistent_term:put({?MODULE, Group}, {Common, NowMs}),
            0
    end.
