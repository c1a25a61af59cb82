//! Converts terms to the bytes that a table stores, and back.
//!
//! With codec `raw`, iodata is stored as its bytes, and bytes are returned as a binary. With codec
//! `term`, any term can be stored. The first byte indicates the kind:
//!
//! ```text
//! '-', '0'..'9'   an integer of 64 bits, as the decimal text that Increment works on
//! 0               a binary: its bytes follow
//! 1               an atom: its name in UTF-8 follows
//! 2               a key with identifiers of this node inside, of a table in memory: see
//!                 `todana_codec`, which encodes and decodes it
//! 3               a key of an ordered table: see `ordered_key`
//! 131             any other term in the external term format, which starts with this byte
//! ```
//!
//! **Keys are canonical**: keys that are `=:=` have the same bytes, and other keys have different
//! bytes. Integers, atoms and binaries have one representation each. The external format of a term
//! is a function of the term unless the term contains one of these:
//!
//! - a map: the order of its keys is not specified;
//! - a pid, port or reference of this node: it contains the node's name, which changes when
//!   distribution starts. In a durable table it keeps the name, because all members read it;
//! - a fun: it may contain both.
//!
//! The Erlang side encodes such keys, and also large ones, since `term_to_binary` yields and the
//! code here does not.
//!
//! # How long a call may take
//!
//! The work done here is bounded: keys by [`KEY_BYTES_MAX`] and [`KEY_CELLS_MAX`], values by
//! [`DIRTY_BYTES`] and [`CELLS_MAX`] (longer ones are passed again on a dirty scheduler), terms by
//! [`NODES_MAX`] and [`EXTERNAL_BYTES_MAX`]. Work of more than some microseconds is charged as
//! reductions ([`erts::bill`]), so that a process that does it in a loop is scheduled out like any
//! other.

use crate::atoms;
use crate::erts::{self, Raw, RawEnv, words};
use crate::ordered_key::{self, ORDERED_KEY};
use crate::store::{Codec, KEY_BYTES_MAX, Store};
use crate::values;
use rustler::sys::*;
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::mem::MaybeUninit;
use todana_command::parse_signed;
use todana_table::Kind;

const BINARY: u8 = 0;
const ATOM: u8 = 1;
const EXTERNAL: u8 = 131;

/// Longer values are copied on a dirty scheduler.
pub(crate) const DIRTY_BYTES: usize = 1 << 20;
/// The Erlang side encodes terms of more nodes than this.
const NODES_MAX: usize = 64;
/// The Erlang side encodes terms that contain longer binaries, and decodes longer external terms.
const EXTERNAL_BYTES_MAX: usize = 8 << 10;

/// Decoding a byte of an external term takes as long as copying this many bytes.
const EXTERNAL_WEIGHT: usize = 16;

/// A bit of the `form` argument: the Erlang side has encoded the key itself.
pub(crate) const KEY_ENCODED: u32 = 1;
/// A bit of the `form` argument: the Erlang side has encoded the value itself.
pub(crate) const VALUE_ENCODED: u32 = 2;
/// The call runs on a dirty scheduler.
pub(crate) const ON_DIRTY: u32 = 4;

/// Why a call cannot be executed as requested.
#[derive(Clone, Copy)]
pub(crate) enum Misuse {
    /// The Erlang side must encode key and value.
    Encode,
    /// The Erlang side must call again on a dirty scheduler.
    Dirty,
    /// The table is durable: the Erlang side must call again, and wait (see [`crate::submit`]).
    Durable,
    /// An argument, counted from 1, is wrong; 0 if the node cannot execute the call now.
    Argument(i64, Atom),
    /// The record is no string.
    WrongKind(Kind),
}

impl Misuse {
    /// The term that the Erlang side receives.
    #[cold]
    pub(crate) fn raw(self, env: RawEnv) -> Raw {
        match self {
            Misuse::Encode => atoms::encode().as_c_arg(),
            Misuse::Dirty => atoms::dirty().as_c_arg(),
            Misuse::Durable => atoms::durable().as_c_arg(),
            Misuse::Argument(number, cause) => erts::tuple(
                env,
                &[atoms::badarg().as_c_arg(), erts::make_i64(env, number), cause.as_c_arg()],
            ),
            Misuse::WrongKind(kind) => {
                let kind = [atoms::wrong_kind().as_c_arg(), kind_atom(kind).as_c_arg()];
                let cause = erts::tuple(env, &kind);
                erts::tuple(env, &[atoms::badarg().as_c_arg(), erts::make_i64(env, 0), cause])
            }
        }
    }

