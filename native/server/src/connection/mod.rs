//! One connection: a socket, its session, and the bytes that must be kept between turns.
//!
//! An idle connection keeps none: bytes are received into the loop's buffer, and replies are made
//! in the loop's buffer. Only an incomplete request, or replies that the client does not take, move
//! into the connection's own buffers, and those are freed as soon as they are empty.

mod buffers;
mod moving;
mod outgoing;
mod pushes;
#[cfg(test)]
mod tests;

pub(crate) use buffers::shut_down;
pub(crate) use outgoing::NO_SIGNAL;

use crate::Config;
use crate::balance::Activity;
use crate::clock::{Clock, Moment};
use crate::commits::{Commit, Round};
use crate::door::{self, Door, Refusal};
use crate::host::{Kept, Resumed, TurnHost};
use crate::listening::Listening;
use crate::poller::{Interest, Ready};
use crate::questions::Asking;
use crate::shared::Shared;
use crate::statistics::LoopStatistics;
use crate::waiters::{Place, Wait};
use crate::work::Work;
use outgoing::Outgoing;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::cause::{self, Writer};
use todana_group::Outcome;
use todana_protocol::{Budget, Client, Next, ProtocolName};
use todana_resp::Answer;

/// Size of a loop's input buffer: the most that one turn receives of small requests.
pub(crate) const INPUT_BYTES: usize = 64 << 10;
/// An incomplete request up to this length continues in the loop's buffer; a longer one in the
/// connection's own.
const CARRY_BYTES_MAX: usize = 16 << 10;
/// Once this much of a request has arrived, the rest is received into a buffer of its full length.
const LARGE_BYTES: usize = 1 << 20;
/// The work that one turn of a connection may do before other connections get theirs.
const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 256 << 10 };
/// How long a client that has ended its sending side may continue to sleep: it may have
/// disconnected after requesting many sleeps. No single sleep is longer. Tests use a shorter time.
const ENDED_SLEEP_NS_MAX: u64 = if cfg!(test) { 3_000_000_000 } else { 60_000_000_000 };

/// The parts of the loop that a connection needs during a turn.
pub(crate) struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) statistics: &'a LoopStatistics,
    pub(crate) clock: &'a Clock,
    /// The loop's number and the connection's index.
    pub(crate) place: Place,
    /// The submissions of the loop's round.
    pub(crate) round: &'a mut Round,
    /// The scripts and transactions of the loop.
    pub(crate) work: &'a mut Work,
    /// The loop's buffers. Empty between turns.
    pub(crate) input: &'a mut Vec<u8>,
    pub(crate) output: &'a mut Vec<u8>,
}

/// Why a connection sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asleep {
    /// `Next::Sleep`: replies are held back until it wakes up.
    Mute,
    /// `Next::Wait`.
    ForSignal,
    /// `Next::Wait` with a question, whose answer is a reply.
    ForAnswer,
    /// `Next::Commit`: at the end of the time, the outcome is unknown.
    ForLog,
}

/// What the loop does with a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It continues when its socket is ready.
    Wait,
    /// It has more to execute: another turn, after the other connections had theirs.
    Yield,
    /// It has a script or a transaction to execute, which must not begin in this turn.
    Pause,
    /// It continues after this many milliseconds.
    Sleep {
        ms: u64,
    },
    Close,
}

