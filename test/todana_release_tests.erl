%% Which applications a node needs for its options.
-module(todana_release_tests).

-include_lib("eunit/include/eunit.hrl").

nothing_is_needed_without_options_test() ->
    Options = #{data_dir => off, listen_http => []},
    ?assertEqual(ok, todana_release:check(Options, fun(_) -> false end)).

missing_applications_are_named_test() ->
    Lacks = fun(Names) -> fun(Name) -> not lists:member(Name, Names) end end,
    Check = fun(Options, Names) ->
        todana_release:check(
            maps:merge(#{data_dir => off, listen_http => []}, Options),
            Lacks(Names)
        )
    end,
    ?assertEqual(
        {error, "data_dir: this node lacks ra, seshat: a release lists them, "
                "see docs/embedding.md"},
        Check(#{data_dir => "data"}, [ra, seshat, cowboy])
    ),
    ?assertEqual(
        {error, "listen_http: this node lacks cowboy: a release lists them, "
                "see docs/embedding.md"},
        Check(#{listen_http => auto}, [ra, cowboy])
    ),
    ?assertEqual(ok, Check(#{listen_http => auto}, [ra])).

%% A start of the libraries finds everything that it needs.
what_they_depend_on_is_in_the_rows_test() ->
    [
        begin
            _ = application:load(App),
            {ok, Needed} = application:get_key(App, applications),
            Without = fun(Name) -> not lists:member(Name, Needed) end,
            {error, Sentence} = todana_release:check(
                maps:merge(#{data_dir => off, listen_http => []}, Option),
                Without
            ),
            [
                ?assertNotEqual({Name, nomatch}, {
                    Name, string:find(Sentence, atom_to_list(Name))
                })
             || Name <- Needed -- [kernel, stdlib]
            ]
        end
     || {Option, Apps} <- [
            {#{data_dir => "data"}, [ra, aten, seshat]},
            {#{listen_http => auto}, [
                cowboy, cowlib, ranch, ssl, public_key
            ]}
        ],
        App <- Apps
    ].
