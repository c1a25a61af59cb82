%% Gives the server of the only member of a group another name, its own or its
%% node's.
%%
%% Ra's server has both in its configuration, in its snapshots and in its vote.
%% Only the one member of a group can get a new name: it becomes the first
%% member of a cluster, its directory was copied to another host, or it goes on
%% without the members that it had (todana_alone). The configuration is written
%% last: until then, a next start begins again.
%%
%% A server that is to give up the other members without a cluster gets the name
%% while it has them: it reaches none of them.
-module(todana_adopt).
-moduledoc false.

-export([server/2, is_alone/2]).

-doc "Gives the server in this directory this name and node, in its files.".
-spec server(ra:server_id(), todana_data_dir:opened()) ->
    ok | {error, todana_log_problem:problem()}.
server(Id, #{server_dir := Server} = Opened) ->
    Config = filename:join(Server, "config"),
    case todana_small_file:read_terms(Config) of
        {ok, [#{id := Id}]} ->
            ok;
        {ok, [#{id := Old, initial_members := Members} = Terms]} ->
            IsFirst = Members =:= [Old] andalso
                todana_snapshot_files:all(Server) =:= [],
            case
                IsFirst orelse is_detached(Opened) orelse
                    is_alone(Server, [Old, Id])
            of
                true ->
                    rename(Server, Terms, Id);
                false ->
                    {error, {missing, Config, "this file is that of another "
                             "member"}}
            end;
        {ok, _} ->
            {error, {missing, Config, "this file is that of another member"}};
        {error, Reason} ->
            {error, {unusable, Config, file:format_error(Reason)}}
    end.

-spec is_detached(todana_data_dir:opened()) -> boolean().
is_detached(#{cluster := Cluster, forced := IsForced}) ->
    Cluster =:= none andalso IsForced.

-spec rename(file:filename(), map(), ra:server_id()) ->
    ok | {error, todana_log_problem:problem()}.
rename(Server, #{id := Old} = Terms, {Name, _} = Id) ->
    maybe
        ok ?= snapshots(Server, Old, Id),
        ok ?= vote(Server),
        ok ?= forget_names(Server),
        New = Terms#{
            id := Id, initial_members := [Id], cluster_name := Name,
            membership => voter
        },
        write(filename:join(Server, "config"), io_lib:format("~0p.~n", [New]))
    end.

-doc """
Whether the newest snapshot of this server has one member: one of these.
""".
-spec is_alone(file:filename(), [ra:server_id()]) -> boolean().
is_alone(Server, Ids) ->
    case lists:sort(todana_snapshot_files:all(Server)) of
        [_ | _] = Snapshots ->
            {_, File} = lists:last(Snapshots),
            case todana_snapshot_files:read_meta(filename:dirname(File)) of
                {ok, #{cluster := Cluster}} when map_size(Cluster) =:= 1 ->
                    maps:keys(Cluster) -- Ids =:= [];
                _ ->
                    false
            end;
        [] ->
            false
    end.

%% Ra's table of names, which is made again.
-spec forget_names(file:filename()) ->
    ok | {error, todana_log_problem:problem()}.
forget_names(Server) ->
    File = filename:join(filename:dirname(Server), "names.dets"),
    case file:delete(File, [raw]) of
        {error, enoent} -> ok;
        Result -> todana_log_problem:unusable(File, Result)
    end.

-spec write(file:filename(), iodata()) ->
    ok | {error, todana_log_problem:problem()}.
write(File, Bytes) ->
    todana_log_problem:unusable(File, todana_small_file:replace(File, Bytes)).

-spec snapshots(file:filename(), ra:server_id(), ra:server_id()) ->
    ok | {error, todana_log_problem:problem()}.
snapshots(Server, Old, New) ->
    Found = filelib:wildcard(filename:join([Server, "snapshots", "*"])),
    lists:foldl(
        fun(Directory, ok) -> snapshot(Directory, Old, New);
           (_, Error) -> Error
        end, ok, Found
    ).

%% One without its data is what a crash left of an attempt.
-spec snapshot(file:filename(), ra:server_id(), ra:server_id()) ->
    ok | {error, todana_log_problem:problem()}.
snapshot(Directory, Old, New) ->
    IsWhole = filelib:is_file(todana_snapshot_files:data(Directory)),
    case IsWhole andalso todana_snapshot_files:read_meta(Directory) of
        {ok, #{cluster := #{Old := Member} = Cluster} = Meta} ->
            File = todana_snapshot_files:meta(Directory),
            write(File, todana_snapshot_files:meta_bytes(
                Meta#{cluster := (maps:remove(Old, Cluster))#{New => Member}}
            ));
        {error, Reason} ->
            {error, {unusable, todana_snapshot_files:meta(Directory),
                     io_lib:format("~0tp", [Reason])}};
        _ ->
            ok
    end.

%% The only member has voted for nobody else.
-spec vote(file:filename()) -> ok | {error, todana_log_problem:problem()}.
vote(Server) ->
    todana_ra_meta:forget_vote(
        filename:dirname(Server), list_to_binary(filename:basename(Server))
    ).
