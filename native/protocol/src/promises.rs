//! Promises of a member to its guests: changes of keys that their clients have read are reported.
//!
//! The table is that of clients ([`TrackingTable`]), with guests as the trackers: a visit registers
//! a key for its guest before it reads, and an observer of the durable databases takes the
//! registrations at the change. A key costs one registration, however many clients of the guest
//! have read it; the guest knows who they are. A guest has a queue of changes, which its process
//! here empties. Beyond [`WAITING_BYTES_MAX`] the queue says that any key may have changed.
//!
//! A change by a submission which itself reads tracked keys leaves the registration in place: the
//! submission may have read the key after it, and the guest knows what it has asked for. The
//! numbers of the tickets of such submissions are odd ([`ticket_number`]).
//!
//! While no guest tracks keys, nothing is observed.

use crate::tracking::{Tracker, TrackingTable};
use crate::watching::Watching;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use todana_command::Databases;
use todana_command::cause::{self, Writer};
use todana_group::parcel::{self, Change};
use todana_table::{Event, Observer};

/// Most keys that are registered, of all guests.
const KEYS_MAX: usize = 1_000_000;

/// Most bytes of changes that wait for the process of a guest.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of a change beside its key.
const CHANGE_BYTES: usize = 64;

/// A number for the ticket of a submission, greater than the last one. Odd if it reads tracked
/// keys.
pub(crate) fn ticket_number(last: u64, is_tracked: bool) -> u64 {
    ((last | 1) + 1) | u64::from(is_tracked)
}

/// The promises of a node.
pub struct Promises {
    databases: Arc<Databases>,
    table: TrackingTable,
    keys_max: usize,
    watching: Watching,
    /// One guest after the other begins or ends.
    joining: Mutex<()>,
    /// The queues of the guests that track keys, by their places.
    queues: RwLock<HashMap<(u32, u32), Arc<Queue>>>,
}

/// The promises to one guest. They end when this is dropped.
pub struct Promise {
    promises: Arc<Promises>,
    tracker: Tracker,
    queue: Arc<Queue>,
    prefixes: BTreeSet<Arc<[u8]>>,
    /// Whether the guest tracks keys.
    is_kept: bool,
}

/// The changes that wait for the process of a guest.
struct Queue {
    wake: Box<dyn Fn() + Send + Sync>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The keys, with the tickets of those writes that are the guest's own.
    changes: Vec<(Arc<[u8]>, Option<u64>)>,
    bytes: usize,
    /// Whether any key may have changed.
    is_all: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, key: Arc<[u8]>, ticket: Option<u64>) {
        self.add(|waiting| {
            waiting.bytes += key.len() + CHANGE_BYTES;
            waiting.changes.push((key, ticket));
        });
    }

    fn push_all(&self) {
        self.add(|waiting| waiting.bytes = usize::MAX);
    }

    fn add(&self, add: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting();
        if waiting.is_all {
            return;
        }
        let was_empty = waiting.changes.is_empty();
        add(&mut waiting);
        if waiting.bytes > WAITING_BYTES_MAX {
            *waiting = Waiting { is_all: true, ..Waiting::default() };
        }
        drop(waiting);
        if was_empty {
            (self.wake)();
        }
    }
}

impl Promises {
    /// Those of a node with these databases.
    pub fn new(databases: Arc<Databases>) -> Arc<Promises> {
        Promises::of_keys(databases, KEYS_MAX)
    }

    /// The same, with at most this number of keys.
    pub(crate) fn of_keys(databases: Arc<Databases>, keys_max: usize) -> Arc<Promises> {
        Arc::new_cyclic(|myself: &Weak<Promises>| {
            let (promises, all) = (myself.clone(), databases.clone());
            let make = move |number| {
                let watcher = Watcher(promises.clone());
                all.is_durable(number).then(|| Arc::new(watcher) as Arc<dyn Observer>)
            };
            Promises {
                watching: Watching::new(databases.clone(), Box::new(make)),
                databases,
                table: TrackingTable::default(),
                keys_max,
                joining: Mutex::default(),
                queues: RwLock::default(),
            }
        })
    }

    /// Whether they are about these databases.
    pub fn are_of(&self, databases: &Arc<Databases>) -> bool {
        Arc::ptr_eq(&self.databases, databases)
    }

    /// Keys, and pairs of a key and a guest, and prefixes.
    pub fn counts(&self) -> [u64; 3] {
        self.table.counts()
    }

