//! Values as byte strings: read, store, extend, cut.

use crate::record::{self, Held, check, fresh_access, is_past, resolve};
use crate::target::Target;
use crate::{Condition, Context, Error, Expires, Record, Refusal, Reply, Set, Side};
use todana_table::{
    Access, Edit, Entry, Filling, Full, Keyspace, Lent, LockedKey, Meta, PREFETCH_KEYS_MAX,
    Prepared, Shared, Table, Time, Written, WrongKind,
};

/// GET, `get`, `todana:get`.
#[inline]
pub(crate) fn get<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    record::get(space, key, now_ms, |entry| reply_with(entry, reply));
}

/// Replies with a string, if there is one; with a handle if it is large.
#[inline]
fn reply_with<R: Reply>(entry: Option<Entry<'_>>, reply: &mut R) {
    match entry.map(|entry| (entry, Record::of(&entry))) {
        Some((entry, Ok(record))) => reply_with_record(&entry, record, reply),
        Some((_, Err(wrong))) => reply.error(wrong.into()),
        None => reply.none(),
    }
}

#[inline]
fn reply_with_record<R: Reply>(entry: &Entry<'_>, record: Record<'_>, reply: &mut R) {
    let is_held = reply.holds(record.value.len());
    match if is_held { entry.share() } else { None } {
        Some(large) => reply.held(large),
        None => reply.record(record),
    }
}

/// MGET, `get` of several keys. A record that is no string is none.
#[inline]
pub(crate) fn get_many<K: Keyspace, R: Reply>(
    space: &K,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    reply.list(keys.len());
    for keys in keys.chunks(PREFETCH_KEYS_MAX) {
        if keys.len() > 1 {
            space.prefetch(keys);
        }
        for key in keys {
            record::get(space, key, now_ms, |entry| {
                match entry.and_then(|entry| Some((entry, Record::of(&entry).ok()?))) {
                    Some((entry, record)) => reply_with_record(&entry, record, reply),
                    None => reply.none(),
                }
            });
        }
    }
}

/// The same as one step. Large values are written to the reply without the locks.
pub(crate) fn get_at_once<T: Target, R: Reply>(
    target: &T,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    let locked = target.lock(keys.iter().copied(), now_ms);
    let rest = get_many_small(&locked, keys, now_ms, reply);
    drop(locked);
    for (key, held) in keys[keys.len() - rest.len()..].iter().zip(rest) {
        reply_with_held(key, held, reply);
    }
}

/// MGET with the locks held, up to the first large value. The rest is read from the table for
/// [`reply_with_held`], so that no large value is copied to the client while others wait.
fn get_many_small<K: Keyspace, R: Reply>(
    space: &K,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) -> Vec<Option<Held>> {
    reply.list(keys.len());
    get_each_small(space, keys, now_ms, reply)
}

/// The same without the number of keys.
pub(crate) fn get_each_small<K: Keyspace, R: Reply>(
    space: &K,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) -> Vec<Option<Held>> {
    let mut rest = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        if at.is_multiple_of(PREFETCH_KEYS_MAX) && keys.len() > 1 {
            space.prefetch(&keys[at..keys.len().min(at + PREFETCH_KEYS_MAX)]);
        }
        space.read(key, now_ms, |entry| {
            let record = entry.as_ref().and_then(|entry| Record::of(entry).ok());
            let is_large = record.is_some_and(|record| record.value.len() >= PREPARED_BYTES_MIN);
            if is_large || !rest.is_empty() {
                rest.push(entry.as_ref().and_then(|entry| Held::of(entry).ok()));
            } else {
                match record {
                    Some(record) => reply.record(record),
                    None => reply.none(),
                }
            }
            if let Some(entry) = entry {
                entry.note_access(now_ms);
            }
        });
    }
    rest
}

/// The reply for a record read earlier. The locks are released.
pub(crate) fn reply_with_held<R: Reply>(key: &[u8], held: Option<Held>, reply: &mut R) {
    match held {
        Some(Held::Counted(large)) if reply.holds(large.len()) => reply.held(large),
        Some(held) => reply.record(held.record(key)),
        None => reply.none(),
    }
}

/// Values of this length and more are copied before the shard is locked, or after.
pub(crate) const PREPARED_BYTES_MIN: usize = 4_096;

/// SET and its relatives, memcached's storage commands, `todana:put`.
#[inline]
pub(crate) fn set<K: Keyspace, R: Reply>(space: &K, set: &Set<'_>, now_ms: u64, reply: &mut R) {
    if set.return_old || set.value.len() >= PREPARED_BYTES_MIN {
        return set_with_care(space, set, now_ms, reply);
    }
    space.update(set.key, now_ms, |locked| store_and_reply(locked, set, None, now_ms, reply));
}

