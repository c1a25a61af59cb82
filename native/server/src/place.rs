//! Where a connection is served.

/// A loop, and an index of its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) event_loop: usize,
    pub(crate) index: usize,
}
