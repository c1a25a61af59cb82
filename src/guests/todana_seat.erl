%% What a member does for one guest: it runs what the guest's clients ask for.
%%
%% The guest's own process is `todana_guest'. A parcel has what many clients
%% have asked; each is answered when it is done, so that one that waits for the
%% log keeps no other one waiting.
-module(todana_seat).
-moduledoc false.
-behaviour(gen_server).

-export([invite/2, visit/4, start_link/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([invitation/0]).

%% What a node needs to become a guest.
-type invitation() :: #{
    cluster := binary(),
    members := [node()],
    seed := non_neg_integer(),
    databases := [todana_kyoto_database:database()]
}.

-record(state, {
    guest :: pid(),
    native :: reference(),
    %% Whether the guest has asked since the last tick.
    has_asked = true :: boolean(),
    %% Whether `go_on' is on its way.
    goes_on = false :: boolean()
}).

-define(TICK_MS, 1_000).
-define(BUSY_MS, 5).
%% A guest that says nothing for this time has another seat, or is gone.
-define(SILENT_TICKS, 10).

-doc """
What a node needs that is to become a guest of this cluster, or why it may not.
Such nodes call it.
""".
-spec invite(node(), Wire :: pos_integer()) ->
    {ok, invitation()} | {later | error, Sentence :: iodata()}.
invite(Node, Wire) ->
    Own = todana_nif:guest_wire(),
    try todana_raft_groups:opened(todana_raft_groups:first()) of
        #{cluster := none} ->
            {error, [atom_to_list(node()), " is not a member of a cluster: "
                     "start it with the option cluster_create = yes "
                     "(--cluster-create)"]};
        #{} when Own =/= Wire ->
            {error, other_wire(Own, Wire)};
        #{cluster := Cluster, seed := Seed} ->
            {ok, #{databases := Databases}} = todana_config:embedded(),
            Members = members(),
            case lists:member(Node, Members) of
                true ->
                    {error, [atom_to_list(Node), " is a member of the cluster, "
                             "which has a replica: start it with its data "
                             "directory, or give this node another name"]};
                false ->
                    {ok, #{
                        cluster => Cluster, members => Members, seed => Seed,
                        databases => Databases
                    }}
            end
    catch
        error:badarg ->
            case whereis(todana_sup) of
                undefined ->
                    {later, [atom_to_list(node()), " is starting"]};
                _ ->
                    {error, [atom_to_list(node()), " is not a member of a "
                             "cluster: it has no data directory"]}
            end
    end.

-spec other_wire(pos_integer(), pos_integer()) -> iolist().
other_wire(Own, Wire) ->
    io_lib:format(
        "~s speaks version ~b with guests, and this node version ~b: use the "
        "same version of Todana", [node(), Own, Wire]
    ).

-doc """
This node becomes the seat of a guest, whose process is given, when it has the
entry of this index: the guest's clients have seen it. Guests call it.
""".
-spec visit(
    node(), pid(), Wire :: pos_integer(),
    Seen :: {todana_guest:log(), non_neg_integer()}
) ->
    {ok, todana_guest:welcome()} | {later | error, Sentence :: string()}.
visit(Node, Link, Wire, {Log, Index}) ->
    Own = own_log(),
    case {todana_nif:guest_wire(), facts()} of
        {Wire, {Gate, _, Reason}} when Gate =:= closed; Gate =:= no_leader ->
            {later, unicode:characters_to_list(Reason)};
        {Wire, {_, #{applied_index := Applied}, _}} when
            Log =:= Own, Applied < Index
        ->
            {later, "it has not applied yet what clients of this node have "
                    "seen"};
        {Wire, Facts} ->
            case todana_seats:start(Node, Link) of
                {ok, Seat} ->
                    {ok, #{
                        seat => Seat, facts => Facts, members => members(),
                        log => Own
                    }};
                {error, Reason} ->
                    {later, lists:flatten(io_lib:format("~0tp", [Reason]))}
            end;
        {OwnWire, _} ->
            {error, lists:flatten(other_wire(OwnWire, Wire))}
    end.

-spec own_log() -> todana_guest:log().
own_log() ->
    try todana_raft_groups:opened(todana_raft_groups:first()) of
        #{server := Server} -> Server
    catch
        error:badarg -> none
    end.

-spec facts() -> todana_guest:facts().
facts() ->
    try
        {Gate, Facts, Reason} = todana_nif:seat_facts(),
        #{durability := Durability} =
            todana_raft_groups:opened(todana_raft_groups:first()),
        Always = case Durability of always -> 1; everysec -> 0 end,
        {Gate, Facts#{always => Always}, Reason}
    of
        Said ->
            case todana_away:is_stopping() of
                true -> {closed, #{}, ~"it stops"};
                false -> Said
            end
    catch
        error:badarg -> {closed, #{}, ~"it is starting, or stops"}
    end.

-spec members() -> [node()].
members() -> todana_members:known(todana_raft_groups:first()).

-spec start_link(node(), pid()) -> gen_server:start_ret().
start_link(Node, Link) ->
    gen_server:start_link(?MODULE, {Node, Link}, []).

-spec init({node(), pid()}) -> {ok, #state{}}.
init({Node, Link}) ->
    ok = todana_seats:note(Node),
    ok = want_everything(whereis(todana_interest)),
    _ = monitor(process, Link),
    _ = erlang:send_after(?TICK_MS, self(), {tick, ?SILENT_TICKS}),
    {ok, #state{guest = Link, native = todana_nif:seat_open()}}.

%% Until the guest has announced what it wants.
-spec want_everything(pid() | undefined) -> ok.
want_everything(undefined) ->
    ok;
want_everything(Process) ->
    Process ! guest,
    ok.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, {error, unknown_call}, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, {error, unknown_call}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) ->
    {noreply, #state{}} | {stop, normal | broken_parcel, #state{}}.
handle_info({todana_parcel, Parcel}, #state{native = Native} = State) ->
    case todana_nif:seat_receive(Native, Parcel) of
        true -> go_on(State);
        false -> {stop, broken_parcel, State}
    end;
handle_info(todana_ready, State) ->
    go_on(State);
handle_info(go_on, State) ->
    go_on(State#state{goes_on = false});
handle_info({ping, Link}, #state{guest = Link} = State) ->
    Link ! {todana_seat, self(), facts(), members()},
    {noreply, State#state{has_asked = true}};
handle_info({tick, Left}, #state{has_asked = HasAsked} = State) ->
    Next = case HasAsked of true -> ?SILENT_TICKS; false -> Left - 1 end,
    _ = erlang:send_after(?TICK_MS, self(), {tick, Next}),
    case Next > 0 andalso run(fun todana_nif:seat_tick/1, State) of
        ok -> go_on(State#state{has_asked = false});
        _ -> {stop, normal, State}
    end;
handle_info({'DOWN', _, process, _, _}, State) ->
    {stop, normal, State};
handle_info({leave, _Link}, State) ->
    {stop, normal, State};
handle_info(_Message, State) ->
    {noreply, State}.

-spec go_on(#state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
go_on(State) ->
    case run(fun todana_nif:seat_go_on/1, State) of
        long -> went_on(run(fun todana_nif:seat_go_on_dirty/1, State), State);
        Left -> went_on(Left, State)
    end.

-spec went_on(atom(), #state{}) ->
    {noreply, #state{}} | {stop, normal, #state{}}.
went_on(closed, State) -> {stop, normal, State};
went_on(nothing, State) -> {noreply, State};
went_on(busy, State) -> {noreply, again(?BUSY_MS, State)};
went_on(_MoreOrLong, State) -> {noreply, again(0, State)}.

%% Runs something, and sends the changes and then the answers. `closed': the log
%% has stopped.
-spec run(
    fun((reference()) ->
        {atom(), binary(), binary(), non_neg_integer(), non_neg_integer()}),
    #state{}
) -> atom().
run(Function, #state{native = Native, guest = Guest}) ->
    try Function(Native) of
        {Left, Changes, Answers, Index, Full} ->
            _ = Changes =/= <<>> andalso
                (Guest ! {todana_changes, self(), Changes}),
            _ = Answers =/= <<>> andalso
                (Guest ! {todana_answers, self(), Answers, Index, Full}),
            Left
    catch
        error:badarg -> closed
    end.

-spec again(non_neg_integer(), #state{}) -> #state{}.
again(_Ms, #state{goes_on = true} = State) ->
    State;
again(Ms, State) ->
    _ = erlang:send_after(Ms, self(), go_on),
    State#state{goes_on = true}.
