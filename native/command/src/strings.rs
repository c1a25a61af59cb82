//! Values as strings of bytes: read, store, extend, cut.

use crate::record::{Kept, check, fresh_access, is_past, record_of, resolve};
use crate::{Condition, Context, Error, Expires, Refusal, Reply, Set, Side};
use todana_table::{Entry, Full, Keyspace, Meta, Slot};

/// GET, `get`, `todana:get`.
#[inline]
pub(crate) fn get<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    space.read(key, now_ms, |entry| match entry {
        Some(entry) => {
            reply.record(record_of(&entry));
            entry.note_access(now_ms);
        }
        None => reply.none(),
    });
}

/// MGET, `get` of several keys.
pub(crate) fn get_many<K: Keyspace, R: Reply>(
    space: &K,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    reply.list(keys.len());
    keys.iter().for_each(|key| get(space, key, now_ms, reply));
}

/// SET and its relatives, memcached's storage commands, `todana:put`.
#[inline]
pub(crate) fn set<K: Keyspace, R: Reply>(space: &K, set: &Set<'_>, now_ms: u64, reply: &mut R) {
    space.update(set.key, now_ms, |slot| {
        if set.return_old {
            return set_and_return_old(slot, set, now_ms, reply);
        }
        match store(slot, set, now_ms) {
            Ok(version) => reply.stored(version),
            Err(Unstored::Refused(refusal)) => reply.refused(refusal),
            Err(Unstored::Full) => reply.error(Error::Full),
        }
    });
}

fn set_and_return_old<R: Reply>(slot: &mut Slot<'_>, set: &Set<'_>, now_ms: u64, reply: &mut R) {
    let old = slot.entry().as_ref().map(Kept::of);
    match (store(slot, set, now_ms), old) {
        (Err(Unstored::Full), _) => reply.error(Error::Full),
        (_, Some(old)) => reply.record(old.record(set.key)),
        (_, None) => reply.none(),
    }
}

/// Why nothing was stored.
enum Unstored {
    Refused(Refusal),
    Full,
}

impl From<Full> for Unstored {
    fn from(_: Full) -> Unstored {
        Unstored::Full
    }
}

#[inline]
fn store(slot: &mut Slot<'_>, set: &Set<'_>, now_ms: u64) -> Result<u64, Unstored> {
    let entry = slot.entry();
    check(set.condition, entry.as_ref()).map_err(Unstored::Refused)?;
    let expires_at_ms = resolve(set.expires, entry.as_ref());
    let mut access = set.track_access.then(|| fresh_access(now_ms));
    if let (Some(access), Condition::NotNewer(version), Some(entry)) =
        (&mut access, set.condition, entry)
    {
        access.stale = entry.version() > version;
    }
    let version = slot.put(&[set.value], Meta { expires_at_ms, flags: set.flags, access })?;
    if is_past(expires_at_ms, now_ms) {
        slot.remove();
    }
    Ok(version)
}

/// STRLEN.
pub(crate) fn length<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    let length = space.read(key, now_ms, |entry| entry.map_or(0, |entry| entry.value().len()));
    reply.integer(length as i64);
}

/// GETRANGE. Offsets are inclusive; negative ones count from the end.
pub(crate) fn get_range<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    start: i64,
    end: i64,
    now_ms: u64,
    reply: &mut R,
) {
    space.read(key, now_ms, |entry| {
        let value = entry.as_ref().map_or(&[][..], Entry::value);
        match clamp(start, end, value.len()) {
            Some((first, last)) => reply.bytes(&value[first..=last]),
            None => reply.bytes(b""),
        }
    });
}

/// First and last index of a span by Redis' rules; `None` where it is empty.
pub(crate) fn clamp(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).ok()?;
    // Where both count from the end, a start behind the end is empty before either is cut to the value.
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_start =
        |offset: i64| if offset < 0 { (len + offset.max(-len)).max(0) } else { offset };
    let (first, last) = (from_start(start), from_start(end).min(len - 1));
    if first > last || len == 0 {
        return None;
    }
    Some((usize::try_from(first).ok()?, usize::try_from(last).ok()?))
}

/// What [`concat`] adds, and when.
pub(crate) struct Added<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) side: Side,
    pub(crate) create: bool,
    pub(crate) condition: Condition,
}