/// The same on a table of its own, which asks for the time only if it needs it.
#[inline]
pub fn set_in_table<R: Reply>(table: &Table, set: &Set<'_>, now: impl Time, reply: &mut R) {
    if set.return_old || set.value.len() >= PREPARED_BYTES_MIN {
        return set_with_care(table, set, now.ms(), reply);
    }
    let over = |_: &[u8]| is_plain(set).then_some(set.value);
    let written = table.write(set.key, now, over, |locked, now_ms| {
        store_and_reply(locked, set, None, now_ms, &mut *reply);
    });
    if let Written::Over(version) = written {
        reply.stored(version);
    }
}

/// Whether the record gets its value and nothing else, whatever there is.
#[inline]
fn is_plain(set: &Set<'_>) -> bool {
    set.condition == Condition::Always
        && set.expires == Expires::Never
        && set.flags == 0
        && !set.track_access
}

#[inline]
fn store_and_reply<R: Reply>(
    locked: &mut LockedKey<'_>,
    set: &Set<'_>,
    mut prepared: Option<Prepared>,
    now_ms: u64,
    reply: &mut R,
) {
    match store(locked, set, &mut prepared, now_ms) {
        Ok(version) => reply.stored(version),
        Err(unstored) => unstored.reply(reply),
    }
}

/// The same if the value is large, or the old record is requested.
#[inline(never)]
fn set_with_care<K: Keyspace, R: Reply>(space: &K, set: &Set<'_>, now_ms: u64, reply: &mut R) {
    let prepared = (set.value.len() >= PREPARED_BYTES_MIN).then(|| {
        let meta = new_meta(set, None, now_ms).unwrap_or_default();
        Prepared::new(set.key, &[set.value], meta)
    });
    set_prepared(space, set, prepared.transpose(), now_ms, reply);
}

/// The same if the value has been copied already.
pub(crate) fn set_filled<K: Keyspace, R: Reply>(
    space: &K,
    set: &Set<'_>,
    value: Filling,
    now_ms: u64,
    reply: &mut R,
) {
    let meta = new_meta(set, None, now_ms).unwrap_or_default();
    set_prepared(space, set, value.prepared(set.key, meta).map(Some), now_ms, reply);
}

/// The same on a table of its own, with a value that is not copied.
#[inline]
pub(crate) fn set_lent_in_table<R: Reply>(
    table: &Table,
    set: &Set<'_>,
    value: Lent,
    now: impl Time,
    reply: &mut R,
) {
    if set.return_old {
        return set_lent(table, set, value, now.ms(), reply);
    }
    let written = table.write_lent(set.key, now, value, is_plain(set), |locked, value, ms| {
        let meta = new_meta(set, None, ms).unwrap_or_default();
        match Prepared::lent(set.key, value, meta) {
            Ok(entry) => store_and_reply(locked, set, Some(entry), ms, &mut *reply),
            Err(Full) => reply.error(Error::Full),
        }
    });
    if let Written::Over(version) = written {
        reply.stored(version);
    }
}

/// SET with a value that is not copied: `value` is that of `set`.
#[inline(never)]
pub(crate) fn set_lent<K: Keyspace, R: Reply>(
    space: &K,
    set: &Set<'_>,
    value: Lent,
    now_ms: u64,
    reply: &mut R,
) {
    let meta = new_meta(set, None, now_ms).unwrap_or_default();
    set_prepared(space, set, Prepared::lent(set.key, value, meta).map(Some), now_ms, reply);
}

fn set_prepared<K: Keyspace, R: Reply>(
    space: &K,
    set: &Set<'_>,
    prepared: Result<Option<Prepared>, Full>,
    now_ms: u64,
    reply: &mut R,
) {
    let Ok(mut prepared) = prepared else { return reply.error(Error::Full) };
    let (stored, old) = space.update(set.key, now_ms, |locked| {
        let old = if set.return_old { locked.entry() } else { None };
        match old.as_ref().map(Held::of).transpose() {
            Ok(old) => (store(locked, set, &mut prepared, now_ms), old),
            // The old value is part of the reply: nothing is stored.
            Err(wrong) => (Err(Unstored::Failed(wrong.into())), None),
        }
    });
    // Without the lock, because the old value may be large.
    match (stored, old) {
        (Err(Unstored::Failed(error)), _) => reply.error(error),
        (_, Some(Held::Counted(old))) => reply.held(old),
        (_, Some(old)) => reply.record(old.record(set.key)),
        (_, None) if set.return_old => reply.none(),
        (Ok(version), _) => reply.stored(version),
        (Err(unstored), _) => unstored.reply(reply),
    }
}

