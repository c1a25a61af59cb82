//! A lock whose readers, while reads are frequent, write only to a cache line of their own.
//!
//! With a plain mutex, each read of a shard writes twice to the shard's cache line, and two threads
//! that read the same keys move that line back and forth between their processors. Here a reader
//! writes to a cache line of its own and only reads the shard.
//!
//! # How
//!
//! Each thread that reads in place ([`Biased::read_in_place`]) has an [`Announcement`], which names
//! the lock that the thread is reading, if any. A lock is either *biased* (towards readers) or not
//! (Dice and Kogan, "BRAVO", 2019):
//!
//! ```text
//! read in place                               lock
//!   biased? (else read under the mutex)         take the mutex
//!   announce this lock                          biased?
//!   still biased?                                 clear the bias
//!     (else announce none, use the mutex)         wait until no announcement names this lock
//!   read                                        change
//!   announce none                               release the mutex
//! ```
//!
//! A lock is created unbiased. [`READS_MIN`] reads under the mutex without a change between them
//! make it biased; the next change makes it unbiased. So a lock that is mostly written costs a
//! mutex and one more load, and the extra cost of revoking the bias arises at most once in
//! `READS_MIN` reads.
//!
//! [`Biased::lock_to_read`] is for reads without an announcement. It takes the mutex and does
//! nothing else: this excludes everyone but the in-place readers, and readers do not disturb each
//! other.
//!
//! # Why no reader sees a change in progress
//!
//! Only the holder of the mutex sets or clears the bias, so every thread that locks knows its
//! value. Let T be a reader's second load of the bias, which found it set, and let W be a writer
//! that holds the lock.
//!
//! * If T read a bias that was set *after* W (by a later holder of the mutex): the bias is set with
//!   a release store and T is an acquire load, so everything that W did happens before the read.
//! * Otherwise T read a bias that was set *before* W. Since then it was cleared, by W or by an
//!   earlier holder of the mutex. Let C be the last thread that cleared it; C did not give up,
//!   since the bias stayed cleared. T precedes C's clearing in the modification order of the bias.
//!   The store to the announcement and T, and C's clearing and C's load of the announcement, are
//!   sequentially consistent, so in their single total order: store to the announcement < T < C's
//!   clearing < C's load of the announcement. Thus C's load returned either the address of this
//!   lock or a value that the thread stored in the announcement later, and C continued only in the
//!   second case. Every later store of the thread to its announcement is a release store (and so
//!   are those of the announcement's next owner, which acquired the announcement from this thread),
//!   and C's load acquires. So the read happens before everything that C did from then on, and
//!   therefore before W.
//!
//! So every read is ordered with every change as by a mutex, and everything that relied on the
//! mutex still holds (the scheduled clear, the point in time of a snapshot). The one difference is
//! that reads are not ordered with each other: whatever a read modifies must be atomic.
//!
//! [`MARK`] is the number of announcements that a writer has to check. A thread raises it before it
//! uses its announcement, also sequentially consistently. A writer that clears the bias and then
//! reads a mark that is too low did both before the mark was raised, hence before T, and T would
//! have found the bias cleared.
//!
//! A thread that only tries to lock does not wait long for a reader. If it gives up, it sets the
//! bias again before it releases the mutex: otherwise the next thread to lock would not check the
//! announcements.
//!
//! There are no fences, because ThreadSanitizer does not support them.
//!
//! # How it is checked
//!
//! `tools/loom` compiles this file with loom's atomics and executes models of two or three threads
//! (`native/loom`) in each order. loom does not model sequentially consistent accesses, so it
//! gets two approximations, each too strong in one respect: the models do not replace the proof
//! above. But they fail without the second load of the bias, without the waiting, and without each
//! other step or ordering in `native/loom/mutations`. ThreadSanitizer runs the tests
//! (`tools/sanitize`). `native/table/results` has the last results of both.
//!
//! # What it costs
//!
//! An in-place read: one atomic exchange, on a line that stays in the thread's cache (a mutex: two,
//! on the shard's line). A change of an unbiased lock: one load. A change of a biased lock: an
//! exchange, and a load for each thread that ever read in place at the same time as others. Memory:
//! 8 KB for the process.

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{
    AtomicBool, AtomicU8, AtomicUsize, LOOM, Mutex, MutexGuard, process_wide, spin_loop,
    thread_local, yield_now,
};

