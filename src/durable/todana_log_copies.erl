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
%%   the rows before the first that is missing, without what is torn of these.
%% - With `everysec', the file of the log was not synchronized before its
%%   entries were copied, so it may have lost them as well. If it has no entry
%%   any more that the snapshot lacks, Ra copies nothing, and stops at the first
%%   copy that is torn. The log then ends before that one. It is refused if the
%%   entry is not behind the one that todana_log_mark names as synchronized, if
%%   no part of it is missing, or if files of the log go on behind it.
%%
%% A copy is torn, and not damaged, if a sector of it is zeros. So a file must
%% end with the data of its last row with `everysec': Ra would write over the
%% rest of torn copies, and a second power failure could leave their bytes in
%% place of zeros.
%%
%% Nothing is taken out that is whole, but what Ra copies again and, with
%% `everysec', what is behind the end of the log; and nothing torn before that
%% whose entry the snapshot does not have.
-module(todana_log_copies).
-moduledoc false.

-export([examine/3, mend/3]).

-type file() :: {file:filename(), todana_log_file:scanned()}.
-type problem() :: todana_log_problem:problem().
%% The first entry that goes.
-type ending() :: pos_integer() | infinity.
%% A segment file, and the entries that it is to have.
-type cut() :: {file:filename(), [non_neg_integer()]}.

-doc "Whether a start could mend these files, or there is nothing to mend.".
-spec examine([file()], file:filename(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
examine(Files, Server, Durability) ->
    maybe
        {ok, _} ?= plan(Files, Server, Durability),
        ok
    end.

-doc "Takes torn copies out of the segment files of a log that is whole else.".
-spec mend([file()], file:filename(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
mend(Files, Server, Durability) ->
    maybe
        {ok, [_ | _] = Cuts} ?= plan(Files, Server, Durability),
        Directory = filename:dirname(Server),
        UId = list_to_binary(filename:basename(Server)),
        %% First: Ra would count new entries up to there as applied.
        ok ?= todana_ra_meta:forget_applied(Directory, UId),
        {ok, Kept} ?= cut_each(Cuts, Server, []),
        ok = report(Durability, Kept),
        [] ?= todana_log_missing:problems(Files, Server),
        end_files(Server, Durability)
    else
        {ok, []} -> end_files(Server, Durability);
        [Missing | _] -> {error, Missing};
        {error, Problem} -> {error, Problem}
    end.

-spec end_files(file:filename(), todana_data_dir:durability()) ->
    ok | {error, problem()}.
end_files(_Server, always) ->
    ok;
end_files(Server, everysec) ->
    Ends = [
        {File, End}
     || File <- todana_log_segment:files(Server),
        {ok, End} <- [todana_log_segment:left_over(File)], End =/= none
    ],
    end_each(Ends).

-spec end_each([{file:filename(), pos_integer()}]) -> ok | {error, problem()}.
end_each([]) ->
    ok;
end_each([{File, End} | Ends]) ->
    maybe
        ok ?= todana_log_problem:unusable(
            File, todana_log_cut:truncate(File, End)
        ),
        end_each(Ends)
    end.

-spec cut_each([cut()], file:filename(), [file:filename()]) ->
    {ok, [file:filename()]} | {error, problem()}.
cut_each([], _Server, Kept) ->
    {ok, Kept};
cut_each([{File, Entries} | Cuts], Server, Kept) ->
    maybe
        {ok, Copies} ?= todana_log_cut:cut_segment(File, Entries, Server),
        cut_each(Cuts, Server, Copies ++ Kept)
    end.

-spec report(todana_data_dir:durability(), [file:filename()]) -> ok.
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

%% ------------------------------------------------------------------ plan ---

%% From the newest file: a log that ends early is whole.
-spec plan([file()], file:filename(), todana_data_dir:durability()) ->
    {ok, [cut()]} | {error, problem()}.
plan(Files, Server, Durability) ->
    Snapshot = lists:max([0 | todana_snapshot_files:indexes(Server)]),
    maybe
        Copied = copied_again(Files, Snapshot),
        {ok, Ending} ?= ending(Copied, Server, Snapshot, Durability),
        IsElsewhere = fun(Index) ->
            Index =< Snapshot orelse todana_log_missing:is_in_log(Index, Files)
        end,
        Found = [
            {File, todana_log_segment:indexes(File)}
         || File <- todana_log_segment:files(Server)
        ],
        Limits = [
            min(Copied, Limit) || Limit <- todana_log_segments:limits(Found)
        ],
        Named = lists:reverse(lists:zip(Found, Limits)),
        plan_each(Named, Ending, IsElsewhere, [])
    end.

-spec plan_each(
    [{{file:filename(), {ok, [non_neg_integer()]} | {error, problem()}},
      non_neg_integer() | infinity}],
    ending(), fun((non_neg_integer()) -> boolean()), [cut()]
) -> {ok, [cut()]} | {error, problem()}.
plan_each([], _Ending, _IsElsewhere, Cuts) ->
    {ok, lists:reverse(Cuts)};
plan_each([{{_File, {error, _}}, _} | Named], Ending, IsElsewhere, Cuts) ->
    %% The snapshot has its entries, or the start is refused for it.
    plan_each(Named, Ending, IsElsewhere, Cuts);
plan_each([{{File, {ok, Indexes}}, Limit} | Named], Ending, IsElsewhere,
          Cuts) ->
    IsBehind = lists:any(fun(Index) -> Index >= Ending end, Indexes),
    maybe
        {ok, IsTorn} ?= todana_log_segment:is_torn(File),
        {ok, Own} ?= case IsBehind orelse IsTorn of
            true -> kept(File, min(Ending, Limit), IsElsewhere);
            false -> {ok, []}
        end,
        plan_each(Named, Ending, IsElsewhere, Own ++ Cuts)
    end.

%% The whole entries of a file before this one: from there on, Ra copies entries
%% again, another file has them, or the log has ended.
-spec kept(
    file:filename(), ending(), fun((non_neg_integer()) -> boolean())
) -> {ok, [cut()]} | {error, problem()}.
kept(File, End, IsElsewhere) ->
    maybe
        {ok, Entries, Damage} ?= todana_log_segment:damage(File),
        Missing = [
            Problem
         || {Index, _, Problem} <- Damage, Index < End, not IsElsewhere(Index)
        ],
        Bad = [Index || {Index, _, _} <- Damage],
        case Missing of
            [] -> {ok, [{File, [I || I <- Entries -- Bad, I < End]}]};
            [Problem | _] -> {error, Problem}
        end
    end.

%% The first torn copy of an entry that nothing else has.
-spec ending(
    pos_integer() | infinity, file:filename(), non_neg_integer(),
    todana_data_dir:durability()
) -> {ok, ending()} | {error, problem()}.
ending(_Copied, _Server, _Snapshot, always) ->
    {ok, infinity};
ending(Copied, Server, Snapshot, everysec) ->
    Damage = [
        Found
     || Copied > Snapshot + 1,
        {_, {ok, _, Damage}} <- todana_log_segments:damage(Server),
        {Index, _, _} = Found <- Damage,
        Snapshot < Index, Index < Copied
    ],
    case {lists:sort(Damage), todana_log_mark:read(Server)} of
        {[], _} ->
            {ok, infinity};
        {[{_, IsTorn, Problem} | _], _}
                when not IsTorn; Copied =/= infinity ->
            {error, Problem};
        {_, {error, Problem}} ->
            {error, Problem};
        {[{Index, true, Problem} | _], {ok, Synced}} when Index =< Synced ->
            {error, Problem};
        {[{Index, true, _} | _], _} ->
            {ok, Index}
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
