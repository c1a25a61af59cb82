%% All segment files of a server together: what one of them has is replaced by
%% later ones from their first entry on.
%%
%% Ra reads them so. It writes entries again after a crash, and a file that is
%% full then keeps their older copies, which may be torn.
-module(todana_log_segments).
-moduledoc false.

-export([indexes/1, damage/1, limits/1]).

-type problem() :: todana_log_problem:problem().

-doc "The entries of each file, by age, that no later one replaces.".
-spec indexes(file:filename()) ->
    [{file:filename(), {ok, [non_neg_integer()]} | {error, problem()}}].
indexes(Server) ->
    Found = [
        {File, todana_log_segment:indexes(File)}
     || File <- todana_log_segment:files(Server)
    ],
    [
        case Result of
            {ok, Entries} -> {File, {ok, before(Limit, Entries)}};
            {error, Problem} -> {File, {error, Problem}}
        end
     || {{File, Result}, Limit} <- lists:zip(Found, limits(Found))
    ].

-doc "The same, and those of them that are not whole: reads each.".
-spec damage(file:filename()) -> [{
    file:filename(),
    {ok, [non_neg_integer()], [todana_log_segment:damage()]}
    | {error, problem()}
}].
damage(Server) ->
    Found = [
        {File, todana_log_segment:damage(File)}
     || File <- todana_log_segment:files(Server)
    ],
    [
        case Result of
            {ok, Entries, Damage} ->
                Own = [Copy || {Index, _, _} = Copy <- Damage, Index < Limit],
                {File, {ok, before(Limit, Entries), Own}};
            {error, Problem} ->
                {File, {error, Problem}}
        end
     || {{File, Result}, Limit} <- lists:zip(Found, limits(Found))
    ].

-spec before(non_neg_integer() | infinity, [non_neg_integer()]) ->
    [non_neg_integer()].
before(Limit, Entries) -> [Index || Index <- Entries, Index < Limit].

-doc "For each file, by age, the first entry that a later one replaces.".
-spec limits([{file:filename(), tuple()}]) -> [non_neg_integer() | infinity].
limits(Found) ->
    {Limits, _} = lists:mapfoldr(
        fun({_File, Result}, Limit) -> {Limit, lowest(Result, Limit)} end,
        infinity, Found
    ),
    Limits.

%% A file that cannot be read replaces nothing that is known.
-spec lowest(tuple(), non_neg_integer() | infinity) ->
    non_neg_integer() | infinity.
lowest({error, _}, Limit) -> Limit;
lowest(Found, Limit) -> lists:min([Limit | element(2, Found)]).
