%% Names and groups of processes on one node, in interleaved rounds: local
%% scopes beside ETS and `global', cluster scopes of a node with a log of its
%% own beside `global' and `pg'.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run names main NAMES ROUNDS DIRECTORY
%% Prints one line of JSON for each cell: operation and arm, with the
%% microseconds of each round for one operation. A round registers NAMES names
%% of as many processes (a cluster scope and `global' a tenth of them), looks
%% each up twice and unregisters it. `members' reads a group of 10 processes.
-module(names).

-export([main/1]).

-define(SLOW_PART, 10).
-define(MEMBERS, 10).

-type arm() ::
    ets | global | pg | todana_local | todana_cluster | todana_groups.

-spec main([string()]) -> no_return().
main([Names, Rounds, Directory]) ->
    _ = application:load(todana),
    ok = application:set_env(todana, data_dir, Directory),
    {ok, _} = application:ensure_all_started(todana),
    ok = todana_names:start_scope(here, local),
    ok = todana_names:start_scope(everywhere, cluster),
    {ok, _} = pg:start_link(rooms),
    Pids = [spawn_link(fun() -> receive stop -> ok end end)
            || _ <- lists:seq(1, ?MEMBERS)],
    ok = pg:join(rooms, room, Pids),
    ok = todana_groups:join(everywhere, room, Pids),
    Table = ets:new(names, [
        public, {read_concurrency, true}, {write_concurrency, true}
    ]),
    Count = list_to_integer(Names),
    Owners = [spawn_link(fun() -> receive stop -> ok end end)
              || _ <- lists:seq(1, Count)],
    Owned = [{{user, N}, Owner} || {N, Owner} <- lists:enumerate(Owners)],
    lists:foreach(
        fun(Operation) ->
            cell(Operation, Table, Owned, list_to_integer(Rounds))
        end,
        [register, first_whereis, whereis, unregister, members]
    ),
    halt(0).

-spec arms(atom()) -> [arm()].
arms(members) -> [pg, todana_groups];
arms(_Operation) -> [ets, global, todana_local, todana_cluster].

-spec cell(atom(), ets:table(), [{term(), pid()}], pos_integer()) -> ok.
cell(Operation, Table, Owned, Rounds) ->
    Arms = [{Arm, {Arm, Table, some(Arm, Owned)}} || Arm <- arms(Operation)],
    Played = rounds:play(Rounds, Arms, fun(It) -> measure(Operation, It) end),
    lists:foreach(
        fun({Arm, Samples}) ->
            rounds:print(#{
                operation => Operation, arm => Arm,
                us_per_operation => [round(S * 1.0e4) / 1.0e4 || S <- Samples]
            })
        end,
        Played
    ).

-spec some(arm(), [Owned]) -> [Owned].
some(Arm, Owned) when Arm =:= global; Arm =:= todana_cluster ->
    lists:sublist(Owned, max(1, length(Owned) div ?SLOW_PART));
some(_Arm, Owned) ->
    Owned.

%% Only the operation is measured; what it needs is made before, and removed.
-spec measure(atom(), {arm(), ets:table(), [{term(), pid()}]}) -> float().
measure(members, {Arm, _Table, Names}) ->
    microseconds(Names, fun(_Name) -> [_ | _] = members(Arm) end);
measure(Operation, {Arm, Table, Names}) ->
    Each = fun(Do) -> microseconds(Names, fun(N) -> Do(Arm, Table, N) end) end,
    Registered = Each(fun register/3),
    First = Each(fun whereis/3),
    Next = Each(fun whereis/3),
    Unregistered = Each(fun unregister/3),
    case Operation of
        register -> Registered;
        first_whereis -> First;
        whereis -> Next;
        unregister -> Unregistered
    end.

-spec microseconds([term()], fun((term()) -> term())) -> float().
microseconds(Names, Do) ->
    Started = erlang:monotonic_time(),
    ok = lists:foreach(Do, Names),
    Elapsed = erlang:monotonic_time() - Started,
    Nanoseconds = erlang:convert_time_unit(Elapsed, native, nanosecond),
    Nanoseconds / 1.0e3 / length(Names).

-spec register(arm(), ets:table(), {term(), pid()}) -> yes | true.
register(ets, Table, {_Name, _Pid} = Owned) ->
    true = ets:insert_new(Table, Owned);
register(global, _Table, {Name, Pid}) ->
    yes = global:register_name(Name, Pid);
register(todana_local, _Table, {Name, Pid}) ->
    yes = todana_names:register_name({here, Name}, Pid);
register(todana_cluster, _Table, {Name, Pid}) ->
    yes = todana_names:register_name({everywhere, Name}, Pid).

-spec whereis(arm(), ets:table(), {term(), pid()}) -> term().
whereis(ets, Table, {Name, _Pid}) ->
    [{_, _}] = ets:lookup(Table, Name);
whereis(global, _Table, {Name, Pid}) ->
    Pid = global:whereis_name(Name);
whereis(todana_local, _Table, {Name, Pid}) ->
    Pid = todana_names:whereis_name({here, Name});
whereis(todana_cluster, _Table, {Name, Pid}) ->
    Pid = todana_names:whereis_name({everywhere, Name}).

-spec unregister(arm(), ets:table(), {term(), pid()}) -> term().
unregister(ets, Table, {Name, _Pid}) ->
    true = ets:delete(Table, Name);
unregister(global, _Table, {Name, _Pid}) ->
    global:unregister_name(Name);
unregister(todana_local, _Table, {Name, _Pid}) ->
    ok = todana_names:unregister_name({here, Name});
unregister(todana_cluster, _Table, {Name, _Pid}) ->
    ok = todana_names:unregister_name({everywhere, Name}).

-spec members(pg | todana_groups) -> [pid()].
members(pg) -> pg:get_members(rooms, room);
members(todana_groups) -> todana_groups:get_members(everywhere, room).
