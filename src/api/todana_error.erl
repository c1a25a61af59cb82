%% Misuse of the API: `error:badarg' that says which argument is wrong and why.
%%
%% The shell and the crash reports of OTP print the explanation (EEP 54).
-module(todana_error).
-moduledoc false.

-export([raise/3, raise/4, answer/3, wanted/4, format_error/2]).

-export_type([cause/0]).

-type cause() :: todana_nif:cause().

-doc "Raises `badarg` as if from `todana:Function`.".
-spec raise(atom(), [term()], cause()) -> no_return().
raise(Function, Arguments, Misuse) ->
    raise(todana, Function, Arguments, Misuse).

-doc "Raises `badarg` as if from `Module:Function`.".
-spec raise(module(), atom(), [term()], cause()) -> no_return().
raise(Module, Function, Arguments, {badarg, 0, Reason}) ->
    %% No misuse: the node cannot execute the call now.
    Cause = now_or_never(Reason),
    Info = #{module => ?MODULE, cause => #{general => Cause}},
    {current_stacktrace, Stack} = process_info(self(), current_stacktrace),
    Callers = lists:dropwhile(fun is_ours/1, Stack),
    Frame = {Module, Function, Arguments, [{error_info, Info}]},
    erlang:raise(error, Cause, [Frame | Callers]);
raise(Module, Function, Arguments, {badarg, Number, Cause}) ->
    Info = #{module => ?MODULE, cause => #{Number => Cause}},
    {current_stacktrace, Stack} = process_info(self(), current_stacktrace),
    Callers = lists:dropwhile(fun is_ours/1, Stack),
    Frame = {Module, Function, Arguments, [{error_info, Info}]},
    erlang:raise(error, badarg, [Frame | Callers]).

-doc """
The result of a call of `todana:Function`, unless it is misuse. In a guest,
which has no records, the result of the call at a member.
""".
-spec answer(atom(), [term()], term()) -> dynamic().
answer(Function, [Table | Others] = Arguments, {badarg, 0, away}) ->
    case todana_away:call(todana, Function, Table, Others) of
        {badarg, _, _} = Misuse -> raise(Function, Arguments, Misuse);
        Result -> Result
    end;
answer(Function, Arguments, {badarg, _, _} = Misuse) ->
    raise(Function, Arguments, Misuse);
answer(_Function, _Arguments, Result) ->
    Result.

-doc """
The options of a call of `todana:Function`, which are its last argument, with
defaults.
""".
-spec wanted(atom(), [term()], todana_call_options:kind(), term()) -> map().
wanted(Function, Arguments, Kind, Options) ->
    case todana_call_options:read(Kind, Options) of
        {ok, Wanted} ->
            Wanted;
        {error, Cause} ->
            raise(Function, Arguments, {badarg, length(Arguments), Cause})
    end.

%% A log that is damaged is not read by waiting.
-spec now_or_never(term()) -> term().
now_or_never(recovering) ->
    case todana_group_notes:failure() of
        {_Sentence, true} -> log_failed;
        _ -> recovering
    end;
now_or_never(Reason) ->
    Reason.

-spec is_ours(tuple()) -> boolean().
is_ours({Module, _, _, _}) ->
    lists:member(Module, [
        erlang, ?MODULE, todana, todana_records, todana_open,
        todana_many, todana_pages, todana_ranges,
        todana_fetch, todana_commit, todana_update, todana_transaction,
        todana_dump, todana_durable, todana_tables,
        todana_subscription, todana_cluster, todana_names,
        todana_local_names, todana_cluster_names, todana_scope_session,
        todana_groups, todana_group_members
    ]).

-doc "What `erl_error` prints for a raised `badarg`.".
-spec format_error(term(), [tuple()]) ->
    #{pos_integer() | general => iodata()}.
format_error(_Reason, [{_M, Function, Arguments, Location} | _]) ->
    #{cause := Causes} = proplists:get_value(error_info, Location, #{}),
    maps:map(
        fun(Number, Cause) ->
            text(Cause, Function, argument(Number, Arguments))
        end,
        Causes
    ).

%% The argument, if the stack has it.
-spec argument(pos_integer() | general, term()) -> {ok, term()} | error.
argument(Number, Arguments) when
    is_integer(Number), is_list(Arguments), length(Arguments) >= Number
->
    {ok, lists:nth(Number, Arguments)};
argument(_Number, _Arguments) ->
    error.

-spec commas([atom()]) -> iodata().
commas(Names) ->
    lists:join(", ", [atom_to_list(Name) || Name <- Names]).

%% Texts that depend on the function and its argument.
-spec text(term(), atom(), {ok, term()} | error) -> iodata().
text(no_such_table, _Function, {ok, Table}) when
    not is_atom(Table), not is_reference(Table)
->
    "not a table, which is the atom that it was opened with, or its handle";
text(not_a_map, Function, _Argument) ->
    Example = todana_option_text:example(Function),
    ["options must be a map, for example ", Example];
text({unknown_option, Name}, Function, _Argument) ->
    case todana_option_text:names(Function) of
        unknown ->
            text({unknown_option, Name});
        Names ->
            io_lib:format("~ts takes no option ~tp; its options are ~ts", [
                Function, Name, commas(Names)
            ])
    end;
text({bad_option, Name}, Function, _Argument) ->
    Form = todana_option_text:form(Function, Name),
    io_lib:format("option ~tp must be ~ts", [Name, Form]);
text({returned, Cause}, Function, _Argument) ->
    ["returned a value or options that cannot be stored: ",
     text(Cause, Function, error)];
text(Cause, _Function, _Argument) ->
    text(Cause).

-spec text(term()) -> iodata().
text(away) ->
    "this node is a guest of its cluster and has no records: call the function "
    "on a member";
text(no_such_table) -> "no open table of this name, or a closed handle";
text(not_iodata) ->
    "not iodata, which a table with codec raw needs; a table that is opened "
    "with the option codec => term stores any term";
text(key_too_long) ->
    "longer than a key may be (64 KiB; a list of 81,920 elements)";
text(local_fun) ->
    "contains a fun that is not external (fun M:F/A): such a key would "
    "change with its code and its node";
text(native_record) ->
    "contains a native record (-record #name{}.): such a key would change "
    "with the record's definition";
text(key_too_deep) ->
    "nested more than 256 deep, which a key of an ordered table may not be";
text(no_order) ->
    "contains a pid, port, reference, fun or native record: its order depends "
    "on the node or the code, so it cannot be in a key of an ordered table";
text(not_a_prefix) ->
    "not a prefix: a tuple or list whose last parts are the atom '_', for "
    "example {user, 7, '_'} or [user | '_'], or the first bytes of a binary";
text(value_too_long) ->
    "longer than a value may be: 4 GiB, or `durable_value_bytes_max` in a "
    "durable table (16 MiB by default), as the codec encodes it";
text(no_time) ->
    "must name a time: #{ttl_ms => Ms} or #{expires_at_ms => Time}";
text({not_in_a_transaction, Name}) ->
    io_lib:format("a transaction, during which nobody else writes, takes no "
                  "option ~tp", [Name]);
text(not_an_integer) -> "not an integer of 64 bits";
text(not_a_list) -> "not a list";
text({too_many_pairs, Most}) ->
    io_lib:format("more than ~b pairs to store in one step", [Most]);
text(not_ordered) -> "not an ordered table";
text(not_a_pair) -> "contains an element that is not {Key, Value}";
text({not_a_function, Arity}) ->
    io_lib:format("not a function of arity ~b", [Arity]);
text(not_an_atom) -> "not an atom";
text(no_such_scope) ->
    "no scope of this name: todana_names:start_scope/2 starts one";
text(not_a_name) -> "not {Scope, Name}";
text(not_a_pid) -> "not a pid";
text(not_a_local_process) -> "not a process of this node";
text(not_an_owner) -> "neither a pid nor the name of a node";
text(not_a_timeout) -> "neither a number of milliseconds nor infinity";
text(not_a_cluster_scope) ->
    "a local scope: this function is for cluster scopes, which "
    "todana_names:start_scope/2 starts";
text(not_a_token) -> "not a token that register_name_token/2,3 returned";
text(name_too_long) ->
    "name and metadata are longer than a record may be: 64 KiB for the name, "
    "in the external term format";
text(not_name_options) ->
    "options must be a map, for example #{metadata => m, notify => true}";
text({no_name_option, Name}) ->
    io_lib:format("there is no option ~tp; the options are metadata, again and "
                  "notify", [Name]);
text({not_a_boolean, Name}) ->
    io_lib:format("option ~tp must be true or false", [Name]);
text(unknown) ->
    "nobody knows yet whether it was executed; a registration is taken back";
text({other_class, Class}) ->
    ["was started as a ", atom_to_list(Class), " scope on this node"];
text(scope_needs_data_dir) ->
    "a cluster scope is a table of the log, which this node has only with the "
    "application's option data_dir";
text({no_scope_table, Table}) ->
    io_lib:format("the scope's table, ~tp, was opened with other options by "
                  "somebody else", [Table]);
text(local_scope_without_groups) ->
    "a local scope, which has no groups: todana_names:start_scope/2 starts a "
    "cluster scope";
text(not_local_processes) ->
    "neither a process of this node nor a list of such processes";
text(not_a_reference) -> "not a reference of monitor/2 or monitor_scope/1";
text({not_one_of, Words}) -> ["not one of: ", commas(Words)];
text(not_another_node) ->
    "not the name of another node, for example 'todana@10.0.0.2'";
text(not_join_options) -> "options must be #{data_dir => Directory}";
text(not_a_level) -> "not local, bounded or linear";
text(not_an_index) -> "not a number that index/1 returned";
text(not_a_cursor) -> "not a cursor that scan/1,2,3 returned";
text(not_a_version) -> "not a version that get_entry/2 returned";
text(not_a_file_name) -> "not the name of a file";
text(no_transaction) -> "not a transaction that this process is running";
text(nested_transaction) ->
    "this process is running a transaction, and transactions do not nest";
text(is_a_database) ->
    "a database: the application's options `databases` and `memory_limit` "
    "set its limits";
text(is_durable) ->
    "a durable table: it has no limits, and keeps the options with which it "
    "was created";
text(no_data_dir) ->
    "option durable needs a directory for the records: the application's "
    "option data_dir";
text(recovering) ->
    "the node is reading its log, and cannot read or write durable records "
    "yet; nothing was executed";
text(log_failed) ->
    "the log of the durable records cannot be read, see todana:info/0; nothing "
    "was executed";
text(unavailable) ->
    "the log accepts no writes, see todana:info/0; nothing was executed";
text(no_leader) ->
    "no leader has confirmed in time that the records of this node are up to "
    "date";
text(not_applied) ->
    "this node has not applied that entry of the log in time";
text(recursive) -> "this process is already computing this key";
text(not_a_subscription) -> "not a subscription of subscribe/2";
text(prefix_of_terms) ->
    "option prefix needs a table with codec raw or an ordered one; here, "
    "subscribe to one key with option key, or to all";
text(not_running) -> "the application todana is not running";
text(bad_option) -> "an option has an invalid value";
text({unknown_option, Name}) ->
    io_lib:format("there is no option ~tp", [Name]);
text({needs, {order, Order}, Name, Value}) ->
    io_lib:format("order => ~tp needs option ~tp => ~tp", [Order, Name, Value]);
text({needs, What, Name, Value}) ->
    io_lib:format("~tp needs option ~tp => ~tp", [What, Name, Value]);
text({not_between, Name, Min, Max}) ->
    io_lib:format("option ~tp should be a number from ~b to ~b",
                  [Name, Min, Max]);
text({not_a_bound, End}) ->
    io_lib:format("should be a key (iodata), {included, Key}, {excluded, Key} "
                  "or ~tp", [End]);
text({database_option, Name}) ->
    io_lib:format("databases take no option ~tp: they are opened with #{}, "
                  "and the application's option `databases` says how they are "
                  "ordered and limited", [Name]);
text({conflicting_options, A, B}) ->
    io_lib:format("options ~tp and ~tp exclude each other", [A, B]);
text(Cause) ->
    io_lib:format("~tp", [Cause]).
