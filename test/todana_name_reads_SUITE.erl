%% Names and groups as clients see them that are no Erlang processes: by RESP
%% and HTTP, at members and guests.
-module(todana_name_reads_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_name_has_a_page/1,
    names_come_in_pages/1,
    groups_come_in_pages/1,
    long_names_end_a_page_early/1,
    every_name_is_passed/1,
    pages_begin_at_their_cursors/1,
    terms_without_text_have_bytes/1,
    local_scopes_are_read_at_their_node/1,
    bad_requests_are_refused/1,
    every_node_reads_every_scope/1,
    a_page_of_a_guest_is_one_question/1,
    a_node_that_is_cut_off_says_so/1,
    a_node_that_loads_its_records_says_so/1,
    a_client_that_sends_no_more_gets_its_answer/1,
    a_question_that_hangs_stops_no_client/1,
    a_node_in_memory_has_local_scopes/1
]).
%% Called in the peer nodes
-export([register/2, join/3, without_answers/0, with_answers/0, atoms/0]).
-export([count_calls/1, counted/1, close_gate/0, open_gate/0, refreshed/0]).

-import(todana_sockets, [connect/2]).
-import(todana_peers, [guest/3, node/3, kill/1, rpc/4, await/1]).

-define(LISTEN, [{listen_resp, '127.0.0.1:0'}, {listen_http, '127.0.0.1:0'}]).

