//! Cursors: `cur_jump` to `cur_delete`.
//!
//! A connection's cursors have numbers. A procedure with an unknown number creates a cursor on the
//! database of the request; a known cursor stays with the database on which it was created. Cursors
//! end with their connection.

mod cursor;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use super::failure::Failure;
use super::http::Status;
use super::inputs::Inputs;
use super::outputs::Outputs;
use super::records;
use super::table::Row;
use super::turn::{Committing, Turn};
use crate::Host;
use cursor::Cursor;
use std::collections::HashMap;
use todana_command::Record;

/// Most cursors per connection.
const CURSORS_MAX: usize = 1_024;

const TOO_MANY: Failure =
    Failure::new(Status::Internal, "DB: 9: system error: the connection has too many cursors");

/// The cursors of one connection, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    cursors: HashMap<u64, Cursor>,
}

/// The cursor that a request named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    number: u64,
    /// Whether it existed before the request.
    known: bool,
}

impl Cursors {
    /// Bytes kept between turns.
    pub(super) fn held_bytes(&self) -> usize {
        self.cursors.values().map(Cursor::held_bytes).sum()
    }

    /// The cursor that the input `CUR` names. Creates it if it does not exist and there is a
    /// database for it.
    pub(super) fn choose(
        &mut self,
        inputs: &Inputs<'_>,
        database: Option<usize>,
    ) -> Result<Option<Chosen>, Failure> {
        let Some(number) = inputs.get(b"CUR").and_then(number) else { return Ok(None) };
        if self.cursors.contains_key(&number) {
            return Ok(Some(Chosen { number, known: true }));
        }
        let Some(database) = database else { return Ok(None) };
        if self.cursors.len() >= CURSORS_MAX {
            return Err(TOO_MANY);
        }
        self.cursors.insert(number, Cursor::new(database));
        Ok(Some(Chosen { number, known: false }))
    }

    fn get(&mut self, chosen: Option<Chosen>) -> Result<&mut Cursor, Failure> {
        let chosen = chosen.and_then(|chosen| self.cursors.get_mut(&chosen.number));
        chosen.ok_or(Failure::NO_SUCH_CURSOR)
    }

    /// Clears the positions of all cursors on a database that was cleared.
    pub(super) fn unset(&mut self, database: usize) {
        let on_it = self.cursors.values_mut().filter(|cursor| cursor.database() == database);
        on_it.for_each(Cursor::unset);
    }
}

/// Whether a procedure ran out of its turn, so that [`resume`] must continue it in the next.
pub(super) fn is_unfinished(done: &Result<(), Failure>) -> bool {
    matches!(done, Err(failure) if *failure == cursor::UNFINISHED)
}

/// Continues a procedure.
pub(super) fn resume<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    row: Row,
    chosen: Option<Chosen>,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Result<(), Failure> {
    match row {
        // The move itself continues; starting it again would lead to another record.
        Row::CurJump | Row::CurJumpBack | Row::CurStep | Row::CurStepBack => {
            let cursor = cursors.get(chosen)?;
            let before = cursor.clone();
            let done = cursor.resume(turn);
            if turn.committing != Committing::Nothing {
                *cursor = before;
            }
            done
        }
        _ => run(turn, cursors, row, chosen, inputs, outputs),
    }
}

