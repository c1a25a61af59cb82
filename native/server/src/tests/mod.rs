//! The server over real loopback sockets, once for each back end, with scripted sessions.
//!
//! Waits have generous time limits and end as soon as their condition holds: no test here asserts a
//! speed.

mod clients_memory;
mod commits;
mod limits;
mod moving;
mod questions;
pub(crate) mod scripted;
mod stopping;
mod traffic;
mod waiting;
mod work;

use crate::poller::{self, Poller};
use crate::{Backend, Config, LoopBalance, Server};
use scripted::ScriptedDoor;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use todana_command::Databases;
use todana_protocol::ProtocolName;
use todana_table::{Budget, Options, Table, WhenFull};

/// Longer than anything takes on a machine that works.
const PATIENCE: Duration = Duration::from_secs(120);

/// The default of tests: two loops with as many connections each, no limits that matter.
pub(crate) fn config(backend: Backend) -> Config {
    let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Refuse));
    let options = Options { shards: Some(1), budget: Some(budget.clone()), ..Options::default() };
    Config {
        databases: Arc::new(Databases::new(std::array::from_fn(|_| {
            Arc::new(Table::new(options.clone()))
        }))),
        budget,
        listeners: vec![(ProtocolName::Resp.into(), "127.0.0.1:0".parse().unwrap())],
        event_loops: Some(2),
        event_loop_balance: LoopBalance::Even,
        event_backend: backend,
        connections_max: 900.into(),
        authentication_timeout_ms: 60_000,
        input_bytes_max: 1 << 20,
        output_bytes_hard: 64 << 20,
        output_bytes_soft: 1 << 20,
        clients_memory_limit: Some(0).into(),
        slow_log_us: None.into(),
        options: vec![("bind".into(), "127.0.0.1".into())],
        ..Config::default()
    }
}

/// Runs a test on a server with each back end, after applying `change` to the configuration.
fn each(change: impl Fn(&mut Config), test: impl Fn(&Server)) {
    for backend in [Backend::Native, Backend::Portable, Backend::Poll, Backend::Select] {
        let mut config = config(backend);
        change(&mut config);
        let server = Server::start_with::<ScriptedDoor>(config, poller::open).unwrap();
        eprintln!("on {}", server.info().event_backend);
        test(&server);
        assert!(server.panics() == 0, "a turn panicked");
    }
    let server = Server::start_with::<ScriptedDoor>(
        {
            let mut config = config(Backend::Native);
            change(&mut config);
            config
        },
        oneshot,
    );
    test(&server.unwrap());
}

/// As on illumos: sources are reported once until they are re-armed.
fn oneshot(_: Backend) -> io::Result<Box<dyn Poller>> {
    poller::open_oneshot()
}

/// A client that sends and receives lines.
struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    fn connect(server: &Server) -> Peer {
        let stream = TcpStream::connect(server.addresses()[0].1).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer { stream: BufReader::new(stream) }
    }
    fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }
    fn send(&mut self, text: &str) -> &mut Peer {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
        self
    }
    /// The next line; empty at the end of the stream.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }
    /// The next line; `None` if the connection is closed, in good order or not.
    fn try_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_string())
    }
    fn ask(&mut self, text: &str) -> String {
        self.send(&format!("{text}\n")).line()
    }
    /// Reads until the server closes, in good order or not.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => rest,
        }
    }
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether clients connected and none is left.
fn gone(server: &Server) -> bool {
    let info = server.info();
    info.connections_total > 0 && info.connections == 0
}
