//! When the entries of one shard expire: a heap of deadlines, the earliest first.
//!
//! A deadline is seven bytes, 32 bits of time and 24 bits of the key's hash:
//!
//! ```text
//!   | ms since base 32 | hash: bits 57..64 (7) | hash: bits 0..17 (17) |
//! ```
//!
//! This fragment is all that the index needs to find a key: hashbrown begins a search at the lowest
//! bits of the hash, as many as there are buckets, and compares the highest seven. So the entries
//! of a fragment are found without their key; in an index of more than 2^17 buckets, all values of
//! the missing bits are tried in turn. Several entries may have the same fragment, which is
//! harmless: they are checked together.
//!
//! # Deadlines come early, never late
//!
//! For each entry with an expiry there is a deadline of its fragment that is not later. So checking
//! the deadlines that have passed finds every expired entry. In return, deadlines may be too early,
//! or belong to no entry:
//!
//! * An entry that replaces one that expires no later adds nothing. When the old deadline has
//!   passed and the new entry is still alive, the deadline is reinserted with the new entry's time.
//!   A key that is rewritten repeatedly with the same time to live has one deadline all the time.
//! * A deadline whose entry was removed is dropped when it has passed. The deadlines of entries
//!   that are removed and created again, or whose expiry is brought forward, may become many. If
//!   there are more than two for each entry, all are compared with the index, and only one for each
//!   fragment remains ([`Deadlines::replace`]). This happens again only after a similar number of
//!   writes, so that a write pays for a few deadlines, and the table holds no more than two for
//!   each entry.
//!
//! Times are relative to a base at most 37 days in the past. An entry that expires more than 49
//! days after the base has a deadline that is too early.

use std::cmp::Ordering;

use crate::heap::Heap;
use crate::time::NEVER_MS;

/// Lowest hash bits in a fragment. Few in unit tests, so that entries share fragments.
const LOW_BITS: u32 = if cfg!(test) { 1 } else { 17 };
/// The hash bits from this one up are in the fragment, too.
const TAG_SHIFT: u32 = 57;
const FRAGMENT_BITS: u32 = LOW_BITS + (u64::BITS - TAG_SHIFT);
const DEADLINE_BYTES: usize = 7;
const _: () = assert!(u32::BITS + FRAGMENT_BITS <= DEADLINE_BYTES as u32 * 8);

/// The base of the first deadline is this far in the past.
const BASE_AGE_MS: u64 = 1 << 30;
/// Bases are multiples of this, so that they take four bytes.
const BASE_UNIT_MS: u64 = 1 << 20;
/// An older base is moved forward.
const BASE_AGE_MAX_MS: u64 = 3 << 30;

/// Deadlines allowed beyond two for each entry.
const SPARE: usize = 64;

/// The base of deadlines that are created now.
fn base_at(now_ms: u64) -> u32 {
    u32::try_from(now_ms.saturating_sub(BASE_AGE_MS) / BASE_UNIT_MS).unwrap_or(u32::MAX)
}

/// The bits of a hash that suffice to find entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fragment(u32);

impl Fragment {
    #[inline]
    pub(crate) fn of(hash: u64) -> Fragment {
        let low = hash & ((1 << LOW_BITS) - 1);
        Fragment(((hash >> TAG_SHIFT) << LOW_BITS | low) as u32)
    }

    /// Hashes with which a search in an index of this many buckets finds the entries of this
    /// fragment.
    pub(crate) fn hashes(self, buckets: usize) -> impl Iterator<Item = u64> {
        let bits = u64::from(self.0);
        let hash = (bits >> LOW_BITS) << TAG_SHIFT | bits & ((1 << LOW_BITS) - 1);
        let between = (buckets as u64 >> LOW_BITS).max(1);
        (0..between).map(move |bits| hash | bits << LOW_BITS)
    }
}

/// Time and fragment, the time first: compared as numbers, the earlier one is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline([u8; DEADLINE_BYTES]);

impl Ord for Deadline {
    #[inline]
    fn cmp(&self, other: &Deadline) -> Ordering {
        self.word().cmp(&other.word())
    }
}

impl PartialOrd for Deadline {
    #[inline]
    fn partial_cmp(&self, other: &Deadline) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Deadline {
    fn new(time: u32, fragment: Fragment) -> Deadline {
        let word = u64::from(time) << FRAGMENT_BITS | u64::from(fragment.0);
        let [bytes @ .., _] = word.to_le_bytes();
        Deadline(bytes)
    }

    #[inline]
    fn word(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }

    fn time(self) -> u32 {
        (self.word() >> FRAGMENT_BITS) as u32
    }

    fn fragment(self) -> Fragment {
        Fragment((self.word() & ((1 << FRAGMENT_BITS) - 1)) as u32)
    }
}

/// The deadlines of one shard.
pub(crate) struct Deadlines {
    heap: Heap<Deadline>,
    /// In units of [`BASE_UNIT_MS`].
    base: u32,
    /// Entries that have an expiry.
    entries: u32,
}

/// With malloc's overhead of eight bytes, 64 bytes for a shard.
const _: () = assert!(size_of::<Deadlines>() <= 56);

impl Deadlines {
    pub(crate) fn new(now_ms: u64) -> Deadlines {
        Deadlines { heap: Heap::default(), base: base_at(now_ms), entries: 0 }
    }

