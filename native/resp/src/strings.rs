//! Commands on strings: GET, SET and related ones.

use super::encoder::Failure;
use super::expiry::{ExpiryOption, TimeUnit};
use super::reply_format::ReplyFormat;
use super::request::{Built, NOT_AN_INTEGER, Pair, Request, SYNTAX, plain, wrong_arity};
use todana_command::{
    Command, Condition, Delta, Expires, Increment, Initial, LcsWant, Set, Side, StringCommand,
};

/// Maximum number of pairs of MSET and MSETNX, which are one step: some fifteen milliseconds.
pub(super) const PAIRS_MAX: usize = 8_192;

pub(super) fn get<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::String(StringCommand::Get { key: request.arguments[1] }))
}

#[inline]
pub(super) fn set<'a>(request: &Request<'a>) -> Built<'a> {
    let mut set = Set::new(request.arguments[1], request.arguments[2]);
    if request.arguments.len() > 3
        && let Some((equal, value)) = request.set_options(&mut set)?
    {
        let Set { key, value: new, expires, return_old, .. } = set;
        return plain(Command::String(StringCommand::ReplaceIf {
            key,
            value,
            equal,
            new: Some(new),
            expires,
            return_old,
        }));
    }
    plain(Command::String(StringCommand::Set(set)))
}

pub(super) fn set_nx<'a>(request: &Request<'a>) -> Built<'a> {
    let stored = Set::new(request.arguments[1], request.arguments[2]);
    let set = Set { condition: Condition::IfAbsent, ..stored };
    Ok((Command::String(StringCommand::Set(set)), ReplyFormat::OneOrZero))
}

/// SETEX, PSETEX.
pub(super) fn set_ex<'a>(request: &Request<'a>, unit: TimeUnit) -> Built<'a> {
    let expires = request.expiry(unit, 2)?;
    plain(Command::String(StringCommand::Set(Set {
        expires,
        ..Set::new(request.arguments[1], request.arguments[3])
    })))
}

pub(super) fn get_set<'a>(request: &Request<'a>) -> Built<'a> {
    let stored = Set::new(request.arguments[1], request.arguments[2]);
    plain(Command::String(StringCommand::Set(Set { return_old: true, ..stored })))
}

pub(super) fn get_del<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::String(StringCommand::Take { key: request.arguments[1] }))
}

pub(super) fn get_ex<'a>(request: &Request<'a>) -> Built<'a> {
    let mut expiry = ExpiryOption::default();
    let mut at = 2;
    while let Some(option) = request.arguments.get(at) {
        if option.eq_ignore_ascii_case(b"persist") && expiry.unit.is_none() {
            expiry.other = true;
        } else {
            at = expiry.take(request, at)?;
        }
        at += 1;
    }
    let key = request.arguments[1];
    let command = match expiry.unit {
        Some((unit, at)) => match request.expiry(unit, at) {
            Ok(expires) => Command::String(StringCommand::GetAndExpire { key, expires }),
            // An invalid expiry is an error only if the key exists.
            Err(failure) => {
                let integer = failure != NOT_AN_INTEGER;
                return Ok((
                    Command::String(StringCommand::Get { key }),
                    ReplyFormat::GetExFailure { integer },
                ));
            }
        },
        None if expiry.other => {
            Command::String(StringCommand::GetAndExpire { key, expires: Expires::Never })
        }
        None => Command::String(StringCommand::Get { key }),
    };
    Ok((command, ReplyFormat::Plain))
}

pub(super) fn append<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::String(StringCommand::Concat {
        key: request.arguments[1],
        bytes: request.arguments[2],
        side: Side::Append,
        create: true,
        condition: Condition::Always,
        expires: Expires::Keep,
    }))
}

/// STRLEN.
pub(super) fn length<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::String(StringCommand::Length { key: request.arguments[1] }))
}

/// GETRANGE, SUBSTR.
pub(super) fn get_range<'a>(request: &Request<'a>) -> Built<'a> {
    let (start, end) = (request.integer(2)?, request.integer(3)?);
    plain(Command::String(StringCommand::GetRange { key: request.arguments[1], start, end }))
}

pub(super) fn set_range<'a>(request: &Request<'a>) -> Built<'a> {
    let (key, bytes) = (request.arguments[1], request.arguments[3]);
    let Ok(offset) = u64::try_from(request.integer(2)?) else {
        return Err("ERR offset is out of range".into());
    };
    let command = match bytes {
        [] => Command::String(StringCommand::Length { key }),
        bytes => Command::String(StringCommand::SetRange { key, offset, bytes }),
    };
    Ok((command, ReplyFormat::Plain))
}

/// MGET.
pub(super) fn get_many<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::String(StringCommand::GetMany { keys: &request.arguments[1..] }))
}

