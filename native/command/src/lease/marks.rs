//! Leases: of many readers, one is asked to recompute the record; the others use the present one.
//!
//! The terms are those of memcached's meta commands. A reader *wins* the right to recache a record
//! that is missing (vivify), old (recache) or marked *stale*. Until it stores a new one, later
//! readers learn that another reader has won.

use crate::key::expiry;
use crate::record::{check, fresh_access, is_past, resolve, seconds};
use crate::{Condition, Error, Expires, LeaseOptions, LeaseState, Record, Refusal, Reply};
use todana_table::{Access, Entry, Full, Keyspace, Kind, LockedKey, Meta, Shared};

/// `mg`.
pub(crate) fn lease<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    options: LeaseOptions,
    now_ms: u64,
    reply: &mut R,
) {
    if settle(space, key, options, now_ms, reply) {
        return;
    }
    let large = space.update(key, now_ms, |locked| {
        let Some(entry) = locked.entry() else {
            vivify(locked, options, now_ms, reply);
            return None;
        };
        if let Err(wrong) = entry.text() {
            reply.error(wrong.into());
            return None;
        }
        let state = look(&entry, options, now_ms);
        if state.won {
            mark_won(locked, now_ms);
        }
        let large = match options.touch {
            Some(touch) => show_touched(locked, touch, state, options, now_ms, reply),
            None => show_or_hold(&locked.entry()?, state, options, now_ms, reply),
        };
        Some((large?, state))
    });
    if let Some((large, state)) = large {
        reply.lease(Record::of_shared(&large), state);
    }
}

/// Replies if the read changes no more than the access word, which needs no lock. Most do. Returns
/// whether it has replied.
pub(crate) fn settle<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    options: LeaseOptions,
    now_ms: u64,
    reply: &mut R,
) -> bool {
    space.read(key, now_ms, |entry| match entry {
        None if options.vivify.is_none() => {
            reply.none();
            true
        }
        Some(entry) if entry.kind() != Kind::String => {
            reply.error(Error::WrongKind(entry.kind()));
            true
        }
        Some(entry) if options.touch.is_none() => {
            let state = look(&entry, options, now_ms);
            if !state.won {
                show(&entry, state, options, now_ms, reply);
            }
            !state.won
        }
        _ => false,
    })
}

/// Creates an empty record that the caller must fill.
fn vivify<R: Reply>(locked: &mut LockedKey<'_>, options: LeaseOptions, now_ms: u64, reply: &mut R) {
    let Some(expires) = options.vivify else { return reply.none() };
    let access = Some(Access { won: true, fetched: !options.quiet_access, ..fresh_access(now_ms) });
    let meta = Meta { expires_at_ms: resolve(expires, None, now_ms), flags: 0, access };
    if locked.put(&[], meta) == Err(Full) {
        return reply.error(Error::Full);
    }
    let state = LeaseState { won: true, created: true, ..LeaseState::default() };
    if let Some(Ok(record)) = locked.entry().as_ref().map(Record::of) {
        reply.lease(record, state);
    }
    if is_past(meta.expires_at_ms, now_ms) {
        locked.remove();
    }
}

/// The state of the record for this reader, and whether the reader wins.
fn look(entry: &Entry<'_>, options: LeaseOptions, now_ms: u64) -> LeaseState {
    let access = entry.meta().access.unwrap_or_else(|| fresh_access(now_ms));
    let left_ms = entry.expires_at_ms().map(|at_ms| at_ms.saturating_sub(now_ms));
    let is_old = left_ms.zip(options.recache_below_ms).is_some_and(|(left, below)| left < below);
    LeaseState {
        won: !options.never_win && !access.won && (access.stale || is_old),
        already_won: access.won,
        stale: access.stale,
        fetched_before: access.fetched,
        idle_s: seconds(now_ms).saturating_sub(access.last_s).into(),
        created: false,
    }
}

/// Records that a reader has won. A record without an access word gets one.
fn mark_won(locked: &mut LockedKey<'_>, now_ms: u64) {
    let Some(meta) = locked.entry().map(|entry| entry.meta()) else { return };
    let access = Access { won: true, ..meta.access.unwrap_or_else(|| fresh_access(now_ms)) };
    if !locked.set_access(access) {
        // If there is no room for the word, the next reader wins too, which costs work but loses no
        // data.
        let _ = locked.set_meta(Meta { access: Some(access), ..meta });
    }
}

fn show<R: Reply>(
    entry: &Entry<'_>,
    state: LeaseState,
    options: LeaseOptions,
    now_ms: u64,
    reply: &mut R,
) {
    if !options.quiet_access {
        entry.note_access(now_ms);
    }
    match Record::of(entry) {
        Ok(record) => reply.lease(record, state),
        Err(wrong) => reply.error(wrong.into()),
    }
}

/// The same under a lock: returns a large record, which the caller shows after releasing the lock.
fn show_or_hold<R: Reply>(
    entry: &Entry<'_>,
    state: LeaseState,
    options: LeaseOptions,
    now_ms: u64,
    reply: &mut R,
) -> Option<Shared> {
    let large = entry.share();
    match large {
        None => show(entry, state, options, now_ms, reply),
        Some(_) if options.quiet_access => {}
        Some(_) => entry.note_access(now_ms),
    }
    large
}

/// Shows the record with its new expiry. A record that expires now is shown for the last time.
fn show_touched<R: Reply>(
    locked: &mut LockedKey<'_>,
    touch: Expires,
    state: LeaseState,
    options: LeaseOptions,
    now_ms: u64,
    reply: &mut R,
) -> Option<Shared> {
    let expires_at_ms = resolve(touch, locked.entry().as_ref(), now_ms);
    let is_last = is_past(expires_at_ms, now_ms);
    if !is_last && expiry::change(locked, expires_at_ms, now_ms) == Err(Full) {
        reply.error(Error::Full);
        return None;
    }
    let large = show_or_hold(&locked.entry()?, state, options, now_ms, reply);
    if is_last {
        locked.remove();
    }
    large
}

/// `md` with `I`: marks the record stale, as a new version; the next reader wins.
pub(crate) fn invalidate<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    condition: Condition,
    expires: Expires,
    now_ms: u64,
    reply: &mut R,
) {
    space.update(key, now_ms, |locked| {
        let entry = locked.entry();
        if let Err(refusal) = check(condition, entry.as_ref()) {
            return reply.refused(refusal);
        }
        let Some(entry) = entry else { return reply.refused(Refusal::Absent) };
        let meta = entry.meta();
        let expires_at_ms = resolve(expires, Some(&entry), now_ms);
        let word = meta.access.unwrap_or_else(|| fresh_access(now_ms));
        let access = Some(Access { stale: true, won: false, ..word });
        if locked.set_meta(Meta { expires_at_ms, access, ..meta }) == Some(Err(Full)) {
            return reply.error(Error::Full);
        }
        if is_past(expires_at_ms, now_ms) {
            locked.remove();
        }
        reply.done();
    });
}
