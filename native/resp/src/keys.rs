//! Commands on keys and on whole databases.

use super::encoder::Failure;
use super::expiry::TimeUnit;
use super::reply_format::ReplyFormat;
use super::request::{
    Built, NO_SUCH_DATABASE, NOT_AN_INTEGER, Request, SYNTAX, plain, wrong_arity,
};
use super::strings::comparison;
use super::{number, pattern};
use todana_command::{
    Command, DATABASES, DatabaseCommand, ExpireWhen, Expires, KeyCommand, StringCommand,
};

/// Keys in a page of SCAN without COUNT.
const SCAN_COUNT: usize = 10;

/// DEL, UNLINK.
pub(super) fn delete<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::Key(KeyCommand::Delete { keys: &request.arguments[1..] }))
}

/// DELEX.
pub(super) fn delete_if<'a>(request: &Request<'a>) -> Built<'a> {
    match request.arguments {
        [_, _] => plain(Command::Key(KeyCommand::Delete { keys: &request.arguments[1..] })),
        [_, key, option, value] => match comparison(option) {
            Some(equal) => Ok(delete_compared(key, value, equal)),
            None => Err(SYNTAX),
        },
        _ => Err(wrong_arity(request.name)),
    }
}

/// DELIFEQ.
pub(super) fn delete_if_equal<'a>(request: &Request<'a>) -> Built<'a> {
    Ok(delete_compared(request.arguments[1], request.arguments[2], true))
}

fn delete_compared<'a>(key: &'a [u8], value: &'a [u8], equal: bool) -> (Command<'a>, ReplyFormat) {
    let (new, expires, return_old) = (None, Expires::Never, false);
    let command =
        Command::String(StringCommand::ReplaceIf { key, value, equal, new, expires, return_old });
    (command, ReplyFormat::OneOrZero)
}

pub(super) fn exists<'a>(request: &Request<'a>) -> Built<'a> {
    let keys = &request.arguments[1..];
    Ok((Command::Key(KeyCommand::Exists { keys }), ReplyFormat::Found(keys.len())))
}

pub(super) fn touch<'a>(request: &Request<'a>) -> Built<'a> {
    let keys = &request.arguments[1..];
    Ok((Command::Key(KeyCommand::NoteAccess { keys }), ReplyFormat::Found(keys.len())))
}

/// EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT.
pub(super) fn expire<'a>(request: &Request<'a>, unit: TimeUnit) -> Built<'a> {
    let mut when = ExpireWhen::default();
    for option in &request.arguments[3..] {
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
    let number = request.integer(2)?;
    let (key, expires) = (request.arguments[1], request.expires(unit, number)?);
    Ok((Command::Key(KeyCommand::Expire { key, expires, when }), ReplyFormat::Plain))
}

/// TTL, PTTL, EXPIRETIME, PEXPIRETIME.
pub(super) fn expiry<'a>(request: &Request<'a>, unit: TimeUnit) -> Built<'a> {
    let TimeUnit { absolute, seconds } = unit;
    let key = request.arguments[1];
    Ok((Command::Key(KeyCommand::Expiry { key }), ReplyFormat::Expiry { absolute, seconds }))
}

pub(super) fn persist<'a>(request: &Request<'a>) -> Built<'a> {
    let when = ExpireWhen { if_some: true, ..ExpireWhen::default() };
    plain(Command::Key(KeyCommand::Expire {
        key: request.arguments[1],
        expires: Expires::Never,
        when,
    }))
}

/// TYPE.
pub(super) fn kind<'a>(request: &Request<'a>) -> Built<'a> {
    Ok((Command::Key(KeyCommand::Describe { key: request.arguments[1] }), ReplyFormat::Type))
}

/// DEBUG OBJECT.
pub(super) fn debug<'a>(request: &Request<'a>) -> Built<'a> {
    let key = request.arguments[2];
    Ok((Command::Key(KeyCommand::Describe { key }), ReplyFormat::DebugObject))
}

/// KEYS.
pub(super) fn matching<'a>(request: &Request<'a>) -> Built<'a> {
    let pattern = request.arguments[1];
    pattern::check(pattern)?;
    plain(Command::Database(DatabaseCommand::Keys { pattern }))
}

pub(super) fn scan<'a>(request: &Request<'a>) -> Built<'a> {
    let Some(cursor) = number::cursor(request.arguments[1]) else {
        return Err("ERR invalid cursor".into());
    };
    let (mut count, mut pattern, mut format) = (SCAN_COUNT, None, ReplyFormat::Plain);
    for option in request.arguments[2..].chunks(2) {
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
    Ok((Command::Database(DatabaseCommand::Scan { cursor, count, pattern, values: false }), format))
}

