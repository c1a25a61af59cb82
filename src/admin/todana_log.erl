%% Where the log goes in a node that the command line started, and its form: one
%% of two handlers of OTP's logger. A handler keeps its place, so another place
%% is another handler.
%%
%% In somebody else's release the logger belongs to that release.
-module(todana_log).
-moduledoc false.

-export([configure/1, to_standard_error/0, flush/0]).
-export([options/0, started/1, shown/2]).

-export_type([settings/0]).

-type settings() :: #{
    log_level := logger:level(),
    log_file := off | file:filename(),
    log_file_bytes := pos_integer() | off,
    log_file_count := non_neg_integer(),
    log_format := text | json,
    _ => _
}.

-define(HANDLERS, [default, todana_log]).
-define(HANDOVER_MS, 100).
%% When a line is given to the system at the latest.
-define(DELAY_BYTES, 65_536).
-define(DELAY_MS, 100).

-doc "The options that `configure/1` takes.".
-spec options() -> [todana_options:name()].
options() ->
    [log_level, log_file, log_file_bytes, log_file_count, log_format].

-doc """
Sets the handler and the level. If the file cannot be written, the log stays as
it is.
""".
-spec configure(settings()) -> ok | {error, Sentence :: iodata()}.
configure(#{log_level := Level} = Settings) ->
    maybe
        ok ?= is_writable(Settings),
        ok ?= set_handler(Settings),
        logger:set_primary_config(level, Level)
    end.

-doc "The log of each command, before anything is logged.".
-spec to_standard_error() -> ok.
to_standard_error() ->
    _ = logger:remove_handler(present()),
    Config = #{type => standard_error},
    logger:add_handler(default, logger_std_h, handler(Config, formatter(text))).

%% Tried before the handler is added, which would create the directory.
-spec is_writable(settings()) -> ok | {error, iodata()}.
is_writable(#{log_file := off}) ->
    ok;
is_writable(#{log_file := File}) ->
    maybe
        true ?= filelib:is_dir(filename:dirname(filename:absname(File))),
        {ok, Device} ?= file:open(File, [append, raw]),
        file:close(Device)
    else
        false -> {error, ["log_file: ", File, ": ", file:format_error(enoent)]};
        {error, Why} -> {error, ["log_file: ", File, ": ",
                                 file:format_error(Why)]}
    end.

-spec set_handler(settings() | logger:handler_config()) ->
    ok | {error, iodata()}.
set_handler(#{log_file := off, log_format := Format}) ->
    set_handler(handler(#{type => standard_error}, formatter(Format)));
set_handler(#{log_file := File, log_format := Format} = Settings) ->
    #{log_file_bytes := Bytes, log_file_count := Count} = Settings,
    Limits =
        case Bytes of
            off -> #{max_no_bytes => infinity, max_no_files => 0};
            _ -> #{max_no_bytes => Bytes, max_no_files => Count}
        end,
    Config = Limits#{
        file => filename:absname(File),
        modes => [raw, append, {delayed_write, ?DELAY_BYTES, ?DELAY_MS}]
    },
    set_handler(handler(Config, formatter(Format)));
set_handler(#{config := New, formatter := Formatter} = Handler) ->
    Id = present(),
    {ok, #{config := Old}} = logger:get_handler_config(Id),
    case destination(New) =:= destination(Old) of
        true ->
            Limits = maps:with([max_no_bytes, max_no_files], New),
            ok = logger:update_handler_config(Id, config, Limits),
            logger:set_handler_config(Id, formatter, Formatter);
        false ->
            replace(Id, Handler)
    end.

%% The new handler is there before the old one goes, so that no event in between
%% is lost: it is in one of the two places, or in both. A process that logs has
%% read beforehand which handlers there are, so the old one stays for a moment.
-spec replace(logger:handler_id(), logger:handler_config()) ->
    ok | {error, iodata()}.
replace(Id, Handler) ->
    [Other] = ?HANDLERS -- [Id],
    case logger:add_handler(Other, logger_std_h, Handler) of
        ok ->
            timer:sleep(?HANDOVER_MS),
            logger:remove_handler(Id);
        {error, Why} -> {error, io_lib:format("log_file: ~0tp", [Why])}
    end.

%% Which of the two handlers there is. At first, OTP's `default'.
-spec present() -> logger:handler_id().
present() ->
    [Id] = [Id || Id <- logger:get_handler_ids(), lists:member(Id, ?HANDLERS)],
    Id.

-spec destination(map()) -> term().
destination(#{file := File}) -> File;
destination(#{type := Type}) -> Type.

-doc "Returns when all events that were logged are written.".
-spec flush() -> ok.
flush() ->
    _ = logger_std_h:filesync(present()),
    ok.

-spec handler(map(), {module(), map()}) -> map().
handler(Config, Formatter) ->
    #{
        config => Config,
        filters => [{progress, {fun logger_filters:progress/2, stop}}],
        formatter => Formatter
    }.

-spec formatter(text | json) -> {module(), map()}.
formatter(text) ->
    {logger_formatter, #{single_line => true, legacy_header => false}};
formatter(json) ->
    {todana_log_json, #{}}.

-doc """
Logs that the node has started: its options that differ from their defaults, and
a warning if nothing limits its records.
""".
-spec started(todana_config:loaded()) -> ok.
started(Loaded) ->
    Given = [
        io_lib:format("~ts = ~ts", [Name, shown(Type, V)])
     || #{name := Name, type := Type, default := Default} <-
            todana_options:all(),
        #{Name := {V, Origin}} <- [Loaded],
        Origin =/= default,
        {ok, V} =/= todana_option_type:parse(Type, Default)
    ],
    {ok, Version} = application:get_key(todana, vsn),
    logger:notice("todana: version ~ts has started; options that differ from "
                  "their defaults: ~ts", [Version, listed(Given)]),
    case Loaded of
        #{memory_limit := {off, _}, data_dir := {off, _}} ->
            logger:warning("todana: memory_limit is off: the records may fill "
                           "the memory of the machine");
        #{memory_limit := {Limit, _}, databases := {Databases, _}} when
            Limit =/= off
        ->
            warn_without_effect(Loaded, Databases);
        #{} ->
            ok
    end.

-spec warn_without_effect(todana_config:loaded(), [term()]) -> ok.
warn_without_effect(#{data_dir := {off, _}}, _Databases) ->
    ok;
warn_without_effect(_Loaded, Databases) ->
    Durable = todana_kyoto_database:durable_numbers(Databases),
    case lists:member(false, Durable) of
        true ->
            ok;
        false ->
            logger:warning("todana: memory_limit has no effect: all databases "
                           "are durable, and these have no limit")
    end.

-doc """
An option as the log has it: databases without their parameters, one of which is
a secret key.
""".
-spec shown(todana_options:type(), term()) -> string().
shown(databases, Databases) ->
    Names = [hd(string:split(Text, "#")) || #{text := Text} <- Databases],
    lists:flatten(lists:join(" ", Names));
shown(Type, Value) ->
    todana_option_type:format(Type, Value).

-spec listed([iodata()]) -> iodata().
listed([]) -> "none";
listed(Given) -> lists:join(", ", Given).
