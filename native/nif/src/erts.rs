//! Functions of the BEAM that rustler does not cover: resources with takeover, monitors, and terms
//! made without its wrapper.

use rustler::LocalPid;
use rustler::sys::*;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A term as the BEAM passes it, valid during one call.
pub(crate) type Raw = ErlNifTerm;
/// The environment of one call.
pub(crate) type RawEnv = *mut ErlNifEnv;

/// A resource type whose payload starts with a `T`.
pub(crate) struct ResourceType<T> {
    name: &'static CStr,
    id: AtomicPtr<ErlNifResourceType>,
    payload: PhantomData<fn() -> T>,
}

impl<T> ResourceType<T> {
    pub(crate) const fn new(name: &'static CStr) -> ResourceType<T> {
        // Resource memory is aligned for 8 bytes.
        assert!(align_of::<T>() <= 8);
        ResourceType { name, id: AtomicPtr::new(ptr::null_mut()), payload: PhantomData }
    }

    /// # Safety
    /// `env` is the environment of a load or upgrade callback.
    pub(crate) unsafe fn open(&self, env: RawEnv) -> bool {
        // SAFETY: see the function; the name is a C string and the destructor fits the payload.
        let id = unsafe { open_type(env, self.name, destroy::<T>) };
        self.id.store(id.cast_mut(), Ordering::Release);
        !id.is_null()
    }

    /// Like [`ResourceType::open`], for a payload that watches a process.
    ///
    /// # Safety
    /// As for [`ResourceType::open`].
    pub(crate) unsafe fn open_watched(&self, env: RawEnv) -> bool
    where
        T: Watched,
    {
        let callbacks = Callbacks {
            destroy: destroy::<T>,
            stop: ptr::null(),
            down: down::<T>,
            members: 0,
            dynamic_call: ptr::null(),
        };
        let mut tried = 0;
        // SAFETY: see the function; the callbacks fit the payload, and the BEAM copies them.
        let id = unsafe {
            let name = self.name.as_ptr();
            open_resource_type_x(env, name, &callbacks, CREATE_OR_TAKE_OVER, &mut tried)
        };
        self.id.store(id.cast_mut(), Ordering::Release);
        !id.is_null()
    }

    /// Calls [`Watched::down`] when the process dies. False if it is already dead.
    pub(crate) fn watch(&self, env: RawEnv, resource: &ResourceRef<T>, process: &LocalPid) -> bool
    where
        T: Watched,
    {
        let object = resource.as_ptr().cast();
        // SAFETY: the environment is the present call's, and the resource, which we own a reference
        // to, is of a type with a callback. The monitor is never cancelled, so its name is not
        // needed.
        unsafe { monitor_process(env, object, process.as_c_arg(), ptr::null_mut()) == 0 }
    }

    /// A reference to the resource of a term.
    ///
    /// # Safety
    /// `env` and `term` belong to the present call.
    pub(crate) unsafe fn shared(&self, env: RawEnv, term: Raw) -> Option<ResourceRef<T>> {
        // SAFETY: see the function. The term keeps the resource alive until the count is
        // increased.
        unsafe {
            let payload = ptr::NonNull::from(self.get(env, term)?);
            enif_keep_resource(payload.as_ptr().cast());
            Some(ResourceRef { object: payload })
        }
    }

    fn id(&self) -> *const ErlNifResourceType {
        self.id.load(Ordering::Relaxed)
    }

    /// A resource holding `payload`, followed by `extra` uninitialised bytes.
    pub(crate) fn make(&self, payload: T, extra: usize) -> ResourceRef<T> {
        // SAFETY: the type has been open since the library was loaded; the memory is ours until it
        // is published.
        unsafe {
            let object = enif_alloc_resource(self.id(), size_of::<T>() + extra).cast::<T>();
            object.write(payload);
            ResourceRef { object: ptr::NonNull::new_unchecked(object) }
        }
    }

    /// The payload of a resource term, valid for the duration of the call.
    ///
    /// # Safety
    /// `env` and `term` belong to the present call, and `'a` does not outlast it.
    #[inline]
    pub(crate) unsafe fn get<'a>(&self, env: RawEnv, term: Raw) -> Option<&'a T> {
        let mut object = MaybeUninit::uninit();
        // SAFETY: valid environment and term; on success the object is a live resource of this
        // type, kept by the term.
        unsafe {
            if enif_get_resource(env, term, self.id(), object.as_mut_ptr()) == 0 {
                return None;
            }
            Some(&*object.assume_init().cast::<T>())
        }
    }
}

