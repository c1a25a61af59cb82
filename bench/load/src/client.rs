//! The connections of one thread, and the two loops that drive them.
//!
//! In the closed loop, each connection sends its next batch when the last one is answered. In the
//! open loop, a request is sent when it is due, by a connection that is free. If none is free, the
//! request waits for one: its latency counts from the moment at which it was due, and so do those
//! of the requests behind it. A slow reply therefore shows in all requests that it delays.

use crate::Tally;
use crate::alarm::Alarm;
use crate::arguments::Arguments;
use crate::connection::{Connection, Progress};
use crate::pace::Pace;
use crate::protocol::Requests;
use crate::random::Random;
use mio::{Events, Poll, Token};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const READ_BYTES: usize = 64 << 10;
const EVENTS: usize = 1_024;
/// A server that sends nothing for this time, although a reply is due, is lost.
const SILENCE: Duration = Duration::from_secs(10);
/// The token of the timer; those of connections are their places.
const ALARM: Token = Token(usize::MAX);
/// Threads have seeds that differ by this.
const SEED_STEP: u64 = 0x9E37_79B9;

/// The connections of one thread.
pub struct Worker {
    poll: Poll,
    connections: Vec<Connection>,
    /// The first `active` connections send; the others are open and silent.
    active: usize,
    requests: Requests,
    seed: u64,
    random: Random,
    received: Vec<u8>,
}

impl Worker {
    /// Opens this thread's share of the connections.
    pub fn connect(arguments: &Arguments, thread: usize) -> Worker {
        let share = |count: usize| (count + thread) / arguments.threads;
        let mut poll = Poll::new().expect("the system has a poller");
        let connections = (0..share(arguments.connections))
            .map(|index| {
                Connection::open(arguments, poll.registry(), Token(index))
                    .expect("the server accepts, and has this read level")
            })
            .collect();
        // Each new socket reports once that it is writable; that is not part of the run.
        let mut events = Events::with_capacity(EVENTS);
        loop {
            poll.poll(&mut events, Some(Duration::ZERO)).expect("the system has a poller");
            if events.is_empty() {
                break;
            }
        }
        let requests = Requests::new(
            arguments.protocol,
            arguments.operation,
            arguments.value_bytes,
            arguments.ttl_s,
        );
        let seed = arguments.seed.wrapping_add(thread as u64 * SEED_STEP);
        Worker {
            poll,
            connections,
            active: share(arguments.sending()),
            requests,
            seed,
            random: Random::new(seed),
            received: vec![0; READ_BYTES],
        }
    }

    /// Works until the time or the number of requests is over and every reply has arrived.
    pub fn run(&mut self, arguments: &Arguments, claimed: &AtomicU64) -> Tally {
        let start = Instant::now();
        let span = Span {
            deadline: start + Duration::from_secs_f64(arguments.seconds),
            requests: arguments.requests,
            claimed,
        };
        let mut tally = Tally::default();
        match arguments.rate {
            _ if self.active == 0 => {}
            None => self.run_closed(arguments, &span, &mut tally),
            Some(rate) => {
                let share = self.active as f64 / arguments.sending() as f64;
                // Keys and moments are drawn from different sequences.
                let pace = Pace::new(start, rate.get() as f64 * share, !self.seed);
                self.run_open(arguments, &span, pace, &mut tally);
            }
        }
        tally
    }

    /// Each connection sends a batch when the last one is answered.
    fn run_closed(&mut self, arguments: &Arguments, span: &Span, tally: &mut Tally) {
        let mut events = Events::with_capacity(EVENTS);
        let mut busy = 0;
        for index in 0..self.active {
            busy += usize::from(self.begin(index, Instant::now(), arguments, span));
        }
        while busy > 0 {
            self.wait(&mut events, SILENCE);
            if events.is_empty() {
                tally.connection_lost = true;
                return;
            }
            for event in &events {
                let index = event.token().0;
                match self.advance(index, arguments, tally) {
                    Progress::Waiting => {}
                    Progress::Answered => {
                        let continues = self.begin(index, Instant::now(), arguments, span);
                        busy -= usize::from(!continues);
                    }
                    Progress::Lost => busy -= 1,
                }
            }
        }
    }

    /// A request is sent when it is due, or as soon as a connection is free after that. A lost
    /// connection ends the run.
    fn run_open(&mut self, arguments: &Arguments, span: &Span, mut pace: Pace, tally: &mut Tally) {
        let mut events = Events::with_capacity(EVENTS);
        let mut alarm = Alarm::open(self.poll.registry(), ALARM).expect("the system has timers");
        let mut free: Vec<usize> = (0..self.active).collect();
        let mut is_over = false;
        loop {
            is_over = is_over || !self.send_due(&mut pace, &mut free, arguments, span);
            if is_over && free.len() == self.active {
                return;
            }
            if !is_over && !free.is_empty() {
                alarm.set(pace.due()).expect("an open timer");
            }
            self.wait(&mut events, SILENCE);
            if events.is_empty() && free.len() < self.active {
                tally.connection_lost = true;
                return;
            }
            for event in events.iter().filter(|event| event.token() != ALARM) {
                let index = event.token().0;
                match self.advance(index, arguments, tally) {
                    Progress::Waiting => {}
                    Progress::Answered => free.push(index),
                    Progress::Lost => return,
                }
            }
        }
    }

    /// Sends the requests that are due, as long as connections are free; false if the run is over.
    fn send_due(
        &mut self,
        pace: &mut Pace,
        free: &mut Vec<usize>,
        arguments: &Arguments,
        span: &Span,
    ) -> bool {
        while !free.is_empty() && pace.due() <= Instant::now() {
            let place = self.random.below(free.len() as u64) as usize;
            if !self.begin(free[place], pace.due(), arguments, span) {
                return false;
            }
            free.swap_remove(place);
            pace.advance();
        }
        true
    }

