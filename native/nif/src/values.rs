//! Converts bytes of the table to binaries of a process.
//!
//! | bytes | result | cost |
//! |---|---|---|
//! | up to 64 | a heap binary, copied | 10 ns |
//! | 65 to 255 | a resource binary over a slab, copied | 35 ns |
//! | 65 and more, if no slab or no entry is left | a new reference-counted binary, copied | 90 ns |
//! | of a wide entry | a resource binary over the entry itself, no copy | 25 ns |
//!
//! **Slabs.** Each scheduler thread has a resource of [`SLAB_BYTES`] and copies values into it one
//! after another. Each copy is a resource binary that keeps the whole slab alive, so a process that
//! keeps one small value may keep 32 KB. To bound this, no new slab is made while [`SLABS_MAX`] are
//! alive; until some are freed, values become separate binaries. So kept values cost at most
//! [`SLABS_MAX`] times [`SLAB_BYTES`] (16 MB) more than their own size. `binary:copy/1` detaches a
//! value from its slab, as it detaches a sub-binary from its original.
//!
//! **Pins.** A wide entry (key or value beyond 255 bytes) has a reference count. Its first read by
//! Erlang creates a resource that owns one reference and is stored beside the entry; every read
//! returns a binary over the entry's own bytes, which keeps this resource alive. When the entry is
//! replaced, the table gives up its reference to the resource; the bytes are freed when the last
//! binary is collected. Like any large binary in Erlang, a value that a process still refers to
//! stays in memory after its record is removed; neither `erlang:memory(binary)` nor
//! `todana:bytes/1` counts it then. If the entry's value is a binary of the VM that the table keeps
//! ([`crate::kept`]), the new binary is over the bytes of that one, which `erlang:memory(binary)`
//! counts until both are collected.

use crate::erts::{self, Raw, RawEnv, ResourceRef, ResourceType};
use rustler::sys::{enif_make_new_binary, enif_make_resource_binary};
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use todana_table::{Entry, PinnedEntry, Shared};

/// The longest binary that the BEAM puts on a process' heap.
pub(crate) const HEAP_BYTES_MAX: usize = 64;
/// The longest value that is copied into a slab.
const SLAB_VALUE_BYTES_MAX: usize = 255;
/// Bytes of a slab.
const SLAB_BYTES: usize = 32 << 10;
/// Maximum number of slabs alive at one time.
const SLABS_MAX: usize = 512;

/// Resources that own a reference to an entry.
pub(crate) static PIN: ResourceType<PinnedEntry> = ResourceType::new(c"todana_pin");
/// Resources for slabs.
pub(crate) static SLAB: ResourceType<Slab> = ResourceType::new(c"todana_slab");

/// The payload of a slab's resource; [`SLAB_BYTES`] follow it.
pub(crate) struct Slab {
    _private: (),
}

static SLABS: AtomicUsize = AtomicUsize::new(0);

impl Drop for Slab {
    fn drop(&mut self) {
        SLABS.fetch_sub(1, Relaxed);
    }
}

struct Filling {
    slab: ResourceRef<Slab>,
    used: usize,
}

thread_local! {
    static FILLING: RefCell<Option<Filling>> = const { RefCell::new(None) };
}

/// A binary that is a copy of the bytes.
#[inline]
pub(crate) fn copied(env: RawEnv, bytes: &[u8]) -> Raw {
    let fits = bytes.len() > HEAP_BYTES_MAX && bytes.len() <= SLAB_VALUE_BYTES_MAX;
    match if fits { in_slab(env, bytes) } else { None } {
        Some(term) => term,
        None => fresh(env, bytes),
    }
}

/// A separate binary: on the process heap up to 64 bytes.
#[inline]
pub(crate) fn fresh(env: RawEnv, bytes: &[u8]) -> Raw {
    let mut term = MaybeUninit::uninit();
    // SAFETY: the BEAM makes a binary of that many bytes, which do not overlap with ours.
    unsafe {
        let to = enif_make_new_binary(env, bytes.len(), term.as_mut_ptr());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        term.assume_init()
    }
}

fn in_slab(env: RawEnv, bytes: &[u8]) -> Option<Raw> {
    FILLING.with_borrow_mut(|filling| {
        if filling.as_ref().is_none_or(|filling| filling.used + bytes.len() > SLAB_BYTES) {
            *filling = None;
            *filling = Some(Filling { slab: new_slab()?, used: 0 });
        }
        let filling = filling.as_mut()?;
        let slab = filling.slab.as_ptr();
        // SAFETY: `SLAB_BYTES` follow the payload. Those from `used` on belong to no binary, and
        // there are enough; no other thread fills this slab. The resource keeps the bytes alive as
        // long as the binary.
        let term = unsafe {
            let to = slab.cast::<u8>().add(size_of::<Slab>() + filling.used);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            enif_make_resource_binary(env, slab.cast(), to.cast(), bytes.len())
        };
        // Aligned, so that the reader can compare and copy whole words efficiently.
        filling.used += bytes.len().next_multiple_of(8);
        Some(term)
    })
}

fn new_slab() -> Option<ResourceRef<Slab>> {
    if SLABS.fetch_add(1, Relaxed) >= SLABS_MAX {
        SLABS.fetch_sub(1, Relaxed);
        return None;
    }
    Some(SLAB.make(Slab { _private: () }, SLAB_BYTES))
}

/// A binary over the entry's own bytes, which must be part of its value; `None` if the entry has to
/// be copied.
#[inline]
pub(crate) fn pinned(env: RawEnv, entry: &Entry<'_>, bytes: &[u8]) -> Option<Raw> {
    let pin = entry.pin(|shared| PIN.make(shared, 0).into_raw().cast())?;
    // SAFETY: the pin is a live resource that we made; it owns a count of the entry, so the bytes
    // live as long as it.
    let term =
        unsafe { enif_make_resource_binary(env, pin.as_ptr(), bytes.as_ptr().cast(), bytes.len()) };
    Some(term)
}

/// A binary over the bytes of an entry that already has a counted handle; the bytes must be part of
/// its value. For reads without the shard's lock.
pub(crate) fn lent(env: RawEnv, shared: &Shared, bytes: &[u8]) -> Raw {
    let owner = PIN.make(shared.clone(), 0);
    // SAFETY: a live resource that we made; it owns a count of the entry, so the bytes live as long
    // as it, and the binary keeps it.
    unsafe {
        enif_make_resource_binary(env, owner.as_ptr().cast(), bytes.as_ptr().cast(), bytes.len())
    }
}

/// The table calls this with a pin when it releases the entry.
pub(crate) fn release_pin(pin: *mut c_void) {
    // SAFETY: the table owned the reference that `pinned` gave it.
    unsafe { erts::release(pin) };
}
