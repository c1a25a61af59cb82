%% The values of all options, from their sources, and checked.
%%
%% As a server: flag, else environment variable, else configuration file, else
%% default. Embedded: the application's environment, else default. An unknown
%% option, or a value of the wrong type, is an error that names the option.
-module(todana_config).
-moduledoc false.

-export([embedded/0, load/1, load/2]).

-export_type([options/0, loaded/0, origin/0, flags/0, texts/0]).

-type options() :: todana_options:values().
-type origin() :: todana_options:origin().
-type loaded() :: todana_options:loaded().
-type texts() :: todana_options:texts().
-type flags() :: #{config => string(), todana_options:name() => string()}.

%% Keys of the application's environment that are not options.
-define(OTHER_KEYS, [
    included_applications, config_file, pid_file, event_handler, is_dump
]).

-doc "The options of an embedded application.".
-spec embedded() -> {ok, options()} | {error, term()}.
embedded() ->
    try
        Given = #{
            Name => Value
         || {Name, Value} <- application:get_all_env(todana),
            not lists:member(Name, ?OTHER_KEYS)
        },
        todana_config_sources:refuse_unknown(
            [atom_to_list(Name) || Name <- maps:keys(Given)], "todana: "
        ),
        Loaded = todana_config_rules:fit_defaults(#{
            Name => set_or_default(Option, Given)
         || #{name := Name} = Option <- todana_options:all()
        }),
        ok = todana_config_rules:without_data_dir(Loaded),
        ok = is_event_handler(application:get_env(todana, event_handler, none)),
        Options = #{Name => Value || Name := {Value, _} <- Loaded},
        case todana_config_rules:check(Options) of
            ok -> {ok, Options};
            {error, Sentence} -> {error, {todana, Sentence}}
        end
    catch
        throw:Sentence1 -> {error, {todana, Sentence1}}
    end.

-spec is_event_handler(term()) -> ok.
is_event_handler(none) -> ok;
is_event_handler(Handler) when is_function(Handler, 3) -> ok;
is_event_handler(Other) ->
    throw(sentence(
        "event_handler is `~ts`, but should be a function of three arguments, "
        "such as fun telemetry:execute/3, or none", [text(Other)]
    )).

-spec set_or_default(todana_options:option(), #{atom() => term()}) ->
    {term(), origin()}.
set_or_default(#{name := Name, type := Type} = Option, Given) ->
    case Given of
        #{Name := Value} ->
            todana_option_type:is_text(Type, Value) orelse
                throw(expected(
                    Option, text(Value), todana_option_type:describe(Type), ""
                )),
            {parse(Option, text(Value), ""), env};
        #{} -> {parse(Option, default(Option), ""), default}
    end.

-spec default(todana_options:option()) -> string().
default(#{embedded := Default}) -> Default;
default(#{default := Default}) -> Default.

-spec text(term()) -> string().
text(Value) when is_atom(Value) -> atom_to_list(Value);
text(Value) when is_integer(Value) -> integer_to_list(Value);
text(Value) when is_binary(Value) -> todana_config_sources:text(Value);
text([Value | _] = Values) when is_atom(Value) ->
    lists:flatten(lists:join(",", [text(Each) || Each <- Values]));
text(Value) ->
    case io_lib:char_list(Value) of
        true -> Value;
        false -> lists:flatten(io_lib:format("~tp", [Value]))
    end.

-doc """
The options of a server and their origins, from the given flags and the other
sources. Also returns the path of the configuration file.
""".
-spec load(flags()) -> {ok, loaded(), File :: string()} | {error, string()}.
load(Flags) ->
    load(Flags, #{}).

-doc "`load/1` with defaults that override those of the option table.".
-spec load(flags(), texts()) ->
    {ok, loaded(), File :: string()} | {error, string()}.
load(Flags, Defaults) ->
    try
        File = maps:get(config, Flags, os:getenv("TODANA_CONFIG", "")),
        InFile = todana_config_sources:file(File),
        InEnv = todana_config_sources:variables(),
        Loaded = todana_config_rules:fit_defaults(#{
            Name => origin(
                Option#{default := maps:get(Name, Defaults, Default)},
                Flags, InEnv, InFile, File
            )
         || #{name := Name, default := Default} = Option <-
                todana_options:all()
        }),
        ok = todana_config_rules:without_data_dir(Loaded),
        case todana_config_rules:check(#{N => V || N := {V, _} <- Loaded}) of
            ok -> {ok, Loaded, File};
            {error, Sentence} -> {error, Sentence}
        end
    catch
        throw:Sentence1 -> {error, Sentence1}
    end.

-spec origin(todana_options:option(), map(), texts(), texts(), string()) ->
    {term(), origin()}.
origin(Option, Flags, Env, InFile, File) ->
    #{name := Name, default := Default} = Option,
    case {Flags, Env, InFile} of
        {#{Name := Text}, _, _} ->
            {parse(Option, Text, flag(Name)), flag};
        {_, #{Name := Text}, _} ->
            {parse(Option, Text, todana_options:variable(Name) ++ ": "), env};
        {_, _, #{Name := Text}} ->
            {parse(Option, Text, File ++ ": "), file};
        _ ->
            {parse(Option, Default, ""), default}
    end.

%% Databases can also be named without a flag.
-spec flag(todana_options:name()) -> string().
flag(databases) -> "";
flag(Name) -> todana_options:flag(Name) ++ ": ".

-spec parse(todana_options:option(), string(), string()) -> term().
parse(#{type := Type} = Option, Text, Where) ->
    case todana_option_type:parse(Type, Text) of
        {ok, Value} -> Value;
        {refused, Sentence} -> throw(Where ++ Sentence);
        {error, Form} -> throw(expected(Option, Text, Form, Where))
    end.

-spec expected(todana_options:option(), string(), string(), string()) ->
    string().
expected(#{name := Name}, Text, Form, Where) ->
    Visible = string:replace(Text, [0], "\\0", all),
    sentence("~ts~ts is `~ts`, but should be ~ts",
             [Where, Name, Visible, Form]).

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
