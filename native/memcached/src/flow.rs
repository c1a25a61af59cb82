//! How a connection goes on after a request.

use super::retrieval::Retrieval;

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Answered; the next request begins at this offset.
    Consumed(usize),
    /// The same, but the reply is delayed by `ms`.
    Sleep { bytes: usize, ms: u64 },
    /// The request has this many bytes, which have not all arrived. Nothing was written or
    /// executed.
    Missing(usize),
    /// Answered, but `bytes` of its value, from `body` on, must be skipped.
    Swallow { body: usize, bytes: u64 },
    /// Answered in part; the next turn continues with the key at this offset.
    Pause { at: usize, retrieval: Retrieval },
    /// The same for a search, whose line ends at this offset.
    PauseSearch { at: usize },
    /// The connection ends.
    Close,
}
