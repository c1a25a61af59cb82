%% Keeps events of the log back while a node starts.
%%
%% The command line prints why a start failed as one line, which replaces the
%% reports of OTP about the same failure: of each supervisor, of the process and
%% of the application. Whether they are needed is known only when the start has
%% ended. So these reports are held until then, and logged with their own times
%% if no sentence replaces them. All other events are logged at once.
-module(todana_log_held).
-moduledoc false.

-export([hold/0, log/0, drop/0]).
%% The filter
-export([filter/2]).

-doc "From now on, holds the reports of OTP and of libraries.".
-spec hold() -> ok.
hold() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, ordered_set]),
    logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, ?MODULE}).

-doc """
Logs what was held. If a signal ends the start at the moment when it has ended
by itself, one of the two calls logs it.
""".
-spec log() -> ok.
log() ->
    lists:foreach(fun({_Order, Event}) -> log(Event) end, release()).

-doc "Forgets what was held, because a sentence replaces it.".
-spec drop() -> ok.
drop() ->
    _ = release(),
    ok.

-spec release() -> [{integer(), logger:log_event()}].
release() ->
    case logger:remove_primary_filter(?MODULE) of
        ok ->
            Held = ets:tab2list(?MODULE),
            true = ets:delete(?MODULE),
            Held;
        {error, {not_found, _}} ->
            []
    end.

%% The metadata has the time and the process of the event.
-spec log(logger:log_event()) -> ok.
log(#{level := Level, msg := {string, String}, meta := Meta}) ->
    logger:log(Level, String, Meta);
log(#{level := Level, msg := {report, Report}, meta := Meta}) ->
    logger:log(Level, Report, Meta);
log(#{level := Level, msg := {Format, Arguments}, meta := Meta}) ->
    logger:log(Level, Format, Arguments, Meta).

%% Called in the process that logs. One that was about to call it when the
%% holding ended finds no table, and its event goes on as any other.
-spec filter(logger:log_event(), ets:tab()) -> logger:filter_return().
filter(Event, Table) ->
    case is_report(Event) of
        true ->
            Order = erlang:unique_integer([monotonic]),
            try ets:insert(Table, {Order, Event}) of
                true -> stop
            catch
                error:badarg -> ignore
            end;
        false ->
            ignore
    end.

%% Todana's own events have no domain.
-spec is_report(logger:log_event()) -> boolean().
is_report(#{meta := #{domain := [Domain | _]}}) ->
    Domain =:= otp orelse Domain =:= ra;
is_report(#{meta := #{error_logger := _}}) ->
    true;
is_report(#{}) ->
    false.