/// Threads that can read in place; further threads read under the mutex.
const ANNOUNCEMENTS: usize = if LOOM { 2 } else { 64 };
/// Reads under the mutex, without a change between them, that make a lock biased.
const READS_MIN: u8 = if LOOM { 1 } else { 16 };
/// Times that a waiting thread polls an announcement before it yields the processor.
const SPINS: u32 = if LOOM { 0 } else { 100 };
/// Times that a thread that only tries to lock yields before it gives up.
const YIELDS_TRIED: u32 = if LOOM { 0 } else { 2 };

/// What one thread is reading. Two cache lines, since processors fetch lines in pairs.
#[repr(align(128))]
struct Announcement {
    /// The address of the lock that the owner is reading; 0 is none.
    reading: AtomicUsize,
    /// Whether a thread owns the announcement.
    owned: AtomicBool,
}

process_wide! {
    static ALL: [Announcement; ANNOUNCEMENTS] =
        each Announcement { reading: AtomicUsize::new(0), owned: AtomicBool::new(false) };
}

process_wide! {
    /// Announcements from this index on were never owned.
    static MARK: AtomicUsize = AtomicUsize::new(0);
}

/// This thread's announcement.
#[derive(Clone, Copy)]
enum Own {
    /// Not requested yet.
    Unknown,
    /// No announcement was left.
    None,
    Announcement(&'static Announcement),
}

/// Gives the announcement back when the thread ends.
struct Owner(Cell<Own>);

thread_local! {
    static OWNER: Owner = const { Owner(Cell::new(Own::Unknown)) };
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Own::Announcement(announcement) = self.0.replace(Own::None) {
            // Release: what the thread did with it happens before what its next owner does.
            announcement.owned.store(false, Release);
        }
    }
}

impl Announcement {
    /// This thread's announcement, if it has one and the announcement names no lock.
    #[inline]
    fn free() -> Option<&'static Announcement> {
        // An error means that the thread is ending.
        let announcement = OWNER.try_with(Owner::announcement).ok()??;
        // Not free: the caller is inside a read of another table.
        (announcement.reading.load(Relaxed) == 0).then_some(announcement)
    }

    /// Claims an announcement that has no owner.
    #[cold]
    fn claim() -> Own {
        for (number, announcement) in ALL.iter().enumerate() {
            if !announcement.owned.load(Relaxed) && !announcement.owned.swap(true, Acquire) {
                MARK.fetch_max(number + 1, SeqCst);
                return Own::Announcement(announcement);
            }
        }
        Own::None
    }
}

impl Owner {
    #[inline]
    fn announcement(&self) -> Option<&'static Announcement> {
        if let Own::Unknown = self.0.get() {
            self.0.set(Announcement::claim());
        }
        match self.0.get() {
            Own::Announcement(announcement) => Some(announcement),
            _ => None,
        }
    }
}

