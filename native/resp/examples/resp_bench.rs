//! Nanoseconds per pipelined RESP command, session and table together, without sockets:
//!
//! ```sh
//! cargo run --release -p todana_resp --features bench --example resp_bench -- \
//!     [keys] [value bytes] [depth]
//! ```
//!
//! The host is the one of the tests: it counts commands and reads no clock. If the system reports
//! the thread's own processor time (Linux), the benchmark uses it, so that other work on the
//! machine disturbs less.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use todana_command::Databases;
use todana_protocol::{Advance, Budget, ProtocolName};
use todana_resp::RespSession;
use todana_resp::testing::FakeHost;
use todana_table::{Options, Table};

/// Pipelines per measurement.
const ROUNDS: usize = 40_000;

fn array(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Processor time of this thread, or else the time since `epoch`.
fn now_ns(epoch: &Instant) -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let processor_ns = schedstat.split_whitespace().next().and_then(|word| word.parse().ok());
    processor_ns.unwrap_or_else(|| epoch.elapsed().as_nanos() as u64)
}

fn main() {
    let epoch = Instant::now();
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let keys: usize = numbers.next().unwrap_or(100_000);
    let value = vec![b'x'; numbers.next().unwrap_or(100)];
    let depth: usize = numbers.next().unwrap_or(16);
    let tables = std::array::from_fn(|_| Arc::new(Table::new(Options::default())));
    let databases = Arc::new(Databases::new(tables));
    let mut host = FakeHost::on(databases, ProtocolName::Resp);
    let mut session = RespSession::default();
    let name = |number: usize| format!("key:{number:012}").into_bytes();
    let budget = Budget { requests_max: usize::MAX, output_bytes_max: usize::MAX };
    let mut output = Vec::new();
    for number in 0..keys {
        session.advance(&array(&[b"SET", &name(number), &value]), &mut output, &mut host, budget);
    }
    // A fixed walk over the keys, the same for every command.
    let mut random = 1_u64;
    let mut key = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        name((random >> 33) as usize % keys)
    };
    type Request<'a> = (&'a str, Box<dyn Fn(&[u8]) -> Vec<u8> + 'a>);
    let requests: [Request<'_>; 7] = [
        ("PING", Box::new(|_| array(&[b"PING"]))),
        ("GET", Box::new(|key| array(&[b"GET", key]))),
        ("GET, missing", Box::new(|key| array(&[b"GET", &key[1..]]))),
        ("SET", Box::new(|key| array(&[b"SET", key, &value]))),
        ("EXISTS", Box::new(|key| array(&[b"EXISTS", key]))),
        ("SET EX", Box::new(|key| array(&[b"SET", key, &value, b"EX", b"100"]))),
        ("DEL, missing", Box::new(|key| array(&[b"DEL", &key[1..]]))),
    ];
    println!("{keys} keys of 16 bytes, values of {} bytes, pipelines of {depth}", value.len());
    for (title, request) in requests {
        // Several thousand different pipelines, so that neither keys nor branches stay warm by
        // repetition.
        let pipelines: Vec<Vec<u8>> =
            (0..4096).map(|_| (0..depth).flat_map(|_| request(&key())).collect()).collect();
        let best = (0..5).map(|_| {
            let start = now_ns(&epoch);
            for round in 0..ROUNDS {
                output.clear();
                let input = &pipelines[round % pipelines.len()];
                let progress = session.advance(input, &mut output, &mut host, budget);
                assert_eq!(progress.consumed, input.len());
                black_box(&output);
            }
            (now_ns(&epoch) - start) as f64 / (ROUNDS * depth) as f64
        });
        println!("{title:>14}: {:6.1} ns", best.fold(f64::MAX, f64::min));
    }
}