/// Why nothing was stored.
enum Unstored {
    Refused(Refusal),
    Failed(Error),
}

impl Unstored {
    fn reply<R: Reply>(self, reply: &mut R) {
        match self {
            Unstored::Refused(refusal) => reply.refused(refusal),
            Unstored::Failed(error) => reply.error(error),
        }
    }
}

impl From<Full> for Unstored {
    fn from(full: Full) -> Unstored {
        Unstored::Failed(full.into())
    }
}

/// Stores the prepared entry, or else the value. An entry that is not stored stays with the caller,
/// which drops it after releasing the lock.
#[inline]
fn store(
    locked: &mut LockedKey<'_>,
    set: &Set<'_>,
    prepared: &mut Option<Prepared>,
    now_ms: u64,
) -> Result<u64, Unstored> {
    let entry = locked.entry();
    check(set.condition, entry.as_ref()).map_err(Unstored::Refused)?;
    let known = new_meta(set, None, now_ms);
    let meta = known.or_else(|| new_meta(set, Some(entry), now_ms)).unwrap_or_default();
    let version = match (prepared.take_if(|_| known.is_some()), prepared) {
        (Some(complete), _) => locked.put_prepared(complete)?,
        (None, Some(value)) => locked.put_same(&value.entry(), meta)?,
        (None, None) => locked.put(&[set.value], meta)?,
    };
    if is_past(meta.expires_at_ms, now_ms) {
        locked.remove();
    }
    Ok(version)
}

/// The metadata of a record that is set. `None` if it depends on the present record, which is not
/// given.
#[inline]
fn new_meta(set: &Set<'_>, present: Option<Option<Entry<'_>>>, now_ms: u64) -> Option<Meta> {
    let depends = set.expires == Expires::Keep || matches!(set.condition, Condition::NotNewer(_));
    if depends {
        let entry = present?;
        return Some(inherited_meta(set, entry, now_ms));
    }
    let access = set.track_access.then(|| fresh_access(now_ms));
    Some(Meta { expires_at_ms: resolve(set.expires, None, now_ms), flags: set.flags, access })
}

fn inherited_meta(set: &Set<'_>, entry: Option<Entry<'_>>, now_ms: u64) -> Meta {
    let fresh = set.track_access.then(|| fresh_access(now_ms));
    match (set.condition, entry) {
        // The writer is late: its value is stale from the start, and changes nothing else.
        (Condition::NotNewer(version), Some(entry)) if entry.version() > version => {
            let won = entry.meta().access.is_some_and(|access| access.won);
            let access = Access { stale: true, won, ..fresh_access(now_ms) };
            let expires_at_ms = entry.expires_at_ms();
            Meta { expires_at_ms, flags: set.flags, access: Some(access) }
        }
        (_, entry) => {
            let expires_at_ms = resolve(set.expires, entry.as_ref(), now_ms);
            Meta { expires_at_ms, flags: set.flags, access: fresh }
        }
    }
}

/// STRLEN.
pub(crate) fn length<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    match space.read(key, now_ms, |entry| Ok(text(entry)?.len())) {
        Ok(length) => reply.integer(length as i64),
        Err(WrongKind(kind)) => reply.error(Error::WrongKind(kind)),
    }
}

/// The value of a string, empty without a record.
#[inline]
pub(crate) fn text<'a>(entry: Option<Entry<'a>>) -> Result<&'a [u8], WrongKind> {
    entry.map_or(Ok(&[]), |entry| entry.text())
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
    let large = space.read(key, now_ms, |entry| {
        let value = match text(entry) {
            Ok(value) => value,
            Err(wrong) => {
                reply.error(wrong.into());
                return None;
            }
        };
        let range = clamp(start, end, value.len()).map_or(0..0, |(first, last)| first..last + 1);
        if reply.holds(range.len())
            && let Some(large) = entry.as_ref().and_then(Entry::share)
        {
            return Some((large, range));
        }
        reply.bytes(&value[range]);
        None
    });
    if let Some((large, range)) = large {
        reply.part(large, range);
    }
}

/// First and last index of a span by Redis' rules; `None` if it is empty.
pub(crate) fn clamp(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    // If both offsets count from the end, a start after the end makes the span empty before either
    // is clamped to the value.
    if start < 0 && end < 0 && start > end {
        return None;
    }
    clamp_each(start, end, len)
}

