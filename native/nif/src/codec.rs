//! Terms as the bytes that a table keeps, and back.
//!
//! Codec `raw`: iodata is its bytes, and bytes are a binary. Codec `term`: any term. The first byte
//! tells the kind:
//!
//! ```text
//! '-', '0'..'9'   an integer of 64 bits, as the decimal text that Increment works on
//! 0               a binary: its bytes follow
//! 1               an atom: its name in UTF-8 follows
//! 131             any other term in the external term format, which starts with this byte
//! ```
//!
//! **Keys are canonical**: keys that are `=:=` have the same bytes, others have others. Integers,
//! atoms and binaries have one text each. The external format of a term is a function of the term
//! as long as there is no map in it (the order of a map's keys is not specified) and no fun (which
//! may hold maps); such keys are encoded by the Erlang side with `term_to_binary(Term,
//! [deterministic])`, as are large ones, since that function yields and ours does not.

use crate::atoms;
use crate::erts::{self, Raw, RawEnv};
use crate::store::{Codec, KEY_BYTES_MAX, Store};
use crate::values;
use rustler::sys::*;
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::mem::MaybeUninit;
use todana_command::parse_signed;

const BINARY: u8 = 0;
const ATOM: u8 = 1;
const EXTERNAL: u8 = 131;

/// Values beyond this are copied on a dirty scheduler.
pub(crate) const DIRTY_BYTES: usize = 1 << 20;
/// Terms of more nodes than this are encoded by the Erlang side.
const NODES_MAX: usize = 64;
/// Terms with longer binaries inside are encoded by the Erlang side, and longer external terms
/// decoded there.
const EXTERNAL_BYTES_MAX: usize = 8 << 10;

/// Bits of the `form` argument: the Erlang side has encoded the key or the value itself.
pub(crate) const KEY_ENCODED: u32 = 1;
/// See [`KEY_ENCODED`].
pub(crate) const VALUE_ENCODED: u32 = 2;
/// The call runs on a dirty scheduler.
pub(crate) const ON_DIRTY: u32 = 4;

/// Why a call cannot be carried out as it is.
#[derive(Clone, Copy)]
pub(crate) enum Misuse {
    /// The Erlang side is to encode key and value.
    Encode,
    /// The Erlang side is to call again on a dirty scheduler.
    Dirty,
    /// An argument, counted from 1, is wrong.
    Argument(i64, Atom),
}

impl Misuse {
    /// What the Erlang side is answered.
    #[cold]
    pub(crate) fn raw(self, env: RawEnv) -> Raw {
        match self {
            Misuse::Encode => atoms::encode().as_c_arg(),
            Misuse::Dirty => atoms::dirty().as_c_arg(),
            Misuse::Argument(number, cause) => erts::tuple(
                env,
                &[atoms::badarg().as_c_arg(), erts::make_i64(env, number), cause.as_c_arg()],
            ),
        }
    }

    /// The same for rustler's functions.
    pub(crate) fn term<'a>(self, env: Env<'a>) -> Term<'a> {
        match self {
            Misuse::Encode => atoms::encode().encode(env),
            Misuse::Dirty => atoms::dirty().encode(env),
            Misuse::Argument(number, cause) => (atoms::badarg(), number, cause).encode(env),
        }
    }
}

/// Room for bytes that a term becomes: keys and small values need no allocation.
pub(crate) struct Room {
    digits: itoa::Buffer,
    inline: [MaybeUninit<u8>; Room::INLINE],
    heap: Vec<u8>,
}

impl Room {
    const INLINE: usize = 264;

    #[inline]
    pub(crate) fn new() -> Room {
        Room {
            digits: itoa::Buffer::new(),
            inline: [const { MaybeUninit::uninit() }; Room::INLINE],
            heap: Vec::new(),
        }
    }

    /// `tag`, then `bytes`.
    #[inline]
    fn tagged(&mut self, tag: u8, bytes: &[u8]) -> &[u8] {
        let len = bytes.len() + 1;
        if len <= Room::INLINE {
            self.inline[0].write(tag);
            let to = self.inline[1..].as_mut_ptr().cast::<u8>();
            // SAFETY: there is room for `len` bytes, the copy does not overlap, and then they are
            // initialised.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                std::slice::from_raw_parts(self.inline.as_ptr().cast(), len)
            }
        } else {
            self.heap.clear();
            self.heap.reserve_exact(len);
            self.heap.push(tag);
            self.heap.extend_from_slice(bytes);
            &self.heap
        }
    }

    /// The bytes themselves.
    #[inline]
    fn plain(&mut self, bytes: &[u8]) -> &[u8] {
        match bytes.split_first() {
            Some((first, rest)) => self.tagged(*first, rest),
            None => &[],
        }
    }
}

