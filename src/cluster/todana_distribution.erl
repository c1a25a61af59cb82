%% Makes this emulator a node that others can reach: its name, its address and
%% its cookie.
%%
%% A node that is embedded in another release has a name already; then nothing
%% is changed. `bin/todana' gets its name here. A program that knows the cookie
%% may do everything, and messages between nodes are readable on their way, so a
%% node listens on a loopback address only, unless its connections use TLS.
-module(todana_distribution).
-moduledoc false.

-export([start/1, check/1, cookie_file/1, check_cookie/1]).
-export([check_join/2, peers/1]).
-export([is_near/1]).
-export([has_tls/0, connect/1, is_alive/1]).
%% The decisions, for tests
-export([refusal/2, can_join/3]).

-export_type([options/0]).

-type options() :: #{
    node := atom(),
    cookie_file := file:filename(),
    port := auto | inet:port_number()
}.

%% A peer that does not answer for this time counts as down.
-define(NET_TICK_S, 8).
-define(COOKIE_BYTES, 20).
-define(ALIVE_TIMEOUT_MS, 5_000).
-define(EPMD_POLL_MS, 50).
-define(EPMD_TIMEOUT_MS, 5_000).

-doc "Starts the distribution, or finds that it runs with this name.".
-spec start(options()) -> ok | {error, Sentence :: iodata()}.
start(#{node := Name}) when Name =:= node() ->
    ok;
start(#{node := Name}) when node() =/= nonode@nohost ->
    {error, ["node: this node is ", atom_to_list(node()), ", and cannot "
             "become ", atom_to_list(Name)]};
start(#{node := Name, cookie_file := File, port := Port}) ->
    [_, Host] = string:split(atom_to_list(Name), "@"),
    maybe
        {ok, Address} ?= allowed(Host),
        {ok, Cookie} ?= cookie(File),
        ok = listen_on(Address, Port),
        ok ?= start_epmd(Address),
        ok = todana_refusals:install(),
        ok ?= start_kernel(Name, Host),
        ok = keep_out_of_dumps(),
        true = erlang:set_cookie(Cookie),
        ok
    end.

-doc "Whether a node of this name may be started here.".
-spec check(atom()) -> ok | {error, Sentence :: iodata()}.
check(Name) ->
    [_, Host] = string:split(atom_to_list(Name), "@"),
    case allowed(Host) of
        {ok, _} -> ok;
        {error, Sentence} -> {error, Sentence}
    end.

-doc """
Whether a node with these options could become a member by the peers that they
name. A directory that is part of a cluster joins no more.
""".
-spec check_join({ok, map()} | none, todana_config:options()) ->
    ok | {error, Sentence :: iodata()}.
check_join(none, #{cluster_join := [First | _]} = Options) ->
    Peers = case peers(Options) of [] -> [First]; Others -> Others end,
    can_join_one(own_name(Options), Peers, own_addresses());
check_join(_Known, _Options) ->
    ok.

-spec can_join_one(node(), [node()], [inet:ip_address()]) ->
    ok | {error, Sentence :: iodata()}.
can_join_one(Own, [Peer | Others], Addresses) ->
    case can_join(Own, Peer, Addresses) of
        {error, _} when Others =/= [] -> can_join_one(Own, Others, Addresses);
        Result -> Result
    end.

-doc """
The nodes by which this one joins. All members may have the same options, so its
own name may be among them.
""".
-spec peers(todana_config:options()) -> [node()].
peers(#{cluster_join := off}) -> [];
peers(#{cluster_join := Named} = Options) -> Named -- [own_name(Options)].

-spec own_name(todana_config:options()) -> node().
own_name(#{node := off}) -> node();
own_name(#{node := Name}) -> Name.

-doc """
Whether a node of this name, on a host with these addresses, can join this peer:
it is another node, and one that can reach this one, with the same kind of name.
""".
-spec can_join(node(), node(), [inet:ip_address()]) ->
    ok | {error, Sentence :: iodata()}.
can_join(Name, Name, _Own) ->
    {error, ["cluster_join: ", atom_to_list(Name), " is this node itself: name "
             "a member of the cluster that it is to join, or create one with "
             "cluster_create"]};
can_join(Name, Peer, Own) ->
    case {is_long(Name), is_long(Peer)} of
        {Same, Same} -> can_reach(Name, Peer, Own);
        _ when Name =:= nonode@nohost -> ok;
        {true, false} -> other_kind(Name, "long", Peer, "-sname");
        {false, true} -> other_kind(Name, "short", Peer, "-name")
    end.

-spec other_kind(node(), string(), node(), string()) -> {error, iodata()}.
other_kind(Name, Kind, Peer, Flag) ->
    {error, ["cluster_join: ", atom_to_list(Name), " has a ", Kind,
             " name and ", atom_to_list(Peer), " has not, so they cannot be "
             "connected: start this emulator with ", Flag]}.

-spec can_reach(node(), node(), [inet:ip_address()]) ->
    ok | {error, iodata()}.
can_reach(Name, Peer, Own) ->
    case {address_of(Name), address_of(Peer)} of
        {{ok, Address}, {ok, Other}} ->
            IsNear = is_loopback(Other) orelse lists:member(Other, Own),
            case is_loopback(Address) andalso not IsNear of
                true ->
                    {error, ["node: ", atom_to_list(Name), " is on a loopback "
                             "address, where ", atom_to_list(Peer), " on "
                             "another host cannot reach it: name this node "
                             "with an address of its host"]};
                false ->
                    ok
            end;
        _ ->
            %% Another sentence says so.
            ok
    end.

-doc "Whether only nodes of this host can reach a node of this name.".
-spec is_near(node()) -> boolean().
is_near(Name) ->
    case address_of(Name) of
        {ok, Address} -> is_loopback(Address);
        _ -> false
    end.

-spec own_addresses() -> [inet:ip_address()].
own_addresses() ->
    case inet:getifaddrs() of
        {ok, Interfaces} ->
            [A || {_Name, Facts} <- Interfaces, {addr, A} <- Facts];
        {error, _} ->
            []
    end.

-spec address_of(node()) -> {ok, inet:ip_address()} | {error, iodata()}.
address_of(Node) ->
    case string:split(atom_to_list(Node), "@") of
        [_, Host] -> address(Host);
        [_] -> {error, "the name has no host"}
    end.

-spec allowed(string()) -> {ok, inet:ip_address()} | {error, iodata()}.
allowed(Host) ->
    maybe
        {ok, Address} ?= own_address(Host),
        ok ?= is_allowed(Host, Address),
        {ok, Address}
    end.

%% The first one that this host has, of those that its name stands for. An
%% address that comes later, as that of a service which moves between hosts, is
%% none of this host until then.
-spec own_address(string()) -> {ok, inet:ip_address()} | {error, iodata()}.
own_address(Host) ->
    maybe
        {ok, Addresses} ?= addresses(Host),
        case lists:filter(fun is_own/1, Addresses) of
            [Own | _] -> {ok, Own};
            [] -> {error, not_own(Host, Addresses)}
        end
    end.

-spec addresses(string()) -> {ok, [inet:ip_address(), ...]} | {error, iodata()}.
addresses(Host) ->
    Found = [
        Address
     || Family <- [inet, inet6],
        {ok, Addresses} <- [inet:getaddrs(Host, Family)],
        Address <- Addresses
    ],
    case Found of
        [] ->
            {error, Sentence} = address(Host),
            {error, Sentence};
        _ ->
            {ok, Found}
    end.

%% The kernel decides, since it may permit more than the interfaces have.
-spec is_own(inet:ip_address()) -> boolean().
is_own(Address) ->
    Family = case Address of {_, _, _, _} -> inet; _ -> inet6 end,
    case gen_tcp:listen(0, [Family, {ip, Address}]) of
        {ok, Socket} -> ok =:= gen_tcp:close(Socket);
        {error, Reason} -> Reason =/= eaddrnotavail
    end.

-spec not_own(string(), [inet:ip_address(), ...]) -> iodata().
not_own(Host, Addresses) ->
    Texts = [inet:ntoa(Address) || Address <- Addresses],
    [
        "node: ", Host,
        [[", which is ", lists:join(" and ", Texts), ","] || Texts =/= [Host]],
        " is not an address of this host"
    ].

%% The cookie is an atom, and a crash dump has all atoms. So none is written,
%% unless the operator has said how long that may take.
-spec keep_out_of_dumps() -> ok.
keep_out_of_dumps() ->
    case os:getenv("ERL_CRASH_DUMP_SECONDS") of
        false ->
            true = os:putenv("ERL_CRASH_DUMP_SECONDS", "0"),
            ok;
        _ ->
            ok
    end.

-doc """
Whether a node that cannot be connected to runs: it answers what is no greeting
by closing the connection. One that hangs does not, and neither does its host.
""".
-spec is_alive(node()) -> boolean().
is_alive(Node) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    maybe
        {port, Port, _} ?= erl_epmd:port_please(Name, Host, ?ALIVE_TIMEOUT_MS),
        {ok, Address} ?= address(Host),
        {ok, Socket} ?= gen_tcp:connect(
            Address, Port, [binary, {active, false}], ?ALIVE_TIMEOUT_MS
        ),
        _ = gen_tcp:send(Socket, <<1:16, "?">>),
        Answer = gen_tcp:recv(Socket, 0, ?ALIVE_TIMEOUT_MS),
        ok = gen_tcp:close(Socket),
        Answer =/= {error, timeout}
    else
        _ -> false
    end.

-doc "Connects to a node, or says why it cannot be reached.".
-spec connect(node()) ->
    ok | {error, {refused | down | unnamed, Sentence :: iodata()}}.
connect(Node) ->
    case net_kernel:connect_node(Node) of
        true -> ok;
        false -> {error, why_not(Node)};
        ignored -> {error, {unnamed, "this node has no name: set `node`"}}
    end.

%% A node that refuses the cookie answers nothing, but the daemon that knows its
%% port does. A node of another release has its cookie from a flag.
-spec why_not(node()) -> {refused | down, iodata()}.
why_not(Node) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    case erl_epmd:port_please(Name, Host, 2_000) of
        {port, _, _} ->
            {refused, refusal(Node, has_tls())};
        _ ->
            {down, [
                atom_to_list(Node), " is not running, or cannot be reached"
            ]}
    end.

-doc "What to do about a node that ends the connection at once.".
-spec refusal(node(), UsesTls :: boolean()) -> iodata().
refusal(Node, UsesTls) ->
    [
        atom_to_list(Node), " refused this node: use the cookie of its "
        "cluster (copy the cookie file or, in another release, set the flag "
        "`-setcookie` of the emulator)",
        case UsesTls of
            true ->
                " and its certificates (cluster_tls), and check that its nodes "
                "use TLS, as this one does";
            false ->
                ", and check that its nodes use no TLS, as this one does not "
                "(cluster_tls)"
        end
    ].

-spec address(string()) -> {ok, inet:ip_address()} | {error, iodata()}.
address(Host) ->
    case inet:getaddr(Host, inet) of
        {ok, Address} ->
            {ok, Address};
        {error, _} ->
            case inet:getaddr(Host, inet6) of
                {ok, Address} -> {ok, Address};
                {error, Reason} ->
                    {error, ["node: ", Host, ": ", inet:format_error(Reason)]}
            end
    end.

-spec is_allowed(string(), inet:ip_address()) -> ok | {error, iodata()}.
is_allowed(Host, Address) ->
    case is_loopback(Address) orelse has_tls() of
        true ->
            ok;
        false ->
            {error, [
                "node: ", Host, " is not a loopback address, and the nodes' "
                "connections are not encrypted: make certificates with "
                "`bin/todana cluster certificates DIRECTORY`, and start each "
                "node with --cluster-tls DIRECTORY"
            ]}
    end.

-spec is_loopback(inet:ip_address()) -> boolean().
is_loopback({127, _, _, _}) -> true;
is_loopback({0, 0, 0, 0, 0, 0, 0, 1}) -> true;
is_loopback(_) -> false.

-doc "Whether connections between nodes use TLS.".
-spec has_tls() -> boolean().
has_tls() ->
    case init:get_argument(proto_dist) of
        {ok, Values} -> lists:member(["inet_tls"], Values);
        error -> false
    end.

-spec listen_on(inet:ip_address(), auto | inet:port_number()) -> ok.
listen_on(Address, Port) ->
    ok = application:set_env(kernel, inet_dist_use_interface, Address),
    ok = application:set_env(kernel, net_ticktime, ?NET_TICK_S),
    case Port of
        auto ->
            ok;
        Port ->
            ok = application:set_env(kernel, inet_dist_listen_min, Port),
            application:set_env(kernel, inet_dist_listen_max, Port)
    end.

-spec is_long(node()) -> boolean().
is_long(Node) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    has_domain(Host).

-spec has_domain(string()) -> boolean().
has_domain(Host) -> lists:any(fun(C) -> C =:= $. orelse C =:= $: end, Host).

-spec start_kernel(node(), string()) -> ok | {error, iodata()}.
start_kernel(Name, Host) ->
    Domain =
        case has_domain(Host) of
            true -> longnames;
            false -> shortnames
        end,
    case net_kernel:start(Name, #{name_domain => Domain}) of
        {ok, _} ->
            ok;
        {error, Reason} ->
            {error, ["node: ", atom_to_list(Name), " cannot be started: ",
                     cause(Reason)]}
    end.

%% The reason is deep in those of supervisors, or only in the log.
-spec cause(term()) -> iodata().
cause(_Reason) ->
    "a node of this name is running, or its port is in use".

%% ---------------------------------------------------------------- cookie ---

-spec cookie(file:filename()) -> {ok, atom()} | {error, iodata()}.
cookie(File) ->
    case file:read_file_info(File) of
        {ok, Info} -> read_cookie(File, element(8, Info));
        {error, enoent} -> create_cookie(File);
        {error, Reason} -> {error, problem(File, file:format_error(Reason))}
    end.

-doc "The file of the option `cookie_file'.".
-spec cookie_file(auto | file:filename()) -> file:filename().
cookie_file(auto) ->
    case init:get_argument(home) of
        {ok, [[Home]]} -> filename:join(Home, ".todana.cookie");
        _ -> ".todana.cookie"
    end;
