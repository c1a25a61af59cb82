//! How new the records must be that a connection reads.
//!
//! In a group of several members, the records of this node may be older than what another one has
//! acknowledged. A read that its level does not permit now is not executed: the session leaves it
//! in its input, as it does with a write, and the connection waits for a **proof**: the group asks
//! the leader, and delivers an outcome when this node has everything that was acknowledged before.
//! Then the session runs the request again.
//!
//! A proof covers the requests that had arrived when the connection began to wait, so that a
//! pipeline of reads needs one. It ends with the next input. The commit of a write is a proof as
//! well: this node has applied everything before it in the log.

use super::level::ReadLevel;
use super::log::Log;
use super::{NotDone, Ran};
use todana_group::GroupNumber;

/// What a connection waits for without a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A proof.
    Proof,
    /// Until an entry of the log is applied.
    Applied {
        /// Its index.
        index: u64,
        /// Milliseconds after which the connection waits no longer.
        ms: u64,
    },
}

/// Whether the present input of a connection may be answered from the records of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Proof {
    /// Nobody knows.
    #[default]
    Missing,
    /// The connection begins to wait when its turn ends.
    Wanted(Wait),
    /// The connection waits.
    Awaited(Wait),
    /// It may.
    Given,
    /// The time was over, and there is no proof. Reads are refused.
    Refused,
    /// The time was over, and the entry is not applied. This says nothing about reads.
    Late,
}

/// Whether the records are new enough for the reads of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freshness {
    /// What the client has chosen.
    pub(super) level: Option<ReadLevel>,
    proof: Proof,
    /// The group whose records the proof is about.
    group: GroupNumber,
}

impl Freshness {
    /// Whether a read may be executed now.
    #[inline]
    pub(super) fn may_run(&self, log: Log<'_>) -> bool {
        match self.level.unwrap_or(log.level) {
            ReadLevel::Bounded => log.submit.is_fresh(log.clock_ms) || self.is_proved(log),
            ReadLevel::Linear => self.is_proved(log) || log.submit.is_alone(),
            ReadLevel::Local => true,
        }
    }

    fn is_proved(&self, log: Log<'_>) -> bool {
        self.proof == Proof::Given && self.group == log.group
    }

    /// The answer to a read that may not be executed now.
    #[cold]
    pub(super) fn put_off<T>(&mut self, log: Log<'_>) -> Ran<T> {
        if let Err(why) = log.admit_read() {
            return Ran::Refused(why);
        }
        if self.proof == Proof::Refused && self.group == log.group {
            return Ran::Refused(NotDone::NoLeader);
        }
        (self.proof, self.group) = (Proof::Wanted(Wait::Proof), log.group);
        Ran::Later
    }

    /// The connection waits for an entry when its turn has ended, unless it has just done so in
    /// vain.
    pub(super) fn want_applied(&mut self, group: GroupNumber, index: u64, ms: u64) -> bool {
        self.group = group;
        let is_late = self.proof == Proof::Late;
        self.proof = match is_late {
            true => Proof::Missing,
            false => Proof::Wanted(Wait::Applied { index, ms }),
        };
        !is_late
    }

    /// Begins to wait for a group. `None` if no request asked for it in this turn.
    pub(super) fn begin_wait(&mut self) -> Option<(GroupNumber, Wait)> {
        let Proof::Wanted(wait) = self.proof else { return None };
        self.proof = Proof::Awaited(wait);
        Some((self.group, wait))
    }

    /// Whether a request of this turn waits, so that nothing may be recorded behind it.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.proof, Proof::Wanted(_))
    }

    /// A turn begins.
    #[inline]
    pub(super) fn begin_turn(&mut self) {
        if self.is_wanted() {
            self.proof = Proof::Missing;
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.proof, Proof::Awaited(_))
    }

    /// The wait has ended in time: by success, or because nothing can be read.
    pub(super) fn settle(&mut self, succeeded: bool) {
        self.proof = match self.proof {
            Proof::Awaited(Wait::Proof) if succeeded => Proof::Given,
            _ => Proof::Missing,
        };
    }

    /// The time is over.
    pub(super) fn give_up(&mut self) {
        self.proof = match self.proof {
            Proof::Awaited(Wait::Applied { .. }) => Proof::Late,
            _ => Proof::Refused,
        };
    }

    /// A write of the present input is committed, and so this node has what was before it.
    pub(super) fn prove(&mut self, group: GroupNumber) {
        (self.proof, self.group) = (Proof::Given, group);
    }

    /// Another input has arrived.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.proof = Proof::Missing;
    }
}
