//! What [`crate::readers`] uses of the standard library and of parking_lot.
//!
//! `native/loom` compiles `readers.rs` beside a module with the same names, which loom implements.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
pub(crate) use std::thread::yield_now;
pub(crate) use std::thread_local;

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// Whether loom executes the code: then constants are small, since loom tries each interleaving.
pub(crate) const LOOM: bool = false;

/// A static, or a static array of which `each` gives an element. (The atomics of loom cannot be
/// created at compile time.)
macro_rules! process_wide {
    ($(#[$about:meta])* static $name:ident: [$type:ty; $length:expr] = each $element:expr;) => {
        $(#[$about])*
        static $name: [$type; $length] = [const { $element }; $length];
    };
    ($(#[$about:meta])* static $name:ident: $type:ty = $value:expr;) => {
        $(#[$about])*
        static $name: $type = $value;
    };
}
pub(crate) use process_wide;
