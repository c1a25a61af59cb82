%% Decides which process computes a missing key: the first to ask becomes the
%% leader, the others wait. If the leader dies or gives up, the process that has
%% waited longest becomes the leader.
%%
%% Thousands of waiters for one key do not delay the other keys of a
%% coordinator: each waiter is a row of an ordered ETS table, which can be
%% inserted and deleted alone, and the coordinator sends a result in slices and
%% handles its other messages in between.
%%
%% Only misses reach this module. The key selects one of the processes in
%% ?NAMES. A coordinator that crashes loses its flights: leaders finish and
%% store their results, and waiters ask again. This is the only case in which a
%% key may be computed twice.
-module(todana_flight).
-moduledoc false.
-behaviour(gen_server).

-export([join/2, land/2, abandon/1, names/0, start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([flight/0]).

%% A table's handle, and a key in the form in which the table compares keys.
-type id() :: {reference(), term()}.
-opaque flight() :: {atom(), id(), reference()}.
%% The sequence number of a join in its coordinator.
-type arrival() :: pos_integer().
-type result() :: {plain | encoded, term()}.

-record(flight, {
    %% The join that began it. The keys of its waiters' rows begin with it.
    number :: arrival(),
    leader :: pid(),
    %% The join of the leader.
    leader_number :: arrival(),
    %% Monitors the leader and identifies its time as the leader.
    monitor :: reference()
}).

-record(state, {
    flights = #{} :: #{id() => #flight{}},
    next = 1 :: arrival(),
    %% {{Flight, Join}, Alias, Pid}
    waiting :: ets:table(),
    %% Landed flights whose results are still being sent. If it is not empty,
    %% a message `deliver' is in the mailbox.
    landed = queue:new() :: queue:queue({arrival(), result()})
}).

%% Results to send before the coordinator handles its other messages.
-define(DELIVERIES_PER_SLICE, 100).

-define(NAMES,
    {todana_flight_1, todana_flight_2, todana_flight_3, todana_flight_4,
     todana_flight_5, todana_flight_6, todana_flight_7, todana_flight_8}
).

-doc """
Becomes the leader, or waits for the leader's result. The timeout applies only
to waiting: a coordinator replies immediately if the caller is to lead.
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
        %% The result may have arrived since; after this line none can.
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

-doc "Sends the leader's result to all waiters.".
-spec land(flight(), term()) -> ok.
land({Name, Id, Monitor}, Result) ->
    gen_server:cast(Name, {land, Id, Monitor, packed(Result)}).

%% The coordinator sends a result to every waiter, so the message must be small
%% even if the value is large. A binary is shared, not copied, and each process
%% decodes it itself.
-spec packed(term()) -> result().
packed({Kind, Value} = Result) when
    is_atom(Kind), is_binary(Value);
    is_atom(Kind), is_atom(Value);
    is_atom(Kind), is_float(Value)
->
    {plain, Result};
packed(Result) ->
    {encoded, term_to_binary(Result)}.

-doc "The leader gives up, and the next waiter becomes the leader.".
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
            %% It became the leader after it had stopped waiting.
            erlang:demonitor(Monitor, [flush]),
            {noreply, hand_over(Id, State)};
        #{Id := #flight{number = Flight}} ->
            true = ets:delete(State#state.waiting, {Flight, Number}),
            {noreply, State};
        #{} ->
            %% The flight has landed. A result still being sent reaches no one.
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

%% Sends a result to the next slice of waiters. The remaining ones follow after
%% the messages that have arrived meanwhile and the other results.
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

%% The first waiter becomes the leader. If it is dead, its monitor fires at
%% once.
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

%% Removes and returns the process that has waited longest for a flight.
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
