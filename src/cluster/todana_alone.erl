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

-export([go_on/0]).

-define(ATTEMPTS, 5).
-define(LEAD_TIMEOUT_MS, 10_000).
-define(OPEN_TIMEOUT_MS, 60_000).
-define(STOP_TIMEOUT_MS, 60_000).

-doc "Returns when this node accepts writes as the only member.".
-spec go_on() -> ok | {error, iodata()}.
go_on() ->
    try register(?MODULE, self()) of
        true ->
            try
                separate(todana_data_dir:opened())
            after
                unregister(?MODULE)
            end
    catch
        error:badarg -> {error, "`cluster force` runs already"}
    end.

-spec separate(todana_data_dir:opened()) -> ok | {error, iodata()}.
separate(#{server_dir := Server} = Opened) ->
    maybe
        ok ?= written(todana_data_dir:go_alone(Opened)),
        ok ?= shrink(?ATTEMPTS),
        ok ?= has_one_member(todana_adopt:is_alone(
            Server, [todana_ra_server:address()]
        )),
        ok ?= written(todana_data_dir:rename_server(todana_data_dir:opened())),
        %% This clock may follow a `clock set` of the leader that is lost, and
        %% its entry is lost, too.
        ok = todana_nif:group_clock_forget(),
        ok = stop_group(),
        ok ?= todana_detach:await(
            fun is_open/0, ?OPEN_TIMEOUT_MS,
            "this node is alone, and reads its log: see `bin/todana status`"
        ),
        written(todana_data_dir:went_alone(todana_data_dir:opened()))
    end.

%% Its supervisor starts it again, and all behind it.
-spec stop_group() -> ok.
stop_group() ->
    try gen_server:stop(todana_group, shutdown, ?STOP_TIMEOUT_MS) of
        ok -> ok
    catch
        exit:_ -> ok
    end.

-spec is_open() -> boolean().
is_open() -> maps:get(state, todana_group:info()) =:= serving.

%% A node that began to join before the note may still become a member.
-spec shrink(non_neg_integer()) -> ok | {error, iodata()}.
shrink(0) ->
    unfinished("a snapshot does not have that yet");
shrink(Left) ->
    maybe
        ok ?= todana_detach:give_up_others(),
        ok ?= todana_detach:await(
            fun todana_members:is_confirmed/0, ?LEAD_TIMEOUT_MS,
            "this node does not lead: run the command again"
        ),
        ok ?= snapshot(todana_detach:snapshot()),
        case todana_members:is_alone() of
            true -> ok;
            false -> shrink(Left - 1)
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
