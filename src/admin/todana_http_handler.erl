%% Answers the requests to the HTTP port for monitors: one page for each path of
%% `pages/0', by GET or HEAD and without a body.
-module(todana_http_handler).
-moduledoc false.
-behaviour(cowboy_handler).

-export([init/2]).

-type page() ::
    fun(() -> {cowboy:http_status(), Type :: binary(), iodata()})
    | {names, todana_name_pages:kind() | {todana_name_pages:kind(), binary()}}.
-type answer() :: {cowboy:http_status(), cowboy:http_headers(), iodata()}.

-define(TEXT, ~"text/plain; charset=utf-8").

%% The pages, and whether they need the password, if one is set.
-spec pages() -> #{binary() => {open | locked, page()}}.
pages() ->
    #{
        ~"/" => {open, fun index/0},
        ~"/healthz" => {open, fun() -> verdict(todana_health:live()) end},
        ~"/readyz" => {open, fun() -> verdict(todana_health:ready()) end},
        ~"/metrics" => {locked, fun metrics/0},
        ~"/status.json" => {locked, fun status/0},
        ~"/names" => {locked, {names, names}},
        ~"/groups" => {locked, {names, groups}}
    }.

-spec page(binary()) -> {open | locked, page()} | none.
page(Path) ->
    case pages() of
        #{Path := Page} ->
            Page;
        #{} ->
            case Path of
                <<"/names/", Scope/binary>> -> of_scope(names, Scope);
                <<"/groups/", Scope/binary>> -> of_scope(groups, Scope);
                _ -> none
            end
    end.

-spec of_scope(todana_name_pages:kind(), binary()) -> {locked, page()} | none.
of_scope(Kind, Encoded) ->
    try cow_uri:urldecode(Encoded) of
        Scope -> {locked, {names, {Kind, Scope}}}
    catch
        error:_ -> none
    end.

-spec init(cowboy_req:req(), State) -> {ok, cowboy_req:req(), State}.
init(Request, State) ->
    ok = todana_http:used(maps:get(pid, Request)),
    {Status, Headers, Body} = answer(Request),
    All = Headers#{
        ~"cache-control" => ~"no-store",
        ~"server" => ~"todana",
        ~"x-content-type-options" => ~"nosniff"
    },
    {ok, cowboy_req:reply(Status, All, Body, Request), State}.

-spec answer(cowboy_req:req()) -> answer().
answer(Request) ->
    Method = cowboy_req:method(Request),
    Path = cowboy_req:path(Request),
    case {cowboy_req:has_body(Request), page(Path)} of
        {true, _} ->
            plain(413, #{~"connection" => ~"close"},
                  "a request has no body here");
        {false, _} when Method =/= ~"GET", Method =/= ~"HEAD" ->
            plain(405, #{~"allow" => ~"GET, HEAD"},
                  "the methods are GET and HEAD");
        {false, {Lock, Page}} ->
            unlocked(Lock, Page, Request);
        {false, none} ->
            plain(404, #{}, "there is no such page; / lists them")
    end.

-spec unlocked(open | locked, page(), cowboy_req:req()) -> answer().
unlocked(Lock, Page, Request) ->
    case Lock =:= open orelse may_read(Request) of
        true ->
            shown(Page, Request);
        foreign ->
            plain(403, #{}, "the Host is neither an address nor localhost");
        false ->
            Realm = ~"Basic realm=\"todana\", charset=\"UTF-8\"",
            plain(401, #{~"www-authenticate" => Realm}, "a password is needed")
    end.

-spec shown(page(), cowboy_req:req()) -> answer().
shown({names, Which}, Request) ->
    try cowboy_req:parse_qs(Request) of
        Query ->
            case todana_name_pages:page(Which, Query) of
                {200, Value} ->
                    {200, #{~"content-type" => ~"application/json"},
                        [json:encode(Value), $\n]};
                {Status, Sentence} ->
                    plain(Status, #{}, Sentence)
            end
    catch
        %% Of Cowboy.
        exit:_ -> plain(400, #{}, "the words behind ? are malformed")
    end;
shown(Page, _Request) ->
    {Status, Type, Body} = Page(),
    {Status, #{~"content-type" => Type}, Body}.

%% With any user name, as at the port of Kyoto Tycoon. After some wrong
%% passwords the server delays each answer to that address.
%% Without a password only this host may read; then a page in its browser must
%% not read the figures by a name of the page's author, who may send any header.
-spec may_read(cowboy_req:req()) -> boolean() | foreign.
may_read(Request) ->
    {Ip, _Port} = cowboy_req:peer(Request),
    case todana_listener:check_password(nil, Ip) of
        {true, _} ->
            %% A client may have removed the password since the port was opened.
            todana_config_rules:is_loopback(Ip) andalso
                (is_address(cowboy_req:host(Request)) orelse foreign);
        {false, _} ->
            has_password(cowboy_req:parse_header(~"authorization", Request), Ip)
    end.

-spec has_password(term(), inet:ip_address()) -> boolean().
has_password({basic, _User, Password}, Ip) ->
    {IsRight, DelayMs} = todana_listener:check_password(Password, Ip),
    ok = timer:sleep(DelayMs),
    IsRight;
has_password(_Other, _Ip) ->
    false.

-spec is_address(binary()) -> boolean().
is_address(Host) when Host =:= ~"localhost"; Host =:= ~"" ->
    true;
is_address(Host) ->
    Bare = string:trim(binary_to_list(Host), both, "[]"),
    is_tuple(element(2, inet:parse_strict_address(Bare))).

-spec plain(cowboy:http_status(), cowboy:http_headers(), iodata()) -> answer().
plain(Status, Headers, Sentence) ->
    {Status, Headers#{~"content-type" => ?TEXT}, [Sentence, $\n]}.

-spec index() -> {200, binary(), iodata()}.
index() ->
    {200, ?TEXT, [
        "Todana\n"
        "/healthz      200 if the process works\n"
        "/readyz       200 if clients can read and write\n"
        "/metrics      the figures, for Prometheus\n"
        "/status.json  the figures as JSON\n"
        "/names        scopes of names of processes; /names/SCOPE has names\n"
        "/groups       scopes of groups; /groups/SCOPE has groups\n"
    ]}.

-spec verdict(todana_health:verdict()) ->
    {cowboy:http_status(), binary(), iodata()}.
verdict(ok) -> {200, ?TEXT, "ok\n"};
verdict({error, Sentence}) -> {503, ?TEXT, [Sentence, $\n]}.

-spec metrics() -> {200, binary(), iodata()}.
metrics() ->
    Families = todana_metrics:families(todana_figures:collect()),
    {200, todana_metrics_text:content_type(),
        todana_metrics_text:text(Families)}.

-spec status() -> {200, binary(), iodata()}.
status() ->
    {200, ~"application/json", todana_status_json:text(
        todana_figures:collect()
    )}.
