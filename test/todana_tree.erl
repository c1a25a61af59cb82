%% For tests: the files of this checkout.
-module(todana_tree).

-export([root/0, read/1]).

%% Its directory. The modules of tests run from a directory below it.
root() -> root(filename:absname(code:which(?MODULE))).

root(Path) ->
    case filelib:is_regular(filename:join(Path, "rebar.config")) of
        true -> Path;
        false -> root(filename:dirname(Path))
    end.

%% A file, by its path from there.
read(File) ->
    {ok, Text} = file:read_file(filename:join(root(), File)),
    Text.