    /// Like [`Misuse::raw`], for rustler's functions.
    pub(crate) fn term<'a>(self, env: Env<'a>) -> Term<'a> {
        match self {
            Misuse::Encode => atoms::encode().encode(env),
            Misuse::Dirty => atoms::dirty().encode(env),
            Misuse::Durable => atoms::durable().encode(env),
            Misuse::Argument(number, cause) => (atoms::badarg(), number, cause).encode(env),
            Misuse::WrongKind(kind) => {
                (atoms::badarg(), 0, (atoms::wrong_kind(), kind_atom(kind))).encode(env)
            }
        }
    }
}

/// The atom for a kind of records.
fn kind_atom(kind: Kind) -> Atom {
    match kind {
        Kind::String => atoms::string(),
        Kind::Hash => atoms::hash(),
        Kind::List => atoms::list(),
        Kind::Set => atoms::set(),
        Kind::SortedSet => atoms::zset(),
        Kind::Stream => atoms::stream(),
    }
}

/// A buffer for an encoded term. Keys and small values need no allocation.
pub(crate) struct EncodeBuffer {
    digits: itoa::Buffer,
    inline: [MaybeUninit<u8>; EncodeBuffer::INLINE],
    heap: Vec<u8>,
    /// Whether the term had to be walked, and not only copied.
    walked: bool,
}

impl EncodeBuffer {
    const INLINE: usize = 264;

    #[inline]
    pub(crate) fn new() -> EncodeBuffer {
        EncodeBuffer {
            digits: itoa::Buffer::new(),
            inline: [const { MaybeUninit::uninit() }; EncodeBuffer::INLINE],
            heap: Vec::new(),
            walked: false,
        }
    }

    /// Whether the key in the buffer was a list or another term that had to be walked.
    #[inline]
    pub(crate) fn was_walked(&self) -> bool {
        self.walked
    }

    /// Empty, for a term that is walked.
    pub(crate) fn unfilled(&mut self) -> &mut Vec<u8> {
        self.walked = true;
        self.heap.clear();
        &mut self.heap
    }

    /// `tag`, then `bytes`.
    #[inline]
    fn tagged(&mut self, tag: u8, bytes: &[u8]) -> &[u8] {
        let len = bytes.len() + 1;
        if len <= EncodeBuffer::INLINE {
            self.inline[0].write(tag);
            let to = self.inline[1..].as_mut_ptr().cast::<u8>();
            // SAFETY: there is buffer for `len` bytes, the copy does not overlap, and then they are
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
#[inline(always)]
pub(crate) unsafe fn key<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    if store.codec == Codec::Term
        && form & KEY_ENCODED == 0
        && let Some(number) = words::get(term)
    {
        return Ok(buffer.digits.format(number).as_bytes());
    }
    // SAFETY: see the function.
    unsafe { other_key(store, env, term, form, buffer) }
}

/// # Safety
/// As for [`key`].
unsafe fn other_key<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: see the function.
    let bytes = unsafe {
        if store.codec == Codec::Raw || form & KEY_ENCODED != 0 {
            match erts::binary(env, term) {
                Some(bytes) => bytes,
                None => flat_key(env, term, buffer)?,
            }
        } else if store.codec == Codec::Term {
            encode(env, term, buffer, Use::Key)?
        } else {
            ordered(env, term, buffer)?
        }
    };
    if bytes.len() > KEY_BYTES_MAX {
        return Err(Misuse::Argument(2, atoms::key_too_long()));
    }
    Ok(bytes)
}

/// The bytes of a key of an ordered table.
///
/// # Safety
/// As for [`key`].
unsafe fn ordered(env: RawEnv, term: Raw, buffer: &mut EncodeBuffer) -> Result<&[u8], Misuse> {
    let bytes = buffer.unfilled();
    // SAFETY: see the function.
    unsafe { ordered_key::encode(env, term, ordered_key::TERMS_MAX, bytes)? };
    erts::bill(env, bytes.len() * EXTERNAL_WEIGHT);
    Ok(bytes)
}

/// The bytes of a value. `argument` is its number in the API's function.
///
/// # Safety
/// `env` and `term` belong to the present call, and `'a` does not outlast it.
#[inline(always)]
pub(crate) unsafe fn value<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    argument: i64,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    if store.codec != Codec::Raw
        && form & VALUE_ENCODED == 0
        && let Some(number) = words::get(term)
    {
        return Ok(buffer.digits.format(number).as_bytes());
    }
    // SAFETY: see the function.
    unsafe { other_value(store, env, term, form, argument, buffer) }
}

