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

-type id() :: {atom(), term()}.
-opaque flight() :: {atom(), id(), reference()}.

-record(flight, {
    leader :: pid(),
    %% Monitors the leader and names this leadership.
    monitor :: reference(),
    waiting = queue:new() :: queue:queue({gen_server:from(), pid()})
}).

-define(NAMES,
    {todana_flight_1, todana_flight_2, todana_flight_3, todana_flight_4,
     todana_flight_5, todana_flight_6, todana_flight_7, todana_flight_8}
).

-doc "Waits for the leader's result, or becomes the leader.".
-spec join(id(), timeout()) ->
    {lead, flight()} | {landed, term()} | timeout | recursive | down.
join(Id, TimeoutMs) ->
    Name = element(erlang:phash2(Id, tuple_size(?NAMES)) + 1, ?NAMES),
    try gen_server:call(Name, {join, Id}, TimeoutMs) of
        {lead, Monitor} -> {lead, {Name, Id, Monitor}};
        Answer -> Answer
    catch
        exit:{timeout, _} ->
            gen_server:cast(Name, {leave, Id, self()}),
            timeout;
        exit:{_, {gen_server, call, _}} ->
            down
    end.

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

-spec handle_call({join, id()}, gen_server:from(), map()) ->
    {reply, term(), map()} | {noreply, map()}.
handle_call({join, Id}, {Pid, _} = From, Flights) ->
    case Flights of
        #{Id := #flight{leader = Pid}} ->
            {reply, recursive, Flights};
        #{Id := #flight{waiting = Waiting} = Flight} ->
            Joined = Flight#flight{waiting = queue:in({From, Pid}, Waiting)},
            {noreply, Flights#{Id := Joined}};
        #{} ->
            Flight = led_by(Pid, Id, #flight{leader = Pid, monitor = nil()}),
            {reply, {lead, Flight#flight.monitor}, Flights#{Id => Flight}}
    end.

-spec handle_cast(term(), map()) -> {noreply, map()}.
handle_cast({land, Id, Monitor, Result}, Flights) ->
    case Flights of
        #{Id := #flight{monitor = Monitor, waiting = Waiting}} ->
            erlang:demonitor(Monitor, [flush]),
            [
                gen_server:reply(From, {landed, Result})
             || {From, _} <- queue:to_list(Waiting)
            ],
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
        {{value, {From, Pid}}, Rest} ->
            Led = led_by(Pid, Id, Flight#flight{waiting = Rest}),
            gen_server:reply(From, {lead, Led#flight.monitor}),
            Flights#{Id := Led}
    end.

-spec led_by(pid(), id(), #flight{}) -> #flight{}.
led_by(Pid, Id, Flight) ->
    Monitor = erlang:monitor(process, Pid, [{tag, {leader, Id}}]),
    Flight#flight{leader = Pid, monitor = Monitor}.

-spec nil() -> reference().
nil() ->
    make_ref().
