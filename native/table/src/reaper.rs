//! The reaper: a background thread that frees large amounts of memory.
//!
//! Freeing a million entries takes a tenth of a second and more. No caller waits for that: code
//! that takes a whole index, the leaves of an order, very large entries, or what a snapshot kept
//! out of a table hands it to [`dispose`], which costs a push on a queue and is safe under a
//! shard's lock. Small garbage is freed on the spot, since handing it over would cost more.
//!
//! The process has one reaper thread, which starts with the first garbage. It frees one slice at a
//! time, without any lock, and yields the processor between slices, so that other threads run even
//! if they outnumber the processors.
//!
//! [`stop`] ends the thread, before the code may be unloaded. Garbage queued at that time stays
//! queued until [`start`]; in between, [`dispose`] frees on the spot. A start does not wait for the
//! previous thread: each thread knows how many stops preceded it, and ends when there is another,
//! however soon the reaper is started again.
//!
//! The queue has no limit, since entries are freed faster than they are created.
//! [`pending_entries`] reports the length of the queue.

use std::collections::VecDeque;
use std::iter;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hashbrown::{HashTable, hash_table};
use parking_lot::{Condvar, Mutex};

use crate::entry::EntryBox;
use crate::malloc;
use crate::ordered::Leaves;

/// Pieces (entries or leaves) that the thread frees before it yields.
const SLICE_PIECES: usize = 256;
/// Bytes that the thread frees before it yields earlier.
const SLICE_BYTES: usize = 4 * 1024 * 1024;
/// Garbage of up to this many pieces is freed on the spot, unless they are large.
const INLINE_PIECES_MAX: usize = if THREADLESS { usize::MAX } else { 256 };
/// Garbage of more bytes than this is handed over, however few pieces there are.
pub(crate) const INLINE_BYTES_MAX: usize = if THREADLESS { usize::MAX } else { 1024 * 1024 };
/// Miri reports threads that are alive at process exit as an error. The unit tests end theirs.
const THREADLESS: bool = cfg!(miri) && !cfg!(test);

/// Something that may take long to free.
pub(crate) enum Garbage {
    /// Entries that were in the index of a shard.
    Index(HashTable<EntryBox>),
    /// The rest of such an index.
    Rest(hash_table::IntoIter<EntryBox>),
    /// Entries that were removed one by one.
    Entries(Vec<EntryBox>),
    /// The keys of an ordered table.
    Leaves(Leaves),
    /// Pages that are free already, but not given back to the system.
    FreePages,
}

impl From<HashTable<EntryBox>> for Garbage {
    fn from(index: HashTable<EntryBox>) -> Garbage {
        Garbage::Index(index)
    }
}

impl From<hash_table::IntoIter<EntryBox>> for Garbage {
    fn from(rest: hash_table::IntoIter<EntryBox>) -> Garbage {
        Garbage::Rest(rest)
    }
}

impl From<Vec<EntryBox>> for Garbage {
    fn from(entries: Vec<EntryBox>) -> Garbage {
        Garbage::Entries(entries)
    }
}

impl From<Leaves> for Garbage {
    fn from(leaves: Leaves) -> Garbage {
        Garbage::Leaves(leaves)
    }
}

/// Garbage that is freed piece by piece: each step frees one and yields its size in bytes.
type Pieces = Box<dyn Iterator<Item = usize> + Send>;

impl Garbage {
    fn len(&self) -> usize {
        match self {
            Garbage::Index(index) => index.len(),
            Garbage::Rest(rest) => rest.len(),
            Garbage::Entries(entries) => entries.len(),
            Garbage::Leaves(leaves) => leaves.len(),
            Garbage::FreePages => 1,
        }
    }

    fn entry_bytes(&self) -> usize {
        let bytes = |entry: &EntryBox| entry.entry().bytes();
        match self {
            Garbage::Index(index) => index.iter().map(bytes).sum(),
            // The entries cannot be read without taking them out.
            Garbage::Rest(rest) => rest.len().saturating_mul(INLINE_BYTES_MAX),
            Garbage::Entries(entries) => entries.iter().map(bytes).sum(),
            Garbage::Leaves(_) => 0,
            // Never on the spot.
            Garbage::FreePages => usize::MAX,
        }
    }

