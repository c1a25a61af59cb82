%% Limits what the processes of Ra write to the log of the node.
%%
%% A server of Ra that cannot read its log fails again and again, and each time
%% its process, the supervisor and the supervisor's supervisor report it, with
%% the state of the process. Todana says in one sentence what is wrong if it
%% knows the cause; so these reports are left out. Of the others, a few are let
%% through per minute. It is a filter of the node's logger, and looks only at
%% processes of Todana's own log and their supervisor.
-module(todana_ra_reports).
-moduledoc false.

-export([limit/0, unlimit/0]).
%% The filter
-export([filter/2]).

-define(PER_MINUTE, 3).
-define(MINUTE_MS, 60_000).

-doc "Adds the filter to the logger.".
-spec limit() -> ok.
limit() ->
    %% When the current minute began, and the reports in it.
    Counts = atomics:new(2, []),
    _ = logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, Counts}),
    ok.

-spec unlimit() -> ok.
unlimit() ->
    _ = logger:remove_primary_filter(?MODULE),
    ok.

%% Called in the process that reports.
-spec filter(logger:log_event(), atomics:atomics_ref()) ->
    logger:filter_return().
filter(#{level := error, msg := Message, meta := Meta}, Counts) ->
    case is_ours() orelse is_about_ours(Message, Meta) of
        true ->
            ok = todana_ra_words:remember(Message),
            IsKnown = todana_ra_words:is_known(Message),
            stop_if(IsKnown orelse is_too_much(Counts));
        false ->
            stop_if(is_stop_of_group(Message))
    end;
filter(_Event, _Counts) ->
    ignore.

-spec stop_if(boolean()) -> logger:filter_return().
stop_if(true) -> stop;
stop_if(false) -> ignore.

%% `cluster force' stops the group, and its supervisor starts it again.
-spec is_stop_of_group(term()) -> boolean().
is_stop_of_group({report, #{report := [_ | _] = Facts}}) ->
    Supervisor = proplists:get_value(supervisor, Facts),
    proplists:get_value(reason, Facts) =:= shutdown andalso
        lists:member(Supervisor, [
            {local, Name}
         || Name <- [
                todana_durable_sup
             | [
                    todana_raft_groups:name(todana_group_sup, Group)
                 || Group <- todana_raft_groups:ids()
                ]
            ]
        ]);
is_stop_of_group(_Message) ->
    false.

-spec is_ours() -> boolean().
is_ours() ->
    Own = case process_info(self(), registered_name) of
        {registered_name, Name} -> [Name];
        _ -> []
    end,
    Ancestors = case get('$ancestors') of
        [_ | _] = Processes -> [Name || Name <- Processes, is_atom(Name)];
        _ -> []
    end,
    lists:any(fun todana_ra_system:is_name/1, Own ++ Ancestors).

%% A message of Ra's in a process that has called it; a report of a supervisor
%% without a name, which has the system among what its child was started with;
%% and that of the emulator about a process that writes segments, if no other
%% application of this node can use Ra.
-spec is_about_ours(term(), logger:metadata()) -> boolean().
is_about_ours({_Format, Arguments}, #{domain := [ra | _]}) when
    is_list(Arguments)
->
    Names = [Argument || Argument <- Arguments, is_atom(Argument)],
    lists:any(fun todana_ra_system:is_name/1, Names);
is_about_ours({report, #{
    report := [{supervisor, {_Pid, ra_system_sup}} | Facts]
}}, _Meta) ->
    todana_ra_words:names(
        proplists:get_value(offender, Facts), fun todana_ra_system:is_name/1
    );
is_about_ours({"Error in process " ++ _, [_Pid, Reason | _]}, #{
    error_logger := #{emulator := true}
}) ->
    todana_foreground:is_starting() andalso todana_ra_words:names(
        Reason, fun(Atom) -> Atom =:= ra_log_segment_writer end
    );
is_about_ours(_Message, _Meta) ->
    false.

-spec is_too_much(atomics:atomics_ref()) -> boolean().
is_too_much(Counts) ->
    NowMs = erlang:system_time(millisecond),
    case NowMs - atomics:get(Counts, 1) > ?MINUTE_MS of
        true ->
            ok = atomics:put(Counts, 1, NowMs),
            ok = atomics:put(Counts, 2, 1),
            false;
        false ->
            atomics:add_get(Counts, 2, 1) > ?PER_MINUTE
    end.
