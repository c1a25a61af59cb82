%% Reports what happens in the application to one handler, a function of three
%% arguments as in telemetry:execute/3. docs/production.md lists them.
%%
%% Tables and servers report that they start and stop. Everything else is a
%% difference of counters, computed each second while there is a handler; so no
%% read or write of a record pays for it.
%%
%% The handler runs in a process of its own, which this one starts and watches:
%% if the handler raises, exits, or takes too long, it is removed and an error
%% is logged. The handler is in the application's environment, where a restart
%% of this process finds it again.
-module(todana_events).
-moduledoc false.
-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([set_handler/1, report/2, start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(INTERVAL_MS, 1000).
%% The time that a handler has for the events of one interval.
-define(HANDLER_MS, 5000).
%% Events that wait for a slow handler; further ones are dropped.
-define(WAITING_MAX, 1000).

-type name() :: [atom(), ...].
-type event() :: {name(), map(), map()}.
-type handler() :: fun((name(), map(), map()) -> term()).
%% The value of each counter at the last look, by the tables that it counts;
%% `none' before the first.
-type counted() ::
    #{term() => {name(), map(), #{term() => non_neg_integer()}}} | none.

%% The statistics of the server, `#{}' without one.
-type server() :: fun(() -> #{atom() => number() | binary()}).
-type state() :: {server(), counted()}.

-doc "See `todana:set_event_handler/1`.".
-spec set_handler(term()) -> ok | todana_nif:cause().
set_handler(none) ->
    application:set_env(todana, event_handler, none);
set_handler(Handler) when is_function(Handler, 3) ->
    ok = application:set_env(todana, event_handler, Handler),
    gen_server:cast(?MODULE, look);
set_handler(_Handler) ->
    {badarg, 1, {not_a_function, 3}}.

-spec handler() -> handler() | none.
handler() ->
    case application:get_env(todana, event_handler) of
        {ok, Handler} when is_function(Handler, 3) -> Handler;
        _ -> none
    end.

-doc "Reports an event that happens now.".
-spec report(name(), map()) -> ok.
report(Name, Metadata) ->
    case {handler(), whereis(?MODULE)} of
        {Handler, Pid} when is_function(Handler), is_pid(Pid) ->
            case process_info(Pid, message_queue_len) of
                {message_queue_len, Waiting} when Waiting < ?WAITING_MAX ->
                    Measurements = #{system_time => erlang:system_time()},
                    Event = {Name, Measurements, Metadata},
                    gen_server:cast(Pid, {report, Event});
                _ ->
                    ok
            end;
        _ ->
            ok
    end.

-doc "Starts the process. `Server` returns what the server counts.".
-spec start_link(server()) -> gen_server:start_ret().
start_link(Server) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Server, []).

-spec init(server()) -> {ok, state()}.
init(Server) ->
    gen_server:cast(self(), look),
    {ok, {Server, none}}.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, ok, state()}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast({report, Event}, State) ->
    ok = run([Event]),
    {noreply, State};
handle_cast(look, {Server, none}) ->
    {noreply, {Server, look(Server, none)}};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(look, {Server, Counted}) ->
    {noreply, {Server, look(Server, Counted)}};
handle_info(_Message, State) ->
    {noreply, State}.

%% Reports what was counted since the last look, and looks again later; without
%% a handler it does neither.
-spec look(server(), counted()) -> counted().
look(Server, Before) ->
    case handler() of
        none ->
            none;
        _ ->
            _ = erlang:send_after(?INTERVAL_MS, self(), look),
            Now = remember(Before, counters(Server)),
            ok = run(differences(Before, Now)),
            Now
    end.

%% A database that is closed keeps its counts: opened again, it continues there.
-spec remember(counted(), counted()) -> counted().
remember(none, Now) ->
    Now;
remember(Before, Now) ->
    maps:map(
        fun(Id, {Name, Metadata, Counts}) ->
            {_, _, Old} = maps:get(Id, Before, {Name, Metadata, #{}}),
            {Name, Metadata, maps:merge(Old, Counts)}
        end,
        maps:merge(maps:filter(fun is_of_databases/2, Before), Now)
    ).

-spec is_of_databases(term(), term()) -> boolean().
is_of_databases({_Event, databases}, _Counted) -> true;
is_of_databases(_Id, _Counted) -> false.

-spec sum(#{term() => non_neg_integer()}) -> non_neg_integer().
sum(Counts) ->
    lists:sum(maps:values(Counts)).

-spec differences(counted(), counted()) -> [event()].
differences(none, _Now) ->
    [];
differences(Before, Now) ->
    [
        {Name, #{count => Count - Old}, Metadata}
     || Id := {Name, Metadata, Counts} <- Now,
        Count <- [sum(Counts)],
        Old <- [before(Id, Count, Before)],
        Count > Old
    ].

%% A counter that is new, or began again, was 0.
-spec before(term(), non_neg_integer(), map()) -> non_neg_integer().
before(Id, Count, Before) ->
    case Before of
        #{Id := {_, _, Counts}} ->
            case sum(Counts) of
                Old when Old =< Count -> Old;
                _ -> 0
            end;
        #{} ->
            0
    end.

-spec counters(server()) -> counted().
counters(Server) ->
    maps:merge(of_tables(), of_clients(Server)).

-spec of_tables() -> counted().
of_tables() ->
    lists:foldl(fun of_table/2, #{}, todana_nif:tables()).

%% The numbered databases count together: SWAPDB exchanges their tables, and
%% with them the counts.
-spec of_table({atom(), reference()}, counted()) -> counted().
of_table({Name, Handle}, Counted) ->
    case {todana_nif:options(Handle), todana_nif:counts(Handle)} of
        {{_, _, _, _, _, nil, _}, Counts} when is_list(Counts) ->
            add({Name, Handle}, Name, #{table => Name}, Counts, Counted);
        {{_, _, _, _, _, _Database, _}, Counts} when is_list(Counts) ->
            add(databases, Name, #{table => databases}, Counts, Counted);
        _Closed ->
            Counted
    end.

-spec add(
    term(), atom(), map(), [{binary(), non_neg_integer()}], counted()
) -> counted().
add(Source, Name, Metadata, Counts, Counted) ->
    lists:foldl(
        fun({Word, Event}, Acc) ->
            {_, Count} = lists:keyfind(Word, 1, Counts),
            Id = {Event, Source},
            {_, _, Others} = maps:get(Id, Acc, {none, none, #{}}),
            All = Others#{Name => Count},
            Acc#{Id => {[todana, table, Event], Metadata, All}}
        end,
        Counted,
        [{~"expired", expired}, {~"evicted", evicted}, {~"refused", refused}]
    ).

-spec of_clients(server()) -> counted().
of_clients(Server) ->
    %% The server may be starting, or too busy to answer.
    Info =
        try
            Server()
        catch
            exit:_ -> #{}
        end,
    #{
        {client, Word} => {[todana, client, Event], Metadata, #{Word => Count}}
     || {Word, Event, Metadata} <- [
            {connections_rejected, rejected, #{}},
            {authentication_failures, authentication_failed, #{}},
            {evicted_clients, closed, #{reason => clients_memory_limit}},
            {output_limit_disconnections, closed, #{reason => output_limit}}
        ],
        Count <- [maps:get(Word, Info, 0)]
    }.

-spec run([event()]) -> ok.
run([]) ->
    ok;
run(Events) ->
    case handler() of
        none ->
            ok;
        Handler ->
            {Pid, Monitor} = spawn_monitor(fun() -> call(Handler, Events) end),
            receive
                {'DOWN', Monitor, process, Pid, normal} -> ok;
                {'DOWN', Monitor, process, Pid, Why} -> remove(Handler, Why)
            after ?HANDLER_MS ->
                exit(Pid, kill),
                erlang:demonitor(Monitor, [flush]),
                remove(Handler, timeout)
            end
    end.

%% Without an exception, which the emulator would log as well.
-spec call(handler(), [event()]) -> ok.
call(Handler, Events) ->
    try
        lists:foreach(
            fun({Name, Measurements, Metadata}) ->
                Handler(Name, Measurements, Metadata)
            end,
            Events
        )
    catch
        Class:Reason:Stack -> exit({Class, Reason, Stack})
    end.

-spec remove(handler(), term()) -> ok.
remove(Handler, Why) ->
    ?LOG_ERROR(
        "todana: the event handler ~tp is removed, because it failed: ~tp",
        [Handler, Why]
    ),
    case handler() of
        Handler -> set_handler(none);
        %% Another one was set meanwhile.
        _ -> ok
    end.