    fn pieces(self) -> Pieces {
        let free = |entry: EntryBox| entry.entry().bytes();
        match self {
            Garbage::Index(index) => Box::new(index.into_iter().map(free)),
            Garbage::Rest(rest) => Box::new(rest.map(free)),
            Garbage::Entries(entries) => Box::new(entries.into_iter().map(free)),
            Garbage::Leaves(leaves) => Box::new(leaves.into_iter().map(|_| 0)),
            Garbage::FreePages => Box::new(iter::once_with(|| {
                let took = malloc::trim();
                *LAST_RELEASE.lock() = Some((Instant::now(), took));
                RELEASE_IS_QUEUED.store(false, Relaxed);
                0
            })),
        }
    }
}

/// Frees garbage, or hands it to the thread if that could take long. Takes no lock except the
/// queue's, which no thread holds for longer than a push.
#[inline]
pub(crate) fn dispose(garbage: impl Into<Garbage>) {
    let garbage = garbage.into();
    if garbage.len() > 0 {
        REAPER.dispose([garbage]);
    }
}

/// Like [`dispose`], for several pieces of garbage as one.
pub(crate) fn dispose_all<G: Into<Garbage>>(garbage: impl IntoIterator<Item = G>) {
    REAPER.dispose(garbage.into_iter().map(Into::into));
}

/// The reciprocal of the part of the time that releases may take which nobody has asked for.
pub const RELEASE_SHARE: u32 = 1_000;

/// Gives the free memory of the process back to the system, after the garbage that is queued.
/// Meanwhile other threads may wait for memory ([`malloc::trim`]), so it takes at most one part in
/// `share` of the time: if too little has passed since the last release, this does nothing. It also
/// does nothing if the thread is stopped, or if the C library is not glibc. Returns whether a
/// release is queued.
pub fn release_free_memory(share: u32) -> bool {
    let rests = |(ended, took): (Instant, Duration)| ended.elapsed() < rest(took, share);
    if LAST_RELEASE.lock().is_some_and(rests) {
        return false;
    }
    if !RELEASE_IS_QUEUED.swap(true, Relaxed) && !REAPER.dispose([Garbage::FreePages]) {
        RELEASE_IS_QUEUED.store(false, Relaxed);
        return false;
    }
    true
}

/// Entries (and leaves) waiting to be freed.
pub fn pending_entries() -> usize {
    REAPER.pending.load(Acquire)
}

/// Stops the thread after the slice that it is freeing. From now on, each thread frees its own
/// garbage; what is queued waits for [`start`].
pub fn stop() -> Stopped {
    REAPER.stop()
}

/// A reaper thread that was asked to end.
#[must_use = "join it before the code is unloaded"]
#[derive(Debug)]
pub struct Stopped(Option<JoinHandle<()>>);

