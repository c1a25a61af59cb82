%% Certificates for the connections between the nodes of a cluster, and how a
%% node checks those of others.
%%
%% All nodes of a cluster have the same certificate, of an authority that exists
%% for nothing else and whose key is not kept. So a node that shows it belongs
%% to the cluster, at any address.
-module(todana_certificates).
-moduledoc false.

-include_lib("public_key/include/public_key.hrl").

-export([create/1, are_readable/1, verify/3]).

-define(FILES, ["authority.pem", "node.pem"]).
-define(YEARS, 10).
-define(DAY_S, 86_400).

-doc "Creates a directory with the files that every node of a cluster needs.".
-spec create(file:filename()) -> ok | {error, iodata()}.
create(Directory) ->
    {ok, _} = application:ensure_all_started(public_key),
    SignKey = key(),
    NodeKey = key(),
    Authority = certificate(~"Todana cluster", true, SignKey, SignKey),
    Node = certificate(~"Todana node", false, NodeKey, SignKey),
    maybe
        ok ?= file:make_dir(Directory),
        ok ?= file:change_mode(Directory, 8#700),
        ok ?= write(Directory, "authority.pem", [
            {'Certificate', Authority, not_encrypted}
        ]),
        write(Directory, "node.pem", [
            {'Certificate', Node, not_encrypted},
            public_key:pem_entry_encode('ECPrivateKey', NodeKey)
        ])
    else
        {error, eexist} ->
            {error, [Directory, " exists already"]};
        {error, Reason} ->
            {error, [Directory, ": ", file:format_error(Reason)]}
    end.

-spec key() -> #'ECPrivateKey'{}.
key() -> public_key:generate_key({namedCurve, secp256r1}).

%% Signed by the authority, of which all are.
-spec certificate(
    binary(), boolean(), #'ECPrivateKey'{}, #'ECPrivateKey'{}
) -> public_key:der_encoded().
certificate(Name, IsAuthority, #'ECPrivateKey'{publicKey = Point}, SignKey) ->
    <<Serial:63, _:1>> = crypto:strong_rand_bytes(8),
    public_key:pkix_sign(
        #'OTPTBSCertificate'{
            version = v3,
            serialNumber = Serial + 1,
            signature = #'SignatureAlgorithm'{
                algorithm = ?'ecdsa-with-SHA256', parameters = asn1_NOVALUE
            },
            issuer = name(~"Todana cluster"),
            validity = #'Validity'{
                notBefore = time(-?DAY_S),
                notAfter = time(?YEARS * 365 * ?DAY_S)
            },
            subject = name(Name),
            subjectPublicKeyInfo = #'OTPSubjectPublicKeyInfo'{
                algorithm = #'PublicKeyAlgorithm'{
                    algorithm = ?'id-ecPublicKey',
                    parameters = {namedCurve, ?'secp256r1'}
                },
                subjectPublicKey = #'ECPoint'{point = Point}
            },
            extensions = extensions(IsAuthority)
        },
        SignKey
    ).

-spec extensions(boolean()) -> [#'Extension'{}].
extensions(IsAuthority) ->
    Usage =
        case IsAuthority of
            true -> [keyCertSign, cRLSign];
            false -> [digitalSignature]
        end,
    [
        #'Extension'{
            extnID = ?'id-ce-basicConstraints',
            critical = true,
            extnValue = #'BasicConstraints'{
                cA = IsAuthority, pathLenConstraint = asn1_NOVALUE
            }
        },
        #'Extension'{
            extnID = ?'id-ce-keyUsage', critical = true, extnValue = Usage
        }
    ].

-spec name(binary()) -> {rdnSequence, [[#'AttributeTypeAndValue'{}]]}.
name(Text) ->
    {rdnSequence, [[
        #'AttributeTypeAndValue'{
            type = ?'id-at-commonName', value = {utf8String, Text}
        }
    ]]}.

%% A number of seconds from now, as certificates write it until 2049.
-spec time(integer()) -> {utcTime, string()}.
time(FromNowS) ->
    {{Year, Month, Day}, {Hour, Minute, Second}} =
        calendar:system_time_to_universal_time(
            erlang:system_time(second) + FromNowS, second
        ),
    {utcTime, lists:flatten(io_lib:format(
        "~2..0b~2..0b~2..0b~2..0b~2..0b~2..0bZ",
        [Year rem 100, Month, Day, Hour, Minute, Second]
    ))}.

-spec write(file:filename(), string(), [public_key:pem_entry()]) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write(Directory, Name, Entries) ->
    File = filename:join(Directory, Name),
    maybe
        ok ?= file:write_file(File, <<>>),
        ok ?= file:change_mode(File, 8#600),
        file:write_file(File, public_key:pem_encode(Entries))
    end.

-doc "Whether a directory has what `create/1' writes.".
-spec are_readable(file:filename()) -> ok | {error, iodata()}.
are_readable(Directory) ->
    Problems = [
        [File, ": ", file:format_error(Reason)]
     || Name <- ?FILES,
        File <- [filename:join(Directory, Name)],
        {error, Reason} <- [file:read_file(File)]
    ],
    case Problems of
        [] -> ok;
        [Problem | _] -> {error, Problem}
    end.

-doc """
For TLS: the certificate names no host, and the authority signs for nobody else.
`bin/todana` names this function to the emulator.
""".
-spec verify(term(), term(), State) ->
    {valid, State} | {unknown, State} | {fail, term()}.
verify(_Certificate, {bad_cert, hostname_check_failed}, State) ->
    {valid, State};
verify(_Certificate, {bad_cert, Reason}, _State) ->
    {fail, Reason};
verify(_Certificate, {extension, _}, State) ->
    {unknown, State};
verify(_Certificate, valid, State) ->
    {valid, State};
verify(_Certificate, valid_peer, State) ->
    {valid, State}.
