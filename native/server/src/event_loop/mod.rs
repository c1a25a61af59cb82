//! A loop: one thread, one poller, its connections.
//!
//! # The phases of a round
//!
//! The loop waits until sockets are ready, its inbox has messages, or the next deadline expires.
//! Then, in this order:
//!
//! 1. **Ready sockets.** Each ready connection gets one turn: one `recv` into the loop's buffer;
//!    the session executes the complete requests in it (at most 128, 256 KiB of replies or some 2
//!    ms); one `send`. A connection costs two system calls per turn, however many requests it
//!    contained, and all ready connections share one `epoll_wait`. There is no second `recv` to
//!    learn that nothing is left: the poller is level-triggered and will report if there is more.
//!    The loop starts to watch for writability when a `send` was incomplete, and stops when nothing
//!    waits: a client that reads its replies causes no `epoll_ctl` at all.
//! 2. **Yielded connections.** Those that used up their budget earlier get another turn, once each.
//!    While there are any, the wait does not block. So a client with a million pipelined requests
//!    delays another by one turn of its own.
//! 3. **Paused connections**, which have a script or a transaction to execute, or whose last turn
//!    took long: as many as there is time for in a round, often one. All others had their turns
//!    before ([`crate::work`]).
//! 4. **Sleepers** whose time is over (`DEBUG SLEEP` pauses a connection, not a loop, and so do
//!    waiting for a signal and waiting for the log).
//! 5. **Messages**: connections assigned by loop 0 or handed over, clients to be killed or woken
//!    by a signal, outcomes of the log, the order to stop. Like sleepers and clients that exceeded
//!    a time limit, at most 64 per round: `CLIENT KILL` of 10,000 clients, or the simultaneous end
//!    of as many waits, delays no other client.
//!    Messages to subscribers are only moved to a list here, and delivered to some subscribers in
//!    each round.
//! 6. **Once a second** the deadlines of clients: idle, not authenticated, not reading, in the
//!    middle of a Kyoto Tycoon request. A walk over all connections is cheap at that rate (10,000
//!    take less than half a millisecond) and is skipped if no deadline is set. At the same time the
//!    loop closes sleepers whose clients disconnected and left unread input: the back ends do not
//!    report a disconnection that input hides.
//!
//! 7. **The log**: the loop hands over the submissions of all connections of this round.
//!
//! Indices of connections that were closed in a round are not reused before its end, so an event or
//! message for a closed connection finds no connection, never another one.
//!
//! Loop 0 also accepts, and gives each connection to the loop that has the fewest. There is no
//! thread for accepting: it would wake up for each connection only to wake another.
//!
//! If connections are to be distributed by load, a new one goes to the first loop that is not busy,
//! and later the loops hand connections to each other, between requests ([`crate::balance`],
//! `moving.rs`).
//!
//! A panic in a turn is caught. Its connection is closed, and the loop continues.

mod accepting;
mod deadlines;
mod delivering;
mod evicting;
mod moving;
mod stopping;

use crate::arena::Arena;
use crate::channels::Leavers;
use crate::clock::Clock;
use crate::commits::Round;
use crate::connection::{Connection, INPUT_BYTES, Turn, Verdict};
use crate::door::Door;
use crate::inbox::{Message, Waker};
use crate::listener::{self, Listener};
use crate::node_log;
use crate::notices::Notification;
use crate::poller::{Interest, Poller, Ready, Sources, Token};
use crate::shared::{LoopPart, Shared};
use crate::waiters::Place;
use crate::work::{Lane, Work};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use todana_table::Peak;

const WAKER: Token = 0;
const FIRST_LISTENER: Token = 1;
const FIRST_CONNECTION: Token = 64;
/// Maximum number of listeners of a server.
pub(crate) const LISTENERS_MAX: usize = FIRST_CONNECTION - FIRST_LISTENER;
const TICK_NS: u64 = 1_000_000_000;
const NEVER: u64 = u64::MAX;
/// Maximum numbers of sleepers woken, messages processed, and clients closed for a time limit in
/// one round. The rest is left to the next round, after the ready sockets.
const ROUND_MAX: usize = 64;
/// The same for connections of other loops, which take little time each and wait for all of it.
const ADOPTED_MAX: usize = 1_024;

