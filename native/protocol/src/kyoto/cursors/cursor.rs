//! One cursor: where it stands and how it moves.
//!
//! A cursor remembers a key, and the table knows nothing of it. What became of the key's record is
//! found out at the next look: where it is gone, the cursor goes on in its direction, whoever
//! removed it. A walk therefore never returns to what it has passed, whatever others write.

use super::super::failure::Failure;
use super::super::turn::Turn;
use super::super::walk::see;
use crate::Host;
use crate::kyoto::http::Status;
use std::collections::VecDeque;
use todana_command::{Command, Condition, Expires, Record, Set};
use todana_table::{Bound, KeyRange, Keyspace};

/// Steps of a walk that a cursor takes in one turn at most: one that reads ahead, and one that
/// looks at what was read. Each passes over some thousand expired records.
const WALKS_MAX: usize = 2;
/// Times that a write is tried whose record is removed by others in between.
const TRIES_MAX: usize = 64;
/// Keys that are read ahead where there is no order: a step of a walk costs much there.
const AHEAD_KEYS: usize = 32;
/// Bytes of keys read ahead beyond which no more are kept.
const AHEAD_BYTES: usize = 16 << 10;

/// A move came to its end in this turn, among expired records, and goes on in the next. No client
/// sees it.
pub(super) const UNFINISHED: Failure =
    Failure::new(Status::Internal, "DB: 9: system error: too many expired records in a row");
const TOO_MANY_REMOVED: Failure = Failure::new(
    Status::Internal,
    "DB: 9: system error: records are removed faster than they are found; try again",
);

/// A cursor.
#[derive(Debug)]
pub(super) struct Cursor {
    database: usize,
    /// Its direction: where a step after a look goes, and where it goes when its record is removed.
    backward: bool,
    place: Option<Place>,
    /// Moves of a step that are still to be made, the one under way included.
    moves: u8,
    /// Keys that followed the place when they were read, where there is no order.
    ahead: VecDeque<Vec<u8>>,
}

/// Where a cursor stands.
#[derive(Clone, Debug)]
struct Place {
    key: Vec<u8>,
    /// When its record was to expire as it was last seen.
    expires_at_ms: Option<u64>,
}

/// What is done to the record that a cursor is on.
enum Write<'w> {
    Set(&'w [u8], Expires),
    Remove,
    Take,
}

