//! One cursor: its position and its moves.
//!
//! A cursor remembers a key, and the table does not know the cursor. The next operation on the
//! cursor finds out whether the key's record still exists. If the record is gone, the
//! cursor moves on in its direction. A walk therefore never returns to a key that it has
//! passed, whatever other clients write.

use super::super::failure::Failure;
use super::super::turn::Turn;
use super::super::walk::{see, see_string};
use crate::Host;
use crate::http::Status;
use std::collections::VecDeque;
use todana_command::{
    Command, Condition, DatabaseCommand, Expires, KeyCommand, Record, Set, StringCommand,
};
use todana_table::{Bound, KeyRange, Keyspace};

/// Most steps of a walk that a cursor takes in one turn: one that reads ahead, and one that reads
/// the records. Each skips up to some thousands of expired records.
const WALKS_MAX: usize = 2;
/// Most attempts of a write whose record other clients keep removing.
const TRIES_MAX: usize = 64;
/// Keys read ahead in a table without an order, where a step of a walk is expensive.
const AHEAD_KEYS: usize = 32;
/// No further keys are read ahead once they take this many bytes.
const AHEAD_BYTES: usize = 16 << 10;

/// A move ran out of its turn among expired records and continues in the next turn. Clients never
/// see this failure.
pub(super) const UNFINISHED: Failure =
    Failure::new(Status::Internal, "DB: 9: system error: too many expired records in a row");
const TOO_MANY_REMOVED: Failure = Failure::new(
    Status::Internal,
    "DB: 9: system error: records are removed faster than they are found; try again",
);

/// A cursor.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    database: usize,
    /// Its direction: where a step after a read goes, and where the cursor goes when its record is
    /// removed.
    backward: bool,
    place: Option<Place>,
    /// Moves of a step that are still to be made, the current one included.
    moves: u8,
    /// Keys that followed the position when they were read, in a table without an order.
    ahead: VecDeque<Vec<u8>>,
}

/// The position of a cursor.
#[derive(Clone, Debug)]
struct Place {
    key: Vec<u8>,
    /// The expiry of its record when it was last read.
    expires_at_ms: Option<u64>,
}

