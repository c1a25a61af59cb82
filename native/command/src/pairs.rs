//! Several records as one step.

use crate::record::{Kept, check, is_past, resolve};
use crate::{Condition, Error, Expires, Reply};
use todana_table::{Full, Keyspace, Meta, Slot};

/// Pairs of key and value that are written under one condition and expiry.
pub(crate) struct Pairs<'a> {
    pub(crate) pairs: &'a [(&'a [u8], &'a [u8])],
    pub(crate) condition: Condition,
    pub(crate) expires: Expires,
}

/// MSET, MSETNX, `todana:put_all`. The caller holds the locks of all keys.
///
/// All are written or none is. Pairs that make the table grow go first: if one of them does not
/// fit, taking back those before it only makes the table smaller, so that it cannot fail for want
/// of room that others took in the meantime. Pairs that do not make it grow cannot fail.
pub(crate) fn set_many<K: Keyspace, R: Reply>(
    space: &K,
    pairs: &Pairs<'_>,
    now_ms: u64,
    reply: &mut R,
) {
    let refused = pairs.pairs.iter().find_map(|(key, _)| {
        space.read(key, now_ms, |entry| check(pairs.condition, entry.as_ref()).err())
    });
    if let Some(refusal) = refused {
        return reply.refused(refusal);
    }
    if let Expires::At(at_ms) = pairs.expires
        && is_past(Some(at_ms), now_ms)
    {
        for (key, _) in pairs.pairs {
            space.update(key, now_ms, |slot| slot.remove());
        }
        return reply.done();
    }
    let mut written = Vec::new();
    match write(space, pairs, &mut written, now_ms) {
        Ok(()) => reply.done(),
        Err(Full) => {
            take_back(space, written, now_ms);
            reply.error(Error::Full);
        }
    }
}

/// A pair that was written, and what was there before.
struct Written<'a> {
    position: usize,
    key: &'a [u8],
    version: u64,
    old: Option<Kept>,
}

fn write<'a, K: Keyspace>(
    space: &K,
    pairs: &Pairs<'a>,
    written: &mut Vec<Written<'a>>,
    now_ms: u64,
) -> Result<(), Full> {
    let mut later = Vec::new();
    for (position, (key, value)) in pairs.pairs.iter().enumerate() {
        let put = space.update(key, now_ms, |slot| {
            let entry = slot.entry();
            if entry.is_some_and(|entry| entry.value().len() >= value.len()) {
                return Ok(None);
            }
            let old = entry.as_ref().map(Kept::of);
            put(slot, value, pairs.expires).map(|version| Some((version, old)))
        });
        match put? {
            Some((version, old)) => written.push(Written { position, key, version, old }),
            None => later.push(position),
        }
    }
    let first_version = written.first().map_or(u64::MAX, |first| first.version);
    for position in later {
        let (key, value) = pairs.pairs[position];
        let put = space.update(key, now_ms, |slot| {
            let entry = slot.entry();
            let present = entry.map_or(0, |entry| entry.version());
            // The same key may be named twice. Its last value stays, in whichever order they are
            // written.
            let is_outdated = present >= first_version
                && written
                    .binary_search_by_key(&present, |written| written.version)
                    .is_ok_and(|found| written[found].position > position);
            if is_outdated {
                return Ok(None);
            }
            let old = entry.as_ref().map(Kept::of);
            put(slot, value, pairs.expires).map(|version| Some((version, old)))
        });
        if let Some((version, old)) = put? {
            written.push(Written { position, key, version, old });
        }
    }
    Ok(())
}

fn put(slot: &mut Slot<'_>, value: &[u8], expires: Expires) -> Result<u64, Full> {
    let expires_at_ms = resolve(expires, slot.entry().as_ref());
    slot.put(&[value], Meta { expires_at_ms, ..Meta::default() })
}

/// Puts back what was there before, last write first.
fn take_back<K: Keyspace>(space: &K, written: Vec<Written<'_>>, now_ms: u64) {
    for Written { key, old, .. } in written.into_iter().rev() {
        space.update(key, now_ms, |slot| {
            let put_back = old.map(|old| slot.put(&[old.value()], old.meta()));
            if !matches!(put_back, Some(Ok(_))) {
                slot.remove();
            }
        });
    }
}
