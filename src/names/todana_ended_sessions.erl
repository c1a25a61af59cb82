%% Removes the names of sessions that have ended, a few in one step, so that
%% other writes come between.
%%
%% Nobody else changes them: no name is registered in such a session. A name
%% that was registered in another one meanwhile stays.
-module(todana_ended_sessions).
-moduledoc false.

-export([clean/2]).

-doc "Ends a session, and removes its names and its record.".
-spec clean(todana_scope_records:table(), todana_scope_records:session()) ->
    ok | todana_scope_records:failure().
clean(Table, Session) ->
    maybe
        ok ?= todana_scope_records:end_session(Table, Session),
        ok ?= remove(Table, Session),
        todana_scope_records:forget_session(Table, Session)
    end.

-spec remove(todana_scope_records:table(), todana_scope_records:session()) ->
    ok | todana_scope_records:failure().
remove(Table, Session) ->
    case todana_scope_records:some_owned(Table, Session) of
        [] ->
            ok;
        {error, _} = Failure ->
            Failure;
        Owned ->
            Registered = [{Key, Ref} || {Key, {_Pid, Ref, _}} <- Owned],
            case todana_scope_records:remove(Table, Registered) of
                Result when Result =:= ok; Result =:= conflict ->
                    remove(Table, Session);
                Failure ->
                    Failure
            end
    end.