const RESUMED: Ready = Ready { token: 0, readable: false, writable: false, gone: false };
/// For a connection whose socket was ready before.
const PUT_OFF: Ready = Ready { token: 0, readable: true, writable: false, gone: false };

/// The state of a loop. The poller is dropped before the descriptors it watches.
pub(crate) struct EventLoop<D> {
    poller: Box<dyn Poller>,
    number: usize,
    shared: Arc<Shared>,
    clock: Clock,
    waker: Waker,
    listeners: Vec<Listener>,
    connections: Arena<Box<Connection<D>>>,
    ready: Vec<Ready>,
    /// Indices of connections that get another turn.
    yielded: VecDeque<usize>,
    /// Those that get another turn for a script or a transaction.
    work: Work,
    /// Deadline and index of each sleeping client.
    sleepers: BTreeSet<(u64, usize)>,
    /// Messages to be processed.
    messages: VecDeque<Message>,
    /// Messages to subscribers that are being delivered.
    deliveries: VecDeque<delivering::Delivery>,
    /// There are keyspace notifications to publish.
    has_notices: bool,
    /// The messages of the present one.
    notifications: VecDeque<Notification>,
    /// Subscriptions of clients that have left.
    leavers: Leavers,
    /// Indices and ids of clients to be closed because of a time limit.
    to_close: VecDeque<(usize, u64)>,
    input: Vec<u8>,
    output: Vec<u8>,
    next_tick_ns: u64,
    commands_at_tick: u64,
    traffic_at_tick: [u64; 2],
    clients_peak: Peak,
    accept_again_ns: u64,
    complain_again_ns: u64,
    evictions: evicting::EvictionLog,
    /// The number of the window in which the loop counts its active connections.
    window: u32,
    /// Where some connections are to go after their turns, or all.
    handing: moving::Handing,
    /// The submissions of the round, which go to the log at its end.
    commits: Round,
    /// The end of the grace period, once the loop was asked to stop.
    stop_at_ns: u64,
}

struct Owned<'a, D> {
    waker: &'a Waker,
    listeners: &'a [Listener],
    connections: &'a Arena<Box<Connection<D>>>,
}

impl<D> Sources for Owned<'_, D> {
    fn descriptor(&self, token: Token) -> Option<BorrowedFd<'_>> {
        match token {
            WAKER => Some(self.waker.as_fd()),
            FIRST_LISTENER..FIRST_CONNECTION => {
                self.listeners.get(token - FIRST_LISTENER).map(AsFd::as_fd)
            }
            _ => self.connections.get(token - FIRST_CONNECTION).map(|c| c.as_ref().as_fd()),
        }
    }
}

