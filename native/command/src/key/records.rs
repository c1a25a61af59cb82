//! Existence, removal, renaming, copying.

use crate::record::{Carried, check, seconds};
use crate::string::numbers;
use crate::{Condition, Description, Error, Kind, Record, Refusal, Reply};
use todana_table::{Entry, Full, Keyspace, PREFETCH_KEYS_MAX};

/// What happens to keys that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Nothing.
    Existing,
    /// An access is recorded.
    Touched,
    /// They are removed.
    Removed,
}

/// EXISTS, TOUCH, DEL, UNLINK, `todana:delete_many`. A repeated key counts each time.
#[inline]
pub(crate) fn count<K: Keyspace, R: Reply>(
    space: &K,
    what: Counted,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    reply.integer(found(space, what, keys, now_ms));
}

/// Counts the existing keys.
#[inline]
pub(crate) fn found<K: Keyspace>(space: &K, what: Counted, keys: &[&[u8]], now_ms: u64) -> i64 {
    match what {
        Counted::Removed => {
            each(space, keys, |key| space.update(key, now_ms, |locked| locked.remove()))
        }
        Counted::Touched => each(space, keys, |key| {
            let note = |entry: Entry<'_>| entry.note_access(now_ms);
            space.read(key, now_ms, |entry| entry.map(note).is_some())
        }),
        Counted::Existing => {
            each(space, keys, |key| space.read(key, now_ms, |entry| entry.is_some()))
        }
    }
}

/// Counts keys, and prefetches the memory of the following ones.
#[inline]
fn each<K: Keyspace>(space: &K, keys: &[&[u8]], mut holds: impl FnMut(&[u8]) -> bool) -> i64 {
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
    space.update(key, now_ms, |locked| match check(condition, locked.entry().as_ref()) {
        Err(refusal) => reply.refused(refusal),
        Ok(()) if locked.remove() => reply.done(),
        Ok(()) => reply.refused(Refusal::Absent),
    });
}

/// SORT with STORE, of a key that must not exist.
pub(crate) fn store_nothing<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    to: &[u8],
    now_ms: u64,
    reply: &mut R,
) {
    if space.read(key, now_ms, |entry| entry.is_some()) {
        return reply.refused(Refusal::Present);
    }
    space.update(to, now_ms, |locked| _ = locked.remove());
    reply.integer(0);
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

/// TYPE, OBJECT, DEBUG OBJECT, `me`. Does not count as an access.
pub(crate) fn describe<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    space.read(key, now_ms, |entry| match entry {
        Some(entry) => reply.description(description_of(&entry, now_ms)),
        None => reply.none(),
    });
}

/// What a record shows of itself.
pub fn describe_record(record: Record<'_>) -> Description<'_> {
    Description {
        key: record.key,
        kind: Kind::String,
        is_integer: numbers::is_integer(record.value),
        length: record.value.len(),
        bytes: 0,
        version: record.version,
        expires_at_ms: record.expires_at_ms,
        idle_s: 0,
        fetched: false,
    }
}

fn description_of<'a>(entry: &Entry<'a>, now_ms: u64) -> Description<'a> {
    let access = entry.meta().access;
    Description {
        key: entry.key(),
        kind: entry.kind(),
        is_integer: entry.text().is_ok_and(numbers::is_integer),
        length: entry.stored().bytes().len(),
        bytes: entry.bytes(),
        version: entry.version(),
        expires_at_ms: entry.expires_at_ms(),
        idle_s: access.map_or(0, |access| seconds(now_ms).saturating_sub(access.last_s)).into(),
        fetched: access.is_some_and(|access| access.fetched),
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
    let Some(carried) = space.read(from, now_ms, |entry| entry.as_ref().map(Carried::of)) else {
        return reply.refused(Refusal::Absent);
    };
    if if_absent && space.read(to, now_ms, |entry| entry.is_some()) {
        return reply.refused(Refusal::Present);
    }
    if from != to {
        if space.update(to, now_ms, |locked| carried.put_moved(locked)) == Err(Full) {
            return reply.error(Error::Full);
        }
        space.update(from, now_ms, |locked| locked.remove());
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

/// The arguments of [`transfer`].
#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: &'a [u8],
    /// Whether the source record is kept.
    pub(crate) keep: bool,
    /// Whether an existing destination is replaced.
    pub(crate) replace: bool,
}

/// COPY, MOVE. The caller holds the locks of both keys; `same` means that source and destination
/// are the same table.
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
    let carried = source.read(moved.from, now_ms, |entry| entry.as_ref().map(Carried::of));
    let Some(carried) = carried else { return reply.flag(false) };
    let put = destination.update(moved.to, now_ms, |locked| {
        if locked.entry().is_some() && !moved.replace {
            return None;
        }
        Some(match moved.keep {
            true => carried.put_copy(locked),
            false => carried.put_moved(locked),
        })
    });
    match put {
        None => reply.flag(false),
        Some(Err(Full)) => reply.error(Error::Full),
        Some(Ok(_)) => {
            if !moved.keep {
                source.update(moved.from, now_ms, |locked| locked.remove());
            }
            reply.flag(true);
        }
    }
}
