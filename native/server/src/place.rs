//! Where a connection is served.

/// A loop and a slot of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) event_loop: usize,
    pub(crate) slot: usize,
}