all() ->
    [
        a_name_has_a_page,
        names_come_in_pages,
        groups_come_in_pages,
        long_names_end_a_page_early,
        every_name_is_passed,
        pages_begin_at_their_cursors,
        terms_without_text_have_bytes,
        local_scopes_are_read_at_their_node,
        bad_requests_are_refused,
        every_node_reads_every_scope,
        a_page_of_a_guest_is_one_question,
        a_node_that_is_cut_off_says_so,
        a_node_that_loads_its_records_says_so,
        a_client_that_sends_no_more_gets_its_answer,
        a_question_that_hangs_stops_no_client,
        a_node_in_memory_has_local_scopes
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

a_name_has_a_page(Config) ->
    A = alone(Config),
    {Pid, {yes, Token}} =
        call(A, register, ["{user,7}", #{metadata => #{a => "b"}}]),
    {_, {yes, _}} = call(A, register, ["1.0", #{}]),
    Node = atom_to_binary(A),
    Text = pid_text(A, Pid),
    ?assertEqual({200, #{
        ~"name" => ~"{user,7}", ~"node" => Node, ~"pid" => Text,
        ~"token" => integer_to_binary(Token),
        ~"metadata" => ~"#{a => \"b\"}"
    }}, get(A, ["/names/services?name=", quoted("{user,7}")])),
    ?assertEqual([
        ~"node", Node, ~"pid", Text, ~"token", Token, ~"metadata",
        ~"#{a => \"b\"}"
    ], ask(A, ["TODANA.WHEREIS", "services", " { user, 7 }"])),
    ?assertMatch([_, Node, _, _, _, _, ~"metadata", ~"undefined"],
                 ask(A, ["TODANA.WHEREIS", "services", "1.0"])),
    %% 1 is another name.
    ?assertEqual({404, ~"no process has this name\n"},
                 get(A, "/names/services?name=1")),
    ?assertEqual(null, ask(A, ["TODANA.WHEREIS", "services", "1"])),
    ?assertEqual(null, ask(A, ["TODANA.WHEREIS", "services", "no_such_atom"])),
    ?assertEqual({200, #{~"scopes" => [
        #{~"scope" => ~"services", ~"class" => ~"cluster"}
    ]}}, get(A, "/names")),
    ?assertEqual(get(A, "/names"), get(A, "/groups")),
    ?assertEqual([~"services", ~"cluster"], ask(A, ["TODANA.SCOPES"])),
    %% An owner that has ended is none, before its record is removed.
    rpc(A, erlang, exit, [Pid, kill]),
    ?assertEqual(null, ask(A, ["TODANA.WHEREIS", "services", "{user,7}"])),
    ?assertMatch({404, _},
                 get(A, ["/names/services?name=", quoted("{user,7}")])).

names_come_in_pages(Config) ->
    A = alone(Config),
    Names = [lists:concat(["{user,", N, "}"]) || N <- lists:seq(1, 250)],
    [{_, {yes, _}} = call(A, register, [Name, #{}]) || Name <- Names],
    Wanted = lists:sort([list_to_binary(Name) || Name <- Names]),
    Http = fun(Query) ->
        {200, #{~"names" := Items, ~"cursor" := Cursor}} =
            get(A, ["/names/services", Query]),
        {[maps:get(~"name", Item) || Item <- Items], Cursor}
    end,
    {First, Next} = Http(""),
    ?assertEqual(100, length(First)),
    ?assert(is_binary(Next)),
    [
        ?assertEqual(Wanted, lists:sort(http_pages(Http, Limit)))
     || Limit <- [7, 50, 100, 249, 250, 251, 1000]
    ],
    [
        begin
            All = resp_pages(A, ["TODANA.NAMES", "services"], Count),
            ?assertEqual(Wanted, lists:sort([hd(Item) || Item <- All])),
            Node = atom_to_binary(A),
            [[_, Node, <<"<0.", _/binary>>, Token] = Item
             || Item <- All, Token <- [lists:last(Item)], is_integer(Token)]
        end
     || Count <- [1, 99, 1000]
    ].

groups_come_in_pages(Config) ->
    A = alone(Config),
    Groups = [lists:concat(["{room,", N, "}"]) || N <- lists:seq(1, 30)],
    [_ = call(A, join, [Group, 2, 1]) || Group <- Groups],
    Pids = call(A, join, ["all", 2_000, 3]),
    Wanted = lists:sort([~"all" | [list_to_binary(G) || G <- Groups]]),
    Http = fun(Query) ->
        {200, #{~"groups" := Items, ~"cursor" := Cursor}} =
            get(A, ["/groups/services", Query]),
        {[maps:get(~"group", Item) || Item <- Items], Cursor}
    end,
    [?assertEqual(Wanted, lists:sort(http_pages(Http, L))) || L <- [7, 31, 99]],
    All = resp_pages(A, ["TODANA.GROUPS", "services"], 7),
    ?assertEqual(Wanted, lists:sort(All)),
    Node = atom_to_binary(A),
    Members = lists:sort([{Node, pid_text(A, Pid)} || Pid <- Pids]),
    Of = fun(Query) ->
        {200, #{~"members" := Items, ~"cursor" := Cursor}} =
            get(A, ["/groups/services?group=all", sub(Query)]),
        {[{N, P} || #{~"node" := N, ~"pid" := P} <- Items], Cursor}
    end,
    ?assertEqual(Members, lists:sort(http_pages(Of, 1000))),
    ByResp = resp_pages(A, ["TODANA.MEMBERS", "services", "all"], 999),
    ?assertEqual(Members, lists:sort([{N, P} || [N, P] <- ByResp])),
    ?assertEqual({200, #{
        ~"scope" => ~"services", ~"members" => [], ~"cursor" => null
    }}, get(A, "/groups/services?group=nobody_has_joined")),
    ?assertEqual([~"0", []], ask(A, ["TODANA.MEMBERS", "services", "none"])).

long_names_end_a_page_early(Config) ->
    A = alone(Config),
    Names = [
        lists:concat(["<<", N, ",0:8,\"", lists:duplicate(30_000, $a), "\">>"])
     || N <- lists:seq(1, 60)
    ],
    [{_, {yes, _}} = call(A, register, [Name, #{}]) || Name <- Names],
    [Cursor, Some] = ask(A, ["TODANA.NAMES", "services", "COUNT", "1000"]),
    ?assertNotEqual(~"0", Cursor),
    ?assert(length(Some) > 20 andalso length(Some) < 60),
    All = resp_pages(A, ["TODANA.NAMES", "services"], 1000),
    ?assertEqual(60, length(All)),
    %% What a page has is the name of a process.
    [[Last | _] | _] = All,
    ?assertMatch([_ | _], ask(A, ["TODANA.WHEREIS", "services", Last])).

%% Also the longest ones, by pages of one.
every_name_is_passed(Config) ->
    A = alone(Config),
    Of = fun(Longest) ->
        [lists:concat(["<<", N, ":", 8 * Bytes, ">>"])
         || N <- [1, 2, 3], Bytes <- [1, 9_000, Longest]]
    end,
    Names = Of(65_520),
    Cluster = [{N, call(A, register, [N, #{}])} || N <- Names],
    [] = [N || {N, {_, Registered}} <- Cluster, no =:= Registered],
    %% No longer one can be registered.
    ?assertMatch({_, {error, too_large}},
                 call(A, register, ["<<1:524168>>", #{}])),
    [_ = call(A, join, [Group, 1, 1]) || Group <- Of(65_400)],
    ok = names(A, start_scope, [here, local]),
    Keeper = whereis_at(A, todana_sup),
    Long = [<<N, 0:(8 * Bytes)>> || N <- [1, 2, 3], Bytes <- [9, 400_000]],
    [yes = names(A, register_name, [{here, Name}, Keeper]) || Name <- Long],
    [
        begin
            ByResp = resp_pages(A, Words, 1),
            ?assertEqual(Count, length(lists:usort(ByResp))),
            ?assertEqual(Count, length(ByResp)),
            Http = fun(Query) ->
                {200, #{Key := Items, ~"cursor" := Cursor}} =
                    get(A, [Path, Query]),
                {Items, Cursor}
            end,
            ByHttp = http_pages(Http, 1),
            ?assertEqual(Count, length(lists:usort(ByHttp))),
            ?assertEqual(Count, length(ByHttp))
        end
     || {Words, Path, Key, Count} <- [
            {["TODANA.NAMES", "services"], "/names/services", ~"names",
                length(Names)},
            {["TODANA.GROUPS", "services"], "/groups/services", ~"groups",
                length(Names)},
            {["TODANA.NAMES", "here"], "/names/here", ~"names", length(Long)}
        ]
    ].

%% A walk of a local scope looks at each name a few times, however many pages
%% there are, and passes the names of other scopes.
pages_begin_at_their_cursors(Config) ->
    A = alone(Config),
    Keeper = whereis_at(A, todana_sup),
    [ok = names(A, start_scope, [Scope, local]) || Scope <- [here, there]],
    [
        yes = names(A, register_name, [{Scope, N}, Keeper])
     || {Scope, Count} <- [{there, 2_000}, {here, 500}, {there, 2_500}],
        N <- lists:seq(Count - 499, Count)
    ],
    Watchers = rpc(A, todana_name_watcher, watchers, []),
    ok = rpc(A, lists, foreach, [fun sys:get_state/1, Watchers]),
    Looks = [{todana_name_scopes, owner, 2}, {todana_name_scopes, fold, 3}],
    ok = call(A, count_calls, [Looks]),
    All = resp_pages(A, ["TODANA.NAMES", "here"], 5),
    ?assertEqual(500, length(lists:usort(All))),
    ?assertEqual(500, length(All)),
    [Owner, Fold] = call(A, counted, [Looks]),
    ?assert(Owner < 1_000, Owner),
    ?assertEqual(0, Fold),
    %% A name that is removed is on no page any more, and the walk goes on.
    {200, #{~"names" := [#{~"name" := First}], ~"cursor" := Cursor}} =
        get(A, "/names/here?limit=1"),
    ok = names(A, unregister_name, [{here, binary_to_integer(First)}]),
    {200, #{~"names" := Rest, ~"cursor" := null}} =
        get(A, ["/names/here?limit=1000&cursor=", Cursor]),
    ?assertEqual(499, length(Rest)),
    ?assertMatch({400, _}, get(A, "/names/here?cursor=AAAA")),
    [
        ?assertMatch({400, _}, get(A, ["/names/here?cursor=", base64:encode(
            term_to_binary(Term), #{mode => urlsafe, padding => false}
        )]))
     || Term <- [
            {0, 0, 0}, {9, 0, 0}, {1, a, 0}, {1, 0, a}, {1, 0}, [],
            {1, 0, binary:copy(~"a", 2_000)}
        ]
    ],
    %% Nobody has the lists of names at this moment.
    [ok = rpc(A, sys, suspend, [Watcher]) || Watcher <- Watchers],
    ?assertMatch({503, <<"this node cannot read", _/binary>>},
                 get(A, "/names/here")).

terms_without_text_have_bytes(Config) ->
    A = alone(Config),
    {Pid, {yes, _}} = call(A, register, [self_in, #{metadata => self()}]),
    [~"0", [[Bytes | _]]] = ask(A, ["TODANA.NAMES", "services"]),
    ?assertEqual({self_in, Pid}, binary_to_term(Bytes)),
    [_, _, _, _, _, _, _, Metadata] =
        ask(A, ["TODANA.WHEREIS", "services", Bytes]),
    ?assertEqual(self(), binary_to_term(Metadata)),
    {200, #{~"names" := [#{~"name" := Shown, ~"name_etf" := Etf}]}} =
        get(A, "/names/services"),
    ?assertMatch(<<"{self_in,<", _/binary>>, Shown),
    {200, #{~"name_etf" := Etf, ~"metadata_etf" := Of}} =
        get(A, ["/names/services?name_etf=", Etf]),
    ?assertEqual(self(), binary_to_term(decoded(Of))),
    ?assertEqual(Bytes, decoded(Etf)).

local_scopes_are_read_at_their_node(Config) ->
    A = alone(Config),
    ok = names(A, start_scope, [here, local]),
    Keeper = whereis_at(A, todana_sup),
    Names = [{n, N} || N <- lists:seq(1, 40)],
    [yes = names(A, register_name, [{here, Name}, Keeper, m]) || Name <- Names],
    Node = atom_to_binary(A),
    Text = pid_text(A, Keeper),
    ?assertEqual({200, #{
        ~"name" => ~"{n,7}", ~"node" => Node, ~"pid" => Text,
        ~"metadata" => ~"m"
    }}, get(A, ["/names/here?name=", quoted("{n,7}")])),
    ?assertEqual([~"node", Node, ~"pid", Text, ~"metadata", ~"m"],
                 ask(A, ["TODANA.WHEREIS", "here", "{n,7}"])),
    ?assertEqual(null, ask(A, ["TODANA.WHEREIS", "here", "no_such_atom_x"])),
    Wanted = lists:sort([
        unicode:characters_to_binary(io_lib:format("~0p", [Name]))
     || Name <- Names
    ]),
    [
        begin
            All = resp_pages(A, ["TODANA.NAMES", "here"], Count),
            ?assertEqual(Wanted, lists:sort([N || [N, _, _] <- All]))
        end
     || Count <- [1, 7, 39, 40, 41]
    ],
    ?assertEqual([~"here", ~"local", ~"services", ~"cluster"],
                 ask(A, ["TODANA.SCOPES"])),
    {200, #{~"scopes" := [#{~"scope" := ~"services"}]}} = get(A, "/groups"),
    ?assertEqual({404, ~"a local scope has no groups\n"},
                 get(A, "/groups/here")),
    ?assertEqual({error, ~"ERR a local scope has no groups"},
                 ask(A, ["TODANA.GROUPS", "here"])),
    ok = names(A, stop_scope, [here]),
    ?assertMatch({404, _}, get(A, "/names/here")).

bad_requests_are_refused(Config) ->
    A = alone(Config),
    [
        begin
            {Is, Sentence} = get(A, Path),
            ?assertEqual({Path, Status}, {Path, Is}),
            ?assert(is_binary(Sentence) andalso byte_size(Sentence) > 5)
        end
     || {Status, Path} <- [
            {400, "/names?x=1"}, {400, "/names/services?x=1"},
            {400, "/names/services?name"}, {400, "/names/services?name=%7B"},
            {400, "/names/services?name=%FF"}, {400, "/names/services?name="},
            {400, "/names/services?name=a&name=b"},
            {400, "/names/services?group=a"}, {400, "/groups/services?name=a"},
            {400, "/names/services?limit=0"}, {400, "/names/services?limit=x"},
            {400, "/names/services?limit=1001"},
            {400, "/names/services?cursor=a%21b"},
            {400, "/names/services?name_etf=YQ"},
            {400, "/names/services?name_etf=$"},
            {400, "/names/services?name=%zz"},
            {404, "/names/none"}, {404, "/names/"}, {404, "/names/%zz"},
            {404, "/names/services/x"}, {404, "/groups/none?group=a"}
        ]
    ],
    {200, _} = get(A, "/names/services?cursor=AAAA"),
    Long = #{cursor => binary:copy(~"A", 100_000), count => 10},
    ?assertEqual(
        {ok, [], done}, rpc(A, todana_scope_reads, groups, [~"services", Long])
    ),
    [
        ?assertMatch({error, <<"ERR ", _/binary>>}, ask(A, Words))
     || Words <- [
            ["TODANA.NAMES", "none"], ["TODANA.NAMES", [255]],
            ["TODANA.WHEREIS", "services", "{"],
            ["TODANA.WHEREIS", "services", [255]],
            ["TODANA.WHEREIS", "services", lists:duplicate(1_000_000, ${)],
            ["TODANA.NAMES", "services", "CURSOR", "="],
            ["TODANA.NAMES", "services", "CURSOR",
             lists:duplicate(200_000, $a)],
            ["TODANA.MEMBERS", "services", "A"]
        ]
    ],
    %% Longer than any name.
    ?assertEqual(null, ask(A, ["TODANA.WHEREIS", "services",
                               ["\"", lists:duplicate(200_000, $a), "\""]])),
    ?assertEqual([~"0", []], ask(A, ["TODANA.MEMBERS", "services",
                               ["\"", lists:duplicate(200_000, $a), "\""]])),
    ?assertEqual([~"0", []], ask(A, ["TODANA.NAMES", "services", "CURSOR",
                                     lists:duplicate(100_000, $a)])),
    %% No client makes atoms.
    Ask = fun(N) ->
        Text = integer_to_list(N),
        null = ask(A, ["TODANA.WHEREIS", "services", ["no_such_name_", Text]]),
        {error, _} = ask(A, ["TODANA.NAMES", ["no_scope_", Text]]),
        {404, _} = get(A, ["/names/services?name=no_such_name_", Text])
    end,
    _ = Ask(0),
    Before = call(A, atoms, []),
    [_ = Ask(N) || N <- lists:seq(1, 20)],
    ?assertEqual(Before, call(A, atoms, [])),
    %% And nobody writes names here.
    [
        ?assertMatch({405, _}, request(A, Method, "/names/services"))
     || Method <- ["DELETE", "PATCH"]
    ].

%% Also where the scope was not started, and where the atoms of a name are not
%% known.
every_node_reads_every_scope(Config) ->
    [A, B, C] = Members = cluster(Config),
    Z = guest(z, A, ?LISTEN),
    ok = names(A, start_scope, [services, cluster]),
    {Pid, {yes, Token}} = call(A, register, ["#{seen_at_a=>{x,'At A'}}", #{}]),
    Text = pid_text(A, Pid),
    Node = atom_to_binary(A),
    [
        begin
            await(fun() ->
                Path = quoted("#{seen_at_a=>{x,'At A'}}"),
                {200, #{
                    ~"node" => Node, ~"pid" => Text,
                    ~"token" => integer_to_binary(Token),
                    ~"metadata" => ~"undefined",
                    ~"name" => ~"#{seen_at_a => {x,'At A'}}"
                }} =:= get(N, ["/names/services?name=", Path])
            end),
            ?assertMatch([_, Node, _, Text, _, Token | _], ask(N, [
                "TODANA.WHEREIS", "services", "#{seen_at_a=>{x,'At A'}}"
            ])),
            ?assertMatch([~"0", [[_, Node, Text, Token]]],
                         ask(N, ["TODANA.NAMES", "services"])),
            ?assertEqual([~"services", ~"cluster"], ask(N, ["TODANA.SCOPES"])),
            ?assertMatch({error, <<"ERR ", _/binary>>},
                         ask(N, ["TODANA.NAMES", "none"])),
            ?assertMatch({404, _}, get(N, "/names/none"))
        end
     || N <- [B, C, Z]
    ],
    ok = names(Z, start_scope, [services, cluster]),
    Of = call(A, join, ["{room,9}", 300, 1]) ++
        call(Z, join, ["{room,9}", 300, 1]),
    Wanted = lists:sort([atom_to_binary(node(P)) || P <- Of]),
    [
        await(fun() ->
            Seen = resp_pages(
                N, ["TODANA.MEMBERS", "services", "{room,9}"], 100
            ),
            Wanted =:= lists:sort([At || [At, _] <- Seen])
        end)
     || N <- [Z | Members]
    ].

a_page_of_a_guest_is_one_question(Config) ->
    [A | _] = Members = cluster(Config),
    Z = guest(z, A, ?LISTEN),
    ok = names(A, start_scope, [services, cluster]),
    [{_, {yes, _}} = call(A, register, [integer_to_list(N), #{}])
     || N <- lists:seq(1, 50)],
    _ = call(A, join, ["all", 50, 1]),
    Requests = [
        ["TODANA.SCOPES"], ["TODANA.NAMES", "services"],
        ["TODANA.GROUPS", "services"], ["TODANA.MEMBERS", "services", "all"],
        ["TODANA.WHEREIS", "services", "7"], ["TODANA.NAMES", "none"]
    ],
    await(fun() ->
        [_, Names] = ask(Z, ["TODANA.NAMES", "services"]),
        length(Names) =:= 50
    end),
    AtSeat = [{todana_scope_pages, here, 1}],
    AtGuest = [
        {todana_scope_pages, here, 1}, {todana_scope_records, read, 2},
        {todana_ranges, native, 6}
    ],
    [
        begin
            [ok = call(N, count_calls, [AtSeat]) || N <- Members],
            ok = call(Z, count_calls, [AtGuest]),
            _ = ask(Z, Words),
            Questions = [call(N, counted, [AtSeat]) || N <- Members],
            Sum = lists:sum(lists:append(Questions)),
            ?assertEqual({Words, 1}, {Words, Sum}),
            ?assertEqual([0, 0, 0], call(Z, counted, [AtGuest]))
        end
     || Words <- Requests
    ].

%% It never says that there is no such name.
a_node_that_is_cut_off_says_so(Config) ->
    [A, B, C] = cluster(Config),
    [ok = names(N, start_scope, [services, cluster]) || N <- [A, B]],
    {_, {yes, _}} = call(A, register, ["here", #{}]),
    Z = guest(z, A, ?LISTEN),
    [await(fun() -> is_list(ask(N, ["TODANA.WHEREIS", "services", "here"])) end)
     || N <- [A, Z]],
    [ok = kill(N) || N <- [B, C]],
    await(fun() -> is_down(ask(A, ["TODANA.SCOPES"])) end),
    [
        begin
            ?assert(is_down(ask(N, Words)), Words),
            %% Others are served meanwhile.
            Waits = connect(N, resp),
            ok = gen_tcp:send(Waits, request(Words)),
            ?assertEqual(~"PONG", ask(N, ["PING"])),
            ?assert(is_down(reply(Waits))),
            ok = gen_tcp:close(Waits)
        end
     || {N, Words} <- [{Z, ["TODANA.WHEREIS", "services", "here"]}] ++ [
            {A, Words}
         || Words <- [
                ["TODANA.SCOPES"], ["TODANA.WHEREIS", "services", "here"],
                ["TODANA.WHEREIS", "services", "there"],
                ["TODANA.WHEREIS", "none", "here"],
                ["TODANA.NAMES", "services"], ["TODANA.GROUPS", "services"],
                ["TODANA.MEMBERS", "services", "x"]
            ]
        ]
    ],
    [
        ?assertMatch({503, <<"no leader confirms", _/binary>>}, get(A, Path))
     || Path <- [
            "/names", "/groups", "/names/services", "/names/none",
            "/names/services?name=here", "/names/services?name=there",
            "/groups/services", "/groups/services?group=x"
        ]
    ].

%% While a snapshot is being loaded, and if that begins while a read waits for
%% the leader.
a_node_that_loads_its_records_says_so(Config) ->
    [A, B, C] = cluster(Config),
    ok = names(A, start_scope, [services, cluster]),
    {_, {yes, _}} = call(A, register, ["here", #{}]),
    ?assertMatch([_ | _], ask(A, ["TODANA.WHEREIS", "services", "here"])),
    ok = call(A, close_gate, []),
    Requests = [
        ["TODANA.SCOPES"], ["TODANA.WHEREIS", "services", "here"],
        ["TODANA.WHEREIS", "none", "here"], ["TODANA.NAMES", "services"],
        ["TODANA.GROUPS", "services"], ["TODANA.MEMBERS", "services", "x"]
    ],
    Loading = ~"this node cannot read its records now: try again",
    Error = {error, <<"LOADING ", Loading/binary>>},
    [?assertEqual({Words, Error}, {Words, ask(A, Words)}) || Words <- Requests],
    [
        ?assertEqual({503, <<Loading/binary, "\n">>}, get(A, Path))
     || Path <- ["/names", "/names/none", "/names/services?name=here"]
    ],
    ok = call(A, open_gate, []),
    [ok = kill(N) || N <- [B, C]],
    await(fun() -> is_down(ask(A, ["TODANA.SCOPES"])) end),
    [
        begin
            Waits = connect(A, resp),
            ok = gen_tcp:send(Waits, request(Words)),
            timer:sleep(200),
            ok = call(A, close_gate, []),
            Reply = reply(Waits),
            %% If this was slow, nobody waited any more.
            ?assert(Reply =:= Error orelse is_down(Reply), {Words, Reply}),
            ok = gen_tcp:close(Waits),
            ok = call(A, open_gate, [])
        end
     || Words <- Requests
    ],
    %% So does a read of Erlang.
    {Reader, Monitor} = spawn_monitor(fun() ->
        exit({read, call(A, refreshed, [])})
    end),
    timer:sleep(200),
    ok = call(A, close_gate, []),
    receive
        {'DOWN', Monitor, process, Reader, Reason} ->
            ?assertEqual({read, recovering}, Reason)
    end.

%% As `printf ... | nc' does.
a_client_that_sends_no_more_gets_its_answer(Config) ->
    A = alone(Config),
    {_, {yes, _}} = call(A, register, ["here", #{}]),
    ok = rpc(A, sys, suspend, [todana_questions]),
    Socket = connect(A, resp),
    Words = ["TODANA.WHEREIS", "services", "here"],
    ok = gen_tcp:send(Socket, [request(Words), request(["TODANA.SCOPES"])]),
    ok = gen_tcp:shutdown(Socket, write),
    [?assertEqual(~"PONG", ask(A, ["PING"])) || _ <- lists:seq(1, 20)],
    ok = rpc(A, sys, resume, [todana_questions]),
    ?assertMatch([~"node" | _], reply(Socket)),
    ?assertEqual([~"services", ~"cluster"], reply(Socket)),
    ?assertEqual({error, closed}, gen_tcp:recv(Socket, 0, 60_000)).

a_question_that_hangs_stops_no_client(Config) ->
    A = alone(Config),
    {_, {yes, _}} = call(A, register, ["here", #{}]),
    ok = call(A, without_answers, []),
    Waiting = [connect(A, resp) || _ <- lists:seq(1, 100)],
    Words = ["TODANA.WHEREIS", "services", "here"],
    [ok = gen_tcp:send(S, request(Words)) || S <- Waiting],
    [Gone | Rest] = Waiting,
    ok = gen_tcp:close(Gone),
    [?assertEqual(~"PONG", ask(A, ["PING"])) || _ <- lists:seq(1, 10)],
    [?assert(is_down(reply(S))) || S <- Rest],
    %% Those that were not answered count no longer after a restart.
    ok = call(A, with_answers, []),
    [
        begin
            ok = gen_tcp:send(S, request(Words)),
            ?assertMatch([_ | _], reply(S))
        end
     || S <- Rest
    ],
    rpc(A, erlang, exit, [whereis_at(A, todana_questions), kill]),
    await(fun() ->
        is_list(ask(A, ["TODANA.WHEREIS", "services", "here"]))
    end).

a_node_in_memory_has_local_scopes(_Config) ->
    {Peer, A} = todana_peers:peer(a),
    ok = peer:call(Peer, todana_peers, start, ["off", ?LISTEN]),
    ?assertEqual([], ask(A, ["TODANA.SCOPES"])),
    ?assertMatch({404, _}, get(A, "/names/services")),
    ok = names(A, start_scope, [here, local]),
    yes = names(A, register_name, [{here, x}, whereis_at(A, todana_sup)]),
    ?assertEqual([~"here", ~"local"], ask(A, ["TODANA.SCOPES"])),
    ?assertMatch([_, _, _, _, ~"metadata", ~"undefined"],
                 ask(A, ["TODANA.WHEREIS", "here", "x"])),
    ?assertMatch({200, #{~"names" := [_]}}, get(A, "/names/here")).

%% ---------------------------------------------------------------- helpers ---

alone(Config) ->
    A = node(a, ?LISTEN, Config),
    await(fun() -> todana_peers:is_open(A) end),
    ok = names(A, start_scope, [services, cluster]),
    A.

cluster(Config) ->
    A = node(a, [{cluster_create, yes} | ?LISTEN], Config),
    Nodes = [A | [node(N, [{cluster_join, A} | ?LISTEN], Config)
                  || N <- [b, c]]],
    await(fun() -> length(todana_peers:voters(A)) =:= 3 end),
    [await(fun() -> todana_peers:is_open(N) end) || N <- Nodes],
    Nodes.

call(Node, Function, Arguments) -> rpc(Node, ?MODULE, Function, Arguments).

names(Node, Function, Arguments) ->
    rpc(Node, todana_names, Function, Arguments).

whereis_at(Node, Name) -> rpc(Node, erlang, whereis, [Name]).

pid_text(Node, Pid) -> list_to_binary(rpc(Node, erlang, pid_to_list, [Pid])).

is_down({error, <<"CLUSTERDOWN ", _/binary>>}) -> true;
is_down(_Reply) -> false.

quoted(Text) -> uri_string:quote(Text).

decoded(Text) -> base64:decode(Text, #{mode => urlsafe, padding => false}).

%% All items of pages of this length.
http_pages(Get, Limit) -> http_pages(Get, Limit, "").

http_pages(Get, Limit, Cursor) ->
    {Items, Next} = Get(["?limit=", integer_to_list(Limit), Cursor]),
    ?assert(length(Items) =< Limit),
    Items ++ case Next of
        null -> [];
        _ -> http_pages(Get, Limit, ["&cursor=", Next])
    end.

%% Behind another parameter.
sub([[$? | Query] | More]) -> [$&, Query | More].

resp_pages(Node, Words, Count) ->
    Socket = connect(Node, resp),
    All = resp_pages_of(Socket, Words, integer_to_list(Count), "0"),
    ok = gen_tcp:close(Socket),
    All.

resp_pages_of(Socket, Words, Count, Cursor) ->
    Page = Words ++ ["CURSOR", Cursor, "COUNT", Count],
    ok = gen_tcp:send(Socket, request(Page)),
    [Next, Items] = reply(Socket),
    ?assert(length(Items) =< list_to_integer(Count)),
    Items ++ case Next of
        ~"0" -> [];
        _ -> resp_pages_of(Socket, Words, Count, Next)
    end.

ask(Node, Words) ->
    Socket = connect(Node, resp),
    ok = gen_tcp:send(Socket, request(Words)),
    Reply = reply(Socket),
    ok = gen_tcp:close(Socket),
    Reply.

request(Words) ->
    [
        "*", integer_to_list(length(Words)), "\r\n"
        | [["$", integer_to_list(iolist_size(Word)), "\r\n", Word, "\r\n"]
           || Word <- Words]
    ].

reply(Socket) ->
    ok = inet:setopts(Socket, [{packet, line}]),
    {ok, Line} = gen_tcp:recv(Socket, 0, 60_000),
    [Head, ~""] = binary:split(Line, ~"\r\n"),
    <<Type, Rest/binary>> = Head,
    case Type of
        $+ -> Rest;
        $- -> {error, Rest};
        $: -> binary_to_integer(Rest);
        _ when Rest =:= ~"-1" -> null;
        $$ -> bulk(Socket, binary_to_integer(Rest));
        $* -> [reply(Socket) || _ <- lists:seq(1, binary_to_integer(Rest))]
    end.

bulk(Socket, Length) ->
    ok = inet:setopts(Socket, [{packet, raw}]),
    {ok, <<Bytes:Length/binary, "\r\n">>} =
        gen_tcp:recv(Socket, Length + 2, 60_000),
    Bytes.

get(Node, Path) -> request(Node, "GET", Path).

request(Node, Method, Path) ->
    Socket = connect(Node, http),
    ok = gen_tcp:send(Socket, [
        Method, " ", Path, " HTTP/1.0\r\nHost: localhost\r\n\r\n"
    ]),
    Answer = all(Socket, ~""),
    ok = gen_tcp:close(Socket),
    [Head, Body] = binary:split(Answer, ~"\r\n\r\n"),
    <<"HTTP/1.", _, " ", Status:3/binary, _/binary>> = Head,
    case binary_to_integer(Status) of
        200 -> {200, json:decode(Body)};
        Other when Body =:= ~"" -> {Other, Head};
        Other -> {Other, Body}
    end.

all(Socket, Before) ->
    case gen_tcp:recv(Socket, 0, 60_000) of
        {ok, Bytes} -> all(Socket, <<Before/binary, Bytes/binary>>);
        {error, closed} -> Before
    end.

%% ----------------------------------------------------- in the peer's node ---

%% A process with a name whose atoms only this node has.
register(Text, Options) ->
    Pid = spawn(fun() -> receive stop -> ok end end),
    Name =
        case Text of
            self_in -> {self_in, Pid};
            _ -> term(Text)
        end,
    Full = {services, Name},
    {Pid, todana_names:register_name_token(Full, Pid, Options)}.

join(Text, Count, Times) ->
    Pids = [spawn(fun() -> receive stop -> ok end end)
            || _ <- lists:seq(1, Count)],
    [ok = todana_groups:join(services, term(Text), Pids)
     || _ <- lists:seq(1, Times)],
    lists:append(lists:duplicate(Times, Pids)).

term(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text ++ "."),
    {ok, Term} = erl_parse:parse_term(Tokens),
    Term.

%% Nobody answers questions, as if it hung.
without_answers() -> sys:suspend(todana_questions).

with_answers() ->
    exit(whereis(todana_questions), kill),
    todana_peers:await(fun() -> is_pid(whereis(todana_questions)) end).

atoms() -> erlang:system_info(atom_count).

count_calls(Functions) ->
    lists:foreach(
        fun({Module, _, _} = F) ->
            {module, Module} = code:ensure_loaded(Module),
            1 = erlang:trace_pattern(F, true, [call_count]),
            1 = erlang:trace_pattern(F, restart, [call_count])
        end,
        Functions
    ).

counted(Functions) ->
    [
        begin
            {call_count, Count} = erlang:trace_info(F, call_count),
            Count
        end
     || F <- Functions
    ].

refreshed() ->
    try
        todana:refresh('todana_names.services', bounded)
    catch
        error:Reason -> Reason
    end.

%% As a load of a snapshot does. Nobody opens it.
close_gate() ->
    ok = sys:suspend(todana_group),
    todana_nif:group_gate(0, closed, ~"a test", todana_nif:group_load(0)).

open_gate() ->
    ok = sys:resume(todana_group),
    todana_peers:await(fun() -> todana_nif:durable_state() =/= closed end).
