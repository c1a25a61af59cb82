//! Pages of records: a scan or a walk collects its records before it replies, since the reply
//! begins with their number.

use crate::database::glob::Glob;
use crate::slot::slot_of;
use crate::{Record, Reply};
use todana_table::{Entry, Keyspace, NotOrdered, Shared, Walk, Walked};

/// Most bytes of keys and values in one page of a scan; as many as may wait for one client.
pub(crate) const PAGE_BYTES_MAX: usize = 256 << 20;
/// Most bytes of a step of a walk. One larger value, with the framing of each record, still makes a
/// reply that may wait for a client.
pub(crate) const WALK_BYTES_MAX: usize = 16 << 20;
/// Values of this length and more count towards a page only while the table no longer has them: at
/// most some thousand in a page of a walk.
const LOOKED_AT_BYTES_MIN: usize = 16 << 10;
/// Most records whose owner is checked between two slices of a scan.
const LOOKED_AT_MAX: usize = 4_096;
/// Approximate framing of each record in a reply, in bytes.
const ITEM_WORDS_BYTES: usize = 16;
/// Most entries that a walk visits before it checks the size of the page.
const STEP: usize = 1_024;
/// Most steps of a walk that may end early before its page ends. Each visits 1,024 keys that are
/// not in the page, because they have expired and are not collected yet, or have another prefix.
/// Together that takes a few milliseconds.
pub(crate) const EARLY_ENDS_MAX: usize = 8;

/// The records found: the reply begins with their number.
#[derive(Debug)]
pub(crate) struct Page {
    values: bool,
    bytes_max: usize,
    /// Keys, and the values of small records, one after another.
    bytes: Vec<u8>,
    /// The end of each key.
    items: Vec<usize>,
    /// The start of the last key.
    last_start: usize,
    /// The rest of each record, if values were requested.
    rests: Vec<Rest>,
    /// Bytes of large values, which are referenced and not copied.
    counted_bytes: usize,
    /// The positions of values of at least [`LOOKED_AT_BYTES_MIN`]: few enough to check for each
    /// whether the table still has it.
    lent: Vec<usize>,
    /// Total bytes of these values.
    lent_bytes: usize,
}

/// What a page stores of a record beside its key.
#[derive(Debug)]
enum Rest {
    Counted(Shared),
    /// The value follows the key in the page.
    Copied {
        value_bytes: usize,
        flags: u32,
        version: u64,
        expires_at_ms: Option<u64>,
    },
}

