%% Why the application does not start, as a sentence.
-module(todana_start_reason).
-moduledoc false.

-export([sentence/1]).

-doc """
Finds the sentence in the nested reasons of supervisors and applications.
""".
-spec sentence(term()) -> {ok, string()} | error.
sentence({listener, Sentence}) when is_binary(Sentence) ->
    {ok, unicode:characters_to_list(Sentence)};
sentence({todana, [First | _] = Sentence}) when is_integer(First) ->
    {ok, Sentence};
sentence(Tuple) when is_tuple(Tuple) ->
    sentence(tuple_to_list(Tuple));
sentence([Head | Tail]) ->
    case sentence(Head) of
        error -> sentence(Tail);
        Found -> Found
    end;
sentence(_) ->
    error.
