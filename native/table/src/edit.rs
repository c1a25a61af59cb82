//! Changes a part of a value without making other threads wait while a large value is copied.
//!
//! An [`Edit`] of a value of [`BODY_BYTES_MIN`] or more is made in the first of these ways that is
//! possible (`body.rs` argues why they are sound):
//!
//! 1. behind the end, in the spare capacity of the body, or in place, if no other thread can see
//!    the bytes. Only the bytes of the edit are written under the shard's lock;
//! 2. the same after enlarging the body, if it has no other owner and is so large that the system
//!    moves pages instead of copying them ([`MOVED_BYTES_MIN`]);
//! 3. in a new body, with room to grow. Up to [`LOCKED_BYTES_MAX`] are copied under the lock. More
//!    is copied without the lock: the [`Draft`] keeps the value that it read, the caller releases
//!    the lock, makes the draft, and takes the lock again. If the value has changed by then, the
//!    draft is made again; after [`ROUNDS_MAX`] rounds the copy is made under the lock.
//!
//! Large edits ([`LOCKED_BYTES_MAX`]) of any kind are drafts as well: the spare capacity behind the
//! end is claimed and written without the lock, too.
//!
//! A transaction ([`Locked`](crate::Locked)) holds its locks throughout, so it makes copies under
//! them.
//!
//! Every edit makes a new entry with a new version.

use std::ptr;

use crate::body::{BODY_BYTES_MIN, Body, body_bytes, capacity_for};
use crate::core::{Change, Core};
use crate::entry::{Entry, EntryBox, Shared};
use crate::kind::{Refused, WrongKind};
use crate::limits::Full;
use crate::locked_key::LockedKey;
use crate::meta::Meta;
use crate::writer::Charge;

/// Bytes of values that an edit may write while a shard is locked: about 20 microseconds.
pub(crate) const LOCKED_BYTES_MAX: usize = 256 * 1024;

/// From this size on, an allocation is always mapped separately, regardless of earlier allocations,
/// and grows by moving its pages (glibc: DEFAULT_MMAP_THRESHOLD_MAX).
const MOVED_BYTES_MIN: usize = 32 * 1024 * 1024;

/// Number of drafts that other threads may invalidate, by changing the value meanwhile, before the
/// copy is made under the lock.
const ROUNDS_MAX: u32 = 4;

/// A change of a part of a value.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// Bytes after the end.
    Append(&'a [u8]),
    /// Bytes before the start.
    Prepend(&'a [u8]),
    /// Bytes from `at` on. The gap between the old end and `at` is filled with zeros.
    Write {
        /// Where they start.
        at: usize,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Some bits of one byte. The gap between the old end and `at` is filled with zeros.
    SetBits {
        /// The byte.
        at: usize,
        /// The bits.
        mask: u8,
        /// Whether to set the bits.
        on: bool,
    },
}

/// The bytes that an edit inserts.
#[derive(Clone, Copy)]
enum Bytes<'a> {
    Given(&'a [u8]),
    One([u8; 1]),
}

impl Bytes<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Given(bytes) => bytes,
            Bytes::One(byte) => byte,
        }
    }
}

/// The result of an edit: the first `before` bytes of the value, then `zeroes`, then `bytes`, then
/// the value from `after` on.
#[derive(Clone, Copy)]
struct Plan<'a> {
    old_len: usize,
    before: usize,
    zeroes: usize,
    bytes: Bytes<'a>,
    after: usize,
    /// Of the new value.
    len: usize,
}

