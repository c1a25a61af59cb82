//! Keys: whether they exist, removing, renaming, copying, listing.

use crate::glob::glob;
use crate::record::{Kept, check, record_of};
use crate::{Condition, Error, Record, Refusal, Reply};
use todana_table::{Entry, Full, Keyspace, Shared};

/// EXISTS. A key that is named twice counts twice.
pub(crate) fn exists<K: Keyspace, R: Reply>(space: &K, keys: &[&[u8]], now_ms: u64, reply: &mut R) {
    reply.integer(count(keys, |key| space.read(key, now_ms, |entry| entry.is_some())));
}

/// TOUCH.
pub(crate) fn note_access<K: Keyspace, R: Reply>(
    space: &K,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    let note = |key: &[u8]| {
        space.read(key, now_ms, |entry| entry.map(|entry| entry.note_access(now_ms)).is_some())
    };
    reply.integer(count(keys, note));
}

/// DEL, UNLINK, `todana:delete_many`.
#[inline]
pub(crate) fn delete<K: Keyspace, R: Reply>(space: &K, keys: &[&[u8]], now_ms: u64, reply: &mut R) {
    reply.integer(count(keys, |key| space.update(key, now_ms, |slot| slot.remove())));
}

fn count(keys: &[&[u8]], mut holds: impl FnMut(&[u8]) -> bool) -> i64 {
    keys.iter().map(|key| i64::from(holds(key))).sum()
}

/// `delete`, `md`, `todana:delete`.
pub(crate) fn delete_if<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    condition: Condition,
    now_ms: u64,
    reply: &mut R,
) {
    space.update(key, now_ms, |slot| match check(condition, slot.entry().as_ref()) {
        Err(refusal) => reply.refused(refusal),
        Ok(()) if slot.remove() => reply.done(),
        Ok(()) => reply.refused(Refusal::Absent),
    });
}

/// MEMORY USAGE.
pub(crate) fn memory_usage<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    now_ms: u64,
    reply: &mut R,
) {
    match space.read(key, now_ms, |entry| entry.map(|entry| entry.bytes())) {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.none(),
    }
}

/// RENAME, RENAMENX. The caller holds the locks of both keys.
pub(crate) fn rename<K: Keyspace, R: Reply>(
    space: &K,
    from: &[u8],
    to: &[u8],
    if_absent: bool,
    now_ms: u64,
    reply: &mut R,
) {
    let Some(kept) = space.read(from, now_ms, |entry| entry.as_ref().map(Kept::of)) else {
        return reply.refused(Refusal::Absent);
    };
    if if_absent && space.read(to, now_ms, |entry| entry.is_some()) {
        return reply.refused(Refusal::Present);
    }
    if from != to {
        let put = |kept: &Kept| {
            space.update(to, now_ms, |slot| slot.put_moved(kept.value(), kept.meta()))
        };
        if put(&kept) == Err(Full) {
            return reply.error(Error::Full);
        }
        space.update(from, now_ms, |slot| slot.remove());
    }
    reply.done();
}

/// COPY within one database. The caller holds the locks of both keys.
pub(crate) fn copy<K: Keyspace, R: Reply>(
    space: &K,
    from: &[u8],
    to: &[u8],
    replace: bool,
    now_ms: u64,
    reply: &mut R,
) {
    let copied = Transfer { from, to, keep: true, replace };
    transfer(space, space, true, &copied, now_ms, reply);
}

/// What [`transfer`] moves or copies.
pub(crate) struct Transfer<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
    /// Whether the source stays.
    pub(crate) keep: bool,
    /// Whether a record at the destination gives way.
    pub(crate) replace: bool,
}

/// COPY, MOVE. The caller holds the locks of both keys; `same` tells that source and destination
/// are one table.
pub(crate) fn transfer<S: Keyspace, D: Keyspace, R: Reply>(
    source: &S,
    destination: &D,
    same: bool,
    moved: &Transfer<'_>,
    now_ms: u64,
    reply: &mut R,
) {
    if same && moved.from == moved.to {
        return reply.error(Error::SameObject);
    }
    let Some(kept) = source.read(moved.from, now_ms, |entry| entry.as_ref().map(Kept::of)) else {
        return reply.flag(false);
    };
    let put = destination.update(moved.to, now_ms, |slot| {
        if slot.entry().is_some() && !moved.replace {
            return None;
        }
        Some(match moved.keep {
            true => slot.put(&[kept.value()], kept.meta()),
            false => slot.put_moved(kept.value(), kept.meta()),
        })
    });
    match put {
        None => reply.flag(false),
        Some(Err(Full)) => reply.error(Error::Full),
        Some(Ok(_)) => {
            if !moved.keep {
                source.update(moved.from, now_ms, |slot| slot.remove());
            }
            reply.flag(true);
        }
    }
}

/// Most bytes of keys and values in one page: as many as may wait for a client.
const PAGE_BYTES_MAX: usize = 256 << 20;
/// Most entries that a scan visits before it looks at the size of its page.
const STEP: usize = 1_024;

/// SCAN, `todana:scan`. The cursor of the table goes out as it is. A page ends before its count
/// where it holds enough bytes.
pub(crate) fn scan<K: Keyspace, R: Reply>(
    space: &K,
    cursor: u64,
    count: usize,
    pattern: Option<&[u8]>,
    values: bool,
    now_ms: u64,
    reply: &mut R,
) {
    let mut page = Page::new(values, PAGE_BYTES_MAX);
    let next = page.fill(space, cursor, count, pattern, now_ms);
    reply.page(next, page.items.len());
    page.each(|record| if values { reply.record(record) } else { reply.key(record.key) });
}

/// KEYS. All or an error: where there is too much, nothing more is collected.
pub(crate) fn keys<K: Keyspace, R: Reply>(space: &K, pattern: &[u8], now_ms: u64, reply: &mut R) {
    let mut page = Page::new(false, PAGE_BYTES_MAX);
    space.scan(0, usize::MAX, now_ms, |entry| {
        if !page.is_full() && glob(pattern, entry.key()) {
            page.push(&entry);
        }
    });
    if page.is_full() {
        return reply.error(Error::ReplyTooLarge);
    }
    reply.list(page.items.len());
    page.each(|record| reply.key(record.key));
}

/// RANDOMKEY.
pub(crate) fn random_key<K: Keyspace, R: Reply>(space: &K, seed: u64, now_ms: u64, reply: &mut R) {
    space.random(seed, now_ms, |entry| match entry {
        Some(entry) => reply.key(entry.key()),
        None => reply.none(),
    });
}

/// Records that a scan found: their number goes out before the first of them.
struct Page {
    values: bool,
    bytes_max: usize,
    /// Keys, and the values of small records, one after another.
    bytes: Vec<u8>,
    /// Where each key ends.
    items: Vec<usize>,
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
    fn new(values: bool, bytes_max: usize) -> Page {
        let (bytes, items, rests) = Default::default();
        Page { values, bytes_max, bytes, items, rests, counted_bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.items.len() * size_of::<usize>() + self.counted_bytes
            > self.bytes_max
    }

    /// Scans until `count` entries were seen or the page is full. Returns the next cursor.
    fn fill<K: Keyspace>(
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

    fn push(&mut self, entry: &Entry<'_>) {
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
