//! What a client hands over to the log, and how the outcome comes back.

use std::fmt;
use std::sync::Arc;

use crate::following::Following;
use todana_command::cause::Writer;
use todana_command::{FORMAT_MAX, Tape};

/// Identifies the party that waits for the outcome of a submission. The numbers mean something only
/// to the [`Deliver`] that receives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The place: for a server, the event loop and the index of the connection.
    pub place: (u32, u32),
    /// A number that this party has not used before. No two submissions in a queue have the same
    /// ticket: the second one would count as withdrawn when the first one is taken.
    pub number: u64,
}

impl Ticket {
    /// The party as the writer of records.
    pub(crate) fn writer(self) -> Writer {
        Writer::Ticket { place: self.place, number: self.number }
    }
}

/// The commands that one client hands over in one turn. They become one part of one log entry, so
/// they take effect in their order, and no other client's command comes between them.
pub struct Submission {
    /// The records, one after the other (see [`crate::record`]).
    pub records: Vec<u8>,
    /// Number of records.
    pub count: usize,
    /// The newest format that one of their commands needs
    /// ([`Command::format`](todana_command::Command::format)). Reads do not count.
    pub format: u8,
    /// The units of work that its scripts and transactions probably take
    /// ([`LONG_UNITS`](todana_command::LONG_UNITS)), and a part of those of its other commands
    /// ([`plain_units`](crate::plain_units)): an estimate that only decides when it is taken.
    pub units: u64,
    /// The party that waits for the outcome.
    pub ticket: Ticket,
    /// Where the outcome goes.
    pub deliver: Arc<dyn Deliver>,
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("bytes", &self.records.len())
            .field("count", &self.count)
            .field("ticket", &self.ticket)
            .finish_non_exhaustive()
    }
}

/// The outcome of a submission.
#[derive(Debug)]
pub enum Outcome {
    /// All its records were applied: the reply to each, in order.
    Applied(Tape),
    /// It was not applied, and never will be.
    Dropped,
    /// It may have been applied, or may still be.
    Unknown,
    /// Nothing was submitted: what [`Submit::await_fresh`] or [`Submit::await_applied`] promises.
    Fresh,
}

/// Receives outcomes. Called by the thread that applies the log, so it must be brief. An outcome
/// whose ticket nobody waits for any more is dropped.
pub trait Deliver: Send + Sync {
    /// Delivers the outcomes of submissions, by their tickets. Those that are known at the same
    /// time come together, so that a receiver has to be woken only once for them.
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>);
}

/// Whether the records may be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The log is being read, or has failed: nothing may be read.
    Closed,
    /// Reads and writes.
    Open,
    /// Reads only: the log accepts no writes, because of the disk.
    ReadOnly,
    /// Reads, and writes that only remove records
    /// ([`Command::only_removes`](todana_command::Command::only_removes)): the disk is nearly full.
    Removals,
    /// The same, because this node does not reach a leader.
    Leaderless,
}

/// How many records a numbered database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// All records.
    pub entries: u64,
    /// Those of them that expire.
    pub entries_with_expiry: u64,
}

/// The log, as a server sees it.
pub trait Submit: Send + Sync + fmt::Debug {
    /// Whether records may be read and written now.
    fn gate(&self) -> Gate;
    /// The number of the load whose records may be read; `None` while the gate is closed. To be
    /// asked again after a read: if the answer differs, the reader drops its result.
    fn readable(&self) -> Option<u64>;
    /// Whether the queue has room for a submission of these units. If not, a client keeps its
    /// request and tries again later.
    fn has_room(&self, units: u64) -> bool;
    /// Queues submissions, and empties the vector.
    fn submit(&self, submissions: &mut Vec<Submission>);
    /// Removes a submission that is still queued. If true, it was not executed and never will be.
    fn withdraw(&self, ticket: Ticket) -> bool;
    /// The longest value that a command may write or build, in bytes.
    fn value_bytes_max(&self) -> usize;
    /// The newest format of batches that all members read. A command of a newer one
    /// ([`Command::format`](todana_command::Command::format)) must not be submitted.
    fn format(&self) -> u8 {
        FORMAT_MAX
    }
    /// The newest format of batches that is written although no command needs it: within an hour
    /// after an upgrade of a cluster it is an older one.
    fn unasked_format(&self) -> u8 {
        self.format()
    }
    /// Why the gate is not open: a sentence without a line end.
    fn trouble(&self) -> String;
    /// The time of the log, by which its records expire, as far as it is known here.
    fn now_ms(&self) -> Option<u64> {
        None
    }
    /// Submits the removal of records that have expired by `now_ms`.
    fn collect(&self, now_ms: u64);
    /// Whether this node has no records, so that another one executes reads, too.
    fn is_away(&self) -> bool {
        false
    }
    /// The source of changes, if another node has the records.
    fn following(&self) -> Option<&dyn Following> {
        None
    }
    /// Whether a numbered database has no room, as far as a node without its records knows.
    fn is_full(&self, number: usize) -> bool {
        let _ = number;
        false
    }
    /// How many records a numbered database has, as far as a node without its records knows.
    fn counts(&self, number: usize) -> Option<RecordCounts> {
        let _ = number;
        None
    }
    /// Whether the group can have no other member, so that its records are always fresh.
    fn is_alone(&self) -> bool {
        true
    }
    /// Number of the other members.
    fn others(&self) -> usize {
        0
    }
    /// How many other members are known to have this entry, which is confirmed, on disk.
    fn copies(&self, index: u64) -> usize {
        let _ = index;
        0
    }
    /// The time in milliseconds by which records are fresh or not; 0 if they always are.
    fn clock_ms(&self) -> u64 {
        0
    }
    /// Whether, at this time, the records contain everything that any member acknowledged longer
    /// ago than the bound.
    fn is_fresh(&self, clock_ms: u64) -> bool {
        let _ = clock_ms;
        true
    }
    /// Delivers [`Outcome::Fresh`] when the records contain everything that any member acknowledged
    /// before this call; [`Outcome::Dropped`] if the gate is closed meanwhile. [`Submit::withdraw`]
    /// ends the wait.
    fn await_fresh(&self, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        deliver.deliver(vec![(ticket, Outcome::Fresh)]);
    }
    /// The same, when the entry of this index is applied.
    fn await_applied(&self, index: u64, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        let _ = index;
        deliver.deliver(vec![(ticket, Outcome::Fresh)]);
    }
    /// The index of the last entry that was applied.
    fn applied_index(&self) -> u64 {
        0
    }
    /// The index of the last entry that has a write of which a client here knows the outcome: that
    /// of the last entry that was applied, or of the one that is being applied.
    fn answered_index(&self) -> u64 {
        self.applied_index()
    }
}
