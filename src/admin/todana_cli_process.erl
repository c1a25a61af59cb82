%% The emulator that executes a command of `bin/todana': it loads the native
%% library, and ends with an answer.
-module(todana_cli_process).
-moduledoc false.

-export([native/0, finish/1]).

-doc "Calls the native library for the first time, which loads it.".
-spec native() -> ok.
native() ->
    try
        _ = todana_nif:forward_interrupt(),
        ok
    catch
        error:Reason when Reason =:= undef; Reason =:= not_loaded ->
            throw("the native library is missing or does not fit: "
                  "run `make build`")
    end.

-doc "Prints the answer, and ends the emulator.".
-spec finish(iodata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).
