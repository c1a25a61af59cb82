//! Runs what a guest has submitted, on the records of this node.
//!
//! A submission is like the input of a connection whose requests are commands: those that write go
//! to the log together, reads wait until the records are new enough, and the replies, which go to a
//! tape, are the guest's.

use crate::commit::{Asked, Commits, Handover, Log, NotDone, Ran, Records, Wait};
use crate::promises::Promise;
use todana_command::{
    Begun, Command, Context, DATABASES, Databases, LONG_UNITS, LoggedSeen, LoggedWatch, Scratch,
    Status, Tape, Transaction, decode_transaction, estimated_units,
};
use todana_group::{GroupNumber, Outcome};

/// Bytes of replies from which on the other commands of a submission are refused: they take memory
/// here, on the way and at the guest.
const TAPE_BYTES_MAX: usize = 64 << 20;
/// Bytes of replies from which on a command that is answered in slices is refused too.
const REPLY_BYTES_MAX: usize = 128 << 20;

/// A submission of a guest, while it is run.
#[derive(Debug)]
pub struct Visit {
    bytes: Vec<u8>,
    commits: Commits,
    tape: Tape,
    /// Bytes of the records whose replies are on the tape.
    done: usize,
    /// The record behind them, if it takes long and was begun.
    begun: Option<Begun>,
    tracks: Tracks,
}

/// Whether clients of the guest track keys that a visit reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracks {
    /// So far, none was named.
    No,
    Yes,
    /// They have left.
    NoMore,
}

/// What a visit needs next.
#[derive(Debug)]
pub enum Step {
    /// Nothing: these are the replies, for [`Tape::from_bytes`].
    Answered(Vec<u8>),
    /// The outcome of what it hands over to the log.
    Commit(Handover),
    /// The end of this wait.
    Wait(GroupNumber, Wait),
    /// Room in the log, or the end of what other clients do.
    Busy,
    /// Time.
    More,
}

impl Visit {
    /// `None` if the bytes are no submission.
    pub fn new(bytes: Vec<u8>) -> Option<Visit> {
        Records::of(&bytes)?;
        let (commits, tape) = (Commits::default(), Tape::for_another_node());
        Some(Visit { bytes, commits, tape, done: 0, begun: None, tracks: Tracks::No })
    }

    /// Whether clients of the guest track keys that it has read, or is about to read.
    pub(crate) fn is_tracked(&self) -> bool {
        self.tracks == Tracks::Yes
    }

    /// The clients that tracked keys have left.
    pub(crate) fn track_nothing(&mut self) {
        self.tracks = Tracks::NoMore;
    }

    /// Takes the outcome of what was handed over, or of a wait.
    pub fn settle(&mut self, outcome: Outcome) {
        self.commits.settle(outcome);
    }

    /// There is no outcome, and nobody waits for one any more.
    pub fn give_up(&mut self, why: NotDone) {
        self.commits.give_up(why);
    }

    /// Whether it waits for an outcome.
    pub fn is_waiting(&self) -> bool {
        self.commits.is_waiting()
    }

    /// Whether what it runs next probably takes long.
    pub fn takes_long(&self, databases: &Databases) -> bool {
        let is_run = |asked: &Result<Asked<'_>, ()>| !matches!(asked, Ok(Asked::Tracked(_)));
        let records = Records::of(&self.bytes);
        let next = records.and_then(|records| records.behind(self.done).find(is_run));
        match next {
            Some(Ok(Asked::Command { database, body, .. })) => {
                let mut scratch = Scratch::default();
                let Ok((command, _)) = Command::decode(body, &mut scratch) else { return false };
                match command {
                    Command::Script(_) => true,
                    _ if database >= DATABASES => false,
                    _ => {
                        let table = databases.table(database);
                        estimated_units(&command, table, LONG_UNITS) >= LONG_UNITS
                    }
                }
            }
            Some(Ok(Asked::Transaction { .. })) => true,
            Some(Ok(Asked::Watch { .. } | Asked::Tracked(_)) | Err(())) | None => false,
        }
    }

