//! How a connection goes on after a look at its input.

/// What happened to the front of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// This many bytes were consumed.
    Done(usize),
    /// `taken` bytes were consumed, and `wanted` more are needed after the rest. The session need
    /// not be called again before `needed` bytes have arrived.
    Read { taken: usize, needed: usize, wanted: usize },
    /// This many bytes were consumed, and the turn is over.
    Yield(usize),
    /// `taken` bytes were consumed, and the request waits for a signal.
    Wait { taken: usize, ms: u64 },
    /// The request is delayed for this time and then processed again.
    Sleep { ms: u64 },
    /// This many bytes were consumed, and the request waits for the log. It is run again.
    Commit(usize),
    /// The connection ends.
    Close,
}

impl Flow {
    /// Nothing can be processed before `needed` bytes have arrived.
    pub(super) fn missing(input: &[u8], needed: usize) -> Flow {
        Flow::Read { taken: 0, needed, wanted: needed.saturating_sub(input.len()) }
    }
}
