//! `set`, `add`, `replace`, `append`, `prepend`, `cas`.
//!
//! ```text
//!   set alpha 0 60 5\r\n          flags, expiry, length of the value
//!   hello\r\n                     STORED\r\n
//! ```
//!
//! A value is processed when it has arrived completely. A value that is too long is skipped as it
//! arrives; a `set` then removes the record, so that no client reads a value that its owner
//! believes replaced.

use super::answer::{OUT_OF_MEMORY, Outcome, Writing};
use super::exptime;
use super::flow::Flow;
use super::line::{Arguments, BAD_FORMAT, Words, signed, unsigned};
use super::table::Row;
use super::turn::Turn;
use crate::Host;
use todana_command::{
    Command, Condition, Error, Expires, KeyCommand, Refusal, Set, Side, StringCommand,
};

/// Longest value that a client may announce. A line that announces more is refused and its value is
/// taken for commands, as in memcached.
pub(super) const ANNOUNCED_BYTES_MAX: u64 = i32::MAX as u64 - 2;

pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(super) const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// The line of a storage command.
struct Request<'l> {
    key: &'l [u8],
    flags: u32,
    exptime_s: i64,
    value_bytes: u64,
    token: u64,
}

/// Answers a storage command whose line is at the front of `input`; the value begins at `body`.
#[inline]
pub(super) fn store<H: Host>(
    turn: &mut Turn<'_, H>,
    row: Row,
    words: Words<'_>,
    line: &[u8],
    input: &[u8],
    body: usize,
) -> Flow {
    let expected = if row == Row::Cas { 5 } else { 4 };
    let arguments = match Arguments::of(words) {
        Some(arguments) if (expected..=expected + 1).contains(&arguments.as_slice().len()) => {
            arguments
        }
        _ => {
            turn.say("ERROR");
            turn.observe(row, true, line);
            return Flow::Consumed(body);
        }
    };
    let noreply = arguments.noreply();
    let Some(request) = parse(turn, row, arguments.as_slice()) else {
        turn.say_unless(noreply, BAD_FORMAT);
        turn.observe(row, true, line);
        return Flow::Consumed(body);
    };
    let (value, consumed) = match take_value(turn, request.value_bytes, input, body) {
        Body::Whole(value, consumed) => (value, consumed),
        Body::Missing(step) => return step,
        Body::TooLarge(step) => {
            if row == Row::Set {
                remove(turn, request.key);
            }
            turn.say_unless(noreply, TOO_LARGE);
            turn.observe(row, true, line);
            return step;
        }
        Body::Broken(consumed) => {
            turn.say_unless(noreply, BAD_CHUNK);
            turn.observe(row, true, line);
            return Flow::Consumed(consumed);
        }
    };
    let outcome = carry_out(turn, row, &request, value);
    let (text, row, failed) = reply(outcome, row);
    turn.say_unless(noreply, text);
    turn.observe(row, failed, line);
    Flow::Consumed(consumed)
}

fn parse<'l, H: Host>(turn: &Turn<'_, H>, row: Row, arguments: &[&'l [u8]]) -> Option<Request<'l>> {
    let &[key, flags, exptime, value_bytes, ref more @ ..] = arguments else { return None };
    let token = match row {
        Row::Cas => unsigned(more.first()?)?,
        _ => 0,
    };
    let request = Request {
        key,
        flags: u32::try_from(unsigned(flags)?).ok()?,
        exptime_s: signed(exptime)?,
        value_bytes: unsigned(value_bytes)?,
        token,
    };
    (turn.admits_key(key) && request.value_bytes <= ANNOUNCED_BYTES_MAX).then_some(request)
}

fn carry_out<H: Host>(
    turn: &mut Turn<'_, H>,
    row: Row,
    request: &Request<'_>,
    value: &[u8],
) -> Outcome {
    let key = request.key;
    let condition = match row {
        Row::Add => Condition::IfAbsent,
        Row::Replace => Condition::IfPresent,
        Row::Cas => Condition::IfVersion(request.token),
        _ => Condition::Always,
    };
    let command = match row {
        Row::Append | Row::Prepend => Command::String(StringCommand::Concat {
            key,
            bytes: value,
            side: if row == Row::Append { Side::Append } else { Side::Prepend },
            create: false,
            condition,
            expires: Expires::Keep,
        }),
        _ => Command::String(StringCommand::Set(Set {
            key,
            value,
            flags: request.flags,
            condition,
            expires: exptime::expires(request.exptime_s, turn.now_ms()),
            return_old: false,
            track_access: true,
        })),
    };
    turn.execute(&command, Writing::Silent)
}

fn reply(outcome: Outcome, row: Row) -> (&'static str, Row, bool) {
    match (outcome, row) {
        (Outcome::Stored(_), _) => ("STORED", row, false),
        (Outcome::Refused(Refusal::Absent), Row::Cas) => ("NOT_FOUND", Row::CasMiss, false),
        (Outcome::Refused(_), Row::Cas) => ("EXISTS", Row::CasBadval, false),
        (Outcome::Refused(_), _) => ("NOT_STORED", row, false),
        // memcached has no other reply for a value that became too long, or is no string.
        (Outcome::Failed(Error::ValueTooLarge | Error::WrongKind(_)), _) => {
            ("NOT_STORED", row, true)
        }
        _ => (OUT_OF_MEMORY, row, true),
    }
}

/// Removes the record that a failed `set` should have replaced.
pub(super) fn remove<H: Host>(turn: &mut Turn<'_, H>, key: &[u8]) {
    let removal = Command::Key(KeyCommand::DeleteIf { key, condition: Condition::Always });
    turn.execute_uncounted(&removal, Writing::Silent);
}

/// The value after a line.
pub(super) enum Body<'i> {
    /// The whole value, and the offset of the next request.
    Whole(&'i [u8], usize),
    /// Not complete yet.
    Missing(Flow),
    /// Longer than a value may be; it is skipped.
    TooLarge(Flow),
    /// Not followed by CR LF; the next request begins at this offset.
    Broken(usize),
}

/// Reads a value of `value_bytes` that begins at `body`.
#[inline]
pub(super) fn take_value<'i, H: Host>(
    turn: &Turn<'_, H>,
    value_bytes: u64,
    input: &'i [u8],
    body: usize,
) -> Body<'i> {
    let length = match usize::try_from(value_bytes) {
        Ok(length) if length <= turn.value_max() => length,
        _ => {
            return Body::TooLarge(Flow::Swallow { body, bytes: value_bytes.saturating_add(2) });
        }
    };
    let total = body.saturating_add(length).saturating_add(2);
    let Some(block) = input.get(body..total) else {
        return Body::Missing(Flow::Missing(total));
    };
    match block.split_at(length) {
        (value, b"\r\n") => Body::Whole(value, total),
        _ => Body::Broken(total),
    }
}