impl<D: Door> EventLoop<D> {
    /// A loop that has registered its waker and listeners. Fails if the back end cannot watch them.
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        mut poller: Box<dyn Poller>,
        waker: Waker,
        listeners: Vec<Listener>,
    ) -> io::Result<EventLoop<D>> {
        poller.register(waker.as_fd(), WAKER, Interest::READ)?;
        for (index, listener) in listeners.iter().enumerate() {
            poller.register(listener.as_fd(), FIRST_LISTENER + index, Interest::READ)?;
        }
        let commits = Round::new(&shared);
        Ok(EventLoop {
            poller,
            number,
            shared,
            clock: Clock::new(),
            waker,
            listeners,
            connections: Arena::new(),
            ready: Vec::new(),
            yielded: VecDeque::new(),
            work: Work::new(number),
            sleepers: BTreeSet::new(),
            messages: VecDeque::new(),
            deliveries: VecDeque::new(),
            has_notices: false,
            notifications: VecDeque::new(),
            leavers: Leavers::default(),
            to_close: VecDeque::new(),
            input: Vec::with_capacity(INPUT_BYTES),
            output: Vec::new(),
            next_tick_ns: TICK_NS,
            commands_at_tick: 0,
            traffic_at_tick: [0; 2],
            clients_peak: Peak::default(),
            accept_again_ns: NEVER,
            complain_again_ns: 0,
            evictions: evicting::EvictionLog::default(),
            window: 0,
            handing: moving::Handing::default(),
            commits,
            stop_at_ns: NEVER,
        })
    }

    /// Serves until it is asked to stop.
    pub(crate) fn run(mut self) {
        while !self.is_over() {
            // Turns catch the panics of sessions; one that arrives here is the loop's own, and must
            // not end the other connections.
            if catch_unwind(AssertUnwindSafe(|| self.round())).is_err() {
                self.part().statistics.panics.add(1);
                node_log::error!("event loop {} panicked and continues", self.number);
                self.ready.clear();
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.end();
    }

    fn part(&self) -> &LoopPart {
        &self.shared.loops[self.number]
    }

    fn round(&mut self) {
        let timeout = self.timeout();
        let Self { poller, waker, listeners, connections, ready, .. } = self;
        let sources = Owned { waker, listeners, connections };
        if let Err(error) = poller.wait(&sources, ready, timeout) {
            node_log::error!("waiting for sockets failed: {}", listener::in_words(&error));
            std::thread::sleep(Duration::from_millis(100));
        }
        let began = self.begin_round();
        self.work.begin_round();
        let mut woken = false;
        let yielded_before = self.yielded.len();
        for at in 0..self.ready.len() {
            let event = self.ready[at];
            match event.token {
                WAKER => woken = true,
                FIRST_LISTENER..FIRST_CONNECTION => self.accept(event.token - FIRST_LISTENER),
                token => {
                    let index = token - FIRST_CONNECTION;
                    if !self.is_put_off(index, event) {
                        self.turn(index, event);
                    }
                }
            }
        }
        self.ready.clear();
        for _ in 0..yielded_before {
            let Some(index) = self.yielded.pop_front() else { break };
            let Some(connection) = self.connections.get_mut(index) else { continue };
            if std::mem::take(&mut connection.queued) && !self.is_put_off(index, RESUMED) {
                self.turn(index, RESUMED);
            }
        }
        self.resume_paused();
        let now_ns = self.now_ns();
        self.wake_sleepers(now_ns);
        if woken {
            self.take_messages();
        }
        self.carry_out_messages(now_ns);
        self.deliver();
        self.close_marked();
        self.hand_over_all();
        if now_ns >= self.accept_again_ns {
            self.accept_again_ns = NEVER;
            self.watch_listeners(Interest::READ);
        }
        if now_ns >= self.next_tick_ns {
            self.tick(now_ns);
        }
        self.commits.hand_over(&self.shared);
        self.connections.recycle();
        self.end_round(began);
    }

    /// Monitors see a loop that hangs by the beginning of its round.
    fn begin_round(&mut self) -> u64 {
        let began = self.clock.raw();
        self.note_window();
        self.part().statistics.round_began.set(began.max(1));
        began
    }

    fn end_round(&mut self, began: u64) {
        let now = self.clock.raw();
        let nanos = self.clock.nanos(began, now);
        if self.shared.balance.is_due(&self.clock, now) {
            self.balance(now);
        }
        let statistics = &self.part().statistics;
        statistics.rounds.record(nanos);
        // In this order: a round must not count twice for another loop that reads both.
        statistics.round_began.set(0);
        statistics.busy_nanos.add(nanos);
    }

    fn now_ns(&self) -> u64 {
        self.clock.uptime_ns(self.clock.raw())
    }

    /// Whether the turn of a connection is put off until others had theirs, because its last one
    /// took long.
    fn is_put_off(&mut self, index: usize, ready: Ready) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let is_put_off = connection.is_slow
            && !connection.queued
            && connection.wakes_at_ns.is_none()
            && !ready.writable
            && !ready.gone;
        if is_put_off {
            (connection.queued, connection.is_paused) = (true, true);
            self.work.put_off(index);
        }
        is_put_off
    }

    /// Gives paused connections their turns, while there is time for their work in this round.
    fn resume_paused(&mut self) {
        for lane in [Lane::Short, Lane::Long, Lane::Slow] {
            for _ in 0..self.work.paused(lane) {
                let Some(index) = self.work.next(lane) else { break };
                let Some(connection) = self.connections.get_mut(index) else { continue };
                if std::mem::take(&mut connection.is_paused) {
                    connection.queued = false;
                    let ready = if lane == Lane::Slow { PUT_OFF } else { RESUMED };
                    self.take_turn(index, ready, Some(lane));
                }
            }
        }
        self.shared.give_work_place(self.work.give_back(&self.shared.work_place));
    }

    /// Gives a connection its turn and acts on the verdict.
    fn turn(&mut self, index: usize, ready: Ready) {
        self.take_turn(index, ready, None);
    }

    /// The same for a connection that was paused in this lane.
    fn take_turn(&mut self, index: usize, ready: Ready, lane: Option<Lane>) {
        self.work.begin_turn(matches!(lane, Some(Lane::Short | Lane::Long)));
        let Some(connection) = self.connections.get_mut(index) else { return };
        let part = &self.shared.loops[self.number];
        let mut turn = Turn {
            shared: &self.shared,
            statistics: &part.statistics,
            clock: &self.clock,
            place: Place { event_loop: self.number, index },
            round: &mut self.commits,
            work: &mut self.work,
            input: &mut self.input,
            output: &mut self.output,
        };
        let held_before = connection.held_bytes;
        let (began, commands_before) = (self.clock.raw(), part.statistics.commands.get());
        let verdict = catch_unwind(AssertUnwindSafe(|| connection.turn(&mut turn, ready)));
        self.input.clear();
        self.output.clear();
        let verdict = verdict.unwrap_or_else(|_| {
            part.statistics.panics.add(1);
            let client = &connection.client;
            node_log::error!(
                "a {:?} request of {} panicked, its connection is closed",
                client.protocol,
                client.address
            );
            Verdict::Close
        });
        let was_put_off = lane == Some(Lane::Slow);
        let turn_ns = self.clock.nanos(began, self.clock.raw());
        let is_slow = self.work.end_turn(turn_ns, was_put_off);
        let is_first = connection.activity.note(self.window, turn_ns);
        part.statistics.active.add(u64::from(is_first));
        part.statistics.slow_turns.add(u64::from(is_slow));
        // One that has only received a part of a request, or found nothing left, says nothing.
        let has_executed = part.statistics.commands.get() != commands_before;
        connection.is_slow = is_slow || connection.is_slow && !has_executed;
        let holds_more = connection.held_bytes > held_before;
        match verdict {
            Verdict::Wait => {}
            Verdict::Yield => {
                connection.queued = true;
                self.yielded.push_back(index);
            }
            Verdict::Pause => {
                (connection.queued, connection.is_paused) = (true, true);
                self.work.pause(index);
            }
            Verdict::Sleep { ms } => {
                let now_ns = self.clock.uptime_ns(self.clock.raw());
                let at_ns = now_ns.saturating_add(ms.saturating_mul(1_000_000)).min(NEVER - 1);
                connection.wakes_at_ns = Some(at_ns);
                self.sleepers.insert((at_ns, index));
            }
            Verdict::Close => return self.close(index),
        }
        if verdict == Verdict::Wait && self.hand_over_after_turn(index) {
            return;
        }
        let reported_in_vain = ready.readable && verdict == Verdict::Wait;
        self.watch(index, reported_in_vain);
        if holds_more && self.shared.clients_hold_too_much() {
            self.evict();
        }
    }

    /// Updates the interest in the poller to what the connection wants.
    fn watch(&mut self, index: usize, reported_in_vain: bool) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let wanted = connection.interest_wanted(&self.shared, reported_in_vain);
        if wanted == connection.interest {
            return;
        }
        connection.interest = wanted;
        let token = FIRST_CONNECTION + index;
        if self.poller.modify(connection.as_ref().as_fd(), token, wanted).is_err() {
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        self.end_sleep(index);
        let Some(connection) = self.connections.remove(index) else { return };
        // This can only fail for a descriptor that is not watched.
        let _ = self.poller.deregister(connection.as_ref().as_fd(), FIRST_CONNECTION + index);
        self.forget_active(&connection);
        let part = &self.shared.loops[self.number];
        self.shared.clients.remove(&connection.client);
        part.connections.fetch_sub(1, Relaxed);
        let place = Place { event_loop: self.number, index };
        self.shared.clients_peak_bytes.fetch_max(self.shared.clients_bytes(), Relaxed);
        let (client, listening) = connection.close(&self.shared, &part.statistics, &mut self.input);
        let subscriptions = listening.leave(&self.shared.listeners, place, &client);
        self.leavers.add(&self.shared.listeners.channels, place, (client, subscriptions));
    }

    fn take_messages(&mut self) {
        let messages = self.shared.loops[self.number].inbox.take(&mut self.waker);
        self.messages.extend(messages);
    }

    fn carry_out_messages(&mut self, now_ns: u64) {
        let (mut count, mut adopted) = (0, 0);
        while count < ROUND_MAX && adopted < ADOPTED_MAX {
            let Some(message) = self.messages.pop_front() else { break };
            let Some(message) = self.begin_to_deliver(message) else { continue };
            if let Message::Adopt(connection) = message {
                adopted += 1;
                self.adopt(connection);
                continue;
            }
            count += 1;
            match message {
                Message::Serve(accepted) => self.serve(accepted),
                Message::HandOver { to, share, window } => self.begin_to_hand(to, share, window),
                Message::Kill { index, id } => {
                    let moved = |index| Message::Kill { index, id };
                    if let Some(index) = self.locate(index, id, moved) {
                        self.flush_once(index);
                        self.close(index);
                    }
                }
                Message::Evict { index, id } => {
                    let moved = |index| Message::Evict { index, id };
                    if let Some(index) = self.locate(index, id, moved) {
                        self.close_evicted(index, id);
                    }
                }
                Message::Work => self.work.unblock(),
                Message::Wake { index, ticket } => {
                    if self.connections.get(index).is_some_and(|c| c.waits_by(ticket)) {
                        self.resume(index);
                    }
                }
                Message::Answer { index, number, answer } => {
                    let connection = self.connections.get_mut(index);
                    if connection.is_some_and(|it| it.take_answer(number, *answer)) {
                        self.resume(index);
                    }
                }
                Message::Ask { index, number } => self.let_ask(index, number),
                Message::Commit { index, ticket, outcome } => {
                    let connection = self.connections.get_mut(index);
                    if connection.is_some_and(|it| it.take_outcome(ticket, outcome)) {
                        self.resume(index);
                    }
                }
                Message::Adopt(_)
                | Message::Push(_)
                | Message::Invalidate(_)
                | Message::InvalidateAll
                | Message::Line(_)
                | Message::Redirected { .. }
                | Message::Notices
                | Message::Seconds => {}
                Message::Stop => self.begin_to_stop(now_ns),
            }
        }
        if count > 0 {
            self.note_round(count);
        }
    }

    /// Tries to send what waits for a client. True if nothing is left to send.
    fn flush_once(&mut self, index: usize) -> bool {
        self.end_sleep(index);
        let Some(connection) = self.connections.get_mut(index) else { return true };
        connection.close_after_output();
        let part = &self.shared.loops[self.number];
        connection.last_flush(&Turn {
            shared: &self.shared,
            statistics: &part.statistics,
            clock: &self.clock,
            place: Place { event_loop: self.number, index },
            round: &mut self.commits,
            work: &mut self.work,
            input: &mut self.input,
            output: &mut self.output,
        })
    }
}
