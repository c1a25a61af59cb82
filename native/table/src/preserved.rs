//! What a shard keeps for a snapshot ([`snapshot`](crate::snapshot)).

use hashbrown::HashTable;

use crate::entry::{Alias, Entry, EntryBox};
use crate::reaper;

/// A preserved shard that a snapshot has not finished visiting.
pub(crate) struct PreservedShard {
    /// The snapshot.
    pub(crate) number: u32,
    pub(crate) entries: PreservedEntries,
    /// Entries up to this version were present.
    pub(crate) version: u64,
    /// Whether the shard was cleared since: what is in its index now is younger.
    pub(crate) cleared: bool,
    /// Whether the snapshot has taken the entries to visit them.
    pub(crate) visited: bool,
    /// Bytes of `entries` that are in memory only because of the snapshot, as counted.
    pub(crate) entries_bytes: i64,
    /// Bytes of `limbo`.
    pub(crate) limbo_bytes: i64,
    /// Entries removed from the index (and perhaps some younger ones).
    pub(crate) limbo: Limbo,
    /// What an earlier snapshot, which was abandoned for this one, is visiting.
    pub(crate) earlier: Option<Box<PreservedShard>>,
}

/// All entries that were present.
pub(crate) enum PreservedEntries {
    /// Each entry is in the index or in limbo.
    Copied(Vec<Alias>),
    /// The index as it was.
    Whole(HashTable<EntryBox>),
}

#[derive(Default)]
pub(crate) struct Limbo {
    pub(crate) entries: Vec<EntryBox>,
    /// The index that was current when the shard was cleared.
    pub(crate) index: HashTable<EntryBox>,
}

impl PreservedShard {
    /// Records a shard's entries for a snapshot; none has a version higher than `version`.
    pub(crate) fn of(number: u32, index: &HashTable<EntryBox>, version: u64) -> PreservedShard {
        let bytes = index.len() * size_of::<Alias>();
        let entries = PreservedEntries::Copied(index.iter().map(EntryBox::alias).collect());
        PreservedShard::new(number, entries, version, false, bytes as i64)
    }

    pub(crate) fn new(
        number: u32,
        entries: PreservedEntries,
        version: u64,
        cleared: bool,
        entries_bytes: i64,
    ) -> PreservedShard {
        let (limbo, earlier) = (Limbo::default(), None);
        let (visited, limbo_bytes) = (false, 0);
        PreservedShard {
            number,
            entries,
            version,
            cleared,
            visited,
            entries_bytes,
            limbo_bytes,
            limbo,
            earlier,
        }
    }

    /// Bytes in memory only because of the snapshot.
    pub(crate) fn bytes(&self) -> i64 {
        self.entries_bytes + self.limbo_bytes
    }

    /// Keeps an entry that left the index if the snapshot needs it, and returns it otherwise.
    pub(crate) fn retire(&mut self, entry: EntryBox) -> Option<EntryBox> {
        if !self.needs(&entry.entry()) {
            return Some(entry);
        }
        self.limbo_bytes += entry.entry().bytes() as i64;
        self.limbo.entries.push(entry);
        None
    }

    /// Whether the snapshot may need an entry of the shard, so that it must not be freed or
    /// changed. An earlier snapshot needs no entry of the index that this one does not need.
    pub(crate) fn needs(&self, entry: &Entry<'_>) -> bool {
        !self.cleared && entry.version() <= self.version
    }

    /// Keeps the index of a shard that is cleared, whose entries have this many bytes, and returns
    /// it if all of it is younger.
    pub(crate) fn retire_all(
        &mut self,
        index: HashTable<EntryBox>,
        bytes: i64,
    ) -> HashTable<EntryBox> {
        if std::mem::replace(&mut self.cleared, true) {
            return index;
        }
        self.limbo_bytes += bytes;
        self.limbo.index = index;
        HashTable::new()
    }

    /// Takes over what left the index for a later snapshot, which has ended.
    pub(crate) fn inherit(&mut self, later: &mut PreservedShard) {
        if self.cleared {
            // All of it is younger.
            return;
        }
        self.limbo_bytes += std::mem::take(&mut later.limbo_bytes);
        let Limbo { entries, index } = std::mem::take(&mut later.limbo);
        self.limbo.entries.extend(entries);
        self.limbo.index = index;
        self.cleared = later.cleared;
    }

    /// Releases everything. The caller corrects the counts.
    pub(crate) fn dispose(self) {
        if let PreservedEntries::Whole(index) = self.entries {
            reaper::dispose(index);
        }
        reaper::dispose(self.limbo.index);
        reaper::dispose(self.limbo.entries);
    }
}
