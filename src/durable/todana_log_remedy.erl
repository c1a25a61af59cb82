%% What a person does about damaged files of a data directory.
%%
%% A node that is alone, or the only member of a cluster, has nothing but its
%% own files: a backup brings them back, or `repair' cuts the log. A member of a
%% cluster with others must do neither. It would have forgotten entries that it
%% has confirmed, and vote for a leader without them: then the cluster loses
%% writes that it has acknowledged. The other members have its records, so it
%% leaves and joins again with an empty directory.
%%
%% Whether there are others is in the file `node'. As long as that does not name
%% the members, there may be some.
-module(todana_log_remedy).
-moduledoc false.

-export([words/1, of_running/0, repair/2, refusal/1, unknown/1, member/1,
         without_majority/0, older_copy/0]).

%% A path in a data directory has fewer parts below it.
-define(DEPTH_MAX, 8).

-doc "What to do about this file of a data directory.".
-spec words(file:filename_all()) -> string().
words(Path) ->
    case shared(Path, ?DEPTH_MAX) of
        none -> "restore a backup";
        {_DataDir, Terms} -> join_anew(Terms)
    end.

-doc "What to do about a file of the node's data directory.".
-spec of_running() -> string().
of_running() ->
    try todana_raft_groups:opened(todana_raft_groups:first()) of
        #{data_dir := DataDir} -> words(DataDir)
    catch
        error:badarg -> "restore a backup"
    end.

-doc "What to do about a cluster of which this node reaches no majority.".
-spec without_majority() -> string().
without_majority() ->
    "start the other members, or repair the network; `bin/todana cluster "
    "status` says whether they run and refuse this node; only if a majority is "
    "lost for good: `bin/todana cluster force --i-accept-data-loss`, which "
    "gives up the writes that only the lost members have".

-doc "What to do about the directory of this node, if it is an older copy.".
-spec older_copy() -> string().
older_copy() ->
    lists:concat([
        "if the others have a majority, run `bin/todana cluster leave ",
        node(), "` on one of them, and let this node join again with an empty "
        "directory; only if all members were restored from copies, or the "
        "others are lost for good, start with the option "
        "cluster_accept_older = yes (--cluster-accept-older), which gives up "
        "the writes that this directory has forgotten; docs/cluster.md, "
        "\"Older copies\""
    ]).

-doc "The same, if `repair` could help a node that is alone, which does this.".
-spec repair(file:filename_all(), Does :: string()) -> string().
repair(Path, Does) ->
    case shared(Path, ?DEPTH_MAX) of
        none ->
            lists:concat(["restore a backup, or see `bin/todana repair`, "
                          "which ", Does]);
        {_DataDir, Terms} ->
            join_anew(Terms)
    end.

-doc "Why `repair` does not change this data directory.".
-spec refusal(file:filename()) -> none | string().
refusal(DataDir) ->
    case shared(DataDir, 0) of
        none ->
            none;
        {_, Terms} ->
            lists:concat([DataDir, ": ", join_anew(Terms)])
    end.

-doc "What to do about a directory whose file `node` cannot be read.".
-spec unknown(file:filename()) -> string().
unknown(DataDir) ->
    lists:concat([
        DataDir, ": its file `node` cannot be read: ", join_anew(#{})
    ]).

-doc "Why `dump` does not read this data directory.".
-spec member(file:filename()) -> none | {member, string()}.
member(DataDir) ->
    case todana_data_dir:identity(DataDir) of
        {ok, #{left_ms := _}} ->
            none;
        {ok, #{cluster := Cluster}} when is_binary(Cluster) ->
            {member, lists:concat([
                DataDir, ": this is the directory of a node of the cluster ",
                unicode:characters_to_list(Cluster), ", which can be read only "
                "by starting the node: use `bin/todana backup` where the "
                "cluster runs, and `bin/todana restore` to read a backup alone"
            ])};
        _ ->
            none
    end.

-spec join_anew(map()) -> string().
join_anew(#{cluster := Cluster, left_ms := _}) ->
    lists:concat(["this is the directory of a node that was removed from the "
                  "cluster ", Cluster, ": join again with an empty directory, "
                  "or read its records with `bin/todana dump`"]);
join_anew(#{cluster := Cluster, node := Node}) ->
    lists:flatten([
        "this is the directory of a member of the cluster ", Cluster,
        ", which would lose confirmed writes by a repair or a backup: run "
        "`bin/todana cluster leave ", atom_to_list(Node), "` on another "
        "member, and let this node join again with an empty directory"
    ]);
join_anew(#{}) ->
    "if this is a member of a cluster, remove it with `bin/todana cluster "
    "leave` on another member, and let it join again with an empty directory; "
    "otherwise restore a backup".

%% The data directory that has this path, and its terms, if its cluster has, or
%% may have, other members.
-spec shared(file:filename_all(), non_neg_integer()) ->
    none | {file:filename_all(), map()}.
shared(Path, Left) ->
    Parent = filename:dirname(Path),
    case todana_data_dir:identity(Path) of
        {ok, #{cluster := Cluster, node := Node} = Terms} when
            is_binary(Cluster), is_atom(Node)
        ->
            case Terms of
                #{members := [Node]} when not is_map_key(joining, Terms) ->
                    none;
                #{} ->
                    {Path, Terms#{
                        cluster := unicode:characters_to_list(Cluster)
                    }}
            end;
        {ok, #{uid := _}} ->
            none;
        {ok, #{}} ->
            {Path, #{}};
        none ->
            case filelib:is_regular(filename:join(Path, "node")) of
                true -> {Path, #{}};
                false when Left > 0, Parent =/= Path ->
                    shared(Parent, Left - 1);
                false ->
                    none
            end
    end.
