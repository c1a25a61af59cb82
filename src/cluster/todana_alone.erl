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
%% changes the rest while the server does not run. If the node ends before, it
%% is the only member under the old name, and this can be repeated.
-module(todana_alone).
-moduledoc false.

-export([go_on/0]).

-define(LEAD_TIMEOUT_MS, 10_000).
-define(OPEN_TIMEOUT_MS, 60_000).
-define(SNAPSHOT_TIMEOUT_MS, 3_600_000).
-define(STOP_TIMEOUT_MS, 60_000).
-define(POLL_MS, 50).

-doc "Returns when this node accepts writes as the only member.".
-spec go_on() -> ok | {error, iodata()}.
go_on() ->
    maybe
        ok ?= await(fun todana_members:is_confirmed/0, ?LEAD_TIMEOUT_MS,
                    "this node does not lead"),
        ok ?= snapshot(),
        #{server_dir := Server} = Opened = todana_data_dir:opened(),
        ok ?= is_separable(todana_adopt:is_alone(Server, [todana_ra:server()])),
        ok ?= written(todana_data_dir:rename_server(Opened)),
        %% Its supervisor starts it again, and all behind it.
        ok = gen_server:stop(todana_group, shutdown, ?STOP_TIMEOUT_MS),
        await(fun is_open/0, ?OPEN_TIMEOUT_MS,
              "this node is alone, and reads its log: see `bin/todana status`")
    end.

-spec is_open() -> boolean().
is_open() -> maps:get(state, todana_group:info()) =:= serving.

%% One that is being written may have the old members.
-spec snapshot() -> ok | {error, iodata()}.
snapshot() ->
    case todana_group:snapshot_wait(?SNAPSHOT_TIMEOUT_MS) of
        ok ->
            ok;
        {error, busy} ->
            timer:sleep(?POLL_MS),
            snapshot();
        {error, Reason} ->
            unfinished(io_lib:format("the snapshot failed: ~0tp", [Reason]))
    end.

-spec is_separable(boolean()) -> ok | {error, iodata()}.
is_separable(true) -> ok;
is_separable(false) -> unfinished("its snapshot has other members").

-spec written(ok | {error, term()}) -> ok | {error, iodata()}.
written(ok) ->
    ok;
written({error, Reason}) ->
    unfinished(io_lib:format("a file cannot be written: ~0tp", [Reason])).

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
