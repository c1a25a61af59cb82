%% Makes this node the only member of its cluster, when the others are lost.
%%
%% The others may come back. Two of three elect a leader then, perhaps in the
%% same term. Ra's server on this node would follow that leader, and lose what
%% this node has confirmed alone. So the server gets another name: what the
%% others send to the old name reaches nobody, and nodes that join from now on
%% learn the new one.
%%
%% The names of members are in Ra's configuration, in entries of the log, and in
%% snapshots. A new snapshot takes the place of the entries, and `todana_adopt'
%% changes the rest while the server does not run. An entry behind the snapshot
%% would still have the old name, and this node would be no member. So the
%% directory notes first that no node may join, and the last change of the
%% members must be in the snapshot before the name changes. If the node ends
%% before that, the note is there, and the command is repeated.
-module(todana_alone).
-moduledoc false.

-export([go_on/1]).

-define(ATTEMPTS, 5).
-define(LEAD_TIMEOUT_MS, 10_000).
-define(OPEN_TIMEOUT_MS, 60_000).
-define(STOP_TIMEOUT_MS, 60_000).

-doc "Returns when this node accepts writes as the only member.".
-spec go_on(todana_raft_groups:id()) -> ok | {error, iodata()}.
go_on(Group) ->
    try register(?MODULE, self()) of
        true ->
            try
                separate(Group, todana_raft_groups:opened(Group))
            after
                unregister(?MODULE)
            end
    catch
        error:badarg -> {error, "`cluster force` runs already"}
    end.

-spec separate(todana_raft_groups:id(), todana_data_dir:opened()) ->
    ok | {error, iodata()}.
separate(Group, #{server_dir := Server} = Opened) ->
    maybe
        ok ?= written(todana_data_dir:go_alone(Opened)),
        ok ?= shrink(Group, ?ATTEMPTS),
        ok ?= has_one_member(todana_adopt:is_alone(
            Server, [todana_ra_server:address(Group)]
        )),
        ok ?= written(todana_data_dir:rename_server(
            todana_raft_groups:opened(Group)
        )),
        %% This clock may follow a `clock set` of the leader that is lost, and
        %% its entry is lost, too.
        ok = todana_nif:group_clock_forget(Group),
        ok = stop_group(Group),
        ok ?= todana_detach:await(
            fun() -> is_open(Group) end, ?OPEN_TIMEOUT_MS,
            "this node is alone, and reads its log: see `bin/todana status`"
        ),
        written(todana_data_dir:went_alone(todana_raft_groups:opened(Group)))
    end.

%% Its supervisor starts it again, and the processes of the group behind it.
-spec stop_group(todana_raft_groups:id()) -> ok.
stop_group(Group) ->
    Name = todana_raft_groups:name(todana_group, Group),
    try gen_server:stop(Name, shutdown, ?STOP_TIMEOUT_MS) of
        ok -> ok
    catch
        exit:_ -> ok
    end.

-spec is_open(todana_raft_groups:id()) -> boolean().
is_open(Group) -> maps:get(state, todana_group:info(Group)) =:= serving.

%% A node that began to join before the note may still become a member.
-spec shrink(todana_raft_groups:id(), non_neg_integer()) ->
    ok | {error, iodata()}.
shrink(_Group, 0) ->
    unfinished("a snapshot does not have that yet");
shrink(Group, Left) ->
    IsConfirmed = fun() -> todana_members:is_confirmed(Group) end,
    maybe
        ok ?= todana_detach:give_up_others(Group),
        ok ?= todana_detach:await(
            IsConfirmed, ?LEAD_TIMEOUT_MS,
            "this node does not lead: run the command again"
        ),
        ok ?= snapshot(todana_detach:snapshot(Group)),
        case todana_members:is_alone(Group) of
            true -> ok;
            false -> shrink(Group, Left - 1)
        end
    end.

-spec snapshot(ok | {error, term()}) -> ok | {error, iodata()}.
snapshot(ok) ->
    ok;
snapshot({error, Reason}) ->
    unfinished(io_lib:format("the snapshot failed: ~0tp", [Reason])).

-spec has_one_member(boolean()) -> ok | {error, iodata()}.
has_one_member(true) -> ok;
has_one_member(false) -> unfinished("its snapshot has other members").

-spec written(ok | {error, term()}) -> ok | {error, iodata()}.
written(ok) ->
    ok;
written({error, Reason}) ->
    {error, io_lib:format(
        "the file `node` of the data directory cannot be written: ~0tp. "
        "Correct that, and run the command again", [Reason]
    )}.

-spec unfinished(iodata()) -> {error, iodata()}.
unfinished(Why) ->
    {error, ["this node is the only member now, but ", Why, ". Keep the old "
             "members from starting, and run the command again"]}.
