%% Supervises the processes of this member that work for guests.
-module(todana_seats).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/1, start/2, note/1, stop/0, guests/0]).
-export([init/1]).

%% How a seat is started, for a guest and its process.
-type mfa_of_seat() :: {module(), atom(), []}.

-spec start_link(mfa_of_seat()) -> supervisor:startlink_ret().
start_link(Start) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Start).

-doc "Starts what works for a guest.".
-spec start(node(), pid()) -> {ok, pid()} | {error, term()}.
start(Node, Link) ->
    try supervisor:start_child(?MODULE, [Node, Link]) of
        {ok, Seat} when is_pid(Seat) -> {ok, Seat};
        {error, Reason} -> {error, Reason}
    catch
        exit:{noproc, _} -> {error, not_a_member}
    end.

-doc "The calling process works for this guest.".
-spec note(node()) -> ok.
note(Node) ->
    _ = [
        ets:delete(?MODULE, Pid)
     || {Pid, _} <- ets:tab2list(?MODULE), not is_process_alive(Pid)
    ],
    true = ets:insert(?MODULE, {self(), Node}),
    ok.

-doc "The guests go to other members, because this one stops.".
-spec stop() -> ok.
stop() ->
    try ets:tab2list(?MODULE) of
        Seats -> lists:foreach(fun({Pid, _}) -> exit(Pid, shutdown) end, Seats)
    catch
        error:badarg -> ok
    end.

-doc "The guests that have their seat here, in the order of their names.".
-spec guests() -> [node()].
guests() ->
    try ets:tab2list(?MODULE) of
        Seats -> lists:usort([N || {Pid, N} <- Seats, is_process_alive(Pid)])
    catch
        error:badarg -> []
    end.

-spec init(mfa_of_seat()) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(Start) ->
    _ = ets:new(?MODULE, [named_table, public]),
    ok = todana_event_source:new(),
    Child = #{
        id => seat, start => Start, restart => temporary,
        shutdown => brutal_kill
    },
    {ok, {#{strategy => simple_one_for_one}, [Child]}}.
