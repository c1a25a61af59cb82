%% What a start says about a data directory that it refuses.
-module(todana_data_dir_tests).

-include_lib("eunit/include/eunit.hrl").

a_directory_of_another_name_says_how_to_get_it_test() ->
    [
        ?assert(contains(refusal(terms(Name)), Parts))
     || {Name, Parts} <- [
            {'a@10.0.0.1', ["belongs to the node a@10.0.0.1",
                            "--node a@10.0.0.1", "-name a@10.0.0.1"]},
            {my_app@host, ["belongs to the node my_app@host",
                           "-sname my_app@host"]}
        ]
    ].

an_empty_file_node_says_what_to_do_test() ->
    ?assert(contains(refusal(""), ["node is empty", "restore a backup",
                                   "cluster leave"])).

%% ----------------------------------------------------------------- tools ---

contains(Sentence, Parts) ->
    [] =:= [
        {Part, Sentence}
     || Part <- Parts, string:find(Sentence, Part) =:= nomatch
    ].

terms(Node) ->
    [
        io_lib:format("~tp.~n", [Term])
     || Term <- [
            {format, 1}, {node, Node}, {uid, todana_log_writer:uid()},
            {seed, 1}, {created_ms, 1}
        ]
    ].

refusal(Text) ->
    Directory = string:trim(os:cmd("mktemp -d")),
    File = filename:join(Directory, "node"),
    ok = file:write_file(File, Text),
    try
        {error, Sentence} = todana_data_dir_open:open(Directory, always),
        {ok, Left} = file:read_file(File),
        ?assertEqual(iolist_to_binary(Text), Left),
        Sentence
    after
        ok = file:del_dir_r(Directory)
    end.
