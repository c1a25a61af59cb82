%% Whether the release that this node runs has the native engine, and the
%% applications that its options need.
%%
%% Todana does not depend on these, because a release would start them, and end
%% with them: Ra gives up when a disk is full, and Todana starts it again. So
%% a release lists them, with the start type `load': docs/embedding.md.
-module(todana_release).
-moduledoc false.

-export([engine/0, check/1, check/2]).

-doc "Whether the native engine can be loaded. The code server says why not.".
-spec engine() -> ok | {error, string()}.
engine() ->
    case code:ensure_loaded(todana_nif) of
        {module, _} ->
            ok;
        {error, _} ->
            {error,
             "the native engine, priv/todana_nif.so, cannot be loaded, and the "
             "warning before this line says why: docs/embedding.md says how it "
             "is built"}
    end.

-doc "A sentence that names the option and the applications that it needs.".
-spec check(todana_config:options()) -> ok | {error, string()}.
check(Options) -> check(Options, fun is_there/1).

-doc "The same, with an answer to which applications are there.".
-spec check(#{atom() => term()}, fun((atom()) -> boolean())) ->
    ok | {error, string()}.
check(Options, IsThere) ->
    Missing = [
        {Option, Names}
     || {Option, Off, Needed} <- needed(),
        maps:get(Option, Options, Off) =/= Off,
        [_ | _] = Names <- [[Name || Name <- Needed, not IsThere(Name)]]
    ],
    case Missing of
        [] -> ok;
        [{Option, Names} | _] -> {error, sentence(Option, Names)}
    end.

-spec needed() -> [{Option :: atom(), Off :: term(), [atom()]}].
needed() ->
    [
        {data_dir, off, [
            crypto, sasl, ra, aten, gen_batch_server, seshat
        ]},
        {listen_http, [], [
            crypto, asn1, public_key, ssl, ranch, cowlib, cowboy
        ]}
    ].

-spec sentence(atom(), [atom()]) -> string().
sentence(Option, Names) ->
    lists:flatten([
        atom_to_list(Option), ": this node lacks ",
        lists:join(", ", [atom_to_list(Name) || Name <- Names]),
        ": a release lists them, see docs/embedding.md"
    ]).

-spec is_there(atom()) -> boolean().
is_there(Name) ->
    File = atom_to_list(Name) ++ ".app",
    code:where_is_file(File) =/= non_existing.