    fn base_ms(&self) -> u64 {
        u64::from(self.base) * BASE_UNIT_MS
    }

    /// The earliest deadline; [`NEVER_MS`] if there is none.
    pub(crate) fn first_ms(&self) -> u64 {
        let first = self.heap.first();
        first.map_or(NEVER_MS, |deadline| self.base_ms() + u64::from(deadline.time()))
    }

    /// How many deadlines have passed, `most` at most.
    pub(crate) fn count_due(&self, now_ms: u64, most: usize) -> usize {
        let is_due = |deadline: Deadline| self.base_ms() + u64::from(deadline.time()) <= now_ms;
        self.heap.count_first(is_due, most)
    }

    /// The sum of the milliseconds that are left until some of the deadlines, spread over the heap,
    /// and how many these are, `most` at most.
    pub(crate) fn sample_left_ms(&self, now_ms: u64, most: usize) -> (u64, u64) {
        let passed = now_ms.saturating_sub(self.base_ms());
        let step = self.heap.len().div_ceil(most.max(1)).max(1);
        let times =
            (0..self.heap.len()).step_by(step).map(|at| u64::from(self.heap.get(at).time()));
        times.fold((0, 0), |(sum, count), time| (sum + time.saturating_sub(passed), count + 1))
    }

    /// The fragment of the earliest deadline.
    pub(crate) fn first_fragment(&self) -> Option<Fragment> {
        self.heap.first().map(Deadline::fragment)
    }

    /// The heap, so that its memory can be prefetched.
    pub(crate) fn heap(&self) -> &Heap<Deadline> {
        &self.heap
    }

    /// Bytes of memory.
    pub(crate) fn allocated(&self) -> usize {
        size_of::<Deadlines>() + self.heap.allocated()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Whether the fragment has a deadline that is not later.
    #[cfg(test)]
    pub(crate) fn covers(&self, fragment: Fragment, at_ms: u64) -> bool {
        let at_ms = at_ms.max(self.base_ms());
        self.heap.iter().any(|deadline| {
            let time_ms = self.base_ms() + u64::from(deadline.time());
            deadline.fragment() == fragment && time_ms <= at_ms
        })
    }

    /// Counts an entry that has an expiry.
    pub(crate) fn add_entry(&mut self) {
        self.entries += 1;
    }

    /// Subtracts an entry that was removed, or lost its expiry. False if it was the last: then no
    /// deadline is needed.
    pub(crate) fn remove_entry(&mut self) -> bool {
        self.entries -= 1;
        self.entries > 0
    }

    /// Whether so much of the heap belongs to no entry that it must be
    /// [replaced](Deadlines::replace) before another deadline is added.
    pub(crate) fn is_crowded(&self) -> bool {
        self.heap.len() >= 2 * self.entries as usize + SPARE
    }

    /// Like [`Deadlines::is_crowded`], for removals, which must not cost as much.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.heap.len() >= 4 * self.entries as usize + SPARE
    }

    /// Adds the deadline of an entry.
    pub(crate) fn push(&mut self, fragment: Fragment, at_ms: u64, now_ms: u64) {
        self.keep_base(now_ms);
        self.heap.push(self.deadline(fragment, at_ms));
    }

    /// Removes the earliest deadline, if it has passed.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Fragment> {
        self.keep_base(now_ms);
        if self.first_ms() > now_ms {
            return None;
        }
        self.heap.pop().map(Deadline::fragment)
    }

    /// Keeps one deadline for each fragment: `earliest_ms` returns when the first of its entries
    /// expires, if there is any.
    pub(crate) fn replace(&mut self, mut earliest_ms: impl FnMut(Fragment) -> Option<u64>) {
        let mut deadlines = std::mem::take(&mut self.heap).into_vec();
        deadlines.sort_unstable_by_key(|deadline| deadline.fragment().0);
        deadlines.dedup_by_key(|deadline| deadline.fragment().0);
        deadlines.retain_mut(|deadline| {
            let fragment = deadline.fragment();
            let earliest_ms = earliest_ms(fragment);
            earliest_ms.is_some_and(|at_ms| {
                *deadline = self.deadline(fragment, at_ms);
                true
            })
        });
        self.heap = Heap::from_vec(deadlines);
    }

    fn deadline(&self, fragment: Fragment, at_ms: u64) -> Deadline {
        let time = at_ms.saturating_sub(self.base_ms());
        Deadline::new(u32::try_from(time).unwrap_or(u32::MAX), fragment)
    }

