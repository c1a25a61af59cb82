//! The boundary between Erlang and the native table.
//!
//! Thin by intent: terms become a [`todana_command::Command`], its reply becomes terms. What a
//! command means is said in `todana_command`; how a record is kept in `todana_table`.
//!
//! # What lives how long
//!
//! Tables belong to the node. They are in a registry of this library (`tables`), which stays mapped
//! once it is loaded (`-z nodelete`), so no death of a process, not even a purge of the Erlang
//! module, loses a record; a restarted application finds its tables again. A table goes when it is
//! closed. Servers are native too and are registered (`server`): [`unload`] stops those that the
//! Erlang side has not stopped, and the table's reaper, so no thread of ours outlives our code.
//!
//! # Two ways to be called
//!
//! Most functions are rustler's. Its wrapper costs about 10 ns a call, a tenth of a read and of a
//! write, so `get` and `put` are plain NIFs: `point` has the figures. Both kinds turn a panic into
//! an Erlang exception.
//!
//! # What runs where
//!
//! One-key functions run on normal schedulers, and bill what takes more than some microseconds
//! ([`erts::bill`]). Functions over many keys stop after half a millisecond and say where to go on;
//! the loop is in Erlang. What may take longer (`open`, `close`, `clear`, `counts`, servers, values
//! beyond [`codec::DIRTY_BYTES`], steps over the large shards of a table that has few, see `scan`)
//! runs on dirty schedulers. No call holds a normal scheduler longer than 2 ms, but for a write to
//! such a table that moves an index.

mod atoms;
mod codec;
mod database;
mod erts;
mod many;
mod order;
mod pairs;
mod point;
mod range;
mod reply;
mod scan;
mod server;
mod signal;
mod single;
mod store;
mod tables;
mod values;

use parking_lot::Mutex;
use rustler::codegen_runtime::inventory;
use rustler::sys::{ErlNifEntry, ErlNifEnv, ErlNifFunc, ErlNifTerm};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// The table of functions, leaked: the BEAM keeps pointers into it.
struct Entry(ErlNifEntry);

// SAFETY: the entry is written once, before anybody sees it, and points to leaked memory only.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// What the BEAM calls to learn of this library's functions.
///
/// `rustler::init!` is not used because it leaves no room for `upgrade` and `unload`.
#[unsafe(no_mangle)]
pub extern "C" fn nif_init() -> *const ErlNifEntry {
    static ENTRY: OnceLock<Entry> = OnceLock::new();
    let entry = ENTRY.get_or_init(|| {
        // SAFETY: called before any other function of `rustler::sys`, as rustler's own init does.
        unsafe { rustler::codegen_runtime::internal_write_symbols() };
        let functions: Vec<ErlNifFunc> =
            inventory::iter::<rustler::Nif>().map(rustler::Nif::get_def).collect();
        let functions: &'static [ErlNifFunc] = functions.leak();
        let mut entry = ErlNifEntry::new(c"todana_nif", functions, load);
        entry.upgrade = Some(upgrade);
        entry.unload = Some(unload);
        Entry(entry)
    });
    &raw const entry.0
}

/// The module instances that this library image serves: the addresses of their private data. There
/// may be several, since an instance that was purged is unloaded only when the last of its
/// resources is collected, which may be long after the next was loaded.
static INSTANCES: Mutex<Vec<Instance>> = Mutex::new(Vec::new());

/// The address of an instance's private data.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Instance(usize);

impl Instance {
    /// Registers another instance.
    fn new() -> Instance {
        // Not of size 0, so that each has an address of its own.
        let instance = Instance(Box::into_raw(Box::new(0_u8)).addr());
        let mut instances = INSTANCES.lock();
        instances.push(instance);
        // Under the lock, so that no instance that goes meanwhile takes itself for the last.
        todana_table::reaper::start();
        instance
    }

    /// Forgets the instance. With the last one the reaper stops.
    fn forget(self) {
        let mut instances = INSTANCES.lock();
        instances.retain(|other| *other != self);
        let stopped = instances.is_empty().then(todana_table::reaper::stop);
        // Without the lock: what the thread is freeing may end another instance.
        drop(instances);
        if let Some(stopped) = stopped {
            stopped.join();
        }
    }

    fn count() -> usize {
        INSTANCES.lock().len()
    }

    /// What the BEAM keeps for it.
    fn private(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }

    fn of_private(private: *mut c_void) -> Instance {
        Instance(private.addr())
    }

    /// The instance that a call came through.
    fn of_call(env: rustler::Env<'_>) -> Instance {
        // SAFETY: the environment is the present call's.
        Instance::of_private(unsafe { rustler::sys::enif_priv_data(env.as_c_arg()) })
    }
}

unsafe extern "C" fn load(
    env: *mut ErlNifEnv,
    private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    let loaded = std::panic::catch_unwind(|| {
        // First, since it may fail: then there is no instance.
        // SAFETY: `env` is the environment of a load callback.
        if !unsafe { erts::open_resource_types(env) } {
            return false;
        }
        todana_table::set_pin_release(values::release_pin);
        tables::renew_handles();
        todana_table::malloc::join_freed_blocks();
        // SAFETY: the BEAM passes a valid place for our private data.
        unsafe { *private = Instance::new().private() };
        true
    });
    c_int::from(!loaded.unwrap_or(false))
}

/// A second load of the Erlang module, which takes over the servers of the first. Tables, servers
/// and their threads belong to the image that made them, so only the same image may take over; a
/// rebuilt library needs a restart of the node.
unsafe extern "C" fn upgrade(
    env: *mut ErlNifEnv,
    private: *mut *mut c_void,
    old_private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    // SAFETY: the BEAM passes the place of the old module's private data.
    let old = Instance::of_private(unsafe { *old_private });
    let loaded = std::panic::catch_unwind(|| {
        if !INSTANCES.lock().contains(&old) {
            return 2;
        }
        // The types of the old instance are taken over, its resources stay what they are. First,
        // since it may fail: then there is no new instance, and the servers stay with the old one.
        // SAFETY: `env` is the environment of an upgrade callback.
        if !unsafe { erts::open_resource_types(env) } {
            return 1;
        }
        let new = Instance::new();
        server::hand_over(old, new);
        // SAFETY: the BEAM passes a valid place for our private data.
        unsafe { *private = new.private() };
        0
    });
    loaded.unwrap_or(1)
}

unsafe extern "C" fn unload(_env: *mut ErlNifEnv, private: *mut c_void) {
    let instance = Instance::of_private(private);
    // A panic has nowhere to go here.
    let _ = std::panic::catch_unwind(|| {
        server::stop_those_of(instance);
        instance.forget();
    });
}
