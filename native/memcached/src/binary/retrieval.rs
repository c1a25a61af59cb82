//! `get`, `getk`, `gat`, `gatk`, their quiet forms, and `touch`.

use super::super::exptime;
use super::super::table::Row;
use super::super::turn::Turn;
use super::answer::{Outcome, Writing, run};
use super::request::Request;
use super::status::Status;
use crate::Host;
use todana_command::{Command, Error, StringCommand};

/// Returns a record; with `touches`, sets its expiry too.
pub(super) fn get<H: Host>(
    turn: &mut Turn<'_, H>,
    request: &Request<'_>,
    with_key: bool,
    touches: bool,
) {
    let key = request.key;
    let command = match touches {
        true => {
            Command::String(StringCommand::GetAndExpire { key, expires: expires(turn, request) })
        }
        false => Command::String(StringCommand::Get { key }),
    };
    let writing = Writing::Value { frame: request.frame, with_key };
    let row = request.opcode.row;
    match run(turn, &command, writing) {
        Outcome::Done => request.observe(turn, row, false),
        Outcome::Failed(Error::WrongKind(_)) => request.fail(turn, Status::InternalError, row),
        Outcome::Failed(_) => request.fail(turn, Status::OutOfMemory, row),
        _ => {
            if !request.opcode.is_quiet {
                miss(turn, request, with_key);
            }
            request.observe(turn, row, false);
        }
    }
}

/// A miss contains the key, if a hit would.
fn miss<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>, with_key: bool) {
    if !with_key {
        return request.frame.fail(turn.out, Status::NotFound);
    }
    request.frame.begin(turn.out, Status::NotFound, [0, request.key.len(), 0], 0);
    turn.out.extend_from_slice(request.key);
}

/// Sets the expiry of a record. The answer has its flags, as in memcached.
pub(super) fn touch<H: Host>(turn: &mut Turn<'_, H>, request: &Request<'_>) {
    let expires = expires(turn, request);
    let command = Command::String(StringCommand::GetAndExpire { key: request.key, expires });
    match run(turn, &command, Writing::Flags(request.frame)) {
        Outcome::Done => request.observe(turn, Row::Touch, false),
        Outcome::Failed(Error::WrongKind(_)) => {
            request.fail(turn, Status::InternalError, Row::Touch);
        }
        Outcome::Failed(_) => request.fail(turn, Status::OutOfMemory, Row::Touch),
        _ => request.fail(turn, Status::NotFound, Row::TouchMiss),
    }
}

fn expires<H: Host>(turn: &Turn<'_, H>, request: &Request<'_>) -> todana_command::Expires {
    exptime::expires(i64::from(request.u32_at(0)), turn.now_ms())
}
