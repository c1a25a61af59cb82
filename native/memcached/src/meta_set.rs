//! `ms`: the meta command that stores.
//!
//! ```text
//!   ms alpha 5 T60 F7 c\r\n       length of the value, flags
//!   hello\r\n                     HD c81\r\n
//! ```
//!
//! If the line is invalid but its length is known, the value is skipped, so that it is not taken
//! for commands.

use super::answer::{OUT_OF_MEMORY, Outcome, Writing};
use super::exptime;
use super::flow::Flow;
use super::line::{BAD_FORMAT, Words, unsigned};
use super::meta::{OPTIONS_TOO_LONG, fail, is_short, parse};
use super::meta_flags::{KeyBuffer, MetaRequest, too_many};
use super::storage::{self, BAD_CHUNK, Body, TOO_LARGE};
use super::table::Row;
use super::turn::Turn;
use crate::Host;
use todana_command::{Command, Condition, Error, Expires, Refusal, Set, Side, StringCommand};

/// Answers `ms`, whose line is at the front of `input`; the value begins at `body`.
pub(super) fn set<H: Host>(
    turn: &mut Turn<'_, H>,
    mut words: Words<'_>,
    line: &[u8],
    input: &[u8],
    body: usize,
) -> Flow {
    let (Some(key), length) = (words.next(), words.next()) else {
        fail(turn, Row::Ms, "ERROR", line);
        return Flow::Consumed(body);
    };
    let length = length.and_then(unsigned).filter(|&length| length <= storage::ANNOUNCED_BYTES_MAX);
    let Some(length) = length.filter(|_| is_short(key)) else {
        fail(turn, Row::Ms, BAD_FORMAT, line);
        return Flow::Consumed(body);
    };
    if too_many(&words, 3) {
        fail(turn, Row::Ms, OPTIONS_TOO_LONG, line);
        return Flow::Consumed(body);
    }
    let mut buffer: KeyBuffer = [0; _];
    let parsed = parse(turn, key, words, &mut buffer)
        .and_then(|request| SetMode::of(&request).map(|mode| (request, mode)));
    let (request, mode) = match parsed {
        Ok(parsed) => parsed,
        Err(text) => {
            fail(turn, Row::Ms, text, line);
            return Flow::Swallow { body, bytes: length.saturating_add(2) };
        }
    };
    let (value, consumed) = match storage::take_value(turn, length, input, body) {
        Body::Whole(value, consumed) => (value, consumed),
        Body::Missing(step) => return step,
        Body::TooLarge(step) => {
            storage::remove(turn, request.key);
            fail(turn, Row::Ms, TOO_LARGE, line);
            return step;
        }
        Body::Broken(consumed) => {
            fail(turn, Row::Ms, BAD_CHUNK, line);
            return Flow::Consumed(consumed);
        }
    };
    let outcome =
        turn.execute_uncounted(&mode.command(&request, value, turn.now_ms()), Writing::Silent);
    let failed = match outcome {
        Outcome::Stored(version) => {
            if !request.quiet {
                request.write_line(turn.out, "HD", Some(version));
            }
            false
        }
        Outcome::Refused(refusal) => {
            let code = match refusal {
                Refusal::VersionDiffers | Refusal::ValueDiffers => "EX",
                Refusal::Absent if mode.compares(&request) => "NF",
                Refusal::Absent | Refusal::Present => "NS",
            };
            request.write_line(turn.out, code, Some(0));
            false
        }
        Outcome::Failed(Error::ValueTooLarge | Error::WrongKind(_)) => {
            request.write_line(turn.out, "NS", Some(0));
            true
        }
        _ => {
            turn.say(OUT_OF_MEMORY);
            true
        }
    };
    turn.observe(Row::Ms, failed, line);
    Flow::Consumed(consumed)
}

/// The mode of `ms`, by its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

impl SetMode {
    fn of(request: &MetaRequest<'_>) -> Result<SetMode, &'static str> {
        match request.mode {
            None | Some(b'S') => Ok(SetMode::Set),
            Some(b'E') => Ok(SetMode::Add),
            Some(b'R') => Ok(SetMode::Replace),
            Some(b'A') => Ok(SetMode::Append),
            Some(b'P') => Ok(SetMode::Prepend),
            Some(_) => Err("CLIENT_ERROR invalid mode for ms M token"),
        }
    }

    /// Whether memcached regards this as a compare-and-set, which answers `NF` instead of `NS`.
    fn compares(self, request: &MetaRequest<'_>) -> bool {
        request.compare.is_some() && matches!(self, SetMode::Set | SetMode::Replace)
    }

    fn command<'c>(self, request: &MetaRequest<'c>, value: &'c [u8], now_ms: u64) -> Command<'c> {
        let compare = request.compare.map(|version| match (request.invalidate, self) {
            // A value computed from an older record is stored, but marked as stale.
            (true, SetMode::Set) => Condition::NotNewer(version),
            _ => Condition::IfVersion(version),
        });
        let (key, condition) = match self {
            SetMode::Add => (request.key, Condition::IfAbsent),
            SetMode::Replace => (request.key, compare.unwrap_or(Condition::IfPresent)),
            _ => (request.key, compare.unwrap_or_default()),
        };
        let side = match self {
            SetMode::Append => Side::Append,
            SetMode::Prepend => Side::Prepend,
            _ => {
                return Command::String(StringCommand::Set(Set {
                    key,
                    value,
                    flags: request.client_flags,
                    condition,
                    expires: exptime::expires(request.exptime_s.unwrap_or(0), now_ms),
                    return_old: false,
                    track_access: true,
                }));
            }
        };
        Command::String(StringCommand::Concat {
            key,
            bytes: value,
            side,
            create: false,
            condition,
            expires: Expires::Keep,
        })
    }
}
