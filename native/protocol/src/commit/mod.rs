//! Commits: commands on durable databases, from the session that runs them to the log and back.
//!
//! The records of a durable database change only by its log. A session runs a request **twice**:
//!
//! ```text
//!  first run    SET a 1      recorded, no reply      GET a    rides along behind it
//!               the session leaves both in its input and returns Next::Commit
//!               ... the log commits and applies the records, and delivers a tape of replies ...
//!  second run   SET a 1      played: +OK             GET a    played: $1 1
//!               the tape is used up: the next request runs for the first time
//! ```
//!
//! The second run must run the same commands in the same order, or the replies would belong to
//! other requests. So a session changes its own state only in the second run, and the time by which
//! requests are interpreted ([`Clock::now_ms`](crate::Clock::now_ms)) is the same in both. Each
//! recorded command leaves a fingerprint that the second run compares.
//!
//! What may join the records of a turn, and what has to wait for the commit:
//!
//! | command on a durable database | nothing recorded yet | behind a recorded one |
//! |---|---|---|
//! | read of some records | executed | recorded: it sees the writes before it |
//! | write | recorded | recorded |
//! | lease (`mg`) | executed if it changes nothing, or else recorded | recorded |
//! | walk over a database, long read | executed | waits |
//! | sweep | asks the log to remove what has expired | the same |
//! | transaction (EXEC) | executed if it only reads, or else recorded | waits |
//!
//! A read that is executed must see records that are new enough: [`ReadLevel`].
//!
//! A command on another database is executed, or waits behind a recorded one.
//!
//! A node without the records (a *guest*) records every command, for a member that runs them in the
//! same way (`away.rs`). A request may need the reply to one command for the next one. Then it is
//! run once more for each: the replies so far are played, and the next command is recorded.

mod away;
mod commits;
mod freshness;
mod level;
mod log;

#[cfg(test)]
pub(crate) use away::put_tracked;
pub(crate) use away::{Asked, Records};
pub use commits::{Commits, Handover};
pub use freshness::Wait;
pub use level::ReadLevel;
pub use log::Log;

/// What became of a command, or of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran<T> {
    /// It was executed, and has replied.
    Done(T),
    /// It was handed over to the log and has not replied. The session drops the output of this
    /// request and returns [`Next::Commit`](crate::Next::Commit) with the request and all later
    /// ones unconsumed. When the outcome has arrived, it runs them again: the host then answers
    /// each command that it recorded, in the same order.
    Submitted,
    /// It cannot run now: earlier requests of this turn must be committed first, the log has no
    /// room, or the records are not new enough for a read. The session does as for `Submitted`, and
    /// runs nothing more in this turn.
    Later,
    /// It was not executed, or perhaps it was: see the reason. It may have replied in part: the
    /// session drops the output of this request.
    Refused(NotDone),
}

impl<T> Ran<T> {
    /// Replaces the result of an executed command.
    pub fn map<U>(self, result: impl FnOnce(T) -> U) -> Ran<U> {
        match self {
            Ran::Done(done) => Ran::Done(result(done)),
            Ran::Submitted => Ran::Submitted,
            Ran::Later => Ran::Later,
            Ran::Refused(why) => Ran::Refused(why),
        }
    }
}

/// Why there is no reply to a command on a durable database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// Not executed: the log is being read, or has failed.
    Loading,
    /// Not executed: the log accepts no writes, because of the disk, or because this node does not
    /// reach a leader.
    ReadOnly,
    /// Not executed: the log did not accept it in time.
    Busy,
    /// Not executed: a member of the cluster has an older version, which would not know it.
    OldMember,
    /// Not executed: no leader has confirmed in time that the records are new enough.
    NoLeader,
    /// It may have been executed, or may still be.
    Unknown,
    /// Its execution failed inside the server. Earlier commands of its transaction may have had
    /// their effects.
    Internal,
    /// Not executed, or it changes nothing: no member of the cluster has answered this guest.
    Unanswered,
}

impl NotDone {
    const ALL: [NotDone; 8] = [
        NotDone::Loading,
        NotDone::ReadOnly,
        NotDone::Busy,
        NotDone::OldMember,
        NotDone::NoLeader,
        NotDone::Unknown,
        NotDone::Internal,
        NotDone::Unanswered,
    ];

    /// The reason on a tape for another node ([`todana_command::Status::Refused`]).
    pub(crate) fn number(self) -> u16 {
        self as u16
    }

    pub(crate) fn of_number(number: u16) -> NotDone {
        NotDone::ALL.get(usize::from(number)).copied().unwrap_or(NotDone::Internal)
    }
}