impl Page {
    pub(crate) fn new(values: bool, bytes_max: usize) -> Page {
        let (bytes, items, rests, lent) = Default::default();
        let (last_start, counted_bytes, lent_bytes) = (0, 0, 0);
        Page { values, bytes_max, bytes, items, last_start, rests, counted_bytes, lent, lent_bytes }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() + self.items.len() * size_of::<usize>() + self.counted_bytes
            > self.bytes_max
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes that the page holds or keeps from being freed. A large value that the table still has
    /// does not count.
    pub(crate) fn held_bytes(&self) -> usize {
        let lists = (self.items.capacity() + self.lent.capacity()) * size_of::<usize>()
            + self.rests.capacity() * size_of::<Rest>();
        let own = |at: &usize| match &self.rests[*at] {
            Rest::Counted(shared) => shared.own_bytes(),
            Rest::Copied { .. } => 0,
        };
        let lent: usize = self.lent.iter().map(own).sum();
        self.bytes.capacity() + lists + self.counted_bytes - self.lent_bytes + lent
    }

    /// Walks until it has visited `walk.count` entries, the page is full, or [`EARLY_ENDS_MAX`]
    /// steps ended early. Returns the key after which to continue.
    pub(crate) fn walk<K: Keyspace>(
        &mut self,
        space: &K,
        walk: &Walk<'_>,
        early_ends_max: usize,
        now_ms: u64,
    ) -> Result<Walked, NotOrdered> {
        let mut after: Option<Vec<u8>> = None;
        let mut early_ends = 0;
        loop {
            let left = walk.count - self.len();
            let (count, seen) = (STEP.min(left), self.len());
            let mut cut = false;
            let step = Walk { after: after.as_deref().or(walk.after), count, ..*walk };
            let walked = space.walk(&step, now_ms, |entry| {
                if self.is_full() {
                    cut = true;
                } else {
                    self.push(&entry);
                }
            })?;
            let Walked::Until(key) = walked else {
                return Ok(if cut { Walked::Until(self.last_key()) } else { Walked::End });
            };
            if cut {
                return Ok(Walked::Until(self.last_key()));
            }
            let seen = self.len() - seen;
            early_ends += usize::from(seen < count);
            if seen >= left || self.is_full() || early_ends >= early_ends_max {
                return Ok(Walked::Until(key));
            }
            after = Some(key);
        }
    }

    fn last_key(&self) -> Vec<u8> {
        let end = self.items.last().copied().unwrap_or_default();
        self.bytes[self.last_start..end].to_vec()
    }

    /// Adds a record. A page of values has strings only.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        let record = if self.values { Record::of(entry).map(Some) } else { Ok(None) };
        let Ok(record) = record else { return };
        self.last_start = self.bytes.len();
        self.bytes.extend_from_slice(entry.key());
        self.items.push(self.bytes.len());
        let Some(Record { value, flags, version, expires_at_ms, .. }) = record else { return };
        self.rests.push(match entry.share() {
            Some(shared) => {
                self.counted_bytes += value.len();
                if value.len() >= LOOKED_AT_BYTES_MIN {
                    self.lent.push(self.rests.len());
                    self.lent_bytes += value.len();
                }
                Rest::Counted(shared)
            }
            None => {
                self.bytes.extend_from_slice(value);
                Rest::Copied { value_bytes: value.len(), flags, version, expires_at_ms }
            }
        });
    }

    /// Replies with each record, or with its key if values were not requested.
    pub(crate) fn write<R: Reply>(&self, reply: &mut R) {
        self.write_some(Progress::default(), usize::MAX, reply);
    }

    /// The same from a position on, for about `bytes_max` bytes. Returns the position at which to
    /// continue.
    pub(crate) fn write_some<R: Reply>(
        &self,
        from: Progress,
        bytes_max: usize,
        reply: &mut R,
    ) -> Progress {
        self.each(from, bytes_max, |record| {
            if self.values { reply.record(record) } else { reply.key(record.key) }
        })
    }

    fn each(
        &self,
        from: Progress,
        bytes_max: usize,
        mut visit: impl FnMut(Record<'_>),
    ) -> Progress {
        let Progress { mut item, mut start } = from;
        let mut bytes = 0;
        while item < self.items.len() && bytes < bytes_max {
            let end = self.items[item];
            let key = &self.bytes[start..end];
            start = end;
            let record = match self.rests.get(item) {
                Some(Rest::Counted(shared)) => Record::of_shared(shared),
                Some(&Rest::Copied { value_bytes, flags, version, expires_at_ms }) => {
                    start += value_bytes;
                    let value = &self.bytes[end..start];
                    Record { key, value, flags, version, expires_at_ms }
                }
                None => Record { key, value: b"", flags: 0, version: 0, expires_at_ms: None },
            };
            bytes += key.len() + record.value.len() + ITEM_WORDS_BYTES;
            visit(record);
            item += 1;
        }
        Progress { item, start }
    }
}

/// A position in a page's reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    item: usize,
    /// The start of the next key.
    start: usize,
}

impl Progress {
    /// Number of records.
    pub(crate) fn len(self) -> usize {
        self.item
    }
}