unsafe extern "C" {
    /// The function that rustler declares, but with the flags as a number, as in the C header.
    #[link_name = "enif_open_resource_type"]
    fn open_resource_type(
        env: RawEnv,
        module: *const std::ffi::c_char,
        name: *const std::ffi::c_char,
        destructor: ErlNifResourceDtor,
        flags: std::ffi::c_int,
        tried: *mut std::ffi::c_int,
    ) -> *const ErlNifResourceType;

    #[link_name = "enif_open_resource_type_x"]
    fn open_resource_type_x(
        env: RawEnv,
        name: *const std::ffi::c_char,
        callbacks: *const Callbacks,
        flags: std::ffi::c_int,
        tried: *mut std::ffi::c_int,
    ) -> *const ErlNifResourceType;

    #[link_name = "enif_monitor_process"]
    fn monitor_process(
        env: RawEnv,
        object: *mut c_void,
        process: *const ErlNifPid,
        monitor: *mut c_void,
    ) -> std::ffi::c_int;
}

/// `ErlNifResourceTypeInit` of erl_nif.h.
#[repr(C)]
struct Callbacks {
    destroy: ErlNifResourceDtor,
    stop: *const c_void,
    down: ErlNifResourceDown,
    members: std::ffi::c_int,
    dynamic_call: *const c_void,
}

/// The flags of a resource type: a new one, or that of an earlier instance of the library.
const CREATE_OR_TAKE_OVER: std::ffi::c_int = 1 | 2;

/// A payload that watches a process, see [`ResourceType::watch`].
pub(crate) trait Watched {
    /// The process has died. The BEAM keeps the resource alive during the call.
    fn down(&self);
}

unsafe extern "C" fn down<T: Watched>(
    _env: RawEnv,
    object: *mut c_void,
    _process: *const ErlNifPid,
    _monitor: *const ErlNifMonitor,
) {
    // A panic cannot be reported here.
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the BEAM passes the resource, whose payload `make` wrote, and keeps a reference
        // to it during the call.
        unsafe { &*object.cast::<T>() }.down();
    });
}

/// # Safety
/// `env` is the environment of a load or upgrade callback, and `destructor` fits the type's
/// payload.
unsafe fn open_type(
    env: RawEnv,
    name: &CStr,
    destructor: ErlNifResourceDtor,
) -> *const ErlNifResourceType {
    let mut tried = 0;
    // SAFETY: see the function.
    unsafe {
        let module = ptr::null();
        open_resource_type(env, module, name.as_ptr(), destructor, CREATE_OR_TAKE_OVER, &mut tried)
    }
}

unsafe extern "C" fn destroy<T>(_env: RawEnv, object: *mut c_void) {
    // A panic cannot be reported here.
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the BEAM calls this once, when there is no reference to the resource; `make`
        // wrote the payload.
        unsafe { object.cast::<T>().drop_in_place() };
    });
}

/// A counted reference to a resource's payload.
pub(crate) struct ResourceRef<T> {
    object: ptr::NonNull<T>,
}

// SAFETY: resources are counted atomically; their payload may be shared and sent, and so may the
// reference.
unsafe impl<T: Send + Sync> Send for ResourceRef<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for ResourceRef<T> {}

impl<T> ResourceRef<T> {
    /// The term of this resource.
    pub(crate) fn term(&self, env: RawEnv) -> Raw {
        // SAFETY: we own a reference to the resource; `env` is the present call's.
        unsafe { enif_make_resource(env, self.object.as_ptr().cast()) }
    }

    /// Gives up ownership and returns the address of the payload; [`release`] takes the reference
    /// back.
    pub(crate) fn into_raw(self) -> ptr::NonNull<T> {
        std::mem::ManuallyDrop::new(self).object
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Clone for ResourceRef<T> {
    fn clone(&self) -> ResourceRef<T> {
        // SAFETY: we own a reference, so the resource is alive.
        unsafe { enif_keep_resource(self.object.as_ptr().cast()) };
        ResourceRef { object: self.object }
    }
}

impl<T> std::ops::Deref for ResourceRef<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: we own a reference, so the payload is alive, and it is shared immutably only.
        unsafe { self.object.as_ref() }
    }
}

