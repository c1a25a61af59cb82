//! DUMP and RESTORE.

use super::number;
use super::reply_format::{INVALID_TTL, ReplyFormat};
use super::request::{Built, NOT_AN_INTEGER, Request, SYNTAX, plain};
use todana_command::{Command, Expires, KeyCommand};

/// DUMP.
pub(super) fn dump<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::Key(KeyCommand::Dump { key: request.arguments[1] }))
}

/// RESTORE. When the value was used, and how often, is not recorded.
pub(super) fn restore<'a>(request: &Request<'a>) -> Built<'a> {
    let (mut replace, mut absolute) = (false, false);
    let (mut idle, mut frequency) = (false, false);
    let mut at = 4;
    while let Some(option) = request.arguments.get(at) {
        let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
        let has_value = at + 1 < request.arguments.len();
        if word(b"replace") {
            replace = true;
        } else if word(b"absttl") {
            absolute = true;
        } else if word(b"idletime") && has_value && !frequency {
            at += 1;
            idle = true;
            if request.integer(at)? < 0 {
                return Err("ERR Invalid IDLETIME value, must be >= 0".into());
            }
        } else if word(b"freq") && has_value && !idle {
            at += 1;
            frequency = true;
            if !(0..=255).contains(&request.integer(at)?) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    let ttl_ms = number::integer(request.arguments[2]);
    let Some(ttl_ms) = ttl_ms.and_then(|it| u64::try_from(it).ok()) else {
        if replace {
            return Err(if ttl_ms.is_some() { INVALID_TTL.into() } else { NOT_AN_INTEGER });
        }
        // That the key exists is the error that counts.
        let format = ReplyFormat::RestoreFailure { integer: ttl_ms.is_some() };
        return Ok((Command::Key(KeyCommand::Exists { keys: &request.arguments[1..2] }), format));
    };
    let expires = match ttl_ms {
        0 => Expires::Never,
        at_ms if absolute => Expires::At(at_ms),
        ms => Expires::After(ms),
    };
    let (key, payload) = (request.arguments[1], request.arguments[3]);
    Ok((Command::Key(KeyCommand::Restore { key, payload, expires, replace }), ReplyFormat::Restore))
}
