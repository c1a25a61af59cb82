//! The first command of a client that needs a password: a `set` whose value is the password.
//!
//! ```text
//!   set any 0 0 17\r\n
//!   username password\r\n         STORED\r\n, or CLIENT_ERROR authentication failure\r\n
//! ```
//!
//! memcached compares both words with its password file. Todana accepts any user name, and the user
//! name may be omitted if the password contains no space.

use super::flow::Flow;
use super::line::{Words, is_http, unsigned};
use super::table::Row;
use super::turn::Turn;
use crate::Host;
use memchr::memchr;

const FAILURE: &str = "CLIENT_ERROR authentication failure";

/// Answers a request of a client that has not authenticated, whose line is at the front of `input`.
pub(super) fn answer<H: Host>(
    turn: &mut Turn<'_, H>,
    authenticated: &mut bool,
    line: &[u8],
    input: &[u8],
    body: usize,
) -> Flow {
    let Some(length) = secret_length(line) else {
        if is_http(line) {
            return Flow::Close;
        }
        turn.say("CLIENT_ERROR unauthenticated");
        turn.observe(Row::Unknown, true, &[]);
        return Flow::Consumed(body);
    };
    let length_max = turn.host.limits().unauthenticated_argument_bytes_max;
    let Some(length) = usize::try_from(length).ok().filter(|&length| length <= length_max) else {
        turn.say(FAILURE);
        turn.observe(Row::Authenticate, true, &[]);
        return Flow::Close;
    };
    let total = body.saturating_add(length).saturating_add(2);
    let Some(block) = input.get(body..total) else { return Flow::Missing(total) };
    let (secret, end) = block.split_at(length);
    let delay_ms = turn.host.password_delay_ms();
    *authenticated = end == b"\r\n" && turn.host.check_password(password(secret));
    turn.say(if *authenticated { "STORED" } else { FAILURE });
    // The slow log must contain neither the line nor the password.
    turn.observe(Row::Authenticate, !*authenticated, &[]);
    match delay_ms {
        0 => Flow::Consumed(total),
        ms => Flow::Sleep { bytes: total, ms },
    }
}

/// Length of the value of a `set`; key, flags and expiry may be anything.
fn secret_length(line: &[u8]) -> Option<u64> {
    let mut words = Words::of(line);
    if words.next() != Some(b"set") {
        return None;
    }
    unsigned(words.nth(3)?)
}

/// The text after the user name, or all of it without one.
fn password(secret: &[u8]) -> &[u8] {
    match memchr(b' ', secret) {
        Some(space) => &secret[space + 1..],
        None => secret,
    }
}
