//! The figures of a server as terms, and what else the port for monitors needs of it.

use crate::atoms;
use crate::server::server_of;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, Error, NifResult, Term};
use todana_protocol::{ProtocolName, ServerInfo};
use todana_server::{CommandFigures, Figures, Incidents, LoopFigures};

type Pairs<'a> = Vec<(&'static str, Term<'a>)>;

/// Figures of a server as `[{Name, Number | Text}]`; counters begin at the last reset.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_info<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<Pairs<'a>> {
    Ok(pairs(env, server_of(env, server)?.info()))
}

fn pairs(env: Env<'_>, info: ServerInfo) -> Pairs<'_> {
    let ServerInfo {
        event_backend,
        event_loops,
        started_at_ms,
        connections,
        connections_peak,
        connections_max,
        connections_total,
        connections_rejected,
        connections_by_protocol,
        commands,
        commands_per_second,
        input_bytes,
        output_bytes,
        hits,
        misses,
        errors,
        authentication_failures,
        client_buffer_bytes,
        clients_memory_limit_bytes,
        evicted_clients,
        output_limit_disconnections,
        memory_limit_bytes,
        resident_bytes,
        resident_bytes_peak,
        ..
    } = info;
    let [connections_resp, connections_memcached, connections_kyoto] = connections_by_protocol;
    let numbers = [
        ("event_loops", event_loops as u64),
        ("started_at_ms", started_at_ms),
        ("connections", connections),
        ("connections_peak", connections_peak),
        ("connections_max", connections_max),
        ("connections_total", connections_total),
        ("connections_rejected", connections_rejected),
        ("connections_resp", connections_resp),
        ("connections_memcached", connections_memcached),
        ("connections_kyoto", connections_kyoto),
        ("commands", commands),
        ("commands_per_second", commands_per_second),
        ("input_bytes", input_bytes),
        ("output_bytes", output_bytes),
        ("hits", hits),
        ("misses", misses),
        ("errors", errors),
        ("authentication_failures", authentication_failures),
        ("client_buffer_bytes", client_buffer_bytes),
        ("clients_memory_limit_bytes", clients_memory_limit_bytes),
        ("evicted_clients", evicted_clients),
        ("output_limit_disconnections", output_limit_disconnections),
        ("memory_limit_bytes", memory_limit_bytes),
        ("resident_bytes", resident_bytes),
        ("resident_bytes_peak", resident_bytes_peak),
    ];
    let mut info: Pairs<'_> =
        numbers.iter().map(|(name, number)| (*name, number.encode(env))).collect();
    info.push(("event_backend", event_backend.encode(env)));
    info
}

/// All figures since the start of the server, as `#{server => [{Name, Number | Text}], databases =>
/// [[{Name, Number}]], commands => [{Protocol, Name, Calls, Errors, Micros, Histogram}], loops =>
/// [{Connections, BusyNanos, RoundNanos, Histogram}]}`. A histogram is a list of counts by power of
/// two of microseconds.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_figures<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<Term<'a>> {
    let Figures { mut info, commands, loops } = server_of(env, server)?.figures();
    let databases: Vec<Pairs<'a>> = std::mem::take(&mut info.databases)
        .iter()
        .map(|counts| {
            let numbers = [
                ("records", counts.entries),
                ("records_with_expiry", counts.entries_with_expiry),
                ("bytes", counts.bytes),
                ("kept_bytes", counts.kept_bytes),
                ("index_bytes", counts.index_bytes),
                ("expired", counts.expired),
                ("evicted", counts.evicted),
                ("refused", counts.refused),
            ];
            numbers.map(|(name, number)| (name, number.encode(env))).to_vec()
        })
        .collect();
    let [system_s, user_s] = info.cpu_seconds;
    let more = [
        ("version", info.version.encode(env)),
        ("run_id", info.run_id.encode(env)),
        ("process_id", info.process_id.encode(env)),
        ("memory_policy", info.memory_policy.encode(env)),
        ("system_memory_bytes", info.system_memory_bytes.encode(env)),
        ("cpu_system_s", system_s.encode(env)),
        ("cpu_user_s", user_s.encode(env)),
    ];
    let mut server = pairs(env, info);
    server.extend(more);
    let commands: Vec<Term<'a>> = commands
        .into_iter()
        .map(|CommandFigures { protocol, name, stats }| {
            let word = protocol_word(protocol);
            (word, name, stats.calls, stats.errors, stats.micros, stats.histogram).encode(env)
        })
        .collect();
    let loops: Vec<(u64, u64, u64, Vec<u64>)> = loops
        .into_iter()
        .map(|it: LoopFigures| (it.connections, it.busy_nanos, it.round_nanos, it.rounds))
        .collect();
    let atom = |name| Atom::from_str(env, name);
    Term::map_from_pairs(
        env,
        &[
            (atom("server")?, server.encode(env)),
            (atom("databases")?, databases.encode(env)),
            (atom("commands")?, commands.encode(env)),
            (atom("loops")?, loops.encode(env)),
        ],
    )
}