impl<T> Drop for ResourceRef<T> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and not used again.
        unsafe { release(self.object.as_ptr().cast()) };
    }
}

/// Gives up one reference to a resource.
///
/// # Safety
/// The caller owns the reference.
pub(crate) unsafe fn release(object: *mut c_void) {
    // SAFETY: see the function. May be called on any thread.
    unsafe { enif_release_resource(object) };
}

/// Sends a message that `make` creates, from any thread.
///
/// The call passes no environment of a caller: a writer on a scheduler that reports a change to a
/// subscriber has none available. The BEAM itself detects whether the thread is a scheduler, and
/// treats the message as one without a sender, as it does for destructors of resources.
///
/// False if there is no such process.
pub(crate) fn send(to: LocalPid, make: impl FnOnce(RawEnv) -> Raw) -> bool {
    // SAFETY: the environment is ours until it is freed, and the message was made in it.
    unsafe {
        let env = enif_alloc_env();
        let message = make(env);
        let is_sent = enif_send(ptr::null_mut(), to.as_c_arg(), env, message) != 0;
        enif_free_env(env);
        is_sent
    }
}

/// The beginning of a message: a term that outlives its call, in an environment of its own.
pub(crate) struct Message {
    env: RawEnv,
    term: Raw,
}

// SAFETY: the environment belongs to no process and no call, and only the owner uses it.
unsafe impl Send for Message {}

impl Message {
    /// With a copy of a term.
    pub(crate) fn new(term: Raw) -> Message {
        // SAFETY: the environment is ours until it is freed.
        unsafe {
            let env = enif_alloc_env();
            Message { env, term: enif_make_copy(env, term) }
        }
    }

    /// Sends what `make` creates with the term, from any thread: see [`send`].
    pub(crate) fn send(self, to: LocalPid, make: impl FnOnce(RawEnv, Raw) -> Raw) {
        let message = make(self.env, self.term);
        // SAFETY: the message was made in the environment, which is freed afterwards.
        unsafe { enif_send(ptr::null_mut(), to.as_c_arg(), self.env, message) };
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the environment is ours and not used again.
        unsafe { enif_free_env(self.env) };
    }
}

/// Runs a plain NIF: a panic becomes an exception of class error.
#[inline]
pub(crate) fn guard(env: RawEnv, work: impl FnOnce() -> Raw) -> Raw {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(term) => term,
        // SAFETY: `env` is the present call's, and the call returns at once.
        Err(_) => unsafe { enif_raise_exception(env, crate::atoms::nif_panicked().as_c_arg()) },
    }
}

/// A tuple.
#[inline]
pub(crate) fn tuple(env: RawEnv, terms: &[Raw]) -> Raw {
    // SAFETY: `env` is the present call's and so are the terms.
    unsafe { enif_make_tuple_from_array(env, terms.as_ptr(), terms.len() as u32) }
}

/// `[head | tail]`.
#[inline]
pub(crate) fn cons(env: RawEnv, head: Raw, tail: Raw) -> Raw {
    // SAFETY: `env` is the present call's and so are the terms.
    unsafe { enif_make_list_cell(env, head, tail) }
}

/// `[]`.
pub(crate) fn nil(env: RawEnv) -> Raw {
    // SAFETY: an empty list of no terms.
    unsafe { enif_make_list_from_array(env, ptr::null(), 0) }
}

/// Whether a term is `[]`.
pub(crate) fn is_nil(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_is_empty_list(env, term) != 0 }
}

/// Whether a term is `[]` or has a head and a tail.
pub(crate) fn is_list(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_is_list(env, term) != 0 }
}

/// Whether a term is an atom.
#[inline]
pub(crate) fn is_atom(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_is_atom(env, term) != 0 }
}

/// Head and tail of a list that is not empty.
#[inline]
pub(crate) fn uncons(env: RawEnv, list: Raw) -> Option<(Raw, Raw)> {
    let (mut head, mut tail) = (list, list);
    // SAFETY: `env` is the present call's and so is the term.
    (unsafe { enif_get_list_cell(env, list, &mut head, &mut tail) } != 0).then_some((head, tail))
}

