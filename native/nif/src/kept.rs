//! Binaries of the VM that a table keeps by reference instead of copying them.
//!
//! A binary of more than 64 bytes is a counted object of the VM, and the terms of processes refer
//! to it or to a part of it. [`keep`] takes a reference that belongs to no environment, so that the
//! value of a record can be the VM's own bytes ([`Lent`]). The record is the last to hold them, if
//! all processes have forgotten the binary.
//!
//! | value of a table in memory, with codec `raw` | stored |
//! |---|---|
//! | shorter than `?KEPT_BYTES_MIN` (`todana.erl`) | a copy |
//! | a binary that occupies at most a tenth more than its length ([`lent_bytes_max`]) | kept |
//! | a smaller part of a larger binary | a copy, which does not keep the larger one |
//! | a binary of a resource, such as a value that was read from a table | a copy |
//!
//! (The binary of another library's resource is kept if its bytes are in the resource itself, and
//! nearly all of it: it cannot be distinguished.)
//!
//! The interface of the VM has no function that takes a reference to one binary, but
//! `enif_inspect_iovec` without an environment takes one to each binary of a list, and
//! `enif_free_iovec` returns them, on any thread. The structure in between takes 424 bytes, for up
//! to sixteen binaries. If there is one, only a pointer in it is of interest, so [`Reference`]
//! keeps that alone, and makes the structure again to return it. This depends on fields that the
//! header declares, but calls internal: [`Reference::take`] therefore checks that all of them are
//! as expected, and if not, the value is copied. The VM pins a binary that is taken in this way:
//! bytes that a process appends later go to another place.

use crate::erts::{Raw, RawEnv};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use todana_table::{Full, Lent, lent_bytes_max};

/// What the VM allocates beside the bytes of a binary.
const BINARY_HEADER_BYTES: usize = 40;

// As in the header, so that the VM does not write beyond it.
const _: () = assert!(size_of::<Vector>() == 40 + SMALL * (16 + 8));

/// The value of a list of one binary, which is part of a binary object of `object_bytes`; `None` if
/// it has to be copied.
///
/// # Safety
/// `list` belongs to the present call, and `bytes` are those of its element.
#[inline]
pub(crate) unsafe fn keep(
    list: Raw,
    bytes: &[u8],
    object_bytes: usize,
) -> Option<Result<Lent, Full>> {
    let held_bytes = object_bytes.checked_add(BINARY_HEADER_BYTES)?;
    if object_bytes < bytes.len() || held_bytes > lent_bytes_max(bytes.len()) {
        return None;
    }
    // SAFETY: see the function.
    let reference = unsafe { Reference::take(list, bytes)? };
    // SAFETY: the VM neither moves nor changes a binary that is pinned, and the reference keeps it.
    Some(unsafe { Lent::new(bytes, held_bytes, reference) })
}

/// One reference to a binary of the VM.
struct Reference {
    binary: NonNull<c_void>,
}

// SAFETY: binaries are counted atomically, and the VM permits to release them on any thread.
unsafe impl Send for Reference {}
// SAFETY: as above; nothing can be done with a shared reference.
unsafe impl Sync for Reference {}

impl Reference {
    /// A reference to the binary that contains these bytes, which are those of the only element of
    /// the list; `None` if the VM has copied them, or fills in the structure in an unexpected way.
    ///
    /// # Safety
    /// `list` belongs to the present call.
    #[inline]
    unsafe fn take(list: Raw, bytes: &[u8]) -> Option<Reference> {
        let mut vector = MaybeUninit::<Vector>::uninit();
        let here = vector.as_mut_ptr();
        let mut filled = here;
        let mut tail = list;
        // SAFETY: valid locations. Without an environment, the structure owns its references.
        if unsafe { inspect_iovec(ptr::null_mut(), 1, list, &mut tail, &mut filled) } == 0 {
            return None;
        }
        // SAFETY: the call has filled in the structure that `filled` points to, as far as it is in
        // use.
        unsafe {
            let is_here = filled == here
                && (*here).count == 1
                && (*here).flags == PREALLOCATED
                && (*here).parts == (&raw mut (*here).small_parts).cast()
                && (*here).binaries == (&raw mut (*here).small_binaries).cast();
            if is_here {
                let Part { base, length } = *(*here).parts;
                let binary = NonNull::new(*(*here).binaries);
                if base.cast_const() == bytes.as_ptr() && length == bytes.len() && binary.is_some()
                {
                    return binary.map(|binary| Reference { binary });
                }
            }
            free_iovec(filled);
        }
        None
    }
}

impl Drop for Reference {
    #[inline]
    fn drop(&mut self) {
        let mut vector = MaybeUninit::<Vector>::uninit();
        let here = vector.as_mut_ptr();
        // SAFETY: these are the contents of the structure that `take` found, except for the address
        // and the length of the bytes, which only readers use. It owned the reference, which ends
        // here.
        unsafe {
            let parts: *mut Part = (&raw mut (*here).small_parts).cast();
            let binaries: *mut *mut c_void = (&raw mut (*here).small_binaries).cast();
            parts.write(Part { base: ptr::null_mut(), length: 0 });
            binaries.write(self.binary.as_ptr());
            (&raw mut (*here).count).write(1);
            (&raw mut (*here).size).write(0);
            (&raw mut (*here).parts).write(parts);
            (&raw mut (*here).binaries).write(binaries);
            (&raw mut (*here).flags).write(PREALLOCATED);
            free_iovec(here);
        }
    }
}

/// `ERL_NIF_IOVEC_SIZE` of erl_nif.h.
const SMALL: usize = 16;

/// The `flags` of a structure that the caller has provided.
const PREALLOCATED: c_int = 1;

/// `ErlNifIOVec` of erl_nif.h.
#[repr(C)]
struct Vector {
    count: c_int,
    size: usize,
    parts: *mut Part,
    binaries: *mut *mut c_void,
    flags: c_int,
    small_parts: [Part; SMALL],
    small_binaries: [*mut c_void; SMALL],
}

/// `SysIOVec` of erl_nif.h, which is `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    base: *mut u8,
    length: usize,
}

unsafe extern "C" {
    #[link_name = "enif_inspect_iovec"]
    fn inspect_iovec(
        env: RawEnv,
        elements_max: usize,
        list: Raw,
        tail: *mut Raw,
        vector: *mut *mut Vector,
    ) -> c_int;

    #[link_name = "enif_free_iovec"]
    fn free_iovec(vector: *mut Vector);
}