/// Runs the `cur_*` procedure of a row.
pub(super) fn run<H: Host>(
    turn: &mut Turn<'_, H>,
    cursors: &mut Cursors,
    row: Row,
    chosen: Option<Chosen>,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Result<(), Failure> {
    if row == Row::CurDelete {
        return delete(cursors, chosen);
    }
    let cursor = cursors.get(chosen)?;
    move_cursor(turn, cursor, row, inputs, outputs)
}

/// Runs a procedure on a cursor. If it has to be run again, the cursor has not moved.
fn move_cursor<H: Host>(
    turn: &mut Turn<'_, H>,
    cursor: &mut Cursor,
    row: Row,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Result<(), Failure> {
    let before = turn.host.is_away(cursor.database()).then(|| cursor.clone());
    let done = move_once(turn, cursor, row, inputs, outputs);
    if turn.committing != Committing::Nothing
        && let Some(before) = before
    {
        *cursor = before;
        *outputs = Outputs::default();
    }
    done
}

fn move_once<H: Host>(
    turn: &mut Turn<'_, H>,
    cursor: &mut Cursor,
    row: Row,
    inputs: &Inputs<'_>,
    outputs: &mut Outputs,
) -> Result<(), Failure> {
    let step = inputs.has(b"step");
    match row {
        Row::CurJump => cursor.jump(turn, inputs.get(b"key")),
        Row::CurJumpBack => cursor.jump_back(turn, inputs.get(b"key")),
        Row::CurStep => cursor.step(turn),
        Row::CurStepBack => cursor.step_back(turn),
        Row::CurSetValue => set_value(turn, cursor, inputs, step),
        Row::CurRemove => cursor.remove(turn),
        Row::CurGetKey => get(turn, cursor, outputs, |cursor, turn, outputs| {
            cursor.look(turn, step, &mut |record| outputs.insert(b"key", record.key))
        }),
        Row::CurGetValue => get(turn, cursor, outputs, |cursor, turn, outputs| {
            cursor.look(turn, step, &mut |record| outputs.insert(b"value", record.value))
        }),
        Row::CurGet => get(turn, cursor, outputs, |cursor, turn, outputs| {
            let is_persistent = turn.database(cursor.database()).persistent;
            cursor.look(turn, step, &mut |record| add_record(record, is_persistent, outputs))
        }),
        Row::CurSeize => get(turn, cursor, outputs, |cursor, turn, outputs| {
            let is_persistent = turn.database(cursor.database()).persistent;
            cursor.seize(turn, &mut |record| add_record(record, is_persistent, outputs))
        }),
        _ => Err(Failure::NOT_IMPLEMENTED),
    }
}

/// `cur_delete`. A cursor that this request created stays, because ktserver deletes only cursors
/// that existed before the request.
fn delete(cursors: &mut Cursors, chosen: Option<Chosen>) -> Result<(), Failure> {
    match chosen {
        Some(Chosen { number, known: true }) => {
            cursors.cursors.remove(&number);
            Ok(())
        }
        _ => Err(Failure::no_procedure(b"cur_delete")),
    }
}

fn set_value<H: Host>(
    turn: &mut Turn<'_, H>,
    cursor: &mut Cursor,
    inputs: &Inputs<'_>,
    step: bool,
) -> Result<(), Failure> {
    let value = records::required(inputs, b"value")?;
    records::admit(turn, b"", value)?;
    let expires = records::expires(turn, cursor.database(), inputs);
    cursor.set_value(turn, value, expires, step)
}

/// Reads a record by a cursor and counts the look-up.
fn get<H: Host>(
    turn: &mut Turn<'_, H>,
    cursor: &mut Cursor,
    outputs: &mut Outputs,
    look: impl FnOnce(&mut Cursor, &mut Turn<'_, H>, &mut Outputs) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let done = look(cursor, turn, outputs);
    match &done {
        Ok(()) => turn.lookups.0 += 1,
        Err(_) if is_unfinished(&done) || turn.committing != Committing::Nothing => {}
        Err(_) => turn.lookups.1 += 1,
    }
    done
}

fn add_record(record: &Record<'_>, is_persistent: bool, outputs: &mut Outputs) {
    outputs.insert(b"key", record.key);
    outputs.insert(b"value", record.value);
    records::add_expiry(record.expires_at_ms, is_persistent, outputs);
}

/// The number of a cursor, from 0 to 2^63 - 1. Text after the digits is ignored.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..digits]).ok()?;
    digits.parse::<i64>().ok()?.try_into().ok()
}
