//! What a command runs on: a table, or a numbered database (`numbered.rs`).

use todana_table::{Entry, Keyspace, Locked, Table, Time};

/// A keyspace whose keys can be locked together.
pub(crate) trait Target: Keyspace {
    /// See [`Table::read_in_place`].
    fn read_in_place<R>(
        &self,
        key: &[u8],
        now: impl Time,
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R;
    /// Locks the shards of these keys.
    fn lock<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]> + Clone, now_ms: u64)
    -> Locked<'_>;
    /// Removes expired records. See [`Table::sweep`].
    fn sweep(&self, now_ms: u64, work_max: usize) -> (u64, bool);
}

impl Target for Table {
    #[inline]
    fn read_in_place<R>(
        &self,
        key: &[u8],
        now: impl Time,
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R {
        Table::read_in_place(self, key, now, look)
    }

    fn lock<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]> + Clone,
        now_ms: u64,
    ) -> Locked<'_> {
        Table::lock(self, keys, now_ms)
    }

    fn sweep(&self, now_ms: u64, work_max: usize) -> (u64, bool) {
        Table::sweep(self, now_ms, work_max)
    }
}
