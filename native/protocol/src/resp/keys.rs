//! Keys, whatever their values are, and whole databases.

use super::encoder::Failure;
use super::reply_format::ReplyFormat;
use super::request::{Built, NO_SUCH_DATABASE, NOT_AN_INTEGER, Request, SYNTAX};
use super::strings::Unit;
use super::table::Name;
use super::{number, pattern};
use todana_command::{Command, DATABASES, ExpireWhen, Expires};

/// Keys in a page of SCAN that asks for no number.
const SCAN_COUNT: usize = 10;

pub(super) fn build<'a>(request: &Request<'a>) -> Built<'a> {
    let arguments = request.arguments;
    let key = arguments.get(1).copied().unwrap_or_default();
    let second = arguments.get(2).copied().unwrap_or_default();
    let plain = |command| Ok((command, ReplyFormat::Plain));
    let expiry = |absolute, seconds| {
        Ok((Command::Expiry { key }, ReplyFormat::Expiry { absolute, seconds }))
    };
    match request.name {
        Name::Del | Name::Unlink => plain(Command::Delete { keys: &arguments[1..] }),
        Name::Exists => {
            let keys = &arguments[1..];
            Ok((Command::Exists { keys }, ReplyFormat::Found(keys.len())))
        }
        Name::Touch => {
            let keys = &arguments[1..];
            Ok((Command::NoteAccess { keys }, ReplyFormat::Found(keys.len())))
        }
        Name::Expire => request.expire(Unit::SECONDS),
        Name::PExpire => request.expire(Unit::MILLISECONDS),
        Name::ExpireAt => request.expire(Unit::AT_SECONDS),
        Name::PExpireAt => request.expire(Unit::AT_MILLISECONDS),
        Name::Ttl => expiry(false, true),
        Name::PTtl => expiry(false, false),
        Name::ExpireTime => expiry(true, true),
        Name::PExpireTime => expiry(true, false),
        Name::Persist => {
            let when = ExpireWhen { if_some: true, ..ExpireWhen::default() };
            plain(Command::Expire { key, expires: Expires::Never, when })
        }
        Name::Type => Ok((Command::Exists { keys: &arguments[1..] }, ReplyFormat::Type)),
        Name::KeysOf => {
            pattern::check(key)?;
            plain(Command::Keys { pattern: key })
        }
        Name::Scan => request.scan(),
        Name::RandomKey => plain(Command::RandomKey { seed: request.random }),
        Name::RenameTo => {
            Ok((Command::Rename { from: key, to: second, if_absent: false }, ReplyFormat::Rename))
        }
        Name::RenameNx => {
            Ok((Command::Rename { from: key, to: second, if_absent: true }, ReplyFormat::RenameNx))
        }
        Name::CopyTo => request.copy(),
        Name::Move => plain(Command::Move { key, database: request.database(2)? }),
        Name::DbSize => plain(Command::Count),
        Name::FlushDb => request.flush().and_then(|()| plain(Command::Clear { at_ms: None })),
        Name::FlushAll => request.flush().and_then(|()| plain(Command::ClearAll { at_ms: None })),
        Name::SwapDb => {
            let first = request.swapped(1, "ERR invalid first DB index")?;
            let second = request.swapped(2, "ERR invalid second DB index")?;
            if first >= DATABASES || second >= DATABASES {
                return Err(NO_SUCH_DATABASE);
            }
            plain(Command::Swap { first, second })
        }
        Name::ObjectEncoding => Ok((Command::Get { key: second }, ReplyFormat::Encoding)),
        Name::ObjectFreq => Ok((Command::Get { key: second }, ReplyFormat::Untold)),
        Name::ObjectIdleTime => Ok((Command::Get { key: second }, ReplyFormat::Always(0))),
        Name::ObjectRefCount => Ok((Command::Get { key: second }, ReplyFormat::Always(1))),
        _ => request.memory_usage(),
    }
}

