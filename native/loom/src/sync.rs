//! The names of `table/src/sync.rs`, implemented by loom.
//!
//! # Sequential consistency
//!
//! loom does not model sequentially consistent accesses: it takes them for acquiring and releasing
//! ones, and reports faults that do not exist. It does model sequentially consistent fences. So the
//! accesses need an encoding. There are two, each model runs with both, and neither is exactly the
//! language's rule:
//!
//! * [`Encoding::Fences`]: a store or exchange is followed by a fence; a load acquires, and may
//!   return an old value. (Compilers for x86 translate the accesses likewise.) This is too strong
//!   in one respect: a fence also orders all other accesses around it, and in loom everything
//!   before a fence happens before everything after a later fence.
//! * [`Encoding::Latest`]: no fences. Stores, and sequentially consistent loads, are exchanges, so
//!   that a load returns the latest value and the order of execution is the single total order.
//!   This is too strong in another respect: a load returns no older value even where the rule
//!   permits one, and a store is visible before a later load whatever its ordering is. Nothing
//!   happens before anything else because of it, except that an exchange in place of a store
//!   continues a release sequence.
//!
//! Only a fault that both hide can stay hidden. Beyond that, loom executes no store before an
//! earlier load of the same thread, which the language permits for relaxed accesses.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{self as real, Ordering};

pub(crate) use loom::hint::spin_loop;
use loom::sync as model;
pub(crate) use loom::sync::MutexGuard;
pub(crate) use loom::thread::yield_now;

pub(crate) const LOOM: bool = true;

/// What a sequentially consistent access is for loom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Encoding {
    Fences,
    Latest,
}

/// The encoding of this process.
pub(crate) static ENCODING: OnceLock<Encoding> = OnceLock::new();

fn latest() -> bool {
    ENCODING.get() == Some(&Encoding::Latest)
}

fn fence_after(ordering: Ordering) {
    if ordering == Ordering::SeqCst && !latest() {
        model::atomic::fence(Ordering::SeqCst);
    }
}

/// A load, store or exchange with less than sequential consistency.
fn weaker(ordering: Ordering, weaker: Ordering) -> Ordering {
    if ordering == Ordering::SeqCst { weaker } else { ordering }
}

macro_rules! atomics {
    ($($name:ident: $type:ty, $read:ident $neutral:literal;)*) => {$(
        pub(crate) struct $name(model::atomic::$name);

        #[allow(dead_code, reason = "not each type needs each method")]
        impl $name {
            pub(crate) fn new(value: $type) -> $name {
                $name(model::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, ordering: Ordering) -> $type {
                if ordering == Ordering::SeqCst && latest() {
                    return self.0.$read($neutral, Ordering::Acquire);
                }
                self.0.load(weaker(ordering, Ordering::Acquire))
            }

            pub(crate) fn store(&self, value: $type, ordering: Ordering) {
                if latest() {
                    // An exchange, since the exchanges that encode loads must not come between
                    // the latest value and this one.
                    self.0.swap(value, weaker(ordering, Ordering::Release));
                } else {
                    self.0.store(value, weaker(ordering, Ordering::Release));
                }
                fence_after(ordering);
            }

            pub(crate) fn swap(&self, value: $type, ordering: Ordering) -> $type {
                let before = self.0.swap(value, weaker(ordering, Ordering::AcqRel));
                fence_after(ordering);
                before
            }
        }
    )*};
}

atomics! {
    AtomicBool: bool, fetch_or false;
    AtomicU8: u8, fetch_add 0;
    AtomicUsize: usize, fetch_add 0;
}

impl AtomicUsize {
    pub(crate) fn fetch_max(&self, value: usize, ordering: Ordering) -> usize {
        let before = self.0.fetch_max(value, weaker(ordering, Ordering::AcqRel));
        fence_after(ordering);
        before
    }
}

/// A mutex with the interface of parking_lot.
pub(crate) struct Mutex<T>(model::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(model::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

/// Number of the execution. loom's atomics are valid in one execution.
static EXECUTION: real::AtomicUsize = real::AtomicUsize::new(0);

/// Starts an execution: statics get their first values again.
pub(crate) fn begin_execution() {
    EXECUTION.fetch_add(1, Ordering::Relaxed);
}

/// A static. Its value is created at the first use in an execution, which must happen before all
/// others, and lives until the next execution (thread locals refer to it when threads end).
pub(crate) struct Static<T> {
    create: fn() -> T,
    value: UnsafeCell<Option<(usize, Box<T>)>>,
}

// SAFETY: loom runs all threads of an execution on one thread of the system.
unsafe impl<T> Sync for Static<T> {}

impl<T> Static<T> {
    pub(crate) const fn new(create: fn() -> T) -> Static<T> {
        Static { create, value: UnsafeCell::new(None) }
    }
}

impl<T> Deref for Static<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let execution = EXECUTION.load(Ordering::Relaxed);
        // SAFETY: see above. Threads of earlier executions, which had references to the value, have
        // ended, and `create` does not use the static.
        unsafe {
            if (*self.value.get()).as_ref().is_none_or(|(of, _)| *of != execution) {
                *self.value.get() = Some((execution, Box::new((self.create)())));
            }
            &(*self.value.get()).as_ref().expect("was created").1
        }
    }
}

macro_rules! process_wide {
    ($(#[$about:meta])* static $name:ident: [$type:ty; $length:expr] = each $element:expr;) => {
        $(#[$about])*
        static $name: $crate::sync::Static<[$type; $length]> =
            $crate::sync::Static::new(|| std::array::from_fn(|_| $element));
    };
    ($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;) => {
        $(#[$about])*
        static $name: $crate::sync::Static<$type> = $crate::sync::Static::new(|| $value);
    };
}
pub(crate) use process_wide;

/// Unlike loom's, with the `const` of the standard library's.
macro_rules! constant_thread_local {
    (static $name:ident: $type:ty = const { $value:expr };) => {
        loom::thread_local! { static $name: $type = $value; }
    };
}
pub(crate) use constant_thread_local as thread_local;
