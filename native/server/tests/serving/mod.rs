//! Code shared by the tests of the whole server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use todana_command::Databases;
use todana_protocol::ProtocolName;
use todana_server::{Backend, Config, Server};
use todana_table::{Budget, Options, Table, WhenFull};

/// Longer than anything takes on a machine that works.
const PATIENCE: Duration = Duration::from_secs(120);

/// All protocols on free ports, two loops.
pub(crate) fn config(backend: Backend, connections_max: usize) -> Config {
    let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Refuse));
    let options = Options { shards: Some(4), budget: Some(budget.clone()), ..Options::default() };
    let tables = std::array::from_fn(|_| Arc::new(Table::new(options.clone())));
    let address = "127.0.0.1:0".parse().unwrap();
    Config {
        databases: Arc::new(Databases::new(tables)),
        budget,
        listeners: [ProtocolName::Resp, ProtocolName::Memcached, ProtocolName::Kyoto]
            .map(|name| (name.into(), address))
            .to_vec(),
        event_loops: Some(2),
        event_backend: backend,
        connections_max: connections_max.into(),
        authentication_timeout_ms: 60_000,
        clients_memory_limit: Some(0).into(),
        tcp_keepalive_s: None,
        slow_log_us: None.into(),
        ..Config::default()
    }
}

/// Connects to a listener by its number.
pub(crate) fn connect(server: &Server, listener: usize) -> TcpStream {
    let stream = TcpStream::connect(server.addresses()[listener].1).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request and reads exactly as many bytes as the expected reply has.
pub(crate) fn expect(mut stream: &TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![0; answer.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), answer);
}

/// Waits until a condition holds.
#[allow(dead_code)]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