impl<'a> Request<'a> {
    fn expire(&self, unit: Unit) -> Built<'a> {
        let mut when = ExpireWhen::default();
        for option in &self.arguments[3..] {
            let flag = match option.to_ascii_lowercase().as_slice() {
                b"nx" => &mut when.if_none,
                b"xx" => &mut when.if_some,
                b"gt" => &mut when.if_later,
                b"lt" => &mut when.if_earlier,
                _ => return Err(Failure::quoting("ERR Unsupported option ", option, "")),
            };
            *flag = true;
        }
        if when.if_none && (when.if_some || when.if_later || when.if_earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(text.into());
        }
        if when.if_later && when.if_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        let number = self.integer(2)?;
        let at_ms = self.moment(unit, number).ok_or_else(|| self.invalid_expiry())?;
        let (key, expires) = (self.arguments[1], Expires::At(at_ms));
        Ok((Command::Expire { key, expires, when }, ReplyFormat::Plain))
    }

    fn scan(&self) -> Built<'a> {
        let Some(cursor) = number::cursor(self.arguments[1]) else {
            return Err("ERR invalid cursor".into());
        };
        let (mut count, mut pattern, mut format) = (SCAN_COUNT, None, ReplyFormat::Plain);
        for option in self.arguments[2..].chunks(2) {
            let &[word, value] = option else { return Err(SYNTAX) };
            if word.eq_ignore_ascii_case(b"count") {
                let wanted = number::integer(value).ok_or(NOT_AN_INTEGER)?;
                count = usize::try_from(wanted).ok().filter(|it| *it > 0).ok_or(SYNTAX)?;
            } else if word.eq_ignore_ascii_case(b"match") {
                pattern::check(value)?;
                pattern = Some(value);
            } else if word.eq_ignore_ascii_case(b"type") {
                let known = value.eq_ignore_ascii_case(b"string");
                format = if known { ReplyFormat::Plain } else { ReplyFormat::NoKeys };
            } else {
                return Err(SYNTAX);
            }
        }
        Ok((Command::Scan { cursor, count, pattern, values: false }, format))
    }

    fn copy(&self) -> Built<'a> {
        let (mut database, mut replace) = (None, false);
        let mut at = 3;
        while let Some(option) = self.arguments.get(at) {
            if option.eq_ignore_ascii_case(b"replace") {
                replace = true;
            } else if option.eq_ignore_ascii_case(b"db") && at + 1 < self.arguments.len() {
                database = Some(self.database(at + 1)?);
                at += 1;
            } else {
                return Err(SYNTAX);
            }
            at += 1;
        }
        let (from, to) = (self.arguments[1], self.arguments[2]);
        Ok((Command::Copy { from, to, database, replace }, ReplyFormat::Plain))
    }

    /// Checks the options of FLUSHDB and FLUSHALL, which change nothing: removal is always at once.
    fn flush(&self) -> Result<(), Failure> {
        match self.arguments[1..] {
            [] => Ok(()),
            [mode] if mode.eq_ignore_ascii_case(b"async") => Ok(()),
            [mode] if mode.eq_ignore_ascii_case(b"sync") => Ok(()),
            _ => Err(SYNTAX),
        }
    }

    /// A database number whose range is checked later.
    fn swapped(&self, at: usize, otherwise: &'static str) -> Result<usize, Failure> {
        let number = number::integer(self.arguments[at]).filter(|it| i32::try_from(*it).is_ok());
        let number = number.ok_or(Failure::new(otherwise))?;
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    fn memory_usage(&self) -> Built<'a> {
        for option in self.arguments[3..].chunks(2) {
            let &[word, value] = option else { return Err(SYNTAX) };
            if !word.eq_ignore_ascii_case(b"samples") {
                return Err(SYNTAX);
            }
            if number::integer(value).ok_or(NOT_AN_INTEGER)? < 0 {
                return Err(SYNTAX);
            }
        }
        Ok((Command::MemoryUsage { key: self.arguments[2] }, ReplyFormat::Plain))
    }
}
