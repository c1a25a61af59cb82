%% E1: reads that scale. One store in several forms, read by 1 to 128 processes.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run e1 main CELL_MS ROUNDS ENTRIES KEYS SIZE SPREAD CLIENTS
%% Prints one line of JSON for each arm: the reads per second of each round, and
%% the CPU time of a read (null if a round is too short for the system's clock
%% of CPU time). The arms are interleaved; one that fails prints
%% {"failed": Reason}.
%%
%%     dict_local  a dict in the reader's own process: the published serial run,
%%                 only with one client
%%     dict        a process that owns a dict; each read is a call (published)
%%     gen_server  the same with a map, in a gen_server
%%     ets         a named, protected table with read_concurrency (as published)
%%     persistent  a persistent term for each key
%%     todana      a table, read by its name
-module(e1).
-behaviour(gen_server).

-export([main/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-type arm() :: dict_local | dict | gen_server | ets | persistent | todana.
%% The type of the keys, the length of the values, and whether all clients read
%% one key.
-type keys() :: {integer | binary, pos_integer(), spread | hot}.


-spec main([string()]) -> no_return().
main([CellMs, Rounds, Entries, Kind, Size, Spread, Clients]) ->
    Keys = {
        list_to_existing_atom(Kind),
        list_to_integer(Size),
        list_to_existing_atom(Spread)
    },
    Plan = #{
        cell_ms => list_to_integer(CellMs),
        rounds => list_to_integer(Rounds),
        clients => list_to_integer(Clients)
    },
    cell(Keys, list_to_integer(Entries), Plan),
    halt(0).

-spec arms() -> [arm()].
arms() ->
    [dict_local, dict, gen_server, ets, persistent, todana].

-spec does(arm(), pos_integer()) -> boolean().
does(dict_local, Clients) -> Clients =:= 1;
does(_Arm, _Clients) -> true.

-spec pair(keys(), pos_integer()) -> {term(), term()}.
pair({integer, _Size, _}, N) ->
    {N, N};
pair({binary, Size, _}, N) ->
    Key = iolist_to_binary(io_lib:format("key:~12..0b", [N])),
    {Key, binary:copy(<<"x">>, Size)}.

-spec names(keys(), [{term(), term()}]) -> tuple().
names({_, _, hot}, [{Key, _} | _] = Pairs) ->
    list_to_tuple([Key || _ <- Pairs]);
names(_Keys, Pairs) ->
    list_to_tuple([Key || {Key, _} <- Pairs]).

-spec cell(keys(), pos_integer(), map()) -> ok.
cell({Kind, Size, Spread} = Keys, Entries, Plan) ->
    #{rounds := Rounds, clients := Clients} = Plan,
    Pairs = [pair(Keys, N) || N <- lists:seq(1, Entries)],
    Names = names(Keys, Pairs),
    Opened = interleave:open([
        {Arm, fun() ->
            Store = open(Arm, Keys, Pairs),
            fun() -> measure(Store, Names, Plan) end
        end}
     || Arm <- arms(), does(Arm, Clients)
    ]),
    Played = interleave:play(Rounds, interleave:warm_up(Opened)),
    lists:foreach(
        fun({Arm, _} = Found) ->
            Named = #{
                keys => Kind,
                value_bytes => Size,
                spread => Spread,
                clients => Clients,
                arm => Arm
            },
            Figures = interleave:figures(Found, fun rates/1),
            io:put_chars([json:encode(maps:merge(Named, Figures)), $\n])
        end,
        Played
    ).

-spec rates([{float(), float() | null}]) -> map().
rates(Samples) ->
    {Reads, Cpu} = lists:unzip(Samples),
    #{reads_per_second => Reads, cpu_us_per_read => Cpu}.

%% ---------------------------------------------------------------- stores ---

-spec open(arm(), keys(), [{term(), term()}]) -> term().
open(dict_local, _Keys, Pairs) ->
    {dict_local, dict:from_list(Pairs)};
open(dict, _Keys, Pairs) ->
    Dict = dict:from_list(Pairs),
    {dict, spawn_link(fun() -> owner(Dict) end)};
open(gen_server, _Keys, Pairs) ->
    {ok, Pid} = gen_server:start_link(?MODULE, maps:from_list(Pairs), []),
    {gen_server, Pid};
open(ets, _Keys, Pairs) ->
    Options = [named_table, protected, {read_concurrency, true}],
    Table = ets:new(e1_table, Options),
    true = ets:insert(Table, Pairs),
    {ets, Table};
open(persistent, _Keys, Pairs) ->
    lists:foreach(
        fun({Key, Value}) -> persistent_term:put({?MODULE, Key}, Value) end,
        Pairs
    ),
    persistent;
open(todana, {Kind, _, _}, Pairs) ->
    Codec = case Kind of integer -> term; binary -> raw end,
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(e1_table, #{codec => Codec}),
    ok = todana:put_many(e1_table, Pairs),
    {todana, e1_table}.

-spec owner(dict:dict(term(), term())) -> no_return().
owner(Dict) ->
    receive
        {find, From, Tag, Key} -> From ! {Tag, dict:find(Key, Dict)}
    end,
    owner(Dict).

-spec init(map()) -> {ok, map()}.
init(Map) -> {ok, Map}.

-spec handle_call({find, term()}, gen_server:from(), map()) ->
    {reply, {ok, term()} | error, map()}.
handle_call({find, Key}, _From, Map) -> {reply, maps:find(Key, Map), Map}.

-spec handle_cast(term(), map()) -> {noreply, map()}.
handle_cast(_Message, Map) -> {noreply, Map}.

%% --------------------------------------------------------------- clients ---

%% Reads per second of all clients together, and CPU microseconds of the node
%% for each.
-spec measure(term(), tuple(), map()) -> {float(), float() | null}.
measure(Store, Names, #{cell_ms := CellMs, clients := Clients}) ->
    Works = [
        fun(End) -> work(Store, Names, End, First, 0) end
     || N <- lists:seq(1, Clients),
        First <- [N * 7919 rem tuple_size(Names) + 1]
    ],
    interleave:together(CellMs, Works).

%% A hundred reads between two readings of the clock.
-spec work(term(), tuple(), integer(), pos_integer(), non_neg_integer()) ->
    non_neg_integer().
work(Store, Names, End, At, Count) ->
    Next = reads(Store, Names, At, 100),
    case erlang:monotonic_time() >= End of
        true -> Count + 100;
        false -> work(Store, Names, End, Next, Count + 100)
    end.

-spec reads(term(), tuple(), pos_integer(), non_neg_integer()) -> pos_integer().
reads(_Store, _Names, At, 0) ->
    At;
reads(Store, Names, At, Left) ->
    {ok, _} = find(Store, element(At, Names)),
    reads(Store, Names, At rem tuple_size(Names) + 1, Left - 1).

-spec find(term(), term()) -> {ok, term()} | error.
find({ets, Table}, Key) ->
    case ets:lookup(Table, Key) of
        [{_, Value}] -> {ok, Value};
        [] -> error
    end;
find({todana, Table}, Key) ->
    todana:get(Table, Key);
find({dict_local, Dict}, Key) ->
    dict:find(Key, Dict);
find(persistent, Key) ->
    {ok, persistent_term:get({?MODULE, Key})};
find({gen_server, Pid}, Key) ->
    gen_server:call(Pid, {find, Key}, infinity);
find({dict, Pid}, Key) ->
    Tag = make_ref(),
    Pid ! {find, self(), Tag, Key},
    receive
        {Tag, Found} -> Found
    end.