/// The bytes of a key.
///
/// # Safety
/// `env` and `term` belong to the present call, and `'a` does not outlast it.
#[inline]
pub(crate) unsafe fn key<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    room: &'a mut Room,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: see the function.
    let bytes = unsafe {
        if store.codec == Codec::Raw || form & KEY_ENCODED != 0 {
            raw(env, term, 2)?
        } else {
            encode(env, term, room)?
        }
    };
    if bytes.len() > KEY_BYTES_MAX {
        return Err(Misuse::Argument(2, atoms::key_too_long()));
    }
    Ok(bytes)
}

/// The bytes of a value. `argument` is its number in the API's function.
///
/// # Safety
/// `env` and `term` belong to the present call, and `'a` does not outlast it.
#[inline]
pub(crate) unsafe fn value<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    argument: i64,
    room: &'a mut Room,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: see the function.
    let bytes = unsafe {
        if store.codec == Codec::Raw || form & VALUE_ENCODED != 0 {
            if form & ON_DIRTY == 0 && is_long_list(env, term, &mut (0, 0), 0) {
                return Err(Misuse::Dirty);
            }
            raw(env, term, argument)?
        } else {
            encode(env, term, room)?
        }
    };
    if bytes.len() > DIRTY_BYTES && form & ON_DIRTY == 0 {
        return Err(Misuse::Dirty);
    }
    if bytes.len() > store.value_bytes_max {
        return Err(Misuse::Argument(argument, atoms::value_too_long()));
    }
    Ok(bytes)
}

/// Cells of an iolist that are walked before it counts as long.
const CELLS_MAX: usize = 8 << 10;
/// How deep an iolist may be before it counts as long.
const DEPTH_MAX: u32 = 64;

/// Whether a term is a list whose flattening takes long, told without flattening it. `walked`
/// counts cells and bytes. What is no iodata is left to who flattens.
///
/// # Safety
/// As of [`key`].
unsafe fn is_long_list(env: RawEnv, term: Raw, walked: &mut (usize, usize), depth: u32) -> bool {
    let mut rest = term;
    while let Some((head, tail)) = erts::uncons(env, rest) {
        walked.0 += 1;
        // SAFETY: see the function.
        unsafe {
            if let Some(bytes) = erts::binary(env, head) {
                walked.1 += bytes.len();
            } else if depth == DEPTH_MAX || is_long_list(env, head, walked, depth + 1) {
                return true;
            }
        }
        if walked.0 > CELLS_MAX || walked.1 > DIRTY_BYTES {
            return true;
        }
        rest = tail;
    }
    // SAFETY: see the function.
    let tail = unsafe { erts::binary(env, rest) };
    walked.0 > 0 && tail.is_some_and(|bytes| bytes.len() + walked.1 > DIRTY_BYTES)
}

/// # Safety
/// As of [`key`].
#[inline]
unsafe fn raw<'a>(env: RawEnv, term: Raw, argument: i64) -> Result<&'a [u8], Misuse> {
    // SAFETY: see the function.
    unsafe {
        if let Some(bytes) = erts::binary(env, term) {
            return Ok(bytes);
        }
        erts::iodata(env, term).ok_or_else(|| Misuse::Argument(argument, atoms::not_iodata()))
    }
}

/// # Safety
/// As of [`key`].
#[inline]
unsafe fn encode(env: RawEnv, term: Raw, room: &mut Room) -> Result<&[u8], Misuse> {
    // SAFETY: see the function.
    if let Some(bytes) = unsafe { erts::binary(env, term) } {
        if bytes.len() > DIRTY_BYTES {
            return Err(Misuse::Encode);
        }
        return Ok(room.tagged(BINARY, bytes));
    }
    if let Some(number) = erts::get_i64(env, term) {
        return Ok(room.digits.format(number).as_bytes());
    }
    let mut name = [0u8; 4 * 255 + 1];
    // SAFETY: valid environment and term; the buffer has room for the longest atom of 255
    // characters and a zero.
    let length = unsafe {
        enif_get_atom(
            env,
            term,
            name.as_mut_ptr().cast(),
            name.len() as u32,
            ErlNifCharEncoding::ERL_NIF_UTF8,
        )
    };
    if length > 0 {
        let length = usize::try_from(length - 1).unwrap_or_default();
        return Ok(room.tagged(ATOM, &name[..length]));
    }
    // SAFETY: see the function.
    unsafe { external(env, term, room) }
}

