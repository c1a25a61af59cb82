//! What a new table is like.

use std::sync::Arc;

use crate::budget::Budget;
use crate::limits::Limits;
use crate::range::KeyOrder;

/// The options of a new table.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of shards, rounded up to a power of two. `None` means 4,096, or fewer (64 at least)
    /// if the limits allow fewer than 32,768 entries.
    pub shards: Option<usize>,
    /// Limits of this table alone.
    pub limits: Limits,
    /// A byte budget shared with other tables (the sixteen databases of a server share one).
    pub budget: Option<Arc<Budget>>,
    /// How the table is ordered; `None` if it is not.
    pub order: Option<KeyOrder>,
    /// Seed of the key hash; `None` draws a random one.
    pub seed: Option<u64>,
    /// Whether the records change only by a log; see [`Table::is_durable`]. A durable table has no
    /// limits and no budget: those given here are ignored.
    ///
    /// [`Table::is_durable`]: crate::Table::is_durable
    pub durable: bool,
}
