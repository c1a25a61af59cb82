//! A lock whose readers, where they are many, write nothing that others read.
//!
//! A mutex makes each look at a shard two writes to the shard's cache line, and two threads that
//! look at the same keys pass that line to and fro all the time. Here a look writes to a line that
//! the thread has for itself, and only reads the shard.
//!
//! # How
//!
//! Each thread that reads in place ([`Biased::read_in_place`]) has a [`ReaderSlot`], which names
//! the lock that the thread is reading, if any. A lock is *biased* or it is not (Dice and Kogan,
//! "BRAVO", 2019):
//!
//! ```text
//! look in place                               lock
//!   biased? (else look under the mutex)         take the mutex
//!   slot := this lock                           biased?
//!   still biased?                                 not biased any more
//!     (else slot := none, use the mutex)          wait until no slot names this lock
//!   look                                        change
//!   slot := none                                give the mutex back
//! ```
//!
//! A lock begins without bias. [`LOOKS_MIN`] looks under the mutex with no change between them make
//! it biased, the next change makes it unbiased. So a lock that is mostly changed is a mutex and
//! one more load, and what a change costs extra is paid once in that many looks.
//!
//! [`Biased::lock_to_read`] is for who wants to look without a slot: it takes the mutex and nothing
//! else, which keeps out all but those who look in place, and they do no harm to each other.
//!
//! # Why nobody looks at what is being changed
//!
//! Only who has the mutex sets or clears the bias, so that each who locks knows what it is. Let T
//! be a reader's second look at the bias, which found it set, and let W lock.
//!
//! * If T read what was set *after* W (by somebody who had the mutex after W): the bias is set with
//!   release and T acquires, so all that W did happens before the look.
//! * Otherwise T read what was set *before* W. Since then it was cleared, by W or by one who had
//!   the mutex before W; take the last of them, C, who did not give up, since the bias stayed
//!   cleared. T precedes C's clearing in the order of that word's changes. The slot's change and
//!   T, and C's clearing and its look at the slot, are sequentially consistent, so in their one
//!   order slot's change < T < C's clearing < C's look at the slot. Thus C saw the slot name the
//!   lock, or what the thread wrote there afterwards; it went on only in the second case.
//!   Whatever the thread writes to its slot afterwards it writes with release (and so does the
//!   next thread that gets the slot, which acquired it from this one), and C's look acquires: the
//!   look happens before all that C did from then on, and so before W.
//!
//! So every look is ordered with every change as by a mutex, and what was concluded from the mutex
//! still holds (the scheduled clear, the point in time of a snapshot). What is new is that looks
//! are not ordered with one another: what a look changes must be atomic.
//!
//! [`MARK`] tells how many slots there are to look at. A thread raises it before it uses its slot,
//! also sequentially consistent: who clears the bias and then reads a mark that is too low did both
//! before the mark was raised, hence before T, which would have found the bias cleared.
//!
//! Who only tries to lock does not wait long for a look to end. Where it gives up, it sets the bias
//! again before it gives the mutex back, since otherwise the next to lock would not look for
//! readers.
//!
//! No fences: ThreadSanitizer does not know them.
//!
//! # What it costs
//!
//! A look: one atomic exchange, on a line that stays in the thread's cache (a mutex: two, on the
//! shard's). A change of an unbiased lock: one load. A change of a biased one: an exchange, and a
//! load for each thread that ever looked in place at the same time as others. Memory: 8 KB for the
//! process.

use std::cell::{Cell, UnsafeCell};
use std::hint;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::thread;

use parking_lot::{Mutex, MutexGuard};

/// Threads that can look in place; the others look under the mutex.
const SLOTS: usize = 64;
/// Looks under the mutex, no change between them, that make a lock biased.
const LOOKS_MIN: u8 = 16;
/// Looks at a slot before the thread that waits for it lets others run.
const SPINS: u32 = 100;
/// Times that who tries to lock lets others run before it gives up.
const YIELDS_TRIED: u32 = 2;

/// What one thread reads. Two lines, since processors fetch them in pairs.
#[repr(align(128))]
struct ReaderSlot {
    /// The address of the lock that the owner is reading, 0 for none.
    reading: AtomicUsize,
    /// Whether a thread owns the slot.
    owned: AtomicBool,
}

static ALL: [ReaderSlot; SLOTS] =
    [const { ReaderSlot { reading: AtomicUsize::new(0), owned: AtomicBool::new(false) } }; SLOTS];

/// Slots from this one on were never owned.
static MARK: AtomicUsize = AtomicUsize::new(0);

/// This thread's slot.
#[derive(Clone, Copy)]
enum Own {
    /// Not asked for yet.
    Unknown,
    /// There was none left.
    None,
    ReaderSlot(&'static ReaderSlot),
}

/// Gives the slot back when the thread ends.
struct Owner(Cell<Own>);

thread_local! {
    static OWNER: Owner = const { Owner(Cell::new(Own::Unknown)) };
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Own::ReaderSlot(slot) = self.0.replace(Own::None) {
            // Release: what the thread did with the slot happens before what its next owner does.
            slot.owned.store(false, Release);
        }
    }
}