/// The records that a scan collects, a slice at a time.
#[derive(Debug)]
pub(crate) struct Collection {
    /// The cursor at which the scan continues; 0 after its end.
    cursor: u64,
    /// Number of records to visit.
    left: usize,
    filter: Filter,
    page: Page,
    /// Most keys of the page.
    keys_max: usize,
    /// Records visited but not compared yet: a shard may have many long keys.
    pending: Vec<Shared>,
    /// Whether all records have been visited.
    ended: bool,
    /// Whether the caller needs all records or none; a full page then leaves the rest out.
    all: bool,
}

impl Collection {
    pub(crate) fn new(
        cursor: u64,
        count: usize,
        pattern: Option<&[u8]>,
        values: bool,
    ) -> Collection {
        let filter = pattern.map_or(Filter::None, Filter::of);
        let page = Page::new(values, PAGE_BYTES_MAX);
        let (keys_max, pending, ended, all) = (usize::MAX, Vec::new(), false, false);
        Collection { cursor, left: count, filter, page, keys_max, pending, ended, all }
    }

    /// All keys that match.
    pub(crate) fn of_all(pattern: &[u8]) -> Collection {
        Collection { all: true, ..Collection::new(0, usize::MAX, Some(pattern), false) }
    }

    /// Keys of a hash slot, at most `keys_max`.
    pub(crate) fn of_slot(slot: u16, keys_max: usize) -> Collection {
        let whole = Collection::new(0, usize::MAX, None, false);
        Collection { all: true, filter: Filter::Slot(slot), keys_max, ..whole }
    }

    /// Visits `records` records and does `steps` steps of comparing and copying keys, about a
    /// nanosecond each, and finishes each shard that it begins. True when the collection is
    /// complete.
    pub(crate) fn collect<K: Keyspace>(
        &mut self,
        space: &K,
        records_max: usize,
        mut steps: usize,
        now_ms: u64,
    ) -> bool {
        while steps > 0
            && let Some(shared) = self.pending.pop()
        {
            self.look(&mut steps, &shared.entry());
        }
        if !self.pending.is_empty() {
            return false;
        }
        if self.ended {
            return true;
        }
        let (mut seen, count) = (0, records_max.min(self.left));
        self.cursor = space.scan(self.cursor, count, now_ms, |entry| {
            seen += 1;
            match if steps == 0 { entry.share() } else { None } {
                Some(shared) => self.pending.push(shared),
                // Short keys cost little.
                None => self.look(&mut steps, &entry),
            }
        });
        self.left -= seen.min(self.left);
        self.ended = self.cursor == 0 || self.left == 0 || self.has_enough();
        self.ended && self.pending.is_empty()
    }

    /// Adds a record if it matches, and counts the steps of the comparison.
    fn look(&mut self, steps: &mut usize, entry: &Entry<'_>) {
        if self.all && self.has_enough() {
            return;
        }
        let key = entry.key();
        *steps = steps.saturating_sub(self.filter.steps(key.len()) + key.len() / 8 + 1);
        if self.filter.matches(key) {
            self.page.push(entry);
        }
    }

    fn has_enough(&self) -> bool {
        self.page.is_full() || self.page.len() >= self.keys_max
    }

    /// Number of records still to visit.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The next cursor, and the records found.
    pub(crate) fn end(self) -> (u64, Page) {
        (self.cursor, self.page)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        let next = self.pending.iter().rev().take(LOOKED_AT_MAX);
        let own: usize = next.map(Shared::own_bytes).sum();
        let filter = match &self.filter {
            Filter::Glob(glob) => glob.held_bytes(),
            Filter::None | Filter::Slot(_) => 0,
        };
        self.page.held_bytes() + self.pending.capacity() * size_of::<Shared>() + own + filter
    }
}

/// Which keys a collection takes.
#[derive(Debug)]
enum Filter {
    /// All.
    None,
    Glob(Glob),
    /// Those of a hash slot.
    Slot(u16),
}

