//! The command line.

use crate::protocol::{Operation, Protocol};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::process::exit;

const USAGE: &str = "usage: todana_load --address HOST:PORT
    --protocol resp|memcached|kyoto|kyoto-binary --operation get|set|delete
    [--connections 50] [--active N] [--pipeline 1] [--threads 1] [--keys 100000]
    [--value-bytes 100] [--ttl-s 0] [--seed 1]
    [--seconds 2 | --requests N] [--sequential] [--rate N]
    [--read-level local|bounded|linear]
`--sequential` takes the keys in order, once (to load a table); otherwise they
are drawn at random. `--active` lets only N connections send: the others
are open and silent. `--read-level` is what each connection asks Todana for by
the command TODANA.READ of RESP.

Without `--rate`, each connection sends its next batch when the last one is
answered (closed loop). With it, N requests per second over all connections are
due at random moments, with exponentially distributed gaps (open loop). Each is
sent at its moment by a connection without a request in flight, drawn at random,
whether or not earlier requests of other connections are answered. If there is
none, the first connection that becomes free sends it. The latency counts from
the moment at which the request was due, so a server that stalls is charged for
all requests that it delays. The run ends when every request that was due within
its time is answered. `--rate` cannot be combined with `--pipeline` or
`--sequential`.";

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
    /// Requests per second of all connections in an open loop; a closed loop if not given.
    pub rate: Option<NonZeroU64>,
    /// How new the records of reads must be; the server's default if not given.
    pub read_level: Option<String>,
}

impl Arguments {
    /// Parses the command line, or prints the error and exits.
    pub fn from_command_line() -> Arguments {
        Arguments::parse(std::env::args().skip(1)).unwrap_or_else(|why| {
            eprintln!("{why}\n{USAGE}");
            exit(1)
        })
    }

    /// Parses the words of a command line, or returns what is wrong with them.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
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
            rate: None,
            read_level: None,
        };
        while let Some(flag) = words.next() {
            if flag == "--sequential" {
                arguments.sequential = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{flag}: a value is missing"))?;
            arguments.set(&flag, &value)?;
        }
        arguments.check()?;
        arguments.threads = arguments.threads.clamp(1, arguments.connections.max(1));
        Ok(arguments)
    }

    /// Number of connections that send requests.
    pub fn sending(&self) -> usize {
        self.active.map_or(self.connections, |active| active.min(self.connections))
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        match flag {
            "--address" => self.address = number(flag, value)?,
            "--protocol" => {
                self.protocol = match value {
                    "resp" => Protocol::Resp,
                    "memcached" => Protocol::Memcached,
                    "kyoto" => Protocol::Kyoto,
                    "kyoto-binary" => Protocol::KyotoBinary,
                    _ => return Err("--protocol is resp, memcached, kyoto or kyoto-binary".into()),
                }
            }
            "--operation" => {
                self.operation = match value {
                    "get" => Operation::Get,
                    "set" => Operation::Set,
                    "delete" => Operation::Delete,
                    _ => return Err("--operation is get, set or delete".into()),
                }
            }
            "--connections" => self.connections = number(flag, value)?,
            "--active" => self.active = Some(number(flag, value)?),
            "--pipeline" => self.pipeline = number(flag, value)?,
            "--threads" => self.threads = number(flag, value)?,
            "--keys" => self.keys = number(flag, value)?,
            "--value-bytes" => self.value_bytes = number(flag, value)?,
            "--ttl-s" => self.ttl_s = number(flag, value)?,
            "--seed" => self.seed = number(flag, value)?,
            "--seconds" => self.seconds = number(flag, value)?,
            "--rate" => self.rate = Some(number(flag, value)?),
            "--read-level" => self.read_level = Some(value.to_owned()),
            "--requests" => self.requests = Some(number(flag, value)?),
            _ => return Err(format!("unknown flag {flag}")),
        }
        Ok(())
    }

    /// Refuses what is missing, and flags that contradict each other.
    fn check(&self) -> Result<(), String> {
        let is_paced = self.rate.is_some();
        let refused = [
            (self.address.port() == 0, "--address is required"),
            (
                is_paced && self.pipeline != 1,
                "--rate sends each request on its own, so --pipeline is not possible with it",
            ),
            (
                is_paced && self.sequential,
                "--sequential loads a table as fast as possible, so --rate is not possible with it",
            ),
            (is_paced && self.sending() == 0, "--rate needs at least one connection that sends"),
        ];
        match refused.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err((*why).into()),
            None => Ok(()),
        }
    }
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag}: `{value}` is not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &str) -> Result<Arguments, String> {
        let words = format!("--address 127.0.0.1:1 {options}");
        Arguments::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn without_a_rate_the_loop_is_closed() {
        assert_eq!(parsed("--pipeline 16").map(|arguments| arguments.rate), Ok(None));
    }

    #[test]
    fn a_rate_is_a_positive_number_of_requests() {
        assert_eq!(
            parsed("--rate 2000").map(|arguments| arguments.rate),
            Ok(NonZeroU64::new(2_000))
        );
        for rate in ["0", "-1", "fast"] {
            let why = format!("--rate: `{rate}` is not valid");
            assert_eq!(parsed(&format!("--rate {rate}")).err(), Some(why));
        }
        assert_eq!(parsed("--rate").err().as_deref(), Some("--rate: a value is missing"));
    }

    #[test]
    fn a_rate_is_refused_with_flags_that_contradict_it() {
        for flag in ["--pipeline 16", "--sequential"] {
            let why = parsed(&format!("--rate 2000 {flag}")).expect_err("a contradiction");
            let name = flag.split(' ').next().expect("a flag");
            assert!(why.contains(name) && why.contains("--rate"), "{why}");
        }
        for none in ["--active 0", "--connections 0"] {
            let why = parsed(&format!("--rate 2000 {none}")).expect_err("nobody sends");
            assert_eq!(why, "--rate needs at least one connection that sends");
        }
    }

    #[test]
    fn no_more_connections_send_than_there_are() {
        for (options, sending) in [("", 50), ("--active 10", 10), ("--active 60", 50)] {
            assert_eq!(parsed(options).map(|arguments| arguments.sending()), Ok(sending));
        }
    }

    #[test]
    fn an_address_is_required() {
        assert_eq!(
            Arguments::parse(std::iter::empty()).err().as_deref(),
            Some("--address is required")
        );
    }
}
