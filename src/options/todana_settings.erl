%% The options as the native server takes them.
-module(todana_settings).
-moduledoc false.

-export([of_options/1]).

-doc "The settings of the native server, without the password.".
-spec of_options(todana_config:options()) -> map().
of_options(Options) ->
    #{databases := Databases, kyoto_hosts := Hosts, kyoto_origins := Origins} =
        Options,
    Texts = [
        {shown(N), to_binary(todana_option_type:format(T, V))}
     || #{name := N, type := T} <- todana_options:all(),
        V <- [maps:get(N, Options)]
    ],
    Plain = #{
        Name =>
            case Value of
                off -> nil;
                auto -> nil;
                Word when is_atom(Word) -> atom_to_binary(Word);
                Number -> Number
            end
     || Name := Value <- Options
    },
    Plain#{
        listeners => [
            listener(Protocol, Address)
         || {Protocol, Name} <- [
                {~"resp", listen_resp},
                {~"resp_cluster", listen_resp_cluster},
                {~"memcached", listen_memcached},
                {~"kyoto", listen_kyoto}
            ],
            Address <- maps:get(Name, Options)
        ],
        databases => [todana_kyoto_database:setting(D) || D <- Databases],
        kyoto_hosts => [to_binary(Host) || Host <- Hosts],
        kyoto_origins => [to_binary(Origin) || Origin <- Origins],
        password_file => maps:get(password_file, Options),
        config_file => to_binary(application:get_env(todana, config_file, "")),
        options => Texts
    }.

%% The name by which `CONFIG GET' shows an option. Redis' `databases' is their
%% number.
-spec shown(todana_options:name()) -> binary().
shown(databases) -> ~"kyoto_databases";
shown(Name) -> atom_to_binary(Name).

-spec listener(binary(), todana_options:address()) ->
    {binary(), binary(), Level :: binary()}.
listener(Protocol, Address) ->
    {Plain, Level} =
        case Address of
            {Ip, Port, Own} -> {{Ip, Port}, Own};
            {_, _} -> {Address, default}
        end,
    Text = todana_option_type:format(addresses, [Plain]),
    {Protocol, to_binary(Text), atom_to_binary(Level)}.

-spec to_binary(string()) -> binary().
to_binary(Text) ->
    unicode:characters_to_binary(Text).
