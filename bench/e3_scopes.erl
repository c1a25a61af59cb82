%% What runs on the nodes that e3_names.erl measures: names and groups of
%% `global', `pg' and a cluster scope of Todana, in the same words.
%%
%% Each function is called by erpc on the node that it is about. A time is that
%% of all operations together, in microseconds, by the clock of the node.
-module(e3_scopes).

-export([open/0]).
-export([register/3, unregister/2, whereis/3, await_name/3]).
-export([await_free/2, await_all_free/2, kill/1]).
-export([join/3, leave/2, members/3, await_member/2, watch/3]).
-export([call/2]).

-export_type([arm/0, owned/0]).

-type arm() :: global | pg | todana.
%% Names or groups, and the process of each.
-type owned() :: [{Subject :: term(), pid()}].

-define(SCOPE, e3).
-define(WAIT_MS, 30_000).
-define(POLL_MS, 5).
%% How often a monitor is tried.
-define(ATTEMPTS, 20).
-define(ATTEMPT_MS, 100).
%% While somebody looks up, copies may be used after this time at the latest.
-define(WARM_MS, 100).

%% -------------------------------------------------------------- the node ---

%% Starts the scopes of the node.
-spec open() -> ok.
open() ->
    case pg:start(pg) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok
    end,
    todana_names:start_scope(?SCOPE, cluster).

%% ----------------------------------------------------------------- names ---

%% Registers names of as many processes of this node.
-spec register(arm(), Prefix :: term(), pos_integer()) -> {float(), owned()}.
register(Arm, Prefix, Count) ->
    Owned = [{{Prefix, N}, idle()} || N <- lists:seq(1, Count)],
    {each(Owned, fun({Name, Pid}) ->
        yes = register_one(Arm, Name, Pid)
    end), Owned}.

-spec register_one(arm(), term(), pid()) -> yes | no.
register_one(global, Name, Pid) ->
    global:register_name({?SCOPE, Name}, Pid);
register_one(todana, Name, Pid) ->
    todana_names:register_name({?SCOPE, Name}, Pid).

-spec unregister(arm(), owned()) -> {float(), ok}.
unregister(global, Owned) ->
    {each(Owned, fun({Name, _}) ->
        global:unregister_name({?SCOPE, Name})
    end), ok};
unregister(todana, Owned) ->
    {each(Owned, fun({Name, _}) ->
        ok = todana_names:unregister_name({?SCOPE, Name})
    end), ok}.

%% Looks each name up as often as there are passes.
-spec whereis(arm(), owned(), pos_integer()) -> {float(), ok}.
whereis(global, Owned, Passes) ->
    {passes(Passes, Owned, fun({Name, Pid}) ->
        Pid = global:whereis_name({?SCOPE, Name})
    end), ok};
whereis(todana, Owned, Passes) ->
    {passes(Passes, Owned, fun({Name, Pid}) ->
        Pid = todana_names:whereis_name({?SCOPE, Name})
    end), ok}.

%% This node knows the name, and what was registered before it. It looks names
%% up now, and may use copies.
-spec await_name(arm(), term(), pid()) -> ok.
await_name(Arm, Name, Pid) ->
    warm(fun() -> where(Arm, Name) =:= Pid end).

-spec where(arm(), term()) -> pid() | undefined.
where(global, Name) -> global:whereis_name({?SCOPE, Name});
where(todana, Name) -> todana_names:whereis_name({?SCOPE, Name}).

%% Looks a name up once a millisecond until no process has it. Returns the time
%% in the units of os:perf_counter/0, whose clock all nodes of a host share.
-spec await_free(arm(), term()) -> integer().
await_free(Arm, Name) ->
    case where(Arm, Name) of
        undefined ->
            os:perf_counter();
        _ ->
            receive after 1 -> ok end,
            await_free(Arm, Name)
    end.

-spec await_all_free(arm(), owned()) -> integer().
await_all_free(Arm, Owned) ->
    lists:foreach(
        fun({Name, _}) ->
            await(fun() -> where(Arm, Name) =:= undefined end)
        end,
        Owned
    ),
    os:perf_counter().

-spec kill(owned()) -> ok.
kill(Owned) ->
    lists:foreach(fun({_, Pid}) -> exit(Pid, kill) end, Owned).

%% ---------------------------------------------------------------- groups ---

