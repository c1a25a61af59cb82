%% Where the socket of `todana_control' is: found by the node when it starts,
%% and by the command line from the same options.
%%
%% With a data directory it is in that. A node without one has it in a directory
%% of its user, under the address of its first listener. On Linux the system
%% knows the sockets of all nodes that run.
-module(todana_control_path).
-moduledoc false.

-include_lib("kernel/include/file.hrl").

-export([of_directory/1, of_options/1, directory_of/1, found/0, no_node/1]).
-export([prepare/1]).
%% The decision, for tests
-export([is_locked/2]).

-define(SOCKET, "control").
%% A list of the system's Unix sockets, and the flags of those that listen.
-define(SYSTEM_SOCKETS, "/proc/net/unix").
-define(LISTENS, ~"00010000").
%% The locks of the system, with the inodes of their files.
-define(SYSTEM_LOCKS, "/proc/locks").
-define(LISTENERS, [
    listen_resp, listen_resp_cluster, listen_memcached, listen_kyoto,
    listen_http
]).

-doc "The socket of the node with this data directory.".
-spec of_directory(file:filename()) -> file:filename().
of_directory(DataDir) ->
    filename:join(filename:absname(DataDir), ?SOCKET).

-doc """
The socket of the node with these options; `none` if it has none, or its ports
are any free ones.
""".
-spec of_options(#{todana_options:name() => term()}) -> file:filename() | none.
of_options(#{control_socket := off}) ->
    none;
of_options(#{control_socket := [_ | _] = Path}) ->
    filename:absname(Path);
of_options(#{control_socket := auto, data_dir := [_ | _] = DataDir}) ->
    of_directory(DataDir);
of_options(#{control_socket := auto} = Options) ->
    Addresses = [
        Address
     || Name <- ?LISTENERS,
        #{Name := [Address | _]} <- [Options],
        element(2, Address) =/= 0
    ],
    case Addresses of
        [] -> none;
        [{Ip, Port} | _] -> named({Ip, Port});
        [{Ip, Port, _Level} | _] -> named({Ip, Port})
    end.

-doc "The data directory with this socket, if it is in one.".
-spec directory_of(file:filename()) -> {ok, file:filename()} | none.
directory_of(Path) ->
    Directory = filename:dirname(Path),
    IsData = filename:basename(Path) =:= ?SOCKET andalso
        filelib:is_regular(filename:join(Directory, "node")),
    case IsData of
        true -> {ok, Directory};
        false -> none
    end.

-doc """
What it means that nobody answers at this socket. A node locks its data
directory before it has sockets, and gives it up after them.
""".
-spec no_node(file:filename()) -> unicode:chardata().
no_node(Path) ->
    Lock = filename:join(filename:dirname(Path), "lock"),
    case {file:read_file_info(Lock), file:read_file(?SYSTEM_LOCKS)} of
        {{ok, #file_info{inode = Inode}}, {ok, Locks}} ->
            case is_locked(Inode, Locks) of
                true ->
                    ["a node is starting or stopping here, or a command works "
                     "with its data directory: there is no answer from ", Path,
                     " yet"];
                false ->
                    no_answer(Path)
            end;
        _ ->
            no_answer(Path)
    end.

-spec no_answer(file:filename()) -> unicode:chardata().
no_answer(Path) ->
    ["no node is running here: there is no answer from ", Path, " (a node that "
     "was just started, or waits to join, answers later)"].

-doc "Whether a file with this inode is in this list of locks.".
-spec is_locked(non_neg_integer(), binary()) -> boolean().
is_locked(Inode, Locks) ->
    Own = integer_to_binary(Inode),
    lists:any(
        fun(Line) ->
            case binary:split(Line, ~" ", [global, trim_all]) of
                %% Number, kind, class, access, process and file. A request
                %% that waits for a lock has an arrow behind the number.
                [_, _, _, _, _, File | _] ->
                    lists:last(binary:split(File, ~":", [global])) =:= Own;
                _ ->
                    false
            end
        end,
        binary:split(Locks, ~"\n", [global])
    ).

-doc "The sockets of nodes on this host that this user may connect to.".
-spec found() -> [file:filename()].
found() ->
    case file:read_file(?SYSTEM_SOCKETS) of
        {ok, Bytes} ->
            lists:usort([
                Path
             || Line <- binary:split(Bytes, ~"\n", [global]),
                Path <- listening(binary:split(Line, ~" ", [global, trim_all])),
                is_node(Path), may_write(Path)
            ]);
        {error, _} ->
            []
    end.

%% Address, references, protocol, flags, type, state, inode and path.
-spec listening([binary()]) -> [file:filename()].
listening([_, _, _, ?LISTENS, _, _, _, <<"/", _/binary>> = First | Rest]) ->
    Path = iolist_to_binary(lists:join(~" ", [First | Rest])),
    case unicode:characters_to_list(Path) of
        [_ | _] = Text -> [Text];
        _ -> []
    end;
listening(_) ->
    [].

-spec is_node(file:filename()) -> boolean().
is_node(Path) ->
    Parent = filename:basename(filename:dirname(Path)),
    directory_of(Path) =/= none orelse
        (filename:extension(Path) =:= ".control" andalso
            lists:prefix("todana", Parent)).

-spec named({inet:ip_address(), inet:port_number()}) -> file:filename().
named(Address) ->
    Name = todana_option_type:format(addresses, [Address]),
    filename:join(directory(), Name ++ ".control").

%% Of the system if this user may write there, else of the session.
-spec directory() -> file:filename().
directory() ->
    Session = os:getenv("XDG_RUNTIME_DIR", ""),
    case {may_write("/run"), may_write(Session)} of
        {true, _} ->
            "/run/todana";
        {false, true} ->
            filename:join(Session, "todana");
        {false, false} ->
            "/tmp/todana-" ++ os:getenv("LOGNAME", os:getenv("USER", "user"))
    end.

-spec may_write(file:filename()) -> boolean().
may_write(Directory) ->
    case file:read_file_info(Directory) of
        {ok, #file_info{access = Access}} ->
            Access =:= write orelse Access =:= read_write;
        _ ->
            false
    end.

-doc """
Makes the directory of a socket, for its user only. An error if it belongs to
somebody else, who could put another socket there.
""".
-spec prepare(file:filename()) -> ok | {error, file:posix() | badarg}.
prepare(Path) ->
    Directory = filename:dirname(Path),
    case Directory =:= directory() of
        false ->
            ok;
        true ->
            _ = file:make_dir(Directory),
            case file:read_link_info(Directory) of
                {ok, #file_info{type = directory}} ->
                    %% Only the owner may.
                    file:change_mode(Directory, 8#700);
                {ok, _} ->
                    {error, eperm};
                {error, Reason} ->
                    {error, Reason}
            end
    end.