/// # Safety
/// As for [`value`].
unsafe fn other_value<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    argument: i64,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: see the function.
    let bytes = unsafe {
        if store.codec == Codec::Raw || form & VALUE_ENCODED != 0 {
            if form & ON_DIRTY == 0 && is_long_list(env, term, &mut (0, 0), 0) {
                return Err(Misuse::Dirty);
            }
            match erts::binary(env, term) {
                Some(bytes) => bytes,
                None => flat_value(env, term, store.value_bytes_max(), argument)?,
            }
        } else {
            encode(env, term, buffer, Use::Value)?
        }
    };
    if bytes.len() > store.value_bytes_max() {
        return Err(Misuse::Argument(argument, atoms::value_too_long()));
    }
    if bytes.len() > DIRTY_BYTES && form & ON_DIRTY == 0 {
        return Err(Misuse::Dirty);
    }
    // The table copies it.
    erts::bill(env, bytes.len());
    Ok(bytes)
}

/// An iolist of more cells than this counts as long.
const CELLS_MAX: usize = 8 << 10;
/// An iolist of more levels than this counts as long.
const DEPTH_MAX: u32 = 64;

/// Whether a term is a list that takes long to flatten, determined without flattening it. `walked`
/// counts cells and bytes. Elements that are not iodata are detected later, by flattening.
///
/// # Safety
/// As for [`key`].
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

/// Maximum number of elements of an iolist that is a key, including those of lists inside it; a key
/// that consists of single bytes has fewer. So a list that is too long for a key is not walked to
/// its end.
const KEY_CELLS_MAX: usize = KEY_BYTES_MAX + (16 << 10);

/// The bytes of a key that is an iolist.
///
/// # Safety
/// As for [`key`].
#[cold]
unsafe fn flat_key(env: RawEnv, list: Raw, buffer: &mut EncodeBuffer) -> Result<&[u8], Misuse> {
    let too_long = || Misuse::Argument(2, atoms::key_too_long());
    buffer.walked = true;
    let flat = &mut buffer.heap;
    flat.clear();
    // SAFETY: see the function.
    let cells = unsafe {
        walk(env, list, KEY_CELLS_MAX, |part| {
            match part {
                Part::Byte(byte) => flat.push(byte),
                Part::Bytes(bytes) if flat.len() + bytes.len() <= KEY_BYTES_MAX => {
                    flat.extend_from_slice(bytes);
                }
                Part::Bytes(_) => return false,
            }
            flat.len() <= KEY_BYTES_MAX
        })
    };
    let cells = cells.map_err(|unwalked| match unwalked {
        Unwalked::Stopped => too_long(),
        Unwalked::NotIodata => Misuse::Argument(2, atoms::not_iodata()),
    })?;
    erts::bill(env, cells * CELL_BYTES + flat.len());
    Ok(flat)
}

/// The bytes of a value that is an iolist, as a copy. Its length is computed first, because an
/// iolist may represent far more bytes than it occupies.
///
/// # Safety
/// As for [`key`].
#[cold]
unsafe fn flat_value<'a>(
    env: RawEnv,
    list: Raw,
    bytes_max: usize,
    argument: i64,
) -> Result<&'a [u8], Misuse> {
    let mut length = 0usize;
    // SAFETY: see the function.
    let walked = unsafe {
        walk(env, list, 2 * bytes_max, |part| {
            length += match part {
                Part::Byte(_) => 1,
                Part::Bytes(bytes) => bytes.len(),
            };
            length <= bytes_max
        })
    };
    let not_iodata = || Misuse::Argument(argument, atoms::not_iodata());
    match walked {
        Ok(cells) => erts::bill(env, cells * CELL_BYTES),
        Err(Unwalked::Stopped) => {
            return Err(Misuse::Argument(argument, atoms::value_too_long()));
        }
        Err(Unwalked::NotIodata) => return Err(not_iodata()),
    }
    // SAFETY: see the function.
    unsafe { erts::iodata(env, list).ok_or_else(not_iodata) }
}

