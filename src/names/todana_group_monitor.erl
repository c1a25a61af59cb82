%% Informs processes of this node how groups of cluster scopes change.
%%
%% There is one subscription for each group, or for all groups of a scope, that
%% somebody monitors. It begins before the members are read: a change that the
%% members contain already is recognised by its key, since no key comes twice.
%% So each process gets the members at one moment, and then every change.
%%
%% If events were lost, or the records replaced, the members are read again and
%% compared.
-module(todana_group_monitor).
-moduledoc false.
-behaviour(gen_server).

-export([monitor/2, demonitor/2]).
-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-type key() :: todana_scope_records:key().
%% A scope's table, and what is monitored in it.
-type subject() :: {atom(), all | {group, term()}}.
-record(watched, {
    subscription :: reference(),
    members :: #{key() => []},
    %% Those that are informed, by the monitors of their processes.
    informed :: #{reference() => pid()}
}).

-record(state, {
    watched = #{} :: #{subject() => #watched{}},
    subscriptions = #{} :: #{reference() => subject()},
    monitors = #{} :: #{reference() => subject()}
}).

-define(PAUSE_MS, 200).

-doc """
The members of a group, or of each group, and the reference with which the
caller is informed of changes.
""".
-spec monitor(todana_name_scopes:shared(), all | {group, term()}) ->
    {ok, reference(), [{Group :: term(), pid()}]} | {error, unavailable}.
monitor(#{table := Table}, What) ->
    gen_server:call(?MODULE, {monitor, {Table, What}}, infinity).

-doc "Ends it. `false` if there is no such reference.".
-spec demonitor(todana_name_scopes:shared(), reference()) -> ok | false.
demonitor(#{table := Table}, Ref) ->
    case gen_server:call(?MODULE, {demonitor, Table, Ref}, infinity) of
        ok -> flush(Ref);
        false -> false
    end.

-spec flush(reference()) -> ok.
flush(Ref) ->
    receive
        {Ref, What, _Group, _Pids} when What =:= join; What =:= leave ->
            flush(Ref)
    after 0 -> ok
    end.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}}.