/// MSET, MSETNX.
pub(super) fn set_many<'a>(
    request: &Request<'a>,
    pairs: &'a [Pair<'a>],
    condition: Condition,
) -> Built<'a> {
    if request.arguments.len().is_multiple_of(2) {
        return Err(wrong_arity(request.name));
    }
    if pairs.len() > PAIRS_MAX {
        return Err(format!("ERR more than {PAIRS_MAX} pairs").into());
    }
    let format = match condition {
        Condition::Always => ReplyFormat::Plain,
        _ => ReplyFormat::OneOrZero,
    };
    Ok((
        Command::String(StringCommand::SetMany { pairs, condition, expires: Expires::Never }),
        format,
    ))
}

/// INCR, DECR.
pub(super) fn add<'a>(request: &Request<'a>, delta: i64) -> Built<'a> {
    plain(added(request.arguments[1], delta))
}

/// INCRBY.
pub(super) fn increase_by<'a>(request: &Request<'a>) -> Built<'a> {
    plain(added(request.arguments[1], request.integer(2)?))
}

/// DECRBY.
pub(super) fn decrease_by<'a>(request: &Request<'a>) -> Built<'a> {
    match request.integer(2)?.checked_neg() {
        Some(delta) => plain(added(request.arguments[1], delta)),
        None => Err("ERR decrement would overflow".into()),
    }
}

/// INCRBYFLOAT.
pub(super) fn increase_by_float<'a>(request: &Request<'a>) -> Built<'a> {
    let (key, delta) = (request.arguments[1], request.arguments[2]);
    plain(Command::String(StringCommand::IncrementFloat { key, delta }))
}

pub(super) fn lcs<'a>(request: &Request<'a>) -> Built<'a> {
    let (mut length, mut spans, mut with_lengths, mut length_min) = (false, false, false, 0);
    let mut at = 3;
    while let Some(option) = request.arguments.get(at) {
        let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
        if word(b"len") {
            length = true;
        } else if word(b"idx") {
            spans = true;
        } else if word(b"withmatchlen") {
            with_lengths = true;
        } else if word(b"minmatchlen") && at + 1 < request.arguments.len() {
            length_min = usize::try_from(request.integer(at + 1)?).unwrap_or(0);
            at += 1;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    let want = match (length, spans) {
        (true, true) => {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(text.into());
        }
        (true, false) => LcsWant::Length,
        (false, true) => LcsWant::Spans { length_min, with_lengths },
        (false, false) => LcsWant::Text,
    };
    let keys = [request.arguments[1], request.arguments[2]];
    Ok((Command::String(StringCommand::Lcs { keys, want }), ReplyFormat::Plain))
}

fn added(key: &[u8], delta: i64) -> Command<'_> {
    Command::String(StringCommand::Increment(Increment {
        key,
        delta: Delta::Signed(delta),
        initial: Some((Initial::Zero, Expires::Never)),
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    }))
}

/// Whether a value must be equal to another one, or not equal, and that one.
type Comparison<'a> = (bool, &'a [u8]);

/// IFEQ, IFNE.
pub(super) fn comparison(option: &[u8]) -> Option<bool> {
    let words: [(&[u8], bool); 2] = [(b"ifeq", true), (b"ifne", false)];
    words.iter().find(|(word, _)| option.eq_ignore_ascii_case(word)).map(|(_, equal)| *equal)
}

impl<'a> Request<'a> {
    /// Reads the options of SET. Returns the comparison if there is one.
    fn set_options(&self, set: &mut Set<'a>) -> Result<Option<Comparison<'a>>, Failure> {
        let mut expiry = ExpiryOption::default();
        let mut compared: Option<Comparison<'a>> = None;
        let mut at = 3;
        while let Some(option) = self.arguments.get(at) {
            let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
            if word(b"nx") && set.condition != Condition::IfPresent {
                set.condition = Condition::IfAbsent;
            } else if word(b"xx") && set.condition != Condition::IfAbsent {
                set.condition = Condition::IfPresent;
            } else if word(b"get") {
                set.return_old = true;
            } else if word(b"keepttl") && expiry.unit.is_none() {
                expiry.other = true;
            } else if let Some(equal) = comparison(option) {
                at += 1;
                let value = *self.arguments.get(at).ok_or(SYNTAX)?;
                if compared.replace((equal, value)).is_some() {
                    return Err(SYNTAX);
                }
            } else {
                at = expiry.take(self, at)?;
            }
            at += 1;
        }
        set.expires = match expiry.unit {
            Some((unit, at)) => self.expiry(unit, at)?,
            None if expiry.other => Expires::Keep,
            None => Expires::Never,
        };
        match set.condition {
            Condition::Always => Ok(compared),
            _ if compared.is_some() => Err(SYNTAX),
            _ => Ok(None),
        }
    }
}
