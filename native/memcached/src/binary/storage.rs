//! `set`, `add`, `replace`, `append`, `prepend`, and their quiet forms.
//!
//! A request with a CAS token other than 0 is conditional on it, whatever its opcode.

use super::super::exptime;
use super::super::table::Row;
use super::super::turn::Turn;
use super::answer::{Outcome, Writing, run};
use super::request::Request;
use super::status::Status;
use crate::Host;
use todana_command::{
    Command, Condition, Error, Expires, KeyCommand, Refusal, Set, Side, StringCommand,
};

/// Refuses a value that is too long. A `set` then removes the record, so that no client reads a
/// value that its owner believes replaced.
pub(super) fn refuse_value<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let row = request.opcode.row;
    if row == Row::Set {
        let command =
            Command::Key(KeyCommand::DeleteIf { key: request.key, condition: Condition::Always });
        run(turn, &command, Writing::Silent);
    }
    request.fail(turn, Status::TooLarge, row);
}

/// Stores a value.
pub(super) fn store<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let row = request.opcode.row;
    let condition = match (request.cas, row) {
        (0, Row::Add) => Condition::IfAbsent,
        (0, Row::Replace) => Condition::IfPresent,
        (0, _) => Condition::Always,
        (token, _) => Condition::IfVersion(token),
    };
    let command = Command::String(StringCommand::Set(Set {
        key: request.key,
        value: request.value,
        flags: request.u32_at(0),
        condition,
        expires: exptime::expires(i64::from(request.u32_at(4)), turn.now_ms()),
        return_old: false,
        track_access: true,
    }));
    let outcome = run(turn, &command, Writing::Silent);
    let is_cas = request.cas != 0;
    match outcome {
        Outcome::Stored(version) => succeed(turn, request, version),
        Outcome::Refused(Refusal::Absent) => {
            request.fail(turn, Status::NotFound, if is_cas { Row::CasMiss } else { row });
        }
        Outcome::Refused(_) => {
            request.fail(turn, Status::Exists, if is_cas { Row::CasBadval } else { row });
        }
        Outcome::Failed(Error::ValueTooLarge) => request.fail(turn, Status::TooLarge, row),
        _ => request.fail(turn, Status::OutOfMemory, row),
    }
}

/// Adds bytes at one end of a value.
pub(super) fn concat<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let row = request.opcode.row;
    let command = Command::String(StringCommand::Concat {
        key: request.key,
        bytes: request.value,
        side: if row == Row::Append { Side::Append } else { Side::Prepend },
        create: false,
        condition: match request.cas {
            0 => Condition::Always,
            token => Condition::IfVersion(token),
        },
        expires: Expires::Keep,
    });
    match run(turn, &command, Writing::Silent) {
        Outcome::Stored(version) => succeed(turn, request, version),
        Outcome::Refused(Refusal::VersionDiffers) => request.fail(turn, Status::Exists, row),
        // memcached has no other answer for a value that became too long, or is no string.
        Outcome::Refused(_) | Outcome::Failed(Error::ValueTooLarge | Error::WrongKind(_)) => {
            request.fail(turn, Status::NotStored, row);
        }
        _ => request.fail(turn, Status::OutOfMemory, row),
    }
}

fn succeed<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>, version: u64) {
    if !request.opcode.is_quiet {
        request.frame.succeed(turn.out, &[], version);
    }
    let is_concat = matches!(request.opcode.row, Row::Append | Row::Prepend);
    let row = if request.cas == 0 || is_concat { request.opcode.row } else { Row::Cas };
    request.observe(turn, row, false);
}
