//! Servers: a listener process starts and stops them, and they are registered here so that none
//! outlives the library.

use crate::erts::{self, ResourceRef, ResourceType};
use crate::{Instance, atoms, database, durable, keeper, responder};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, Error, LocalPid, NifResult, Term};
use std::net::SocketAddr;
use std::sync::Arc;
use todana_protocol::{OptionType, OptionValue, ProtocolName, Range, ReadLevel, Service};
use todana_server::{Config, OptionInfo, Server, StartError, spread_messages};

/// Resources for servers.
pub(crate) static SERVER: ResourceType<Running> = ResourceType::new(c"todana_server");

/// A server's resource. If its process dies, the server runs until the resource is collected, and
/// then stops.
pub(crate) struct Running {
    server: Arc<Server>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A scheduler collects the resource and must not wait for threads. `stop_all` finds the
        // server until it has stopped.
        let server = Arc::clone(&self.server);
        let stop = move || stop(&server);
        if let Err(error) = std::thread::Builder::new().name("todana_stop".into()).spawn(stop) {
            eprintln!("todana: cannot stop an abandoned server: {error}");
        }
    }
}

/// A running server.
#[derive(Clone)]
struct Registered {
    server: Arc<Server>,
    /// The module instance that the server belongs to.
    instance: Instance,
    /// The listener process, which is notified when another process stops the server.
    owner: LocalPid,
}

static RUNNING: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// All servers.
pub(crate) fn running() -> Vec<Arc<Server>> {
    RUNNING.lock().iter().map(|running| Arc::clone(&running.server)).collect()
}

fn is_running(server: &Arc<Server>) -> bool {
    RUNNING.lock().iter().any(|other| Arc::ptr_eq(&other.server, server))
}

fn stop(server: &Arc<Server>) {
    server.stop();
    RUNNING.lock().retain(|other| !Arc::ptr_eq(&other.server, server));
}

/// Stops servers, joins their threads, and notifies the listener processes: `{todana_server,
/// stopped}`.
fn stop_and_notify(servers: Vec<Registered>) {
    if servers.is_empty() {
        return;
    }
    let work = move || {
        for running in &servers {
            stop(&running.server);
            erts::send(running.owner, |env| {
                let words = [atoms::todana_server(), atoms::stopped()];
                erts::tuple(env, &words.map(|word| word.as_c_arg()))
            });
        }
    };
    // Not on a scheduler, where a message must have a process as its sender.
    if let Ok(thread) = std::thread::Builder::new().name("todana_stop".into()).spawn(work) {
        // A panic of the thread was reported when it happened.
        let _ = thread.join();
    }
}

/// Stops every server.
fn stop_all() {
    let running = RUNNING.lock().clone();
    stop_and_notify(running);
}

/// Stops the servers of an instance that is being unloaded.
pub(crate) fn stop_those_of(instance: Instance) {
    let mut running = RUNNING.lock().clone();
    running.retain(|running| running.instance == instance);
    stop_and_notify(running);
}

/// Transfers the servers of one instance to another.
pub(crate) fn hand_over(from: Instance, to: Instance) {
    for running in RUNNING.lock().iter_mut().filter(|running| running.instance == from) {
        running.instance = to;
    }
}

/// Stops every server, for a listener process that replaces one that was killed.
#[rustler::nif(schedule = "DirtyIo")]
fn server_stop_all() -> Atom {
    stop_all();
    atoms::ok()
}

/// `server_start(Settings) -> {ok, Server} | {error, Sentence} | {badarg, Name}`. `todana_settings`
/// makes the map of settings; `Name` is the setting that is missing or wrong.
#[rustler::nif(schedule = "DirtyIo")]
fn server_start<'a>(env: Env<'a>, settings: Term<'a>) -> NifResult<Term<'a>> {
    let config = match config(settings) {
        Ok(config) => config,
        Err(WrongSetting(name)) => return Ok((atoms::badarg(), name).encode(env)),
    };
    Ok(match Server::start(config) {
        Ok(server) => {
            let server = Arc::new(server);
            RUNNING.lock().push(Registered {
                server: Arc::clone(&server),
                instance: Instance::of_call(env),
                owner: env.pid(),
            });
            let resource: ResourceRef<Running> = SERVER.make(Running { server }, 0);
            // SAFETY: the term was made in this environment.
            let term = unsafe { Term::new(env, resource.term(env.as_c_arg())) };
            (atoms::ok(), term).encode(env)
        }
        Err(StartError(sentence)) => (atoms::error(), sentence).encode(env),
    })
}