/// # Safety
/// As of [`key`].
unsafe fn external(env: RawEnv, term: Raw, room: &mut Room) -> Result<&[u8], Misuse> {
    // SAFETY: see the function.
    if !unsafe { is_small_and_canonical(env, term, &mut { NODES_MAX }, 16) } {
        return Err(Misuse::Encode);
    }
    let mut binary = MaybeUninit::uninit();
    // SAFETY: on success the structure owns a binary, whose bytes are copied before it is released.
    unsafe {
        if enif_term_to_binary(env, term, binary.as_mut_ptr()) == 0 {
            return Err(Misuse::Encode);
        }
        let mut binary: ErlNifBinary = binary.assume_init();
        let bytes = room.plain(std::slice::from_raw_parts(binary.data, binary.size));
        enif_release_binary(&mut binary);
        Ok(bytes)
    }
}

/// Whether the external format of a term is a function of the term, and cheap to make.
///
/// # Safety
/// `env` and `term` belong to the present call.
unsafe fn is_small_and_canonical(env: RawEnv, term: Raw, nodes: &mut usize, depth: u32) -> bool {
    if *nodes == 0 || depth == 0 {
        return false;
    }
    *nodes -= 1;
    // SAFETY: see the function.
    unsafe {
        match enif_term_type(env, term) {
            ErlNifTermType::ERL_NIF_TERM_TYPE_ATOM
            | ErlNifTermType::ERL_NIF_TERM_TYPE_FLOAT
            | ErlNifTermType::ERL_NIF_TERM_TYPE_PID
            | ErlNifTermType::ERL_NIF_TERM_TYPE_PORT
            | ErlNifTermType::ERL_NIF_TERM_TYPE_REFERENCE => true,
            // Larger integers may be of any length.
            ErlNifTermType::ERL_NIF_TERM_TYPE_INTEGER => erts::get_i64(env, term).is_some(),
            ErlNifTermType::ERL_NIF_TERM_TYPE_BITSTRING => {
                erts::binary(env, term).is_some_and(|bytes| bytes.len() <= EXTERNAL_BYTES_MAX)
            }
            ErlNifTermType::ERL_NIF_TERM_TYPE_TUPLE => {
                erts::elements(env, term).is_some_and(|elements| {
                    elements
                        .iter()
                        .all(|element| is_small_and_canonical(env, *element, nodes, depth - 1))
                })
            }
            ErlNifTermType::ERL_NIF_TERM_TYPE_LIST => {
                let mut rest = term;
                while let Some((head, tail)) = erts::uncons(env, rest) {
                    if !is_small_and_canonical(env, head, nodes, depth - 1) {
                        return false;
                    }
                    rest = tail;
                }
                enif_is_empty_list(env, rest) != 0
                    || is_small_and_canonical(env, rest, nodes, depth - 1)
            }
            _ => false,
        }
    }
}

/// A term as it was, or its bytes for the Erlang side to decode.
pub(crate) enum Decoded {
    /// The term.
    Term(Raw),
    /// A binary in the external term format.
    Encoded(Raw),
}

/// The term that the bytes stand for. `binary` makes a binary of (a part of) them.
#[inline]
pub(crate) fn decode(
    codec: Codec,
    env: RawEnv,
    bytes: &[u8],
    binary: impl FnOnce(&[u8]) -> Raw,
) -> Decoded {
    if codec == Codec::Raw {
        return Decoded::Term(binary(bytes));
    }
    match bytes.split_first() {
        Some((&BINARY, rest)) => Decoded::Term(binary(rest)),
        Some((&ATOM, name)) => {
            atom(env, name).map_or(Decoded::Encoded(binary(bytes)), Decoded::Term)
        }
        Some((&EXTERNAL, _)) if bytes.len() <= EXTERNAL_BYTES_MAX => {
            let mut term = MaybeUninit::uninit();
            // SAFETY: valid bytes; on success the term was written. They were made by this codec,
            // on this node.
            unsafe {
                if enif_binary_to_term(env, bytes.as_ptr(), bytes.len(), term.as_mut_ptr(), 0) == 0
                {
                    return Decoded::Encoded(binary(bytes));
                }
                Decoded::Term(term.assume_init())
            }
        }
        Some((&EXTERNAL, _)) | None => Decoded::Encoded(binary(bytes)),
        Some(_) => match parse_signed(bytes) {
            Some(number) => Decoded::Term(erts::make_i64(env, number)),
            None => Decoded::Encoded(binary(bytes)),
        },
    }
}

/// Like [`decode`], copying.
pub(crate) fn decode_copy(codec: Codec, env: RawEnv, bytes: &[u8]) -> Decoded {
    decode(codec, env, bytes, |bytes| values::copied(env, bytes))
}

/// The key that the bytes stand for.
pub(crate) fn decode_key(codec: Codec, env: RawEnv, bytes: &[u8]) -> Decoded {
    decode_copy(codec, env, bytes)
}

fn atom(env: RawEnv, name: &[u8]) -> Option<Raw> {
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
