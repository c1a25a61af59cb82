//! The boundary between Erlang and the native table.
//!
//! It is deliberately thin: terms become a [`todana_command::Command`], and its reply becomes
//! terms. `todana_command` defines what a command means, and `todana_table` how a record is stored.
//!
//! # Lifetimes
//!
//! Tables belong to the node. They are in a registry of this library (`tables`), which stays mapped
//! once it is loaded (`-z nodelete`), so neither the death of a process nor a purge of the Erlang
//! module loses a record; a restarted application finds its tables again. Only closing a table
//! removes it. Servers are native too and are registered (`server`): [`unload`] stops those that
//! the Erlang side has not stopped, and the table's reaper, so no thread of this library outlives
//! its code.
//!
//! # Two kinds of functions
//!
//! Most functions use rustler's wrapper. It costs about 10 ns per call, a tenth of a read or a
//! write, so the most frequent ones are plain NIFs: see `point`. Both kinds turn a panic
//! into an Erlang exception.
//!
//! # Schedulers
//!
//! Functions on one key run on normal schedulers, and charge reductions if they take more than some
//! microseconds ([`erts::bill`]). Functions over many keys stop after half a millisecond and return
//! where to continue; the loop is in Erlang. Functions that may take longer (`open`, `close`,
//! `clear`, `counts`, servers, copies of values beyond [`codec::DIRTY_BYTES`], steps over the large
//! shards of a table that has few, see `scan`) run on dirty schedulers. No call holds a normal
//! scheduler for more than 2 ms, except for a write that moves an index of such a table.

mod atoms;
mod codec;
mod database;
mod disk;
mod durable;
mod erts;
mod figures;
mod guest;
mod interest;
mod keeper;
mod kept;
mod key_state;
mod log;
mod many;
mod order;
mod ordered_key;
mod pairs;
mod point;
mod questions;
mod range;
mod reads;
mod reply;
mod responder;
mod scan;
mod seat;
mod server;
mod signal;
mod single;
mod spread;
mod store;
mod submit;
mod subscription;
mod tables;
mod time;
mod topology;
mod transaction;
mod values;

use parking_lot::Mutex;
use rustler::codegen_runtime::inventory;
use rustler::sys::{ErlNifEntry, ErlNifEnv, ErlNifFunc, ErlNifTerm};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// The table of functions, leaked: the BEAM keeps pointers into it.
struct Entry(ErlNifEntry);

// SAFETY: the entry is written once, before any other thread sees it, and points to leaked memory
// only.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// Called by the BEAM to obtain this library's functions.
///
/// `rustler::init!` is not used because it does not support `upgrade` and `unload`.
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
/// may be several, since a purged instance is unloaded only when the last of its resources is
/// collected, which may be long after the next instance was loaded.
static INSTANCES: Mutex<Vec<Instance>> = Mutex::new(Vec::new());

/// The address of an instance's private data.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Instance(usize);

impl Instance {
    /// Registers another instance.
    fn new() -> Instance {
        // Not of size 0, so that each has its own address.
        let instance = Instance(Box::into_raw(Box::new(0_u8)).addr());
        let mut instances = INSTANCES.lock();
        instances.push(instance);
        // Under the lock, so that an instance that is unloaded meanwhile does not take itself for
        // the last.
        todana_table::reaper::start();
        instance
    }

    /// Removes the instance. With the last one the reaper stops.
    fn forget(self) {
        let mut instances = INSTANCES.lock();
        instances.retain(|other| *other != self);
        let stopped = instances.is_empty().then(todana_table::reaper::stop);
        // Without the lock: freeing entries may unload another instance.
        drop(instances);
        if let Some(stopped) = stopped {
            stopped.join();
        }
    }

    fn count() -> usize {
        INSTANCES.lock().len()
    }

    /// The pointer that the BEAM stores for it.
    fn private(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }

    fn of_private(private: *mut c_void) -> Instance {
        Instance(private.addr())
    }

    /// The instance that a call belongs to.
    fn of_call(env: rustler::Env<'_>) -> Instance {
        // SAFETY: the environment is the present call's.
        Instance::of_private(unsafe { rustler::sys::enif_priv_data(env.as_c_arg()) })
    }
}

/// # Safety
/// `env` is the environment of a load or upgrade callback.
unsafe fn open_resource_types(env: erts::RawEnv) -> bool {
    // SAFETY: see the function.
    unsafe {
        store::HANDLE.open(env)
            && values::PIN.open(env)
            && values::SLAB.open(env)
            && scan::SNAPSHOT.open(env)
            && durable::DIGEST.open(env)
            && seat::SEAT.open(env)
            && server::SERVER.open(env)
            && subscription::SUBSCRIPTION.open_watched(env)
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
        if !unsafe { open_resource_types(env) } {
            return false;
        }
        erts::words::learn(env);
        todana_table::set_pin_release(values::release_pin);
        tables::renew_resources();
        todana_table::malloc::join_freed_blocks();
        // SAFETY: the BEAM passes a valid location for our private data.
        unsafe { *private = Instance::new().private() };
        true
    });
    c_int::from(!loaded.unwrap_or(false))
}

/// A second load of the Erlang module, which takes over the servers of the first. Tables, servers
/// and their threads belong to the image that created them, so only the same image may take over; a
/// rebuilt library requires a restart of the node.
unsafe extern "C" fn upgrade(
    env: *mut ErlNifEnv,
    private: *mut *mut c_void,
    old_private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    // SAFETY: the BEAM passes the location of the old module's private data.
    let old = Instance::of_private(unsafe { *old_private });
    let loaded = std::panic::catch_unwind(|| {
        if !INSTANCES.lock().contains(&old) {
            return 2;
        }
        // The types of the old instance are taken over, and its resources do not change. First,
        // since it may fail: then there is no new instance, and the servers stay with the old one.
        // SAFETY: `env` is the environment of an upgrade callback.
        if !unsafe { open_resource_types(env) } {
            return 1;
        }
        let new = Instance::new();
        server::hand_over(old, new);
        // SAFETY: the BEAM passes a valid location for our private data.
        unsafe { *private = new.private() };
        0
    });
    loaded.unwrap_or(1)
}

unsafe extern "C" fn unload(_env: *mut ErlNifEnv, private: *mut c_void) {
    let instance = Instance::of_private(private);
    // A panic cannot be reported here.
    let _ = std::panic::catch_unwind(|| {
        server::stop_those_of(instance);
        instance.forget();
    });
}