impl<'a> Plan<'a> {
    fn of(edit: Edit<'a>, old: &[u8]) -> Plan<'a> {
        let (at, bytes) = match edit {
            Edit::Append(bytes) => (old.len(), Bytes::Given(bytes)),
            Edit::Prepend(bytes) => (0, Bytes::Given(bytes)),
            Edit::Write { at, bytes } => (at, Bytes::Given(bytes)),
            Edit::SetBits { at, mask, on } => {
                let byte = old.get(at).copied().unwrap_or(0);
                (at, Bytes::One([if on { byte | mask } else { byte & !mask }]))
            }
        };
        let (old_len, count) = (old.len(), bytes.as_slice().len());
        let before = at.min(old_len);
        let after = match edit {
            Edit::Prepend(_) => 0,
            _ => at.saturating_add(count).min(old_len),
        };
        let len = at.saturating_add(count).saturating_add(old_len - after);
        Plan { old_len, before, zeroes: at - before, bytes, after, len }
    }

    /// Whether everything that remains of the old value stays at its place.
    fn stays(&self) -> bool {
        self.after == self.old_len || self.after == self.before + self.bytes.as_slice().len()
    }

    /// Whether nothing of the old value changes.
    fn extends(&self) -> bool {
        self.before == self.old_len
    }

    /// Bytes to write if the remaining part is already in place.
    fn written(&self) -> usize {
        self.zeroes.saturating_add(self.bytes.as_slice().len())
    }

    /// The new value of a small entry.
    fn build(&self, key: &[u8], old: &[u8], meta: &Meta) -> Option<EntryBox> {
        const ZEROES: [u8; BODY_BYTES_MIN] = [0; BODY_BYTES_MIN];
        let zeroes = ZEROES.get(..self.zeroes)?;
        let parts = [&old[..self.before], zeroes, self.bytes.as_slice(), &old[self.after..]];
        EntryBox::build(key, &parts, meta)
    }

    /// A body of its own for the new value, with spare capacity.
    fn copy(&self, old: &[u8], slack_max: usize) -> Option<Body> {
        let capacity = match self.old_len {
            0 => self.len,
            _ => capacity_for(self.len, slack_max),
        };
        // The system provides zeroed pages for free.
        let zeroed = self.zeroes > LOCKED_BYTES_MAX;
        let body = Body::new(self.len, capacity, zeroed)?;
        let tail = &old[self.after..];
        // SAFETY: the body is new, so it is ours alone.
        unsafe {
            body.write(0, &old[..self.before]);
            if !zeroed {
                body.write_zeroes(self.before, self.zeroes);
            }
            body.write(self.before + self.zeroes, self.bytes.as_slice());
            body.write(self.len - tail.len(), tail);
        }
        Some(body)
    }

    /// Writes the new bytes into a body that already has the others.
    ///
    /// # Safety
    /// The caller may write [`written`](Plan::written) bytes from `before` on; see [`Body`].
    unsafe fn write(&self, body: &Body) {
        // SAFETY: as the caller promises.
        unsafe {
            body.write_zeroes(self.before, self.zeroes);
            body.write(self.before + self.zeroes, self.bytes.as_slice());
        }
    }
}

/// An edit in progress: see the top of the file and [`Keyspace::edit`](crate::Keyspace::edit).
pub struct Draft<'a> {
    edit: Edit<'a>,
    /// Whether everything is done under the locks.
    at_once: bool,
    rounds: u32,
    state: State,
    /// A draft that became useless, to be dropped without the lock.
    spent: Option<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Wanted(Source, usize),
    /// The new value; `None` if the allocation failed.
    Made(Source, Option<Body>),
}