/// `spread_deliver(Batch) -> ok`: passes the messages of another node to the subscribers of this
/// one.
#[rustler::nif(schedule = "DirtyCpu")]
fn spread_deliver(batch: Binary<'_>) -> Atom {
    let servers = running();
    for (topic, channel, message) in spread_messages(batch.as_slice()) {
        servers.iter().for_each(|server| server.publish(topic, channel, message));
    }
    atoms::ok()
}

pub(crate) fn server_of<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<&'a Arc<Server>> {
    // SAFETY: both belong to the present call.
    let running = unsafe { SERVER.get(env.as_c_arg(), server.as_c_arg()) };
    running.map(|running: &'a Running| &running.server).ok_or(Error::BadArg)
}

/// Stops a server and joins its threads.
#[rustler::nif(schedule = "DirtyIo")]
fn server_stop<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<Atom> {
    stop(server_of(env, server)?);
    Ok(atoms::ok())
}

/// `[{Protocol, Ip, Port}]`, as bound; `stopped` if the server no longer runs.
#[rustler::nif]
fn server_addresses<'a>(env: Env<'a>, server: Term<'a>) -> NifResult<Term<'a>> {
    let server = server_of(env, server)?;
    if !is_running(server) {
        return Ok(atoms::stopped().encode(env));
    }
    let addresses: Vec<(String, String, u16)> = server
        .addresses()
        .iter()
        .map(|(service, address)| {
            (protocol_word(*service).to_owned(), address.ip().to_string(), address.port())
        })
        .collect();
    Ok(addresses.encode(env))
}

fn protocol_word(service: Service) -> &'static str {
    match service.protocol {
        ProtocolName::Resp if service.redirects => "resp_cluster",
        ProtocolName::Resp => "resp",
        ProtocolName::Memcached => "memcached",
        ProtocolName::Kyoto => "kyoto",
    }
}

/// Number of loaded instances of the module, including instances that were purged and not unloaded
/// yet because some of their resources are alive.
#[rustler::nif]
fn instances() -> usize {
    Instance::count()
}

/// A setting of this name is missing or wrong.
struct WrongSetting(&'static str);

/// One setting that is not an option.
fn setting<'a, T: rustler::Decoder<'a>>(
    settings: Term<'a>,
    name: &'static str,
) -> Result<T, WrongSetting> {
    let value = look_up(settings, name).and_then(|value| value.decode());
    value.map_err(|_| WrongSetting(name))
}

fn look_up<'a>(settings: Term<'a>, name: &str) -> NifResult<Term<'a>> {
    settings.map_get(Atom::from_str(settings.get_env(), name)?)
}

fn config(settings: Term<'_>) -> Result<Config, WrongSetting> {
    let (databases, budget) = database::for_server();
    let listeners: Vec<(String, String, String)> = setting(settings, "listeners")?;
    let listeners: Option<Vec<(Service, SocketAddr)>> = listeners
        .iter()
        .map(|(protocol, address, level)| listener(protocol, address, level))
        .collect();
    let password: Option<rustler::Binary<'_>> = setting(settings, "password")?;
    let mut config = Config {
        databases,
        budget,
        keeper: keeper::keeper(),
        responder: Some(responder::responder()),
        homes: durable::homes(),
        listeners: listeners.ok_or(WrongSetting("listeners"))?,
        password: password.map(|password| password.as_slice().to_vec()),
        config_file: setting(settings, "config_file")?,
        options: setting(settings, "options")?,
        ..Config::default()
    };
    for OptionInfo { name, option_type, .. } in config.list_options() {
        let value = look_up(settings, name).ok().and_then(|term| option_value(option_type, term));
        let value = value.ok_or(WrongSetting(name))?;
        config.set_option(name, value).map_err(|_| WrongSetting(name))?;
    }
    Ok(config)
}

