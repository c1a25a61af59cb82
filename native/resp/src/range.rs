//! RANGE and PREFIX: the keys of an ordered database in order. Redis does not have these commands.
//!
//! ```text
//!   RANGE a m LIMIT 2               *2 a b
//!   RANGE a m LIMIT 2 AFTER b       *2 c d         until the reply is empty
//! ```
//!
//! A reply may have fewer keys than its limit although more follow, because it has at most some
//! 16 MiB: only an empty reply means the end.

use super::encoder::Failure;
use super::number;
use super::reply_format::ReplyFormat;
use super::request::{Built, NOT_AN_INTEGER, Request, SYNTAX};
use todana_command::{Bound, Command, DatabaseCommand, KeyRange};

/// Keys in a reply without LIMIT.
const LIMIT: usize = 1_000;
/// Maximum number of keys in a reply.
const LIMIT_MAX: usize = 65_536;

/// RANGE.
pub(super) fn between<'a>(request: &Request<'a>) -> Built<'a> {
    let keys = KeyRange::Between(bound(request.arguments[1]), bound(request.arguments[2]));
    range(keys, &request.arguments[3..])
}

pub(super) fn prefix<'a>(request: &Request<'a>) -> Built<'a> {
    range(KeyRange::Prefix(request.arguments[1]), &request.arguments[2..])
}

fn range<'a>(keys: KeyRange<'a>, options: &[&'a [u8]]) -> Built<'a> {
    let Options { after, reverse, count, values } = Options::read(options)?;
    let format = if values { ReplyFormat::Pairs } else { ReplyFormat::Range };
    Ok((Command::Database(DatabaseCommand::Range { keys, after, reverse, count, values }), format))
}

/// Converts a bound. An empty one means no bound: the beginning or the end of the database.
fn bound(key: &[u8]) -> Bound<'_> {
    if key.is_empty() { Bound::Unbounded } else { Bound::Included(key) }
}

struct Options<'a> {
    after: Option<&'a [u8]>,
    reverse: bool,
    count: usize,
    values: bool,
}

impl<'a> Options<'a> {
    fn read(words: &[&'a [u8]]) -> Result<Options<'a>, Failure> {
        let mut options = Options { after: None, reverse: false, count: LIMIT, values: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"rev") {
                options.reverse = true;
            } else if word.eq_ignore_ascii_case(b"withvalues") {
                options.values = true;
            } else if word.eq_ignore_ascii_case(b"after") {
                options.after = Some(words.next().ok_or(SYNTAX)?);
            } else if word.eq_ignore_ascii_case(b"limit") {
                options.count = limit(words.next().ok_or(SYNTAX)?)?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

fn limit(word: &[u8]) -> Result<usize, Failure> {
    let wanted = number::integer(word).ok_or(NOT_AN_INTEGER)?;
    let limit = usize::try_from(wanted).ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| format!("ERR LIMIT must be between 1 and {LIMIT_MAX}").into())
}
