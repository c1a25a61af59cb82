//! `mg`, `md`, `ma`, `me`: short commands with flags. `ms` is in `meta_set.rs`.

use super::answer::{OUT_OF_MEMORY, Outcome, Writing, failure};
use super::exptime;
use super::keys::NOT_A_NUMBER;
use super::line::{BAD_FORMAT, Words};
use super::meta_flags::{KeyBuffer, MetaRequest, too_many};
use super::table::Row;
use super::turn::Turn;
use crate::Host;
use todana_command::{
    Command, Condition, Delta, Error, Expires, Increment, Initial, KeyCommand, LeaseCommand,
    LeaseOptions, Refusal, StringCommand,
};

pub(super) const OPTIONS_TOO_LONG: &str = "CLIENT_ERROR options flags too long";
/// The error of `md` and `ma` for any invalid flag.
const WRONG_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";

/// Answers `mg`.
pub(super) fn get<H: Host>(turn: &mut Turn<'_, H>, mut words: Words<'_>, line: &[u8]) {
    let Some(key) = words.next() else { return fail(turn, Row::Mg, "ERROR", line) };
    if too_many(&words, 2) {
        return fail(turn, Row::Mg, "CLIENT_ERROR options flags are too long", line);
    }
    let mut buffer: KeyBuffer = [0; _];
    let request = match parse(turn, key, words, &mut buffer) {
        Ok(request) => request,
        Err(text) => return fail(turn, Row::Mg, text, line),
    };
    let now_ms = turn.now_ms();
    let moment = |seconds: i64| exptime::expires(seconds, now_ms);
    let options = LeaseOptions {
        vivify: request.vivify_s.map(|seconds| moment(request.exptime_s.unwrap_or(seconds))),
        recache_below_ms: request
            .recache_s
            .map(|seconds| u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)),
        touch: request.exptime_s.map(moment),
        quiet_access: request.unnoted,
        never_win: false,
    };
    let command = Command::Lease(LeaseCommand::Get { key: request.key, options });
    let failed = match turn.execute_uncounted(&command, Writing::Meta(&request)) {
        Outcome::Missed => {
            if !request.quiet {
                request.write_line(turn.out, "EN", None);
            }
            false
        }
        Outcome::Failed(error) => {
            turn.say(&failure(error));
            true
        }
        _ => false,
    };
    turn.observe(Row::Mg, failed, line);
}

/// Answers `md`.
pub(super) fn delete<H: Host>(turn: &mut Turn<'_, H>, mut words: Words<'_>, line: &[u8]) {
    let Some(key) = words.next() else { return fail(turn, Row::Md, "ERROR", line) };
    if too_many(&words, 2) {
        return fail(turn, Row::Md, OPTIONS_TOO_LONG, line);
    }
    let mut buffer: KeyBuffer = [0; _];
    let request = match parse(turn, key, words, &mut buffer) {
        Ok(request) => request,
        Err(text) => return fail(turn, Row::Md, summary(text), line),
    };
    let condition = request.compare.map(Condition::IfVersion).unwrap_or_default();
    let now_ms = turn.now_ms();
    let command = match request.invalidate {
        true => Command::Lease(LeaseCommand::Invalidate {
            key: request.key,
            condition,
            expires: request.exptime_s.map_or(Expires::Keep, |s| exptime::expires(s, now_ms)),
        }),
        false => Command::Key(KeyCommand::DeleteIf { key: request.key, condition }),
    };
    let outcome = turn.execute_uncounted(&command, Writing::Silent);
    let (row, failed) = match outcome {
        Outcome::Done | Outcome::Stored(_) => {
            if !request.quiet {
                request.write_line(turn.out, "HD", None);
            }
            (Row::Md, false)
        }
        Outcome::Refused(Refusal::VersionDiffers) => {
            request.write_line(turn.out, "EX", None);
            (Row::Md, false)
        }
        Outcome::Failed(_) => {
            turn.say(OUT_OF_MEMORY);
            (Row::Md, true)
        }
        _ => {
            request.write_line(turn.out, "NF", None);
            (Row::MdMiss, false)
        }
    };
    turn.observe(row, failed, line);
}

