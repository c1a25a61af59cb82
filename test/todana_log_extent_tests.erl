%% Room at the end of a file that somebody else writes to.
-module(todana_log_extent_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CHUNK_BYTES, 1_000).
-define(CHUNKS, 3_000).

a_file_gets_zeros_and_is_never_shortened_test() ->
    in_directory(fun(Directory) ->
        File = filename:join(Directory, "log"),
        ok = file:write_file(File, ~"abc"),
        [
            begin
                ?assertEqual(ok, extend(File, To)),
                {ok, Bytes} = file:read_file(File),
                Zeros = Size - 3,
                ?assertEqual(<<"abc", 0:Zeros/unit:8>>, Bytes)
            end
         || {To, Size} <- [{0, 3}, {2, 3}, {3, 3}, {4, 4}, {5_000, 5_000},
                           {4_999, 5_000}, {2 bsl 20, 2 bsl 20}]
        ]
    end).

what_cannot_be_extended_is_an_error_test() ->
    in_directory(fun(Directory) ->
        Missing = filename:join(Directory, "missing"),
        ?assertMatch({error, _}, extend(Missing, 10)),
        ?assertNot(filelib:is_file(Missing)),
        ?assertMatch({error, _}, extend(Directory, 10)),
        File = filename:join(Directory, "log"),
        ok = file:write_file(File, ~"abc"),
        ?assertMatch({error, _}, extend(File, (1 bsl 64) - 1)),
        ?assertEqual({ok, ~"abc"}, file:read_file(File)),
        ok = file:make_symlink("log", Missing),
        ?assertMatch({error, _}, extend(Missing, 10)),
        ?assertError(badarg, extend(File, -1))
    end).

%% The file is extended all the time, to lengths below and above what is
%% written meanwhile.
a_writer_and_an_extender_do_not_disturb_each_other_test_() ->
    {timeout, 120, fun a_writer_and_an_extender_do_not_disturb_each_other/0}.

a_writer_and_an_extender_do_not_disturb_each_other() ->
    in_directory(fun(Directory) ->
        File = filename:join(Directory, "log"),
        ok = file:write_file(File, ~""),
        {ok, Fd} = file:open(File, [raw, read, write, binary]),
        {Extender, Monitor} = spawn_monitor(fun() ->
            extend_until_told(File)
        end),
        [ok = file:write(Fd, chunk(N)) || N <- lists:seq(1, ?CHUNKS)],
        Extender ! stop,
        receive {'DOWN', Monitor, process, Extender, normal} -> ok end,
        ok = file:close(Fd),
        {ok, Bytes} = file:read_file(File),
        Written = iolist_to_binary([chunk(N) || N <- lists:seq(1, ?CHUNKS)]),
        Room = byte_size(Bytes) - byte_size(Written),
        ?assert(Room >= 0),
        ?assertEqual(<<Written/binary, 0:Room/unit:8>>, Bytes)
    end).

chunk(N) -> binary:copy(<<N:32>>, ?CHUNK_BYTES div 4).

extend_until_told(File) ->
    receive
        stop -> ok
    after 0 ->
        Near = max(0, filelib:file_size(File) + rand:uniform(20_000) - 10_000),
        ok = extend(File, Near),
        extend_until_told(File)
    end.

extend(File, Bytes) ->
    todana_nif:extend_file(unicode:characters_to_binary(File), Bytes).

in_directory(Do) ->
    Name = io_lib:format("todana_log_extent-~s-~b",
                         [os:getpid(), erlang:unique_integer([positive])]),
    Directory = filename:join("_build/test/log_extent", lists:flatten(Name)),
    ok = filelib:ensure_path(Directory),
    try Do(Directory) after file:del_dir_r(Directory) end.
