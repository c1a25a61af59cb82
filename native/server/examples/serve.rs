//! A server without Erlang, for measurements and profilers.
//!
//!     cargo run --release --example serve -- [resp=PORT] [memcached=PORT] [kyoto=PORT] [loops=N]
//!         [backend=native|portable|poll|select] [connections=N] [password=TEXT] [shards=N]
//!         [kinds=NAME,...] [ordered=DATABASE,...] [OPTION=VALUE]
//!
//! `kinds` are the databases from 0 on as Kyoto Tycoon's clients see them, by the names `-`, `+`,
//! `:`, `*` and `%`, of which `+` and `%` are ordered. `ordered` are further databases that keep
//! their keys in order. `OPTION` is an option of docs/configuration.md whose value is a number, a
//! size or a word.
//!
//! It listens on 127.0.0.1 and serves until its standard input ends or it is killed.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use todana_command::{DATABASES, Databases};
use todana_kyoto::{KyotoDatabase, KyotoKind};
use todana_protocol::ProtocolName;
use todana_server::{Config, Server};
use todana_table::{Budget, KeyOrder, Options, Table, WhenFull};

fn main() -> Result<(), Box<dyn Error>> {
    let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Refuse));
    let mut ordered = [false; DATABASES];
    let mut table = Options { budget: Some(budget.clone()), ..Options::default() };
    let mut config = Config { budget, authentication_timeout_ms: 60_000, ..Config::default() };
    for argument in std::env::args().skip(1) {
        let (name, value) = argument.split_once('=').ok_or("arguments are NAME=VALUE")?;
        let listener = |protocol: ProtocolName| {
            Ok::<_, Box<dyn Error>>((protocol.into(), format!("127.0.0.1:{value}").parse()?))
        };
        match name {
            "resp" => config.listeners.push(listener(ProtocolName::Resp)?),
            "memcached" => config.listeners.push(listener(ProtocolName::Memcached)?),
            "kyoto" => config.listeners.push(listener(ProtocolName::Kyoto)?),
            "password" => config.password = Some(value.into()),
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
            _ => set_option(&mut config, name, value)?,
        }
    }
    config.databases = Arc::new(Databases::new(std::array::from_fn(|number| {
        let order = ordered[number].then(KeyOrder::default);
        Arc::new(Table::new(Options { order, ..table.clone() }))
    })));
    let server = Server::start(config)?;
    for (service, address) in server.addresses() {
        println!("{:?} on {address}, {}", service.protocol, server.info().event_backend);
    }
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

/// Sets an option of the option table, by its name or its short name.
fn set_option(config: &mut Config, name: &str, text: &str) -> Result<(), String> {
    let name = match name {
        "loops" => "event_loops",
        "backend" => "event_backend",
        "connections" => "connections_max",
        name => name,
    };
    let known = config.list_options().into_iter().find(|option| option.name == name);
    let option_type = known.ok_or_else(|| format!("no such argument: {name}"))?.option_type;
    let value = option_type.parse(text).ok_or_else(|| format!("{name} must be {option_type}"))?;
    config.set_option(name, value).map_err(|refused| format!("{name}: {refused:?}"))
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
