%% Reports why the log does not start to the process that the command line has.
%%
%% That process ends the node: `todana_serving'. In a node of somebody else
%% there is none: the databases fail there, and the node goes on.
-module(todana_foreground).
-moduledoc false.

-export([is_starting/0, failed/3, is_over/2]).

-export_type([failure/0]).

%% No later attempt can succeed; the disk is full; or the cause may go away.
-type failure() :: final | full | passing.

%% Of attempts to start the log before it has served: about two minutes.
-define(ATTEMPTS_MAX, 9).
%% The same if the disk is full: eight seconds. Another program may be about to
%% free space, but this one does not.
-define(ATTEMPTS_MAX_FULL, 5).

-doc "Whether the command line starts the application.".
-spec is_starting() -> boolean().
is_starting() ->
    whereis(?MODULE) =/= undefined.

-doc """
Called with each failure of the log to start. `true` if the node ends for that
reason, and says so.
""".
-spec failed(string(), failure(), pos_integer()) -> boolean().
failed(Sentence, Failure, Attempts) ->
    case whereis(?MODULE) of
        undefined ->
            false;
        Pid ->
            Pid ! {failed, Sentence, Failure, Attempts},
            is_over(Failure, Attempts)
    end.

-doc "Whether the node ends after this number of attempts.".
-spec is_over(failure(), pos_integer()) -> boolean().
is_over(final, _Attempts) -> true;
is_over(full, Attempts) -> Attempts >= ?ATTEMPTS_MAX_FULL;
is_over(passing, Attempts) -> Attempts >= ?ATTEMPTS_MAX.
