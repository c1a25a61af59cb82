%% Where the values of options stand as texts: the configuration file and the
%% variables of the environment. An unknown option is an error: a sentence is
%% thrown.
-module(todana_config_sources).
-moduledoc false.

-export([file/1, variables/0, refuse_unknown/2, text/1]).

-type texts() :: todana_options:texts().

%% Variables that begin with TODANA_ and are not options.
-define(OTHER_VARIABLES, [
    "TODANA_CONFIG", "TODANA_NATIVE", "TODANA_DEBIAN_MIRROR"
]).

-doc "The texts in a configuration file; none without one.".
-spec file(string()) -> texts().
file("") ->
    #{};
file(File) ->
    case file:read_file(File) of
        {ok, Bytes} ->
            Lines = string:split(Bytes, "\n", all),
            Numbered = lists:enumerate(Lines),
            lists:foldl(
                fun({Number, Line}, Texts) ->
                    line(File, Number, Line, Texts)
                end,
                #{},
                Numbered
            );
        {error, Reason} ->
            throw(sentence("~ts: ~ts", [File, file:format_error(Reason)]))
    end.

%% `key = value'. A `#' starts a comment only at the beginning of the line or
%% after a blank, because names of databases contain `#'.
-spec line(string(), pos_integer(), binary(), texts()) -> texts().
line(File, Number, Line, Texts) ->
    Code = re:replace(Line, "(^|[ \\t])#.*", "", [dotall, {return, binary}]),
    Where = lists:concat([File, ":", Number, ": "]),
    case string:trim(Code) of
        <<>> ->
            Texts;
        Pair ->
            case string:split(Pair, "=") of
                [Key, Value] ->
                    Name = name(string:trim(Key), Where),
                    is_map_key(Name, Texts) andalso
                        throw(sentence("~ts~ts is set twice", [Where, Name])),
                    Texts#{Name => text(string:trim(Value))};
                [_] ->
                    throw(sentence("~tsnot a `key = value`", [Where]))
            end
    end.

-spec name(binary(), string()) -> todana_options:name().
name(Key, Where) ->
    Text = text(Key),
    refuse_unknown([Text], Where),
    {ok, #{name := Name}} = todana_options:find(Text),
    Name.

-doc "The texts in variables of the environment.".
-spec variables() -> texts().
variables() ->
    #{
        variable(Variable) => Text
     || {"TODANA_" ++ _ = Variable, Text} <- os:env(),
        not lists:member(Variable, ?OTHER_VARIABLES),
        not is_service(Variable)
    }.

%% The variables that Kubernetes sets in the containers of a namespace for a
%% service called todana: TODANA_SERVICE_HOST, TODANA_PORT, TODANA_PORT_6379_TCP
%% and so on.
-spec is_service(string()) -> boolean().
is_service("TODANA_SERVICE_" ++ _) -> true;
is_service("TODANA_PORT") -> true;
is_service("TODANA_PORT_" ++ _) -> true;
is_service(_) -> false.

-spec variable(string()) -> todana_options:name().
variable(Variable) ->
    Text = string:lowercase(string:prefix(Variable, "TODANA_")),
    case todana_options:find(Text) of
        {ok, #{name := Name}} ->
            Name;
        error ->
            Hint = todana_options:hint(Text, fun todana_options:variable/1),
            throw(sentence("there is no option for the variable ~ts~ts",
                           [Variable, Hint]))
    end.

-doc """
Throws a sentence, which begins with `Where`, if one of these is no option.
""".
-spec refuse_unknown([string()], string()) -> ok.
refuse_unknown(Texts, Where) ->
    case [Text || Text <- Texts, todana_options:find(Text) =:= error] of
        [] ->
            ok;
        [Unknown | _] ->
            Quoted = fun(Name) -> "`" ++ atom_to_list(Name) ++ "`" end,
            Hint = todana_options:hint(Unknown, Quoted),
            throw(sentence("~tsthere is no option `~ts`~ts",
                           [Where, Unknown, Hint]))
    end.

-doc "Text that is read, which may be no UTF-8.".
-spec text(binary()) -> string().
text(Bytes) ->
    case unicode:characters_to_list(Bytes) of
        Text when is_list(Text) -> Text;
        _ -> binary_to_list(Bytes)
    end.

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