/// The same, but a start and an end before the value both mean its first byte, in either order
/// (BITPOS).
pub(crate) fn clamp_each(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).ok()?;
    let from_start =
        |offset: i64| if offset < 0 { len.saturating_add(offset).max(0) } else { offset };
    let (first, last) = (from_start(start), from_start(end).min(len - 1));
    if first > last || len == 0 {
        return None;
    }
    Some((usize::try_from(first).ok()?, usize::try_from(last).ok()?))
}

/// The arguments of [`concat`].
#[derive(Clone, Copy)]
pub(crate) struct Added<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) side: Side,
    pub(crate) create: bool,
    pub(crate) condition: Condition,
    pub(crate) expires: Expires,
}

/// APPEND, `append`, `prepend`. Flags stay.
pub(crate) fn concat<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    added: &Added<'_>,
    context: Context,
    reply: &mut R,
) {
    let edit = match added.side {
        Side::Append => Edit::Append(added.bytes),
        Side::Prepend => Edit::Prepend(added.bytes),
    };
    space.edit(key, context.now_ms, edit, |locked, draft| {
        let meta = match extended_meta(locked.entry(), added, context) {
            Ok(meta) => meta,
            Err(unextended) => {
                unextended.reply(reply);
                return Some(());
            }
        };
        match locked.put_edited(draft, meta) {
            Ok(None) => return None,
            Ok(Some(version)) => reply.length(length_now(locked), version),
            Err(refused) => reply.error(refused.into()),
        }
        if is_past(locked.entry().and_then(|entry| entry.expires_at_ms()), context.now_ms) {
            locked.remove();
        }
        Some(())
    });
}

/// Why nothing was added.
enum Unextended {
    Refused(Refusal),
    Failed(Error),
}

impl Unextended {
    fn reply<R: Reply>(self, reply: &mut R) {
        match self {
            Unextended::Refused(refusal) => reply.refused(refusal),
            Unextended::Failed(error) => reply.error(error),
        }
    }
}

/// Length of the string that the locked key has now.
fn length_now(locked: &LockedKey<'_>) -> usize {
    text(locked.entry()).map_or(0, <[u8]>::len)
}

/// The metadata of an extended value.
fn extended_meta(
    entry: Option<Entry<'_>>,
    added: &Added<'_>,
    context: Context,
) -> Result<Meta, Unextended> {
    check(added.condition, entry.as_ref()).map_err(Unextended::Refused)?;
    if entry.is_none() && !added.create {
        return Err(Unextended::Refused(Refusal::Absent));
    }
    let old_length = match text(entry) {
        Ok(old) => old.len(),
        Err(wrong) => return Err(Unextended::Failed(wrong.into())),
    };
    if old_length.saturating_add(added.bytes.len()) > context.value_bytes_max {
        return Err(Unextended::Failed(Error::ValueTooLarge));
    }
    let expires_at_ms = resolve(added.expires, entry.as_ref(), context.now_ms);
    // An extended value counts as newly stored: it has not been read, and it is not stale.
    let old = entry.map(|entry| entry.meta()).unwrap_or_default();
    let access = old.access.map(|_| fresh_access(context.now_ms));
    Ok(Meta { expires_at_ms, access, ..old })
}

/// SETRANGE. Fills the gap between the old end and the offset with zero bytes.
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
    let edit = Edit::Write { at: end - bytes.len(), bytes };
    space.edit(key, context.now_ms, edit, |locked, draft| {
        let meta = locked.entry().map(|entry| entry.meta()).unwrap_or_default();
        match locked.put_edited(draft, meta) {
            Ok(None) => return None,
            Ok(Some(_)) => reply.integer(length_now(locked) as i64),
            Err(refused) => reply.error(refused.into()),
        }
        Some(())
    });
}

/// GETDEL, `todana:take`.
pub(crate) fn take<K: Keyspace, R: Reply>(space: &K, key: &[u8], now_ms: u64, reply: &mut R) {
    record::take_from(space, key, now_ms, |entry| reply_with(entry, reply));
}

/// Replies with a small record, or that it is no string. Returns a large one, with which the caller
/// replies after releasing the lock.
pub(crate) fn reply_or_hold<R: Reply>(entry: &Entry<'_>, reply: &mut R) -> Option<Shared> {
    let large = entry.share();
    if large.is_none() {
        match Record::of(entry) {
            Ok(record) => reply.record(record),
            Err(wrong) => reply.error(wrong.into()),
        }
    }
    large
}
