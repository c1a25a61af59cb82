//! How a connection goes on after a look at its input, and a procedure after a slice.

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

/// How a procedure goes on after a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is complete.
    Done,
    /// It continues in the next turn.
    More,
    /// It continues after this time.
    Wait { ms: u64 },
}

impl Step {
    /// After a slice of work that needs no other pause than the end of the turn.
    pub(super) fn of(is_done: bool) -> Step {
        if is_done { Step::Done } else { Step::More }
    }
}