cookie_file(File) ->
    File.

-doc """
Whether a node may be started with the secret in this file. `auto` is the file
in the home directory; one that does not exist is created by the start.
""".
-spec check_cookie(auto | file:filename()) ->
    ok | {error, Sentence :: iodata()}.
check_cookie(Option) ->
    File = cookie_file(Option),
    maybe
        {ok, Info} ?= file:read_file_info(File),
        {ok, _} ?= read_cookie(File, element(8, Info)),
        ok
    else
        {error, enoent} -> ok;
        {error, Reason} when is_atom(Reason) ->
            {error, problem(File, file:format_error(Reason))};
        {error, Sentence} -> {error, Sentence}
    end.

-spec read_cookie(file:filename(), integer()) ->
    {ok, atom()} | {error, iodata()}.
read_cookie(File, Mode) when Mode band 8#077 =/= 0 ->
    {error, problem(File, "others than its owner may read it: chmod 600")};
read_cookie(File, _Mode) ->
    case file:read_file(File) of
        {ok, Bytes} ->
            case string:trim(Bytes) of
                <<_, _/binary>> = Cookie when byte_size(Cookie) =< 255 ->
                    {ok, binary_to_atom(Cookie)};
                _ ->
                    {error, problem(File, "it has no cookie, or a long one")}
            end;
        {error, Reason} ->
            {error, problem(File, file:format_error(Reason))}
    end.

