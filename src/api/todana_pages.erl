%% Walks over a table, a page at a time.
-module(todana_pages).
-moduledoc false.

-export([scan/3, fold/3, fold_snapshot/3]).
%% For guests
-export([native/3]).

%% Approximate number of records that one native call returns.
-define(COUNT, 100).

-doc "A page and the cursor of the next page.".
-spec scan(todana:table(), term(), term()) ->
    {[{term(), term()}], {cursor, pos_integer()} | done}
    | todana_nif:misuse().
scan(Table, start, Options) ->
    page(Table, 0, Options);
scan(Table, {cursor, Cursor}, Options) when
    is_integer(Cursor), Cursor > 0, Cursor < 1 bsl 64
->
    page(Table, Cursor, Options);
scan(_Table, _Cursor, _Options) ->
    {badarg, 2, not_a_cursor}.

-spec page(todana:table(), non_neg_integer(), term()) ->
    {[{term(), term()}], {cursor, pos_integer()} | done}
    | todana_nif:misuse().
page(Table, Cursor, #{count := Count} = Options) when
    is_integer(Count), Count > 0, map_size(Options) =:= 1
->
    case native(Table, Cursor, min(Count, 1000)) of
        {0, Pairs} -> {decoded(Pairs), done};
        {Next, Pairs} when is_integer(Next) -> {decoded(Pairs), {cursor, Next}};
        Misuse -> Misuse
    end;
page(Table, Cursor, Options) when Options =:= #{} ->
    page(Table, Cursor, #{count => ?COUNT});
page(_Table, _Cursor, Options) when not is_map(Options) ->
    {badarg, 3, not_a_map};
page(_Table, _Cursor, _Options) ->
    {badarg, 3, {bad_option, count}}.

%% Runs on a dirty scheduler if the table has few and large shards.
-doc false.
-spec native(todana:table(), non_neg_integer(), pos_integer()) ->
    {non_neg_integer(), [term()]} | todana_nif:misuse().
native(Table, Cursor, Count) ->
    case todana_nif:scan(Table, Cursor, Count) of
        dirty ->
            case todana_nif:handle(Table) of
                {badarg, _, _} = Misuse -> Misuse;
                Handle -> todana_nif:scan_dirty(Handle, Cursor, Count)
            end;
        {badarg, 0, away} ->
            todana_away:call(?MODULE, native, Table, [Cursor, Count]);
        Result ->
            Result
    end.

-spec decoded([term()]) -> [{term(), term()}].
decoded(Pairs) ->
    [todana_codec:pair(Pair) || Pair <- Pairs].

-doc "Folds over the pages of a scan; in order if the table is ordered.".
-spec fold(fun((term(), term(), Acc) -> Acc), Acc, todana:table()) ->
    {ok, Acc} | {badarg, 3, term()}.
fold(Function, Acc, Table) ->
    case todana_nif:options(Table) of
        {_, _, _, _, nil, _, _} ->
            fold(Function, Acc, Table, 0);
        {badarg, 1, Cause} ->
            {badarg, 3, Cause};
        _Ordered ->
            todana_ranges:fold(Function, Acc, Table, first, last)
    end.

-spec fold(
    fun((term(), term(), Acc) -> Acc), Acc, todana:table(), non_neg_integer()
) -> {ok, Acc} | {badarg, 3, term()}.
fold(Function, Acc0, Table, Cursor) ->
    case native(Table, Cursor, ?COUNT) of
        {badarg, 1, Cause} ->
            {badarg, 3, Cause};
        {badarg, 0, _} = Cause ->
            Cause;
        {Next, Pairs} ->
            case over(Function, Acc0, Pairs) of
                Acc when Next =:= 0 -> {ok, Acc};
                Acc -> fold(Function, Acc, Table, Next)
            end
    end.

-spec over(fun((term(), term(), Acc) -> Acc), Acc, [term()]) -> Acc.
over(_Function, Acc, []) ->
    Acc;
over(Function, Acc, [Pair | Pairs]) ->
    {Key, Value} = todana_codec:pair(Pair),
    over(Function, Function(Key, Value, Acc), Pairs).

-doc "Folds over a snapshot, and releases it even if the function raises.".
-spec fold_snapshot(fun((term(), term(), Acc) -> Acc), Acc, todana:table()) ->
    {ok, Acc} | {error, busy | abandoned} | {badarg, 3, term()}.
fold_snapshot(Function, Acc, Table) ->
    case todana_nif:snapshot(Table) of
        {ok, Snapshot} ->
            try
                over_snapshot(Function, Acc, Snapshot)
            after
                todana_nif:snapshot_end(Snapshot)
            end;
        {error, busy} ->
            {error, busy};
        {badarg, 0, away} ->
            {badarg, 3, away};
        {badarg, 0, _} = Cause ->
            Cause;
        {badarg, 1, Cause} ->
            {badarg, 3, Cause}
    end.

-spec over_snapshot(
    fun((term(), term(), Acc) -> Acc), Acc, todana_nif:snapshot()
) -> {ok, Acc} | {error, abandoned}.
over_snapshot(Function, Acc0, Snapshot) ->
    case part(Snapshot) of
        {done, Pairs} ->
            {ok, over(Function, Acc0, Pairs)};
        {abandoned, _} ->
            {error, abandoned};
        {more, Pairs} ->
            over_snapshot(Function, over(Function, Acc0, Pairs), Snapshot)
    end.

-spec part(todana_nif:snapshot()) ->
    {more | done | abandoned, [term()]} | todana_nif:misuse().
part(Snapshot) ->
    case todana_nif:snapshot_next(Snapshot, ?COUNT) of
        dirty -> todana_nif:snapshot_next_dirty(Snapshot, ?COUNT);
        Result -> Result
    end.