/// Walking over an element takes about as long as copying this many bytes.
const CELL_BYTES: usize = 64;

/// An element of an iolist.
enum Part<'a> {
    Byte(u8),
    Bytes(&'a [u8]),
}

/// Why an iolist was not walked to its end.
enum Unwalked {
    /// It has too many elements, or `each` has stopped the walk.
    Stopped,
    NotIodata,
}

/// Passes the elements of an iolist to `each` until that returns false, and returns how many there
/// are.
///
/// # Safety
/// As for [`key`].
unsafe fn walk<'a>(
    env: RawEnv,
    list: Raw,
    cells_max: usize,
    mut each: impl FnMut(Part<'a>) -> bool,
) -> Result<usize, Unwalked> {
    let mut cells = 0;
    // The tails of the lists that contain the present one.
    let mut outer: Vec<Raw> = Vec::new();
    let mut rest = list;
    loop {
        while let Some((head, tail)) = erts::uncons(env, rest) {
            cells += 1;
            if cells > cells_max {
                return Err(Unwalked::Stopped);
            }
            rest = tail;
            if erts::is_nil(env, head) {
                continue;
            }
            let byte = erts::get_i64(env, head).map(u8::try_from);
            // SAFETY: see the function.
            let wanted = if let Some(byte) = byte {
                each(Part::Byte(byte.map_err(|_| Unwalked::NotIodata)?))
            } else if let Some(bytes) = unsafe { erts::binary(env, head) } {
                each(Part::Bytes(bytes))
            } else if erts::is_list(env, head) {
                outer.push(tail);
                rest = head;
                true
            } else {
                return Err(Unwalked::NotIodata);
            };
            if !wanted {
                return Err(Unwalked::Stopped);
            }
        }
        if !erts::is_nil(env, rest) {
            // SAFETY: see the function.
            let bytes = unsafe { erts::binary(env, rest) }.ok_or(Unwalked::NotIodata)?;
            if !each(Part::Bytes(bytes)) {
                return Err(Unwalked::Stopped);
            }
        }
        match outer.pop() {
            Some(tail) => rest = tail,
            None => return Ok(cells),
        }
    }
}

/// The purpose for which a term is encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Equal terms have equal bytes, now and later.
    Key,
    Value,
}

/// # Safety
/// As for [`key`].
#[inline]
unsafe fn encode(
    env: RawEnv,
    term: Raw,
    buffer: &mut EncodeBuffer,
    used: Use,
) -> Result<&[u8], Misuse> {
    // SAFETY: see the function.
    if let Some(bytes) = unsafe { erts::binary(env, term) } {
        if bytes.len() > DIRTY_BYTES {
            return Err(Misuse::Encode);
        }
        return Ok(buffer.tagged(BINARY, bytes));
    }
    if let Some(number) = erts::get_i64(env, term) {
        return Ok(buffer.digits.format(number).as_bytes());
    }
    let mut name = [0u8; 4 * 255 + 1];
    // SAFETY: valid environment and term; the buffer has buffer for the longest atom of 255
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
        return Ok(buffer.tagged(ATOM, &name[..length]));
    }
    // SAFETY: see the function.
    unsafe { external(env, term, buffer, used) }
}

/// # Safety
/// As for [`key`].
unsafe fn external(
    env: RawEnv,
    term: Raw,
    buffer: &mut EncodeBuffer,
    used: Use,
) -> Result<&[u8], Misuse> {
    buffer.walked = true;
    // SAFETY: see the function.
    if !unsafe { is_small_and_canonical(env, term, used, &mut { NODES_MAX }, 16) } {
        return Err(Misuse::Encode);
    }
    let mut binary = MaybeUninit::uninit();
    // SAFETY: on success the structure owns a binary, whose bytes are copied before it is released.
    unsafe {
        if enif_term_to_binary(env, term, binary.as_mut_ptr()) == 0 {
            return Err(Misuse::Encode);
        }
        let mut binary: ErlNifBinary = binary.assume_init();
        let bytes = buffer.plain(std::slice::from_raw_parts(binary.data, binary.size));
        enif_release_binary(&mut binary);
        erts::bill(env, bytes.len() * EXTERNAL_WEIGHT);
        Ok(bytes)
    }
}