impl Stopped {
    /// Waits until it has ended. The caller may be that thread itself, since freeing an entry may
    /// end the object that owned its pin: then the thread ends later.
    pub fn join(self) {
        if let Some(thread) = self.0
            && thread.thread().id() != thread::current().id()
        {
            // An error is a panic in the release of a pin, which was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Lets the thread run (again); a process begins in this state. Queued garbage is freed.
pub fn start() {
    REAPER.start();
}

static REAPER: Reaper = Reaper::new();

/// The time between two releases, the first of which took this much of a processor.
fn rest(took: Duration, share: u32) -> Duration {
    took.saturating_mul(share).max(RELEASE_REST_MIN)
}

/// The least time between two releases.
const RELEASE_REST_MIN: Duration = Duration::from_secs(1);

/// When the last release ended, and the processor time that it took.
static LAST_RELEASE: Mutex<Option<(Instant, Duration)>> = Mutex::new(None);

/// Whether [`Garbage::FreePages`] is in the queue, or freed now.
static RELEASE_IS_QUEUED: AtomicBool = AtomicBool::new(false);

struct Reaper {
    state: Mutex<State>,
    wake: Condvar,
    pending: AtomicUsize,
}

struct State {
    queue: VecDeque<Garbage>,
    /// What stopped threads had begun to free.
    begun: Vec<Pieces>,
    thread: Option<JoinHandle<()>>,
    stopped: bool,
    /// Number of stops.
    stops: u64,
}

impl Reaper {
    const fn new() -> Reaper {
        let state = State {
            queue: VecDeque::new(),
            begun: Vec::new(),
            thread: None,
            stopped: false,
            stops: 0,
        };
        Reaper { state: Mutex::new(state), wake: Condvar::new(), pending: AtomicUsize::new(0) }
    }

    /// Returns whether the thread frees the garbage.
    #[cold]
    fn dispose(&'static self, garbage: impl IntoIterator<Item = Garbage>) -> bool {
        let garbage = garbage.into_iter().filter(|garbage| garbage.len() > 0);
        let mut garbage: Vec<Garbage> = garbage.collect();
        let pieces: usize = garbage.iter().map(Garbage::len).sum();
        if pieces <= INLINE_PIECES_MAX {
            let bytes: usize = garbage.iter().map(Garbage::entry_bytes).sum();
            if bytes <= INLINE_BYTES_MAX {
                return false;
            }
        }
        {
            let mut state = self.state.lock();
            if self.runs(&mut state) {
                self.pending.fetch_add(pieces, Relaxed);
                state.queue.extend(garbage.drain(..));
                self.wake.notify_one();
                return true;
            }
        }
        // No thread: free it here.
        drop(garbage);
        false
    }

    fn start(&'static self) {
        let mut state = self.state.lock();
        state.stopped = false;
        if !state.queue.is_empty() || !state.begun.is_empty() {
            self.runs(&mut state);
        }
    }

    fn stop(&self) -> Stopped {
        let mut state = self.state.lock();
        state.stopped = true;
        state.stops += 1;
        self.wake.notify_all();
        Stopped(state.thread.take())
    }

    /// Ensures that the thread runs. False if it must not run, or cannot be started.
    fn runs(&'static self, state: &mut State) -> bool {
        if state.stopped {
            return false;
        }
        if state.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            let thread = thread::Builder::new().name("todana_reaper".into());
            let stops = state.stops;
            state.thread = thread.spawn(move || self.run(stops)).ok();
        }
        state.thread.is_some()
    }

    /// The body of the thread that was started after this many stops.
    fn run(&'static self, stops: u64) {
        let mut begun: Option<Pieces> = None;
        loop {
            let Some(mut pieces) = self.next(begun, stops) else { return };
            begun = self.free_slice(&mut pieces).then_some(pieces);
            thread::yield_now();
        }
    }

    /// Waits for the next garbage to free. `None` when the thread must end.
    fn next(&'static self, begun: Option<Pieces>, stops: u64) -> Option<Pieces> {
        let mut state = self.state.lock();
        let goes_on = state.stops == stops;
        if let Some(begun) = begun {
            if goes_on {
                return Some(begun);
            }
            state.begun.push(begun);
            // A later start may have found nothing to do.
            self.runs(&mut state);
            self.wake.notify_one();
        }
        loop {
            if state.stops != stops {
                return None;
            }
            if let Some(begun) = state.begun.pop() {
                return Some(begun);
            }
            if let Some(garbage) = state.queue.pop_front() {
                return Some(garbage.pieces());
            }
            self.wake.wait(&mut state);
        }
    }

    /// Frees some pieces. Returns whether there may be more.
    fn free_slice(&self, pieces: &mut Pieces) -> bool {
        let (mut freed, mut bytes) = (0, 0);
        while freed < SLICE_PIECES && bytes < SLICE_BYTES {
            let Some(piece_bytes) = pieces.next() else { break };
            (freed, bytes) = (freed + 1, bytes + piece_bytes);
        }
        // Release: a thread that sees nothing pending also sees what the entries' owners did.
        self.pending.fetch_sub(freed, Release);
        freed == SLICE_PIECES || bytes >= SLICE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use crate::meta::Meta;

    use super::*;

    fn entries(count: usize, value_bytes: usize) -> Vec<EntryBox> {
        let value = vec![1; value_bytes];
        let entry = || EntryBox::build(b"key", &[&value], &Meta::default()).expect("memory");
        iter::repeat_with(entry).take(count).collect()
    }

    #[test]
    fn releases_rest_for_a_second_and_in_proportion_to_the_last_one() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(1), 100), ms(1_000));
        assert_eq!(rest(ms(11), 100), ms(1_100));
        assert_eq!(rest(ms(200), 1_000), ms(200_000));
        assert_eq!(rest(Duration::MAX, u32::MAX), Duration::MAX);
    }