/// RANDOMKEY.
pub(super) fn random<'a>(_: &Request<'a>, seed: u64) -> Built<'a> {
    plain(Command::Database(DatabaseCommand::RandomKey { seed }))
}

pub(super) fn rename<'a>(request: &Request<'a>) -> Built<'a> {
    let (from, to) = (request.arguments[1], request.arguments[2]);
    Ok((Command::Key(KeyCommand::Rename { from, to, if_absent: false }), ReplyFormat::Rename))
}

/// RENAMENX.
pub(super) fn rename_if_absent<'a>(request: &Request<'a>) -> Built<'a> {
    let (from, to) = (request.arguments[1], request.arguments[2]);
    Ok((Command::Key(KeyCommand::Rename { from, to, if_absent: true }), ReplyFormat::RenameNx))
}

pub(super) fn copy<'a>(request: &Request<'a>) -> Built<'a> {
    let (mut database, mut replace) = (None, false);
    let mut at = 3;
    while let Some(option) = request.arguments.get(at) {
        if option.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if option.eq_ignore_ascii_case(b"db") && at + 1 < request.arguments.len() {
            database = Some(request.database(at + 1)?);
            at += 1;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    let (from, to) = (request.arguments[1], request.arguments[2]);
    Ok((Command::Key(KeyCommand::Copy { from, to, database, replace }), ReplyFormat::Plain))
}

/// MOVE.
pub(super) fn move_to<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::Key(KeyCommand::Move {
        key: request.arguments[1],
        database: request.database(2)?,
    }))
}

/// DBSIZE.
pub(super) fn count<'a>(_: &Request<'a>) -> Built<'a> {
    plain(Command::Database(DatabaseCommand::Count))
}

/// FLUSHDB.
pub(super) fn flush_database<'a>(request: &Request<'a>) -> Built<'a> {
    request.flush()?;
    plain(Command::Database(DatabaseCommand::Clear { at_ms: None }))
}

pub(super) fn flush_all<'a>(request: &Request<'a>) -> Built<'a> {
    request.flush()?;
    plain(Command::Database(DatabaseCommand::ClearAll { at_ms: None }))
}

/// SWAPDB.
pub(super) fn swap_databases<'a>(request: &Request<'a>) -> Built<'a> {
    let first = request.swapped(1, "ERR invalid first DB index")?;
    let second = request.swapped(2, "ERR invalid second DB index")?;
    if first >= DATABASES || second >= DATABASES {
        return Err(NO_SUCH_DATABASE);
    }
    plain(Command::Database(DatabaseCommand::Swap { first, second }))
}

/// OBJECT ENCODING, FREQ, IDLETIME, REFCOUNT.
pub(super) fn object<'a>(request: &Request<'a>, format: ReplyFormat) -> Built<'a> {
    Ok((Command::Key(KeyCommand::Describe { key: request.arguments[2] }), format))
}

pub(super) fn memory_usage<'a>(request: &Request<'a>) -> Built<'a> {
    for option in request.arguments[3..].chunks(2) {
        let &[word, value] = option else { return Err(SYNTAX) };
        if !word.eq_ignore_ascii_case(b"samples") {
            return Err(SYNTAX);
        }
        if number::integer(value).ok_or(NOT_AN_INTEGER)? < 0 {
            return Err(SYNTAX);
        }
    }
    Ok((Command::Key(KeyCommand::MemoryUsage { key: request.arguments[2] }), ReplyFormat::Plain))
}

impl Request<'_> {
    /// Checks the options of FLUSHDB and FLUSHALL. They have no effect: removal is immediate.
    fn flush(&self) -> Result<(), Failure> {
        match self.arguments[1..] {
            [] => Ok(()),
            [mode] if mode.eq_ignore_ascii_case(b"async") => Ok(()),
            [mode] if mode.eq_ignore_ascii_case(b"sync") => Ok(()),
            _ => Err(SYNTAX),
        }
    }

    /// A database number; its range is checked later.
    fn swapped(&self, at: usize, otherwise: &'static str) -> Result<usize, Failure> {
        let number = number::integer(self.arguments[at]).filter(|it| i32::try_from(*it).is_ok());
        let number = number.ok_or(Failure::new(otherwise))?;
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }
}
