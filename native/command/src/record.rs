//! What commands share when they read an entry: the record they show, the conditions they check,
//! the metadata they write.

use crate::{Condition, Expires, Record, Refusal};
use todana_table::{
    Access, Entry, Full, Keyspace, Kind, LockedKey, Meta, Shared, StoredCopy, Time, WrongKind,
};

/// Checks a condition on the present record.
#[inline]
pub(crate) fn check(condition: Condition, entry: Option<&Entry<'_>>) -> Result<(), Refusal> {
    match (condition, entry) {
        (Condition::Always, _) | (Condition::IfAbsent, None) | (Condition::IfPresent, Some(_)) => {
            Ok(())
        }
        (Condition::IfAbsent, Some(_)) => Err(Refusal::Present),
        (Condition::IfPresent | Condition::IfVersion(_) | Condition::NotNewer(_), None) => {
            Err(Refusal::Absent)
        }
        (Condition::IfVersion(version), Some(entry)) if entry.version() == version => Ok(()),
        (Condition::NotNewer(version), Some(entry)) if entry.version() >= version => Ok(()),
        (Condition::IfVersion(_) | Condition::NotNewer(_), Some(_)) => Err(Refusal::VersionDiffers),
    }
}

/// The expiry after a write.
#[inline]
pub(crate) fn resolve(expires: Expires, entry: Option<&Entry<'_>>, now_ms: u64) -> Option<u64> {
    match expires {
        Expires::Keep => entry.and_then(Entry::expires_at_ms),
        _ => expires.resolve(None, now_ms),
    }
}

/// Whether a record with this expiry has expired already.
#[inline]
pub(crate) fn is_past(expires_at_ms: Option<u64>, now_ms: u64) -> bool {
    expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
}

/// The access word of a record that is stored now.
pub(crate) fn fresh_access(now_ms: u64) -> Access {
    Access { last_s: seconds(now_ms), ..Access::default() }
}

/// The second of a moment, in the form of access words.
pub(crate) fn seconds(now_ms: u64) -> u32 {
    u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX)
}

/// A string that outlives the borrow of its entry: a reference to a large one, a copy of a small
/// one.
#[derive(Debug)]
pub(crate) enum Held {
    /// The entry itself.
    Counted(Shared),
    /// A copy of its contents.
    Copied {
        /// The value.
        value: Vec<u8>,
        /// Its version.
        version: u64,
        /// Flags, expiry, access.
        meta: Meta,
    },
}

impl Held {
    pub(crate) fn of(entry: &Entry<'_>) -> Result<Held, WrongKind> {
        Ok(match entry.share() {
            Some(shared) => Held::Counted(shared),
            None => Held::Copied {
                value: entry.text()?.to_vec(),
                version: entry.version(),
                meta: entry.meta(),
            },
        })
    }

    /// That of a key, if there is one.
    pub(crate) fn read<K: Keyspace>(
        space: &K,
        key: &[u8],
        now_ms: u64,
    ) -> Result<Option<Held>, WrongKind> {
        space.read(key, now_ms, |entry| entry.as_ref().map(Held::of).transpose())
    }

    /// Bytes of memory that only this holds. A referenced record belongs to the table as long as
    /// the table has it.
    pub(crate) fn own_bytes(&self) -> usize {
        match self {
            Held::Counted(shared) => shared.own_bytes(),
            Held::Copied { value, .. } => value.capacity(),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        match self {
            Held::Counted(shared) => shared.entry().version(),
            Held::Copied { version, .. } => *version,
        }
    }

    pub(crate) fn value(&self) -> &[u8] {
        match self {
            Held::Counted(shared) => shared,
            Held::Copied { value, .. } => value,
        }
    }

    pub(crate) fn record<'a>(&'a self, key: &'a [u8]) -> Record<'a> {
        match self {
            Held::Counted(shared) => Record::of_shared(shared),
            Held::Copied { value, version, meta } => Record {
                key,
                value,
                flags: meta.flags,
                version: *version,
                expires_at_ms: meta.expires_at_ms,
            },
        }
    }
}

/// A record of any kind that is written elsewhere, or put back: a reference to a large string, a
/// copy of everything else.
#[derive(Debug)]
pub(crate) enum Carried {
    /// The entry itself.
    Counted(Shared),
    /// A copy of its contents.
    Copied {
        /// The value.
        value: StoredCopy,
        /// Its version.
        version: u64,
        /// Flags, expiry, access.
        meta: Meta,
    },
}

impl Carried {
    pub(crate) fn of(entry: &Entry<'_>) -> Carried {
        match entry.share() {
            Some(shared) => Carried::Counted(shared),
            None => Carried::Copied {
                value: entry.stored().copied(),
                version: entry.version(),
                meta: entry.meta(),
            },
        }
    }

    pub(crate) fn version(&self) -> u64 {
        match self {
            Carried::Counted(shared) => shared.entry().version(),
            Carried::Copied { version, .. } => *version,
        }
    }

    /// Writes the record under another key; a large value is shared.
    pub(crate) fn put_copy(&self, locked: &mut LockedKey<'_>) -> Result<u64, Full> {
        match self {
            Carried::Counted(shared) => locked.put_same(&shared.entry(), shared.entry().meta()),
            Carried::Copied { value, meta, .. } => locked.put_stored(value.stored(), *meta),
        }
    }

    /// The same for a record whose old key the caller removes in the same step, or for one that is
    /// put back.
    pub(crate) fn put_moved(&self, locked: &mut LockedKey<'_>) -> Result<u64, Full> {
        match self {
            Carried::Counted(shared) => {
                locked.put_same_moved(&shared.entry(), shared.entry().meta())
            }
            Carried::Copied { value, meta, .. } => locked.put_moved(value.stored(), *meta),
        }
    }
}

/// Reads a record, and records the access. A large one may be passed to `look` after the lock is
/// released.
#[inline]
pub(crate) fn get<K: Keyspace, R>(
    space: &K,
    key: &[u8],
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    space.read(key, now_ms, used(now_ms, look))
}

/// Reads a record and records the access. The access time is not visible in a record, so it is
/// recorded first.
#[inline]
pub(crate) fn used<R>(
    now: impl Time,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> impl FnOnce(Option<Entry<'_>>) -> R {
    move |entry| {
        if let Some(entry) = &entry {
            entry.note_access(now);
        }
        look(entry)
    }
}

/// [`take`](crate::take), from a table whose locks may already be held. A record that is no string
/// is shown and stays.
pub(crate) fn take_from<K: Keyspace, R>(
    space: &K,
    key: &[u8],
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    let taken = space.update(key, now_ms, |locked| {
        let entry = locked.entry();
        if let Some(large) = entry.and_then(|entry| entry.share()) {
            locked.remove();
            return Err((look, large));
        }
        let is_string = entry.is_some_and(|entry| entry.kind() == Kind::String);
        let looked = look(entry);
        if is_string {
            locked.remove();
        }
        Ok(looked)
    });
    taken.unwrap_or_else(|(look, large)| look(Some(large.entry())))
}
