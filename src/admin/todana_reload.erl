%% Reads the configuration again while the node runs: at SIGHUP, and for
%% `bin/todana reload'.
%%
%% An option is applied if its sources have another value than at the last
%% reading, so that what a client has changed by `CONFIG SET' stays otherwise.
%% The sources are those of the start: the same flags and environment, and the
%% file as it is now. A configuration that is refused changes nothing.
-module(todana_reload).
-moduledoc false.
-behaviour(gen_server).

-export([start/3, is_running/0, run/0, request/0]).
-export([init/1, handle_call/3, handle_cast/2]).

-export_type([source/0]).

-define(TIMEOUT_MS, 60_000).

-type source() :: {Flags :: map(), Defaults :: todana_config:texts()}.

%% What became of the new values of options, and the line about them.
-type applied() :: {set | refused, [todana_options:name()], binary()}.

-type is_known() :: fun((binary() | nil) -> boolean()).

-record(state, {
    source :: source(),
    loaded :: todana_config:loaded(),
    %% With what the node runs, of options whose later values it refused.
    kept = #{} :: #{todana_options:name() => term()},
    %% Whether this is the password of the last reading. A fun, since the state
    %% would be printed if the process failed.
    is_known :: is_known()
}).

-doc """
Starts the process, for a node that was started with this configuration. Nothing
supervises it, since it belongs to the command line.
""".
-spec start(map(), todana_config:texts(), todana_config:loaded()) -> ok.
start(Flags, Defaults, Loaded) ->
    {ok, _} = gen_server:start(
        {local, ?MODULE}, ?MODULE, {{Flags, Defaults}, Loaded}, []
    ),
    ok.

-doc "Whether the command line has started this node.".
-spec is_running() -> boolean().
is_running() ->
    whereis(?MODULE) =/= undefined.

-doc """
Reads the configuration again; returns a line for each option that has changed.
""".
-spec run() -> {ok, [binary()]} | {error, Sentence :: binary()}.
run() ->
    try
        gen_server:call(?MODULE, run, ?TIMEOUT_MS)
    catch
        exit:{noproc, _} ->
            {error, <<"the configuration of this node belongs to the release "
                      "that contains it">>}
    end.

-doc "The same without waiting; the log has the result.".
-spec request() -> ok.
request() ->
    gen_server:cast(?MODULE, run).

-spec init({source(), todana_config:loaded()}) -> {ok, #state{}}.
init({Source, Loaded}) ->
    {ok, #state{
        source = Source, loaded = Loaded, is_known = known_at_start(Loaded)
    }}.