%% One process of this node joins the given number of groups.
-spec join(arm(), Prefix :: term(), pos_integer()) -> {float(), owned()}.
join(Arm, Prefix, Count) ->
    Pid = idle(),
    Owned = [{{Prefix, N}, Pid} || N <- lists:seq(1, Count)],
    {each(Owned, fun({Group, _}) -> ok = join_one(Arm, Group, Pid) end), Owned}.

-spec join_one(arm(), term(), pid()) -> ok.
join_one(pg, Group, Pid) -> pg:join({?SCOPE, Group}, Pid);
join_one(todana, Group, Pid) -> todana_groups:join(?SCOPE, Group, Pid).

-spec leave(arm(), owned()) -> {float(), ok}.
leave(pg, Owned) ->
    {each(Owned, fun({Group, Pid}) ->
        ok = pg:leave({?SCOPE, Group}, Pid)
    end), ok};
leave(todana, Owned) ->
    {each(Owned, fun({Group, Pid}) ->
        ok = todana_groups:leave(?SCOPE, Group, Pid)
    end), ok}.

%% Looks the members of each group up as often as there are passes.
-spec members(arm(), owned(), pos_integer()) -> {float(), ok}.
members(pg, Owned, Passes) ->
    {passes(Passes, Owned, fun({Group, Pid}) ->
        [Pid] = pg:get_members({?SCOPE, Group})
    end), ok};
members(todana, Owned, Passes) ->
    {passes(Passes, Owned, fun({Group, Pid}) ->
        [Pid] = todana_groups:get_members(?SCOPE, Group)
    end), ok}.

%% The same as await_name/3, of a group.
-spec await_member(arm(), {term(), pid()}) -> ok.
await_member(pg, {Group, Pid}) ->
    warm(fun() -> pg:get_members({?SCOPE, Group}) =:= [Pid] end);
await_member(todana, {Group, Pid}) ->
    warm(fun() -> todana_groups:get_members(?SCOPE, Group) =:= [Pid] end).

%% A process that reports when a group has its first member.
-spec watch(arm(), pid(), term()) -> ok.
watch(Arm, Parent, Group) ->
    Monitor = monitor(process, Parent),
    {Ref, []} = monitored(Arm, Group, ?ATTEMPTS),
    Parent ! {watching, self()},
    receive
        {Ref, join, _, _} -> Parent ! {seen, self()}, ok;
        {'DOWN', Monitor, process, Parent, _} -> ok
    end.

%% A guest may have no answer from its seat while that has others to serve.
-spec monitored(arm(), term(), pos_integer()) ->
    {reference(), [pid()]} | {error, unavailable}.
monitored(Arm, Group, Attempts) ->
    case monitored(Arm, Group) of
        {error, unavailable} when Attempts > 1 ->
            timer:sleep(?ATTEMPT_MS),
            monitored(Arm, Group, Attempts - 1);
        Result ->
            Result
    end.

-spec monitored(arm(), term()) ->
    {reference(), [pid()]} | {error, unavailable}.
monitored(pg, Group) -> pg:monitor({?SCOPE, Group});
monitored(todana, Group) -> todana_groups:monitor(?SCOPE, Group).

%% ------------------------------------------------------------------ calls ---

%% Remote calls, one after another.
-spec call(node(), pos_integer()) -> {float(), ok}.
call(Node, Count) ->
    {each(lists:seq(1, Count), fun(_) ->
        Node = erpc:call(Node, erlang, node, [])
    end), ok}.

-spec idle() -> pid().
idle() ->
    spawn(fun() -> receive stop -> ok end end).

-spec passes(pos_integer(), owned(), fun(({term(), pid()}) -> term())) ->
    float().
passes(Passes, Owned, Do) ->
    each(lists:seq(1, Passes), fun(_) -> lists:foreach(Do, Owned) end).

-spec each([Each], fun((Each) -> term())) -> float().
each(All, Do) ->
    Started = erlang:monotonic_time(),
    ok = lists:foreach(Do, All),
    Elapsed = erlang:monotonic_time() - Started,
    erlang:convert_time_unit(Elapsed, native, nanosecond) / 1.0e3.

-spec warm(fun(() -> boolean())) -> ok.
warm(Is) ->
    ok = await(Is),
    lists:foreach(
        fun(_) ->
            _ = Is(),
            timer:sleep(?POLL_MS)
        end,
        lists:seq(1, ?WARM_MS div ?POLL_MS)
    ).

-spec await(fun(() -> boolean())) -> ok.
await(Is) ->
    todana_nodes:await(Is, ?POLL_MS, ?WAIT_MS).