handle_call({monitor, Subject}, {Pid, _}, State) ->
    case begun(Subject, State) of
        {ok, #state{watched = Watched, monitors = Monitors} = Begun} ->
            #{Subject := #watched{members = Members} = It} = Watched,
            Ref = erlang:monitor(process, Pid),
            Informed = (It#watched.informed)#{Ref => Pid},
            {reply, {ok, Ref, members(Members)}, Begun#state{
                watched = Watched#{Subject := It#watched{informed = Informed}},
                monitors = Monitors#{Ref => Subject}
            }};
        {error, _} ->
            {reply, {error, unavailable}, State}
    end;
handle_call({demonitor, Table, Ref}, _From, #state{monitors = Ms} = State) ->
    case Ms of
        #{Ref := {Table, _}} ->
            true = erlang:demonitor(Ref, [flush]),
            {reply, ok, ended(Ref, State)};
        #{} ->
            {reply, false, State}
    end.

-spec members(#{key() => []}) -> [{term(), pid()}].
members(Members) ->
    [todana_scope_records:member_of(Key) || Key := [] <- Members].

%% Events in the queue come first: they are older than the caller's question.
-spec begun(subject(), #state{}) -> {ok, #state{}} | {error, term()}.
begun(Subject, #state{watched = Watched} = State) ->
    case Watched of
        #{Subject := #watched{subscription = Subscription}} ->
            {ok, changed(Subscription, State)};
        #{} ->
            begin_one(Subject, State)
    end.

-spec begin_one(subject(), #state{}) -> {ok, #state{}} | {error, term()}.
begin_one({Table, What} = Subject, State) ->
    #state{watched = Watched, subscriptions = Subscriptions} = State,
    Options = #{prefix => todana_scope_records:members_prefix(What)},
    maybe
        {ok, Subscription} ?= todana_subscription:subscribe(Table, Options),
        {ok, Members} ?= read(Subject),
        {ok, State#state{
            watched = Watched#{Subject => #watched{
                subscription = Subscription, members = Members, informed = #{}
            }},
            subscriptions = Subscriptions#{Subscription => Subject}
        }}
    else
        {error, _} = Failure -> Failure;
        {badarg, _, _} -> {error, unavailable}
    end.

-spec read(subject()) -> {ok, #{key() => []}} | {error, term()}.
read({Table, What}) ->
    Prefix = todana_scope_records:members_prefix(What),
    Add = fun(Key, Members) -> Members#{Key => []} end,
    case todana_scope_records:fold_keys(Add, #{}, Table, Prefix) of
        {error, _} = Failure -> Failure;
        Members -> {ok, Members}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana, Subscription, ready}, State) ->
    {noreply, changed(Subscription, State)};
%% The table was closed.
handle_info({todana, Subscription, closed}, State) ->
    {noreply, read_again(Subscription, State)};
handle_info({read_again, Subscription}, State) ->
    {noreply, read_again(Subscription, State)};
handle_info({'DOWN', Ref, process, _, _}, State) ->
    {noreply, ended(Ref, State)};
handle_info(_Other, State) ->
    {noreply, State}.

%% Nobody wants to know of a subject any more: its subscription ends.
-spec ended(reference(), #state{}) -> #state{}.
ended(Ref, #state{watched = Watched, monitors = Monitors} = State) ->
    case maps:take(Ref, Monitors) of
        {Subject, Others} ->
            #{Subject := #watched{informed = Informed} = It} = Watched,
            Left = maps:remove(Ref, Informed),
            Without = State#state{monitors = Others},
            case map_size(Left) of
                0 ->
                    forget(Subject, It, Without);
                _ ->
                    Next = It#watched{informed = Left},
                    Without#state{watched = Watched#{Subject := Next}}
            end;
        error ->
            State
    end.

-spec forget(subject(), #watched{}, #state{}) -> #state{}.
forget(Subject, #watched{subscription = Subscription}, State) ->
    #state{watched = Watched, subscriptions = Subscriptions} = State,
    _ = todana_subscription:unsubscribe(Subscription),
    State#state{
        watched = maps:remove(Subject, Watched),
        subscriptions = maps:remove(Subscription, Subscriptions)
    }.

-spec changed(reference(), #state{}) -> #state{}.
changed(Subscription, #state{subscriptions = Subscriptions} = State) ->
    case Subscriptions of
        #{Subscription := Subject} ->
            case todana_subscription:events(Subscription) of
                [] ->
                    State;
                Events when is_list(Events) ->
                    case lists:all(fun is_of_a_key/1, Events) of
                        true ->
                            Now = informed(Subject, Events, State),
                            changed(Subscription, Now);
                        false ->
                            read_again(Subscription, State)
                    end;
                _Closed ->
                    read_again(Subscription, State)
            end;
        #{} ->
            State
    end.

-spec is_of_a_key(todana:event()) -> boolean().
is_of_a_key({put, _Key, _Version}) -> true;
is_of_a_key({delete, _Key, _Version}) -> true;
is_of_a_key(_Other) -> false.

%% Changes that the members do not contain yet.
-spec informed(subject(), [todana:event()], #state{}) -> #state{}.
informed(Subject, Events, #state{watched = Watched} = State) ->
    #{Subject := #watched{members = Before} = It} = Watched,
    {Changes, Members} = lists:foldl(
        fun
            ({put, Key, _}, {Changes, Keys}) when not is_map_key(Key, Keys) ->
                {[{join, Key} | Changes], Keys#{Key => []}};
            ({delete, Key, _}, {Changes, Keys}) when is_map_key(Key, Keys) ->
                {[{leave, Key} | Changes], maps:remove(Key, Keys)};
            (_Known, Acc) ->
                Acc
        end,
        {[], Before},
        Events
    ),
    ok = inform(lists:reverse(Changes), It),
    State#state{watched = Watched#{Subject := It#watched{members = Members}}}.

%% Changes of one kind and group that follow each other are one message.
-spec inform([{join | leave, key()}], #watched{}) -> ok.
inform(Changes, #watched{informed = Informed}) ->
    Messages = lists:foldr(
        fun({What, Key}, Acc) ->
            {Group, Pid} = todana_scope_records:member_of(Key),
            case Acc of
                [{What, Same, Pids} | Others] when Same =:= Group ->
                    [{What, Same, [Pid | Pids]} | Others];
                _ ->
                    [{What, Group, [Pid]} | Acc]
            end
        end,
        [],
        Changes
    ),
    _ = [
        Pid ! {Ref, What, Group, Pids}
     || {What, Group, Pids} <- Messages, Ref := Pid <- Informed
    ],
    ok.

%% With another subscription, if the table was closed and is there again.
-spec read_again(reference(), #state{}) -> #state{}.
read_again(Subscription, #state{subscriptions = Subscriptions} = State) ->
    case Subscriptions of
        #{Subscription := Subject} -> read_again(Subscription, Subject, State);
        #{} -> State
    end.

-spec read_again(reference(), subject(), #state{}) -> #state{}.
read_again(Subscription, Subject, #state{watched = Watched} = State) ->
    #{Subject := #watched{members = Before} = It} = Watched,
    case begin_one(Subject, forget(Subject, It, State)) of
        {ok, #state{watched = Now} = Begun} ->
            #{Subject := #watched{members = Members} = Next} = Now,
            Gone = [{leave, Key} || Key := [] <- Before,
                                    not is_map_key(Key, Members)],
            Come = [{join, Key} || Key := [] <- Members,
                                   not is_map_key(Key, Before)],
            ok = inform(Gone ++ Come, It),
            Begun#state{watched = Now#{
                Subject := Next#watched{informed = It#watched.informed}
            }};
        {error, _} ->
            _ = erlang:send_after(
                ?PAUSE_MS, self(), {read_again, Subscription}
            ),
            State
    end.
