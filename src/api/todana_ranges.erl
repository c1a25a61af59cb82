%% Walks over ordered tables, a page at a time.
%%
%% No state is kept between two pages: the cursor is the key where the last page
%% ended.
-module(todana_ranges).
-moduledoc false.

-export([range/4, prefix/3, one/4, fold/5]).
%% For guests
-export([native/6]).

%% Records that one native call returns in a fold.
-define(COUNT, 100).

-type page() :: {[term()], {cursor, binary()} | done}.

-doc "A page of the records between two ends, and the next page's cursor.".
-spec range(todana:table(), term(), term(), term()) ->
    page() | todana_error:cause().
range(Table, From, To, Options) ->
    case todana_call_options:read(range, Options) of
        {ok, Wanted} ->
            Range = {between, bound(first, From), bound(last, To)},
            of_bound(page(Table, Range, Wanted));
        {error, Cause} ->
            {badarg, 4, Cause}
    end.

-doc "A page of the records whose keys begin with these bytes.".
-spec prefix(todana:table(), term(), term()) -> page() | todana_error:cause().
prefix(Table, Prefix, Options) ->
    case todana_call_options:read(range, Options) of
        {ok, Wanted} -> page(Table, {prefix, Prefix}, Wanted);
        {error, Cause} -> {badarg, 3, Cause}
    end.

-spec bound(first | last, term()) -> todana_nif:bound().
bound(End, End) -> unbounded;
bound(_End, {excluded, Key}) -> {excluded, Key};
bound(_End, {included, Key}) -> {included, Key};
bound(_End, Key) -> {included, Key}.

%% The second and the third argument may also be bounds, not only keys.
-spec of_bound(Result) -> Result | todana_error:cause().
of_bound({badarg, 2, not_iodata}) -> {badarg, 2, {not_a_bound, first}};
of_bound({badarg, 3, not_iodata}) -> {badarg, 3, {not_a_bound, last}};
of_bound(Result) -> Result.

-spec page(todana:table(), todana_nif:range(), map()) ->
    page() | todana_error:cause().
page(Table, Range, Wanted) ->
    #{
        limit := Limit,
        reverse := Reverse,
        keys_only := KeysOnly,
        cursor := Cursor
    } = Wanted,
    After =
        case Cursor of
            start -> nil;
            {cursor, Key} -> Key
        end,
    case native(Table, Range, After, Reverse, Limit, KeysOnly) of
        {done, Records} -> {Records, done};
        {Next, Records} when is_binary(Next) -> {Records, {cursor, Next}};
        Misuse -> Misuse
    end.

-doc "The first or the last key of a range.".
-spec one(todana:table(), term(), term(), boolean()) ->
    {ok, term()} | error | todana_error:cause().
one(Table, From, To, Reverse) ->
    Range = {between, bound(first, From), bound(last, To)},
    one_after(Table, Range, nil, Reverse).

-spec one_after(
    todana:table(), todana_nif:range(), binary() | nil, boolean()
) ->
    {ok, term()} | error | todana_error:cause().
one_after(Table, Range, After, Reverse) ->
    case native(Table, Range, After, Reverse, 1, true) of
        {_, [Key | _]} -> {ok, Key};
        {done, []} -> error;
        %% The walk has met only expired records so far.
        {Next, []} -> one_after(Table, Range, Next, Reverse);
        %% The argument is the only key of next/2 and prev/2.
        {badarg, 3, Cause} -> {badarg, 2, Cause};
        Misuse -> Misuse
    end.

-doc "Folds over the records between two ends, in order.".
-spec fold(
    fun((term(), term(), Acc) -> Acc), Acc, todana:table(), term(), term()
) -> {ok, Acc} | todana_error:cause().
fold(Function, Acc, Table, From, To) ->
    Range = {between, bound(first, From), bound(last, To)},
    fold_after(Function, Acc, Table, Range, nil).

-spec fold_after(
    fun((term(), term(), Acc) -> Acc),
    Acc,
    todana:table(),
    todana_nif:range(),
    binary() | nil
) -> {ok, Acc} | todana_error:cause().
fold_after(Function, Acc0, Table, Range, After) ->
    case native(Table, Range, After, false, ?COUNT, false) of
        {badarg, _, _} = Misuse ->
            case of_bound(Misuse) of
                {badarg, 0, _} = Cause -> Cause;
                %% The table is the third argument of a fold.
                {badarg, Number, Cause} -> {badarg, Number + 2, Cause}
            end;
        {Next, Pairs} ->
            Acc = lists:foldl(
                fun({Key, Value}, Acc1) -> Function(Key, Value, Acc1) end,
                Acc0,
                Pairs
            ),
            case Next of
                done -> {ok, Acc};
                _ -> fold_after(Function, Acc, Table, Range, Next)
            end
    end.

%% One native call, and a second one if Erlang has to encode large keys.
-doc false.
-spec native(
    todana:table(), todana_nif:range() | {encoded, todana_nif:range()},
    binary() | nil, boolean(), pos_integer(), boolean()
) -> {binary() | done, [term()]} | todana_error:cause().
native(Table, Range, After, Reverse, Limit, KeysOnly) ->
    case todana_nif:range(Table, Range, After, Reverse, Limit, KeysOnly) of
        {Next, Records, term} when KeysOnly ->
            Keys = [element(1, todana_codec:pair(Pair)) || Pair <- Records],
            {Next, Keys};
        {Next, Records, term} ->
            {Next, [todana_codec:pair(Pair) || Pair <- Records]};
        encode ->
            case encoded(Table, Range) of
                {badarg, _, _} = Misuse ->
                    Misuse;
                Encoded ->
                    native(Table, {encoded, Encoded}, After, Reverse, Limit,
                           KeysOnly)
            end;
        {badarg, 0, away} ->
            Others = [Range, After, Reverse, Limit, KeysOnly],
            todana_away:call(?MODULE, native, Table, Others);
        Result ->
            Result
    end.

-spec encoded(todana:table(), todana_nif:range()) ->
    todana_nif:range() | todana_error:cause().
encoded(Table, {prefix, Prefix}) ->
    case todana_codec:prefix(Table, Prefix) of
        {badarg, _, _} = Misuse -> Misuse;
        Bytes -> {prefix, Bytes}
    end;
encoded(Table, {between, From, To}) ->
    case {encoded_bound(Table, From), encoded_bound(Table, To)} of
        {{badarg, _, Cause}, _} -> {badarg, 2, Cause};
        {_, {badarg, _, Cause}} -> {badarg, 3, Cause};
        {Low, High} -> {between, Low, High}
    end.

-spec encoded_bound(todana:table(), todana_nif:bound()) ->
    todana_nif:bound() | todana_error:cause().
encoded_bound(_Table, unbounded) ->
    unbounded;
encoded_bound(Table, {End, Key}) ->
    case todana_codec:key(Table, Key) of
        {badarg, _, _} = Misuse -> Misuse;
        Bytes -> {End, Bytes}
    end.