    /// For a guest, whose submissions have tickets of this place. `wake` is called when there are
    /// changes to take ([`Visits::take_changes`](crate::Visits::take_changes)), by a thread that
    /// holds locks of the databases.
    pub fn join(
        self: &Arc<Promises>,
        place: (u32, u32),
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Promise {
        Promise {
            promises: Arc::clone(self),
            tracker: Tracker { place, id: 0 },
            queue: Arc::new(Queue { wake, waiting: Mutex::default() }),
            prefixes: BTreeSet::new(),
            is_kept: false,
        }
    }

    fn queues(&self) -> RwLockReadGuard<'_, HashMap<(u32, u32), Arc<Queue>>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues_mut(&self) -> RwLockWriteGuard<'_, HashMap<(u32, u32), Arc<Queue>>> {
        self.queues.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn joining(&self) -> MutexGuard<'_, ()> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, event: &Event<'_>) {
        if event.kind.concerns_all() {
            return self.queues().values().for_each(|queue| queue.push_all());
        }
        let writer = cause::writer();
        let kept = match writer {
            Writer::Ticket { place, number } if number % 2 == 1 => Some(Tracker { place, id: 0 }),
            _ => None,
        };
        let trackers = self.table.concerned(event.key, writer, kept);
        if !trackers.is_empty() {
            self.send(event.key.into(), &trackers, writer);
        }
    }

    fn send(&self, key: Arc<[u8]>, trackers: &[Tracker], writer: Writer) {
        let queues = self.queues();
        for tracker in trackers {
            let ticket = match writer {
                Writer::Ticket { number, .. } if tracker.is(writer) => Some(number),
                _ => None,
            };
            // A guest that has left is still registered.
            if let Some(queue) = queues.get(&tracker.place) {
                queue.push(key.clone(), ticket);
            }
        }
    }
}

impl fmt::Debug for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promises").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The observer of one database.
struct Watcher(Weak<Promises>);

impl Observer for Watcher {
    fn observe(&self, event: &Event<'_>) {
        if let Some(promises) = self.0.upgrade() {
            promises.note(event);
        }
    }
}

impl Promise {
    /// The guest's tickets have this place.
    pub(crate) fn place(&self) -> (u32, u32) {
        self.tracker.place
    }

    /// Registers a key that the guest is about to read.
    pub(crate) fn track(&mut self, key: &[u8]) {
        if !self.begin() {
            // Nobody would notice a change.
            return self.queue.push(key.into(), None);
        }
        let promises = &self.promises;
        for (key, trackers) in promises.table.track(key, self.tracker, promises.keys_max) {
            promises.send(key, &trackers, Writer::Unknown);
        }
    }

    /// The guest wants to learn of all changes of keys with this prefix.
    pub(crate) fn add_prefix(&mut self, prefix: &[u8]) {
        let prefix: Arc<[u8]> = prefix.into();
        self.prefixes.insert(prefix.clone());
        match self.begin() {
            true => self.promises.table.add_prefix(&prefix, self.tracker),
            false => self.queue.push_all(),
        }
    }

    /// While nobody notices changes of keys with the guest's prefixes, any of them may have
    /// changed. To be called about once a second.
    pub(crate) fn renew(&mut self) {
        if !self.is_kept && !self.prefixes.is_empty() {
            self.begin();
            self.queue.push_all();
        }
    }

    /// No longer.
    pub(crate) fn remove_prefix(&mut self, prefix: &[u8]) {
        self.promises.table.remove_prefix(prefix, self.tracker);
        self.prefixes.remove(prefix);
    }

    /// Whether changes are observed, from now on if they were not before.
    fn begin(&mut self) -> bool {
        if !self.is_kept {
            let _turn = self.promises.joining();
            self.promises.queues_mut().insert(self.place(), self.queue.clone());
            self.is_kept = self.promises.watching.begin();
            match self.is_kept {
                true => {
                    let table = &self.promises.table;
                    self.prefixes.iter().for_each(|it| table.add_prefix(it, self.tracker));
                }
                false => drop(self.promises.queues_mut().remove(&self.place())),
            }
        }
        self.is_kept
    }

    /// The guest tracks nothing any more.
    pub(crate) fn end(&mut self) {
        let prefixes = std::mem::take(&mut self.prefixes);
        if !std::mem::take(&mut self.is_kept) {
            return;
        }
        let Promise { promises, tracker, .. } = self;
        for prefix in prefixes {
            promises.table.remove_prefix(&prefix, *tracker);
        }
        let _turn = promises.joining();
        promises.queues_mut().remove(&tracker.place);
        let is_last = promises.queues().is_empty();
        promises.watching.end();
        if is_last {
            let all = promises.table.take_all();
            // The memory of many keys takes long to free, and this may be a scheduler.
            let _ = std::thread::Builder::new().spawn(move || drop(all));
        }
    }

