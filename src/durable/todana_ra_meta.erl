%% The row of a server in Ra's table `meta.dets': its term, its vote, and how
%% much of its log is confirmed. It is changed only while no server runs.
-module(todana_ra_meta).
-moduledoc false.

-export([forget_applied/2, forget_vote/2]).

-doc """
Lets Ra find out again how much of the log is confirmed, since the log has got
shorter. It would confirm new entries at once up to where the old log went.
""".
-spec forget_applied(file:filename(), binary()) ->
    ok | {error, todana_log_problem:problem()}.
forget_applied(Directory, UId) ->
    change_row(Directory, UId, fun({Id, Term, Vote, _}) ->
        {Id, Term, Vote, 0}
    end).

-doc "Lets the only member of a group vote again, under another name.".
-spec forget_vote(file:filename(), binary()) ->
    ok | {error, todana_log_problem:problem()}.
forget_vote(Directory, UId) ->
    change_row(Directory, UId, fun({Id, Term, _, Applied}) ->
        {Id, Term, undefined, Applied}
    end).

-spec change_row(file:filename(), binary(), fun((tuple()) -> tuple())) ->
    ok | {error, todana_log_problem:problem()}.
change_row(Directory, UId, Change) ->
    File = filename:join(Directory, "meta.dets"),
    Table = make_ref(),
    case dets:open_file(Table, [{file, File}, {repair, true}]) of
        {ok, Table} ->
            Result = case dets:lookup(Table, UId) of
                [{UId, _, _, _} = Row] ->
                    dets:insert(Table, Change(Row));
                _ ->
                    ok
            end,
            result(File, [Result, dets:close(Table)]);
        %% `todana_ra_files:prepare/2' makes it again.
        {error, _} ->
            ok
    end.

-spec result(file:filename(), [term()]) ->
    ok | {error, todana_log_problem:problem()}.
result(File, Results) ->
    case [Reason || {error, Reason} <- Results] of
        [] -> ok;
        [Reason | _] ->
            {error, {unusable, File, io_lib:format("~tp", [Reason])}}
    end.