/// Keeps the announcement set to a lock until it is dropped (also if the read panics).
struct InPlaceRead(&'static Announcement);

impl Drop for InPlaceRead {
    #[inline]
    fn drop(&mut self) {
        // Release: the read happens before whatever another thread does that sees the announcement
        // empty.
        self.0.reading.store(0, Release);
    }
}

/// A lock over a `T`; see the module documentation.
pub(crate) struct Biased<T> {
    mutex: Mutex<()>,
    /// Whether threads may read in place. Changed only by the holder of the mutex.
    biased: AtomicBool,
    /// Reads under the mutex since the last change. Changed only by the holder of the mutex.
    reads: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed either by one thread that changes it (`T: Send`) or by several that
// read it (`T: Sync`), never both at once; see the module documentation.
unsafe impl<T: Send + Sync> Sync for Biased<T> {}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Biased<T> {
        Biased {
            mutex: Mutex::new(()),
            biased: AtomicBool::new(false),
            reads: AtomicU8::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Reads without writing to the lock if it is biased. Other threads may read at the same time.
    /// `read` must not use the lock.
    #[inline]
    pub(crate) fn read_in_place<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        if self.biased.load(Relaxed)
            && let Some(announcement) = Announcement::free()
        {
            announcement.reading.swap(self.address(), SeqCst);
            let in_progress = InPlaceRead(announcement);
            if self.biased.load(SeqCst) {
                // SAFETY: a writer clears the bias and then waits until the announcement no
                // longer names this lock, and it names the lock until `in_progress` drops; see the
                // module documentation.
                let result = read(unsafe { &*self.value.get() });
                drop(in_progress);
                return result;
            }
        }
        self.read_locked(read)
    }

    fn read_locked<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let value = self.lock_to_read();
        // A thread without a free announcement gains nothing from a bias, so its reads do not
        // count.
        if !self.biased.load(Relaxed) && Announcement::free().is_some() {
            let reads = self.reads.load(Relaxed) + 1;
            if reads < READS_MIN {
                self.reads.store(reads, Relaxed);
            } else {
                self.reads.store(0, Relaxed);
                self.set_biased();
            }
        }
        read(&value)
    }

    /// Locks exclusively: no other thread reads or changes the value meanwhile.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let mutex = self.mutex.lock();
        if self.biased.load(Relaxed) {
            self.clear_bias(u32::MAX);
        } else {
            self.reads.store(0, Relaxed);
        }
        Locked::new(self, mutex)
    }

    /// Locks exclusively, unless another thread holds the lock or a reader takes long.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, T>> {
        let mutex = self.mutex.try_lock()?;
        if self.biased.load(Relaxed) && !self.clear_bias(YIELDS_TRIED) {
            self.set_biased();
            return None;
        }
        self.reads.store(0, Relaxed);
        Some(Locked::new(self, mutex))
    }

    /// Locks for reading: other threads may read in place meanwhile, but none changes the value.
    #[inline]
    pub(crate) fn lock_to_read(&self) -> LockedToRead<'_, T> {
        LockedToRead { lock: self, _mutex: self.mutex.lock() }
    }

    /// Like [`Biased::lock_to_read`], unless another thread holds the lock.
    #[inline]
    pub(crate) fn try_lock_to_read(&self) -> Option<LockedToRead<'_, T>> {
        Some(LockedToRead { lock: self, _mutex: self.mutex.try_lock()? })
    }

    /// Permits in-place reads. The caller holds the mutex.
    fn set_biased(&self) {
        // Release: earlier changes happen before these reads.
        self.biased.store(true, Release);
    }

    /// Forbids in-place reads and waits until those in progress end; false if it gave up. The
    /// caller holds the mutex.
    #[cold]
    fn clear_bias(&self, yields_max: u32) -> bool {
        self.biased.swap(false, SeqCst);
        let address = self.address();
        let mut yields = 0;
        for announcement in &ALL[..MARK.load(SeqCst)] {
            let mut spins = 0;
            while announcement.reading.load(SeqCst) == address {
                if spins < SPINS {
                    spins += 1;
                    spin_loop();
                } else if yields == yields_max && yields_max != u32::MAX {
                    return false;
                } else {
                    yields = yields.saturating_add(1);
                    yield_now();
                }
            }
        }
        true
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// An exclusively locked value.
pub(crate) struct Locked<'a, T> {
    lock: &'a Biased<T>,
    _mutex: MutexGuard<'a, ()>,
    #[cfg(test)]
    _held: crate::copies::Held,
}

impl<'a, T> Locked<'a, T> {
    #[inline]
    fn new(lock: &'a Biased<T>, mutex: MutexGuard<'a, ()>) -> Locked<'a, T> {
        Locked {
            lock,
            _mutex: mutex,
            #[cfg(test)]
            _held: crate::copies::Held::new(),
        }
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the mutex, so no other thread changes the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the mutex and waited for the in-place reads to end. No other begins
        // before we release the mutex, since only its holder sets the bias. `&mut self` excludes
        // our own reads.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// A value locked for reading.
pub(crate) struct LockedToRead<'a, T> {
    lock: &'a Biased<T>,
    _mutex: MutexGuard<'a, ()>,
}