    /// A reaper, which stays in a list so that no leak is reported.
    fn reaper() -> &'static Reaper {
        static ALL: Mutex<Vec<&Reaper>> = Mutex::new(Vec::new());
        let reaper = Box::leak(Box::new(Reaper::new()));
        ALL.lock().push(reaper);
        reaper
    }

    fn has_thread(reaper: &Reaper) -> bool {
        reaper.state.lock().thread.is_some()
    }

    fn wait_until_idle(reaper: &Reaper) {
        while reaper.pending.load(Relaxed) > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn small_garbage_is_freed_on_the_spot() {
        let reaper = reaper();
        reaper.dispose([entries(INLINE_PIECES_MAX, 10).into()]);
        reaper.dispose([Garbage::from(Vec::new()), Garbage::from(HashTable::new())]);
        assert!(!has_thread(reaper));
    }

    #[test]
    fn many_entries_or_large_ones_are_freed_by_the_thread() {
        let reaper = reaper();
        let half = || Garbage::from(entries(INLINE_PIECES_MAX / 2 + 1, 10));
        reaper.dispose([half(), half()]);
        assert!(has_thread(reaper));
        reaper.dispose([entries(2, INLINE_BYTES_MAX / 2).into()]);
        wait_until_idle(reaper);
        reaper.stop().join();
        let state = reaper.state.lock();
        assert!(state.queue.is_empty() && state.begun.is_empty() && state.thread.is_none());
    }

    #[test]
    fn a_slice_is_bounded_by_pieces_and_by_bytes() {
        let reaper = reaper();
        let count = SLICE_PIECES * 2 + 1;
        reaper.pending.store(count + 3, Relaxed);
        let mut pieces = Garbage::from(entries(count, 10)).pieces();
        let mut left = count;
        while reaper.free_slice(&mut pieces) {
            left -= SLICE_PIECES;
            assert_eq!(reaper.pending.load(Relaxed), left + 3);
        }
        assert_eq!(reaper.pending.load(Relaxed), 3);
        let mut pieces = Garbage::from(entries(3, SLICE_BYTES / 2)).pieces();
        assert!(reaper.free_slice(&mut pieces));
        assert_eq!(reaper.pending.load(Relaxed), 1);
    }

    #[test]
    fn the_rest_of_a_stopped_thread_is_freed_after_the_next_start() {
        let reaper = reaper();
        reaper.state.lock().begun.push(Garbage::from(entries(1_000, 10)).pieces());
        reaper.state.lock().queue.push_back(entries(1_000, 10).into());
        reaper.pending.store(2_000, Relaxed);
        reaper.stop().join();
        reaper.dispose([entries(1_000, 10).into()]);
        assert!(!has_thread(reaper), "freed on the spot");
        assert_eq!(reaper.pending.load(Relaxed), 2_000);
        reaper.start();
        wait_until_idle(reaper);
        reaper.stop().join();
        reaper.stop().join();
        assert!(!has_thread(reaper));
    }

    #[test]
    fn a_stopped_thread_ends_even_if_the_reaper_restarts() {
        let reaper = reaper();
        // A thread that is busy while the reaper is stopped and restarted, and then continues.
        let begun = Garbage::from(entries(1_000, 10)).pieces();
        reaper.pending.store(1_000, Relaxed);
        drop(reaper.stop());
        reaper.start();
        assert!(!has_thread(reaper), "there was nothing to do");
        assert!(reaper.next(Some(begun), 0).is_none(), "the stopped thread ends");
        assert!(has_thread(reaper), "another thread frees the rest");
        wait_until_idle(reaper);
        reaper.stop().join();
        reaper.start();
        reaper.dispose([entries(1_000, 10).into()]);
        wait_until_idle(reaper);
        reaper.stop().join();
    }

    #[test]
    fn the_reaper_thread_may_stop_itself() {
        let reaper = reaper();
        let (done, is_done) = std::sync::mpsc::channel();
        let stop = iter::once_with(move || {
            reaper.stop().join();
            let _ = done.send(());
            0
        });
        reaper.pending.store(1, Relaxed);
        reaper.state.lock().begun.push(Box::new(stop));
        reaper.start();
        is_done.recv().expect("the thread did not wait for itself");
        wait_until_idle(reaper);
    }
}
