%% What a power failure has left of the newest copies in segment files, before
%% Ra reads them.
%%
%% Ra copies the entries of a file of the log to segment files, synchronizes
%% these, and then deletes the file. If the power fails before, any sectors of
%% the copies may be missing. That does no harm as a rule: Ra copies the entries
%% of the file again, and their older copies count no more. Two cases need help:
%%
%% - The index of a segment has a row for each entry. If the first sectors of
%%   the new rows are missing and later ones are not, Ra writes the first rows
%%   again, and takes those behind them, which may name other places, for newer
%%   ones. And a row of 32 bytes that crosses two sectors, of which only the
%%   second is there, is one of entry 0 for Ra, before which no other counts: it
%%   then misses entries that are long on disk. So the file is written anew with
%%   the rows before the first that is missing.
%% - With `everysec', the file of the log was not synchronized before its
%%   entries were copied, so it may have lost them as well. If it has no entry
%%   any more that the snapshot lacks, Ra copies nothing, and stops at the first
%%   copy that is torn. The log then ends before that one, if it is behind the
%%   entry that todana_log_mark names as synchronized.
-module(todana_log_copies).
-moduledoc false.

-export([examine/3, mend/3]).

-type file() :: {file:filename(), todana_log_file:scanned()}.
-type problem() :: todana_log_problem:problem().
%% The first entry that goes, by its damage; none goes before `infinity'.
-type ending() :: pos_integer() | infinity.

-doc "Whether a start could mend these files, or there is nothing to mend.".
-spec examine([file()], file:filename(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
examine(Files, Server, Durability) ->
    case ending(Files, Server, Durability) of
        {ok, _} -> ok;
        Error -> Error
    end.

-doc "Takes torn copies out of the segment files of a log that is whole else.".
-spec mend([file()], file:filename(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
mend(Files, Server, Durability) ->
    maybe
        {ok, Ending} ?= ending(Files, Server, Durability),
        %% From the newest: a log that ends early is whole.
        Segments = lists:reverse(todana_log_segment:files(Server)),
        {ok, Kept} ?= mend_each(Segments, Ending, Server, []),
        ok ?= forget_applied(Ending, Server),
        report(Durability, Kept)
    end.

-spec mend_each(
    [file:filename()], ending(), file:filename(), [file:filename()]
) -> {ok, [file:filename()]} | {error, problem()}.
mend_each([], _Ending, _Server, Kept) ->
    {ok, Kept};
mend_each([File | Files], Ending, Server, Kept) ->
    maybe
        {ok, Indexes} ?= todana_log_segment:indexes(File),
        {ok, Copies} ?= mend_one(File, Indexes, Ending, Server),
        mend_each(Files, Ending, Server, Copies ++ Kept)
    end.

-spec mend_one(
    file:filename(), [non_neg_integer()], ending(), file:filename()
) -> {ok, [file:filename()]} | {error, problem()}.
mend_one(File, Indexes, Ending, Server) ->
    {Before, Behind} = lists:partition(fun(I) -> I < Ending end, Indexes),
    case Behind =/= [] orelse todana_log_segment:is_torn(File) of
        true ->
            Readable = todana_log_segment:readable(
                File, sets:from_list(Before)
            ),
            todana_log_cut:cut_segment(File, Readable, Server);
        false ->
            {ok, []}
    end.

%% Ra would count new entries up to there as applied.
-spec forget_applied(ending(), file:filename()) -> ok | {error, problem()}.
forget_applied(infinity, _Server) ->
    ok;
forget_applied(_Ending, Server) ->
    todana_ra_files:forget_applied(
        filename:dirname(Server), list_to_binary(filename:basename(Server))
    ).

-spec report(todana_data_dir:durability(), [file:filename()]) -> ok.
report(_Durability, []) ->
    ok;
report(Durability, Kept) ->
    Loss = case Durability of
        always -> "no confirmed write is lost";
        everysec -> "writes of the last second may be lost"
    end,
    logger:warning(
        "todana: the last copies of entries in a segment file are not whole, "
        "as after a power failure; ~ts; the file is kept as ~ts",
        [Loss, lists:join(", ", Kept)]
    ).

%% ---------------------------------------------------------------- ending ---

%% The first torn copy of an entry that nothing else has.
-spec ending([file()], file:filename(), todana_data_dir:durability()) ->
    {ok, ending()} | {error, problem()}.
ending(_Files, _Server, always) ->
    {ok, infinity};
ending(Files, Server, everysec) ->
    Snapshot = lists:max([0 | todana_snapshot_files:indexes(Server)]),
    Copied = copied_again(Files, Snapshot),
    Torn = [
        Found
     || File <- todana_log_segment:files(Server), Copied > Snapshot + 1,
        {_, _} = Found <- [todana_log_segment:broken(
            File, Snapshot + 1, before(Copied)
        )]
    ],
    case {lists:sort(Torn), todana_log_mark:read(Server)} of
        {[], _} -> {ok, infinity};
        {[{_, Problem} | _], _} when Copied =/= infinity -> {error, Problem};
        {_, {error, Problem}} -> {error, Problem};
        {[{Index, Problem} | _], {ok, Synced}} when Index =< Synced ->
            {error, Problem};
        {[{Index, _} | _], _} -> {ok, Index}
    end.

%% The first entry that Ra copies again from files of the log: it does so for
%% those that the snapshot lacks.
-spec copied_again([file()], non_neg_integer()) -> pos_integer() | infinity.
copied_again(Files, Snapshot) ->
    lists:min([infinity | [
        max(Lowest, Snapshot + 1)
     || {_, #{lowest := Lowest, last := #{index := Last}}} <- Files,
        max(Lowest, Last) > Snapshot
    ]]).

-spec before(pos_integer() | infinity) -> non_neg_integer() | infinity.
before(infinity) -> infinity;
before(Index) -> Index - 1.