/// The elements of a tuple.
///
/// # Safety
/// `'a` does not outlast the call.
pub(crate) unsafe fn elements<'a>(env: RawEnv, term: Raw) -> Option<&'a [Raw]> {
    let (mut arity, mut array) = (0, ptr::null());
    // SAFETY: the array lies in the term, which lives as long as the call.
    unsafe {
        if enif_get_tuple(env, term, &mut arity, &mut array) == 0 {
            return None;
        }
        if arity == 0 {
            return Some(&[]);
        }
        Some(std::slice::from_raw_parts(array, usize::try_from(arity).ok()?))
    }
}

/// A binary's bytes.
///
/// # Safety
/// `'a` does not outlast the call.
#[inline]
pub(crate) unsafe fn binary<'a>(env: RawEnv, term: Raw) -> Option<&'a [u8]> {
    let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
    // SAFETY: on success the structure is filled in, and its bytes live as long as the term.
    unsafe {
        if enif_inspect_binary(env, term, binary.as_mut_ptr()) == 0 {
            return None;
        }
        Some(bytes_of(&binary.assume_init()))
    }
}

/// The bytes of iodata. For a list this is a copy that lives as long as the call.
///
/// # Safety
/// `'a` does not outlast the call.
pub(crate) unsafe fn iodata<'a>(env: RawEnv, term: Raw) -> Option<&'a [u8]> {
    let mut binary = MaybeUninit::<ErlNifBinary>::uninit();
    // SAFETY: as in `binary`.
    unsafe {
        if enif_inspect_iolist_as_binary(env, term, binary.as_mut_ptr()) == 0 {
            return None;
        }
        Some(bytes_of(&binary.assume_init()))
    }
}

/// # Safety
/// `binary` was filled in by the BEAM and `'a` does not outlast its term.
unsafe fn bytes_of<'a>(binary: &ErlNifBinary) -> &'a [u8] {
    if binary.size == 0 {
        // An empty binary may have no address.
        return &[];
    }
    // SAFETY: see the function.
    unsafe { std::slice::from_raw_parts(binary.data, binary.size) }
}

/// Integers that are words.
///
/// The BEAM represents an integer of 60 bits as `number << 4 | 15`, and no other term ends with
/// these bits. Its interface does not promise this, so [`learn`](words::learn) asks the BEAM for
/// the terms of integers with every bit set and cleared, and these functions know no integer if one
/// is different.
pub(crate) mod words {
    use super::{Raw, RawEnv};
    use rustler::sys::{enif_get_int64, enif_make_int64};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    const TAG_BITS: u32 = 4;
    const TAG: u64 = 15;
    /// The bits of an integer that is a word, with its sign.
    const BITS: u32 = 60;
    const MAX: i64 = (1 << (BITS - 1)) - 1;

    /// Whether integers are represented as described.
    static KNOWN: AtomicBool = AtomicBool::new(false);

    fn encoded(number: i64) -> u64 {
        number.cast_unsigned() << TAG_BITS | TAG
    }

    fn is_word(number: i64) -> bool {
        (-MAX - 1..=MAX).contains(&number)
    }

    /// Finds out how the BEAM represents integers. Called when the library is loaded.
    pub(crate) fn learn(env: RawEnv) {
        let bits = (0..BITS - 1).map(|bit| 1 << bit);
        let numbers = bits.flat_map(|number: i64| [number, number - 1, -number, !number]);
        let is_known = numbers.chain([MAX, -MAX - 1]).all(|number| {
            let (mut found, term) = (0, super::word(encoded(number)));
            // SAFETY: `env` is the present call's; the second call gets a term of the first.
            unsafe {
                enif_make_int64(env, number) == term
                    && enif_get_int64(env, enif_make_int64(env, number), &mut found) != 0
                    && found == number
            }
        });
        KNOWN.store(is_known, Relaxed);
    }

    /// The integer that a term is.
    #[inline(always)]
    pub(crate) fn get(term: Raw) -> Option<i64> {
        let bits = super::bits(term);
        (bits & TAG == TAG && KNOWN.load(Relaxed)).then(|| bits.cast_signed() >> TAG_BITS)
    }

