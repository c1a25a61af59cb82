//! How a connection goes on after a request.

use todana_protocol::Next;

/// Longest sleep of DEBUG SLEEP, in seconds.
pub(super) const SLEEP_SECONDS_MAX: u32 = 60;

/// The same in milliseconds; also the longest total of the sleeps in one EXEC.
const SLEEP_MS_MAX: u64 = SLEEP_SECONDS_MAX as u64 * 1000;

/// The action after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Continue with the next request.
    Continue,
    /// Wait for this number of milliseconds.
    Sleep(u64),
    /// Close the connection.
    Close,
}

impl Flow {
    /// The action at the end of a turn, if the turn does not continue.
    #[inline]
    pub(super) fn ends(self) -> Option<Next> {
        match self {
            Flow::Continue => None,
            Flow::Sleep(ms) => Some(Next::Sleep { ms }),
            Flow::Close => Some(Next::Close),
        }
    }

    /// The action after two commands of one request: closing has precedence, and sleeps add up to
    /// the longest permitted.
    pub(super) fn and(self, other: Flow) -> Flow {
        match (self, other) {
            (Flow::Close, _) | (_, Flow::Close) => Flow::Close,
            (Flow::Continue, flow) | (flow, Flow::Continue) => flow,
            (Flow::Sleep(one), Flow::Sleep(other)) => {
                Flow::Sleep(one.saturating_add(other).min(SLEEP_MS_MAX))
            }
        }
    }
}
