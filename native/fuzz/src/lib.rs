//! Fuzz targets as plain functions that take bytes and panic if they find an error.
//!
//! The same functions run in two ways:
//!
//! ```text
//! make fuzz          coverage-guided, for as long as you like
//! make fuzz-smoke    all targets over their seeds and a fixed sequence of mutations
//! ```
//!
//! To add a target, write a function in this crate, add a line to [`TARGETS`], and, for libFuzzer,
//! a wrapper in `fuzz_targets/` with its `[[bin]]`. Its seeds are the files in `seeds/<name>/`;
//! without any, mutations start from an empty input.

mod entry;
mod kyoto;
mod logged;
mod memcached;
mod memcached_binary;
mod ordered;
mod resp;
mod scripts;
mod snapshot;
mod table;
mod tape;

pub use entry::entry;
pub use kyoto::kyoto;
pub use logged::logged;
pub use memcached::memcached;
pub use memcached_binary::memcached_binary;
pub use ordered::ordered;
pub use resp::resp;
pub use scripts::scripts;
pub use snapshot::snapshot;
pub use table::table;
pub use tape::tape;

/// One target: its name, and the function that takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("entry", entry),
    ("kyoto", kyoto),
    ("logged", logged),
    ("memcached", memcached),
    ("memcached_binary", memcached_binary),
    ("ordered", ordered),
    ("resp", resp),
    ("scripts", scripts),
    ("snapshot", snapshot),
    ("table", table),
    ("tape", tape),
];
