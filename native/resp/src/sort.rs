//! SORT and SORT_RO. There are no lists, sets or sorted sets: the options are checked, a missing
//! key has no elements, and a string cannot be sorted.

use super::reply_format::ReplyFormat;
use super::request::{Built, Request, SYNTAX};
use todana_command::{Command, KeyCommand};

/// The position of the destination in a request, which need not be valid. Options may be repeated,
/// and the last one counts.
pub(super) fn stored_at(arguments: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while let Some(option) = arguments.get(at) {
        let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
        if word(b"limit") {
            at += 2;
        } else if word(b"by") || word(b"get") {
            at += 1;
        } else if word(b"store") && at + 1 < arguments.len() {
            at += 1;
            found = Some(at);
        }
        at += 1;
    }
    found
}

/// SORT, or SORT_RO, which does not store.
pub(super) fn sort<'a>(request: &Request<'a>, read_only: bool) -> Built<'a> {
    let mut to = None;
    let mut at = 2;
    while let Some(option) = request.arguments.get(at) {
        let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
        let left = request.arguments.len() - at - 1;
        if word(b"asc") || word(b"desc") || word(b"alpha") {
            at += 1;
        } else if word(b"limit") && left >= 2 {
            request.integer(at + 1)?;
            request.integer(at + 2)?;
            at += 3;
        } else if word(b"store") && left >= 1 && !read_only {
            to = Some(request.arguments[at + 1]);
            at += 2;
        } else if (word(b"by") || word(b"get")) && left >= 1 {
            at += 2;
        } else {
            return Err(SYNTAX);
        }
    }
    let command = match to {
        Some(to) => Command::Key(KeyCommand::StoreNothing { keys: [request.arguments[1], to] }),
        None => Command::Key(KeyCommand::Exists { keys: &request.arguments[1..2] }),
    };
    Ok((command, ReplyFormat::Sort { stores: to.is_some() }))
}