impl Filter {
    /// Keys that match a pattern. A single star takes all, also the empty key.
    fn of(pattern: &[u8]) -> Filter {
        if pattern == b"*" { Filter::None } else { Filter::Glob(Glob::prepared(pattern)) }
    }

    /// Steps of a comparison with a key of this length.
    fn steps(&self, key_bytes: usize) -> usize {
        match self {
            Filter::None => 0,
            Filter::Glob(glob) => glob.steps(key_bytes),
            Filter::Slot(_) => key_bytes,
        }
    }

    fn matches(&self, key: &[u8]) -> bool {
        match self {
            Filter::None => true,
            Filter::Glob(glob) => glob.matches(key),
            Filter::Slot(slot) => slot_of(key) == *slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use todana_table::{Meta, Options, Table};

    fn table(value: &[u8]) -> Table {
        let table = Table::new(Options { shards: Some(256), ..Options::default() });
        for key in 0..2_000u32 {
            let put =
                |locked: &mut todana_table::LockedKey<'_>| locked.put(&[value], Meta::default());
            table.update(&key.to_be_bytes(), 1, put).unwrap();
        }
        table
    }

    /// All records from a cursor on, in a page of `bytes_max`; and the cursor at which the scan
    /// continues.
    fn page(table: &Table, cursor: u64, values: bool, bytes_max: usize) -> (u64, Page) {
        let mut collection = Collection::new(cursor, usize::MAX, None, values);
        collection.page.bytes_max = bytes_max;
        while !collection.collect(table, 100, usize::MAX, 1) {}
        collection.end()
    }

    #[test]
    fn a_page_of_keys_keeps_eight_bytes_beside_each() {
        let (cursor, page) = page(&table(&[1; 1_000]), 0, false, 1 << 20);
        assert_eq!(cursor, 0);
        assert_eq!((page.items.len(), page.bytes.len(), page.rests.capacity()), (2_000, 8_000, 0));
        assert!(!page.is_full());
    }

    #[test]
    fn a_full_page_ends_a_scan_and_the_next_goes_on() {
        for value in [&[1; 100][..], &[2; 1_000]] {
            let table = table(value);
            let (mut cursor, mut pages, mut found) = (0, 0, Vec::new());
            loop {
                let full;
                (cursor, full) = page(&table, cursor, true, 10_000);
                let mut written = Progress::default();
                while written.len() < full.len() {
                    let before = written.len();
                    written = full.each(written, 3_000, |record| {
                        assert_eq!(record.value, value);
                        found.push(record.key.to_vec());
                    });
                    let bytes = (written.len() - before - 1) * (4 + value.len() + ITEM_WORDS_BYTES);
                    assert!(bytes < 3_000);
                }
                pages += 1;
                if cursor == 0 {
                    break;
                }
                assert!(full.is_full());
            }
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 2_000);
            assert!(pages > 1, "{pages} pages");
        }
    }

    #[test]
    fn long_keys_are_compared_slice_by_slice() {
        let table = Table::new(Options { shards: Some(1), ..Options::default() });
        for key in 100..200u8 {
            let key = [&[b'a'; 60_000][..], &[key]].concat();
            table.update(&key, 1, |locked| locked.put(&[], Meta::default())).unwrap();
        }
        let pattern = [&b"*?"[..], &[b'a'; 640], b"b*"].concat();
        let each = Glob::prepared(&pattern[..]).steps(60_001) + 60_001 / 8 + 1;
        for (pattern, matching, slices_min) in [(&pattern[..], 0, 20), (b"*a*", 100, 1)] {
            let mut collection = Collection::new(0, usize::MAX, Some(pattern), false);
            let mut slices = 1;
            while !collection.collect(&table, 10, 5 * each, 1) {
                slices += 1;
                assert!(slices < 1_000);
            }
            assert!(slices >= slices_min, "{slices}");
            assert_eq!(collection.end().1.len(), matching);
        }
    }
}