pub(crate) struct Connection<D> {
    socket: TcpStream,
    pub(crate) client: Arc<Client>,
    session: D,
    /// Unconsumed input begins at `input_start`.
    input: Vec<u8>,
    input_start: usize,
    /// The number of bytes that the request in progress is known to lack.
    wanted: usize,
    /// Replies that were not sent.
    output: Outgoing,
    /// When the waiting output first exceeded the soft limit, in milliseconds of wall time; 0 if it
    /// does not.
    over_soft_since_ms: u64,
    /// What the poller watches for.
    pub(crate) interest: Interest,
    /// The loop will start another turn by itself.
    pub(crate) queued: bool,
    /// That turn is for a script or a transaction, or was put off because the last one was slow.
    pub(crate) is_paused: bool,
    /// The last turn that has completed a request took long, or one since.
    pub(crate) is_slow: bool,
    /// When the present sleep ends, by the loop's clock.
    pub(crate) wakes_at_ns: Option<u64>,
    /// The reason for the present or last sleep.
    asleep: Asleep,
    /// When the loop first noticed, while replies were held back, that the client has ended its
    /// sending side.
    end_seen_at_ns: Option<u64>,
    /// The signal that the session waits for.
    wait: Option<Wait>,
    /// The question that the session has asked.
    asking: Asking,
    /// What the client listens to.
    pub(crate) listening: Listening,
    /// Messages for the client that arrived in the middle of a reply.
    pushes: Outgoing,
    /// Messages were appended to the output in this round.
    pub(crate) is_touched: bool,
    /// What the session has in the log.
    commit: Commit,
    /// Input contains bytes that the session has not examined yet.
    pending: bool,
    /// The client has ended its sending side.
    ended: bool,
    /// Nothing more is executed; the connection closes when its output is sent.
    closing: bool,
    authenticated: bool,
    /// The client has not sent anything yet, and no password was set when it connected.
    came_when_open: bool,
    /// Bytes reported to the loop's gauge.
    pub(crate) held_bytes: u64,
    /// How much of the loop's time it takes.
    pub(crate) activity: Activity,
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
            is_paused: false,
            is_slow: false,
            wakes_at_ns: None,
            asleep: Asleep::ForSignal,
            end_seen_at_ns: None,
            wait: None,
            asking: Asking::default(),
            listening: Listening::default(),
            pushes: Outgoing::default(),
            is_touched: false,
            commit: Commit::default(),
            pending: false,
            ended: false,
            closing: false,
            authenticated,
            came_when_open: authenticated,
            held_bytes: 0,
            activity: Activity::default(),
        }
    }

    /// Does what the socket is ready for and what is pending: at most one receive, one execution
    /// and one send.
    pub(crate) fn turn(&mut self, turn: &mut Turn<'_>, ready: Ready) -> Verdict {
        let sleeping = self.wakes_at_ns.is_some();
        let mute = sleeping && self.asleep == Asleep::Mute;
        let for_signal = sleeping && self.asleep == Asleep::ForSignal;
        if sleeping && (ready.gone || for_signal && ready.readable && self.has_left()) {
            return Verdict::Close;
        }
        if ready.writable
            && !mute
            && self.waiting() > 0
            && self.flush(turn.statistics, turn.clock).is_err()
        {
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
                // The client is not idle: its own request is in progress.
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

    /// Whether this connection sleeps and is not watched for reading, because of input that is not
    /// wanted yet: then the poller does not report the client's end.
    pub(crate) fn hides_its_end(&self) -> bool {
        self.wakes_at_ns.is_some() && !self.interest.read
    }

    /// Whether the client of a waiting connection has ended its side. Unread input that it sent
    /// before hides the end from this call; the loop checks for such ends once a second
    /// ([`Connection::hides_its_end`]).
    ///
    /// A client that ended only its sending side, and would still take a reply, looks the same:
    /// only sending something could distinguish the two, and there is nothing to send. While it
    /// waits for a signal it counts as disconnected, so that no signal is spent on a client that no
    /// longer exists. A delayed reply, or one that waits for the log or for an answer, is sent all
    /// the same: see [`Connection::has_left_by`].
    fn has_left(&self) -> bool {
        let mut byte = [0u8];
        match rustix::net::recv(&self.socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, received)) => received == 0,
            Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }

    /// Whether to close a sleeping client whose end was seen. If a reply is to come, the client may
    /// still read it, within a time limit.
    pub(crate) fn has_left_by(&mut self, now_ns: u64) -> bool {
        if self.asleep == Asleep::ForSignal {
            return true;
        }
        let seen_at_ns = *self.end_seen_at_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(seen_at_ns) >= ENDED_SLEEP_NS_MAX
    }

    /// The verdict when there is nothing to do now, depending on whether anything is expected.
    fn settle(&self, ready: Ready) -> Verdict {
        let done = self.waiting() == 0 && (self.closing || self.ended && !self.pending);
        if done || ready.gone { Verdict::Close } else { Verdict::Wait }
    }

    /// One receive, then as many requests as the budget allows.
    fn receive(&mut self, turn: &mut Turn<'_>) -> Verdict {
        if self.held_bytes > 0 && turn.shared.evicting_bytes.load(Relaxed) > 0 {
            // Clients hold too much, and another loop is about to close those that hold most.
            return Verdict::Wait;
        }
        let in_loop_buffer = self.input.len() <= CARRY_BYTES_MAX;
        let buffer = if in_loop_buffer {
            turn.input.extend_from_slice(&self.input);
            &mut *turn.input
        } else {
            self.make_room(turn.shared.config.input_bytes_max);
            &mut self.input
        };
        // A receive without room would return 0, as at the end of the stream.
        buffer.reserve(1);
        let room = rustix::buffer::spare_capacity(buffer);
        let received = match rustix::net::recv(&self.socket, room, RecvFlags::empty()) {
            Ok((_, received)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Verdict::Wait,
            Err(_) => return Verdict::Close,
        };
        if received == 0 {
            // All complete requests have been executed; the incomplete one never will be.
            self.ended = true;
            return self.settle(Ready { token: 0, readable: false, writable: false, gone: false });
        }
        // A proof covers what had arrived before it was asked for.
        self.commit.commits.forget_proof();
        // Not before: the time of a request must not be before its arrival.
        let now = turn.clock.now();
        turn.statistics.input_bytes.add(received as u64);
        turn.statistics.receipts.add(1);
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

    /// Lets the session execute the input in the loop's buffer or in the connection's own, and
    /// sends the replies.
    fn execute(&mut self, turn: &mut Turn<'_>, in_loop_buffer: bool, now: Moment) -> Verdict {
        let Turn { shared, statistics, clock, place, .. } = *turn;
        let resumed = match shared.durable {
            true => self.commit.resume(shared, place, clock, now, turn.round),
            false => Resumed::default(),
        };
        let input = if in_loop_buffer { &turn.input[..] } else { &self.input[self.input_start..] };
        let kept = Kept {
            wait: &mut self.wait,
            asking: &mut self.asking,
            commits: &mut self.commit.commits,
            listening: &mut self.listening,
        };
        let own = (clock, &mut *turn.work);
        let mut host = TurnHost::begin(shared, statistics, own, &self.client, place, kept, now);
        host.set_commit(resumed, self.commit.taken_ns);
        if std::mem::take(&mut self.came_when_open) {
            host.admit();
        }
        let is_listened = cause::is_listened();
        if is_listened {
            cause::note_writer(Writer::Client(self.client.id));
        }
        let progress = self.session.advance(input, turn.output, &mut host, BUDGET);
        if is_listened {
            cause::note_writer(Writer::Unknown);
        }
        let (authenticated, mut splices) = host.finish();
        self.authenticated |= authenticated;
        if in_loop_buffer {
            self.keep_input(turn.input, progress.consumed);
        } else {
            self.input_start += progress.consumed;
            self.trim_input(matches!(progress.next, Next::Read { .. }));
        }
        (self.pending, self.wanted) = (false, 0);
        let mut sleep_ms = None;
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
            Next::Yield | Next::Pause => self.pending = true,
            Next::Sleep { ms } => {
                // As in Redis, earlier replies are sent after the sleep.
                (self.pending, self.asleep) = (true, Asleep::Mute);
                self.output.push_spliced(turn.output, &mut splices);
                self.end_wait(shared);
                return Verdict::Sleep { ms };
            }
            Next::Wait { ms } => {
                self.pending = true;
                self.asleep = match self.asking {
                    Asking::Nothing => Asleep::ForSignal,
                    _ => Asleep::ForAnswer,
                };
                sleep_ms = Some(ms);
            }
            Next::Commit => {
                (self.pending, self.asleep) = (true, Asleep::ForLog);
                sleep_ms = Some(self.commit.begin(shared, place, now, turn.round));
            }
            Next::Close => self.close_after_output(),
        }
        if !matches!(progress.next, Next::Wait { .. }) {
            self.end_wait(shared);
        }
        if shared.durable && self.commit.end_turn(progress.next, statistics, &self.client) {
            sleep_ms = None;
            self.close_after_output();
        }
        if self.deliver(turn, &mut splices).is_err() {
            return Verdict::Close;
        }
        if self.release_pushes() && self.flush(turn.statistics, turn.clock).is_err() {
            return Verdict::Close;
        }
        if self.waiting() > self.output_limits(&shared.config).hard {
            statistics.output_limit_disconnections.add(1);
            return Verdict::Close;
        }
        if let Some(ms) = sleep_ms {
            return Verdict::Sleep { ms };
        }
        match self.settle(Ready { token: 0, readable: false, writable: false, gone: false }) {
            Verdict::Wait if self.pending && !self.is_held(shared) => match progress.next {
                Next::Pause => Verdict::Pause,
                _ => Verdict::Yield,
            },
            verdict => verdict,
        }
    }

    /// Whether the waiting output is so large that nothing more is executed.
    fn is_held(&self, shared: &Shared) -> bool {
        self.waiting() > shared.config.output_bytes_soft
    }

    /// Whether the session waits with this ticket.
    pub(crate) fn waits_by(&self, ticket: u64) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.ticket == ticket)
    }

    /// Whether the session waits for the log.
    pub(crate) fn is_committing(&self) -> bool {
        self.commit.is_waiting()
    }

    /// Keeps the connection until its present commit has an outcome and the replies are sent.
    pub(crate) fn close_after_commit(&mut self) {
        self.commit.is_last = true;
    }

    /// Whether the session waits for the outcome of this ticket.
    pub(crate) fn awaits(&self, ticket: u64) -> bool {
        self.commit.awaits(ticket)
    }

    /// Its question may be asked now. False if the session does not wait for that.
    pub(crate) fn may_ask(&mut self, number: u64) -> bool {
        self.asking.is_due(number)
    }

    /// Whether its question may be asked, and waits until its client has taken replies.
    pub(crate) fn cannot_ask(&self, number: u64, shared: &Shared) -> bool {
        self.asking == Asking::Due(number) && (self.closing || self.is_held(shared))
    }

    /// Takes an answer. False if the session does not wait for it.
    pub(crate) fn take_answer(&mut self, number: u64, answer: Answer) -> bool {
        self.asking.take(number, answer)
    }

    /// Takes the outcome of a commit. False if the connection does not wait for it.
    pub(crate) fn take_outcome(&mut self, ticket: u64, outcome: Outcome) -> bool {
        self.commit.take_outcome(ticket, outcome)
    }

    /// Removes the client from the list of waiters.
    fn end_wait(&mut self, shared: &Shared) {
        if let Some(wait) = self.wait.take() {
            shared.waiters.end(wait);
        }
    }

    /// Executes nothing more, and closes when the output is sent.
    pub(crate) fn close_after_output(&mut self) {
        self.closing = true;
        self.pending = false;
        self.input = Vec::new();
        self.input_start = 0;
    }

    /// Sends the reason why the connection is closed (the memory of all clients), if the client has
    /// taken its replies so far and none is partly sent.
    pub(crate) fn say_evicted(&mut self) {
        // While the log has a write of the client, it would take the words for the reply to that.
        let is_mid_reply = self.session.is_mid_reply() || self.commit.is_waiting();
        if self.waiting() == 0 && !is_mid_reply {
            let words = door::words(self.client.protocol, Refusal::ClientsHoldTooMuch);
            self.output.push(words.to_vec(), 0);
        }
    }

    /// Tries once to send the waiting output. True if nothing waits any more, or if it can never be
    /// sent.
    pub(crate) fn last_flush(&mut self, turn: &Turn<'_>) -> bool {
        self.waiting() == 0
            || self.flush(turn.statistics, turn.clock).is_err()
            || self.waiting() == 0
    }

    /// Bytes of waiting replies.
    pub(crate) fn waiting(&self) -> usize {
        self.output.len()
    }

    /// The events that the poller should watch for. A temporary reason not to read changes nothing,
    /// unless the poller has reported input in vain: this saves two system calls if the reason
    /// passes.
    pub(crate) fn interest_wanted(&self, shared: &Shared, reported_in_vain: bool) -> Interest {
        let never = self.ended || self.closing;
        let sleeping = self.wakes_at_ns.is_some();
        let passing = sleeping || self.is_paused || self.is_held(shared);
        Interest {
            read: !never && (!passing || self.interest.read && !reported_in_vain),
            write: self.waiting() > 0 && !(sleeping && self.asleep == Asleep::Mute),
        }
    }

    /// Output that waits below the soft limit has its whole time the next time that it exceeds it.
    pub(crate) fn note_soft_limit(&mut self, config: &Config) {
        if self.waiting() <= self.output_limits(config).soft {
            self.over_soft_since_ms = 0;
        }
    }

    /// Whether a time limit was exceeded. Called about once a second.
    pub(crate) fn is_overdue(
        &mut self,
        shared: &Shared,
        statistics: &LoopStatistics,
        now_ms: u64,
    ) -> bool {
        let config = &shared.config;
        self.note_soft_limit(config);
        let limits = self.output_limits(config);
        if self.waiting() > limits.soft {
            match self.over_soft_since_ms {
                0 => self.over_soft_since_ms = now_ms,
                since_ms if now_ms.saturating_sub(since_ms) < limits.soft_ms => {}
                _ => {
                    statistics.output_limit_disconnections.add(1);
                    return true;
                }
            }
        }
        let active_at_ms = self.client.active_at_ms.load(Relaxed);
        let sleeping = self.wakes_at_ns.is_some();
        // A password that arrived in time is checked, or its reply sent, however long that is
        // delayed. A later one is not.
        let is_delayed = sleeping && self.asleep == Asleep::Mute;
        let tried_at_ms = if is_delayed { active_at_ms } else { now_ms };
        let since_connected = tried_at_ms.saturating_sub(self.client.connected_at_ms);
        if !self.authenticated && since_connected >= config.authentication_timeout_ms {
            return true;
        }
        if sleeping || self.queued || self.listening.is_listener() {
            // Its own request is in progress, or it waits for messages.
            return false;
        }
        let idle_ms = now_ms.saturating_sub(active_at_ms);
        let is_longer = |timeout_ms: Option<u64>| timeout_ms.is_some_and(|ms| idle_ms >= ms);
        is_longer(config.idle_timeout_ms.get())
            || self.lacks_the_rest() && is_longer(config.kyoto_timeout_ms)
    }

    /// Whether a part of a Kyoto Tycoon request has arrived and the rest is expected.
    fn lacks_the_rest(&self) -> bool {
        self.client.protocol == ProtocolName::Kyoto
            && !self.pending
            && (self.input.len() > self.input_start || self.wanted > 0)
    }

    /// Ends the connection, and returns its client with what it has listened to. If the client
    /// still sends, its bytes are received first: closing a socket with unread bytes resets the
    /// connection, and the client would lose the last replies.
    pub(crate) fn close(
        mut self,
        shared: &Shared,
        statistics: &LoopStatistics,
        buffer: &mut Vec<u8>,
    ) -> (Arc<Client>, Listening) {
        self.end_wait(shared);
        shared.leave_line(&self.asking);
        self.report_held(statistics, 0);
        shared.forget_evicted(&self.client);
        if self.closing && !self.ended {
            shut_down(&self.socket, buffer);
        }
        (self.client, self.listening)
    }
}

impl<D> AsFd for Connection<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
