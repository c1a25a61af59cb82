%% Which terms the entries had that this node has applied, since it read its
%% records.
%%
%% Raft applies what is confirmed, and a log has entries of growing terms. So
%% if one member has applied an entry of an earlier term behind, or in place of,
%% one of a later term that another member has applied, their logs differ in
%% confirmed entries. That cannot happen unless a member has forgotten what it
%% had confirmed: its log was cut, or replaced by an older copy.
%%
%% A row of the notes has all of it for a group, so that a reader sees one
%% moment. A node changes it with each entry, and its term a few times in its
%% life.
-module(todana_log_terms).
-moduledoc false.

-export([begin_anew/3, applied/3, ranges/1, term_at/2, first_conflict/2]).

-export_type([range/0]).

-define(TABLE, todana_group_notes).
-define(ROW(Group), {log_terms, Group}).
%% Earlier ones are forgotten.
-define(RANGES_MAX, 64).

%% Entries from the first to the last one had this term.
-type range() :: {
    Term :: non_neg_integer(), First :: pos_integer(), Last :: pos_integer()
}.

-doc "The records are those at this entry, which had this term; 0 and 0: none.".
-spec begin_anew(
    todana_raft_groups:id(), non_neg_integer(), non_neg_integer()
) -> ok.
begin_anew(Group, Index, Term) -> insert(Group, Term, Index, Index, []).

-spec insert(
    todana_raft_groups:id(), non_neg_integer(), non_neg_integer(),
    non_neg_integer(), [range()]
) -> ok.
insert(Group, Term, First, Last, Older) ->
    true = ets:insert(?TABLE, {?ROW(Group), Term, First, Last, Older}),
    ok.

-doc "This entry was applied. Called in the process that applies the log.".
-spec applied(todana_raft_groups:id(), pos_integer(), non_neg_integer()) -> ok.
applied(Group, Index, Term) ->
    Row = ?ROW(Group),
    case ets:lookup(?TABLE, Row) of
        [{_, Term, _, _, _}] ->
            true = ets:update_element(?TABLE, Row, {4, Index}),
            ok;
        [{_, _, _, 0, _}] ->
            insert(Group, Term, Index, Index, []);
        %% A leader begins its term with an entry of its own, which no machine
        %% sees.
        [{_, Before, First, Last, Older}] ->
            insert(Group, Term, max(Last + 1, Index - 1), Index, lists:sublist(
                [{Before, First, Last} | Older], ?RANGES_MAX
            ));
        [] ->
            insert(Group, Term, Index, Index, [])
    end.

-doc "The terms of what was applied, from the oldest.".
-spec ranges(todana_raft_groups:id()) -> [range()].
ranges(Group) ->
    try ets:lookup(?TABLE, ?ROW(Group)) of
        [{_, Term, First, Last, Older}] when Last > 0 ->
            lists:reverse(Older, [{Term, First, Last}]);
        _ ->
            []
    catch
        error:badarg -> []
    end.

-doc "The term of this entry, or 0 if it is not known.".
-spec term_at(todana_raft_groups:id(), non_neg_integer()) -> non_neg_integer().
term_at(Group, Index) ->
    case [Term || {Term, First, Last} <- ranges(Group),
                  First =< Index, Index =< Last] of
        [Term] -> Term;
        [] -> 0
    end.

-doc "The first entries, of the one and of the other, that are not of one log.".
-spec first_conflict([range()], [range()]) -> none | {range(), range()}.
first_conflict(Own, Other) ->
    Conflicts = [
        {A, B}
     || {TermA, FirstA, LastA} = A <- Own,
        {TermB, FirstB, LastB} = B <- Other,
        (TermA < TermB andalso FirstB =< LastA) orelse
            (TermB < TermA andalso FirstA =< LastB)
    ],
    case Conflicts of
        [] -> none;
        [First | _] -> First
    end.
