//! What connections have in the log, and how the outcomes come back.
//!
//! A connection has at most one submission. While it waits for the outcome it sleeps: it executes
//! nothing, reads nothing, and sends the replies to earlier requests. It wakes up by the outcome,
//! or when `write_timeout_ms` are over. In the second case an outcome that has arrived unread still
//! counts, since the loop may have been late; a submission that the log has not taken yet is
//! withdrawn, and was not executed; otherwise nobody can know, and the reply says so. A client that
//! leaves does not cancel its write; only the reply is lost.
//!
//! Each submission has a **ticket** with a number that its loop never uses again. An outcome whose
//! number the connection of that index does not wait for is dropped: the time was over, the client
//! has left, or the index is another connection's by now.
//!
//! Reads that need a proof ([`todana_protocol::ReadLevel`]) wait in the same way, without a
//! submission.
//!
//! If the log has no room, nothing is submitted. The request stays in the input and is run again
//! after [`BUSY_MS`], until `write_timeout_ms` are over. So that the log knows how much it has been
//! given, a loop hands over long submissions before its round ends ([`ROUND_BYTES_MAX`]).

use crate::Config;
use crate::clock::{Clock, Moment};
use crate::host::Resumed;
use crate::inbox::Message;
use crate::node_log;
use crate::shared::Shared;
use crate::statistics::LoopStatistics;
use crate::waiters::Place;
use std::sync::{Arc, Weak};
use todana_command::DATABASES;
use todana_group::{Deliver, GroupNumber, Outcome, Submission, Submit, Ticket};
use todana_protocol::{Client, Commits, Next, NotDone, Wait};

/// Time between two attempts to submit to a log that has no room.
const BUSY_MS: u64 = 5;

/// Bytes of records at which a loop hands over its submissions before the end of the round.
const ROUND_BYTES_MAX: usize = 1 << 20;

/// Whether a server has durable databases.
pub(crate) fn has_durable_databases(config: &Config) -> bool {
    config.homes.is_some() && (0..DATABASES).any(|number| config.databases.is_durable(number))
}

/// What a connection has in the log.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub(crate) commits: Commits,
    /// The number of the ticket of the last submission.
    ticket: u64,
    /// The clock's reading when it was handed over.
    begun: u64,
    /// Nanoseconds from then to the present turn; 0 if the turn has nothing to do with a commit.
    pub(crate) taken_ns: u64,
    /// Since when the log has had no room, in milliseconds of wall time.
    busy_since_ms: Option<u64>,
    /// Whether the connection has just waited without a submission.
    has_waited: bool,
    /// The connection closes when the present commit has its outcome.
    pub(crate) is_last: bool,
}

impl Commit {
    /// Whether the session has nothing in the log, and no reply of it left to send.
    pub(crate) fn can_move(&self) -> bool {
        !(self.is_waiting() || self.commits.is_playing() || self.is_last)
    }

    /// The connection has moved to another loop, which has given the numbers of earlier tickets to
    /// other submissions. If a submission of it was given up and is applied after all, the write
    /// counts as one of another client: one that tracks with `NOLOOP` by then gets a message.
    pub(crate) fn forget_ticket(&mut self) {
        self.ticket = 0;
    }

    /// Whether a submission waits for its outcome.
    pub(crate) fn is_waiting(&self) -> bool {
        self.commits.is_waiting()
    }

