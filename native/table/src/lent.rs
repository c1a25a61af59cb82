//! Values that are not copied, but lent by the caller: see [`crate::body`].

use std::fmt;

use crate::body::{Body, LOAN_BYTES_MAX};
use crate::limits::Full;

/// A value that stays where it is: in memory that an object of the caller keeps.
///
/// The entry made from it, and every other entry that shares the value, refers to these bytes. The
/// last of them drops the owner, on any thread, possibly under a shard's lock: that must be brief
/// and must not call the table.
pub struct Lent {
    body: Body,
    len: usize,
}

/// The most memory that an owner may keep for a value of this length. Steps of several writes
/// reserve room for as much.
pub fn lent_bytes_max(len: usize) -> usize {
    len.saturating_add(len / 10).saturating_add(64)
}

/// The most memory that the body of a lent value takes.
pub(crate) fn memory_bytes_max(len: usize) -> usize {
    lent_bytes_max(len).saturating_add(LOAN_BYTES_MAX)
}

impl Lent {
    /// Lends bytes that `owner` keeps. They take `held_bytes` of memory, for which the entry
    /// counts: more than their number if the owner keeps others with them, but at most
    /// [`lent_bytes_max`].
    ///
    /// # Panics
    /// If they take more.
    ///
    /// # Safety
    /// The bytes stay at their address and unchanged until `owner` is dropped.
    pub unsafe fn new<O: Send + Sync + 'static>(
        bytes: &[u8],
        held_bytes: usize,
        owner: O,
    ) -> Result<Lent, Full> {
        assert!(held_bytes <= lent_bytes_max(bytes.len()), "too much for the value");
        // SAFETY: see the function.
        let body = unsafe { Body::lent(bytes, held_bytes, owner) }.ok_or(Full)?;
        Ok(Lent { body, len: bytes.len() })
    }

    /// The length of the value.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn into_parts(self) -> (Body, usize) {
        (self.body, self.len)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::body::BODY_BYTES_MIN;
    use crate::copies::under_locks;
    use crate::edit::Edit;
    use crate::entry::{Entry, Shared};
    use crate::keyspace::Keyspace;
    use crate::limits::Limits;
    use crate::locked_key::{LockedKey, Prepared};
    use crate::meta::Meta;
    use crate::options::Options;
    use crate::reservation::shared_entry_bytes;
    use crate::table::{Table, Written};

    const NOW_MS: u64 = 1_800_000_000_000;
    const KEY: &[u8] = b"key";
    const WAIT_MAX: Duration = Duration::from_secs(60);
    const LENGTHS: [usize; 4] = [1, 5_000, BODY_BYTES_MIN + 1, 300_000];

    /// Values, and how many of them are alive.
    #[derive(Default)]
    struct Lender {
        alive: Arc<()>,
    }

    impl Lender {
        fn lend(&self, value: &[u8]) -> Lent {
            let bytes: Box<[u8]> = value.into();
            let lent: *const [u8] = &raw const *bytes;
            let owner = (bytes, Arc::clone(&self.alive));
            // SAFETY: a boxed slice stays at its address while it is moved, and nothing changes it.
            unsafe { Lent::new(&*lent, value.len(), owner) }.expect("memory")
        }

        /// Waits until this many are alive, because the reaper may have to free some.
        fn has(&self, values: usize) {
            let began = Instant::now();
            while Arc::strong_count(&self.alive) - 1 > values && began.elapsed() < WAIT_MAX {
                std::thread::yield_now();
            }
            assert_eq!(Arc::strong_count(&self.alive) - 1, values);
        }
    }

    fn table() -> Table {
        Table::new(Options { shards: Some(1), ..Options::default() })
    }

    fn put(table: &Table, key: &[u8], lent: Lent, meta: Meta) {
        let written = table.write_lent(key, NOW_MS, lent, meta.is_plain(), |record, lent, _| {
            record.put_prepared(Prepared::lent(key, lent, meta).expect("memory")).map(|_| ())
        });
        assert!(matches!(written, Written::Over(_) | Written::Changed(Ok(()))));
    }

    fn value(table: &Table, key: &[u8]) -> Vec<u8> {
        table.read(key, NOW_MS, |entry| entry.expect("a record").stored().bytes().to_vec())
    }

    fn shared(table: &Table) -> Shared {
        let share = |entry: Option<Entry<'_>>| entry.and_then(|entry| entry.share());
        table.read(KEY, NOW_MS, share).expect("an entry over a body")
    }

    #[test]
    fn a_lent_value_is_not_copied() {
        for len in LENGTHS {
            let (table, lender) = (table(), Lender::default());
            for byte in 1..4 {
                let lent = lender.lend(&vec![byte; len]);
                let address = lent.body.bytes().addr();
                let (copied, ()) = under_locks(|| put(&table, KEY, lent, Meta::default()));
                let at = table
                    .read(KEY, NOW_MS, |entry| entry.map(|it| it.stored().bytes().as_ptr().addr()));
                assert_eq!((copied, at), (0, Some(address)));
                assert_eq!(value(&table, KEY), vec![byte; len]);
                lender.has(1);
            }
            let entry = shared(&table);
            let put_same =
                |record: &mut LockedKey<'_>| record.put_same(&entry.entry(), Meta::default());
            table.update(b"copy", NOW_MS, put_same).expect("room");
            drop(entry);
            lender.has(1);
            table.update(KEY, NOW_MS, |record| record.remove());
            assert_eq!(value(&table, b"copy"), vec![3; len]);
            lender.has(1);
        }
    }

    /// The record expires one millisecond later.
    fn expire(table: &Table) {
        let meta = Meta { expires_at_ms: Some(NOW_MS + 1), ..Meta::default() };
        let set = table.update(KEY, NOW_MS, |record| record.set_meta(meta));
        set.expect("there").expect("room");
    }

    #[test]
    fn a_lent_value_is_released_however_its_entry_ends() {
        type End = fn(&Table, &Lender);
        let ends: [End; 9] = [
            |table, _| {
                table
                    .update(KEY, NOW_MS, |record| record.put(&[b"x"], Meta::default()))
                    .expect("room");
            },
            |table, lender| {
                put(table, KEY, lender.lend(b"new"), Meta::default());
                lender.has(1);
                assert!(table.update(KEY, NOW_MS, |record| record.remove()));
            },
            |table, _| assert!(table.update(KEY, NOW_MS, |record| record.remove())),
            |table, _| {
                expire(table);
                while table.sweep(NOW_MS + 1, 8).1 {}
            },
            |table, _| {
                expire(table);
                table.update(KEY, NOW_MS + 1, |record| assert!(record.entry().is_none()));
            },
            |table, _| {
                table.set_limits(Limits { entries_max: Some(0), ..Limits::default() });
                while table.sweep(NOW_MS, 8).1 {}
            },
            |table, _| assert_eq!(table.clear(), 1),
            |table, _| {
                let handle = shared(table);
                assert_eq!(table.clear(), 1);
                assert!(!handle.is_empty());
            },
            |table, _| {
                let snapshot = table.snapshot().expect("the only one");
                assert!(table.update(KEY, NOW_MS, |record| record.remove()));
                drop(snapshot);
                table.sweep(NOW_MS, 8);
            },
        ];
        for len in LENGTHS {
            for end in ends {
                let (table, lender) = (table(), Lender::default());
                put(&table, KEY, lender.lend(&vec![7; len]), Meta::default());
                lender.has(1);
                end(&table, &lender);
                lender.has(0);
            }
            let (table, lender) = (table(), Lender::default());
            put(&table, KEY, lender.lend(&vec![7; len]), Meta::default());
            drop(table);
            lender.has(0);
            drop(lender.lend(&vec![7; len]));
            lender.has(0);
        }
    }

    #[test]
    fn an_edit_of_a_lent_value_changes_a_copy() {
        let edits = [
            Edit::Append(b"tail"),
            Edit::Append(b""),
            Edit::Prepend(b"head"),
            Edit::Write { at: 0, bytes: b"x" },
            Edit::SetBits { at: 0, mask: 0xff, on: false },
            Edit::Write { at: 400_000, bytes: b"far" },
        ];
        for (len, edit) in LENGTHS.iter().flat_map(|len| edits.map(|edit| (*len, edit))) {
            for is_held in [false, true] {
                let (one, other, lender) = (table(), table(), Lender::default());
                let original = vec![7; len];
                put(&one, KEY, lender.lend(&original), Meta::default());
                other
                    .update(KEY, NOW_MS, |record| record.put(&[&original], Meta::default()))
                    .unwrap();
                let handle = is_held.then(|| shared(&one));
                for _ in 0..2 {
                    for table in [&one, &other] {
                        table
                            .edit(KEY, NOW_MS, edit, |record, draft| {
                                record.put_edited(draft, Meta::default()).transpose()
                            })
                            .expect("room");
                    }
                }
                assert!(value(&one, KEY) == value(&other, KEY), "{len} {edit:?}");
                assert!(handle.is_none_or(|handle| *handle == original));
                one.clear();
                lender.has(0);
            }
        }
    }

    #[test]
    fn an_entry_keeps_its_body_while_somebody_may_read_it() {
        for len in LENGTHS {
            let (table, lender) = (table(), Lender::default());
            put(&table, KEY, lender.lend(&vec![1; len]), Meta::default());
            let handle = shared(&table);
            put(&table, KEY, lender.lend(&vec![2; len]), Meta::default());
            assert_eq!(*handle, vec![1; len]);
            let mut snapshot = table.snapshot().expect("the only one");
            put(&table, KEY, lender.lend(&vec![3; len]), Meta::default());
            let mut seen = Vec::new();
            while snapshot.next_part(1, |entry| seen = entry.stored().bytes().to_vec()) == Ok(true)
            {
            }
            assert_eq!(seen, vec![2; len]);
            assert_eq!(value(&table, KEY), vec![3; len]);
            drop((snapshot, handle));
            table.sweep(NOW_MS, 8);
            lender.has(1);
        }
    }

    #[test]
    fn a_lent_value_counts_with_all_that_its_owner_holds() {
        let (table, lender) = (table(), Lender::default());
        let held_bytes = 6_000;
        for len in [5_500, 5_900, 5_500] {
            let bytes: Box<[u8]> = vec![7; len].into();
            let lent: *const [u8] = &raw const *bytes;
            let owner = (bytes, Arc::clone(&lender.alive));
            // SAFETY: as above.
            let lent = unsafe { Lent::new(&*lent, held_bytes, owner) }.expect("memory");
            put(&table, KEY, lent, Meta::default());
            let counted = table.bytes() as usize;
            assert!((held_bytes..held_bytes + 200).contains(&counted), "{counted}");
            assert!(counted as u64 <= shared_entry_bytes(KEY.len(), len, &Meta::default()));
        }
        table.update(KEY, NOW_MS, |record| record.remove());
        assert_eq!(table.bytes(), 0);
    }
}
