%% Pids, ports and references in keys: a key stays the same when the node's name
%% changes, and reading it returns the original term.
-module(todana_identifiers_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([
    keys_come_back_as_they_were/1,
    keys_stay_when_distribution_starts/1,
    identifiers_of_other_nodes_stay_different/1,
    identifiers_of_an_earlier_run_stay_different/1,
    resources_are_keys/1,
    local_funs_are_misuse/1
]).
%% Called in the peer node
-export([fill/0, is_filled/0]).

-define(TABLE, identifiers).

all() ->
    [
        keys_come_back_as_they_were,
        keys_stay_when_distribution_starts,
        identifiers_of_other_nodes_stay_different,
        identifiers_of_an_earlier_run_stay_different,
        resources_are_keys,
        local_funs_are_misuse
    ].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(todana),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [application:stop(A) || A <- proplists:get_value(started, Config)].

init_per_testcase(_Case, Config) ->
    {ok, _} = todana:open(?TABLE, #{codec => term}),
    Config.

end_per_testcase(_Case, _Config) ->
    ok = todana:close(?TABLE).

%% ----------------------------------------------------------------- cases ---

keys_come_back_as_they_were(_Config) ->
    Property = ?FORALL({Key, Other}, {key(), key()}, is_one_key(Key, Other)),
    ?assert(proper:quickcheck(Property, [
        {numtests, 1000}, quiet, {max_size, 20}
    ])).

is_one_key(Key, Other) ->
    _ = todana:clear(?TABLE),
    ok = todana:put(?TABLE, Key, first),
    ok = todana:put_many(?TABLE, [{Key, second}]),
    ok = todana:put(?TABLE, Key, third, #{only => present}),
    Keys = todana:fold(fun(K, third, Acc) -> [K | Acc] end, [], ?TABLE),
    IsOther = todana:is_key(?TABLE, Other),
    [Key] =:= Keys andalso
        IsOther =:= (Key =:= Other) andalso
        #{Key => third} =:= todana:get_many(?TABLE, [Key]) andalso
        {ok, third} =:= todana:take(?TABLE, Key) andalso
        ok =:= todana:put_many(?TABLE, #{Key => fourth}, #{atomic => true})
            andalso
        1 =:= todana:delete_many(?TABLE, [Key]).

%% Any term that contains identifiers, or terms that look like encoded ones.
key() ->
    ?SIZED(Size, key(Size)).

key(Size) when Size =< 1 ->
    oneof([identifier(), integer(), atom(), binary(), '$local']);
key(Size) ->
    Smaller = key(Size div 3),
    oneof([
        identifier(),
        any(),
        list(Smaller),
        [Smaller, Smaller | Smaller],
        {Smaller},
        {Smaller, Smaller, Smaller},
        {'$local', Smaller, Smaller},
        {'$local', oneof([pid, port, reference, tuple]), ~"<0.1.0>"},
        ?LET(Pairs, list({Smaller, Smaller}), maps:from_list(Pairs))
    ]).

identifier() ->
    oneof([
        exactly(self()),
        exactly(erlang:system_info(system_logger)),
        exactly(hd(erlang:ports())),
        exactly(make_ref()),
        exactly(alias()),
        exactly(elsewhere(pid)),
        exactly(elsewhere(reference)),
        exactly(earlier(pid)),
        exactly(earlier(port)),
        exactly(earlier(reference)),
        exactly(fun erlang:abs/1)
    ]).

%% An identifier of a node with another name.
elsewhere(Type) -> moved(local(Type), ~"other@somewhere").

%% An identifier from an earlier run of a node with this name.
earlier(Type) -> moved(local(Type), atom_to_binary(node())).

%% Changes node and creation of an identifier of this node. In the external term
%% format the name follows two bytes, or four in a reference.
moved(Local, Other) ->
    Name = atom_to_binary(node()),
    Length = byte_size(Name),
    Bytes = term_to_binary(Local),
    [Before, After] = binary:split(Bytes, <<119, Length, Name/binary>>),
    %% The creation must not be 0, which matches any creation.
    <<Id:(byte_size(After) - 4)/binary, Creation:32>> = id_first(Local, After),
    Moved = id_last(Local, Id, <<(Creation bxor 7):32>>),
    binary_to_term(<<
        Before/binary, 119, (byte_size(Other)), Other/binary, Moved/binary
    >>).

local(pid) -> self();
local(port) -> hd(erlang:ports());
local(reference) -> make_ref().

%% The creation comes first in a reference, and last in the other types.
id_first(Local, <<Creation:4/binary, Id/binary>>) when is_reference(Local) ->
    <<Id/binary, Creation/binary>>;
id_first(_, After) ->
    After.

id_last(Local, Id, Creation) when is_reference(Local) ->
    <<Creation/binary, Id/binary>>;
id_last(_, Id, Creation) ->
    <<Id/binary, Creation/binary>>.

keys_stay_when_distribution_starts(_Config) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, wait_boot => 60_000,
        args => ["-pa" | code:get_path()]
    }),
    Call = fun(Module, Function, Arguments) ->
        peer:call(Peer, Module, Function, Arguments, infinity)
    end,
    {ok, _} = Call(application, ensure_all_started, [todana]),
    ?assertEqual(ok, Call(?MODULE, fill, [])),
    ?assertEqual('nonode@nohost', Call(erlang, node, [])),
    {ok, _} = Call(net_kernel, start, [
        renamed, #{name_domain => shortnames, dist_listen => false}
    ]),
    ?assertNotEqual('nonode@nohost', Call(erlang, node, [])),
    ?assertEqual(ok, Call(?MODULE, is_filled, [])),
    peer:stop(Peer).

fill() ->
    {ok, _} = todana:open(?TABLE, #{codec => term}),
    true = register(?MODULE, spawn(fun() -> receive stop -> ok end end)),
    Reference = make_ref(),
    persistent_term:put(?MODULE, Reference),
    [ok = todana:put(?TABLE, Key, N) || {N, Key} <- lists:enumerate(keys())],
    ok.

is_filled() ->
    Keys = keys(),
    [{ok, N} = todana:get(?TABLE, Key) || {N, Key} <- lists:enumerate(Keys)],
    Kept = todana:fold(fun(K, N, Acc) -> [{N, K} | Acc] end, [], ?TABLE),
    Expected = lists:enumerate(Keys),
    Expected = lists:sort(Kept),
    true = length(Keys) =:= todana:delete_many(?TABLE, Keys),
    ok.

%% Returns equal keys in every call, independently of the node's name.
keys() ->
    Pid = whereis(?MODULE),
    Port = hd(lists:sort(erlang:ports())),
    Reference = persistent_term:get(?MODULE),
    [
        Pid, Port, Reference, {user, Pid}, [Port | Reference],
        #{Pid => {'$local', Reference}}, {deep, [#{a => [{Port, Pid}]}]},
        {'$local', pid, ~"<0.1.0>"}
    ].

identifiers_of_other_nodes_stay_different(_Config) ->
    Local = self(),
    Remote = elsewhere(pid),
    ?assertEqual('other@somewhere', node(Remote)),
    ok = todana:put(?TABLE, Local, local),
    ok = todana:put(?TABLE, Remote, remote),
    ?assertEqual({ok, local}, todana:get(?TABLE, Local)),
    ?assertEqual({ok, remote}, todana:get(?TABLE, Remote)),
    Kept = todana:fold(fun(K, _, Acc) -> [K | Acc] end, [], ?TABLE),
    ?assertEqual(lists:sort([Local, Remote]), lists:sort(Kept)).

identifiers_of_an_earlier_run_stay_different(_Config) ->
    Locals = [local(Type) || Type <- [pid, port, reference]],
    [stays_its(L, moved(L, atom_to_binary(node()))) || L <- Locals].

stays_its(Local, Earlier) ->
    ?assertNotEqual(Local, Earlier),
    %% They are printed identically.
    ?assertEqual(io_lib:format("~p", [Local]), io_lib:format("~p", [Earlier])),
    ok = todana:put(?TABLE, Local, local),
    ok = todana:put(?TABLE, Earlier, earlier),
    ?assertEqual({ok, local}, todana:get(?TABLE, Local)),
    ?assertEqual({ok, earlier}, todana:get(?TABLE, Earlier)),
    Kept = todana:fold(fun(K, _, Acc) -> [K | Acc] end, [], ?TABLE),
    ?assertEqual(lists:sort([Local, Earlier]), lists:sort(Kept)),
    2 = todana:clear(?TABLE).

%% An ETS table and a handle: references that refer to a resource.
resources_are_keys(_Config) ->
    Ets = ets:new(some, []),
    true = ets:insert(Ets, {k, v}),
    Handle = todana:handle(?TABLE),
    ok = todana:put(?TABLE, {Ets, Handle}, v),
    Keys = todana:fold(fun(K, _, Acc) -> [K | Acc] end, [], ?TABLE),
    ?assertEqual([{Ets, Handle}], Keys),
    [{Same, Table}] = Keys,
    ?assertEqual([{k, v}], ets:lookup(Same, k)),
    ?assertEqual({ok, v}, todana:get(Table, {Same, Table})).

local_funs_are_misuse(_Config) ->
    N = rand:uniform(10),
    Key = {memo, [fun() -> N end]},
    Calls = [
        fun() -> todana:get(?TABLE, Key) end,
        fun() -> todana:get(?TABLE, Key, none) end,
        fun() -> todana:get_entry(?TABLE, Key) end,
        fun() -> todana:put(?TABLE, Key, v) end,
        fun() -> todana:put(?TABLE, Key, v, #{flags => 1}) end,
        fun() -> todana:compare_and_swap(?TABLE, Key, 1, v) end,
        fun() -> todana:take(?TABLE, Key) end,
        fun() -> todana:delete(?TABLE, Key) end,
        fun() -> todana:update_counter(?TABLE, Key, 1, #{}) end,
        fun() -> todana:fetch(?TABLE, Key, fun() -> {ok, v} end) end,
        fun() -> todana:get_many(?TABLE, [a, Key]) end,
        fun() -> todana:put_many(?TABLE, [{a, v}, {Key, v}]) end,
        fun() -> todana:put_many(?TABLE, #{Key => v}, #{atomic => true}) end,
        fun() -> todana:delete_many(?TABLE, [a, Key]) end
    ],
    [?assertEqual(#{2 => local_fun}, cause(Call)) || Call <- Calls],
    External = {memo, fun erlang:abs/1},
    ok = todana:put(?TABLE, External, fun() -> N end),
    {ok, Fun} = todana:get(?TABLE, External),
    ?assertEqual(N, Fun()).

cause(Call) ->
    try Call() of
        Result -> {no_misuse, Result}
    catch
        error:badarg:Stack ->
            [{todana, _, _, Info} | _] = Stack,
            maps:get(cause, proplists:get_value(error_info, Info))
    end.
