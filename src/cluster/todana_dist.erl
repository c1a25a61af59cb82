%% The connections between nodes without TLS: those of OTP over TCP, with a
%% limit on the names of strangers. `bin/todana' selects it by `-proto_dist
%% todana'. With TLS it is not needed: a stranger has no certificate, and does
%% not get as far as a name.
%%
%% A node that connects says its name, and OTP makes an atom of it before it
%% asks for the cookie. Atoms are never freed, and the emulator ends when their
%% table is full. So a name passes if it is an atom already, as those of members
%% are. Of other names only some pass in a time, and none once half of the table
%% is used.
%%
%% `inet_tcp_dist' takes the module that receives as an argument. This module is
%% one, which looks at each message of an accepted connection.
-module(todana_dist).
-moduledoc false.

%% For `net_kernel'
-export([listen/2, accept/1, accept_connection/5, setup/5, close/1, select/1,
         address/0, setopts/2, getopts/2]).
%% For `inet_tcp_dist', instead of `inet_tcp'
-export([family/0, mask/2, send/2, send/3, recv/3]).
%% The decisions, for tests
-export([new/1, name/1, passes/3]).

-export_type([bucket/0]).

%% New names that pass at once, and how long it takes until one more passes.
-define(NAMES, 100).
-define(NAME_MS, 1_000).
-define(LOG_EVERY_MS, 60_000).
%% What the other node says of itself: that this one is to name it.
-define(IS_NAMELESS, (1 bsl 33)).
%% The fields of a bucket: up to which time the names that passed have used it;
%% how many were refused, and until when that is not logged again.
-define(USED_MS, 1).
-define(REFUSED, 2).
-define(QUIET_MS, 3).

-type bucket() :: atomics:atomics_ref().

-spec listen(atom(), string()) -> {ok, term()} | {error, term()}.
listen(Name, Host) ->
    ok = persistent_term:put(?MODULE, new(erlang:monotonic_time(millisecond))),
    inet_tcp_dist:listen(Name, Host).

-spec accept(term()) -> pid().
accept(Listen) -> inet_tcp_dist:accept(Listen).

-spec accept_connection(pid(), term(), node(), [node()], timeout()) -> pid().
accept_connection(Acceptor, Socket, MyNode, Allowed, SetupMs) ->
    inet_tcp_dist:gen_accept_connection(
        ?MODULE, Acceptor, Socket, MyNode, Allowed, SetupMs
    ).

-spec setup(node(), term(), node(), longnames | shortnames, timeout()) -> pid().
setup(Node, Type, MyNode, Names, SetupMs) ->
    inet_tcp_dist:setup(Node, Type, MyNode, Names, SetupMs).

-spec close(term()) -> ok.
close(Socket) -> inet_tcp_dist:close(Socket).

-spec select(node()) -> boolean().
select(Node) -> inet_tcp_dist:select(Node).

-spec address() -> term().
address() -> inet_tcp_dist:address().

-spec setopts(term(), [term()]) -> ok | {error, term()}.
setopts(Socket, Options) -> inet_tcp_dist:setopts(Socket, Options).

-spec getopts(term(), [term()]) -> {ok, [term()]} | {error, term()}.
getopts(Socket, Options) -> inet_tcp_dist:getopts(Socket, Options).

%% ------------------------------------------------- accepted connections ---

-spec family() -> inet.
family() -> inet.

-spec mask(inet:ip4_address(), inet:ip4_address()) -> inet:ip4_address().
mask(Mask, Address) -> inet_tcp:mask(Mask, Address).

-spec send(term(), iodata()) -> ok | {error, term()}.
send(Socket, Data) -> inet_tcp:send(Socket, Data).

-spec send(term(), iodata(), [term()]) -> ok | {error, term()}.
send(Socket, Data, Options) -> inet_tcp:send(Socket, Data, Options).

-spec recv(term(), non_neg_integer(), timeout()) ->
    {ok, string()} | {error, term()}.
recv(Socket, Length, TimeoutMs) ->
    case inet_tcp:recv(Socket, Length, TimeoutMs) of
        {ok, Message} ->
            NowMs = erlang:monotonic_time(millisecond),
            Bucket = persistent_term:get(?MODULE),
            case passes(name(Message), NowMs, Bucket) of
                true ->
                    {ok, Message};
                false ->
                    ok = refused(NowMs, Bucket),
                    {error, closed}
            end;
        Error ->
            Error
    end.

%% --------------------------------------------------------------- decisions ---

-doc "A bucket from which no name has passed yet.".
-spec new(integer()) -> bucket().
new(NowMs) ->
    Bucket = atomics:new(3, [{signed, true}]),
    ok = atomics:put(Bucket, ?USED_MS, NowMs - ?NAMES * ?NAME_MS),
    ok = atomics:put(Bucket, ?QUIET_MS, NowMs),
    Bucket.

-doc """
The name in a message of the handshake: `none` if it has none, `new` if this
node is to invent it.
""".
-spec name(string()) -> string() | none | new.
name([$n, _, _, _, _, _, _ | Name]) ->
    Name;
name([$N | Message]) ->
    case list_to_binary(Message) of
        <<Flags:64, _:32, _:16, _/binary>> when
            Flags band ?IS_NAMELESS =/= 0
        ->
            new;
        <<_:64, _:32, Length:16, Name:Length/binary, _/binary>> ->
            binary_to_list(Name);
        _ ->
            none
    end;
name(_Message) ->
    none.

-doc "Whether a name may become an atom.".
-spec passes(string() | none | new, integer(), bucket()) -> boolean().
passes(none, _NowMs, _Bucket) ->
    true;
passes(Name, NowMs, Bucket) ->
    is_atom_already(Name) orelse (has_room() andalso take(NowMs, Bucket)).

-spec is_atom_already(string() | new) -> boolean().
is_atom_already(new) ->
    false;
is_atom_already(Name) ->
    try is_atom(list_to_existing_atom(Name))
    catch error:_ -> false
    end.

-spec has_room() -> boolean().
has_room() ->
    2 * erlang:system_info(atom_count) < erlang:system_info(atom_limit).

-spec take(integer(), bucket()) -> boolean().
take(NowMs, Bucket) ->
    Before = atomics:get(Bucket, ?USED_MS),
    case max(Before, NowMs - ?NAMES * ?NAME_MS) + ?NAME_MS of
        UsedMs when UsedMs > NowMs ->
            false;
        UsedMs ->
            case atomics:compare_exchange(Bucket, ?USED_MS, Before, UsedMs) of
                ok -> true;
                _ -> take(NowMs, Bucket)
            end
    end.

%% A program that tries it goes on, so it is not logged each time.
-spec refused(integer(), bucket()) -> ok.
refused(NowMs, Bucket) ->
    ok = atomics:add(Bucket, ?REFUSED, 1),
    QuietMs = atomics:get(Bucket, ?QUIET_MS),
    NextMs = NowMs + ?LOG_EVERY_MS,
    IsQuiet = NowMs < QuietMs orelse
        atomics:compare_exchange(Bucket, ?QUIET_MS, QuietMs, NextMs) =/= ok,
    case IsQuiet of
        true ->
            ok;
        false ->
            logger:warning(
                "todana: ~b connections of nodes with new names were refused: "
                "too many in a short time, as if a program tried to fill the "
                "table of atoms; a node with a new name cannot join meanwhile",
                [atomics:exchange(Bucket, ?REFUSED, 0)]
            )
    end.
