//! Keys: whether they exist, removing, renaming, copying, listing.

use crate::glob::glob;
use crate::record::{Kept, check, record_of};
use crate::{Condition, Error, Record, Refusal, Reply};
use todana_table::{Full, Keyspace};

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
        let put =
            |kept: &Kept| space.update(to, now_ms, |slot| slot.put(&[kept.value()], kept.meta()));
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
        Some(slot.put(&[kept.value()], kept.meta()))
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

/// SCAN, `todana:scan`. The cursor of the table goes out as it is.
pub(crate) fn scan<K: Keyspace, R: Reply>(
    space: &K,
    cursor: u64,
    count: usize,
    pattern: Option<&[u8]>,
    values: bool,
    now_ms: u64,
    reply: &mut R,
) {
    let mut page = Page::default();
    let next = space.scan(cursor, count, now_ms, |entry| {
        if pattern.is_none_or(|pattern| glob(pattern, entry.key())) {
            page.push(&record_of(&entry), values);
        }
    });
    reply.page(next, page.ends.len());
    page.each(|record| if values { reply.record(record) } else { reply.key(record.key) });
}

/// KEYS.
pub(crate) fn keys<K: Keyspace, R: Reply>(space: &K, pattern: &[u8], now_ms: u64, reply: &mut R) {
    let mut page = Page::default();
    space.scan(0, usize::MAX, now_ms, |entry| {
        if glob(pattern, entry.key()) {
            page.push(&record_of(&entry), false);
        }
    });
    reply.list(page.ends.len());
    page.each(|record| reply.key(record.key));
}

/// RANDOMKEY.
pub(crate) fn random_key<K: Keyspace, R: Reply>(space: &K, seed: u64, now_ms: u64, reply: &mut R) {
    space.random(seed, now_ms, |entry| match entry {
        Some(entry) => reply.key(entry.key()),
        None => reply.none(),
    });
}

/// Records that a scan found, in one buffer: their number goes out before the first of them.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    ends: Vec<PageItem>,
}

struct PageItem {
    key_end: usize,
    value_end: usize,
    flags: u32,
    version: u64,
    expires_at_ms: Option<u64>,
}

impl Page {
    fn push(&mut self, record: &Record<'_>, with_value: bool) {
        self.bytes.extend_from_slice(record.key);
        let key_end = self.bytes.len();
        if with_value {
            self.bytes.extend_from_slice(record.value);
        }
        let Record { flags, version, expires_at_ms, .. } = *record;
        let value_end = self.bytes.len();
        self.ends.push(PageItem { key_end, value_end, flags, version, expires_at_ms });
    }

    fn each(&self, mut visit: impl FnMut(Record<'_>)) {
        let mut start = 0;
        for item in &self.ends {
            visit(Record {
                key: &self.bytes[start..item.key_end],
                value: &self.bytes[item.key_end..item.value_end],
                flags: item.flags,
                version: item.version,
                expires_at_ms: item.expires_at_ms,
            });
            start = item.value_end;
        }
    }
}
