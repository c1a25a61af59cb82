//! `delete`, `incr`, `decr`, `touch`: one key, one line, no value.

use super::answer::{Outcome, Writing, failure};
use super::exptime;
use super::line::{Arguments, BAD_FORMAT, Words, signed, unsigned};
use super::table::Row;
use super::turn::Turn;
use crate::Host;
use todana_command::{
    Command, Condition, Delta, Error, Expires, Increment, KeyCommand, StringCommand,
};

/// The reply if the value is not a number.
pub(super) const NOT_A_NUMBER: &str =
    "CLIENT_ERROR cannot increment or decrement non-numeric value";

const DELETE_USAGE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";

/// The reply (`None` if it is already written), the row of statistics, whether the command failed.
type Answered = (Option<&'static str>, Row, bool);

/// The commands of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OneKey {
    Delete,
    Increase,
    Decrease,
    Touch,
}

/// Answers one of the commands of this file.
pub(super) fn answer<H: Host>(
    turn: &mut Turn<'_, H>,
    command: OneKey,
    words: Words<'_>,
    line: &[u8],
) {
    let (row, arguments_least) = match command {
        OneKey::Delete => (Row::Delete, 1),
        OneKey::Increase => (Row::Incr, 2),
        OneKey::Decrease => (Row::Decr, 2),
        OneKey::Touch => (Row::Touch, 2),
    };
    let arguments = match Arguments::of(words) {
        Some(arguments) if (arguments_least..=3).contains(&arguments.as_slice().len()) => arguments,
        _ => {
            turn.say("ERROR");
            return turn.observe(row, true, line);
        }
    };
    // A single word after `delete` is the key, whatever it is.
    let noreply = arguments.as_slice().len() > 1 && arguments.noreply();
    let key = arguments.as_slice()[0];
    let more = &arguments.as_slice()[1..];
    let (text, row, failed) = if !turn.admits_key(key) {
        (Some(BAD_FORMAT), row, true)
    } else {
        match command {
            OneKey::Delete => delete(turn, key, more),
            OneKey::Touch => touch(turn, key, more[0], noreply),
            OneKey::Increase => {
                let rows = [Row::Incr, Row::IncrMiss];
                increment(turn, Delta::WrappingAdd, rows, key, more[0], noreply)
            }
            OneKey::Decrease => {
                let rows = [Row::Decr, Row::DecrMiss];
                increment(turn, Delta::SaturatingSubtract, rows, key, more[0], noreply)
            }
        }
    };
    if let Some(text) = text {
        turn.say_unless(noreply, text);
    }
    turn.observe(row, failed, line);
}

fn delete<H: Host>(turn: &mut Turn<'_, H>, key: &[u8], more: &[&[u8]]) -> Answered {
    // Early versions of memcached sent a time of 0 here.
    if !matches!(more, [] | [b"0"] | [b"noreply"] | [b"0", b"noreply"]) {
        return (Some(DELETE_USAGE), Row::Delete, true);
    }
    let command = Command::Key(KeyCommand::DeleteIf { key, condition: Condition::Always });
    match turn.execute(&command, Writing::Silent) {
        Outcome::Done => (Some("DELETED"), Row::Delete, false),
        _ => (Some("NOT_FOUND"), Row::DeleteMiss, false),
    }
}

fn touch<H: Host>(turn: &mut Turn<'_, H>, key: &[u8], exptime: &[u8], noreply: bool) -> Answered {
    let Some(exptime_s) = signed(exptime) else {
        return (Some("CLIENT_ERROR invalid exptime argument"), Row::Touch, true);
    };
    // A touch counts as a look-up, which EXPIRE does not; so the record is fetched but not written.
    let expires = exptime::expires(exptime_s, turn.now_ms());
    match turn
        .execute(&Command::String(StringCommand::GetAndExpire { key, expires }), Writing::Silent)
    {
        Outcome::Done => (Some("TOUCHED"), Row::Touch, false),
        Outcome::Failed(error @ Error::WrongKind(_)) => {
            turn.say_unless(noreply, &failure(error));
            (None, Row::Touch, true)
        }
        Outcome::Failed(_) => (Some("SERVER_ERROR out of memory touching item"), Row::Touch, true),
        _ => (Some("NOT_FOUND"), Row::TouchMiss, false),
    }
}

fn increment<H: Host>(
    turn: &mut Turn<'_, H>,
    delta: impl FnOnce(u64) -> Delta,
    [row, miss]: [Row; 2],
    key: &[u8],
    number: &[u8],
    noreply: bool,
) -> Answered {
    let Some(number) = unsigned(number) else {
        return (Some("CLIENT_ERROR invalid numeric delta argument"), row, true);
    };
    let command = Command::String(StringCommand::Increment(Increment {
        key,
        delta: delta(number),
        initial: None,
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: true,
    }));
    let writing = if noreply { Writing::Silent } else { Writing::Number };
    match turn.execute(&command, writing) {
        Outcome::Done => (None, row, false),
        Outcome::Refused(_) | Outcome::Missed => (Some("NOT_FOUND"), miss, false),
        Outcome::Failed(Error::Full) => (Some("SERVER_ERROR out of memory in incr"), row, true),
        _ => (Some(NOT_A_NUMBER), row, true),
    }
}