type Look<'l> = &'l mut dyn FnMut(&Record<'_>);

impl Cursor {
    pub(super) fn new(database: usize) -> Cursor {
        Cursor { database, backward: false, place: None, moves: 0, ahead: VecDeque::new() }
    }

    /// Bytes that it keeps, with room for all the keys that it may read ahead.
    pub(super) fn held_bytes(&self) -> usize {
        let place = self.place.as_ref().map_or(0, |place| place.key.capacity());
        let ahead = if self.ahead.is_empty() { 0 } else { AHEAD_BYTES };
        size_of::<Cursor>() + place + ahead
    }

    pub(super) fn database(&self) -> usize {
        self.database
    }

    /// Takes it off its place.
    pub(super) fn unset(&mut self) {
        self.place = None;
        self.moves = 0;
        self.ahead.clear();
    }

    /// Goes on with a move that is [`UNFINISHED`].
    pub(super) fn resume<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        match self.find(turn, &mut |_| {}) {
            Ok(()) => {
                self.moves = self.moves.saturating_sub(1);
                self.make_moves(turn)
            }
            failed => self.fail_moves(failed),
        }
    }

    /// Moves to the first record, or to a key: the first record from there on, or the very one
    /// where there is no order.
    pub(super) fn jump<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        key: Option<&[u8]>,
    ) -> Result<(), Failure> {
        self.unset();
        self.backward = false;
        match key {
            None => self.walk(turn, KeyRange::All, None, &mut |_| {})?,
            Some(key) if self.is_ordered(turn) => {
                let keys = KeyRange::Between(Bound::Included(key), Bound::Unbounded);
                self.walk(turn, keys, None, &mut |_| {})?;
            }
            Some(key) => {
                if !self.stand_on(turn, key, &mut |_| {})? {
                    return Err(Failure::NO_RECORD);
                }
            }
        }
        Ok(())
    }

    /// Moves to the last record, or to a key: the last record up to there.
    pub(super) fn jump_back<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        key: Option<&[u8]>,
    ) -> Result<(), Failure> {
        self.check_order(turn)?;
        self.unset();
        self.backward = true;
        let keys = match key {
            None => KeyRange::All,
            Some(key) => KeyRange::Between(Bound::Unbounded, Bound::Included(key)),
        };
        self.walk(turn, keys, None, &mut |_| {})
    }

    /// Moves to the record that follows. Where others removed the record, the cursor is on the one
    /// that follows it already, and moves to the next.
    pub(super) fn step<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        let Place { key, expires_at_ms } = self.place.clone().ok_or(Failure::NO_RECORD)?;
        self.backward = false;
        let has_expired = expires_at_ms.is_some_and(|at_ms| at_ms <= turn.host.now_ms());
        let is_gone = !has_expired && !self.stand_on(turn, &key, &mut |_| {})?;
        self.moves = 1 + u8::from(is_gone);
        self.make_moves(turn)
    }

    /// Makes the moves of a step that are left.
    fn make_moves<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        while self.moves > 0 {
            match self.go(turn, &mut |_| {}) {
                Ok(()) => self.moves -= 1,
                failed => return self.fail_moves(failed),
            }
        }
        Ok(())
    }

    /// A move failed: those behind it are not made, unless it goes on in another turn.
    fn fail_moves(&mut self, failed: Result<(), Failure>) -> Result<(), Failure> {
        if failed.as_ref() != Err(&UNFINISHED) {
            self.moves = 0;
        }
        failed
    }

    /// Moves to the record before, whether there still is one at its place or not.
    pub(super) fn step_back<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        self.check_order(turn)?;
        self.backward = true;
        self.go(turn, &mut |_| {})
    }

    /// Looks at the record, then moves on if told so. That there is nothing to move on to is no
    /// failure.
    pub(super) fn look<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        step: bool,
        look: Look<'_>,
    ) -> Result<(), Failure> {
        self.find(turn, look)?;
        if step { self.leave(turn) } else { Ok(()) }
    }

    /// Stores a value in place of the record's, then moves on if told so.
    pub(super) fn set_value<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        value: &[u8],
        expires: Expires,
        step: bool,
    ) -> Result<(), Failure> {
        self.write(turn, &Write::Set(value, expires), &mut |_| {})?;
        if let Some(place) = &mut self.place {
            place.expires_at_ms = match expires {
                Expires::At(at_ms) => Some(at_ms),
                Expires::Keep => place.expires_at_ms,
                Expires::Never => None,
            };
        }
        if step { self.leave(turn) } else { Ok(()) }
    }

    /// Removes the record and moves on in the cursor's direction.
    pub(super) fn remove<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        self.write(turn, &Write::Remove, &mut |_| {})?;
        self.leave(turn)
    }

    /// Looks at the record, removes it in the same step, and moves on in the cursor's direction.
    pub(super) fn seize<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        look: Look<'_>,
    ) -> Result<(), Failure> {
        self.write(turn, &Write::Take, look)?;
        self.leave(turn)
    }

    /// Writes to the record. Where that is gone, to the one the cursor is on then.
    fn write<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        write: &Write<'_>,
        look: Look<'_>,
    ) -> Result<(), Failure> {
        for _ in 0..TRIES_MAX {
            let place = self.place.as_ref().ok_or(Failure::NO_RECORD)?;
            let seen = see(turn, self.database, &write.command(&place.key), look)?;
            let is_done = match write {
                Write::Take => seen.found > 0,
                Write::Set(..) | Write::Remove => !seen.refused,
            };
            if is_done {
                return Ok(());
            }
            self.find(turn, &mut |_| {})?;
        }
        Err(TOO_MANY_REMOVED)
    }

    /// Looks at the record that the cursor is on. Where that is gone, at the next in its direction.
    fn find<H: Host>(&mut self, turn: &mut Turn<'_, H>, look: Look<'_>) -> Result<(), Failure> {
        let key = self.place.as_ref().ok_or(Failure::NO_RECORD)?.key.clone();
        if self.stand_on(turn, &key, look)? { Ok(()) } else { self.go(turn, look) }
    }

    /// Moves on, if there is something to move on to.
    fn leave<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        match self.go(turn, &mut |_| {}) {
            // The next look goes on from where this one came to.
            Err(failure) if failure == UNFINISHED => Ok(()),
            Err(failure) if failure == Failure::NO_RECORD => Ok(()),
            other => other,
        }
    }

    /// Moves to the record beside the place, in the cursor's direction.
    fn go<H: Host>(&mut self, turn: &mut Turn<'_, H>, look: Look<'_>) -> Result<(), Failure> {
        let key = self.place.take().ok_or(Failure::NO_RECORD)?.key;
        self.walk(turn, KeyRange::All, Some(key), look)
    }

    /// Moves to the first of these records in the cursor's direction.
    fn walk<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        keys: KeyRange<'_>,
        mut after: Option<Vec<u8>>,
        look: Look<'_>,
    ) -> Result<(), Failure> {
        self.place = None;
        let is_ordered = self.is_ordered(turn);
        for _ in 0..WALKS_MAX {
            while let Some(key) = self.ahead.pop_front() {
                if self.stand_on(turn, &key, look)? {
                    return Ok(());
                }
                after = Some(key);
            }
            let count = if is_ordered { 1 } else { AHEAD_KEYS };
            let command = Command::Range {
                keys,
                after: after.as_deref(),
                reverse: self.backward,
                count,
                values: is_ordered,
            };
            let (place, ahead, mut bytes) = (&mut self.place, &mut self.ahead, 0);
            let seen = see(turn, self.database, &command, &mut |record| {
                if is_ordered {
                    look(record);
                    *place = Some(Place::of(record));
                } else if bytes < AHEAD_BYTES {
                    bytes += record.key.len();
                    ahead.push_back(record.key.to_vec());
                }
            })?;
            if self.place.is_some() {
                return Ok(());
            }
            if self.ahead.is_empty() {
                match seen.after {
                    Some(key) => after = Some(key),
                    None => return Err(Failure::NO_RECORD),
                }
            }
        }
        // The next move goes on from here.
        self.place = after.map(|key| Place { key, expires_at_ms: Some(0) });
        Err(UNFINISHED)
    }

    /// Looks at the record of a key and stays on it, if there is one.
    fn stand_on<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        key: &[u8],
        look: Look<'_>,
    ) -> Result<bool, Failure> {
        let place = &mut self.place;
        let seen = see(turn, self.database, &Command::Get { key }, &mut |record| {
            look(record);
            *place = Some(Place::of(record));
        })?;
        Ok(seen.found > 0)
    }

    fn is_ordered<H: Host>(&self, turn: &Turn<'_, H>) -> bool {
        turn.host.databases().table(self.database).order().is_some()
    }

    fn check_order<H: Host>(&self, turn: &Turn<'_, H>) -> Result<(), Failure> {
        if self.is_ordered(turn) { Ok(()) } else { Err(Failure::NOT_IMPLEMENTED) }
    }
}

impl<'w> Write<'w> {
    fn command(&self, key: &'w [u8]) -> Command<'w> {
        let condition = Condition::IfPresent;
        match *self {
            Write::Set(value, expires) => {
                Command::Set(Set { condition, expires, ..Set::new(key, value) })
            }
            Write::Remove => Command::DeleteIf { key, condition },
            Write::Take => Command::Take { key },
        }
    }
}

impl Place {
    fn of(record: &Record<'_>) -> Place {
        Place { key: record.key.to_vec(), expires_at_ms: record.expires_at_ms }
    }
}
