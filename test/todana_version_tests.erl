%% The version is written in native/Cargo.toml and read from there. Texts that
%% cannot read it are compared.
-module(todana_version_tests).

-include_lib("eunit/include/eunit.hrl").

application_test() ->
    _ = application:load(todana),
    {ok, Version} = application:get_key(todana, vsn),
    ?assertEqual(version(), list_to_binary(Version)).

%% Crates answer clients with the version (`INFO', `version', `Server').
crates_test_() ->
    Lock = todana_tree:read("native/Cargo.lock"),
    [
        ?_assertEqual([version()], matches(Lock, [
            "^name = \"", Crate, "\"\nversion = \"(.*)\"$"
        ]))
     || Crate <- [
            "todana_command", "todana_kyoto", "todana_memcached",
            "todana_nif", "todana_protocol", "todana_resp",
            "todana_server", "todana_table"
        ]
    ].

changelog_test() ->
    Headings = matches(todana_tree:read("CHANGELOG.md"), "^## \\[(.*)\\]"),
    ?assertEqual(version(), hd(Headings)).

production_page_test() ->
    Page = todana_tree:read("docs/production.md"),
    Names = matches(Page, "todana-([0-9]+[.][0-9.]*[0-9])"),
    ?assertEqual([version()], lists:usort(Names)).

version() ->
    Manifest = todana_tree:read("native/Cargo.toml"),
    [Version] = matches(Manifest, "^version = \"(.*)\"$"),
    Version.

matches(Text, Pattern) ->
    Options = [global, multiline, {capture, [1], binary}],
    {match, Found} = re:run(Text, Pattern, Options),
    lists:append(Found).
