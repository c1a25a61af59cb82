%% Which databases are durable, and their names, as their data directory keeps
%% them.
%%
%%     <data_dir>/databases     {Number, Name, Order}. for each that was named
%%     <data_dir>/node          {optional, durable, Numbers}. of all of them
%%
%% The log knows databases by their numbers. A start that names others, or the
%% same ones in another sequence, would show the records of one database under
%% the name of another, and is refused. So is one that keeps in memory what was
%% durable: each start would read its old records from the log.
-module(todana_named_databases).
-moduledoc false.

-export([check/2, durable/1, in_memory/1, bytes/1]).

-define(FILE_NAME, "databases").

-type named() ::
    {0..15, Name :: string(), todana_kyoto_database:order() | nil}.

-doc """
Compares the databases with those that the directory has, and adds new ones. One
that was durable is not kept in memory.
""".
-spec check(todana_data_dir:opened(), [todana_kyoto_database:database()]) ->
    ok | {error, Sentence :: string()}.
check(#{data_dir := Directory} = Opened, Databases) ->
    Durable = durable(Databases),
    maybe
        [] ?= before(Directory) -- Durable,
        ok ?= check_names(Directory, Databases),
        %% A dump takes all for durable that it knows nothing about.
        false ?= application:get_env(todana, is_dump, false),
        ok ?= todana_data_dir:note(Opened, [{durable, Durable}])
    else
        true ->
            ok;
        [Number | _] ->
            {error, was_durable(Number, Directory)};
        {error, [First | _] = Sentence} when is_integer(First) ->
            {error, Sentence};
        {error, Reason} ->
            {error, sentence("data_dir: ~ts cannot be written: ~0tp",
                             [filename:join(Directory, "node"), Reason])}
    end.

-spec check_names(file:filename(), [todana_kyoto_database:database()]) ->
    ok | {error, Sentence :: string()}.
check_names(Directory, Databases) ->
    File = filename:join(Directory, ?FILE_NAME),
    Given = named(Databases),
    maybe
        {ok, Kept} ?= read(File),
        [] ?= [S || {_, _, _} = K <- Kept, S <- differs(K, Given, Directory)],
        case lists:usort(Kept ++ Given) of
            Kept -> ok;
            All -> write(File, All)
        end
    else
        [Sentence | _] -> {error, Sentence};
        {error, _} = Error -> Error
    end.

-doc "The numbers of those that are in memory, as far as the directory knows.".
-spec in_memory(file:filename()) -> [0..15].
in_memory(Directory) ->
    case before(Directory) of
        [] -> [];
        Durable -> durable([]) -- Durable
    end.

-spec before(file:filename()) -> [0..15].
before(Directory) ->
    case todana_data_dir:identity(Directory) of
        {ok, #{durable := Numbers}} -> Numbers;
        _ -> []
    end.

-doc "The file in this directory, for a backup; empty if there is none.".
-spec bytes(file:filename()) -> binary().
bytes(Directory) ->
    case file:read_file(filename:join(Directory, ?FILE_NAME)) of
        {ok, Bytes} -> Bytes;
        {error, enoent} -> <<>>
    end.

%% The default name of the first database does not count.
-spec named([todana_kyoto_database:database()]) -> [named()].
named(Databases) ->
    [
        {Number, Name, Order}
     || {Number, #{name := Name, kind := Kind, order := Order}} <-
            lists:enumerate(0, Databases),
        todana_kyoto_database:is_durable(Kind),
        Name =/= "db0.kch"
    ].

-doc "The numbers of the durable ones.".
-spec durable([todana_kyoto_database:database()]) -> [0..15].
durable(Databases) ->
    Numbers = todana_kyoto_database:durable_numbers(Databases),
    [Number || {Number, true} <- lists:enumerate(0, Numbers)].

-spec was_durable(0..15, file:filename()) -> string().
was_durable(Number, Directory) ->
    sentence("databases: database ~b was kept on disk in ~ts, and is to be "
             "kept in memory now, where its old records would come back at "
             "each start: keep it on disk (`db~b.kch`), or use another data "
             "directory, or delete this one if nothing in it is wanted",
             [Number, Directory, Number]).

-spec differs(named(), [named()], file:filename()) -> [string()].
differs({Number, Name, Order} = Kept, Given, Directory) ->
    case lists:keyfind(Number, 1, Given) of
        Kept ->
            [];
        {Number, Name, _} ->
            [sentence("databases: the order of `~ts` is ~ts in ~ts, and cannot "
                      "change", [Name, order(Order), Directory])];
        _ ->
            [sentence("databases: database ~b of ~ts is `~ts`: name it in this "
                      "place, or use another data directory",
                      [Number, Directory, Name])]
    end.

-spec order(todana_kyoto_database:order() | nil) -> string().
order(nil) -> "none";
order(Order) -> atom_to_list(Order).

-spec read(file:filename()) -> {ok, [named()]} | {error, string()}.
read(File) ->
    case todana_small_file:read_terms(File) of
        {ok, Terms} ->
            {ok, lists:usort(Terms)};
        {error, enoent} ->
            {ok, []};
        {error, Reason} ->
            {error, sentence("data_dir: ~ts: ~ts",
                             [File, file:format_error(Reason)])}
    end.

-spec write(file:filename(), [named()]) -> ok | {error, string()}.
write(File, Named) ->
    Text = [io_lib:format("~tp.~n", [One]) || One <- Named],
    Bytes = unicode:characters_to_binary(["%% -*- coding: utf-8 -*-\n", Text]),
    case todana_small_file:replace(File, Bytes) of
        ok ->
            ok;
        {error, Reason} ->
            {error, sentence("data_dir: ~ts cannot be written: ~ts",
                             [File, file:format_error(Reason)])}
    end.

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