impl ReaderSlot {
    /// This thread's slot, if it has one that names no lock.
    #[inline]
    fn free() -> Option<&'static ReaderSlot> {
        // An error means that the thread is ending.
        let slot = OWNER.try_with(Owner::slot).ok()??;
        // Not free: the caller looks from within a look at another table.
        (slot.reading.load(Relaxed) == 0).then_some(slot)
    }

    /// A slot that nobody owns becomes the caller's.
    #[cold]
    fn claim() -> Own {
        for (number, slot) in ALL.iter().enumerate() {
            if !slot.owned.load(Relaxed) && !slot.owned.swap(true, Acquire) {
                MARK.fetch_max(number + 1, SeqCst);
                return Own::ReaderSlot(slot);
            }
        }
        Own::None
    }
}

impl Owner {
    #[inline]
    fn slot(&self) -> Option<&'static ReaderSlot> {
        if let Own::Unknown = self.0.get() {
            self.0.set(ReaderSlot::claim());
        }
        match self.0.get() {
            Own::ReaderSlot(slot) => Some(slot),
            _ => None,
        }
    }
}

/// A slot that names a lock, until this is dropped (also when the look panics).
struct Looking(&'static ReaderSlot);

impl Drop for Looking {
    #[inline]
    fn drop(&mut self) {
        // Release: the look happens before whatever is done by who sees the slot free.
        self.0.reading.store(0, Release);
    }
}

/// A lock over a `T`, see above.
pub(crate) struct Biased<T> {
    mutex: Mutex<()>,
    /// Whether threads may look in place. Changed by who has the mutex.
    biased: AtomicBool,
    /// Looks under the mutex since the last change. Changed by who has the mutex.
    looks: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread that changes it (`T: Send`) or by several that look
// (`T: Sync`), never both at a time: see above.
unsafe impl<T: Send + Sync> Sync for Biased<T> {}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Biased<T> {
        Biased {
            mutex: Mutex::new(()),
            biased: AtomicBool::new(false),
            looks: AtomicU8::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Looks without writing to the lock, where it is biased. Other looks may be going on. `look`
    /// must not use the lock.
    #[inline]
    pub(crate) fn read_in_place<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        if self.biased.load(Relaxed)
            && let Some(slot) = ReaderSlot::free()
        {
            slot.reading.swap(self.address(), SeqCst);
            let looking = Looking(slot);
            if self.biased.load(SeqCst) {
                // SAFETY: who changes the value clears the bias and then waits until the slot does
                // not name this lock, which it does until `looking` drops: see above.
                let result = look(unsafe { &*self.value.get() });
                drop(looking);
                return result;
            }
        }
        self.read_locked(look)
    }

    fn read_locked<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let value = self.lock_to_read();
        // No bias for the sake of a thread that can make no use of it.
        if !self.biased.load(Relaxed) && ReaderSlot::free().is_some() {
            let looks = self.looks.load(Relaxed) + 1;
            if looks < LOOKS_MIN {
                self.looks.store(looks, Relaxed);
            } else {
                self.looks.store(0, Relaxed);
                self.set_biased();
            }
        }
        look(&value)
    }

    /// Locks; nobody else looks or changes anything meanwhile.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let mutex = self.mutex.lock();
        if self.biased.load(Relaxed) {
            self.clear_bias(u32::MAX);
        } else {
            self.looks.store(0, Relaxed);
        }
        Locked::new(self, mutex)
    }

    /// Locks, unless another has the lock or a look takes long.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, T>> {
        let mutex = self.mutex.try_lock()?;
        if self.biased.load(Relaxed) && !self.clear_bias(YIELDS_TRIED) {
            self.set_biased();
            return None;
        }
        self.looks.store(0, Relaxed);
        Some(Locked::new(self, mutex))
    }

    /// Locks to look only: others may look in place meanwhile, but nobody changes anything.
    #[inline]
    pub(crate) fn lock_to_read(&self) -> LockedToRead<'_, T> {
        LockedToRead { lock: self, _mutex: self.mutex.lock() }
    }

    /// Like [`Biased::lock_to_read`], unless another has the lock.
    #[inline]
    pub(crate) fn try_lock_to_read(&self) -> Option<LockedToRead<'_, T>> {
        Some(LockedToRead { lock: self, _mutex: self.mutex.try_lock()? })
    }

    /// Lets threads look in place. The caller has the mutex.
    fn set_biased(&self) {
        // Release: what was changed before happens before their looks.
        self.biased.store(true, Release);
    }

    /// Lets nobody look in place any more, and waits until nobody does; false if it gave up. The
    /// caller has the mutex.
    #[cold]
    fn clear_bias(&self, yields_max: u32) -> bool {
        self.biased.swap(false, SeqCst);
        let address = self.address();
        let mut yields = 0;
        for slot in &ALL[..MARK.load(SeqCst)] {
            let mut spins = 0;
            while slot.reading.load(SeqCst) == address {
                if spins < SPINS {
                    spins += 1;
                    hint::spin_loop();
                } else if yields == yields_max && yields_max != u32::MAX {
                    return false;
                } else {
                    yields = yields.saturating_add(1);
                    thread::yield_now();
                }
            }
        }
        true
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// A locked value, to be changed.
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
        // SAFETY: we have the mutex, so nobody else changes the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we have the mutex and waited for the looks in place to end, and no other begins
        // before the mutex is gone, since only who has it sets the bias. `&mut self` keeps our own
        // apart.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// A locked value, to be looked at.
pub(crate) struct LockedToRead<'a, T> {
    lock: &'a Biased<T>,
    _mutex: MutexGuard<'a, ()>,
}