    /// Runs what can be run now, until `is_over`; at least one command, or a slice of a long one.
    /// The level of the log is replaced by that of the guest's client.
    pub(crate) fn go_on(
        &mut self,
        log: Log<'_>,
        promise: &mut Promise,
        mut is_over: impl FnMut() -> bool,
    ) -> Step {
        let Visit { bytes, commits, tape, done, begun, tracks } = self;
        let Some(all) = Records::of(bytes) else { return Step::Answered(Vec::new()) };
        let log = Log { level: all.level, of_guest: true, ..log };
        let mut rest = all.behind(*done);
        commits.begin_turn();
        while let Some(asked) = rest.next() {
            if let Ok(Asked::Tracked(keys)) = asked {
                // Each time before the record behind it is run, and never later.
                if *tracks != Tracks::NoMore {
                    *tracks = Tracks::Yes;
                    keys.for_each(|key| promise.track(key));
                }
                if rest.len() == 0 && !commits.is_recording() {
                    // Broken: nothing reads these keys.
                    *done = all.len();
                }
                continue;
            }
            let bytes_max = if begun.is_some() { REPLY_BYTES_MAX } else { TAPE_BYTES_MAX };
            if tape.recorded_bytes() > bytes_max && !commits.is_playing() {
                if commits.is_recording() {
                    break;
                }
                *begun = None;
                tape.end(Status::Refused(NotDone::Unanswered.number()));
                *done = all.len() - rest.len();
                continue;
            }
            match ask(asked, log, commits, begun, tape) {
                Ran::Done(Status::Done) if begun.is_some() => return Step::More,
                Ran::Done(status) if !commits.is_recording() => tape.end(status),
                Ran::Refused(why) if !commits.is_recording() => {
                    *begun = None;
                    tape.end(Status::Refused(why.number()));
                }
                // All these are run again, after the commit.
                Ran::Submitted if !commits.is_full() => continue,
                Ran::Done(_) | Ran::Submitted | Ran::Later | Ran::Refused(_) => break,
            }
            *done = all.len() - rest.len();
            commits.forget_over();
            if is_over() && *done < all.len() {
                return Step::More;
            }
        }
        if let Some(handover) = commits.hand_over() {
            return Step::Commit(handover);
        }
        if let Some((group, wait)) = commits.begin_wait() {
            return Step::Wait(group, wait);
        }
        match *done == all.len() {
            true => Step::Answered(std::mem::take(tape).into_bytes()),
            false => Step::Busy,
        }
    }
}

/// Runs one command; if it takes long, a slice of it.
fn ask(
    asked: Result<Asked<'_>, ()>,
    log: Log<'_>,
    commits: &mut Commits,
    begun: &mut Option<Begun>,
    tape: &mut Tape,
) -> Ran<Status> {
    let context = |value_bytes_max| Context { now_ms: log.now_ms, value_bytes_max };
    match asked {
        Err(()) => Ran::Done(Status::Internal),
        Ok(Asked::Command { database, limit, body }) => {
            let mut scratch = Scratch::default();
            let Ok((command, [])) = Command::decode(body, &mut scratch) else {
                return Ran::Done(Status::Internal);
            };
            let (context, before) = (context(limit), begun.take());
            let ran = match command.is_long() {
                true => commits.run_slice(log, database, &command, context, before, tape),
                false => commits.run(log, database, &command, context, tape).map(|()| None),
            };
            ran.map(|more| {
                *begun = more;
                Status::Done
            })
        }
        Ok(Asked::Transaction { limit, other_units, body }) => {
            let mut scratch = Vec::new();
            let Ok(decoded) = decode_transaction(body, &mut scratch) else {
                return Ran::Done(Status::Internal);
            };
            let commands = &decoded.commands;
            let transaction = Transaction { watches: &[], commands, other_units };
            let (context, each) = (context(limit), |tape: &mut Tape, _| tape.next_command());
            let watches = &decoded.watches;
            let ran = commits.run_transaction(log, &transaction, watches, context, tape, each);
            ran.map(|executed| match executed {
                Ok(true) => Status::Done,
                Ok(false) => Status::WatchFailed,
                Err(why) => Status::Inadmissible(why),
            })
        }
        Ok(Asked::Watch { database, key }) => commits.watch(log, database, key).map(|watch| {
            // One that has failed by now fails when the transaction is executed.
            let failed = || LoggedWatch { database, table: 0, key, seen: LoggedSeen::Version(0) };
            tape.watch(&watch.logged().unwrap_or_else(failed));
            Status::Done
        }),
        Ok(Asked::Tracked(_)) => Ran::Done(Status::Internal),
    }
}
