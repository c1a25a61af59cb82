%% What segment files and snapshots have of the log, if its older files end
%% early.
%%
%% Ra ends a file of the log with an fdatasync, so a file with a successor is
%% whole. There is one exception. After an fdatasync that failed, Ra reads the
%% file again, takes over its entries from the cache of the operating system,
%% and begins the next file behind them. The entries are not confirmed before
%% they are in a segment file or in the next file, and synchronized there; but
%% the old file stays for a moment. If the power fails in that moment, the old
%% file may have lost its end. The log then has a gap between the two files, and
%% Ra does not see that segment files fill it: it reads up to the gap only, and
%% writes over the rest.
%%
%% If a snapshot and the segment files have all entries up to the first one of
%% the next file, the older files are of no use and are set aside.
-module(todana_log_cover).
-moduledoc false.

-export([superseded/2, gaps/2, lowest/1]).

-type file() :: {file:filename(), todana_log_file:scanned()}.

-doc """
The files of the log, from the oldest, up to the last one that ends early, if
segment files and a snapshot in the directory of the server have their entries.
""".
-spec superseded([file()], file:filename()) -> [file:filename()].
superseded(Files, Server) ->
    Covered = [Older || {Older, Next} <- breaks(Files),
                        is_covered(Next - 1, Server)],
    case Covered of
        [] -> [];
        [Older | _] -> [File || {File, _} <- Older]
    end.

-doc """
The whole files that end before the next one begins, the first and the last
missing entry, and whether a snapshot and segment files have all entries up to
there.
""".
-spec gaps([file()], file:filename()) ->
    [{file:filename(), integer(), integer(), boolean()}].
gaps(Files, Server) ->
    lists:reverse([
        {File, Last + 1, Next - 1, is_covered(Next - 1, Server)}
     || {Older, Next} <- breaks(Files),
        {File, #{damage := none, last := #{index := Last}}} <-
            [lists:last(Older)]
    ]).

%% For each file whose end is missing, from the newest: the files up to it, and
%% the first index behind it.
-spec breaks([file()]) -> [{[file()], non_neg_integer()}].
breaks([]) ->
    [];
breaks(Files) ->
    [
        {Older, Next}
     || Count <- lists:seq(length(Files) - 1, 1, -1),
        {Older, Later} <- [lists:split(Count, Files)],
        Next <- lowest(Later),
        is_broken(lists:last(Older), Next)
    ].

-doc "The first index of these files, if they have entries.".
-spec lowest([file()]) -> [non_neg_integer()].
lowest(Files) ->
    case [Index || {_, #{lowest := Index}} <- Files, Index =/= none] of
        [] -> [];
        [Index | _] -> [Index]
    end.

-spec is_broken(file(), non_neg_integer()) -> boolean().
is_broken({_, #{last := #{index := Last}}}, Next) -> Next > Last + 1;
is_broken({_, #{damage := Damage}}, _Next) -> Damage =/= none.

%% ------------------------------------------------------------------ cover ---

%% Whether a snapshot and the segment files have all entries up to this one.
-spec is_covered(integer(), file:filename()) -> boolean().
is_covered(Last, Server) ->
    Snapshot = lists:max([0 | snapshots(Server)]),
    %% Without the snapshot, nothing can replace the entries before it.
    case Snapshot =:= 0 andalso todana_snapshot_files:is_born(Server) of
        true -> false;
        false -> is_covered(min(Snapshot, Last) + 1, Last, Server)
    end.

-spec is_covered(pos_integer(), integer(), file:filename()) -> boolean().
is_covered(First, Last, Server) ->
    Missing = sets:from_list(lists:seq(First, Last)),
    sets:is_empty(lists:foldl(
        fun(File, Left) ->
            Found = todana_log_segment:readable(File, Left),
            sets:subtract(Left, sets:from_list(Found))
        end,
        Missing, todana_log_segment:files(Server)
    )).

%% The indexes of the snapshots that are whole.
-spec snapshots(file:filename()) -> [non_neg_integer()].
snapshots(Server) ->
    [
        Index
     || {Index, File} <- todana_snapshot_files:all(Server),
        todana_nif:snapshot_verify(unicode:characters_to_binary(File)) =:= ok
    ].
