//! One connection: a socket, its session, and whatever bytes had to be kept between turns.
//!
//! An idle connection keeps none: bytes are received into the loop's buffer and replies are made in
//! the loop's buffer. Only an incomplete request, or replies that the client does not take, move
//! into buffers of its own, and those are given back as soon as they are empty.

mod buffers;
mod outgoing;
#[cfg(test)]
mod tests;

pub(crate) use buffers::{NO_SIGNAL, say_goodbye};

use crate::clock::{Clock, Moment};
use crate::door::{self, Door, Refusal};
use crate::host::{Shared, TurnHost};
use crate::poller::{Interest, Ready};
use crate::statistics::LoopStatistics;
use crate::waiters::{Place, Wait};
use outgoing::Outgoing;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_protocol::{Budget, Client, Next, ProtocolName};

/// Size of a loop's buffer for input: what one turn receives at most of small requests.
pub(crate) const INPUT_BYTES: usize = 64 << 10;
/// An incomplete request up to this length goes on in the loop's buffer; a longer one in the
/// connection's own.
const CARRY_BYTES_MAX: usize = 16 << 10;
/// A request of which so much has come is received into a buffer for all of it.
const LARGE_BYTES: usize = 1 << 20;
/// What one turn of a connection may do before others have theirs.
const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 256 << 10 };
/// A client that sends no more sleeps on for so long at most: it may have left, and have asked for
/// many sleeps before. No single sleep is longer. Tests do not wait as long.
const ENDED_SLEEP_NS_MAX: u64 = if cfg!(test) { 3_000_000_000 } else { 60_000_000_000 };

/// What a connection needs from its loop during a turn.
pub(crate) struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) statistics: &'a LoopStatistics,
    pub(crate) clock: &'a Clock,
    /// The loop's number and the connection's slot.
    pub(crate) place: Place,
    /// The loop's buffers. Empty between turns.
    pub(crate) input: &'a mut Vec<u8>,
    pub(crate) output: &'a mut Vec<u8>,
}

/// What is to become of a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on when its socket is ready.
    Wait,
    /// It has more to execute: another turn, after the others had theirs.
    Yield,
    /// It goes on after so many milliseconds.
    Sleep {
        ms: u64,
    },
    Close,
}

pub(crate) struct Connection<D> {
    socket: TcpStream,
    pub(crate) client: Arc<Client>,
    session: D,
    /// Bytes received and not consumed begin at `input_start`.
    input: Vec<u8>,
    input_start: usize,
    /// The request under way is known to lack so many bytes.
    wanted: usize,
    /// Replies that were not sent.
    output: Outgoing,
    /// Since when more than the soft limit waits, in milliseconds of wall time; 0 if it does not.
    over_soft_since_ms: u64,
    /// What the poller watches for.
    pub(crate) interest: Interest,
    /// The loop will call for another turn by itself.
    pub(crate) queued: bool,
    /// When `Next::Sleep` or `Next::Wait` is over, by the loop's clock.
    pub(crate) wakes_at_ns: Option<u64>,
    /// Of these two it is `Next::Sleep`: replies are held back until then.
    mute: bool,
    /// When the loop first saw, while replies were held back, that the client sends no more.
    end_seen_at_ns: Option<u64>,
    /// The condition that the session waits for.
    wait: Option<Wait>,
    /// Input holds what the session has not looked at yet.
    pending: bool,
    /// The client will send nothing more.
    ended: bool,
    /// Nothing more is executed; the connection closes when its output is sent.
    closing: bool,
    authenticated: bool,
    /// Bytes told to the loop's gauge.
    pub(crate) held_bytes: u64,
}

impl<D: Door> Connection<D> {
    pub(crate) fn new(socket: TcpStream, client: Arc<Client>, authenticated: bool) -> Self {
        Connection {
            session: D::open(client.protocol),
            socket,
            client,
            input: Vec::new(),
            input_start: 0,
            wanted: 0,
            output: Outgoing::default(),
            over_soft_since_ms: 0,
            interest: Interest::READ,
            queued: false,
            wakes_at_ns: None,
            mute: false,
            end_seen_at_ns: None,
            wait: None,
            pending: false,
            ended: false,
            closing: false,
            authenticated,
            held_bytes: 0,
        }
    }

