//! A load generator for RESP, memcached text and Kyoto Tycoon.
//!
//! In a closed loop, each connection sends a batch of `--pipeline` requests, waits for all their
//! replies, and sends the next batch; the latency of a batch counts for each of its requests. With
//! `--rate`, the loop is open: requests are due at random moments, and the latency of each counts
//! from that moment. Threads share only the clock.
//!
//! The program connects, prints `ready`, waits for a line on standard input, works for `--seconds`
//! (or `--requests`), prints one line of JSON, and closes its connections when standard input ends.
//! The caller reads CPU times after `ready` and before the end, so connecting and closing are not
//! measured.

mod alarm;
mod arguments;
mod client;
mod connection;
mod histogram;
mod pace;
mod protocol;
mod random;

use arguments::Arguments;
use histogram::Histogram;
use std::io::{BufRead, Write};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// The results of one thread.
#[derive(Default)]
struct Tally {
    requests: u64,
    misses: u64,
    errors: u64,
    latency: Histogram,
    connection_lost: bool,
}

impl Tally {
    /// Adds the results of another thread.
    fn merge(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.misses += other.misses;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
        self.connection_lost |= other.connection_lost;
    }
}

fn main() {
    let arguments = Arguments::from_command_line();
    let claimed = Arc::new(AtomicU64::new(0));
    let begin = Arc::new(Barrier::new(arguments.threads + 1));
    let connected = Arc::new(Barrier::new(arguments.threads + 1));
    let workers: Vec<_> = (0..arguments.threads)
        .map(|thread| {
            let (arguments, claimed) = (arguments.clone(), claimed.clone());
            let (begin, connected) = (begin.clone(), connected.clone());
            std::thread::spawn(move || {
                let mut worker = client::Worker::connect(&arguments, thread);
                connected.wait();
                begin.wait();
                let tally = worker.run(&arguments, &claimed);
                (tally, worker)
            })
        })
        .collect();
    connected.wait();
    println!("ready");
    std::io::stdout().flush().expect("standard output is open");
    std::io::stdin().lock().read_line(&mut String::new()).expect("standard input is open");
    let started = Instant::now();
    begin.wait();
    let mut total = Tally::default();
    let mut done = Vec::new();
    for worker in workers {
        let (tally, worker) = worker.join().expect("a worker does not panic");
        done.push(worker);
        total.merge(&tally);
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", report(&total, seconds));
    std::io::stdout().flush().expect("standard output is open");
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).expect("standard input");
    drop(done);
}

fn report(total: &Tally, seconds: f64) -> String {
    let percentile = |share: f64| total.latency.percentile(share) as f64 / 1_000.0;
    format!(
        "{{\"requests\": {}, \"seconds\": {:.6}, \"requests_per_second\": {:.1}, \
          \"misses\": {}, \"errors\": {}, \"connection_lost\": {}, \
          \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}, \"max_us\": {:.1}}}",
        total.requests,
        seconds,
        total.requests as f64 / seconds,
        total.misses,
        total.errors,
        total.connection_lost,
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        total.latency.max() as f64 / 1_000.0,
    )
}
