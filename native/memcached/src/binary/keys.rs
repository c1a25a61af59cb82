//! `delete`, `increment`, `decrement`, and their quiet forms.

use super::super::exptime;
use super::super::table::Row;
use super::super::turn::Turn;
use super::answer::{Outcome, Writing, run};
use super::request::Request;
use super::status::Status;
use crate::Host;
use todana_command::{
    Command, Condition, Delta, Error, Expires, Increment, Initial, KeyCommand, Refusal,
    StringCommand,
};

/// The expiry of a counter that is not to be created.
const CREATE_NONE: u32 = u32::MAX;

/// Removes a record.
pub(super) fn delete<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let command =
        Command::Key(KeyCommand::DeleteIf { key: request.key, condition: condition(request) });
    match run(turn, &command, Writing::Silent) {
        Outcome::Done => request.succeed(turn, &[], 0),
        Outcome::Refused(Refusal::VersionDiffers) => {
            request.fail(turn, Status::Exists, Row::Delete);
        }
        _ => request.fail(turn, Status::NotFound, Row::DeleteMiss),
    }
}

/// Adds to a number.
pub(super) fn increase<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    increment(turn, request, Delta::WrappingAdd(request.u64_at(0)), [Row::Incr, Row::IncrMiss]);
}

/// Subtracts from a number.
pub(super) fn decrease<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let delta = Delta::SaturatingSubtract(request.u64_at(0));
    increment(turn, request, delta, [Row::Decr, Row::DecrMiss]);
}

fn increment<H: Host>(
    turn: &mut Turn<'_, H>,
    request: &Request<'_>,
    delta: Delta,
    [row, miss]: [Row; 2],
) {
    let initial = match request.u32_at(16) {
        CREATE_NONE => None,
        exptime_s => {
            let expires = exptime::expires(i64::from(exptime_s), turn.now_ms());
            Some((Initial::Exactly(request.u64_at(8)), expires))
        }
    };
    let command = Command::String(StringCommand::Increment(Increment {
        key: request.key,
        delta,
        initial,
        condition: condition(request),
        expires: Expires::Keep,
        track_access: true,
    }));
    match run(turn, &command, Writing::Silent) {
        Outcome::Number(number, version) => {
            request.succeed(turn, &number.to_be_bytes(), version);
        }
        Outcome::Refused(Refusal::VersionDiffers) => request.fail(turn, Status::Exists, row),
        Outcome::Refused(_) | Outcome::Missed => request.fail(turn, Status::NotFound, miss),
        Outcome::Failed(Error::Full) => request.fail(turn, Status::OutOfMemory, row),
        _ => request.fail(turn, Status::NotANumber, row),
    }
}

fn condition(request: &Request<'_>) -> Condition {
    match request.cas {
        0 => Condition::Always,
        token => Condition::IfVersion(token),
    }
}