/// The value of an option. Its range is not checked here.
fn option_value(option_type: OptionType, term: Term<'_>) -> Option<OptionValue> {
    Some(match option_type {
        OptionType::Integer(_) | OptionType::Bytes(_) => match term.decode::<Option<u64>>().ok()? {
            Some(number) => OptionValue::Number(number),
            None => OptionValue::Absent,
        },
        OptionType::Choice(_) => OptionValue::Word(term.decode().ok()?),
        OptionType::Hosts | OptionType::Origins => OptionValue::Names(term.decode().ok()?),
        OptionType::Databases => {
            let terms: Vec<Term<'_>> = term.decode().ok()?;
            let databases = terms.into_iter().map(database_row).collect::<NifResult<_>>();
            OptionValue::Rows(databases.ok()?)
        }
    })
}

/// `server_options() -> [{Name, Type, Default}]`: the options that native code knows, as
/// `todana_options` has them, for the test that compares the two.
#[rustler::nif(schedule = "DirtyCpu")]
fn server_options(env: Env<'_>) -> NifResult<Vec<(Atom, Term<'_>, String)>> {
    let config = Config::default();
    let options = config.list_options().into_iter().chain(config.list_budget_options());
    options
        .map(|OptionInfo { name, option_type, text }| {
            Ok((Atom::from_str(env, name)?, type_term(env, option_type)?, text))
        })
        .collect()
}

fn type_term(env: Env<'_>, option_type: OptionType) -> NifResult<Term<'_>> {
    let atom = |name| Atom::from_str(env, name);
    let number = |name, range: Range| {
        let Range { min, max, word } = range;
        Ok::<_, Error>(match word {
            Some(word) => (atom(name)?, min, max, atom(word)?).encode(env),
            None => (atom(name)?, min, max).encode(env),
        })
    };
    Ok(match option_type {
        OptionType::Integer(range) => number("integer", range)?,
        OptionType::Bytes(range) => number("bytes", range)?,
        OptionType::Choice(words) => {
            let words: Vec<Atom> = words.iter().map(|word| atom(word)).collect::<NifResult<_>>()?;
            (atom("choice")?, words).encode(env)
        }
        OptionType::Hosts => atom("hosts")?.encode(env),
        OptionType::Origins => atom("origins")?.encode(env),
        OptionType::Databases => atom("databases")?.encode(env),
    })
}

/// A row of the option `databases`: the name, the number of its kind, whether it is persistent, and
/// four limits.
fn database_row(term: Term<'_>) -> NifResult<Vec<OptionValue>> {
    type Limit = Option<u64>;
    type Words = (String, u8, bool, Limit, Limit, Limit, Limit);
    let (name, kind, persistent, entries, bytes, cache_entries, cache_bytes): Words =
        term.decode()?;
    let number = |limit: Limit| limit.map_or(OptionValue::Absent, OptionValue::Number);
    let mut row = vec![
        OptionValue::Word(name),
        OptionValue::Number(kind.into()),
        OptionValue::Number(persistent.into()),
    ];
    row.extend([entries, bytes, cache_entries, cache_bytes].map(number));
    Ok(row)
}

/// A listener; the level is one of [`ReadLevel::WORDS`], or `default`.
fn listener(protocol: &str, address: &str, level: &str) -> Option<(Service, SocketAddr)> {
    let redirects = protocol == "resp_cluster";
    let protocol = match protocol {
        "resp" | "resp_cluster" => ProtocolName::Resp,
        "memcached" => ProtocolName::Memcached,
        "kyoto" => ProtocolName::Kyoto,
        _ => return None,
    };
    let read_level = match level {
        "default" => None,
        level => Some(ReadLevel::named(level.as_bytes())?),
    };
    Some((Service { protocol, redirects, read_level }, address.parse().ok()?))
}
