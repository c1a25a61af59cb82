%% The Raft groups of this node, by their numbers.
%%
%% There is one, number 0, which has all durable databases. A member of a
%% cluster has the same numbers as the others.
%%
%% The processes of a group are registered under the name of their module; those
%% of another group than the first one have its number behind it. The first
%% one's have none, because members of earlier versions send messages to these
%% names.
-module(todana_raft_groups).
-moduledoc false.

-export([first/0, ids/0, name/2, opened/1, of_uid/1, question/2]).

-export_type([id/0]).

-type id() :: 0..63.

-define(FIRST, 0).

-doc "The group of all databases, while there is one.".
-spec first() -> id().
first() -> ?FIRST.

-doc "The groups that have a server on this node.".
-spec ids() -> [id(), ...].
ids() -> [?FIRST].

-doc "The registered name of a process of the group, as `todana_batcher_3`.".
-spec name(Process :: atom(), id()) -> atom().
name(Process, ?FIRST) -> Process;
name(Process, Group) ->
    binary_to_atom(
        <<(atom_to_binary(Process))/binary, "_",
          (integer_to_binary(Group))/binary>>
    ).

-doc """
The directory with the group's log and what it says now, which changes while the
node runs: `has_group`, `server`, `joining` and `forced`. Raises `badarg` if
this node uses no directory.
""".
-spec opened(id()) -> todana_data_dir:opened().
opened(_Group) -> todana_data_dir:opened().

-doc "The group whose server has this UId, as its directory is named.".
-spec of_uid(binary()) -> id().
of_uid(UId) ->
    [Group] = [
        Group
     || Group <- ids(), #{uid := Own} <- [opened(Group)], Own =:= UId
    ],
    Group.

-doc """
The arguments of a function that other nodes call about a group. A member of an
earlier version has it without the number, for the first one.
""".
-spec question(id(), [term()]) -> [term()].
question(?FIRST, Arguments) -> Arguments;
question(Group, Arguments) -> [Group | Arguments].