    /// Takes the changes that wait, as the guest gets them. `number_of` is its number of the
    /// submission with a ticket.
    pub(crate) fn take_changes(
        &mut self,
        out: &mut Vec<u8>,
        number_of: impl Fn(u64) -> Option<u64>,
    ) {
        let waiting = std::mem::take(&mut *self.queue.waiting());
        if waiting.is_all {
            return parcel::put_change(out, Change::All);
        }
        for (key, ticket) in &waiting.changes {
            let by = ticket.and_then(&number_of);
            parcel::put_change(out, Change::Key { key, by });
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("is_kept", &self.is_kept).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use todana_command::DATABASES;
    use todana_table::{Keyspace, LockedKey, Meta, OBSERVERS_MAX, Options, Table};

    /// The first tickets of submissions that do and do not read tracked keys.
    const TRACKED: u64 = 3;
    const PLAIN: u64 = 2;

    /// A guest, and how often its process was woken.
    struct Guest {
        promise: Promise,
        woken: Arc<AtomicUsize>,
    }

    impl Guest {
        fn of(promises: &Arc<Promises>, number: u32) -> Guest {
            let woken = Arc::new(AtomicUsize::new(0));
            let counted = woken.clone();
            let wake = Box::new(move || {
                counted.fetch_add(1, Relaxed);
            });
            Guest { promise: promises.join((9, number), wake), woken }
        }

        /// The changes: keys with the ticket of its own submission that has made them, or `*`.
        fn changes(&mut self) -> Vec<String> {
            let mut bytes = Vec::new();
            self.promise.take_changes(&mut bytes, Some);
            let changes = parcel::changes(&bytes).map(|change| match change {
                Change::Key { key, by } => {
                    let by = by.map_or(String::new(), |by| format!(" by {by}"));
                    String::from_utf8(key.to_vec()).unwrap() + &by
                }
                Change::All => "*".to_string(),
            });
            changes.collect()
        }

        /// As which its submission of this ticket writes.
        fn writer(&self, number: u64) -> Writer {
            Writer::Ticket { place: self.promise.place(), number }
        }
    }

    /// The last one is in memory.
    fn databases() -> Arc<Databases> {
        let table = |number| {
            let durable = number < DATABASES - 1;
            Arc::new(Table::new(Options { shards: Some(16), durable, ..Options::default() }))
        };
        Arc::new(Databases::new(std::array::from_fn(table)))
    }

    fn write(databases: &Databases, number: usize, key: &str, writer: Writer) {
        cause::note_writer(writer);
        let put = |locked: &mut LockedKey<'_>| locked.put(&[], Meta::default()).map(drop);
        databases.table(number).update(key.as_bytes(), 1, put).expect("room");
        cause::note_writer(Writer::Unknown);
    }

    #[test]
    fn a_change_is_reported_to_those_that_have_read() {
        let databases = databases();
        let promises = Promises::new(databases.clone());
        let [mut one, mut other] = [1, 2].map(|number| Guest::of(&promises, number));
        let write = |number, key| write(&databases, number, key, Writer::Unknown);
        write(0, "a");
        one.promise.track(b"a");
        one.promise.track(b"a");
        other.promise.track(b"a");
        other.promise.track(b"b");
        assert_eq!(promises.counts(), [2, 3, 0]);
        write(DATABASES - 1, "a");
        assert_eq!((one.changes(), one.woken.load(Relaxed)), (vec![], 0));
        write(3, "a");
        write(3, "a");
        assert_eq!((one.changes(), one.woken.load(Relaxed)), (vec!["a".to_string()], 1));
        write(3, "b");
        assert_eq!((other.changes(), other.woken.load(Relaxed)), (vec!["a".into(), "b".into()], 1));
        assert_eq!((one.changes(), other.changes(), promises.counts()), (vec![], vec![], [0; 3]));
    }

    #[test]
    fn a_guest_learns_which_writes_are_its_own() {
        let databases = databases();
        let promises = Promises::new(databases.clone());
        let [mut one, mut other] = [1, 2].map(|number| Guest::of(&promises, number));
        for guest in [&mut one, &mut other] {
            guest.promise.track(b"a");
        }
        write(&databases, 0, "a", one.writer(PLAIN));
        assert_eq!(
            (one.changes(), other.changes()),
            (vec!["a by 2".to_string()], vec!["a".into()])
        );
        write(&databases, 0, "a", one.writer(PLAIN));
        assert_eq!((one.changes(), other.changes()), (vec![], vec![]));
        // One that reads the key, perhaps after it has written: another's later write is news.
        one.promise.track(b"a");
        write(&databases, 0, "a", one.writer(TRACKED));
        write(&databases, 0, "a", other.writer(PLAIN));
        write(&databases, 0, "a", other.writer(PLAIN));
        assert_eq!(one.changes(), ["a by 3", "a"]);
        // It is not kept for one that has not read the key.
        write(&databases, 0, "a", other.writer(TRACKED));
        assert_eq!((other.changes(), promises.counts()), (vec![], [0; 3]));
        assert_eq!([0, 2, 3, 6].map(|last| ticket_number(last, false)), [2, 4, 4, 8]);
        assert_eq!([0, 2, 3, 6].map(|last| ticket_number(last, true)), [3, 5, 5, 9]);
    }

    #[test]
    fn a_guest_forgets_everything_when_it_must() {
        let databases = databases();
        let promises = Promises::of_keys(databases.clone(), 3);
        let mut guest = Guest::of(&promises, 1);
        guest.promise.track(b"a");
        databases.swap(0, 1);
        assert_eq!(guest.changes(), ["*"]);
        write(&databases, 7, "z", Writer::Unknown);
        databases.table(7).clear();
        write(&databases, 0, "a", Writer::Unknown);
        assert_eq!((guest.changes(), guest.woken.load(Relaxed)), (vec!["*".to_string()], 2));
        // More keys than there may be: the one that is forgotten is reported.
        for key in ["a", "b", "c", "d"] {
            guest.promise.track(key.as_bytes());
        }
        let changes = guest.changes();
        assert!(changes.len() == 1 && ["a", "b", "c", "d"].contains(&&changes[0][..]));
        assert_eq!(promises.counts(), [3, 3, 0]);
        // More changes than may wait.
        let long = "k".repeat(WAITING_BYTES_MAX / 4);
        for number in 0..4 {
            let key = format!("{number}{long}");
            guest.promise.add_prefix(&key.as_bytes()[..1]);
            write(&databases, 0, &key, Writer::Unknown);
        }
        write(&databases, 0, "0", Writer::Unknown);
        assert_eq!(guest.changes(), ["*"]);
        write(&databases, 0, "1", Writer::Unknown);
        assert_eq!(guest.changes(), ["1"]);
    }

    #[test]
    fn nothing_is_observed_without_a_guest_that_tracks() {
        let databases = databases();
        let promises = Promises::new(databases.clone());
        let [mut one, mut other] = [1, 2].map(|number| Guest::of(&promises, number));
        one.promise.add_prefix(b"a");
        one.promise.add_prefix(b"b");
        one.promise.remove_prefix(b"b");
        other.promise.track(b"a");
        for key in ["ab", "b", "a"] {
            write(&databases, 0, key, Writer::Unknown);
        }
        assert_eq!(
            (one.changes(), other.changes()),
            (vec!["ab".into(), "a".into()], vec!["a".to_string()])
        );
        other.promise.track(b"c");
        one.promise.end();
        write(&databases, 0, "ab", Writer::Unknown);
        assert_eq!((one.changes(), promises.counts()), (vec![], [1, 1, 0]));
        drop(other);
        assert_eq!(promises.counts(), [0; 3]);
        // As many observers as there may be: if one was left, this would not end well.
        struct Nobody;
        impl Observer for Nobody {
            fn observe(&self, _event: &Event<'_>) {}
        }
        let nobody: Vec<Arc<dyn Observer>> =
            (0..OBSERVERS_MAX).map(|_| Arc::new(Nobody) as Arc<dyn Observer>).collect();
        for observer in &nobody {
            databases.observe(0, observer.clone()).expect("room");
        }
        // None is left for the guest, so what it reads counts as changed.
        one.promise.track(b"x");
        assert_eq!(one.changes(), ["x"]);
        one.promise.add_prefix(b"x");
        assert_eq!((one.changes(), promises.counts()), (vec!["*".to_string()], [0; 3]));
        one.promise.renew();
        assert_eq!(one.changes(), ["*"]);
        // There is room again.
        databases.forget(&nobody[0]);
        one.promise.renew();
        assert_eq!((one.changes(), promises.counts()), (vec!["*".to_string()], [0, 0, 1]));
        write(&databases, 0, "x", Writer::Unknown);
        one.promise.renew();
        assert_eq!(one.changes(), ["x"]);
    }
}
