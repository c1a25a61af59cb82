//! Requests that share the commit of a request before them.

use super::{KyotoSession, State, is_binary, may_share};
use crate::Host;
use crate::http::{Body, Found, Seen, find};
use crate::turn::{Committing, Turn};
use std::borrow::Cow;

impl KyotoSession {
    /// Hands over the requests at the front of the input that may share the commit of a request
    /// before them, up to `requests_max`. All are run again after it, so nothing is consumed and
    /// nothing is sent here.
    #[cold]
    pub(super) fn ride<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        mut input: &[u8],
        requests_max: usize,
    ) {
        let start = turn.out.len();
        turn.rides = true;
        for _ in 0..requests_max {
            if turn.host.commit_is_full() {
                break;
            }
            match self.ride_on(turn, input) {
                Some(length) => input = &input[length..],
                None => break,
            }
        }
        turn.rides = false;
        turn.out.truncate(start);
        // As the first of them expects it: neither its delay nor its interim response comes again.
        self.becomes(State::Request);
        (self.delayed, self.continued) = (true, true);
    }

    /// Hands over one request. Returns its length if another may follow.
    fn ride_on<H: Host>(&mut self, turn: &mut Turn<'_, H>, input: &[u8]) -> Option<usize> {
        if input.first().is_none_or(|first| is_binary(*first)) {
            return None;
        }
        let head_bytes_max = turn.host.limits().line_bytes_max;
        let Found::Head(head, length) = find(input, &mut Seen::default(), head_bytes_max) else {
            return None;
        };
        let body_bytes = match head.body {
            Body::None => 0,
            Body::Bytes(bytes) => usize::try_from(bytes).ok()?,
            Body::Chunks => return None,
        };
        let total = length.checked_add(body_bytes)?;
        let body = input.get(length..total)?;
        let is_plain = body_bytes <= turn.settings().body_bytes_max
            && !head.is_preflight
            && !(head.expects_continue && body_bytes > 0)
            && may_share(&head);
        if !is_plain || self.admit(turn, &head).is_err() {
            return None;
        }
        self.answer(turn, &head, Cow::Borrowed(body), total);
        // What takes several turns does not share a commit.
        let is_long = self.pending.take().is_some();
        (!is_long && turn.committing == Committing::Recorded && head.keep_alive).then_some(total)
    }
}