-spec create_cookie(file:filename()) -> {ok, atom()} | {error, iodata()}.
create_cookie(File) ->
    Cookie = binary:encode_hex(crypto:strong_rand_bytes(?COOKIE_BYTES)),
    Temporary = File ++ "." ++ os:getpid(),
    maybe
        ok ?= filelib:ensure_dir(File),
        %% Nobody else may read it at any moment.
        ok ?= file:write_file(Temporary, <<>>),
        ok ?= file:change_mode(Temporary, 8#600),
        ok ?= file:write_file(Temporary, [Cookie, $\n]),
        %% Of several nodes that start at once, the first one wins.
        ok ?= first(file:make_link(Temporary, File)),
        ok ?= file:delete(Temporary),
        cookie(File)
    else
        {error, Reason} ->
            {error, problem(File, file:format_error(Reason))}
    end.

-spec first(ok | {error, file:posix() | badarg}) ->
    ok | {error, file:posix() | badarg}.
first({error, eexist}) -> ok;
first(Result) -> Result.

-spec problem(file:filename(), iodata()) -> iodata().
problem(File, Text) -> ["cookie_file: ", File, ": ", Text].

%% ------------------------------------------------------------------ epmd ---

%% The daemon that knows the ports of the nodes of this host. It stays when the
%% node ends, for those of others. It listens where the node does, and on
%% loopback addresses anyway; not elsewhere, unless the environment says so.
-spec start_epmd(inet:ip_address()) -> ok | {error, iodata()}.
start_epmd(Address) ->
    case has_epmd(Address) orelse has_epmd({127, 0, 0, 1}) of
        true -> reach_epmd(Address);
        false -> run_epmd(Address)
    end.

-spec has_epmd(inet:ip_address()) -> boolean().
has_epmd(Address) -> element(1, erl_epmd:names(Address)) =:= ok.

%% The one that runs may have been started for another address.
-spec reach_epmd(inet:ip_address()) -> ok | {error, iodata()}.
reach_epmd(Address) ->
    maybe
        false ?= has_epmd(Address),
        {ok, Program} ?= epmd_program(),
        {error, ["node: the epmd of this host does not listen on ",
                 inet:ntoa(Address), ": stop the nodes that use it, end it by "
                 "`", Program, " -kill`, and start this node first"]}
    else
        true -> ok;
        {error, Sentence} -> {error, Sentence}
    end.

%% That of the running Erlang. A release has it, and no path leads there.
-spec epmd_program() -> {ok, file:filename()} | {error, iodata()}.
epmd_program() ->
    Bin = filename:join([
        code:root_dir(), "erts-" ++ erlang:system_info(version), "bin"
    ]),
    case os:find_executable("epmd", Bin) of
        false -> {error, "node: the program epmd is missing"};
        Program -> {ok, Program}
    end.

-spec run_epmd(inet:ip_address()) -> ok | {error, iodata()}.
run_epmd(Address) ->
    maybe
        {ok, Program} ?= epmd_program(),
        Where =
            case os:getenv("ERL_EPMD_ADDRESS") of
                false -> ["-address", inet:ntoa(Address)];
                _ -> []
            end,
        _ = todana_nif:run_program(
            unicode:characters_to_binary(Program),
            [list_to_binary(Argument) || Argument <- ["-daemon" | Where]]
        ),
        await_epmd(Address, now_ms() + ?EPMD_TIMEOUT_MS)
    end.

%% An attempt may take seconds.
-spec await_epmd(inet:ip_address(), integer()) -> ok | {error, iodata()}.
await_epmd(Address, DeadlineMs) ->
    case {has_epmd(Address), now_ms() < DeadlineMs} of
        {true, _} ->
            ok;
        {false, true} ->
            timer:sleep(?EPMD_POLL_MS),
            await_epmd(Address, DeadlineMs);
        {false, false} ->
            {error, ["node: epmd does not answer on ", inet:ntoa(Address),
                     ", port ", epmd_port()]}
    end.

-spec epmd_port() -> string().
epmd_port() -> os:getenv("ERL_EPMD_PORT", "4369").

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
