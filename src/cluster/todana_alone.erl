%% Makes this node the only member of its cluster, when the others are lost.
%%
%% They may not be lost for good. Two of three elect a leader when they come
%% back, perhaps in the same term, and Ra's server on this node would follow it,
%% and lose what this node has confirmed since it goes on alone. So the server
%% gets another name: what the others send to the old one reaches nobody, and
%% members that join from now on learn the new one.
%%
%% The names of members are in Ra's configuration, in entries of the log, and in
%% snapshots. A new snapshot takes the place of the entries, and `todana_adopt'
%% changes the rest while the server does not run. An entry behind the snapshot
%% would make another server of the member that it names, and this node none: so
%% the directory notes first that no node may join, and the last change of the
%% members is looked at before the name changes. If the node ends before, the
%% note is there, and this is repeated.
-module(todana_alone).
-moduledoc false.

-export([go_on/0, detach/0, detach_for_good/0]).

-define(ATTEMPTS, 5).
-define(LEAD_TIMEOUT_MS, 10_000).
-define(OPEN_TIMEOUT_MS, 60_000).
-define(SNAPSHOT_TIMEOUT_MS, 3_600_000).
-define(STOP_TIMEOUT_MS, 60_000).
-define(TAKEN_IN_TIMEOUT_MS, 5_000).
-define(POLL_MS, 50).

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

-doc """
Gives up the members of a group whose node has no cluster any more. Each start
does so before the records can be read, until a snapshot has one member.
""".
-spec detach() -> ok | {error, iodata()}.
detach() ->
    maybe
        ok ?= forced(todana_members:force_alone()),
        await(fun is_applied/0, ?LEAD_TIMEOUT_MS,
              "the log cannot give up the members that it had")
    end.

-doc "Has a snapshot written that makes this lasting, if there is room for it.".
-spec detach_for_good() -> ok.
detach_for_good() ->
    case snapshot() =:= ok andalso todana_members:is_alone() of
        true ->
            _ = todana_data_dir:went_alone(todana_data_dir:opened()),
            ok;
        false ->
            ok
    end.

-spec is_applied() -> boolean().
is_applied() -> element(1, todana_ra:ask(?LEAD_TIMEOUT_MS)) =:= ok.

-spec separate(todana_data_dir:opened()) -> ok | {error, iodata()}.
separate(#{server_dir := Server} = Opened) ->
    maybe
        ok ?= written(todana_data_dir:go_alone(Opened)),
        ok ?= shrink(?ATTEMPTS),
        ok ?= has_one_member(todana_adopt:is_alone(
            Server, [todana_ra:server()]
        )),
        ok ?= written(todana_data_dir:rename_server(todana_data_dir:opened())),
        %% This clock may follow a `clock set` of the leader that is lost, and
        %% its entry is lost, too.
        ok = todana_nif:group_clock_forget(),
        ok = stop_group(),
        ok ?= await(fun is_open/0, ?OPEN_TIMEOUT_MS,
                    "this node is alone, and reads its log: see `bin/todana "
                    "status`"),
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
        ok ?= forced(todana_members:force_alone()),
        ok ?= await(fun todana_members:is_confirmed/0, ?LEAD_TIMEOUT_MS,
                    "this node does not lead: run the command again"),
        ok ?= snapshot(),
        case todana_members:is_alone() of
            true -> ok;
            false -> shrink(Left - 1)
        end
    end.

-spec forced(ok | todana_members:failure()) -> ok | {error, iodata()}.
forced(ok) ->
    ok;
forced({error, Reason}) ->
    {error, io_lib:format(
        "the log of this node does not answer (~0tp): run the command again",
        [Reason]
    )}.

%% One that is being written may have the old members. Ra passes over the next
%% one until it has taken that in, as that of a backup that waited for a leader.
-spec snapshot() -> ok | {error, iodata()}.
snapshot() ->
    _ = await(fun is_last_taken_in/0, ?TAKEN_IN_TIMEOUT_MS, ""),
    case todana_group:snapshot_wait(?SNAPSHOT_TIMEOUT_MS) of
        ok ->
            ok;
        {error, busy} ->
            timer:sleep(?POLL_MS),
            snapshot();
        %% Ra may pass over one: `shrink' sees that, and tries again.
        {error, ignored} ->
            ok;
        {error, Reason} ->
            unfinished(io_lib:format("the snapshot failed: ~0tp", [Reason]))
    end.

-spec is_last_taken_in() -> boolean().
is_last_taken_in() ->
    case ra:key_metrics(todana_ra:server()) of
        %% Ra's index is -1 without a snapshot.
        #{snapshot_index := Index} ->
            max(0, Index) >= todana_group_notes:last_index();
        #{} ->
            false
    end.

-spec has_one_member(boolean()) -> ok | {error, iodata()}.
has_one_member(true) -> ok;
has_one_member(false) -> unfinished("its snapshot has other members").

-spec written(ok | {error, term()}) -> ok | {error, iodata()}.
written(ok) ->
    ok;
written({error, Reason}) ->
    {error, io_lib:format(
        "the file `node` of the data directory cannot be written: ~0tp. Run "
        "the command again when that is mended", [Reason]
    )}.

-spec unfinished(iodata()) -> {error, iodata()}.
unfinished(Why) ->
    {error, ["this node is the only member now, but ", Why, ". Keep the old "
             "members from starting, and run the command again"]}.

-spec await(fun(() -> boolean()), integer(), iodata()) ->
    ok | {error, iodata()}.
await(Is, LeftMs, Sentence) ->
    case Is() of
        true ->
            ok;
        false when LeftMs =< 0 ->
            {error, Sentence};
        false ->
            timer:sleep(?POLL_MS),
            await(Is, LeftMs - ?POLL_MS, Sentence)
    end.
