//! Requests on durable databases: which may share a commit, and the words if there is none.

use super::line::Words;
use super::turn::{Committing, Turn};
use crate::Host;
use todana_protocol::NotDone;

/// Whether a request may be handed over to the log together with a request before it. Others wait
/// for the commit: those that the session answers itself, and `me`, whose second command depends on
/// the reply to the first.
pub(super) fn may_ride(line: &[u8]) -> bool {
    matches!(
        Words::of(line).next(),
        Some(
            b"get"
                | b"gets"
                | b"gat"
                | b"gats"
                | b"set"
                | b"add"
                | b"replace"
                | b"append"
                | b"prepend"
                | b"cas"
                | b"ms"
                | b"mg"
                | b"md"
                | b"ma"
                | b"delete"
                | b"incr"
                | b"decr"
                | b"touch"
                | b"flush_all"
        )
    )
}

/// If the log refused a command of the present request, replaces the words that were written since
/// then. If there are none, the client wants none, unless it `must_answer`. Returns whether it did
/// refuse.
pub(super) fn replace_words<H: Host>(
    turn: &mut Turn<'_, H>,
    output_bytes: usize,
    must_answer: bool,
) -> bool {
    let Committing::Refused(why) = std::mem::take(&mut turn.committing) else { return false };
    if must_answer || turn.out.len() > output_bytes {
        turn.out.truncate(output_bytes);
        turn.say(words(why));
    }
    true
}

fn words(why: NotDone) -> &'static str {
    match why {
        NotDone::Loading => "SERVER_ERROR loading",
        NotDone::ReadOnly | NotDone::Busy | NotDone::NoLeader | NotDone::Unanswered => {
            "SERVER_ERROR temporary failure"
        }
        NotDone::OldMember => "SERVER_ERROR a member of the cluster has an older version",
        NotDone::Unknown => "SERVER_ERROR outcome unknown",
        NotDone::Internal => "SERVER_ERROR internal error",
    }
}
