%% Ends what a killed segment writer of Ra leaves behind.
%%
%% The segment writer copies entries from a file of the log to segment files, in
%% processes that are not linked to it. If it is killed, Ra starts another one
%% at once, which copies the same entries again, beside a copy that is still
%% going on. Both choose the same names for new files, and then the entries of
%% one of them are lost: the next start finds a hole in the log.
%%
%% This has a high priority, to end the first copy before Ra has read the file
%% of the log again. Nothing makes that certain.
-module(todana_flush_guard).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, end_copies/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% While Ra starts.
-define(LOOK_MS, 5).

-type state() :: #{name := atom(), writer := pid() | none}.

-spec start_link(todana_data_dir:durability()) -> gen_server:start_ret().
start_link(Durability) ->
    Options = [{spawn_opt, [{priority, high}]}],
    gen_server:start_link({local, ?MODULE}, ?MODULE, Durability, Options).

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
    {ok, look(#{name => todana_ra:segment_writer(Durability), writer => none})}.

-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, ok, state()}.
handle_call(_Request, _From, State) -> {reply, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({'DOWN', _, process, Writer, _}, #{writer := Writer} = State) ->
    ok = end_copies(Writer),
    {noreply, look(State#{writer := none})};
handle_info(look, #{writer := none} = State) ->
    {noreply, look(State)};
handle_info(_Other, State) ->
    {noreply, State}.

-spec look(state()) -> state().
look(#{name := Name} = State) ->
    case whereis(Name) of
        undefined ->
            _ = erlang:send_after(?LOOK_MS, self(), look),
            State;
        Writer ->
            _ = monitor(process, Writer),
            State#{writer := Writer}
    end.
