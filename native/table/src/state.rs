//! What a durable table is beside its entries, and a digest of the entries.
//!
//! A snapshot of the entries and the [`TableState`] of the same moment make up the whole table: one
//! that is [restored](Table::restore) from both gives the same replies to every later operation,
//! and has the same versions and scan cursors. Only what decides nothing may differ: the capacities
//! of indexes and of values that have grown, the deadlines beyond those that are needed, and when
//! entries were last read.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::SeqCst;

use crate::entry::{Entry, Shared};
use crate::hash::KeyHash;
use crate::kind::Stored;
use crate::meta::{Access, Meta};
use crate::options::Options;
use crate::range::KeyOrder;
use crate::removals::Removed;
use crate::snapshot::{Abandoned, Snapshot};
use crate::table::Table;

/// The seed of all digests. Digests are compared between tables, and with stored ones.
const DIGEST_SEED: u64 = 0x746f_6461_6e61_0001;
/// Bytes whose digest takes as long as all else that an entry takes.
const DIGESTED_BYTES: usize = 1_024;

/// A durable table without its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableState {
    /// Seed of the key hash.
    pub seed: u64,
    /// Number of shards.
    pub shards: usize,
    /// How the table is ordered; `None` if it is not.
    pub order: Option<KeyOrder>,
    /// The version of the last write.
    pub version: u64,
    /// When all entries are to be cleared; `u64::MAX` is never.
    pub clear_at_ms: u64,
    /// The versions of removed entries.
    pub removed: Removed,
}

impl TableState {
    /// The options of a table that can be [restored](Table::restore) from this state.
    pub fn options(&self) -> Options {
        Options {
            durable: true,
            shards: Some(self.shards),
            seed: Some(self.seed),
            order: self.order,
            ..Options::default()
        }
    }
}

/// The state is not one of this table: it has another seed, number of shards, or order, or the
/// table is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherTable;

impl fmt::Display for OtherTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state belongs to a table of another seed, shards or order")
    }
}

impl std::error::Error for OtherTable {}

impl Table {
    /// The table's state without its entries. No thread changes the table meanwhile.
    pub fn state(&self) -> TableState {
        let core = self.shared_core();
        TableState {
            seed: core.seed,
            shards: core.shard_count,
            order: core.order(),
            version: core.version(),
            clear_at_ms: core.clear_at_ms.load(SeqCst),
            removed: core.removals.as_ref().map(|it| it.copy()).unwrap_or_default(),
        }
    }

    /// Removes all entries and takes over a state; then [`Table::loader`] adds the entries. No
    /// other thread changes the table meanwhile. Readers may use it, and see it empty.
    pub fn restore(&self, state: &TableState) -> Result<(), OtherTable> {
        let core = self.shared_core();
        let Some(removals) = &core.removals else { return Err(OtherTable) };
        if (core.seed, core.shard_count, core.order()) != (state.seed, state.shards, state.order) {
            return Err(OtherTable);
        }
        core.schedule_clear(state.clear_at_ms);
        core.clear_all();
        core.set_version(state.version);
        removals.replace(&state.removed);
        Ok(())
    }

    /// A digest of all entries, expired or not, that does not depend on their order: of their keys,
    /// values, versions, expiries, flags and marks, but not of when they were read. Changes that
    /// are made meanwhile may or may not be part of it.
    pub fn digest(&self) -> u64 {
        let core = self.shared_core();
        let hash = KeyHash::new(DIGEST_SEED);
        let (mut digest, mut large) = (0, Vec::<Shared>::new());
        for shard in core.shards().into_iter().flat_map(|shards| shards.iter()) {
            let records = shard.lock_to_read();
            for entry in &records.index {
                let entry = entry.entry();
                match entry.share() {
                    Some(shared) => large.push(shared),
                    None => digest ^= digest_with(&hash, &entry),
                }
            }
            drop(records);
            // Without the lock, since their values may take long.
            large.drain(..).for_each(|shared| digest ^= digest_with(&hash, &shared.entry()));
        }
        digest
    }
}

impl Snapshot<'_> {
    /// Visits the next entries, as [`Snapshot::next_part`] does, and adds them to a digest. That of
    /// all entries is the table's [`Table::digest`] at the snapshot's moment; begin with 0. An
    /// entry counts as one and as one more for each [`DIGESTED_BYTES`] of its value.
    pub fn digest_part(&mut self, count: usize, digest: &mut u64) -> Result<bool, Abandoned> {
        let hash = KeyHash::new(DIGEST_SEED);
        let mut left = count;
        self.next_part_until(count, |entry| {
            let cost = 1 + entry.stored().bytes().len() / DIGESTED_BYTES;
            // A part has at least one entry.
            if cost > left && left < count {
                return ControlFlow::Break(());
            }
            left = left.saturating_sub(cost);
            *digest ^= digest_with(&hash, &entry);
            ControlFlow::Continue(())
        })
    }
}

fn digest_with(hash: &KeyHash, entry: &Entry<'_>) -> u64 {
    digest_fields(hash, entry.key(), entry.stored(), &entry.meta(), entry.version())
}

/// The digest of a table that has only this string. The digest of several is the exclusive or.
pub fn digest_of_entry(key: &[u8], value: &[u8], meta: &Meta, version: u64) -> u64 {
    digest_fields(&KeyHash::new(DIGEST_SEED), key, Stored::string(value), meta, version)
}

fn digest_fields(hash: &KeyHash, key: &[u8], value: Stored<'_>, meta: &Meta, version: u64) -> u64 {
    let Meta { expires_at_ms, flags, access } = *meta;
    let mark = |set: bool, bit: u32| u64::from(set) << bit;
    let Access { stale, won, .. } = access.unwrap_or_default();
    let marks = mark(expires_at_ms.is_some(), 32)
        | mark(access.is_some(), 33)
        | mark(stale, 34)
        | mark(won, 35)
        | mark(value.is_collection(), 36);
    let fields = [
        version,
        expires_at_ms.unwrap_or(0),
        u64::from(flags) | marks,
        hash.of(key),
        hash.of(value.bytes()),
    ];
    hash.of(fields.map(u64::to_le_bytes).as_flattened())
}