impl<'a> Draft<'a> {
    /// An edit that may be made without the lock.
    pub(crate) fn new(edit: Edit<'a>) -> Draft<'a> {
        Draft { edit, at_once: false, rounds: 0, state: State::Idle, spent: None }
    }

    /// An edit under locks that are held throughout.
    pub(crate) fn at_once(edit: Edit<'a>) -> Draft<'a> {
        Draft { at_once: true, ..Draft::new(edit) }
    }

    /// Makes the draft, if one is needed. The caller holds no lock.
    pub(crate) fn make(&mut self) {
        self.spent = None;
        let State::Wanted(source, slack_max) = std::mem::take(&mut self.state) else { return };
        let old = source.value();
        let plan = Plan::of(self.edit, old);
        let claim = |body: &Body| {
            (plan.extends() && body.claim(old.len(), plan.len)).then(|| {
                // SAFETY: claimed just now.
                unsafe { plan.write(body) };
                body.share()
            })
        };
        let claimed = source.shared.as_ref().and_then(|it| it.entry().with_body(claim).flatten());
        let made = claimed.or_else(|| plan.copy(old, slack_max));
        self.rounds += 1;
        self.state = State::Made(source, made);
    }

    /// The body that was made for this entry, if any.
    fn made_for(&mut self, core: &Core, entry: Option<&Entry<'_>>) -> Option<Result<Body, Full>> {
        match &mut self.state {
            State::Made(source, made) if source.is(core, entry) => Some(made.take().ok_or(Full)),
            _ => None,
        }
    }

    fn may_write(&self, bytes: usize) -> bool {
        bytes <= LOCKED_BYTES_MAX || self.at_once || self.rounds >= ROUNDS_MAX
    }
}

impl std::fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

/// The value from which a draft is made.
struct Source {
    /// The table's address. A database number may mean another table by the second lock (`SWAPDB`),
    /// and versions repeat across tables.
    table: usize,
    /// 0 if there is no entry.
    version: u64,
    shared: Option<Shared>,
    /// The value if it is not shared.
    copied: Vec<u8>,
}

impl Source {
    fn of(core: &Core, entry: Option<&Entry<'_>>) -> Result<Source, WrongKind> {
        let shared = entry.and_then(Entry::share);
        let copied = match &shared {
            None => text_of(entry)?.to_vec(),
            Some(_) => Vec::new(),
        };
        let table = ptr::from_ref(core).addr();
        Ok(Source { table, version: entry.map_or(0, Entry::version), shared, copied })
    }

    fn value(&self) -> &[u8] {
        self.shared.as_deref().unwrap_or(&self.copied)
    }

    /// Whether an entry has the same value, as far as that is cheap to determine: its version in
    /// the same table, or the same bytes of the same body. These bytes have not changed, since this
    /// source is one of their owners.
    fn is(&self, core: &Core, entry: Option<&Entry<'_>>) -> bool {
        let version = entry.map_or(0, Entry::version);
        if version == self.version && ptr::from_ref(core).addr() == self.table {
            return true;
        }
        let Some(entry) = entry else { return false };
        let Some(shared) = &self.shared else { return false };
        let same = |mine: &Body| entry.with_body(|body| body.is(mine)).unwrap_or(false);
        let same_body = shared.entry().with_body(same).unwrap_or(false);
        same_body && entry.text().is_ok_and(|text| text.len() == shared.len())
    }
}

/// The value of a string, empty without an entry.
fn text_of<'a>(entry: Option<&Entry<'a>>) -> Result<&'a [u8], WrongKind> {
    entry.map_or(Ok(&[][..]), Entry::text)
}

