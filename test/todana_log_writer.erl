%% Files of a log, written byte by byte as Ra writes them, and what Ra has
%% written: for tests.
-module(todana_log_writer).

-export([uid/0, server/1, write_config/1, opened/2]).
-export([wal/2, write_wal/3, write_segment/3]).
-export([read_used/1]).

uid() -> <<"TODANA0_0123456789ABCDEF0123">>.

%% The directory of the log's only writer.
server(Directory) -> filename:join(Directory, binary_to_list(uid())).

%% What `todana_data_dir' knows about this directory.
opened(Directory, Durability) ->
    #{
        class_dir => Directory,
        server_dir => server(Directory),
        uid => uid(),
        durability => Durability,
        has_group => true
    }.

write_config(Directory) ->
    Id = {todana_0, node()},
    Config = #{
        uid => uid(), id => Id, initial_members => [Id],
        cluster_name => todana_0,
        machine => {module, todana_machine, #{group => 0}},
        log_init_args => #{uid => uid(), snapshot_module => todana_snapshot}
    },
    File = filename:join(server(Directory), "config"),
    ok = filelib:ensure_dir(File),
    file:write_file(File, io_lib:format("~tp.~n", [Config])).

%% ----------------------------------------------------------------- files ---

wal(Directory, Number) ->
    filename:join(
        Directory, lists:flatten(io_lib:format("~16..0b.wal", [Number]))
    ).

%% Records are {Index, Term, Data}.
write_wal(Directory, Number, Records) ->
    Numbered = lists:enumerate(Records),
    file:write_file(
        wal(Directory, Number),
        ["RAWA", 1 | [record(N, Record) || {N, Record} <- Numbered]]
    ).

%% The first one names the writer.
record(N, {Index, Term, Data}) ->
    Body = [<<Index:64, Term:64>>, Data],
    Head = case N of
        1 -> [<<0:24, (byte_size(uid())):16>>, uid()];
        _ -> <<0:1, 1:1, 0:22>>
    end,
    [Head, <<(erlang:adler32(Body)):32, (byte_size(Data)):32>>, Body].

write_segment(Directory, Number, Records) ->
    Name = lists:flatten(io_lib:format("~16..0b.segment", [Number])),
    File = filename:join(server(Directory), Name),
    ok = filelib:ensure_dir(File),
    {ok, Empty} = ra_log_segment:open(File, #{max_count => 64}),
    Segment = lists:foldl(
        fun({Index, Term, Data}, Open) ->
            {ok, Next} = ra_log_segment:append(Open, Index, Term, Data),
            Next
        end,
        Empty, Records
    ),
    ok = ra_log_segment:close(Segment),
    File.

%% A file without the zeros at its end, which may be room for records to come.
read_used(File) ->
    {ok, Bytes} = file:read_file(File),
    binary:part(Bytes, 0, used(Bytes, byte_size(Bytes))).

used(_Bytes, 0) ->
    0;
used(Bytes, End) ->
    case binary:at(Bytes, End - 1) of
        0 -> used(Bytes, End - 1);
        _ -> End
    end.
