//! Nanoseconds per pipelined memcached command, session and table together, without sockets:
//!
//!     cargo run --release -p todana_memcached --features bench --example memcached_bench -- \
//!         [keys] [value bytes] [depth]
//!
//! The host is the one of the tests: it counts commands and reads no clock.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use todana_command::Databases;
use todana_memcached::MemcachedSession;
use todana_memcached::testing::FakeHost;
use todana_protocol::{Advance, Budget, ProtocolName};
use todana_table::{Options, Table};

/// Pipelines per measurement.
const ROUNDS: usize = 40_000;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let keys: usize = numbers.next().unwrap_or(100_000);
    let value = "x".repeat(numbers.next().unwrap_or(100));
    let length = value.len();
    let depth: usize = numbers.next().unwrap_or(16);
    let tables = std::array::from_fn(|_| Arc::new(Table::new(Options::default())));
    let databases = Arc::new(Databases::new(tables));
    let mut host = FakeHost::on(databases, ProtocolName::Memcached);
    let mut session = MemcachedSession::default();
    let budget = Budget { requests_max: usize::MAX, output_bytes_max: usize::MAX };
    let mut output = Vec::new();
    let name = |number: usize| format!("key:{number:012}");
    for number in 0..keys {
        let request = format!("set {} 0 0 {length}\r\n{value}\r\n", name(number));
        session.advance(request.as_bytes(), &mut output, &mut host, budget);
    }
    // A fixed walk over the keys, the same for every command.
    let mut random = 1_u64;
    let mut key = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        name((random >> 33) as usize % keys)
    };
    // Ten keys far from each other, by the first.
    let ten = |key: &str| -> String {
        let first: usize = key[4..].parse().unwrap_or(0);
        (0..10).map(|n| format!(" {}", name((first + n * 7_919) % keys))).collect()
    };
    type Request<'a> = (&'a str, Box<dyn Fn(&str) -> String + 'a>);
    let requests: [Request<'_>; 9] = [
        ("mn", Box::new(|_| "mn\r\n".to_owned())),
        ("get", Box::new(|key| format!("get {key}\r\n"))),
        ("get, missing", Box::new(|key| format!("get {}\r\n", &key[1..]))),
        ("get, 10 keys", Box::new(|key| format!("get{}\r\n", ten(key)))),
        ("mg v", Box::new(|key| format!("mg {key} v\r\n"))),
        ("mg v k t f c", Box::new(|key| format!("mg {key} v k t f c\r\n"))),
        ("set", Box::new(|key| format!("set {key} 0 0 {length}\r\n{value}\r\n"))),
        ("ms", Box::new(|key| format!("ms {key} {length}\r\n{value}\r\n"))),
        ("delete, missing", Box::new(|key| format!("delete {}\r\n", &key[1..]))),
    ];
    println!("{keys} keys of 16 bytes, values of {length} bytes, pipelines of {depth}");
    for (title, request) in requests {
        // Several thousand different pipelines, so that neither keys nor branches stay warm by
        // repetition.
        let pipelines: Vec<String> =
            (0..4096).map(|_| (0..depth).map(|_| request(&key())).collect()).collect();
        let best = (0..5).map(|_| {
            let start = Instant::now();
            for round in 0..ROUNDS {
                output.clear();
                let input = pipelines[round % pipelines.len()].as_bytes();
                let progress = session.advance(input, &mut output, &mut host, budget);
                assert_eq!(progress.consumed, input.len());
                black_box(&output);
            }
            start.elapsed().as_nanos() as f64 / (ROUNDS * depth) as f64
        });
        println!("{title:>16}: {:6.1} ns", best.fold(f64::MAX, f64::min));
    }
}