    /// The term of an integer.
    #[inline(always)]
    pub(crate) fn make(number: i64) -> Option<Raw> {
        (is_word(number) && KNOWN.load(Relaxed)).then(|| super::word(encoded(number)))
    }
}

/// A term as a number.
#[inline(always)]
fn bits(term: Raw) -> u64 {
    // SAFETY: `ErlNifTerm` is a transparent wrapper of a `usize`, which has 64 bits.
    unsafe { std::mem::transmute::<Raw, u64>(term) }
}

/// The term of which this is the number.
#[inline(always)]
fn word(bits: u64) -> Raw {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<u64, Raw>(bits) }
}

/// A signed integer of 64 bits.
#[inline]
pub(crate) fn get_i64(env: RawEnv, term: Raw) -> Option<i64> {
    if let Some(number) = words::get(term) {
        return Some(number);
    }
    let mut number = 0;
    // SAFETY: `env` is the present call's and so is the term.
    (unsafe { enif_get_int64(env, term, &mut number) } != 0).then_some(number)
}

/// An integer term.
#[inline]
pub(crate) fn make_i64(env: RawEnv, number: i64) -> Raw {
    // SAFETY: `env` is the present call's.
    words::make(number).unwrap_or_else(|| unsafe { enif_make_int64(env, number) })
}

/// An integer term.
pub(crate) fn make_u64(env: RawEnv, number: u64) -> Raw {
    // SAFETY: `env` is the present call's.
    unsafe { enif_make_uint64(env, number) }
}

/// An unsigned integer of 64 bits.
pub(crate) fn get_u64(env: RawEnv, term: Raw) -> Option<u64> {
    let mut number = 0;
    // SAFETY: `env` is the present call's and so is the term.
    (unsafe { enif_get_uint64(env, term, &mut number) } != 0).then_some(number)
}

/// The value of a float.
pub(crate) fn get_f64(env: RawEnv, term: Raw) -> Option<f64> {
    let mut number = 0.0;
    // SAFETY: `env` is the present call's and so is the term.
    (unsafe { enif_get_double(env, term, &mut number) } != 0).then_some(number)
}

/// A float term, if the number is finite.
pub(crate) fn make_f64(env: RawEnv, number: f64) -> Option<Raw> {
    // SAFETY: `env` is the present call's, and the number is one that Erlang has.
    number.is_finite().then(|| unsafe { enif_make_double(env, number) })
}

// Nothing here calls `enif_term_type`: it aborts the whole node if the term is of a type that this
// version of its interface cannot represent, such as a native record (`-record #name{}.`).

/// Whether a term is an integer of any size or a float.
pub(crate) fn is_number(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_is_number(env, term) != 0 }
}

/// Whether a term is a map.
pub(crate) fn is_map(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_is_map(env, term) != 0 }
}

/// Whether a term is a pid, a port or a reference.
pub(crate) fn is_identifier(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe {
        enif_is_pid(env, term) != 0 || enif_is_port(env, term) != 0 || enif_is_ref(env, term) != 0
    }
}

/// Whether a term is a fun.
pub(crate) fn is_fun(env: RawEnv, term: Raw) -> bool {
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_is_fun(env, term) != 0 }
}

/// The longest name of an atom: 255 characters of 4 bytes, and a zero.
pub(crate) const ATOM_BYTES_MAX: usize = 4 * 255 + 1;

/// The name of an atom in UTF-8; nothing if the term is none.
pub(crate) fn atom_name(env: RawEnv, term: Raw, name: &mut [u8; ATOM_BYTES_MAX]) -> &[u8] {
    // SAFETY: `env` is the present call's and so is the term; the array has room for the longest
    // name.
    let length = unsafe {
        enif_get_atom(
            env,
            term,
            name.as_mut_ptr().cast(),
            ATOM_BYTES_MAX as u32,
            ErlNifCharEncoding::ERL_NIF_UTF8,
        )
    };
    // With the zero.
    &name[..usize::try_from(length - 1).unwrap_or(0)]
}

/// The atom of a name in UTF-8, if there may be one.
pub(crate) fn make_atom(env: RawEnv, name: &[u8]) -> Option<Raw> {
    let mut term = MaybeUninit::uninit();
    // SAFETY: valid bytes of that length; on success the term was written.
    unsafe {
        let made = enif_make_new_atom_len(
            env,
            name.as_ptr().cast(),
            name.len(),
            term.as_mut_ptr(),
            ErlNifCharEncoding::ERL_NIF_UTF8,
        );
        (made != 0).then(|| term.assume_init())
    }
}

