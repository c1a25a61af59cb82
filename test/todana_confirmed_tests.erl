%% What a member remembers of the others.
-module(todana_confirmed_tests).

-include_lib("eunit/include/eunit.hrl").

%% Members that are up announce once a second what they have confirmed, also
%% while this one is still opening its log.
an_early_announcement_does_not_replace_what_is_remembered_test() ->
    Directory = filename:absname("_build/todana_confirmed_tests"),
    ok = filelib:ensure_path(Directory),
    Opened = #{
        data_dir => Directory, cluster => ~"0123", uid => ~"own",
        server => todana_confirmed_tests
    },
    Before = persistent_term:get(todana_data_dir, none),
    ok = persistent_term:put(todana_data_dir, Opened),
    try
        ok = after_a_start(fun() ->
            ok = todana_confirmed:note(~"c", 'c@127.0.0.1', 39, 39),
            todana_confirmed:keep(Opened)
        end),
        ok = after_a_start(fun() ->
            ok = todana_confirmed:note(~"a", 'a@127.0.0.1', 11, 17),
            todana_confirmed:keep(Opened)
        end),
        ?assertEqual(
            [{~"a", 'a@127.0.0.1', 11}, {~"c", 'c@127.0.0.1', 39}],
            todana_confirmed:read(Directory)
        )
    after
        case Before of
            none -> persistent_term:erase(todana_data_dir);
            _ -> persistent_term:put(todana_data_dir, Before)
        end,
        file:del_dir_r(Directory)
    end.

after_a_start(Do) ->
    ok = todana_confirmed:new(#{}, persistent_term:get(todana_data_dir)),
    try Do() after ets:delete(todana_confirmed) end.