    /// Bytes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.commits.held_bytes()
    }

    /// Hands over what the session has recorded. Returns for how many milliseconds the connection
    /// waits.
    pub(crate) fn begin(
        &mut self,
        shared: &Shared,
        place: Place,
        now: Moment,
        round: &mut Round,
    ) -> u64 {
        if let Some((group, wait)) = self.commits.begin_wait()
            && let Some(homes) = &shared.config.homes
        {
            return self.begin_wait(
                wait,
                homes.group(group),
                shared.config.write_timeout_ms,
                place,
                now,
                round,
            );
        }
        let Some(handover) = self.commits.hand_over() else {
            self.busy_since_ms.get_or_insert(now.wall_ms());
            return BUSY_MS;
        };
        self.busy_since_ms = None;
        self.begun = now.raw;
        round.last_ticket += 1;
        self.ticket = round.last_ticket;
        round.bytes += handover.records.len();
        let submission = Submission {
            records: handover.records,
            count: handover.count,
            format: handover.format,
            units: handover.units,
            ticket: ticket(place, self.ticket),
            deliver: round.deliver.clone(),
        };
        round.of(handover.group).push(submission);
        if round.bytes >= ROUND_BYTES_MAX {
            round.hand_over(shared);
        }
        shared.config.write_timeout_ms
    }

    /// Whether the outcome of this ticket is the one that is waited for.
    pub(crate) fn awaits(&self, ticket: u64) -> bool {
        self.is_waiting() && self.ticket == ticket
    }

    /// Whether the last submission had this number.
    pub(crate) fn is_last_ticket(&self, number: u64) -> bool {
        self.ticket == number
    }

    /// Waits for what reads need. Returns for how many milliseconds at most.
    fn begin_wait(
        &mut self,
        wait: Wait,
        log: &dyn Submit,
        timeout_ms: u64,
        place: Place,
        now: Moment,
        round: &mut Round,
    ) -> u64 {
        (self.begun, self.has_waited) = (now.raw, true);
        round.last_ticket += 1;
        self.ticket = round.last_ticket;
        let (ticket, deliver) = (ticket(place, self.ticket), round.deliver.clone());
        match wait {
            Wait::Proof => {
                log.await_fresh(ticket, deliver);
                timeout_ms
            }
            Wait::Applied { index, ms } => {
                log.await_applied(index, ticket, deliver);
                ms
            }
        }
    }

    /// Takes an outcome. False if the connection does not wait for it.
    pub(crate) fn take_outcome(&mut self, ticket: u64, outcome: Outcome) -> bool {
        let is_expected = self.awaits(ticket);
        if is_expected {
            self.commits.settle(outcome);
        }
        is_expected
    }

    /// Begins a turn of a server with durable databases. If a submission still waits, its time is
    /// over.
    pub(crate) fn resume(
        &mut self,
        shared: &Shared,
        place: Place,
        clock: &Clock,
        now: Moment,
        round: &Round,
    ) -> Resumed {
        let homes = shared.config.homes.as_ref();
        if let Some(homes) = homes
            && self.is_waiting()
        {
            let ticket = ticket(place, self.ticket);
            let withdrawn = homes.groups().any(|group| group.withdraw(ticket));
            self.commits.give_up(if withdrawn { NotDone::Busy } else { NotDone::Unknown });
        }
        self.commits.begin_turn();
        let has_waited = std::mem::take(&mut self.has_waited);
        self.taken_ns = match has_waited || self.commits.now_ms().is_some() {
            true => clock.nanos(self.begun, now.raw),
            false => 0,
        };
        let may_wait = self.busy_since_ms.is_none_or(|since_ms| {
            now.wall_ms().saturating_sub(since_ms) < shared.config.write_timeout_ms
        });
        // The times of a turn are those of one group.
        let group = homes.map(|homes| homes.group(GroupNumber::default()));
        let now_ms = group.and_then(|group| group.now_ms()).unwrap_or(now.wall_ms());
        let clock_ms = group.map_or(0, |group| group.clock_ms());
        Resumed { may_wait, clock_ms, now_ms, last_ticket: round.last_ticket }
    }

    /// Ends a turn of a server with durable databases. Returns whether the connection must be
    /// closed: it was to close after this commit, or its session did not run the same commands
    /// again.
    pub(crate) fn end_turn(
        &mut self,
        next: Next,
        statistics: &LoopStatistics,
        client: &Client,
    ) -> bool {
        if next != Next::Commit {
            // The next write may wait for room in the log as long as any other.
            self.busy_since_ms = None;
        }
        // A reply that no request has taken would be given to a later one.
        let is_left_over = matches!(next, Next::Read { .. }) && self.commits.is_playing();
        if is_left_over || self.commits.is_broken() {
            statistics.panics.add(1);
            node_log::error!(
                "a {:?} request of {} was not the same after its commit, its connection \
                 is closed",
                client.protocol,
                client.address
            );
            return true;
        }
        if matches!(next, Next::Read { .. }) {
            // A connection that only writes would keep its last commit, and never move.
            self.commits.forget_over();
        }
        self.is_last && !self.commits.is_playing()
    }
}

fn ticket(place: Place, number: u64) -> Ticket {
    Ticket { place: (place.event_loop as u32, place.index as u32), number }
}

/// What the connections of a loop hand over in one round.
pub(crate) struct Round {
    /// By the numbers of their groups.
    submissions: Vec<Vec<Submission>>,
    /// Bytes of their records.
    bytes: usize,
    deliver: Arc<dyn Deliver>,
    /// The number of the last ticket.
    last_ticket: u64,
}

impl Round {
    pub(crate) fn new(shared: &Arc<Shared>) -> Round {
        let deliver = Arc::new(Courier(Arc::downgrade(shared)));
        Round { submissions: Vec::new(), bytes: 0, deliver, last_ticket: 0 }
    }

    /// Hands over everything. Called at the end of the round.
    #[inline]
    pub(crate) fn hand_over(&mut self, shared: &Shared) {
        let Some(homes) = &shared.config.homes else { return };
        self.bytes = 0;
        for (group, submissions) in homes.groups().zip(&mut self.submissions) {
            if !submissions.is_empty() {
                group.submit(submissions);
            }
        }
    }

    /// The submissions to a group.
    fn of(&mut self, group: GroupNumber) -> &mut Vec<Submission> {
        let places = self.submissions.len().max(group.index() + 1);
        self.submissions.resize_with(places, Vec::new);
        &mut self.submissions[group.index()]
    }
}

/// Brings outcomes to the loops. The log must not keep a stopped server alive.
struct Courier(Weak<Shared>);

impl Deliver for Courier {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        let Some(shared) = self.0.upgrade() else { return };
        let mut loops = shared.loops.iter().map(|_| Vec::new()).collect::<Vec<_>>();
        for (Ticket { place: (event_loop, index), number }, outcome) in outcomes {
            if let Some(messages) = loops.get_mut(event_loop as usize) {
                messages.push(Message::Commit { index: index as usize, ticket: number, outcome });
            }
        }
        for (part, messages) in shared.loops.iter().zip(loops) {
            part.inbox.send_all(messages);
        }
    }
}
