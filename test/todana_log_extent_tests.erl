%% Room at the end of a file that somebody else writes to.
-module(todana_log_extent_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CHUNK_BYTES, 40_000).
-define(CHUNKS, 1_000).

a_file_gets_zeros_and_is_never_shortened_test() ->
    in_directory(fun(Directory) ->
        File = filename:join(Directory, "log"),
        ok = file:write_file(File, ~"abc"),
        Mib = 1 bsl 20,
        [
            begin
                ?assertEqual(ok, extend(File, To)),
                {ok, Bytes} = file:read_file(File),
                Zeros = Size - 3,
                ?assert(<<"abc", 0:Zeros/unit:8>> =:= Bytes)
            end
            %% By less than a MiB it is not.
         || {To, Size} <- [
                {0, 3}, {3, 3}, {Mib + 2, 3}, {Mib + 3, Mib + 3}, {5, Mib + 3},
                {2 * Mib + 2, Mib + 3}, {3 * Mib, 3 * Mib}
            ]
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
        ?assertError(badarg, extend(File, -1)),
        %% A file system that does not promise to keep what is written.
        ?assertMatch({error, _}, extend("/proc/self/comm", 1 bsl 21))
    end).

%% The file is extended all the time, to lengths around what is written.
a_writer_and_an_extender_do_not_disturb_each_other_test_() ->
    {timeout, 600, fun a_writer_and_an_extender_do_not_disturb_each_other/0}.

a_writer_and_an_extender_do_not_disturb_each_other() ->
    in_directory(fun(Directory) ->
        File = filename:join(Directory, "log"),
        ok = file:write_file(File, ~""),
        {ok, Fd} = file:open(File, [raw, read, write, binary]),
        {Extender, Monitor} = spawn_monitor(fun() ->
            extend_until_message(File)
        end),
        Chunks = [chunk(N) || N <- lists:seq(1, ?CHUNKS)],
        [ok = file:write(Fd, Chunk) || Chunk <- Chunks],
        Extender ! stop,
        receive {'DOWN', Monitor, process, Extender, normal} -> ok end,
        ok = file:close(Fd),
        {ok, Bytes} = file:read_file(File),
        Written = iolist_to_binary(Chunks),
        Room = byte_size(Bytes) - byte_size(Written),
        ?assert(Room >= 0),
        ?assert(<<Written/binary, 0:Room/unit:8>> =:= Bytes)
    end).

chunk(N) -> binary:copy(<<N:32>>, ?CHUNK_BYTES div 4).

extend_until_message(File) ->
    receive
        stop -> ok
    after 0 ->
        ok = extend(File, filelib:file_size(File) + rand:uniform(3 bsl 20)),
        extend_until_message(File)
    end.

extend(File, Bytes) ->
    todana_nif:extend_file(unicode:characters_to_binary(File), Bytes).

in_directory(Do) ->
    Name = io_lib:format("todana_log_extent-~s-~b",
                         [os:getpid(), erlang:unique_integer([positive])]),
    Directory = filename:join("_build/test/log_extent", lists:flatten(Name)),
    ok = filelib:ensure_path(Directory),
    try
        Probe = filename:join(Directory, "probe"),
        ok = file:write_file(Probe, ~""),
        %% Some file systems of containers have no such call.
        case extend(Probe, 1 bsl 20) of
            ok -> Do(Directory);
            {error, ~"unsupported"} -> ok
        end
    after
        file:del_dir_r(Directory)
    end.
