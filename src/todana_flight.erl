%% Decides who computes a missing key: the first that asks leads, the others
%% wait. If the leader dies or gives up, the first of the waiting leads.
%%
%% Only misses come here, and they are spread over ?FLIGHTS processes by key. A
%% coordinator that crashes forgets its flights: leaders finish and store what
%% they computed, waiters ask again. So at that moment, and only then, a key may
%% be computed twice.
-module(todana_flight).
-moduledoc false.
-behaviour(gen_server).

-export([join/2, land/2, abandon/1, names/0, start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([flight/0]).

%% A table's handle, and a key as the table tells keys apart.
-type id() :: {reference(), term()}.
-opaque flight() :: {atom(), id(), reference()}.

-record(flight, {
    leader :: pid(),
    %% Monitors the leader and names this leadership.
    monitor :: reference(),
    waiting = queue:new() :: queue:queue({reference(), pid()})
}).

-define(NAMES,
    {todana_flight_1, todana_flight_2, todana_flight_3, todana_flight_4,
     todana_flight_5, todana_flight_6, todana_flight_7, todana_flight_8}
).

-doc """
Becomes the leader, or waits for the leader's result. The timeout is for the
waiting only: a coordinator says at once which of the two it is.
""".
-spec join(id(), timeout()) ->
    {lead, flight()} | {landed, term()} | timeout | recursive | down.
join(Id, TimeoutMs) ->
    Name = element(erlang:phash2(Id, tuple_size(?NAMES)) + 1, ?NAMES),
    Alias = erlang:monitor(process, Name, [{alias, demonitor}]),
    try gen_server:call(Name, {join, Id, Alias}, infinity) of
        wait -> wait(Name, Id, Alias, TimeoutMs);
        Answer -> answer(Name, Id, Answer)
    catch
        exit:{_, {gen_server, call, _}} -> down
    after
        erlang:demonitor(Alias, [flush])
    end.

-spec wait(atom(), id(), reference(), timeout()) ->
    {lead, flight()} | {landed, term()} | timeout | down.
wait(Name, Id, Alias, TimeoutMs) ->
    receive
        {Alias, Answer} -> answer(Name, Id, Answer);
        {'DOWN', Alias, process, _, _} -> down
    after TimeoutMs ->
        erlang:demonitor(Alias, [flush]),
        %% It may have come since; from here on none will.
        receive
            {Alias, Answer} -> answer(Name, Id, Answer)
        after 0 ->
            gen_server:cast(Name, {leave, Id, self()}),
            timeout
        end
    end.

-spec answer(atom(), id(), Answer) -> {lead, flight()} | Answer.
answer(Name, Id, {lead, Monitor}) -> {lead, {Name, Id, Monitor}};
answer(_Name, _Id, Answer) -> Answer.

-doc "The leader's result, for all who wait.".
-spec land(flight(), term()) -> ok.
land({Name, Id, Monitor}, Result) ->
    gen_server:cast(Name, {land, Id, Monitor, Result}).

-doc "The leader gives up; another is to lead.".
-spec abandon(flight()) -> ok.
abandon({Name, Id, Monitor}) ->
    gen_server:cast(Name, {abandon, Id, Monitor}).

-doc "The coordinators' names.".
-spec names() -> [atom()].
names() ->
    tuple_to_list(?NAMES).

-doc "Starts a coordinator.".
-spec start_link(atom()) -> gen_server:start_ret().
start_link(Name) ->
    gen_server:start_link({local, Name}, ?MODULE, [], []).

-spec init([]) -> {ok, #{id() => #flight{}}}.
init([]) ->
    {ok, #{}}.

-spec handle_call({join, id(), reference()}, gen_server:from(), map()) ->
    {reply, {lead, reference()} | recursive | wait, map()}.
handle_call({join, Id, Alias}, {Pid, _}, Flights) ->
    case Flights of
        #{Id := #flight{leader = Pid}} ->
            {reply, recursive, Flights};
        #{Id := #flight{waiting = Waiting} = Flight} ->
            Joined = Flight#flight{waiting = queue:in({Alias, Pid}, Waiting)},
            {reply, wait, Flights#{Id := Joined}};
        #{} ->
            Flight = led_by(Pid, Id, #flight{leader = Pid, monitor = nil()}),
            {reply, {lead, Flight#flight.monitor}, Flights#{Id => Flight}}
    end.

-spec handle_cast(term(), map()) -> {noreply, map()}.
handle_cast({land, Id, Monitor, Result}, Flights) ->
    case Flights of
        #{Id := #flight{monitor = Monitor, waiting = Waiting}} ->
            erlang:demonitor(Monitor, [flush]),
            lists:foreach(
                fun({Alias, _}) -> Alias ! {Alias, {landed, Result}} end,
                queue:to_list(Waiting)
            ),
            {noreply, maps:remove(Id, Flights)};
        #{} ->
            {noreply, Flights}
    end;
handle_cast({abandon, Id, Monitor}, Flights) ->
    case Flights of
        #{Id := #flight{monitor = Monitor}} ->
            erlang:demonitor(Monitor, [flush]),
            {noreply, hand_over(Id, Flights)};
        #{} ->
            {noreply, Flights}
    end;
handle_cast({leave, Id, Pid}, Flights) ->
    case Flights of
        #{Id := #flight{leader = Pid, monitor = Monitor}} ->
            %% It was made the leader when it had stopped to wait.
            erlang:demonitor(Monitor, [flush]),
            {noreply, hand_over(Id, Flights)};
        #{Id := #flight{waiting = Waiting} = Flight} ->
            Left = queue:filter(fun({_, P}) -> P =/= Pid end, Waiting),
            {noreply, Flights#{Id := Flight#flight{waiting = Left}}};
        #{} ->
            {noreply, Flights}
    end.

-spec handle_info(term(), map()) -> {noreply, map()}.
handle_info({{leader, Id}, Monitor, process, _Pid, _Reason}, Flights) ->
    case Flights of
        #{Id := #flight{monitor = Monitor}} ->
            {noreply, hand_over(Id, Flights)};
        #{} ->
            {noreply, Flights}
    end;
handle_info(_Message, Flights) ->
    {noreply, Flights}.

%% The first of the waiting leads. If it is dead, its monitor says so at once.
-spec hand_over(id(), map()) -> map().
hand_over(Id, Flights) ->
    #{Id := #flight{waiting = Waiting} = Flight} = Flights,
    case queue:out(Waiting) of
        {empty, _} ->
            maps:remove(Id, Flights);
        {{value, {Alias, Pid}}, Rest} ->
            Led = led_by(Pid, Id, Flight#flight{waiting = Rest}),
            Alias ! {Alias, {lead, Led#flight.monitor}},
            Flights#{Id := Led}
    end.

-spec led_by(pid(), id(), #flight{}) -> #flight{}.
led_by(Pid, Id, Flight) ->
    Monitor = erlang:monitor(process, Pid, [{tag, {leader, Id}}]),
    Flight#flight{leader = Pid, monitor = Monitor}.

-spec nil() -> reference().
nil() ->
    make_ref().
