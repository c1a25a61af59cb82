//! A server without Erlang, for measurements and profilers.
//!
//!     cargo run --release --example serve -- [resp=PORT] [memcached=PORT] [kyoto=PORT] [loops=N]
//!         [backend=native|portable|poll|select] [connections=N] [password=TEXT] [shards=N]
//!         [kinds=NAME,...] [ordered=DATABASE,...] [kyoto_timeout_ms=N]
//!
//! `kinds` are databases 0 and on as Kyoto Tycoon's clients see them, by the names `-`, `+`, `:`,
//! `*` and `%`, of which `+` and `%` are ordered. `ordered` are further databases that keep their
//! keys in order.
//!
//! It listens on 127.0.0.1 and serves until its standard input ends or it is killed.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use todana_command::{DATABASES, Databases};
use todana_protocol::kyoto::{KyotoDatabase, KyotoKind, KyotoSettings};
use todana_protocol::{Limits, ProtocolName};
use todana_server::{Backend, Config, Server};
use todana_table::{Budget, KeyOrder, Options, Table, WhenFull};

fn main() -> Result<(), Box<dyn Error>> {
    let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Refuse));
    let mut ordered = [false; DATABASES];
    let mut table = Options { budget: Some(budget.clone()), ..Options::default() };
    let mut config = Config {
        databases: Arc::new(Databases::new(std::array::from_fn(|_| {
            Arc::new(Table::new(Options { shards: Some(1), ..Options::default() }))
        }))),
        budget,
        listeners: Vec::new(),
        event_loops: None,
        event_backend: Backend::Native,
        password: None,
        limits: Limits::default(),
        kyoto: KyotoSettings::default(),
        kyoto_timeout_ms: Some(30_000),
        connections_max: 10_000,
        idle_timeout_ms: None,
        authentication_timeout_ms: 60_000,
        input_bytes_max: 128 << 20,
        output_bytes_hard: 256 << 20,
        output_bytes_soft: 32 << 20,
        output_soft_ms: 60_000,
        clients_memory_limit_bytes: None,
        tcp_keepalive_s: Some(300),
        slow_log_us: Some(10_000),
        slow_log_entries_max: 128,
        config_file: String::new(),
        options: Vec::new(),
    };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').ok_or("arguments are NAME=VALUE")?;
        let listener =
            |protocol| Ok::<_, Box<dyn Error>>((protocol, format!("127.0.0.1:{value}").parse()?));
        match name {
            "resp" => config.listeners.push(listener(ProtocolName::Resp)?),
            "memcached" => config.listeners.push(listener(ProtocolName::Memcached)?),
            "kyoto" => config.listeners.push(listener(ProtocolName::Kyoto)?),
            "loops" => config.event_loops = Some(value.parse()?),
            "connections" => config.connections_max = value.parse()?,
            "password" => config.password = Some(value.into()),
            "kyoto_timeout_ms" => config.kyoto_timeout_ms = Some(value.parse()?),
            "kinds" => {
                let kinds = value.split(',').map(database).collect::<Result<Vec<_>, _>>()?;
                for (ordered, database) in ordered.iter_mut().zip(&kinds) {
                    *ordered |= database.kind.is_ordered();
                }
                config.kyoto.databases = kinds;
            }
            "ordered" => {
                for number in value.split(',') {
                    *ordered.get_mut(number.parse::<usize>()?).ok_or("no such database")? = true;
                }
            }
            "shards" => table.shards = Some(value.parse()?),
            "backend" => {
                config.event_backend = match value {
                    "native" => Backend::Native,
                    "portable" => Backend::Portable,
                    "poll" => Backend::Poll,
                    "select" => Backend::Select,
                    _ => return Err("no such back end".into()),
                }
            }
            _ => return Err(format!("no such argument: {name}").into()),
        }
    }
    config.databases = Arc::new(Databases::new(std::array::from_fn(|number| {
        let order = ordered[number].then(KeyOrder::default);
        Arc::new(Table::new(Options { order, ..table.clone() }))
    })));
    let server = Server::start(config)?;
    for (protocol, address) in server.addresses() {
        println!("{protocol:?} on {address}, {}", server.info().event_backend);
    }
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

/// A database by Kyoto Tycoon's name.
fn database(name: &str) -> Result<KyotoDatabase, String> {
    let kind = match name {
        "-" => KyotoKind::ProtoHash,
        "+" => KyotoKind::ProtoTree,
        ":" => KyotoKind::Stash,
        "*" => KyotoKind::CacheHash,
        "%" => KyotoKind::CacheTree,
        _ => return Err(format!("no such kind of database: {name}")),
    };
    Ok(KyotoDatabase { name: name.into(), kind, ..KyotoDatabase::default() })
}