impl<T> Deref for LockedToRead<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we have the mutex, so nobody changes the value.
        unsafe { &*self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Slots are the process's; one test takes them all.
    static TURN: Mutex<()> = Mutex::new(());

    /// A biased lock.
    fn biased<T>(value: T) -> Biased<T> {
        let lock = Biased::new(value);
        (0..LOOKS_MIN).for_each(|_| lock.read_in_place(|_| ()));
        assert!(lock.biased.load(SeqCst));
        lock
    }

    #[test]
    fn changes_end_the_bias_and_looks_bring_it_back() {
        let _turn = TURN.lock();
        let lock = biased(1);
        *lock.lock() += 1;
        assert!(!lock.biased.load(SeqCst));
        for _ in 1..LOOKS_MIN {
            assert_eq!(lock.read_in_place(|value| *value), 2);
        }
        drop(lock.lock());
        for _ in 1..LOOKS_MIN {
            lock.read_in_place(|_| ());
        }
        assert!(!lock.biased.load(SeqCst), "counted from the last change on");
        lock.read_in_place(|_| ());
        assert!(lock.biased.load(SeqCst));
        drop(lock.lock_to_read());
        assert!(lock.biased.load(SeqCst));
    }

    #[test]
    fn looks_do_not_exclude_each_other_even_within_each_other() {
        let _turn = TURN.lock();
        let (lock, other) = (biased(1), biased(2));
        lock.read_in_place(|one| {
            other.read_in_place(|two| assert_eq!((*one, *two), (1, 2)));
            // The inner look has taken nothing away from the outer one.
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock_to_read().is_some());
            assert!(other.try_lock().is_some());
        });
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_look_that_panics_ends() {
        let _turn = TURN.lock();
        let lock = biased(());
        let panicked = catch_unwind(AssertUnwindSafe(|| lock.read_in_place(|()| panic!("look"))));
        assert!(panicked.is_err());
        drop(lock.lock());
    }

    #[test]
    fn who_locks_waits_for_looks_also_after_another_gave_up() {
        let _turn = TURN.lock();
        let lock = &biased(0);
        let (looks, begun) = mpsc::channel();
        let (end, ending) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                lock.read_in_place(|value| {
                    looks.send(()).expect("somebody waits");
                    ending.recv().expect("somebody ends it");
                    assert_eq!(*value, 0);
                });
            });
            begun.recv().expect("a look");
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock().is_none());
            let writer = scope.spawn(|| *lock.lock() = 1);
            thread::sleep(Duration::from_millis(20));
            assert!(!writer.is_finished());
            end.send(()).expect("a look");
        });
        assert_eq!(lock.read_in_place(|value| *value), 1);
    }

    #[test]
    fn more_threads_than_slots_can_look_at_once() {
        let _turn = TURN.lock();
        let lock = &biased([7; 4]);
        for _ in 0..if cfg!(miri) { 1 } else { 3 } {
            // Slots given back are owned again, so the last ones always find none.
            let threads = SLOTS + 6;
            let all = &Barrier::new(threads);
            thread::scope(|scope| {
                let look = || {
                    for _ in 0..3 {
                        assert_eq!(lock.read_in_place(|value| *value), [7; 4]);
                    }
                    all.wait();
                    lock.lock().fill(7);
                };
                let all: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
                // The scope alone does not wait until the slots are given back.
                all.into_iter().for_each(|thread| thread.join().expect("no panic"));
            });
        }
        assert_eq!(MARK.load(SeqCst), SLOTS);
        assert!(ReaderSlot::free().is_some(), "all were given back");
    }

    /// Short, for Miri with many seeds: weak memory shows itself by chance.
    #[test]
    fn no_look_sees_a_change_half_made() {
        let _turn = TURN.lock();
        let lock = &biased([0u64; 2]);
        let rounds = if cfg!(miri) { 3 } else { 20_000 };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..rounds * (usize::from(LOOKS_MIN) + 2) {
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
