//! One connection to the server: it sends a batch of requests and reads the replies.

use crate::Tally;
use crate::arguments::Arguments;
use crate::protocol::{Answer, Protocol, reply};
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::time::Instant;

/// One connection: at most one batch in flight.
pub struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    awaited: usize,
    /// Requests in flight.
    batch: u64,
    /// The moment from which the latency of the batch counts.
    since: Instant,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The server has not answered all of it, or there was none.
    Waiting,
    Answered,
    /// The server has closed the connection.
    Lost,
}

impl Connection {
    /// Connects to the server; events have the token.
    pub fn open(
        arguments: &Arguments,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Connection> {
        let mut socket = std::net::TcpStream::connect(arguments.address)?;
        if let Some(level) = &arguments.read_level {
            choose_level(&mut socket, level)?;
        }
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        socket.register(registry, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Connection {
            socket,
            output: Vec::new(),
            sent: 0,
            input: Vec::new(),
            awaited: 0,
            batch: 0,
            since: Instant::now(),
        })
    }

    /// Sends a batch of `count` requests, which `write` appends to the output; `write` returns the
    /// number of replies. The latency counts from `since`.
    pub fn begin(&mut self, count: u64, since: Instant, write: impl FnOnce(&mut Vec<u8>) -> usize) {
        self.output.clear();
        self.sent = 0;
        self.batch = count;
        self.since = since;
        self.awaited = write(&mut self.output);
        // The rest is sent when the socket is writable; an error shows in the next read.
        let _ = self.send();
    }

    /// Sends and receives what is possible.
    pub fn advance(
        &mut self,
        protocol: Protocol,
        buffer: &mut [u8],
        tally: &mut Tally,
    ) -> Progress {
        if self.batch == 0 {
            return Progress::Waiting;
        }
        match self.exchange(protocol, buffer, tally) {
            Ok(()) if self.awaited > 0 => return Progress::Waiting,
            Ok(()) => {}
            Err(_) => {
                tally.connection_lost = true;
                self.batch = 0;
                return Progress::Lost;
            }
        }
        tally.requests += self.batch;
        tally.latency.add(self.since.elapsed().as_nanos() as u64, self.batch);
        self.batch = 0;
        Progress::Answered
    }

    fn exchange(
        &mut self,
        protocol: Protocol,
        buffer: &mut [u8],
        tally: &mut Tally,
    ) -> io::Result<()> {
        self.send()?;
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.take_replies(protocol, &buffer[..count], tally);
                    // A short read has emptied the socket: later bytes cause a new event.
                    if count < buffer.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

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
}

/// Sets the read level of a RESP connection to Todana.
fn choose_level(socket: &mut std::net::TcpStream, level: &str) -> io::Result<()> {
    const DONE: &[u8] = b"+OK\r\n";
    write!(socket, "*2\r\n$11\r\nTODANA.READ\r\n${}\r\n{level}\r\n", level.len())?;
    let mut answer = [0; DONE.len()];
    socket.read_exact(&mut answer)?;
    if answer == DONE { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
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