/// Answers `ma`.
pub(super) fn arithmetic<H: Host>(turn: &mut Turn<'_, H>, mut words: Words<'_>, line: &[u8]) {
    let Some(key) = words.next() else { return fail(turn, Row::Ma, "ERROR", line) };
    if too_many(&words, 2) {
        return fail(turn, Row::Ma, OPTIONS_TOO_LONG, line);
    }
    let mut buffer: KeyBuffer = [0; _];
    let request = match parse(turn, key, words, &mut buffer) {
        Ok(request) => request,
        Err(text) => return fail(turn, Row::Ma, summary(text), line),
    };
    let number = request.delta.unwrap_or(1);
    let (delta, row, miss) = match request.mode {
        None | Some(b'I' | b'+') => (Delta::WrappingAdd(number), Row::Ma, Row::MaMiss),
        Some(b'D' | b'-') => (Delta::SaturatingSubtract(number), Row::MaDecr, Row::MaDecrMiss),
        Some(_) => {
            return fail(turn, Row::Ma, "CLIENT_ERROR invalid mode for ma M token", line);
        }
    };
    let now_ms = turn.now_ms();
    let moment = |seconds: i64| exptime::expires(seconds, now_ms);
    let command = Command::String(StringCommand::Increment(Increment {
        key: request.key,
        delta,
        initial: request
            .vivify_s
            .map(|seconds| (Initial::Exactly(request.initial.unwrap_or(0)), moment(seconds))),
        condition: request.compare.map(Condition::IfVersion).unwrap_or_default(),
        expires: request.exptime_s.map_or(Expires::Keep, moment),
        track_access: true,
    }));
    let writing = if request.quiet { Writing::Silent } else { Writing::Meta(&request) };
    let (row, failed) = match turn.execute_uncounted(&command, writing) {
        Outcome::Done => (row, false),
        Outcome::Refused(Refusal::VersionDiffers) => {
            request.write_line(turn.out, "EX", None);
            (row, false)
        }
        Outcome::Refused(_) | Outcome::Missed => {
            request.write_line(turn.out, "NF", None);
            (miss, false)
        }
        Outcome::Failed(Error::Full) => {
            turn.say("SERVER_ERROR out of memory");
            (row, true)
        }
        _ => {
            turn.say(NOT_A_NUMBER);
            (row, true)
        }
    };
    turn.observe(row, failed, line);
}

/// Answers `me`.
pub(super) fn debug<H: Host>(turn: &mut Turn<'_, H>, mut words: Words<'_>, line: &[u8]) {
    let mut buffer: KeyBuffer = [0; _];
    let key = words.next().unwrap_or_default();
    let request = match parse(turn, key, words, &mut buffer) {
        Ok(request) if !key.is_empty() => request,
        _ => return fail(turn, Row::Me, BAD_FORMAT, line),
    };
    let command = Command::Key(KeyCommand::Describe { key: request.key });
    match turn.execute_uncounted(&command, Writing::Debug(request.sent_key)) {
        Outcome::Missed => turn.say("EN"),
        // The words are replaced by those of the log, which refused it.
        Outcome::Failed(_) => turn.say(OUT_OF_MEMORY),
        _ => {}
    }
    turn.observe(Row::Me, false, line);
}

pub(super) fn parse<'l, H: Host>(
    turn: &Turn<'_, H>,
    key: &'l [u8],
    words: Words<'l>,
    buffer: &'l mut KeyBuffer,
) -> Result<MetaRequest<'l>, &'static str> {
    if !is_short(key) {
        return Err(BAD_FORMAT);
    }
    MetaRequest::parse(|key| turn.admits_key(key), key, words, buffer)
}

/// Whether the length of a key as sent, base64 or not, is within the limit.
pub(super) fn is_short(key: &[u8]) -> bool {
    key.len() <= super::line::KEY_BYTES_MAX
}

/// Replaces an error in the flags of `md` and `ma`.
fn summary(text: &'static str) -> &'static str {
    match text {
        BAD_FORMAT => BAD_FORMAT,
        _ if text.ends_with("token too long") => text,
        _ => WRONG_FLAG,
    }
}

pub(super) fn fail<H: Host>(turn: &mut Turn<'_, H>, row: Row, text: &str, line: &[u8]) {
    turn.say(text);
    turn.observe(row, true, line);
}