    /// Does what the socket is ready for and what is pending: at most one receive, one execution
    /// and one send.
    pub(crate) fn turn(&mut self, turn: &mut Turn<'_>, ready: Ready) -> Verdict {
        let sleeping = self.wakes_at_ns.is_some();
        let mute = sleeping && self.mute;
        if sleeping && (ready.gone || !mute && ready.readable && self.has_left()) {
            return Verdict::Close;
        }
        if ready.writable && !mute && self.waiting() > 0 && self.flush(turn).is_err() {
            return Verdict::Close;
        }
        if sleeping {
            self.note_held(turn.statistics);
            return Verdict::Wait;
        }
        let held = self.closing || self.waiting() > turn.shared.config.output_bytes_soft;
        let verdict = match () {
            () if held || self.queued => self.settle(ready),
            () if self.pending => {
                // The client is not silent: its own request is under way.
                let now = turn.clock.now();
                self.client.active_at_ms.store(now.wall_ms(), Relaxed);
                self.execute(turn, false, now)
            }
            () if ready.readable && !self.ended => self.receive(turn),
            () => self.settle(ready),
        };
        self.note_held(turn.statistics);
        verdict
    }

    /// Whether this connection sleeps and is not watched for reading, since input waits that nobody
    /// wants yet: then the poller does not hear of the client's end.
    pub(crate) fn hides_its_end(&self) -> bool {
        self.wakes_at_ns.is_some() && !self.interest.read
    }