    /// Moves the base if it is too old, or if it is in the future because the clock was set back:
    /// then all deadlines count as passed, and the sweeper reinserts them.
    fn keep_base(&mut self, now_ms: u64) {
        let base_ms = self.base_ms();
        if base_ms <= now_ms && now_ms - base_ms <= BASE_AGE_MAX_MS {
            return;
        }
        self.base = base_at(now_ms);
        let passed = self.base_ms().checked_sub(base_ms).unwrap_or(u64::MAX);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        let mut deadlines = std::mem::take(&mut self.heap).into_vec();
        for deadline in &mut deadlines {
            let time = deadline.time().saturating_sub(passed);
            *deadline = Deadline::new(time, deadline.fragment());
        }
        self.heap = Heap::from_vec(deadlines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

    #[test]
    fn a_fragment_finds_its_hash_with_any_number_of_buckets() {
        for hash in [0, u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210] {
            let fragment = Fragment::of(hash);
            for bits in 0..24 {
                // The start of a search, and what it compares.
                let start = |hash: u64| (hash & ((1 << bits) - 1), hash >> TAG_SHIFT);
                let found = fragment.hashes(1 << bits).any(|other| start(other) == start(hash));
                assert!(found, "{hash:x} {bits}");
                let hashes = fragment.hashes(1 << bits).count();
                assert_eq!(hashes, 1 << u32::saturating_sub(bits, LOW_BITS));
            }
        }
    }

    #[test]
    fn deadlines_are_due_in_order_and_not_early() {
        let mut deadlines = Deadlines::new(NOW_MS);
        for after in [5, 3, 9, 3, 0] {
            deadlines.push(Fragment(after), NOW_MS + u64::from(after), NOW_MS);
        }
        assert_eq!(deadlines.first_ms(), NOW_MS);
        let mut due = |now_ms| {
            std::iter::from_fn(|| deadlines.pop_due(now_ms)).map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(due(NOW_MS), [0]);
        assert_eq!(due(NOW_MS + 4), [3, 3]);
        assert_eq!(due(NOW_MS + 100), [5, 9]);
        assert_eq!(deadlines.first_ms(), NEVER_MS);
    }

    #[test]
    fn deadlines_are_never_late_for_any_movement_of_the_clock() {
        let times = [0, 1, NOW_MS - DAY_MS, NOW_MS, NOW_MS + DAY_MS, NOW_MS + 100 * DAY_MS];
        for &from_ms in &times {
            for &to_ms in &times {
                let mut deadlines = Deadlines::new(from_ms);
                for (number, &at_ms) in times.iter().enumerate() {
                    deadlines.push(Fragment(number as u32), at_ms, from_ms);
                }
                let mut due = Vec::new();
                while let Some(fragment) = deadlines.pop_due(to_ms) {
                    due.push(times[fragment.0 as usize]);
                }
                let expired: Vec<u64> =
                    times.iter().copied().filter(|&at_ms| at_ms <= to_ms).collect();
                assert!(expired.iter().all(|at_ms| due.contains(at_ms)), "{from_ms} {to_ms}");
            }
        }
    }

    #[test]
    fn moving_the_base_does_not_change_deadlines() {
        let mut deadlines = Deadlines::new(NOW_MS);
        deadlines.push(Fragment(1), NOW_MS + 35 * DAY_MS, NOW_MS);
        deadlines.push(Fragment(2), NOW_MS + 30 * DAY_MS, NOW_MS);
        // Later than a deadline can represent.
        deadlines.push(Fragment(3), NOW_MS + 400 * DAY_MS, NOW_MS);
        let mut now_ms = NOW_MS;
        while now_ms < NOW_MS + 30 * DAY_MS {
            assert_eq!(deadlines.pop_due(now_ms), None);
            now_ms += DAY_MS;
        }
        assert_eq!(deadlines.first_ms(), NOW_MS + 30 * DAY_MS);
        deadlines.push(Fragment(4), now_ms + 1, now_ms);
        let mut due = |now_ms| deadlines.pop_due(now_ms).map(|fragment| fragment.0);
        assert_eq!([due(now_ms), due(now_ms + 1)], [Some(2), Some(4)]);
        assert_eq!([due(NOW_MS + 35 * DAY_MS - 1), due(NOW_MS + 35 * DAY_MS)], [None, Some(1)]);
        assert_eq!(due(NOW_MS + 38 * DAY_MS), Some(3));
    }

    #[test]
    fn replacing_leaves_one_deadline_for_each_fragment_that_has_an_entry() {
        let mut deadlines = Deadlines::new(NOW_MS);
        deadlines.add_entry();
        for after in 0..1_000 {
            deadlines.push(Fragment(after % 10), NOW_MS + u64::from(after), NOW_MS);
        }
        assert!(deadlines.is_crowded() && deadlines.is_abandoned());
        deadlines.replace(|fragment| (fragment.0 < 3).then(|| NOW_MS + u64::from(fragment.0)));
        assert_eq!(deadlines.len(), 3);
        assert_eq!(deadlines.first_ms(), NOW_MS);
        assert!(deadlines.allocated() < 1_000);
        assert!(!deadlines.remove_entry());
    }
}