    /// Waits for events; there are none after the time.
    fn wait(&mut self, events: &mut Events, timeout: Duration) {
        while let Err(error) = self.poll.poll(events, Some(timeout)) {
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "the poller failed: {error}");
        }
    }

    /// Sends the next batch of a connection, whose latency counts from `since`; false if there is
    /// nothing left to do.
    fn begin(&mut self, index: usize, since: Instant, arguments: &Arguments, span: &Span) -> bool {
        let numbers = span.claim(since, arguments.pipeline as u64);
        if numbers.is_empty() {
            return false;
        }
        let count = numbers.end - numbers.start;
        let (requests, random) = (&self.requests, &mut self.random);
        self.connections[index].begin(count, since, |output| {
            let replies = requests.begin(output, count);
            for number in numbers {
                let key = match arguments.sequential {
                    true => number,
                    false => random.below(arguments.keys),
                };
                requests.write(output, key);
            }
            replies
        });
        true
    }

    fn advance(&mut self, index: usize, arguments: &Arguments, tally: &mut Tally) -> Progress {
        self.connections[index].advance(arguments.protocol, &mut self.received, tally)
    }
}

/// The requests of a run: those that begin before the deadline, or a number that the threads share.
struct Span<'a> {
    deadline: Instant,
    requests: Option<u64>,
    claimed: &'a AtomicU64,
}

impl Span<'_> {
    /// Claims up to `wanted` requests that begin at a moment, and returns their numbers. Without a
    /// number of requests, each batch counts from 0.
    fn claim(&self, moment: Instant, wanted: u64) -> Range<u64> {
        match self.requests {
            Some(requests) => {
                let first = self.claimed.fetch_add(wanted, Ordering::Relaxed);
                first..(first + wanted).min(requests)
            }
            None if moment < self.deadline => 0..wanted,
            None => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;

    const REQUEST_BYTES: usize = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n".len();

    /// A server that answers each GET with a miss, after `before_reply` of the number of requests
    /// that it has answered returns.
    fn server(before_reply: impl Fn(&AtomicU64) + Send + Sync + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an open socket");
        let before_reply = Arc::new(before_reply);
        let answered = Arc::new(AtomicU64::new(0));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (before_reply, answered) = (before_reply.clone(), answered.clone());
                thread::spawn(move || answer(socket.expect("a client"), &*before_reply, &answered));
            }
        });
        address
    }

    fn answer(mut socket: TcpStream, before_reply: &impl Fn(&AtomicU64), answered: &AtomicU64) {
        while socket.read_exact(&mut [0; REQUEST_BYTES]).is_ok() {
            before_reply(answered);
            if socket.write_all(b"$-1\r\n").is_err() {
                return;
            }
            answered.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The results of all threads, one after the other.
    fn run(address: SocketAddr, options: &str) -> Tally {
        let words = format!("--address {address} --protocol resp --operation get {options}");
        let arguments =
            Arguments::parse(words.split(' ').map(str::to_owned)).expect("valid options");
        let claimed = AtomicU64::new(0);
        let mut total = Tally::default();
        for thread in 0..arguments.threads {
            total.merge(&Worker::connect(&arguments, thread).run(&arguments, &claimed));
        }
        assert!(!total.connection_lost && total.errors == 0);
        total
    }

    #[test]
    fn a_closed_loop_makes_the_given_number_of_requests() {
        let tally = run(server(|_| {}), "--connections 3 --pipeline 4 --requests 101");
        assert_eq!((tally.requests, tally.misses), (101, 101));
    }

    #[test]
    fn an_open_loop_makes_the_given_number_of_requests() {
        let tally = run(server(|_| {}), "--connections 3 --rate 10000 --requests 101");
        assert_eq!((tally.requests, tally.misses), (101, 101));
    }

    #[test]
    fn every_request_that_is_due_before_the_end_is_made() {
        let seconds = 0.2;
        let start = Instant::now();
        let mut pace = Pace::new(start, 1_000.0, !7);
        let mut due = 0;
        while pace.due() < start + Duration::from_secs_f64(seconds) {
            pace.advance();
            due += 1;
        }
        // The server is slower than the rate: the run takes longer than the given time.
        let address = server(|_| thread::sleep(Duration::from_millis(2)));
        let options = format!("--connections 1 --rate 1000 --seconds {seconds} --seed 7");
        assert_eq!(run(address, &options).requests, due);
        assert!(start.elapsed().as_secs_f64() > seconds);
    }

    #[test]
    fn threads_share_the_rate() {
        let options = "--connections 3 --threads 2 --rate 2000 --seconds 0.2";
        let tally = run(server(|_| {}), options);
        assert!((340..=460).contains(&tally.requests), "{}", tally.requests);
    }

    #[test]
    fn a_request_does_not_wait_for_the_replies_of_others() {
        // The first request is answered only after ten others.
        let is_held = AtomicU64::new(0);
        let address = server(move |answered| {
            if is_held.fetch_add(1, Ordering::SeqCst) == 0 {
                while answered.load(Ordering::SeqCst) < 10 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let tally = run(address, "--connections 2 --rate 1000 --requests 30");
        assert_eq!(tally.requests, 30);
    }

    #[test]
    fn the_wait_for_a_free_connection_is_part_of_the_latency() {
        let address = server(|answered| {
            if answered.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(200));
            }
        });
        // All requests are due within about 50 ms, when the first one has no reply yet.
        let tally = run(address, "--connections 1 --rate 1000 --requests 50");
        assert!(tally.latency.percentile(0.1) > 50_000_000, "{}", tally.latency.percentile(0.1));
    }
}