/// APPEND, `append`, `prepend`. Flags and expiry stay.
pub(crate) fn concat<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    added: &Added<'_>,
    context: Context,
    reply: &mut R,
) {
    space.update(key, context.now_ms, |slot| {
        let entry = slot.entry();
        if let Err(refusal) = check(added.condition, entry.as_ref()) {
            return reply.refused(refusal);
        }
        let Some(entry) = entry else {
            return match added.create {
                false => reply.refused(Refusal::Absent),
                true if added.bytes.len() > context.value_bytes_max => {
                    reply.error(Error::ValueTooLarge);
                }
                true => match slot.put(&[added.bytes], Meta::default()) {
                    Ok(version) => reply.length(added.bytes.len(), version),
                    Err(Full) => reply.error(Error::Full),
                },
            };
        };
        let length = entry.value().len().saturating_add(added.bytes.len());
        if length > context.value_bytes_max {
            return reply.error(Error::ValueTooLarge);
        }
        // A value that grew is a fresh one for readers with leases, as in memcached.
        let access = entry.meta().access.map(|_| fresh_access(context.now_ms));
        let meta = Meta { access, ..entry.meta() };
        let written = slot.put_with(length, meta, |old, new| {
            let (first, second) = match added.side {
                Side::Append => (old, added.bytes),
                Side::Prepend => (added.bytes, old),
            };
            new[..first.len()].copy_from_slice(first);
            new[first.len()..].copy_from_slice(second);
        });
        match written {
            Ok(version) => reply.length(length, version),
            Err(Full) => reply.error(Error::Full),
        }
    });
}

/// SETRANGE. What lies between the old end and the offset becomes zero bytes.
pub(crate) fn set_range<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    offset: u64,
    bytes: &[u8],
    context: Context,
    reply: &mut R,
) {
    if bytes.is_empty() {
        return length(space, key, context.now_ms, reply);
    }
    let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
    let Some(end) = end.filter(|end| *end <= context.value_bytes_max) else {
        return reply.error(Error::ValueTooLarge);
    };
    space.update(key, context.now_ms, |slot| {
        let (old_len, meta) =
            slot.entry().map_or((0, Meta::default()), |entry| (entry.value().len(), entry.meta()));
        let len = old_len.max(end);
        let written = slot.put_with(len, meta, |old, new| {
            new[..old.len()].copy_from_slice(old);
            new[end - bytes.len()..end].copy_from_slice(bytes);
        });
        match written {
            Ok(_) => reply.integer(len as i64),
            Err(Full) => reply.error(Error::Full),
        }
    });
}

/// GETDEL, `todana:take`.
pub(crate) fn take<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    space.update(key, now_ms, |slot| match slot.entry() {
        Some(entry) => {
            reply.record(record_of(&entry));
            slot.remove();
        }
        None => reply.none(),
    });
}

/// MSET, MSETNX, `todana:put_many`. The caller holds the locks of all keys, so the pairs appear as one step; where one does not fit,
/// those before it are taken back.
pub(crate) fn set_many<K: Keyspace, R: Reply>(
    space: &K,
    pairs: &[(&[u8], &[u8])],
    condition: Condition,
    expires: Expires,
    now_ms: u64,
    reply: &mut R,
) {
    let refused = pairs.iter().find_map(|(key, _)| {
        space.read(key, now_ms, |entry| check(condition, entry.as_ref()).err())
    });
    if let Some(refusal) = refused {
        return reply.refused(refusal);
    }
    let mut replaced = Vec::with_capacity(pairs.len().min(1_024));
    for (key, value) in pairs {
        let set = Set { expires, ..Set::new(key, value) };
        let stored = space.update(key, now_ms, |slot| {
            let old = slot.entry().as_ref().map(Kept::of);
            store(slot, &set, now_ms).map(|_| old)
        });
        match stored {
            Ok(old) => replaced.push((*key, old)),
            Err(_) => {
                restore(space, replaced, now_ms);
                return reply.error(Error::Full);
            }
        }
    }
    reply.done();
}

/// Puts back what was there before, last write first. What fitted before fits again: the locks are held, and the table only shrinks.
fn restore<K: Keyspace>(space: &K, replaced: Vec<(&[u8], Option<Kept>)>, now_ms: u64) {
    for (key, old) in replaced.into_iter().rev() {
        space.update(key, now_ms, |slot| {
            slot.remove();
            if let Some(old) = old {
                // Only another writer's record can have taken the room in between; then the older record is what must go.
                let _ = slot.put(&[&old.value], old.meta);
            }
        });
    }
}
