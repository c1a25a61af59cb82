//! Keys: whether they exist, removing, renaming, copying, listing.

use crate::glob::glob;
use crate::page::{PAGE_BYTES_MAX, Page};
use crate::record::{Kept, check};
use crate::{Condition, Error, Refusal, Reply};
use todana_table::{Full, Keyspace, PREFETCH_KEYS_MAX};

/// EXISTS. A key that is named twice counts twice.
pub(crate) fn exists<K: Keyspace, R: Reply>(space: &K, keys: &[&[u8]], now_ms: u64, reply: &mut R) {
    reply.integer(count(space, keys, |key| space.read(key, now_ms, |entry| entry.is_some())));
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
    reply.integer(count(space, keys, note));
}

/// DEL, UNLINK, `todana:delete_many`.
#[inline]
pub(crate) fn delete<K: Keyspace, R: Reply>(space: &K, keys: &[&[u8]], now_ms: u64, reply: &mut R) {
    reply.integer(count(space, keys, |key| space.update(key, now_ms, |slot| slot.remove())));
}

/// Counts keys, fetching from memory what the next ones need.
#[inline]
fn count<K: Keyspace>(space: &K, keys: &[&[u8]], mut holds: impl FnMut(&[u8]) -> bool) -> i64 {
    let mut found = 0;
    for keys in keys.chunks(PREFETCH_KEYS_MAX) {
        if keys.len() > 1 {
            space.prefetch(keys);
        }
        found += keys.iter().map(|key| i64::from(holds(key))).sum::<i64>();
    }
    found
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
        if space.update(to, now_ms, |slot| kept.put_moved(slot)) == Err(Full) {
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
            true => kept.put_copy(slot),
            false => kept.put_moved(slot),
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

/// Most records that one page of SCAN looks at, however many are asked for; with the rest of a
/// shard, two or three milliseconds.
pub(crate) const SCAN_RECORDS_MAX: usize = 4_096;

/// SCAN, `todana:scan`. The cursor of the table goes out as it is. A page ends before its count
/// where it holds enough bytes or looked at enough records.
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
    let next = page.fill(space, cursor, count.min(SCAN_RECORDS_MAX), pattern, now_ms);
    reply.page(next, page.len());
    page.tell(reply);
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
    reply.list(page.len());
    page.tell(reply);
}

/// RANDOMKEY.
pub(crate) fn random_key<K: Keyspace, R: Reply>(space: &K, seed: u64, now_ms: u64, reply: &mut R) {
    space.random(seed, now_ms, |entry| match entry {
        Some(entry) => reply.key(entry.key()),
        None => reply.none(),
    });
}