/// A change of the record at the cursor.
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

    /// Bytes that it keeps, including space for all the keys that it may read ahead.
    pub(super) fn held_bytes(&self) -> usize {
        let place = self.place.as_ref().map_or(0, |place| place.key.capacity());
        let ahead = if self.ahead.is_empty() { 0 } else { AHEAD_BYTES };
        size_of::<Cursor>() + place + ahead
    }

    pub(super) fn database(&self) -> usize {
        self.database
    }

    /// Clears its position.
    pub(super) fn unset(&mut self) {
        self.place = None;
        self.moves = 0;
        self.ahead.clear();
    }

    /// Continues a move that is [`UNFINISHED`].
    pub(super) fn resume<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        match self.find(turn, &mut |_| {}) {
            Ok(()) => {
                self.moves = self.moves.saturating_sub(1);
                self.make_moves(turn)
            }
            failed => self.fail_moves(failed),
        }
    }

    /// Moves to the first record, or to a key: to the first record at or after the key in a table
    /// with an order, to exactly that key in one without.
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

    /// Moves to the last record, or to a key: to the last record at or before it.
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

    /// Moves to the next record. If another client removed the cursor's record, the cursor is
    /// already on the record that followed it, and moves one further.
    pub(super) fn step<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        let Place { key, expires_at_ms } = self.place.clone().ok_or(Failure::NO_RECORD)?;
        self.backward = false;
        let has_expired =
            expires_at_ms.is_some_and(|at_ms| at_ms <= turn.host.records_ms(self.database));
        let is_gone = !has_expired && !self.stand_on(turn, &key, &mut |_| {})?;
        self.moves = 1 + u8::from(is_gone);
        self.make_moves(turn)
    }

    /// Makes the remaining moves of a step.
    fn make_moves<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        while self.moves > 0 {
            match self.go(turn, &mut |_| {}) {
                Ok(()) => self.moves -= 1,
                failed => return self.fail_moves(failed),
            }
        }
        Ok(())
    }

    /// After a failed move the remaining moves are dropped, unless the failed one continues in
    /// another turn.
    fn fail_moves(&mut self, failed: Result<(), Failure>) -> Result<(), Failure> {
        if failed.as_ref() != Err(&UNFINISHED) {
            self.moves = 0;
        }
        failed
    }

    /// Moves to the previous record, whether or not the record at the position still exists.
    pub(super) fn step_back<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        self.check_order(turn)?;
        self.backward = true;
        self.go(turn, &mut |_| {})
    }

    /// Reads the record, then steps if asked to. Reaching the end is not a failure.
    pub(super) fn look<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        step: bool,
        look: Look<'_>,
    ) -> Result<(), Failure> {
        self.find(turn, look)?;
        if step { self.leave(turn) } else { Ok(()) }
    }

    /// Replaces the record's value, then steps if asked to.
    pub(super) fn set_value<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        value: &[u8],
        expires: Expires,
        step: bool,
    ) -> Result<(), Failure> {
        self.write(turn, &Write::Set(value, expires), &mut |_| {})?;
        if let Some(place) = &mut self.place {
            let now_ms = turn.host.records_ms(self.database);
            place.expires_at_ms = expires.resolve(place.expires_at_ms, now_ms);
        }
        if step { self.leave(turn) } else { Ok(()) }
    }

    /// Removes the record and moves on in the cursor's direction.
    pub(super) fn remove<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        self.write(turn, &Write::Remove, &mut |_| {})?;
        self.leave(turn)
    }

    /// Reads and removes the record in one step, and moves on in the cursor's direction.
    pub(super) fn seize<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        look: Look<'_>,
    ) -> Result<(), Failure> {
        self.write(turn, &Write::Take, look)?;
        self.leave(turn)
    }

    /// Writes to the record; if it is gone, to the record that the cursor is on then.
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

    /// Reads the record at the cursor; if it is gone, the next one in its direction.
    fn find<H: Host>(&mut self, turn: &mut Turn<'_, H>, look: Look<'_>) -> Result<(), Failure> {
        let key = self.place.as_ref().ok_or(Failure::NO_RECORD)?.key.clone();
        if self.stand_on(turn, &key, look)? { Ok(()) } else { self.go(turn, look) }
    }

    /// Moves on, if there is a record to move on to.
    fn leave<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<(), Failure> {
        match self.go(turn, &mut |_| {}) {
            // The next operation continues from the present position.
            Err(failure) if failure == UNFINISHED => Ok(()),
            Err(failure) if failure == Failure::NO_RECORD => Ok(()),
            other => other,
        }
    }

    /// Moves to the neighbouring record in the cursor's direction.
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
            let command = Command::Database(DatabaseCommand::Range {
                keys,
                after: after.as_deref(),
                reverse: self.backward,
                count,
                values: is_ordered,
            });
            let (place, ahead, mut bytes) = (&mut self.place, &mut self.ahead, 0);
            let seen = see(turn, self.database, &command, &mut |record| {
                if is_ordered {
                    look(record);
                    *place = Some(Place::of(record));
                } else if bytes < AHEAD_BYTES {
                    bytes += record.key.len();
                    ahead.push_back(record.key.to_vec());
                }
            });
            let seen = match seen {
                Ok(seen) => seen,
                Err(failure) => {
                    // It may have found records in a database that was being loaded.
                    self.place = None;
                    self.ahead.clear();
                    return Err(failure);
                }
            };
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
        // The next move continues from here.
        self.place = after.map(|key| Place { key, expires_at_ms: Some(0) });
        Err(UNFINISHED)
    }

    /// Moves to the record of a key, if it exists.
    fn stand_on<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        key: &[u8],
        look: Look<'_>,
    ) -> Result<bool, Failure> {
        let place = &mut self.place;
        let seen = see_string(
            turn,
            self.database,
            &Command::String(StringCommand::Get { key }),
            &mut |record| {
                look(record);
                *place = Some(Place::of(record));
            },
        )?;
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
            Write::Set(value, expires) => Command::String(StringCommand::Set(Set {
                condition,
                expires,
                ..Set::new(key, value)
            })),
            Write::Remove => Command::Key(KeyCommand::DeleteIf { key, condition }),
            Write::Take => Command::String(StringCommand::Take { key }),
        }
    }
}

impl Place {
    fn of(record: &Record<'_>) -> Place {
        Place { key: record.key.to_vec(), expires_at_ms: record.expires_at_ms }
    }
}
