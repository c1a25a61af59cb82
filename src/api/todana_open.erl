%% Opens tables, and deletes those of the log: decides by the name and the
%% options whether a table is a database, in memory, or durable.
%%
%% `todana_tables' opens what is known to exist, and tables in memory.
-module(todana_open).
-moduledoc false.

-export([open/2, drop/1]).

-type open_error() ::
    {exists, #{atom() => {term(), term()}}}
    | full | no_such_database | absent | unknown.

-doc "See `todana:open/2`.".
-spec open(term(), term()) ->
    {ok, reference()} | {error, open_error()} | todana_error:cause().
open(Name, Options) when is_atom(Name) ->
    Number = todana_tables:database(Name),
    case {Number, todana_call_options:read(open, Options)} of
        {none, {ok, #{durable := true} = Wanted}} ->
            open_durable(Name, Wanted);
        {none, {ok, Wanted}} ->
            open_in_memory(Name, Wanted);
        {_, _} when is_integer(Number), map_size(Options) > 0 ->
            [Option | _] = maps:keys(Options),
            {badarg, 2, {database_option, Option}};
        {_, {error, Cause}} ->
            {badarg, 2, Cause};
        {_, {ok, _}} ->
            todana_tables:open_database(Name, Number)
    end;
open(_Name, _Options) ->
    {badarg, 1, not_an_atom}.

%% A table of the log keeps its name while it is not open. The names are known
%% when the log has been read.
-spec open_in_memory(atom(), map()) ->
    {ok, reference()} | {error, open_error()} | todana_error:cause().
open_in_memory(Name, Wanted) ->
    maybe
        ok ?= await_names(Name),
        error ?= kept(Name),
        todana_tables:open_in_memory(Name, Wanted)
    else
        {ok, _} -> {error, {exists, #{durable => {true, false}}}};
        {badarg, _, _} = Misuse -> Misuse
    end.

-spec await_names(atom()) -> ok | todana_error:cause().
await_names(Name) ->
    case todana_tables:is_open(Name) of
        true -> ok;
        false -> todana_durable:await_tables()
    end.

%% The log creates the table, which takes as long as a write, in the process
%% that asks for it.
-spec open_durable(atom(), map()) ->
    {ok, reference()} | {error, open_error()} | todana_error:cause().
open_durable(Name, Wanted) ->
    case is_in_memory(Name) of
        true -> {error, {exists, #{durable => {false, true}}}};
        false -> create_durable(Name, Wanted)
    end.

%% Whether a table in memory has the name.
-spec is_in_memory(atom()) -> boolean().
is_in_memory(Name) ->
    case todana_nif:options(Name) of
        {_, _, _, _, _, _, {_, _, IsDurable}} -> not IsDurable;
        {badarg, _, _} -> false
    end.

-spec create_durable(atom(), map()) ->
    {ok, reference()} | {error, open_error()} | todana_error:cause().
create_durable(Name, Wanted) ->
    IsGuest = todana_guest:is_guest(),
    Created = case IsGuest of
        true -> todana_away:open(Name, Wanted);
        false -> todana_durable:open(Name, Wanted)
    end,
    case Created of
        ok when IsGuest ->
            todana_tables:open_away(Name, todana_away:table(Name));
        ok ->
            todana_tables:open_kept(Name);
        {error, {differs, Present}} ->
            Differing = todana_tables:differing_durable(Present, Wanted),
            {error, {exists, Differing}};
        Failure ->
            Failure
    end.

-doc "See `todana:drop/1`.".
-spec drop(todana:table()) ->
    ok | error | {error, unknown} | todana_error:cause().
drop(Table) ->
    case todana_nif:options(Table) of
        {badarg, _, no_such_table} when is_atom(Table) ->
            case kept(Table) of
                {ok, _} -> drop_durable(Table);
                error -> {badarg, 1, no_such_table};
                Misuse -> Misuse
            end;
        {badarg, _, _} = Misuse ->
            Misuse;
        {_, _, _, _, _, Number, _} when is_integer(Number) ->
            {badarg, 1, is_a_database};
        {Name, _, _, _, _, nil, {_, _, true}} ->
            maybe
                ok ?= drop_durable(Name),
                todana_tables:close(Table)
            end;
        _InMemory ->
            todana_tables:close(Table)
    end.

%% The options of a table of the log.
-spec kept(atom()) -> {ok, map()} | error | todana_error:cause().
kept(Name) ->
    case todana_guest:is_guest() of
        true -> todana_away:table(Name);
        false -> todana_durable:table(Name)
    end.

-spec drop_durable(atom()) ->
    ok | error | {error, unknown} | todana_error:cause().
drop_durable(Name) ->
    case todana_guest:is_guest() of
        true -> todana_away:drop(Name);
        false -> todana_durable:drop(Name)
    end.
