%% What tools/native installs in priv.
-module(todana_native_tests).

-include_lib("eunit/include/eunit.hrl").

%% Without objcopy, and on macOS, the library is installed as cargo made it.
the_library_is_stripped_and_names_its_debug_file_test_() ->
    case {os:type(), os:find_executable("objcopy")} of
        {{unix, linux}, [_ | _]} ->
            [
                ?_assert(has("todana_nif.so", ~".gnu_debuglink")),
                ?_assert(has("todana_nif.so", ~"todana_nif.so.debug")),
                %% Most of a library that is not stripped are its symbols.
                ?_assert(bytes("todana_nif.so") < bytes("todana_nif.so.debug"))
            ];
        _ ->
            []
    end.

%% Names of sections are text in the file.
has(File, Text) ->
    {ok, Bytes} = file:read_file(path(File)),
    binary:match(Bytes, Text) =/= nomatch.

bytes(File) ->
    filelib:file_size(path(File)).

path(File) ->
    filename:join(code:priv_dir(todana), File).
