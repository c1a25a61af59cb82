%% Reads the values of options from their sources and checks them.
%%
%% As a server: flag, else environment variable, else configuration file, else
%% default. Embedded: the application's environment, else default. An unknown
%% option, or a value of the wrong type, is an error that names the option.
-module(todana_config).
-moduledoc false.

-include_lib("kernel/include/file.hrl").

-export([embedded/0, load/1, load/2, settings/1, password/1, check/1]).
-export([is_loopback/1]).

-export_type([options/0, loaded/0, origin/0, flags/0, texts/0]).

-type options() :: #{todana_options:name() => term()}.
-type origin() :: default | file | env | flag.
-type loaded() :: #{todana_options:name() => {term(), origin()}}.
-type texts() :: #{todana_options:name() => string()}.
-type flags() :: #{config => string(), todana_options:name() => string()}.

%% Variables that begin with TODANA_ and are not options.
-define(OTHER_VARIABLES, [
    "TODANA_CONFIG", "TODANA_NATIVE", "TODANA_DEBIAN_MIRROR"
]).

%% Keys of the application's environment that are not options.
-define(OTHER_KEYS, [
    included_applications, config_file, pid_file, event_handler, is_dump
]).

%% Longer than any password.
-define(PASSWORD_FILE_BYTES_MAX, 4096).

