%% Decides who computes a missing key: the first that asks leads, the others
%% wait. If the leader dies or gives up, the first of the waiting leads.
%%
%% However many wait for one key, the other keys of a coordinator do not: those
%% who wait are rows of an ordered ETS table, so that each comes and goes by
%% itself, and a result is delivered in slices, with the coordinator's other
%% messages in between.
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
%% The place of one join among all joins of a coordinator.
-type arrival() :: pos_integer().
-type result() :: {plain | encoded, term()}.

-record(flight, {
    %% The join that began it; its rows in the table of who waits begin with it.
    number :: arrival(),
    leader :: pid(),
    %% The join by which the leader came.
    leader_number :: arrival(),
    %% Monitors the leader and names this leadership.
    monitor :: reference()
}).

-record(state, {
    flights = #{} :: #{id() => #flight{}},
    next = 1 :: arrival(),
    %% {{Flight, Join}, Alias, Pid}
    waiting :: ets:table(),
    %% Flights that landed, and whose results are being delivered. Not empty:
    %% a message `deliver' is on its way.
    landed = queue:new() :: queue:queue({arrival(), result()})
}).

%% Processes that are sent a result between two looks at the other messages.
-define(DELIVERIES_PER_SLICE, 100).

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
        {wait, Number} -> wait(Name, Id, Number, Alias, TimeoutMs);
        Answer -> answer(Name, Id, Answer)
    catch
        exit:{_, {gen_server, call, _}} -> down
    after
        erlang:demonitor(Alias, [flush])
    end.

-spec wait(atom(), id(), arrival(), reference(), timeout()) ->
    {lead, flight()} | {landed, term()} | timeout | down.
wait(Name, Id, Number, Alias, TimeoutMs) ->
    receive
        {Alias, Answer} -> answer(Name, Id, Answer);
        {'DOWN', Alias, process, _, _} -> down
    after TimeoutMs ->
        erlang:demonitor(Alias, [flush]),
        %% It may have come since; from here on none will.
        receive
            {Alias, Answer} -> answer(Name, Id, Answer)
        after 0 ->
            gen_server:cast(Name, {leave, Id, Number}),
            timeout
        end
    end.

-spec answer(
    atom(), id(), {lead, reference()} | {landed, result()} | recursive
) -> {lead, flight()} | {landed, term()} | recursive.
answer(Name, Id, {lead, Monitor}) -> {lead, {Name, Id, Monitor}};
answer(_Name, _Id, {landed, {plain, Result}}) -> {landed, Result};
answer(_Name, _Id, {landed, {encoded, Bytes}}) ->
    {landed, binary_to_term(Bytes)};
answer(_Name, _Id, recursive) -> recursive.

-doc "The leader's result, for all who wait.".
-spec land(flight(), term()) -> ok.
land({Name, Id, Monitor}, Result) ->
    gen_server:cast(Name, {land, Id, Monitor, packed(Result)}).

%% The coordinator sends a result to everybody who waits, so it has to be small
%% however large the value is. A binary is shared, not copied; each process
%% decodes it in its own time.
-spec packed(term()) -> result().
packed({Kind, Value} = Result) when
    is_atom(Kind), is_binary(Value);
    is_atom(Kind), is_atom(Value);
    is_atom(Kind), is_float(Value)
->
    {plain, Result};
packed(Result) ->
    {encoded, term_to_binary(Result)}.

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

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{waiting = ets:new(?MODULE, [ordered_set, private])}}.

-spec handle_call({join, id(), reference()}, gen_server:from(), #state{}) ->
    {reply, {lead, reference()} | recursive | {wait, arrival()}, #state{}}.
handle_call({join, Id, Alias}, {Pid, _}, State) ->
    #state{flights = Flights, next = Number} = State,
    case Flights of
        #{Id := #flight{leader = Pid}} ->
            {reply, recursive, State};
        #{Id := #flight{number = Flight}} ->
            Row = {{Flight, Number}, Alias, Pid},
            true = ets:insert_new(State#state.waiting, Row),
            {reply, {wait, Number}, State#state{next = Number + 1}};
        #{} ->
            Flight = led_by(Pid, Number, Id, Number),
            {reply, {lead, Flight#flight.monitor}, State#state{
                flights = Flights#{Id => Flight}, next = Number + 1
            }}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({land, Id, Monitor, Result}, #state{flights = Flights} = State) ->
    case Flights of
        #{Id := #flight{monitor = Monitor, number = Number}} ->
            erlang:demonitor(Monitor, [flush]),
            Rest = State#state{flights = maps:remove(Id, Flights)},
            {noreply, deliver(Number, Result, Rest)};
        #{} ->
            {noreply, State}
    end;
handle_cast({abandon, Id, Monitor}, #state{flights = Flights} = State) ->
    case Flights of
        #{Id := #flight{monitor = Monitor}} ->
            erlang:demonitor(Monitor, [flush]),
            {noreply, hand_over(Id, State)};
        #{} ->
            {noreply, State}
    end;
handle_cast({leave, Id, Number}, #state{flights = Flights} = State) ->
    case Flights of
        #{Id := #flight{leader_number = Number, monitor = Monitor}} ->
            %% It was made the leader when it had stopped to wait.
            erlang:demonitor(Monitor, [flush]),
            {noreply, hand_over(Id, State)};
        #{Id := #flight{number = Flight}} ->
            true = ets:delete(State#state.waiting, {Flight, Number}),
            {noreply, State};
        #{} ->
            %% It landed; if the result is on its way still, it reaches nobody.
            {noreply, State}
    end.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({{leader, Id}, Monitor, process, _Pid, _Reason}, State) ->
    case State#state.flights of
        #{Id := #flight{monitor = Monitor}} ->
            {noreply, hand_over(Id, State)};
        #{} ->
            {noreply, State}
    end;
handle_info(deliver, #state{landed = Landed} = State) ->
    {{value, {Number, Result}}, Others} = queue:out(Landed),
    _ = queue:is_empty(Others) orelse (self() ! deliver),
    {noreply, deliver(Number, Result, State#state{landed = Others})};
handle_info(_Message, State) ->
    {noreply, State}.

%% Sends a result to some of those who wait; to the others when the messages
%% that came meanwhile, and the other results, have had their turn.
-spec deliver(arrival(), result(), #state{}) -> #state{}.
deliver(Number, Result, #state{waiting = Waiting, landed = Landed} = State) ->
    case deliver_to(?DELIVERIES_PER_SLICE, Waiting, Number, Result) of
        all ->
            State;
        some ->
            _ = queue:is_empty(Landed) andalso (self() ! deliver),
            State#state{landed = queue:in({Number, Result}, Landed)}
    end.

-spec deliver_to(non_neg_integer(), ets:table(), arrival(), result()) ->
    all | some.
deliver_to(0, _Waiting, _Number, _Result) ->
    some;
deliver_to(Most, Waiting, Number, Result) ->
    case take_first(Waiting, Number) of
        {_Join, Alias, _Pid} ->
            Alias ! {Alias, {landed, Result}},
            deliver_to(Most - 1, Waiting, Number, Result);
        none ->
            all
    end.

%% The first of the waiting leads. If it is dead, its monitor says so at once.
-spec hand_over(id(), #state{}) -> #state{}.
hand_over(Id, #state{flights = Flights, waiting = Waiting} = State) ->
    #{Id := #flight{number = Number}} = Flights,
    case take_first(Waiting, Number) of
        none ->
            State#state{flights = maps:remove(Id, Flights)};
        {Join, Alias, Pid} ->
            Led = led_by(Pid, Join, Id, Number),
            Alias ! {Alias, {lead, Led#flight.monitor}},
            State#state{flights = Flights#{Id := Led}}
    end.

%% Who waits longest for a flight, and waits no more.
-spec take_first(ets:table(), arrival()) ->
    {arrival(), reference(), pid()} | none.
take_first(Waiting, Number) ->
    case ets:next_lookup(Waiting, {Number, 0}) of
        {{Number, Join} = Key, [{_, Alias, Pid}]} ->
            true = ets:delete(Waiting, Key),
            {Join, Alias, Pid};
        _OtherFlight ->
            none
    end.

-spec led_by(pid(), arrival(), id(), arrival()) -> #flight{}.
led_by(Pid, Join, Id, Number) ->
    Monitor = erlang:monitor(process, Pid, [{tag, {leader, Id}}]),
    #flight{
        number = Number, leader = Pid, leader_number = Join, monitor = Monitor
    }.
