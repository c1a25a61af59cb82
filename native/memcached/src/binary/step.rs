//! How a connection goes on after a request.

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Answered; the next request begins at this offset.
    Next(usize),
    /// The same, but the reply is delayed by `ms`.
    Sleep { bytes: usize, ms: u64 },
    /// The request has this many bytes, which have not all arrived. Nothing was written or
    /// executed.
    Missing(usize),
    /// Answered, but the value from `at` on must be skipped.
    Swallow { at: usize, bytes: usize },
    /// The connection ends.
    Close,
}
