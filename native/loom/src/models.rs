//! The models: a few threads, a few reads and changes each.
//!
//! Each model begins with a biased lock ([`biased`]). The model's main thread then owns the first
//! of two announcements, and goes on as one of the readers and writers.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};

use crate::readers::Biased;

pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// loom tries executions with up to this many preemptions; `None` is all executions.
    pub(crate) preemptions_max: Option<usize>,
    pub(crate) run: fn(),
}

/// The quick ones first.
pub(crate) const MODELS: &[Model] = &[
    Model { name: "reader_beside_writer", preemptions_max: None, run: reader_beside_writer },
    Model {
        name: "first_read_beside_writer",
        preemptions_max: None,
        run: first_read_beside_writer,
    },
    Model { name: "read_inside_a_read", preemptions_max: None, run: read_inside_a_read },
    Model { name: "try_lock_gives_up", preemptions_max: None, run: try_lock_gives_up },
    Model { name: "bias_set_again", preemptions_max: None, run: bias_set_again },
    Model {
        name: "announcement_handed_over",
        preemptions_max: Some(4),
        run: announcement_handed_over,
    },
    Model {
        name: "more_threads_than_announcements",
        preemptions_max: Some(4),
        run: more_threads_than_announcements,
    },
    Model { name: "two_readers_beside_writer", preemptions_max: None, run: two_readers },
];

/// Two halves that always change together. loom reports an access to a half that is not ordered
/// with a change of it, whether or not the values show it.
struct Halves(UnsafeCell<u32>, UnsafeCell<u32>);

// SAFETY: loom checks each access.
unsafe impl Sync for Halves {}

impl Halves {
    fn read(&self) -> u32 {
        // SAFETY: loom checks that no other thread changes the halves.
        let (one, two) = unsafe { (self.0.with(|half| *half), self.1.with(|half| *half)) };
        assert_eq!(one, two, "a change in progress was read");
        one
    }

    fn change(&mut self) {
        for half in [&self.0, &self.1] {
            // SAFETY: loom checks that no other thread reads or changes the half.
            half.with_mut(|half| unsafe { *half += 1 });
        }
    }
}

type Lock = Arc<Biased<Halves>>;

/// A lock that was biased, cleared and biased again. This uses all statics before other threads
/// do, as loom demands.
fn biased() -> Lock {
    let lock = Arc::new(Biased::new(Halves(UnsafeCell::new(0), UnsafeCell::new(0))));
    read(&lock);
    drop(lock.lock());
    read(&lock);
    lock
}

fn read(lock: &Lock) -> u32 {
    lock.read_in_place(Halves::read)
}

fn change(lock: &Lock) {
    lock.lock().change();
}

fn spawn(lock: &Lock, act: fn(&Lock)) -> JoinHandle<()> {
    let lock = lock.clone();
    thread::spawn(move || act(&lock))
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Reads twice; a thread does not see an older value after a newer one.
fn read_twice(lock: &Lock) {
    let before = read(lock);
    assert!(read(lock) >= before);
}

/// All changes are there, however the lock is read.
fn assert_changes(lock: &Lock, changes: u32) {
    assert_eq!(read(lock), changes);
    assert_eq!(lock.lock_to_read().read(), changes);
}

fn reader_beside_writer() {
    let lock = biased();
    let writer = spawn(&lock, change);
    read_twice(&lock);
    join([writer]);
    assert_changes(&lock, 1);
}

/// The reader claims its announcement, and raises the mark, while the writer clears the bias.
fn first_read_beside_writer() {
    let lock = biased();
    let reader = spawn(&lock, read_twice);
    change(&lock);
    join([reader]);
    assert_changes(&lock, 1);
}

fn two_readers() {
    let lock = biased();
    let reader = spawn(&lock, |lock| _ = read(lock));
    let writer = spawn(&lock, change);
    read(&lock);
    join([reader, writer]);
    assert_changes(&lock, 1);
}

/// The writer's own read under the mutex makes the lock biased after its first change.
fn bias_set_again() {
    let lock = biased();
    let reader = spawn(&lock, read_twice);
    change(&lock);
    read(&lock);
    change(&lock);
    join([reader]);
    assert_changes(&lock, 2);
}

fn try_lock_gives_up() {
    let lock = biased();
    let trier = spawn(&lock, |lock| {
        if let Some(mut value) = lock.try_lock() {
            value.change();
        }
        if let Some(value) = lock.try_lock_to_read() {
            value.read();
        }
    });
    let writer = spawn(&lock, change);
    read(&lock);
    join([trier, writer]);
    assert!(matches!(read(&lock), 1 | 2));
}

/// The second reader claims the first one's announcement if that has ended, else another.
fn announcement_handed_over() {
    let lock = biased();
    let first = spawn(&lock, |lock| _ = read(lock));
    let second = spawn(&lock, |lock| _ = read(lock));
    change(&lock);
    join([first, second]);
    assert_changes(&lock, 1);
}

/// The inner read has no announcement of its own, and leaves the outer one's alone.
fn read_inside_a_read() {
    let (outer, inner) = (biased(), biased());
    let writer = spawn(&outer, change);
    outer.read_in_place(|value| {
        let before = value.read();
        read(&inner);
        assert_eq!(value.read(), before);
    });
    join([writer]);
    assert_changes(&outer, 1);
}

/// With three readers and two announcements, one reads under the mutex.
fn more_threads_than_announcements() {
    let lock = biased();
    let readers = [(); 2].map(|()| spawn(&lock, |lock| _ = read(lock)));
    read(&lock);
    change(&lock);
    join(readers);
    assert_changes(&lock, 1);
}
