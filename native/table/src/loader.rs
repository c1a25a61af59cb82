//! Fills a durable table with the entries of a snapshot.
//!
//! Each thread has a loader of its own: they share nothing but the shards' locks. An entry keeps
//! the version, the expiry and the access word that it had. No event is reported, and no limit
//! applies.

use std::fmt;
use std::sync::Arc;

use crate::core::{Change, Core};
use crate::entry::{EntryBox, VERSION_END};
use crate::kind::Stored;
use crate::locked_key::Prepared;
use crate::meta::Meta;
use crate::ordered;
use crate::table::Table;
use crate::writer::Writer;

/// Adds entries to a table that was [restored](Table::restore) from a state. The table's counts
/// include them when the loader is dropped.
pub struct Loader {
    core: Arc<Core>,
    now_ms: u64,
    added: Change,
}

/// The entry cannot be part of the table: its version is later than the table's or 0, there is
/// another entry of the key, or its key or value is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unloadable;

impl fmt::Display for Unloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry has a key that is there already, or a version that is not valid")
    }
}

impl std::error::Error for Unloadable {}

impl Table {
    /// A loader, at the present time of the log. Several threads may load at once; no thread
    /// changes the table otherwise.
    pub fn loader(&self, now_ms: u64) -> Loader {
        Loader { core: Arc::clone(self.shared_core()), now_ms, added: Change::default() }
    }
}

impl Loader {
    /// Adds an entry.
    pub fn put(
        &mut self,
        key: &[u8],
        value: Stored<'_>,
        meta: Meta,
        version: u64,
    ) -> Result<(), Unloadable> {
        self.add(EntryBox::of_stored(key, value, &meta).ok_or(Unloadable)?, version)
    }

    /// Adds an entry that was built beforehand, for example from a value that was read in parts
    /// ([`Filling`](crate::Filling), for values of [`BODY_BYTES_MIN`](crate::BODY_BYTES_MIN) and
    /// more).
    pub fn put_prepared(&mut self, prepared: Prepared, version: u64) -> Result<(), Unloadable> {
        self.add(prepared.into_entry(), version)
    }

    fn add(&mut self, mut entry: EntryBox, version: u64) -> Result<(), Unloadable> {
        let core = &*self.core;
        if version == 0 || version > core.version().min(VERSION_END - 1) {
            return Err(Unloadable);
        }
        entry.set_version(version);
        let key = entry.entry().key();
        if core.ordered.is_some() && key.len() > ordered::KEY_BYTES_MAX {
            return Err(Unloadable);
        }
        let (hash, shard) = core.locate(key);
        let shards = core.shards_for_write();
        let mut records = shards.ahead(shard, hash).lock();
        if records.find(hash, key).is_some() {
            return Err(Unloadable);
        }
        let snapshot = core.running_snapshot();
        let mut writer = Writer::new(core, shards, shard, &mut records, snapshot);
        self.added.add(writer.load(entry, hash, self.now_ms));
        Ok(())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.core.add(self.added);
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("entries", &self.added.entries).finish_non_exhaustive()
    }
}