/// How many keys a map has; 0 if the term is none.
pub(crate) fn map_size(env: RawEnv, map: Raw) -> usize {
    let mut size = 0;
    // SAFETY: `env` is the present call's and so is the term.
    unsafe { enif_get_map_size(env, map, &mut size) };
    size
}

/// Passes the keys and values of a map to `each`, in no order, until it returns false.
pub(crate) fn each_pair(env: RawEnv, map: Raw, mut each: impl FnMut(Raw, Raw) -> bool) {
    let mut iterator = MaybeUninit::uninit();
    let iterator = iterator.as_mut_ptr();
    let first = ErlNifMapIteratorEntry::ERL_NIF_MAP_ITERATOR_HEAD;
    // SAFETY: `env` is the present call's and so is the term. The iterator is used between its
    // creation and its destruction only; a panic of `each` leaks it.
    unsafe {
        if enif_map_iterator_create(env, map, iterator, first) == 0 {
            return;
        }
        let (mut key, mut value) = (map, map);
        while enif_map_iterator_get_pair(env, iterator, &mut key, &mut value) != 0
            && each(key, value)
        {
            enif_map_iterator_next(env, iterator);
        }
        enif_map_iterator_destroy(env, iterator);
    }
}

/// The map of keys, which differ, and values.
pub(crate) fn map(env: RawEnv, keys: &[Raw], values: &[Raw]) -> Option<Raw> {
    if keys.len() != values.len() {
        return None;
    }
    let mut map = MaybeUninit::uninit();
    // SAFETY: the arrays have the same length, and their terms are the present call's; on success
    // the map was written.
    unsafe {
        let (keys, values, length) = (keys.as_ptr(), values.as_ptr(), keys.len());
        let made = enif_make_map_from_arrays(env, keys, values, length, map.as_mut_ptr());
        (made != 0).then(|| map.assume_init())
    }
}

/// A term in the external term format.
pub(crate) fn to_external(env: RawEnv, term: Raw) -> Option<Vec<u8>> {
    let mut binary = MaybeUninit::uninit();
    // SAFETY: on success the structure owns a binary, whose bytes are copied before it is released.
    unsafe {
        if enif_term_to_binary(env, term, binary.as_mut_ptr()) == 0 {
            return None;
        }
        let mut binary: ErlNifBinary = binary.assume_init();
        let bytes = bytes_of(&binary).to_vec();
        enif_release_binary(&mut binary);
        Some(bytes)
    }
}

/// The term whose external format consists of these parts.
pub(crate) fn from_external(env: RawEnv, parts: &[&[u8]]) -> Option<Raw> {
    let bytes = parts.concat();
    let mut term = MaybeUninit::uninit();
    // SAFETY: valid bytes; on success the term was written.
    unsafe {
        let read = enif_binary_to_term(env, bytes.as_ptr(), bytes.len(), term.as_mut_ptr(), 0);
        (read != 0).then(|| term.assume_init())
    }
}

/// Number of bytes that are copied (possibly into new memory) in a hundredth of a time slice.
const BYTES_PER_PERCENT: usize = 8 << 10;

/// Reports to the scheduler that this call copied, or will copy, this many bytes. A time slice is
/// about 1 ms or 4,000 reductions; without this a call counts as one reduction, so a process could
/// copy 4,000 large values before another runs. Reports nothing on a dirty scheduler, or if the
/// copy takes no more than some microseconds.
#[inline]
pub(crate) fn bill(env: RawEnv, bytes: usize) {
    if bytes >= BYTES_PER_PERCENT {
        consume_percent(env, bytes / BYTES_PER_PERCENT);
    }
}

/// Reports to the scheduler how much of a time slice (about 1 ms) the call took.
pub(crate) fn consume_timeslice(env: RawEnv, elapsed: std::time::Duration) {
    consume_percent(env, (elapsed.as_micros() / 10) as usize);
}

#[cold]
fn consume_percent(env: RawEnv, percent: usize) {
    // SAFETY: `env` is the present call's.
    unsafe { enif_consume_timeslice(env, percent.clamp(1, 100) as i32) };
}
