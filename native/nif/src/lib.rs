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
//! One-key functions run on normal schedulers. Functions over many keys stop after half a
//! millisecond and say where to go on; the loop is in Erlang. What may take longer (`open`,
//! `close`, `clear`, servers, values beyond [`codec::DIRTY_BYTES`]) runs on dirty schedulers.

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

use rustler::codegen_runtime::inventory;
use rustler::sys::{ErlNifEntry, ErlNifEnv, ErlNifFunc, ErlNifTerm};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

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

/// Its address tells whether two loads met the same library image.
static IMAGE: AtomicU8 = AtomicU8::new(0);

fn image() -> *mut c_void {
    (&raw const IMAGE).cast_mut().cast()
}

unsafe extern "C" fn load(
    env: *mut ErlNifEnv,
    private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    // SAFETY: the BEAM passes a valid place for our private data.
    unsafe { *private = image() };
    let loaded = std::panic::catch_unwind(|| {
        todana_table::set_pin_release(values::release_pin);
        // SAFETY: `env` is the environment of a load callback.
        let open = unsafe { erts::open_resource_types(env) };
        tables::renew_handles();
        todana_table::reaper::start();
        open
    });
    c_int::from(!loaded.unwrap_or(false))
}

/// A second load of the Erlang module. Tables, servers and their threads belong to the image that
/// made them, so only the same image may take over; a rebuilt library needs a restart of the node.
unsafe extern "C" fn upgrade(
    env: *mut ErlNifEnv,
    private: *mut *mut c_void,
    old_private: *mut *mut c_void,
    _info: ErlNifTerm,
) -> c_int {
    // SAFETY: the BEAM passes the place of the old module's private data.
    if unsafe { *old_private } != image() {
        return 2;
    }
    LOADS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the BEAM passes a valid place for our private data.
    unsafe { *private = image() };
    // The types of the old instance are taken over, its resources stay what they are.
    // SAFETY: `env` is the environment of an upgrade callback.
    let open = std::panic::catch_unwind(|| unsafe { erts::open_resource_types(env) });
    c_int::from(!open.unwrap_or(false))
}

/// How many module instances beyond the first are loaded.
static LOADS: AtomicU8 = AtomicU8::new(0);

unsafe extern "C" fn unload(_env: *mut ErlNifEnv, _private: *mut c_void) {
    // With two instances of the module loaded the other one goes on using the servers.
    let others = LOADS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |loads| loads.checked_sub(1))
        .is_ok();
    if !others {
        // A panic has nowhere to go here.
        let _ = std::panic::catch_unwind(|| {
            server::stop_all();
            todana_table::reaper::stop();
        });
    }
}
