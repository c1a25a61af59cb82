//! Expiry of records.

use crate::record::{is_past, resolve};
use crate::string::text::reply_or_hold;
use crate::{Error, ExpireWhen, Expires, Reply};
use todana_table::{Full, Keyspace, LockedKey, Meta};

/// TTL and its relatives.
pub(crate) fn expiry<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    match space.read(key, now_ms, |entry| entry.map(|entry| entry.expires_at_ms())) {
        Some(expires_at_ms) => reply.expiry(expires_at_ms),
        None => reply.none(),
    }
}

/// EXPIRE and its relatives, PERSIST, `touch`, `todana:touch`.
pub(crate) fn expire<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    expires: Expires,
    when: ExpireWhen,
    now_ms: u64,
    reply: &mut R,
) {
    space.update(key, now_ms, |locked| {
        let Some(entry) = locked.entry() else { return reply.flag(false) };
        let (old, new) = (entry.expires_at_ms(), resolve(expires, Some(&entry), now_ms));
        let nothing_to_do = new.is_none() && old.is_none() && expires == Expires::Never;
        if nothing_to_do || !applies(when, old, new) {
            return reply.flag(false);
        }
        match change(locked, new, now_ms) {
            Ok(()) => reply.flag(true),
            Err(Full) => reply.error(Error::Full),
        }
    });
}

fn applies(when: ExpireWhen, old: Option<u64>, new: Option<u64>) -> bool {
    let late = |expires_at_ms: Option<u64>| expires_at_ms.unwrap_or(u64::MAX);
    !(when.if_none && old.is_some()
        || when.if_some && old.is_none()
        || when.if_later && late(new) <= late(old)
        || when.if_earlier && late(new) >= late(old))
}

/// GETEX, `gat`.
pub(crate) fn get_and_expire<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    expires: Expires,
    now_ms: u64,
    reply: &mut R,
) {
    if expires == Expires::Keep {
        return crate::string::text::get(space, key, now_ms, reply);
    }
    let large = space.update(key, now_ms, |locked| {
        let Some(entry) = locked.entry() else {
            reply.none();
            return None;
        };
        if let Err(wrong) = entry.text() {
            reply.error(wrong.into());
            return None;
        }
        let (old, new) = (entry.expires_at_ms(), resolve(expires, Some(&entry), now_ms));
        entry.note_access(now_ms);
        if is_past(new, now_ms) {
            let large = reply_or_hold(&entry, reply);
            locked.remove();
            return large;
        }
        if old != new && change(locked, new, now_ms) == Err(Full) {
            reply.error(Error::Full);
            return None;
        }
        // Shown in its new state, so that its version suits a compare-and-set (`gats`).
        reply_or_hold(&locked.entry()?, reply)
    });
    if let Some(large) = large {
        reply.held(large);
    }
}

/// Changes the expiry of the locked key's record, or removes the record if the new expiry has
/// passed.
pub(crate) fn change(
    locked: &mut LockedKey<'_>,
    expires_at_ms: Option<u64>,
    now_ms: u64,
) -> Result<(), Full> {
    if is_past(expires_at_ms, now_ms) {
        locked.remove();
        return Ok(());
    }
    let Some(meta) = locked.entry().map(|entry| entry.meta()) else { return Ok(()) };
    locked.set_meta(Meta { expires_at_ms, ..meta }).map_or(Ok(()), |written| written.map(|_| ()))
}