impl<T> Deref for LockedToRead<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we hold the mutex, so no thread changes the value.
        unsafe { &*self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Announcements belong to the process, and one test takes them all.
    static TURN: Mutex<()> = Mutex::new(());

    /// A biased lock.
    fn biased<T>(value: T) -> Biased<T> {
        let lock = Biased::new(value);
        (0..READS_MIN).for_each(|_| lock.read_in_place(|_| ()));
        assert!(lock.biased.load(SeqCst));
        lock
    }

    #[test]
    fn a_change_clears_the_bias_and_reads_restore_it() {
        let _turn = TURN.lock();
        let lock = biased(1);
        *lock.lock() += 1;
        assert!(!lock.biased.load(SeqCst));
        for _ in 1..READS_MIN {
            assert_eq!(lock.read_in_place(|value| *value), 2);
        }
        drop(lock.lock());
        for _ in 1..READS_MIN {
            lock.read_in_place(|_| ());
        }
        assert!(!lock.biased.load(SeqCst), "reads count from the last change on");
        lock.read_in_place(|_| ());
        assert!(lock.biased.load(SeqCst));
        drop(lock.lock_to_read());
        assert!(lock.biased.load(SeqCst));
    }

    #[test]
    fn nested_reads_do_not_exclude_each_other() {
        let _turn = TURN.lock();
        let (lock, other) = (biased(1), biased(2));
        lock.read_in_place(|one| {
            other.read_in_place(|two| assert_eq!((*one, *two), (1, 2)));
            // The inner read did not release the outer one.
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock_to_read().is_some());
            assert!(other.try_lock().is_some());
        });
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_read_that_panics_ends() {
        let _turn = TURN.lock();
        let lock = biased(());
        let panicked =
            catch_unwind(AssertUnwindSafe(|| lock.read_in_place(|()| panic!("in a read"))));
        assert!(panicked.is_err());
        drop(lock.lock());
    }

    #[test]
    fn a_writer_waits_for_reads_even_after_another_gave_up() {
        let _turn = TURN.lock();
        let lock = &biased(0);
        let (started, begun) = mpsc::channel();
        let (end, ending) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                lock.read_in_place(|value| {
                    started.send(()).expect("a receiver");
                    ending.recv().expect("a message");
                    assert_eq!(*value, 0);
                });
            });
            begun.recv().expect("a read");
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock().is_none());
            let writer = scope.spawn(|| *lock.lock() = 1);
            thread::sleep(Duration::from_millis(20));
            assert!(!writer.is_finished());
            end.send(()).expect("a read");
        });
        assert_eq!(lock.read_in_place(|value| *value), 1);
    }

    #[test]
    fn more_threads_than_announcements_can_read_at_once() {
        let _turn = TURN.lock();
        let lock = &biased([7; 4]);
        for _ in 0..if cfg!(miri) { 1 } else { 3 } {
            // Announcements that were returned are owned again, so the last threads always find
            // none.
            let threads = ANNOUNCEMENTS + 6;
            let all = &Barrier::new(threads);
            thread::scope(|scope| {
                let read = || {
                    for _ in 0..3 {
                        assert_eq!(lock.read_in_place(|value| *value), [7; 4]);
                    }
                    all.wait();
                    lock.lock().fill(7);
                };
                let all: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
                // The scope alone does not wait until the announcements are returned.
                all.into_iter().for_each(|thread| thread.join().expect("no panic"));
            });
        }
        assert_eq!(MARK.load(SeqCst), ANNOUNCEMENTS);
        assert!(Announcement::free().is_some(), "all announcements were returned");
    }

    /// Short, for Miri with many seeds: weak memory effects show up only by chance.
    #[test]
    fn no_read_sees_a_partial_change() {
        let _turn = TURN.lock();
        let lock = &biased([0u64; 2]);
        let rounds = if cfg!(miri) { 3 } else { 20_000 };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..rounds * (usize::from(READS_MIN) + 2) {
                        let [one, two] = lock.read_in_place(|value| *value);
                        assert_eq!(one, two);
                        assert!(one >= last);
                        last = one;
                    }
                });
            }
            scope.spawn(move || {
                for round in 0..rounds {
                    let mut value = match round % 4 {
                        0 => lock.try_lock().unwrap_or_else(|| lock.lock()),
                        _ => lock.lock(),
                    };
                    value[0] += 1;
                    value[1] += 1;
                    drop(value);
                    thread::yield_now();
                    let value = lock.lock_to_read();
                    assert_eq!(value[0], value[1]);
                }
            });
        });
        assert_eq!(lock.read_in_place(|value| value[0]), rounds as u64);
    }
}
