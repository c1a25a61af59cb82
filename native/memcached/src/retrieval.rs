//! `get`, `gets`, `gat`, `gats`.
//!
//! ```text
//!   get alpha beta\r\n            VALUE alpha 0 5\r\n     flags, length of the value
//!                                 hello\r\n
//!                                 END\r\n                 beta is missing: no line for it
//! ```
//!
//! One line may name thousands of keys with large values, so the reply can stop between two keys:
//! the session then keeps a [`Retrieval`] and continues with the rest of the line in its next turn.
//! A line of `get` or `gets` that exceeds the limit of lines is processed in pieces. The reply to
//! one piece cannot be taken back when a later piece contains an invalid key.
//!
//! On durable databases a long `gat` is several commits, each of as many keys as one turn looks up.
//! If the log refuses a key, the line ends with the words for that.

use super::answer::{Outcome, Writing, failure};
use super::line::{BAD_FORMAT, Words, signed};
use super::table::Row;
use super::turn::{DATABASE, Turn};
use super::{ahead, exptime};
use crate::Host;
use todana_command::{Command, Error, Expires, PREFETCH_KEYS_MAX, StringCommand};

/// Keys looked up in one turn.
const KEYS_PER_TURN: usize = 1024;

/// The operation on the keys of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retrieval {
    row: Row,
    with_cas: bool,
    /// The expiry that `gat` sets.
    expires: Option<Expires>,
}

impl Retrieval {
    /// `get`, or `gets` with tokens.
    pub(super) fn get(with_cas: bool) -> Retrieval {
        let row = if with_cas { Row::Gets } else { Row::Get };
        Retrieval { row, with_cas, expires: None }
    }
}

/// The result of a line of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retrieved {
    /// The reply is complete.
    All,
    /// The turn ended before the last `left` bytes of the line.
    Until { left: usize },
    /// The line contains an invalid key; only the error was sent.
    Refused,
}

/// Answers `gat` and `gats`; `words` follow the name. `None` if the line has been answered.
pub(super) fn get_and_touch<H: Host>(
    turn: &mut Turn<'_, H>,
    with_cas: bool,
    words: &mut Words<'_>,
    line: &[u8],
) -> Option<Retrieval> {
    let row = if with_cas { Row::Gats } else { Row::Gat };
    let Some(exptime) = words.next() else {
        turn.say("ERROR");
        turn.observe(row, true, line);
        return None;
    };
    let Some(exptime_s) = signed(exptime) else {
        turn.say("CLIENT_ERROR invalid exptime argument");
        turn.observe(row, true, line);
        return None;
    };
    let expires = exptime::expires(exptime_s, turn.now_ms());
    Some(Retrieval { row, with_cas, expires: Some(expires) })
}

/// Answers for the remaining keys in `words`, until the output is full.
#[inline]
pub(super) fn retrieve<H: Host>(
    turn: &mut Turn<'_, H>,
    retrieval: Retrieval,
    words: Words<'_>,
    line: &[u8],
    output_bytes_max: usize,
) -> Retrieved {
    let retrieved = retrieve_piece(turn, retrieval, words, line, output_bytes_max);
    if retrieved == Retrieved::All {
        turn.out.extend_from_slice(b"END\r\n");
        turn.observe(retrieval.row, false, line);
    }
    retrieved
}

/// The same if more of the line will follow.
#[inline]
pub(super) fn retrieve_piece<H: Host>(
    turn: &mut Turn<'_, H>,
    retrieval: Retrieval,
    mut words: Words<'_>,
    line: &[u8],
    output_bytes_max: usize,
) -> Retrieved {
    let start = turn.out.len();
    let mut keys = 0_usize;
    loop {
        // A single key was prefetched with the waiting requests; see `ahead`.
        if keys.is_multiple_of(PREFETCH_KEYS_MAX) && words.clone().nth(1).is_some() {
            ahead::fetch_for_words(turn.host, words.clone());
        }
        let Some(key) = words.next() else { break };
        keys += 1;
        if !turn.admits_key(key) {
            return refuse(turn, retrieval, start, line);
        }
        let writing = if retrieval.with_cas { Writing::ValueWithCas } else { Writing::Value };
        let outcome = match retrieval.expires {
            None => turn.execute(&Command::String(StringCommand::Get { key }), writing),
            Some(expires) => turn
                .execute(&Command::String(StringCommand::GetAndExpire { key, expires }), writing),
        };
        if let Outcome::Failed(error @ Error::WrongKind(_)) = outcome
            && is_of_one_key(retrieval, line)
        {
            turn.say(&failure(error));
            turn.observe(retrieval.row, true, line);
            return Retrieved::Refused;
        }
        // The next key begins another commit.
        let is_played =
            turn.commit_is_over() && (retrieval.expires.is_some() || turn.host.is_away(DATABASE));
        let is_over = is_played || keys >= KEYS_PER_TURN;
        if (turn.out.len() > output_bytes_max || is_over) && words.clone().next().is_some() {
            if turn.is_refused() {
                // The line ends here, and its words are replaced, but not before the replies of the
                // log to its other keys were played.
                turn.out.truncate(start);
                if is_over {
                    break;
                }
                continue;
            }
            // The line fails as a whole or not at all, and a reply cannot be taken back in the next
            // turn.
            if !words.clone().all(|key| turn.admits_key(key)) {
                return refuse(turn, retrieval, start, line);
            }
            return Retrieved::Until { left: words.rest().len() };
        }
    }
    Retrieved::All
}

/// Whether the line has one key: a record that is no string is an error then, and is left out of
/// the reply to several keys.
#[cold]
fn is_of_one_key(retrieval: Retrieval, line: &[u8]) -> bool {
    let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).count();
    words == 2 + usize::from(retrieval.expires.is_some())
}

/// `get` and `gets` without a key.
#[cold]
pub(super) fn no_keys<H: Host>(turn: &mut Turn<'_, H>, retrieval: Retrieval, line: &[u8]) {
    turn.say("ERROR");
    turn.observe(retrieval.row, true, line);
}

/// The error of a line that contains an invalid key.
#[cold]
pub(super) fn no_key<H: Host>(turn: &mut Turn<'_, H>, retrieval: Retrieval) {
    turn.say(BAD_FORMAT);
    turn.observe(retrieval.row, true, &[]);
}

#[cold]
fn refuse<H: Host>(
    turn: &mut Turn<'_, H>,
    retrieval: Retrieval,
    start: usize,
    line: &[u8],
) -> Retrieved {
    turn.out.truncate(start);
    turn.say(BAD_FORMAT);
    turn.observe(retrieval.row, true, line);
    Retrieved::Refused
}
