%% For tests of guests: processes that keep the messages that they get, and how
%% their work began.
-module(todana_keepers).

-export([begun/1, subscribed/2, collected/2]).

%% A process that goes on after this, and the result of it.
begun(Begin) ->
    Caller = self(),
    Pid = spawn(fun() ->
        Caller ! {self(), Begin()},
        keep([])
    end),
    receive {Pid, Result} -> {Pid, Result} end.

subscribed(Table, Options) ->
    begun(fun() -> todana:subscribe(Table, Options) end).

%% It monitors a group.
collected(Scope, Group) ->
    begun(fun() ->
        {_, Members} = todana_groups:monitor(Scope, Group),
        Members
    end).

%% `all' asks for the messages and events, in their order.
keep(Kept) ->
    receive
        {'$gen_call', From, all} ->
            gen_server:reply(From, lists:reverse(Kept)),
            keep(Kept);
        {'$gen_call', From, wait} ->
            gen_server:reply(From, ok),
            receive
                {'$gen_call', Other, go_on} -> gen_server:reply(Other, ok)
            end,
            keep(Kept);
        {todana, Subscription, ready} ->
            keep(lists:reverse(todana:events(Subscription)) ++ Kept);
        {_Ref, Change, _Group, Pids} ->
            keep([{Change, Pids} | Kept]);
        Message ->
            keep([Message | Kept])
    end.
