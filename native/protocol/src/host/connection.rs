//! The connection whose session is served.

use super::Client;
use crate::Limits;
use std::ops::Range;
use std::sync::Arc;
use todana_table::Shared;

/// The connection whose session is served, and the limits of its turn.
pub trait Connection {
    /// The client of this connection.
    fn client(&self) -> &Arc<Client>;
    /// Limits that parsers enforce.
    fn limits(&self) -> &Limits;
    /// Whether the observed commands have used up the time of this turn. If so, the session yields
    /// before the next command.
    fn turn_is_over(&self) -> bool;
}

/// An output that takes parts of large values without a copy.
pub trait Splices {
    /// Takes a part of a large value that is sent with the output of this turn. A turn passes its
    /// parts in the order of their positions.
    fn splice(&mut self, splice: Splice);
}

/// A part of a large value that belongs into the output, and is sent without a copy.
#[derive(Debug)]
pub struct Splice {
    /// Number of bytes of the output that precede it.
    pub at: usize,
    /// The value.
    pub value: Shared,
    /// The part of the value.
    pub range: Range<usize>,
}

impl Splice {
    /// The bytes of the part.
    pub fn bytes(&self) -> &[u8] {
        self.value.get(self.range.clone()).unwrap_or_default()
    }
}
