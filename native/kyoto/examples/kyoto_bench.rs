//! Nanoseconds per pipelined Kyoto Tycoon request, session and table together, without sockets:
//!
//!     cargo run --release -p todana_kyoto --features bench --example kyoto_bench -- \
//!         [keys] [value bytes] [depth]
//!
//! The host is the one of the tests: it counts commands and reads no clock. Bulks are counted by
//! the record.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use todana_command::Databases;
use todana_kyoto::KyotoSession;
use todana_kyoto::testing::FakeHost;
use todana_protocol::{Advance, Budget, Next, ProtocolName};
use todana_table::{Options, Table};

/// Pipelines per measurement.
const ROUNDS: usize = 20_000;

/// Different pipelines, so that neither keys nor branches stay warm by repetition.
const PIPELINES: usize = 4096;

/// What Kyoto Tycoon's own client sends with every procedure.
const POST: &str = "Host: :1978\r\nContent-Type: text/tab-separated-values\r\n";

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let keys: usize = numbers.next().unwrap_or(100_000);
    let value = "x".repeat(numbers.next().unwrap_or(100));
    let depth: usize = numbers.next().unwrap_or(16);
    let tables = std::array::from_fn(|_| Arc::new(Table::new(Options::default())));
    let mut host = FakeHost::on(Arc::new(Databases::new(tables)), ProtocolName::Kyoto);
    let mut session = KyotoSession::default();
    let budget = Budget { requests_max: usize::MAX, output_bytes_max: usize::MAX };
    let mut output = Vec::new();
    let name = |number: usize| format!("key:{number:012}");
    for number in 0..keys {
        let request = bulk(0xb8, &[set_record(&name(number), &value)]);
        session.advance(&request, &mut output, &mut host, budget);
        output.clear();
    }
    // A fixed walk over the keys, the same for every request.
    let mut random = 1_u64;
    let mut key = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        name((random >> 33) as usize % keys)
    };
    let rpc = |name: &str, rows: &str| {
        let length = rows.len();
        format!("POST /rpc/{name} HTTP/1.1\r\nContent-Length: {length}\r\n{POST}\r\n{rows}")
    };
    let put = |key: &str| {
        let length = value.len();
        format!("PUT /{key} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{value}")
    };
    type Request<'a> = (&'a str, Box<dyn Fn(&str) -> String + 'a>);
    let requests: [Request<'_>; 7] = [
        ("GET", Box::new(|key| format!("GET /{key} HTTP/1.1\r\nHost: localhost\r\n\r\n"))),
        (
            "GET, missing",
            Box::new(|key| format!("GET /{key}x HTTP/1.1\r\nHost: localhost\r\n\r\n")),
        ),
        ("PUT", Box::new(put)),
        ("/rpc/void", Box::new(|_| rpc("void", ""))),
        ("/rpc/get", Box::new(|key| rpc("get", &format!("key\t{key}\n")))),
        ("/rpc/set", Box::new(|key| rpc("set", &format!("key\t{key}\nvalue\t{value}\n")))),
        ("/rpc/get, short", Box::new(|key| format!("GET /rpc/get?key={key} HTTP/1.1\r\n\r\n"))),
    ];
    println!("{keys} keys of 16 bytes, values of {} bytes, pipelines of {depth}", value.len());
    let mut measure = |title: &str, pipelines: &[Vec<u8>]| {
        let best = (0..5).map(|_| {
            let start = Instant::now();
            for round in 0..ROUNDS {
                output.clear();
                let mut input = pipelines[round % pipelines.len()].as_slice();
                loop {
                    let progress = session.advance(input, &mut output, &mut host, budget);
                    input = &input[progress.consumed..];
                    if progress.next != Next::Yield {
                        break;
                    }
                }
                assert!(input.is_empty());
                black_box(&output);
            }
            start.elapsed().as_nanos() as f64 / (ROUNDS * depth) as f64
        });
        println!("{title:>16}: {:6.1} ns", best.fold(f64::MAX, f64::min));
    };
    for (title, request) in requests {
        let pipeline = |_| (0..depth).flat_map(|_| request(&key()).into_bytes()).collect();
        measure(title, &(0..PIPELINES).map(pipeline).collect::<Vec<_>>());
    }
    type Record<'a> = (&'a str, u8, Box<dyn Fn(&str) -> Vec<u8> + 'a>);
    let records: [Record<'_>; 3] = [
        ("set_bulk", 0xb8, Box::new(|key| set_record(key, &value))),
        ("get_bulk", 0xba, Box::new(record)),
        ("remove_bulk, none", 0xb9, Box::new(|key| record(&key[1..]))),
    ];
    for (title, magic, record) in records {
        let pipeline = |_| bulk(magic, &(0..depth).map(|_| record(&key())).collect::<Vec<_>>());
        measure(title, &(0..PIPELINES).map(pipeline).collect::<Vec<_>>());
    }
}

/// A binary request.
fn bulk(magic: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let count = records.len() as u32;
    [&[magic, 0, 0, 0, 0][..], &count.to_be_bytes(), &records.concat()].concat()
}

fn set_record(key: &str, value: &str) -> Vec<u8> {
    let sizes = [(key.len() as u32).to_be_bytes(), (value.len() as u32).to_be_bytes()].concat();
    [&[0, 0][..], &sizes, &i64::MAX.to_be_bytes(), key.as_bytes(), value.as_bytes()].concat()
}

fn record(key: &str) -> Vec<u8> {
    [&[0, 0][..], &(key.len() as u32).to_be_bytes(), key.as_bytes()].concat()
}
