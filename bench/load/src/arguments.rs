//! The command line.

use crate::protocol::{Operation, Protocol};
use std::net::SocketAddr;
use std::process::exit;

const USAGE: &str = "usage: todana_load --address HOST:PORT
    --protocol resp|memcached|kyoto|kyoto-binary --operation get|set|delete
    [--connections 50] [--active N] [--pipeline 1] [--threads 1] [--keys 100000]
    [--value-bytes 100] [--ttl-s 0] [--seed 1]
    [--seconds 2 | --requests N] [--sequential]
    [--read-level local|bounded|linear]
`--sequential` takes the keys in order, once (to load a table); otherwise they
are drawn at random. `--active` lets only N connections send: the others
are open and silent. `--read-level` is what each connection asks Todana for by
the command TODANA.READ of RESP.";

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub operation: Operation,
    pub connections: usize,
    /// Number of connections that send requests; all if not given.
    pub active: Option<usize>,
    pub pipeline: usize,
    pub threads: usize,
    pub keys: u64,
    pub value_bytes: usize,
    /// Lifetime of stored records in seconds; 0 for none.
    pub ttl_s: u64,
    pub seed: u64,
    pub seconds: f64,
    /// Ends the run in place of the time, if given.
    pub requests: Option<u64>,
    pub sequential: bool,
    /// How new the records of reads must be; the server's default if not given.
    pub read_level: Option<String>,
}

impl Arguments {
    /// Parses the command line, or prints the error and exits.
    pub fn from_command_line() -> Arguments {
        let mut arguments = Arguments {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            protocol: Protocol::Resp,
            operation: Operation::Get,
            connections: 50,
            active: None,
            pipeline: 1,
            threads: 1,
            keys: 100_000,
            value_bytes: 100,
            ttl_s: 0,
            seed: 1,
            seconds: 2.0,
            requests: None,
            sequential: false,
            read_level: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(flag) = words.next() {
            if flag == "--sequential" {
                arguments.sequential = true;
                continue;
            }
            let value =
                words.next().unwrap_or_else(|| refuse(&format!("{flag}: a value is missing")));
            arguments.set(&flag, &value);
        }
        if arguments.address.port() == 0 {
            refuse("--address is required");
        }
        arguments.threads = arguments.threads.clamp(1, arguments.connections.max(1));
        arguments
    }

    fn set(&mut self, flag: &str, value: &str) {
        match flag {
            "--address" => self.address = number(flag, value),
            "--protocol" => {
                self.protocol = match value {
                    "resp" => Protocol::Resp,
                    "memcached" => Protocol::Memcached,
                    "kyoto" => Protocol::Kyoto,
                    "kyoto-binary" => Protocol::KyotoBinary,
                    _ => refuse("--protocol is resp, memcached, kyoto or kyoto-binary"),
                }
            }
            "--operation" => {
                self.operation = match value {
                    "get" => Operation::Get,
                    "set" => Operation::Set,
                    "delete" => Operation::Delete,
                    _ => refuse("--operation is get, set or delete"),
                }
            }
            "--connections" => self.connections = number(flag, value),
            "--active" => self.active = Some(number(flag, value)),
            "--pipeline" => self.pipeline = number(flag, value),
            "--threads" => self.threads = number(flag, value),
            "--keys" => self.keys = number(flag, value),
            "--value-bytes" => self.value_bytes = number(flag, value),
            "--ttl-s" => self.ttl_s = number(flag, value),
            "--seed" => self.seed = number(flag, value),
            "--seconds" => self.seconds = number(flag, value),
            "--read-level" => self.read_level = Some(value.to_owned()),
            "--requests" => self.requests = Some(number(flag, value)),
            _ => refuse(&format!("unknown flag {flag}")),
        }
    }
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> T {
    value.parse().unwrap_or_else(|_| refuse(&format!("{flag}: `{value}` is not valid")))
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}\n{USAGE}");
    exit(1)
}
