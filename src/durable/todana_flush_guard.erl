%% Ends a segment writer of Ra that must not go on, and the copies of one that
%% has ended.
%%
%% The segment writer copies entries from the tables in memory to segment files,
%% in processes that are not linked to it, and deletes the file of the log that
%% had them. This loses entries in two cases:
%%
%% - It is killed. Ra starts another one at once, which copies the same entries
%%   again, beside a copy that is still going on. Both choose the same names for
%%   new files.
%% - Its supervisor, or the owner of the tables, is killed. The tables go, and
%%   the writer takes that for the end of a server: it deletes the file of the
%%   log although it has copied a part of it.
%%
%% This has a high priority, to end the first copy before Ra has read the file
%% of the log again, and the writer before its tables go. Nothing makes that
%% certain; if it comes too late, the next start finds that entries are missing,
%% and is refused (todana_log_missing).
-module(todana_flush_guard).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, end_writer/0, end_copies/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% While Ra starts.
-define(LOOK_MS, 5).

-type role() :: log_ets | log_sup | segment_writer.
%% The names of those that it watches, and those that it has seen.
-type state() :: #{
    names := #{role() => atom()},
    watched := #{reference() => {role(), pid()}},
    %% Set while it looks again and again for those that are missing.
    timer := reference() | none
}.

-spec start_link(todana_data_dir:durability()) -> gen_server:start_ret().
start_link(Durability) ->
    Options = [{spawn_opt, [{priority, high}]}],
    gen_server:start_link({local, ?MODULE}, ?MODULE, Durability, Options).

-doc """
Ends the segment writer and its copies, before somebody else changes the files.
They are dead afterwards.
""".
-spec end_writer() -> ok.
end_writer() -> gen_server:call(?MODULE, end_writer, infinity).

-doc "Ends the processes that this one has started. They are dead afterwards.".
-spec end_copies(pid()) -> ok.
end_copies(Writer) ->
    Copies = [
        Pid
     || Pid <- processes(),
        erlang:process_info(Pid, parent) =:= {parent, Writer}
    ],
    Monitors = [monitor(process, Pid) || Pid <- Copies],
    _ = [exit(Pid, kill) || Pid <- Copies],
    lists:foreach(
        fun(Monitor) -> receive {'DOWN', Monitor, _, _, _} -> ok end end,
        Monitors
    ).

-spec init(todana_data_dir:durability()) -> {ok, state()}.
init(Durability) ->
    Names = maps:with(
        [log_ets, log_sup, segment_writer], todana_ra_system:names(Durability)
    ),
    {ok, look(#{names => Names, watched => #{}, timer => none})}.

-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, ok, state()}.
handle_call(end_writer, _From, State) -> {reply, ok, ended(look(State))};
handle_call(_Request, _From, State) -> {reply, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) -> {noreply, State}.

%% Without its supervisor or its tables the writer is of no use.
-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({'DOWN', Monitor, process, _, _}, #{watched := Watched} = State) ->
    case Watched of
        #{Monitor := {segment_writer, Writer}} ->
            ok = end_copies(Writer),
            {noreply, look(without(Monitor, State))};
        #{Monitor := {_Role, _Pid}} ->
            {noreply, look(ended(without(Monitor, State)))};
        #{} ->
            {noreply, State}
    end;
handle_info(look, State) ->
    {noreply, look(State#{timer := none})};
handle_info(_Other, State) ->
    {noreply, State}.

-spec without(reference(), state()) -> state().
without(Monitor, #{watched := Watched} = State) ->
    State#{watched := maps:remove(Monitor, Watched)}.

%% Without the writers that were seen, and their copies.
-spec ended(state()) -> state().
ended(#{watched := Watched} = State) ->
    Writers = [
        {Monitor, Pid} || Monitor := {segment_writer, Pid} <- Watched
    ],
    lists:foldl(
        fun({Monitor, Pid}, Rest) ->
            true = exit(Pid, kill),
            receive {'DOWN', Monitor, process, Pid, _} -> ok end,
            ok = end_copies(Pid),
            without(Monitor, Rest)
        end,
        State, Writers
    ).

%% Watches those of the names that it does not watch yet.
-spec look(state()) -> state().
look(#{names := Names, watched := Watched} = State) ->
    Known = maps:values(Watched),
    Found = #{
        monitor(process, Pid) => {Role, Pid}
     || Role := Name <- Names,
        Pid <- [whereis(Name)],
        is_pid(Pid), not lists:member({Role, Pid}, Known)
    },
    look_again(State#{watched := maps:merge(Watched, Found)}).

-spec look_again(state()) -> state().
look_again(#{names := Names, watched := Watched, timer := none} = State) when
    map_size(Watched) < map_size(Names)
->
    State#{timer := erlang:send_after(?LOOK_MS, self(), look)};
look_again(State) ->
    State.
