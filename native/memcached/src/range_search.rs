//! `get mio:range-search`: records of an ordered database in order, in the syntax of the store Mio.
//!
//! ```text
//!   get mio:range-search a m 2 asc\r\n        VALUE a 0 1\r\n     both ends included,
//!                                             1\r\n               the lower key first
//!                                             VALUE c 0 1\r\n
//!                                             3\r\n
//!                                             END\r\n
//! ```
//!
//! Records whose keys cannot stand in a line (longer than 250 bytes, or with blanks or control
//! characters) are left out. `gets` also returns tokens. A reply takes as many turns as it needs,
//! and sees what other clients write meanwhile.

use super::answer::{Found, Outcome, Writing};
use super::line::{Arguments, BAD_FORMAT, Words, unsigned};
use super::table::Row;
use super::turn::Turn;
use crate::Host;
use todana_command::{Bound, Command, DatabaseCommand, KeyRange};

/// The key that selects a search if more words follow it.
pub(super) const KEY: &[u8] = b"mio:range-search";

/// Most records in a reply.
const LIMIT_MAX: usize = 65_536;
/// Records read at a time.
const STEP: usize = 32;

const NOT_ORDERED: &str =
    "SERVER_ERROR the database is not ordered: name it + or % when the server is started";

const USAGE: &str = "CLIENT_ERROR bad command line format.  \
                     Usage: get mio:range-search <from> <to> <limit, 1 to 65536> asc|desc";

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search {
    with_cas: bool,
    from: Vec<u8>,
    to: Vec<u8>,
    reverse: bool,
    /// How many more records the reply may contain.
    left: usize,
    /// The key after which the search continues.
    after: Option<Vec<u8>>,
}

impl Search {
    /// Bytes kept between turns.
    pub(super) fn held_bytes(&self) -> usize {
        let after = self.after.as_ref().map_or(0, Vec::capacity);
        size_of::<Search>() + self.from.capacity() + self.to.capacity() + after
    }
}

/// Whether the words after `get` or `gets` are a search. The name alone is a key.
#[inline]
pub(super) fn is_search(words: &Words<'_>) -> bool {
    // The first bytes rule out most lines.
    words.rest().trim_ascii_start().starts_with(KEY) && {
        let mut words = words.clone();
        words.next() == Some(KEY) && words.next().is_some()
    }
}

/// The search that the words describe. `None` if the line has been answered.
pub(super) fn begin<H: Host>(
    turn: &mut Turn<'_, H>,
    with_cas: bool,
    words: Words<'_>,
    line: &[u8],
) -> Option<Box<Search>> {
    let search = match Arguments::of(words) {
        Some(arguments) => read(turn, with_cas, arguments.as_slice()),
        None => Err(USAGE),
    };
    search.map(Box::new).map_err(|text| refuse(turn, with_cas, text, line)).ok()
}

fn read<H: Host>(
    turn: &Turn<'_, H>,
    with_cas: bool,
    words: &[&[u8]],
) -> Result<Search, &'static str> {
    let [_, from, to, limit, direction] = words else { return Err(USAGE) };
    if !turn.admits_key(from) || !turn.admits_key(to) {
        return Err(BAD_FORMAT);
    }
    // Digits without a sign.
    let limit = unsigned(limit).filter(|_| limit[0].is_ascii_digit());
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    let left = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit)).ok_or(USAGE)?;
    let reverse = match *direction {
        b"asc" => false,
        b"desc" => true,
        _ => return Err(USAGE),
    };
    let (from, to) = (from.to_vec(), to.to_vec());
    Ok(Search { with_cas, from, to, reverse, left, after: None })
}

/// Writes records until the output is full. True when the search is complete.
pub(super) fn go_on<H: Host>(
    turn: &mut Turn<'_, H>,
    search: &mut Search,
    line: &[u8],
    output_bytes_max: usize,
) -> bool {
    let mut is_tired = false;
    while search.left > 0 {
        if turn.out.len() > output_bytes_max || is_tired || turn.host.turn_is_over() {
            return false;
        }
        let count = STEP.min(search.left);
        let (from, to) = (Bound::Included(&search.from[..]), Bound::Included(&search.to[..]));
        let command = Command::Database(DatabaseCommand::Range {
            keys: KeyRange::Between(from, to),
            after: search.after.as_deref(),
            reverse: search.reverse,
            count,
            values: true,
        });
        let found = Found { with_cas: search.with_cas, ..Found::default() };
        let outcome = turn.execute(&command, Writing::Found(&found));
        if turn.is_committing() {
            return false;
        }
        if outcome != Outcome::Done {
            refuse(turn, search.with_cas, NOT_ORDERED, line);
            return true;
        }
        search.left = search.left.saturating_sub(found.count.get());
        // Such a step has skipped keys, perhaps thousands of them, or has read many bytes.
        is_tired = found.count.get() < count;
        search.after = found.after.into_inner();
        if search.after.is_none() {
            search.left = 0;
        }
    }
    turn.out.extend_from_slice(b"END\r\n");
    turn.observe(row(search.with_cas), false, line);
    true
}

fn row(with_cas: bool) -> Row {
    if with_cas { Row::Gets } else { Row::Get }
}

#[cold]
fn refuse<H: Host>(turn: &mut Turn<'_, H>, with_cas: bool, text: &str, line: &[u8]) {
    turn.say(text);
    turn.observe(row(with_cas), true, line);
}