-spec handle_call(run, gen_server:from(), #state{}) ->
    {reply, {ok, [binary()]} | {error, binary()}, #state{}}.
handle_call(run, _From, State) ->
    {Result, New} = reload(State),
    ok = log(Result),
    {reply, Result, New}.

-spec handle_cast(run, #state{}) -> {noreply, #state{}}.
handle_cast(run, State) ->
    {Result, New} = reload(State),
    ok = log(Result),
    {noreply, New}.

-spec log({ok, [binary()]} | {error, binary()}) -> ok.
log({ok, []}) ->
    logger:notice("todana: the configuration was read again; nothing has "
                  "changed");
log({ok, Lines}) ->
    logger:notice("todana: the configuration was read again: ~ts",
                  [lists:join("; ", Lines)]);
log({error, Sentence}) ->
    logger:error("todana: the configuration was read again and is refused: "
                 "~ts", [Sentence]).

-spec reload(#state{}) -> {{ok, [binary()]} | {error, binary()}, #state{}}.
reload(#state{source = {Flags, Defaults}, loaded = Old} = State) ->
    case todana_config:load(Flags, Defaults) of
        {error, Sentence} ->
            {{error, text(Sentence)}, State};
        {ok, New, _File} ->
            Changed = [
                Name
             || Name <- todana_options:names(),
                value(Name, New) =/= value(Name, Old)
            ],
            {Lines, IsKnown} = apply_password(New, State#state.is_known),
            Runs = fun(Name) ->
                maps:get(Name, State#state.kept, value(Name, Old))
            end,
            Results = apply_options(
                [Name || Name <- Changed, value(Name, New) =/= Runs(Name)], New
            ),
            Refused = lists:append([Names || {refused, Names, _} <- Results]),
            Kept = #{Name => Runs(Name) || Name <- Refused},
            {
                {ok, Lines ++ [Line || {_, _, Line} <- Results]},
                State#state{
                    loaded = New, is_known = IsKnown,
                    kept = maps:merge(
                        maps:without(Changed, State#state.kept), Kept
                    )
                }
            }
    end.

-spec value(todana_options:name(), todana_config:loaded()) -> term().
value(Name, Loaded) ->
    case Loaded of
        #{Name := {Value, _Origin}} -> Value;
        #{} -> absent
    end.

%% The password may have changed while the name of its file has not.
-spec apply_password(todana_config:loaded(), is_known()) ->
    {[binary()], is_known()}.
apply_password(Loaded, IsKnown) ->
    maybe
        {ok, Password} ?= password(Loaded),
        false ?= IsKnown(Password),
        ok ?= todana_listener:set_password(Password),
        Line =
            case Password of
                nil -> ~"no password is set";
                _ -> ~"the password is changed"
            end,
        {[Line], known(Password)}
    else
        true -> {[], IsKnown};
        {error, Why} -> {[line("the password stays: ~ts", [Why])], IsKnown}
    end.

%% The file was checked a moment ago. If it cannot be read any more, the node
%% does not go on without a password.
-spec password(todana_config:loaded()) ->
    {ok, binary() | nil} | {error, string()}.
password(Loaded) ->
    todana_password:read(value(password_file, Loaded)).

-spec known_at_start(todana_config:loaded()) -> is_known().
known_at_start(Loaded) ->
    case password(Loaded) of
        {ok, Password} -> known(Password);
        {error, _} -> fun(_) -> false end
    end.

-spec known(binary() | nil) -> is_known().
known(Password) ->
    fun(Other) -> Other =:= Password end.

-spec apply_options([todana_options:name()], todana_config:loaded()) ->
    [applied()].
apply_options(Changed, Loaded) ->
    {OfLog, Others} = lists:partition(
        fun(Name) -> lists:member(Name, todana_log:options()) end, Changed
    ),
    Values = #{Name => value(Name, Loaded) || Name <- maps:keys(Loaded)},
    [apply_option(Name, maps:get(Name, Values)) ||
        Name <- Others, Name =/= password_file] ++
        case OfLog =/= [] andalso todana_log:configure(Values) of
            false -> [];
            ok ->
                [{set, [N], shown(N, maps:get(N, Values))} || N <- OfLog];
            {error, Why} ->
                [{refused, OfLog, line("the log stays as it is: ~ts", [Why])}]
        end.

-spec apply_option(todana_options:name(), term()) -> applied().
apply_option(Name, Value) ->
    case todana_listener:set_option(Name, format(Name, Value)) of
        ok ->
            {set, [Name], shown(Name, Value)};
        {error, Why} ->
            {refused, [Name],
             line("~ts stays until a restart: ~ts", [Name, Why])}
    end.

-spec shown(todana_options:name(), term()) -> binary().
shown(Name, Value) ->
    {ok, #{type := Type}} = todana_options:find(atom_to_list(Name)),
    line("~ts = ~ts", [Name, todana_log:shown(Type, Value)]).

-spec format(todana_options:name(), term()) -> string().
format(Name, Value) ->
    {ok, #{type := Type}} = todana_options:find(atom_to_list(Name)),
    todana_option_type:format(Type, Value).

-spec line(string(), [term()]) -> binary().
line(Format, Arguments) ->
    text(io_lib:format(Format, Arguments)).

-spec text(unicode:chardata()) -> binary().
text(Sentence) -> unicode:characters_to_binary(Sentence).
