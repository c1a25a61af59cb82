//! Pages of records: what a scan or a walk over a database collects before it replies, since the
//! number of replies goes out before the first of them.

use crate::glob::glob;
use crate::record::record_of;
use crate::{Record, Reply};
use todana_table::{Entry, Keyspace, NotOrdered, Shared, Walk, Walked};

/// Most bytes of keys and values in one page of a scan: as many as may wait for a client.
pub(crate) const PAGE_BYTES_MAX: usize = 256 << 20;
/// Most bytes of a step of a walk. With one value beyond that, and words around each, it is still a
/// reply that a client may wait for.
pub(crate) const WALK_BYTES_MAX: usize = 16 << 20;
/// Most entries that are visited before a look at the size of the page.
const STEP: usize = 1_024;
/// Steps of a walk that may end early before its page does. Each looked at 1,024 keys that are not
/// in the page: they have expired and were not collected yet, or have another prefix. Together that
/// takes a few milliseconds.
pub(crate) const EARLY_ENDS_MAX: usize = 8;

/// Records that were found: their number goes out before the first of them.
pub(crate) struct Page {
    values: bool,
    bytes_max: usize,
    /// Keys, and the values of small records, one after another.
    bytes: Vec<u8>,
    /// Where each key ends.
    items: Vec<usize>,
    /// Where the last key begins.
    last_start: usize,
    /// The rest of each record, where values are wanted.
    rests: Vec<Rest>,
    /// Bytes of large values, which are counted and not copied.
    counted_bytes: usize,
}

/// What a page keeps of a record beside its key.
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
        let (bytes, items, rests) = Default::default();
        Page { values, bytes_max, bytes, items, last_start: 0, rests, counted_bytes: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() + self.items.len() * size_of::<usize>() + self.counted_bytes
            > self.bytes_max
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Scans until `count` entries were seen or the page is full. Returns the next cursor.
    pub(crate) fn fill<K: Keyspace>(
        &mut self,
        space: &K,
        mut cursor: u64,
        count: usize,
        pattern: Option<&[u8]>,
        now_ms: u64,
    ) -> u64 {
        let mut seen = 0;
        loop {
            cursor = space.scan(cursor, STEP.min(count.saturating_sub(seen)), now_ms, |entry| {
                seen += 1;
                if pattern.is_none_or(|pattern| glob(pattern, entry.key())) {
                    self.push(&entry);
                }
            });
            if cursor == 0 || seen >= count || self.is_full() {
                return cursor;
            }
        }
    }

    /// Walks until `walk.count` entries were seen, the page is full, or so many steps ended
    /// early. Returns where to go on.
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

    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        self.last_start = self.bytes.len();
        self.bytes.extend_from_slice(entry.key());
        self.items.push(self.bytes.len());
        if !self.values {
            return;
        }
        let Record { value, flags, version, expires_at_ms, .. } = record_of(entry);
        self.rests.push(match entry.share() {
            Some(shared) => {
                self.counted_bytes += value.len();
                Rest::Counted(shared)
            }
            None => {
                self.bytes.extend_from_slice(value);
                Rest::Copied { value_bytes: value.len(), flags, version, expires_at_ms }
            }
        });
    }

    /// Replies with each record, or its key where values were not asked for.
    pub(crate) fn tell<R: Reply>(&self, reply: &mut R) {
        self.each(|record| if self.values { reply.record(record) } else { reply.key(record.key) });
    }

    fn each(&self, mut visit: impl FnMut(Record<'_>)) {
        let mut start = 0;
        let mut rests = self.rests.iter();
        for &end in &self.items {
            let key = &self.bytes[start..end];
            start = end;
            visit(match rests.next() {
                Some(Rest::Counted(shared)) => record_of(&shared.entry()),
                Some(&Rest::Copied { value_bytes, flags, version, expires_at_ms }) => {
                    start += value_bytes;
                    let value = &self.bytes[end..start];
                    Record { key, value, flags, version, expires_at_ms }
                }
                None => Record { key, value: b"", flags: 0, version: 0, expires_at_ms: None },
            });
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
            let put = |slot: &mut todana_table::Slot<'_>| slot.put(&[value], Meta::default());
            table.update(&key.to_be_bytes(), 1, put).unwrap();
        }
        table
    }

    #[test]
    fn a_page_of_keys_keeps_eight_bytes_beside_each() {
        let mut page = Page::new(false, 1 << 20);
        assert_eq!(page.fill(&table(&[1; 1_000]), 0, usize::MAX, None, 1), 0);
        assert_eq!((page.items.len(), page.bytes.len(), page.rests.capacity()), (2_000, 8_000, 0));
        assert!(!page.is_full());
    }

    #[test]
    fn a_full_page_ends_a_scan_and_the_next_goes_on() {
        for value in [&[1; 100][..], &[2; 1_000]] {
            let table = table(value);
            let (mut cursor, mut pages, mut found) = (0, 0, Vec::new());
            loop {
                let mut page = Page::new(true, 10_000);
                cursor = page.fill(&table, cursor, usize::MAX, None, 1);
                page.each(|record| {
                    assert_eq!(record.value, value);
                    found.push(record.key.to_vec());
                });
                pages += 1;
                if cursor == 0 {
                    break;
                }
                assert!(page.is_full());
            }
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 2_000);
            assert!(pages > 1, "{pages} pages");
        }
    }
}