/// Whether the external format of a term is a function of the term, and cheap to compute.
///
/// # Safety
/// `env` and `term` belong to the present call.
unsafe fn is_small_and_canonical(
    env: RawEnv,
    term: Raw,
    used: Use,
    nodes: &mut usize,
    depth: u32,
) -> bool {
    if *nodes == 0 || depth == 0 {
        return false;
    }
    *nodes -= 1;
    // SAFETY: see the function.
    unsafe {
        if erts::is_atom(env, term) || erts::get_i64(env, term).is_some() {
            return true;
        }
        if let Some(bytes) = erts::binary(env, term) {
            return bytes.len() <= EXTERNAL_BYTES_MAX;
        }
        if let Some(elements) = erts::elements(env, term) {
            return elements
                .iter()
                .all(|element| is_small_and_canonical(env, *element, used, nodes, depth - 1));
        }
        if erts::is_list(env, term) {
            let mut rest = term;
            while let Some((head, tail)) = erts::uncons(env, rest) {
                if !is_small_and_canonical(env, head, used, nodes, depth - 1) {
                    return false;
                }
                rest = tail;
            }
            return erts::is_nil(env, rest)
                || is_small_and_canonical(env, rest, used, nodes, depth - 1);
        }
    }
    // Of the others, larger integers may be of any length, and an identifier does not reveal
    // whether it is of this node.
    erts::get_f64(env, term).is_some() || used == Use::Value && erts::is_identifier(env, term)
}

/// A decoded term, or bytes that the Erlang side must decode.
pub(crate) enum Decoded {
    /// The term.
    Term(Raw),
    /// A binary in the external term format.
    Encoded(Raw),
}

/// The term that the bytes represent. `binary` makes a binary of (a part of) them.
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
    decode_within(codec, env, bytes, &mut { EXTERNAL_BYTES_MAX }, binary)
}

/// Like [`decode`], for many terms: once external terms of `left` bytes have been decoded, further
/// ones are left to the Erlang side.
#[inline]
pub(crate) fn decode_within(
    codec: Codec,
    env: RawEnv,
    bytes: &[u8],
    left: &mut usize,
    binary: impl FnOnce(&[u8]) -> Raw,
) -> Decoded {
    if codec == Codec::Raw {
        return Decoded::Term(binary(bytes));
    }
    match bytes.split_first() {
        Some((&BINARY, rest)) => Decoded::Term(binary(rest)),
        Some((&ATOM, name)) => {
            erts::make_atom(env, name).map_or(Decoded::Encoded(binary(bytes)), Decoded::Term)
        }
        Some((&EXTERNAL, _)) if bytes.len() <= (*left).min(EXTERNAL_BYTES_MAX) => {
            *left -= bytes.len();
            erts::bill(env, bytes.len() * EXTERNAL_WEIGHT);
            let mut term = MaybeUninit::uninit();
            // SAFETY: valid bytes; on success the term was written. This codec made the bytes on
            // this node.
            unsafe {
                if enif_binary_to_term(env, bytes.as_ptr(), bytes.len(), term.as_mut_ptr(), 0) == 0
                {
                    return Decoded::Encoded(binary(bytes));
                }
                Decoded::Term(term.assume_init())
            }
        }
        Some((&ORDERED_KEY, _)) if bytes.len() <= (*left).min(EXTERNAL_BYTES_MAX) => {
            *left -= bytes.len();
            erts::bill(env, bytes.len() * EXTERNAL_WEIGHT);
            ordered_key::decode(env, bytes)
                .map_or_else(|| Decoded::Encoded(binary(bytes)), Decoded::Term)
        }
        Some((&EXTERNAL | &ORDERED_KEY, _)) | None => Decoded::Encoded(binary(bytes)),
        Some(_) => match parse_signed(bytes) {
            Some(number) => Decoded::Term(erts::make_i64(env, number)),
            None => Decoded::Encoded(binary(bytes)),
        },
    }
}

/// The integer that the bytes represent, if they do.
#[inline]
pub(crate) fn integer(codec: Codec, bytes: &[u8]) -> Option<i64> {
    if codec == Codec::Raw { None } else { parse_signed(bytes) }
}

/// Like [`decode`], with a copy.
pub(crate) fn decode_copy(codec: Codec, env: RawEnv, bytes: &[u8]) -> Decoded {
    decode(codec, env, bytes, |bytes| values::copied(env, bytes))
}