    /// Whether the client of a waiting connection has ended it. What it sent before that and was
    /// not received yet hides the end from this call; the loop looks for such ends once a second
    /// ([`Connection::hides_its_end`]).
    ///
    /// A client that ended only its sending side, and would still take a reply, looks the same:
    /// the two can be told apart by sending something, and there is nothing to send. While it
    /// waits for a signal it is taken for one that has left, so that no signal is spent on a
    /// client that nobody is behind. An answer that is held back is sent all the same: see
    /// [`Connection::has_left_by`].
    fn has_left(&self) -> bool {
        let mut byte = [0u8];
        match rustix::net::recv(&self.socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, received)) => received == 0,
            Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }

    /// Whether a sleeping client whose end was seen is to be closed. Where an answer is held back,
    /// the client may still read it, for so long.
    pub(crate) fn has_left_by(&mut self, now_ns: u64) -> bool {
        if !self.mute {
            return true;
        }
        let seen_at_ns = *self.end_seen_at_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(seen_at_ns) >= ENDED_SLEEP_NS_MAX
    }

    /// Nothing to do now: is there anything to wait for?
    fn settle(&self, ready: Ready) -> Verdict {
        let done = self.waiting() == 0 && (self.closing || self.ended && !self.pending);
        if done || ready.gone { Verdict::Close } else { Verdict::Wait }
    }

    /// One receive, then as many requests as the budget allows.
    fn receive(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if self.held_bytes > 0 && turn.shared.condemned_bytes.load(Relaxed) > 0 {
            // Clients hold too much, and another loop is about to close those that hold most.
            return Verdict::Wait;
        }
        let carried = self.input.len();
        let in_loop_buffer = carried <= CARRY_BYTES_MAX;
        let buffer = if in_loop_buffer {
            turn.input.extend_from_slice(&self.input);
            &mut *turn.input
        } else {
            // Memory follows what the client has sent, not what it announced. Address space for a
            // large request is taken at once: to grow it would copy what is there.
            let large = carried >= LARGE_BYTES && self.input.try_reserve_exact(self.wanted).is_ok();
            if !large {
                let most = carried.max(INPUT_BYTES);
                self.input.reserve_exact(self.wanted.clamp(CARRY_BYTES_MAX, most));
            }
            &mut self.input
        };
        let room = rustix::buffer::spare_capacity(buffer);
        let received = match rustix::net::recv(&self.socket, room, RecvFlags::empty()) {
            Ok((_, received)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Verdict::Wait,
            Err(_) => return Verdict::Close,
        };
        if received == 0 {
            // Whatever was complete has been executed: the rest never will be.
            self.ended = true;
            return self.settle(Ready { token: 0, readable: false, writable: false, gone: false });
        }
        // Not before: what was received may not be older than its own time.
        let now = turn.clock.now();
        turn.statistics.input_bytes.add(received as u64);
        let traffic = &self.client.traffic_bytes[0];
        traffic.store(traffic.load(Relaxed) + received as u64, Relaxed);
        self.client.active_at_ms.store(now.wall_ms(), Relaxed);
        if received < self.wanted {
            self.wanted -= received;
            if in_loop_buffer {
                self.keep_input(turn.input, 0);
            }
            return Verdict::Wait;
        }
        self.execute(turn, in_loop_buffer, now)
    }

    /// Has the session execute what is in the loop's buffer or in the connection's own, and sends
    /// the replies.
    fn execute(&mut self, turn: &mut Turn<'_>, in_loop_buffer: bool, now: Moment) -> Verdict {
        let Turn { shared, statistics, clock, place, .. } = *turn;
        let input = if in_loop_buffer { &turn.input[..] } else { &self.input[self.input_start..] };
        let wait = &mut self.wait;
        let mut host = TurnHost::begin(shared, statistics, clock, &self.client, place, wait, now);
        let progress = self.session.advance(input, turn.output, &mut host, BUDGET);
        let (authenticated, mut splices) = host.finish();
        self.authenticated |= authenticated;
        if in_loop_buffer {
            self.keep_input(turn.input, progress.consumed);
        } else {
            self.input_start += progress.consumed;
            self.trim_input(matches!(progress.next, Next::Read { .. }));
        }
        (self.pending, self.wanted) = (false, 0);
        let mut wait_ms = None;
        match progress.next {
            Next::Read { wanted } => {
                let length = self.input.len().saturating_add(wanted);
                if length > shared.config.input_bytes_max {
                    let words = door::words(self.client.protocol, Refusal::InputTooLong);
                    turn.output.extend_from_slice(words);
                    self.close_after_output();
                } else {
                    self.wanted = wanted;
                }
            }
            Next::Yield => self.pending = true,
            Next::Sleep { ms } => {
                // As in Redis, what was answered before goes out after the sleep.
                (self.pending, self.mute) = (true, true);
                self.output.push_spliced(turn.output, &mut splices);
                self.end_wait(shared);
                return Verdict::Sleep { ms };
            }
            Next::Wait { ms } => {
                (self.pending, self.mute) = (true, false);
                wait_ms = Some(ms);
            }
            Next::Close => self.close_after_output(),
        }
        if wait_ms.is_none() {
            self.end_wait(shared);
        }
        if self.deliver(turn, &mut splices).is_err() {
            return Verdict::Close;
        }
        if self.waiting() > shared.config.output_bytes_hard {
            statistics.output_limit_disconnections.add(1);
            return Verdict::Close;
        }
        if let Some(ms) = wait_ms {
            return Verdict::Sleep { ms };
        }
        match self.settle(Ready { token: 0, readable: false, writable: false, gone: false }) {
            Verdict::Wait if self.pending && !self.is_held(shared) => Verdict::Yield,
            verdict => verdict,
        }
    }

    /// Whether so much output waits that nothing more is executed.
    fn is_held(&self, shared: &Shared) -> bool {
        self.waiting() > shared.config.output_bytes_soft
    }

    /// Whether the session waits by this ticket.
    pub(crate) fn waits_by(&self, ticket: u64) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.ticket == ticket)
    }

    /// Takes the client out of the queue of the condition that it waits for.
    fn end_wait(&mut self, shared: &Shared) {
        if let Some(wait) = self.wait.take() {
            shared.waiters.end(wait);
        }
    }

    /// Executes nothing more and closes when the output is sent.
    pub(crate) fn close_after_output(&mut self) {
        self.closing = true;
        self.pending = false;
        self.input = Vec::new();
        self.input_start = 0;
    }

    /// Says why the connection is closed for the memory of all clients, where the client has taken
    /// its replies so far and none is sent in part.
    pub(crate) fn say_evicted(&mut self) {
        if self.waiting() == 0 && !self.session.is_mid_reply() {
            let words = door::words(self.client.protocol, Refusal::ClientsHoldTooMuch);
            self.output.push(words.to_vec(), 0);
        }
    }

    /// Tries once to send what waits. True if nothing waits any more or never will be sent.
    pub(crate) fn last_flush(&mut self, turn: &Turn<'_>) -> bool {
        self.waiting() == 0 || self.flush(turn).is_err() || self.waiting() == 0
    }

    /// Bytes of replies that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.output.len()
    }

    /// What the poller should watch for. A reason not to read that will pass by itself changes
    /// nothing unless the poller was heard in vain (`unheard`): that saves two system calls
    /// where it does pass.
    pub(crate) fn interest_wanted(&self, shared: &Shared, unheard: bool) -> Interest {
        let never = self.ended || self.closing;
        let sleeping = self.wakes_at_ns.is_some();
        let passing = sleeping || self.is_held(shared);
        Interest {
            read: !never && (!passing || self.interest.read && !unheard),
            write: self.waiting() > 0 && !(sleeping && self.mute),
        }
    }

    /// Whether a time limit has passed. Called about once a second.
    pub(crate) fn is_overdue(
        &mut self,
        shared: &Shared,
        statistics: &LoopStatistics,
        now_ms: u64,
    ) -> bool {
        let config = &shared.config;
        if self.waiting() <= config.output_bytes_soft {
            self.over_soft_since_ms = 0;
        } else if self.over_soft_since_ms == 0 {
            self.over_soft_since_ms = now_ms;
        } else if now_ms.saturating_sub(self.over_soft_since_ms) >= config.output_soft_ms {
            statistics.output_limit_disconnections.add(1);
            return true;
        }
        let active_at_ms = self.client.active_at_ms.load(Relaxed);
        let sleeping = self.wakes_at_ns.is_some();
        // A password that came in time is checked, or its answer sent, however long that is held
        // back. One that comes later is not.
        let tried_at_ms = if sleeping && self.mute { active_at_ms } else { now_ms };
        let since_connected = tried_at_ms.saturating_sub(self.client.connected_at_ms);
        if !self.authenticated && since_connected >= config.authentication_timeout_ms {
            return true;
        }
        if sleeping || self.queued {
            // Its own request is under way.
            return false;
        }
        let idle_ms = now_ms.saturating_sub(active_at_ms);
        let is_longer = |timeout_ms| timeout_ms > 0 && idle_ms >= timeout_ms;
        is_longer(shared.settings.idle_timeout_ms())
            || self.lacks_the_rest() && is_longer(config.kyoto_timeout_ms.unwrap_or(0))
    }

    /// Whether a part of a Kyoto Tycoon request is here and the rest is waited for.
    fn lacks_the_rest(&self) -> bool {
        self.client.protocol == ProtocolName::Kyoto
            && !self.pending
            && (self.input.len() > self.input_start || self.wanted > 0)
    }

    /// Ends the connection. Where the client still sends, its bytes are taken first: a socket
    /// closed over unread bytes is reset, and the client would lose our last words.
    pub(crate) fn close(
        mut self,
        shared: &Shared,
        statistics: &LoopStatistics,
        buffer: &mut Vec<u8>,
    ) {
        self.end_wait(shared);
        self.tell_held(statistics, 0);
        shared.forget_condemned(&self.client);
        if self.closing && !self.ended {
            say_goodbye(&self.socket, buffer);
        }
    }
}

impl<D> AsFd for Connection<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
