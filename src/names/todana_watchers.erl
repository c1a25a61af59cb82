%% Which of several watchers is that of a process, and messages to it.
-module(todana_watchers).
-moduledoc false.

-export([has_ended/1, of_process/2, number/2, inform/2]).

-doc "The watcher of a process, one of these registered names.".
-spec of_process(pid(), tuple()) -> atom().
of_process(Pid, Names) -> element(number(Pid, Names), Names).

-doc "The place of that name.".
-spec number(pid(), tuple()) -> pos_integer().
number(Pid, Names) -> 1 + erlang:phash2(Pid, tuple_size(Names)).

-doc """
Sends a message to a watcher. One that is being restarted gets none, and reads
what has become of the names.
""".
-spec inform(atom(), term()) -> ok.
inform(Watcher, Message) ->
    try
        Watcher ! Message,
        ok
    catch
        error:badarg -> ok
    end.

-doc "Whether it is a process of this node that has ended.".
-spec has_ended(pid()) -> boolean().
has_ended(Pid) -> node(Pid) =:= node() andalso not is_process_alive(Pid).