fn protocol_word(protocol: ProtocolName) -> &'static str {
    match protocol {
        ProtocolName::Resp => "resp",
        ProtocolName::Memcached => "memcached",
        ProtocolName::Kyoto => "kyoto",
    }
}

/// What the log of the node reports, as counts since the start of the server.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_incidents<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<Pairs<'a>> {
    let Incidents {
        connections_rejected,
        authentication_failures,
        last_failure,
        output_limit_disconnections,
        evicted,
        refused,
    } = server_of(env, server)?.incidents();
    let last_failure = last_failure.map_or_else(String::new, |it| it.to_canonical().to_string());
    Ok(vec![
        ("connections_rejected", connections_rejected.encode(env)),
        ("authentication_failures", authentication_failures.encode(env)),
        ("last_failure", last_failure.encode(env)),
        ("output_limit_disconnections", output_limit_disconnections.encode(env)),
        ("evicted", evicted.encode(env)),
        ("refused", refused.encode(env)),
    ])
}

/// The newest entries of the slow log, newest first: `[{Id, AtS, Micros, Command, Address}]`,
/// without the arguments of the commands.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_slow_log<'a>(env: Env<'a>, server: Term<'a>, count: usize) -> NifResult<Vec<Slow>> {
    let entries = server_of(env, server)?.slow_log(count).into_iter().map(|entry| {
        let command = entry.arguments.first().map_or_else(Default::default, |name| {
            String::from_utf8_lossy(name).chars().filter(|it| !it.is_control()).collect()
        });
        (entry.id, entry.at_s, entry.micros, command, entry.address)
    });
    Ok(entries.collect())
}

type Slow = (u64, u64, u64, String, String);

/// Changes an option while the server runs: `ok | {error, Sentence}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_set_option<'a>(
    env: Env<'a>,
    server: Term<'a>,
    name: &str,
    value: &str,
) -> NifResult<Term<'a>> {
    Ok(done(env, server_of(env, server)?.set_option(name, value)))
}

/// Changes the password, or removes it with `nil`: `ok | {error, Sentence}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_set_password<'a>(
    env: Env<'a>,
    server: Term<'a>,
    password: Option<Binary<'a>>,
) -> NifResult<Term<'a>> {
    let password = password.map(|it| it.as_slice().to_vec());
    Ok(done(env, server_of(env, server)?.set_password(password)))
}

fn done(env: Env<'_>, result: Result<(), String>) -> Term<'_> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(sentence) => (atoms::error(), sentence).encode(env),
    }
}

/// Milliseconds since the loop that is longest in its round has waited for sockets.
#[rustler::nif]
fn server_longest_round_ms<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<u64> {
    Ok(server_of(env, server)?.longest_round_ms())
}

/// `server_check_password(Server, Password | nil, Ip) -> {IsRight, DelayMs}`: `nil` is right if
/// no password is set.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_check_password<'a>(
    env: Env<'a>,
    server: Term<'a>,
    password: Option<Binary<'a>>,
    ip: String,
) -> NifResult<(bool, u64)> {
    let server = server_of(env, server)?;
    let address = ip.parse().map_err(|_| Error::BadArg)?;
    Ok(match password {
        None => (!server.requires_password(), 0),
        Some(_) if !server.requires_password() => (true, 0),
        Some(password) => server.check_password(&password, address),
    })
}