%% The bits of the file mode that allow the group and others to write.
-define(WRITTEN_BY_OTHERS, 8#022).

%% Descriptors that `select' supports, minus those not used for connections.
-define(SELECT_CONNECTIONS_MAX, 960).

%% The first database of a node with a data directory.
-define(DURABLE_DATABASE, "db0.kch").

-doc "The options of an embedded application.".
-spec embedded() -> {ok, options()} | {error, term()}.
embedded() ->
    try
        Given = #{
            Name => Value
         || {Name, Value} <- application:get_all_env(todana),
            not lists:member(Name, ?OTHER_KEYS)
        },
        refuse_unknown(
            [atom_to_list(Name) || Name <- maps:keys(Given)], "todana: "
        ),
        Loaded = fit_defaults(#{
            Name => set_or_default(Option, Given)
         || #{name := Name} = Option <- todana_options:all()
        }),
        ok = without_data_dir(Loaded),
        ok = is_event_handler(application:get_env(todana, event_handler, none)),
        Options = #{Name => Value || Name := {Value, _} <- Loaded},
        case check(Options) of
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

%% Adjusts defaults that would contradict the value of another option.
-spec fit_defaults(loaded()) -> loaded().
fit_defaults(Loaded) ->
    fit_body(fit_connections(fit_databases(Loaded))).

%% With a data directory, the first database is durable unless it is named.
-spec fit_databases(loaded()) -> loaded().
fit_databases(#{data_dir := {off, _}} = Loaded) ->
    Loaded;
fit_databases(#{databases := {_, default}} = Loaded) ->
    {ok, Database} = todana_kyoto_database:parse(?DURABLE_DATABASE),
    Loaded#{databases := {[Database], default}};
fit_databases(Loaded) ->
    Loaded.

-spec fit_connections(loaded()) -> loaded().
fit_connections(#{
    event_backend := {select, _},
    connections_max := {_, default}
} = Loaded) ->
    Loaded#{connections_max := {?SELECT_CONNECTIONS_MAX, default}};
fit_connections(Loaded) ->
    Loaded.

-spec fit_body(loaded()) -> loaded().
fit_body(#{
    input_bytes_max := {InputMax, _},
    kyoto_body_bytes_max := {BodyMax, default}
} = Loaded) ->
    Loaded#{kyoto_body_bytes_max := {min(InputMax, BodyMax), default}};
fit_body(Loaded) ->
    Loaded.

-spec default(todana_options:option()) -> string().
default(#{embedded := Default}) -> Default;
default(#{default := Default}) -> Default.

-spec text(term()) -> string().
text(Value) when is_atom(Value) -> atom_to_list(Value);
text(Value) when is_integer(Value) -> integer_to_list(Value);
text(Value) when is_binary(Value) -> to_list(Value);
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
        InFile = read_file(File),
        InEnv = variables(),
        Loaded = fit_defaults(#{
            Name => origin(
                Option#{default := maps:get(Name, Defaults, Default)},
                Flags, InEnv, InFile, File
            )
         || #{name := Name, default := Default} = Option <-
                todana_options:all()
        }),
        ok = without_data_dir(Loaded),
        case check(#{N => V || N := {V, _} <- Loaded}) of
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

-spec read_file(string()) -> texts().
read_file("") ->
    #{};
read_file(File) ->
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
                    Texts#{Name => to_list(string:trim(Value))};
                [_] ->
                    throw(sentence("~tsnot a `key = value`", [Where]))
            end
    end.

-spec name(binary(), string()) -> todana_options:name().
name(Key, Where) ->
    Text = to_list(Key),
    refuse_unknown([Text], Where),
    {ok, #{name := Name}} = todana_options:find(Text),
    Name.

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
            Hint =
                case todana_options:nearest(Text) of
                    {ok, Near} ->
                        Meant = todana_options:variable(list_to_atom(Near)),
                        "; did you mean " ++ Meant ++ "?";
                    error ->
                        ""
                end,
            throw(sentence("there is no option for the variable ~ts~ts",
                           [Variable, Hint]))
    end.

-spec refuse_unknown([string()], string()) -> ok.
refuse_unknown(Texts, Where) ->
    case [Text || Text <- Texts, todana_options:find(Text) =:= error] of
        [] ->
            ok;
        [Unknown | _] ->
            throw(sentence("~tsthere is no option `~ts`~ts",
                           [Where, Unknown, hint(Unknown)]))
    end.

-spec hint(string()) -> string().
hint(Text) ->
    case todana_options:nearest(Text) of
        {ok, Name} -> "; did you mean `" ++ Name ++ "`?";
        error -> ""
    end.

%% Refuses what promises that records outlive the process, if there is no
%% directory for them.
-spec without_data_dir(loaded()) -> ok.
without_data_dir(#{
    data_dir := {off, _}, durability := {Class, Origin}
}) when Origin =/= default ->
    throw(sentence(
        "durability: `~ts` needs a directory for the records: set data_dir",
        [Class]
    ));
without_data_dir(#{
    data_dir := {off, _}, databases := {Databases, _}
} = Loaded) ->
    Durable = [
        Text
     || #{text := Text, kind := Kind} <- Databases,
        todana_kyoto_database:is_durable(Kind)
    ],
    case Durable of
        [] ->
            without_data_dir(maps:remove(databases, Loaded));
        [Text | _] ->
            throw(sentence(
                "database `~ts` is kept on disk, and needs a directory for its "
                "records: set data_dir (--data-dir DIRECTORY, or "
                "TODANA_DATA_DIR=DIRECTORY), or name a database in memory, "
                "such as `:`",
                [Text]
            ))
    end;
without_data_dir(#{data_dir := {off, _}} = Loaded) ->
    case [
        Name
     || Name <- [cluster_create, cluster_join],
        #{Name := {Value, _}} <- [Loaded],
        Value =/= no, Value =/= off
    ] of
        [] -> ok;
        [Name | _] -> throw(sentence(
            "~ts: the nodes of a cluster keep their records on disk: set "
            "data_dir", [Name]
        ))
    end;
without_data_dir(_Loaded) ->
    ok.

-doc "Checks the rules that concern several options.".
-spec check(options()) -> ok | {error, string()}.
check(#{password_file := off} = Options) ->
    Open = [
        {Name, {Ip, Port}}
     || Name <- [
            listen_resp, listen_resp_cluster, listen_memcached, listen_kyoto,
            listen_http
        ],
        #{Name := [_ | _] = Addresses} <- [Options],
        Address <- Addresses,
        {Ip, Port} <- [{element(1, Address), element(2, Address)}],
        not is_loopback(Ip)
    ],
    case Open of
        [] ->
            sizes(Options);
        [{Name, Address} | _] ->
            Text = todana_option_type:format(addresses, [Address]),
            {error, sentence(
                "~ts: ~ts is not a loopback address: set password_file, so "
                "that only clients with the password can read and write",
                [Name, Text])}
    end;
check(#{password_file := File} = Options) ->
    case password(File) of
        {ok, _} -> sizes(Options);
        {error, Sentence} -> {error, Sentence}
    end.

%% Checks the sizes of which one must not exceed another.
-spec sizes(options()) -> ok | {error, string()}.
sizes(#{output_bytes_soft := Soft, output_bytes_hard := Hard}) when
    Soft > Hard
->
    {error, "output_bytes_soft is above output_bytes_hard"};
sizes(#{kyoto_body_bytes_max := Body, input_bytes_max := Input}) when
    Body > Input
->
    {error, "kyoto_body_bytes_max is above input_bytes_max"};
sizes(#{durable_value_bytes_max := Value, group_queue_bytes_max := Queue}) when
    Value > Queue
->
    {error, "durable_value_bytes_max is above group_queue_bytes_max"};
sizes(#{data_dir := Path}) when Path =/= off ->
    case filelib:is_regular(Path) of
        true -> {error, a_file(Path)};
        false -> ok
    end;
sizes(_Options) ->
    ok.

-spec a_file(string()) -> string().
a_file(Path) ->
    Hint =
        case filename:extension(Path) of
            ".kc" ++ _ ->
                "; Todana does not read the files of Kyoto Cabinet, "
                "docs/durability.md says how to copy their records";
            _ ->
                ""
        end,
    sentence("data_dir: ~ts is a file, not a directory~ts", [Path, Hint]).

-doc "Whether only this host reaches the address.".
-spec is_loopback(inet:ip_address()) -> boolean().
is_loopback({127, _, _, _}) -> true;
is_loopback({0, 0, 0, 0, 0, 0, 0, 1}) -> true;
is_loopback(_) -> false.

-doc """
The password: the first line of the file, `nil` without a file. Read only when
needed, so that the arguments and the state of processes do not contain it.
""".
-spec password(off | string()) -> {ok, nil | binary()} | {error, string()}.
password(off) ->
    {ok, nil};
password(File) ->
    maybe
        ok ?= not_written_by_others(File),
        {ok, Bytes} ?= read_password(File),
        [Line | _] = binary:split(Bytes, [~"\r\n", ~"\n"]),
        case Line of
            <<>> -> {error, no_password(File, "the first line is empty")};
            Password -> {ok, Password}
        end
    else
        {error, Reason} when is_atom(Reason) ->
            {error, no_password(File, file:format_error(Reason))};
        {error, Why} ->
            {error, no_password(File, Why)}
    end.

%% A user with write access to the file could choose the password.
-spec not_written_by_others(string()) ->
    ok | {error, file:posix() | badarg | string()}.
not_written_by_others(File) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = regular, mode = Mode}} when
            Mode band ?WRITTEN_BY_OTHERS =/= 0
        ->
            {error, "others than its owner may write it (chmod go-w)"};
        {ok, _} ->
            ok;
        {error, Reason} ->
            {error, Reason}
    end.

-spec read_password(string()) ->
    {ok, binary()} | {error, file:posix() | badarg | string()}.
read_password(File) ->
    maybe
        {ok, Device} ?= file:open(File, [read, raw, binary]),
        Read = file:read(Device, ?PASSWORD_FILE_BYTES_MAX + 1),
        ok = file:close(Device),
        case Read of
            {ok, Bytes} when byte_size(Bytes) > ?PASSWORD_FILE_BYTES_MAX ->
                {error, sentence("longer than ~b bytes",
                                 [?PASSWORD_FILE_BYTES_MAX])};
            {ok, Bytes} -> {ok, Bytes};
            eof -> {ok, <<>>};
            {error, Reason} -> {error, Reason}
        end
    end.

-spec no_password(string(), string()) -> string().
no_password(File, Why) ->
    sentence("password_file: ~ts: ~ts", [File, Why]).

-doc "The settings of the native server, without the password.".
-spec settings(options()) -> map().
settings(Options) ->
    #{databases := Databases, kyoto_hosts := Hosts, kyoto_origins := Origins} =
        Options,
    Texts = [
        {shown(N), to_binary(todana_option_type:format(T, V))}
     || #{name := N, type := T} <- todana_options:all(),
        V <- [maps:get(N, Options)]
    ],
    Plain = #{
        Name =>
            case Value of
                off -> nil;
                auto -> nil;
                Word when is_atom(Word) -> atom_to_binary(Word);
                Number -> Number
            end
     || Name := Value <- Options
    },
    Plain#{
        listeners => [
            listener(Protocol, Address)
         || {Protocol, Name} <- [
                {~"resp", listen_resp},
                {~"resp_cluster", listen_resp_cluster},
                {~"memcached", listen_memcached},
                {~"kyoto", listen_kyoto}
            ],
            Address <- maps:get(Name, Options)
        ],
        databases => [todana_kyoto_database:setting(D) || D <- Databases],
        kyoto_hosts => [to_binary(Host) || Host <- Hosts],
        kyoto_origins => [to_binary(Origin) || Origin <- Origins],
        password_file => maps:get(password_file, Options),
        config_file => to_binary(application:get_env(todana, config_file, "")),
        options => Texts
    }.

%% The name by which `CONFIG GET' shows an option. Redis' `databases' is their
%% number.
-spec shown(todana_options:name()) -> binary().
shown(databases) -> ~"kyoto_databases";
shown(Name) -> atom_to_binary(Name).

-spec listener(binary(), todana_options:address()) ->
    {binary(), binary(), Level :: binary()}.
listener(Protocol, Address) ->
    {Plain, Level} =
        case Address of
            {Ip, Port, Own} -> {{Ip, Port}, Own};
            {_, _} -> {Address, default}
        end,
    Text = todana_option_type:format(addresses, [Plain]),
    {Protocol, to_binary(Text), atom_to_binary(Level)}.

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).

-spec to_list(binary()) -> string().
to_list(Bytes) ->
    case unicode:characters_to_list(Bytes) of
        Text when is_list(Text) -> Text;
        _ -> binary_to_list(Bytes)
    end.

-spec to_binary(string()) -> binary().
to_binary(Text) ->
    unicode:characters_to_binary(Text).