impl LockedKey<'_> {
    /// Writes a new entry whose value is that of the present one, changed by the draft's edit; no
    /// entry counts as an empty value. Returns its version, or `None` if nothing was written
    /// because the draft has to be made first: then the closure of
    /// [`Keyspace::edit`](crate::Keyspace::edit) must return `None` as well, and is called again.
    pub fn put_edited(
        &mut self,
        draft: &mut Draft<'_>,
        meta: Meta,
    ) -> Result<Option<u64>, Refused> {
        let old = self.entry();
        let value = text_of(old.as_ref())?;
        let plan = Plan::of(draft.edit, value);
        if plan.len < BODY_BYTES_MIN {
            let entry = plan.build(self.key(), value, &meta).ok_or(Full)?;
            return Ok(Some(self.place(entry, Charge::Within)?));
        }
        if let Some(body) = draft.made_for(self.writer.core, old.as_ref()) {
            let entry = EntryBox::over(self.key(), body?, plan.len, &meta).ok_or(Full)?;
            return Ok(Some(self.place(entry, Charge::Within)?));
        }
        if plan.stays()
            && let Some(version) = self.put_over_body(&plan, draft, meta)?
        {
            return Ok(Some(version));
        }
        let slack_max = self.slack_max(plan.len);
        let old = self.entry();
        if draft.may_write(plan.len) {
            let body = plan.copy(text_of(old.as_ref())?, slack_max).ok_or(Full)?;
            let entry = EntryBox::over(self.key(), body, plan.len, &meta).ok_or(Full)?;
            return Ok(Some(self.place(entry, Charge::Within)?));
        }
        // An edit that will be refused need not be copied first.
        let new_bytes = (body_bytes(plan.len) + self.key().len()) as i64;
        self.admit(new_bytes)?;
        let source = Source::of(self.writer.core, self.entry().as_ref())?;
        draft.spent = Some(std::mem::replace(&mut draft.state, State::Wanted(source, slack_max)));
        Ok(None)
    }

    /// Writes a new entry over the present one's body; `None` if that is not possible.
    fn put_over_body(
        &mut self,
        plan: &Plan<'_>,
        draft: &Draft<'_>,
        meta: Meta,
    ) -> Result<Option<u64>, Full> {
        let capacity = |record: &Self| record.entry()?.with_body(Body::capacity);
        let (Some(bucket), Some(old_capacity)) = (self.bucket, capacity(self)) else {
            return Ok(None);
        };
        let is_sole = self.writer.is_sole(bucket);
        let grows = plan.len > old_capacity && plan.zeroes <= LOCKED_BYTES_MAX;
        if is_sole && grows && old_capacity >= MOVED_BYTES_MIN {
            self.grow_body(bucket, capacity_for(plan.len, self.slack_max(plan.len)));
        }
        let has_room = capacity(self).is_some_and(|capacity| plan.len <= capacity);
        if !has_room || !draft.may_write(plan.written()) {
            return Ok(None);
        }
        let claim = |body: &Body| {
            let claimed = if is_sole {
                body.set_filled(plan.len);
                true
            } else {
                plan.extends() && body.claim(plan.old_len, plan.len)
            };
            claimed.then(|| body.share())
        };
        let Some(body) = self.entry().and_then(|entry| entry.with_body(claim).flatten()) else {
            return Ok(None);
        };
        let entry = EntryBox::over(self.key(), body, plan.len, &meta).ok_or(Full);
        let placed = entry.and_then(|entry| self.place(entry, Charge::Within));
        if let Some(entry) = self.entry() {
            entry.with_body(|body| match placed {
                // SAFETY: either the bytes behind the old end were claimed, or the body had one
                // owner, unknown to any other thread, and the new entry now has its place. We still
                // hold the lock, and no slice of the value is alive.
                Ok(_) => unsafe { plan.write(body) },
                Err(Full) => body.unclaim(plan.old_len, plan.len),
            });
        }
        placed.map(Some)
    }

    /// Enlarges a body in place; the caller made sure that it has no other owner.
    fn grow_body(&mut self, bucket: usize, capacity: usize) {
        let Some(entry) = self.entry() else { return };
        let old = entry.with_body(Body::capacity).unwrap_or(capacity);
        let bytes = body_bytes(capacity) as i64 - body_bytes(old) as i64;
        let change = Change { bytes, ..Change::default() };
        let new_bytes = entry.bytes() as i64 + bytes;
        let core = self.writer.core;
        let charged = match self.writer.room {
            Some(room) => core.charge_reserved(change, new_bytes, room),
            None => core.charge_limited(&core.limits_now(), change, new_bytes),
        };
        if charged.is_err() {
            return;
        }
        // SAFETY: `is_sole` was checked under this lock, and showed that there is no other owner
        // and no alias; no thread reads the value.
        let grow = |place: &mut EntryBox| unsafe { place.grow_body(capacity) };
        if self.writer.records.index.get_bucket_mut(bucket).is_some_and(grow) {
            self.writer.grown.add(change);
        } else {
            self.writer.core.discharge(change);
        }
    }

    /// Spare capacity that a body of `len` bytes in place of the present value may get.
    fn slack_max(&self, len: usize) -> usize {
        /// More than a header and the allocator's overhead.
        const BESIDE_BYTES: usize = 256;
        let old_bytes = self.entry().map_or(0, |entry| entry.bytes());
        let new_bytes = body_bytes(len) + self.key().len() + BESIDE_BYTES;
        let core = self.writer.core;
        let (limits, left_bytes) = match self.writer.room {
            Some(room) => (room.limits, room.left.get().map_or(0, |left| left.bytes)),
            None => (core.limits_now(), 0),
        };
        core.slack_max(&limits, new_bytes as i64, old_bytes as i64, left_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::under_locks;
    use crate::keyspace::Keyspace;
    use crate::limits::{Limits, WhenFull};
    use crate::options::Options;
    use crate::table::Table;

    const NOW_MS: u64 = 1;
    const KEY: &[u8] = b"key";

    fn table() -> Table {
        Table::new(Options { shards: Some(1), ..Options::default() })
    }

    fn put(space: &impl Keyspace, key: &[u8], value: &[u8]) {
        space.update(key, NOW_MS, |record| record.put(&[value], Meta::default())).expect("room");
    }

    fn edit(space: &impl Keyspace, key: &[u8], edit: Edit<'_>) -> Result<u64, Refused> {
        space.edit(key, NOW_MS, edit, |record, draft| {
            let meta = record.entry().map(|entry| entry.meta()).unwrap_or_default();
            record.put_edited(draft, meta).transpose()
        })
    }

    #[test]
    fn a_draft_of_one_table_is_not_used_in_another() {
        let (first, second) = (table(), table());
        put(&first, KEY, &[1; 2 * LOCKED_BYTES_MAX]);
        put(&second, KEY, &[2; 3 * LOCKED_BYTES_MAX]);
        assert_eq!(first.version(), second.version());
        let mut draft = Draft::new(Edit::Append(b"x"));
        let mut put_edited = |table: &Table| {
            let written =
                table.update(KEY, NOW_MS, |record| record.put_edited(&mut draft, Meta::default()));
            draft.make();
            written.expect("room").is_some()
        };
        // As if two databases were exchanged between the two locks.
        assert!(!put_edited(&first) && !put_edited(&second) && put_edited(&second));
        second.read(KEY, NOW_MS, |entry| {
            let value = entry.expect("a record").stored().bytes();
            assert_eq!(value.len(), 3 * LOCKED_BYTES_MAX + 1);
            assert!(value.starts_with(&[2; 3 * LOCKED_BYTES_MAX]) && value.ends_with(b"x"));
        });
    }

    /// Bytes that an edit copied under the lock.
    fn locked_bytes(space: &impl Keyspace, key: &[u8], what: Edit<'_>) -> usize {
        let (bytes, edited) = under_locks(|| edit(space, key, what));
        edited.expect("room");
        bytes
    }

    fn value(space: &impl Keyspace, key: &[u8]) -> Vec<u8> {
        space.read(key, NOW_MS, |entry| entry.expect("a live entry").stored().bytes().to_vec())
    }

    fn address(space: &impl Keyspace, key: &[u8]) -> usize {
        space.read(key, NOW_MS, |entry| {
            entry.expect("a live entry").stored().bytes().as_ptr().addr()
        })
    }

    /// The result of an edit, computed in the simplest way.
    fn edited(old: &[u8], edit: Edit<'_>) -> Vec<u8> {
        let mut new = old.to_vec();
        match edit {
            Edit::Append(bytes) => new.extend_from_slice(bytes),
            Edit::Prepend(bytes) => new = [bytes, old].concat(),
            Edit::Write { at, bytes } => {
                new.resize(old.len().max(at + bytes.len()), 0);
                new[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Edit::SetBits { at, mask, on } => {
                new.resize(old.len().max(at + 1), 0);
                new[at] = if on { new[at] | mask } else { new[at] & !mask };
            }
        }
        new
    }

    fn lengths() -> Vec<usize> {
        let large: &[usize] =
            if cfg!(miri) { &[] } else { &[LOCKED_BYTES_MAX, LOCKED_BYTES_MAX + 1, 1 << 20] };
        let small = [0, 1, 255, 256, BODY_BYTES_MIN - 1, BODY_BYTES_MIN, BODY_BYTES_MIN + 1];
        [&small, large].concat()
    }

    #[test]
    fn every_edit_of_every_length_gives_the_same_value_in_each_way() {
        for old_len in lengths() {
            for len in lengths() {
                let old: Vec<u8> = (0..old_len).map(|byte| byte as u8).collect();
                let bytes: Vec<u8> = (0..len).map(|byte| !(byte as u8)).collect();
                let mut edits = vec![
                    Edit::Append(&bytes),
                    Edit::Prepend(&bytes),
                    Edit::SetBits { at: len, mask: 0x81, on: true },
                    Edit::SetBits { at: old_len / 2, mask: 0x81, on: false },
                ];
                for at in [0, old_len / 2, old_len, old_len + 7, old_len + len] {
                    edits.push(Edit::Write { at, bytes: &bytes });
                }
                for what in edits {
                    let expected = edited(&old, what);
                    for shared in [false, true] {
                        let table = table();
                        put(&table, KEY, &old);
                        let share = |entry: Option<Entry<'_>>| entry.and_then(|it| it.share());
                        let share = table.read(KEY, NOW_MS, share).filter(|_| shared);
                        edit(&table, KEY, what).expect("room");
                        assert!(value(&table, KEY) == expected, "{old_len} {len} {shared}");
                        assert!(share.is_none_or(|share| *share == *old));
                        put(&table, KEY, &old);
                        let locked = table.lock([KEY], NOW_MS);
                        edit(&locked, KEY, what).expect("room");
                        assert!(value(&locked, KEY) == expected, "{old_len} {len} locked");
                    }
                }
            }
        }
    }

    #[test]
    fn operations_that_keep_the_value_copy_none_of_it() {
        let table = table();
        let len = 1 << 20;
        put(&table, KEY, &vec![7; len]);
        let before = address(&table, KEY);
        let (bytes, _) = under_locks(|| {
            for expires_at_ms in [Some(NOW_MS + 1), None, Some(NOW_MS + 2)] {
                let meta = Meta { expires_at_ms, ..Meta::default() };
                table
                    .update(KEY, NOW_MS, |record| record.set_meta(meta))
                    .expect("an entry")
                    .unwrap();
            }
            let shared = table.read(KEY, NOW_MS, |entry| entry.and_then(|entry| entry.share()));
            let copy = shared.expect("a large entry");
            let copy = |record: &mut LockedKey<'_>| record.put_same(&copy.entry(), Meta::default());
            table.update(b"copy", NOW_MS, copy).expect("room");
        });
        assert_eq!(bytes, 0);
        assert_eq!((address(&table, KEY), address(&table, b"copy")), (before, before));
    }

    #[test]
    fn repeated_appends_copy_few_bytes_and_few_under_the_lock() {
        let table = table();
        let piece = [1; 1_000];
        let (mut locked, mut moves, mut len) = (0, 0, 0);
        let mut before = 0;
        while len < if cfg!(miri) { 40_000 } else { 8 << 20 } {
            locked += locked_bytes(&table, KEY, Edit::Append(&piece));
            len += piece.len();
            let now = address(&table, KEY);
            moves += usize::from(len > BODY_BYTES_MIN && now != before);
            before = now;
        }
        assert_eq!(value(&table, KEY), vec![1; len]);
        // A quarter more each time: from 16 KiB to 8 MiB in 28 steps.
        assert!(moves <= 30, "the value moved {moves} times");
        // The value itself, what grows up to 256 KiB by quarters, and 16 KiB piece by piece.
        let most = len + 6 * LOCKED_BYTES_MAX + 9 * BODY_BYTES_MIN;
        assert!(locked <= most, "{locked} bytes were copied under the lock");
    }

    #[test]
    fn a_byte_changes_in_place_only_if_the_value_has_one_owner() {
        let len = BODY_BYTES_MIN;
        let table = table();
        put(&table, KEY, &vec![0; len]);
        let old = vec![0; len];
        let before = address(&table, KEY);
        let mut at = 0;
        let mut change = |space: &dyn Fn(Edit<'_>) -> usize| {
            at += 1;
            space(Edit::Write { at, bytes: &[at as u8] })
        };
        let mut changed = || change(&|what| locked_bytes(&table, KEY, what));
        assert_eq!((changed(), address(&table, KEY)), (1, before), "alone");
        assert_eq!((changed(), address(&table, KEY)), (1, before), "still alone");
        put(&table, KEY, &old);

        let share = |entry: Option<Entry<'_>>| entry.and_then(|entry| entry.share());
        let shared = table.read(KEY, NOW_MS, share).expect("a large entry");
        assert!(changed() >= len, "shared");
        assert_eq!(&*shared, old);
        assert_eq!(changed(), 1, "the copy is not shared");

        put(&table, KEY, &old);
        let first = table.read(KEY, NOW_MS, share).expect("a large entry");
        let copy = |record: &mut LockedKey<'_>| record.put_same(&first.entry(), Meta::default());
        table.update(b"copy", NOW_MS, copy).expect("room");
        drop(first);
        assert!(changed() >= len, "another entry has the body");
        assert_eq!(value(&table, b"copy"), old);

        put(&table, KEY, &old);
        let mut snapshot = table.snapshot().expect("the only one");
        assert!(changed() >= len, "the snapshot needs the entry");
        assert_eq!(changed(), 1, "the snapshot does not need later writes");
        let mut seen = Vec::new();
        while snapshot.next_part(1, |entry| {
            if entry.key() == KEY {
                seen = entry.stored().bytes().to_vec();
            }
        }) == Ok(true)
        {}
        assert_eq!(seen, old);
        drop(snapshot);
        assert_eq!(changed(), 1, "the snapshot is over");
    }

    #[test]
    fn two_entries_that_extend_one_body_do_not_see_each_other() {
        let table = table();
        let old = vec![1; BODY_BYTES_MIN];
        put(&table, KEY, &old);
        edit(&table, KEY, Edit::Append(b"a")).expect("room");
        let shared = table.read(KEY, NOW_MS, |entry| entry.and_then(|entry| entry.share()));
        let shared = shared.expect("a large entry");
        let copy = |record: &mut LockedKey<'_>| record.put_same(&shared.entry(), Meta::default());
        table.update(b"copy", NOW_MS, copy).expect("room");
        assert_eq!(locked_bytes(&table, KEY, Edit::Append(b"one")), 3);
        assert!(locked_bytes(&table, b"copy", Edit::Append(b"two")) > old.len());
        assert_eq!(value(&table, KEY)[old.len()..], *b"aone");
        assert_eq!(value(&table, b"copy")[old.len()..], *b"atwo");
        assert_eq!(shared[old.len()..], *b"a");
    }

    #[test]
    #[cfg_attr(miri, ignore = "large values")]
    fn a_large_copy_is_made_without_the_lock_until_it_fails_too_often() {
        let table = table();
        let len = 4 * LOCKED_BYTES_MAX;
        put(&table, KEY, &vec![1; len]);
        assert_eq!(locked_bytes(&table, KEY, Edit::Prepend(b"zero")), 0);
        assert_eq!(value(&table, KEY).len(), len + 4);
        // Other threads write the key while drafts of it are made.
        let (mut rounds, mut locked) = (0, 0);
        let what = Edit::Prepend(b"more");
        table
            .edit(KEY, NOW_MS, what, |record, draft| {
                rounds += 1;
                let _ = record.put(&[&vec![rounds; len]], Meta::default());
                let (bytes, edited) = under_locks(|| record.put_edited(draft, Meta::default()));
                locked = bytes;
                edited.transpose()
            })
            .expect("room");
        assert_eq!(u32::from(rounds), ROUNDS_MAX + 1);
        assert!(locked > len);
        assert_eq!(value(&table, KEY)[..5], *b"more\x05");
        // A new expiry does not invalidate a draft.
        let mut rounds = 0;
        table
            .edit(KEY, NOW_MS, what, |record, draft| {
                rounds += 1;
                let meta = Meta { expires_at_ms: Some(NOW_MS + rounds), ..Meta::default() };
                record.set_meta(meta).expect("an entry").expect("room");
                record.put_edited(draft, meta).transpose()
            })
            .expect("room");
        assert_eq!(rounds, 2);
    }

    #[test]
    #[cfg_attr(miri, ignore = "large values")]
    fn a_very_large_value_grows_in_place() {
        let table = table();
        put(&table, KEY, &vec![1; MOVED_BYTES_MIN]);
        let bytes = table.bytes();
        assert_eq!(locked_bytes(&table, KEY, Edit::Append(b"more")), 4);
        let grown = table.bytes();
        assert!(grown > bytes + MOVED_BYTES_MIN as u64 / 5);
        // As much as was requested, written without the lock.
        let more = vec![2; 2 * LOCKED_BYTES_MAX];
        assert_eq!(locked_bytes(&table, KEY, Edit::Append(&more)), 0);
        assert_eq!(table.bytes(), grown);
        let value = value(&table, KEY);
        assert_eq!(value[MOVED_BYTES_MIN..MOVED_BYTES_MIN + 5], *b"more\x02");
        table.update(KEY, NOW_MS, |record| record.remove());
        assert_eq!(table.bytes(), 0);
    }

    #[test]
    fn spare_capacity_does_not_make_an_edit_fail() {
        let len = BODY_BYTES_MIN;
        for when_full in [WhenFull::Refuse, WhenFull::Evict] {
            let table = table();
            let most = (body_bytes(len + 100) + 64) as u64;
            let limits = Limits { bytes_max: Some(most), when_full, ..Limits::default() };
            table.set_limits(limits);
            put(&table, KEY, &vec![1; len]);
            edit(&table, KEY, Edit::Append(&[2; 50])).expect("room");
            edit(&table, KEY, Edit::Append(&[2; 50])).expect("room");
            assert_eq!(edit(&table, KEY, Edit::Append(&[2; 100])), Err(Refused::Full));
            assert_eq!(value(&table, KEY).len(), len + 100);
            assert!(table.bytes() <= most);
        }
    }
}
