//! Connections, and the loop that drives them.

use crate::Tally;
use crate::arguments::Arguments;
use crate::protocol::{Answer, Protocol, Requests, reply};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const READ_BYTES: usize = 64 << 10;

/// One connection: at most one batch in flight.
struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    awaited: usize,
    batch: u64,
    sent_at: Instant,
}

/// The connections of one thread.
pub struct Worker {
    poll: Poll,
    connections: Vec<Connection>,
    /// The first `active` connections send; the others are open and silent.
    active: usize,
    requests: Requests,
    random: u64,
    received: Vec<u8>,
}

impl Worker {
    /// Opens this thread's share of the connections.
    pub fn connect(arguments: &Arguments, thread: usize) -> Worker {
        let share = (arguments.connections + thread) / arguments.threads;
        let active = arguments.active.unwrap_or(arguments.connections);
        let active = ((active + thread) / arguments.threads).min(share);
        let mut poll = Poll::new().expect("the system has a poller");
        let connections = (0..share)
            .map(|index| {
                let mut socket =
                    std::net::TcpStream::connect(arguments.address).expect("the server accepts");
                if let Some(level) = &arguments.read_level {
                    choose_level(&mut socket, level).expect("the server has this read level");
                }
                socket.set_nodelay(true).expect("an open socket");
                socket.set_nonblocking(true).expect("an open socket");
                let mut socket = TcpStream::from_std(socket);
                poll.registry()
                    .register(&mut socket, Token(index), Interest::READABLE | Interest::WRITABLE)
                    .expect("an open socket");
                Connection {
                    socket,
                    output: Vec::new(),
                    sent: 0,
                    input: Vec::new(),
                    awaited: 0,
                    batch: 0,
                    sent_at: Instant::now(),
                }
            })
            .collect();
        // Each new socket reports once that it is writable; that is not part of the run.
        let mut events = Events::with_capacity(1_024);
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
        Worker {
            poll,
            connections,
            active,
            requests,
            random: arguments.seed.wrapping_add(thread as u64 * 0x9E37_79B9),
            received: vec![0; READ_BYTES],
        }
    }

    /// Works until the time or the number of requests is over and every reply has arrived.
    pub fn run(&mut self, arguments: &Arguments, claimed: &AtomicU64) -> Tally {
        let mut tally = Tally::default();
        let mut events = Events::with_capacity(1_024);
        let deadline = Instant::now() + Duration::from_secs_f64(arguments.seconds);
        let mut busy = 0;
        for index in 0..self.active {
            busy += usize::from(self.begin(index, arguments, claimed, deadline));
        }
        while busy > 0 {
            match self.poll.poll(&mut events, Some(Duration::from_secs(10))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("the poller failed: {error}"),
                Ok(()) if events.is_empty() => {
                    tally.connection_lost = true;
                    break;
                }
                Ok(()) => {}
            }
            for event in &events {
                let index = event.token().0;
                if self.connections[index].batch == 0 {
                    continue;
                }
                match self.connections[index].advance(
                    arguments.protocol,
                    &mut self.received,
                    &mut tally,
                ) {
                    Ok(true) => {
                        busy -= usize::from(!self.begin(index, arguments, claimed, deadline))
                    }
                    Ok(false) => {}
                    Err(_) => {
                        tally.connection_lost = true;
                        self.connections[index].batch = 0;
                        busy -= 1;
                    }
                }
            }
        }
        tally
    }

    /// Sends the next batch of a connection; false if there is nothing left to do.
    fn begin(
        &mut self,
        index: usize,
        arguments: &Arguments,
        claimed: &AtomicU64,
        deadline: Instant,
    ) -> bool {
        let now = Instant::now();
        let pipeline = arguments.pipeline as u64;
        let first = claimed_from(arguments, claimed, pipeline);
        let count = match arguments.requests {
            Some(requests) => requests.saturating_sub(first).min(pipeline),
            None if now < deadline => pipeline,
            None => 0,
        };
        let connection = &mut self.connections[index];
        connection.batch = count;
        if count == 0 {
            return false;
        }
        connection.output.clear();
        connection.sent = 0;
        connection.awaited = self.requests.begin(&mut connection.output, count);
        for offset in 0..count {
            let key = match arguments.sequential {
                true => first + offset,
                false => next_random(&mut self.random) % arguments.keys,
            };
            self.requests.write(&mut connection.output, key);
        }
        connection.sent_at = now;
        // The rest is sent when the socket is writable; an error shows in the next read.
        let _ = connection.send();
        true
    }
}

/// Sets the read level of a RESP connection to Todana.
fn choose_level(socket: &mut std::net::TcpStream, level: &str) -> io::Result<()> {
    const DONE: &[u8] = b"+OK\r\n";
    write!(socket, "*2\r\n$11\r\nTODANA.READ\r\n${}\r\n{level}\r\n", level.len())?;
    let mut answer = [0; DONE.len()];
    socket.read_exact(&mut answer)?;
    if answer == DONE { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn claimed_from(arguments: &Arguments, claimed: &AtomicU64, pipeline: u64) -> u64 {
    match arguments.requests {
        Some(_) => claimed.fetch_add(pipeline, Ordering::Relaxed),
        None => 0,
    }
}

/// xorshift64*: good enough to draw keys.
fn next_random(state: &mut u64) -> u64 {
    *state = (*state).max(1);
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
}

impl Connection {
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends and receives what is possible; true when the batch is answered.
    fn advance(
        &mut self,
        protocol: Protocol,
        buffer: &mut [u8],
        tally: &mut Tally,
    ) -> io::Result<bool> {
        self.send()?;
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.take_replies(protocol, &buffer[..count], tally);
                    // A short read has emptied the socket: later bytes cause a new event.
                    if count < buffer.len() {
                        return Ok(self.finish(tally));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(self.finish(tally));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts the complete replies; only an incomplete reply is copied, until the rest arrives.
    fn take_replies(&mut self, protocol: Protocol, received: &[u8], tally: &mut Tally) {
        if self.input.is_empty() {
            let taken = count_replies(protocol, received, &mut self.awaited, tally);
            self.input.extend_from_slice(&received[taken..]);
        } else {
            self.input.extend_from_slice(received);
            let taken = count_replies(protocol, &self.input, &mut self.awaited, tally);
            self.input.drain(..taken);
        }
    }

    fn finish(&mut self, tally: &mut Tally) -> bool {
        if self.awaited > 0 {
            return false;
        }
        tally.requests += self.batch;
        tally.latency.add(self.sent_at.elapsed().as_nanos() as u64, self.batch);
        true
    }
}

/// Counts the complete replies at the start of the input, and returns their length.
fn count_replies(
    protocol: Protocol,
    input: &[u8],
    awaited: &mut usize,
    tally: &mut Tally,
) -> usize {
    let mut at = 0;
    while *awaited > 0 {
        let Some((length, answer)) = reply(protocol, &input[at..]) else { break };
        at += length;
        *awaited -= 1;
        tally.misses += u64::from(answer == Answer::Miss);
        tally.errors += u64::from(answer == Answer::Error);
    }
    at
}
