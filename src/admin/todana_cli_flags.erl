%% The flags of the command line, and the options that follow from them.
-module(todana_cli_flags).
-moduledoc false.

-export([with_flags/2, options/1, load/1, databases/2]).

-doc "Calls a function with the flags in these arguments.".
-spec with_flags([string()], fun((map()) -> Result)) -> Result.
with_flags(Arguments, Do) ->
    Do(flags(Arguments, #{})).

-doc "The options with the flags in these arguments.".
-spec options([string()]) -> {todana_config:loaded(), string()}.
options(Arguments) -> with_flags(Arguments, fun load/1).

-doc """
The options with these flags and the other sources, and the name of the
configuration file.
""".
-spec load(map()) -> {todana_config:loaded(), string()}.
load(Flags) ->
    case todana_config:load(Flags) of
        {ok, Loaded, File} -> {Loaded, File};
        {error, Sentence} -> throw(Sentence)
    end.

-doc "The names of databases after the flags.".
-spec databases([string()], map()) -> map().
databases([], Flags) ->
    Flags;
databases(_Names, #{databases := _}) ->
    throw("databases are named twice, by --databases and after the flags");
databases(Names, Flags) ->
    Broken = [Name || Name <- Names, string:lexemes(Name, " \t") =/= [Name]],
    Broken =:= [] orelse
        throw(["database `", hd(Broken), "`: a name has no blanks"]),
    Flags#{databases => lists:flatten(lists:join(" ", Names))}.

-spec flags([string()], map()) -> map().
flags([], Flags) ->
    Flags;
flags(["--" | Names], Flags) ->
    databases(Names, Flags);
flags(["--" ++ Flag | Rest], Flags) ->
    {Name, Value, Left} =
        case {string:split(Flag, "="), Rest} of
            {[N, V], _} -> {N, V, Rest};
            {[N], _} when
                N =:= "cluster-create"; N =:= "cluster-accept-older";
                N =:= "no-replica"
            ->
                {N, "yes", Rest};
            {[N], [V | Rest1]} -> {N, V, Rest1};
            {[N], []} ->
                _ = key(N),
                throw(["--", N, ": a value is missing"])
        end,
    Key = key(Name),
    is_map_key(Key, Flags) andalso throw(["--", Name, " is given twice"]),
    flags(Left, Flags#{Key => Value});
flags(["-" ++ [_ | _] = Other | _], _Flags) ->
    throw(["`", Other, "` is neither a command nor a flag; see `help`"]);
flags(Names, Flags) ->
    Late = [Name || "--" ++ _ = Name <- Names],
    Late =:= [] orelse
        throw([hd(Late), ": flags come before the names of databases"]),
    databases(Names, Flags).

-spec key(string()) -> atom().
key("config") ->
    config;
key(Flag) ->
    Text = lists:flatten(string:replace(Flag, "-", "_", all)),
    case todana_options:find(Text) of
        {ok, #{name := Name}} ->
            Name;
        error ->
            Hint = todana_options:hint(Text, fun todana_options:flag/1),
            throw(["there is no flag --", Flag, Hint])
    end.
