//! Keys of an ordered table with codec `term`, as bytes that compare like the terms.
//!
//! The table compares these bytes from left to right. The result is Erlang's term order:
//!
//! ```text
//! number < atom < tuple < map < nil < list < bitstring
//! ```
//!
//! Numbers compare by value, tuples by size and then by elements, maps by size, then by keys, then
//! by values, lists by elements, atoms and bitstrings by their text. References, funs, ports and
//! pids are refused: their order depends on the node's name, which changes when distribution
//! starts. So are native records, and what later versions of Erlang may add.
//!
//! # Format
//!
//! A key is the byte [`ORDERED_KEY`], one term, and the key's ties. No term's bytes begin
//! another's, so the terms of a tuple follow one another.
//!
//! ```text
//! number     3d..c2, see `number`
//! float      c3, 8 bytes            only within the keys of a map, see below
//! atom       c4, text
//! tuple      c5, size, elements
//! map        c6, size, keys in their order, then values in the order of the keys
//! nil        c7
//! list       c8, head, tail         so [a, b] is c8 a c8 b c7
//! bitstring  c9, text
//!
//! size       00..fe, or ff and 4 bytes (big-endian)
//! text       see `text`
//! ```
//!
//! # Ties
//!
//! `1 == 1.0`, but both may be keys of one table. Erlang does not order equal numbers any further;
//! this encoding puts the integer first, as Erlang does for the keys of a map. It must do so only
//! after it has compared everything else: `{1.0, 1} < {1, 2}`. Therefore a term contains each
//! number by value only, and the ties follow the whole term: one byte for each number that could be
//! an integer or a float, in the order of the numbers, without trailing zero bytes. Most keys
//! contain no such float and have no ties.
//!
//! ```text
//! 00  an integer
//! 01  -0.0
//! 02  another float
//! ```
//!
//! **Within the keys of a map**, at any depth, Erlang orders every integer before every float.
//! There a float has its own type byte and needs no tie. A map there compares like any other map;
//! Erlang compares its atoms by their internal numbers instead, which no encoding can follow.
//!
//! # Prefixes
//!
//! The bytes of a term up to a wildcard are a prefix of the bytes of every term that has the same
//! parts there. So the keys that match a prefix are adjacent. A prefix of bytes also matches a
//! bitstring that ends within the prefix's last byte, if zero bits fill it to that byte.

mod decode;
mod encode;
mod number;
mod text;

pub(crate) use decode::decode;
pub(crate) use encode::{encode, encode_prefix};

use crate::codec::{EncodeBuffer, Misuse};
use crate::erts;
use crate::store::Codec;
use crate::{atoms, tables};
use rustler::{Env, Error, NifResult, Term};

/// The first byte of a key. No other kind of encoded term begins with it, see [`crate::codec`].
pub(crate) const ORDERED_KEY: u8 = 3;

const FLOAT: u8 = 0xc3;
const ATOM: u8 = 0xc4;
const TUPLE: u8 = 0xc5;
const MAP: u8 = 0xc6;
const NIL: u8 = 0xc7;
const LIST: u8 = 0xc8;
const BITSTRING: u8 = 0xc9;

/// A size of this value or more follows this byte in 4 bytes.
const LONG_SIZE: u8 = 0xff;

const TIE_INTEGER: u8 = 0;
const TIE_MINUS_ZERO: u8 = 1;
const TIE_FLOAT: u8 = 2;

/// How deeply the terms of a key may be nested. The tail of a list is not nested in it.
const DEPTH_MAX: u32 = 256;
/// Number of terms that are encoded on a normal scheduler. A larger key is encoded on a dirty one.
pub(crate) const TERMS_MAX: usize = 1_024;
/// Maximum length of a key that is decoded on a normal scheduler.
const DECODE_BYTES_MAX: usize = 8 << 10;

/// `ordered_key(Table, Term, IsPrefix)`: the bytes of a key of this table, or of a prefix of keys;
/// if the table is not an ordered table with codec `term`, `durable` for a key of a durable table,
/// else `encode`; `dirty` if the term is large.
#[rustler::nif]
fn ordered_key<'a>(env: Env<'a>, table: Term<'a>, term: Term<'a>, is_prefix: bool) -> Term<'a> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    match unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) if store.codec == Codec::OrderedTerm => {
            match encoded(env, term, is_prefix, TERMS_MAX) {
                Err(Misuse::Encode) => Misuse::Dirty.term(env),
                Err(misuse) => misuse.term(env),
                Ok(bytes) => bytes,
            }
        }
        Ok(store) if store.is_durable() && !is_prefix => Misuse::Durable.term(env),
        Ok(_) => Misuse::Encode.term(env),
        Err(misuse) => misuse.term(env),
    }
}

/// Like `ordered_key`, for a large term.
#[rustler::nif(schedule = "DirtyCpu")]
fn ordered_key_dirty<'a>(env: Env<'a>, term: Term<'a>, is_prefix: bool) -> Term<'a> {
    encoded(env, term, is_prefix, usize::MAX).unwrap_or_else(|misuse| misuse.term(env))
}

fn encoded<'a>(
    env: Env<'a>,
    term: Term<'a>,
    is_prefix: bool,
    terms_max: usize,
) -> Result<Term<'a>, Misuse> {
    let mut buffer = EncodeBuffer::new();
    let (raw_env, raw) = (env.as_c_arg(), term.as_c_arg());
    let bytes = buffer.unfilled();
    // SAFETY: the term belongs to the present call.
    unsafe {
        if is_prefix {
            encode_prefix(raw_env, raw, terms_max, bytes)?;
        } else {
            encode(raw_env, raw, terms_max, bytes)?;
        }
        Ok(Term::new(env, crate::values::copied(raw_env, bytes)))
    }
}

/// `ordered_term(Bytes)`: the term of a key's bytes, at most [`DECODE_BYTES_MAX`]. Raises `badarg`
/// if there are more, or if they do not encode a key: any term may be a key.
#[rustler::nif]
fn ordered_term<'a>(env: Env<'a>, bytes: Term<'a>) -> NifResult<Term<'a>> {
    decoded(env, bytes, DECODE_BYTES_MAX)
}

/// Like `ordered_term`, for many bytes.
#[rustler::nif(schedule = "DirtyCpu")]
fn ordered_term_dirty<'a>(env: Env<'a>, bytes: Term<'a>) -> NifResult<Term<'a>> {
    decoded(env, bytes, usize::MAX)
}

fn decoded<'a>(env: Env<'a>, bytes: Term<'a>, bytes_max: usize) -> NifResult<Term<'a>> {
    // SAFETY: the term belongs to the present call.
    let key = unsafe { erts::binary(env.as_c_arg(), bytes.as_c_arg()) }.unwrap_or_default();
    if key.len() > bytes_max {
        return Err(Error::BadArg);
    }
    let term = decode(env.as_c_arg(), key).ok_or(Error::BadArg)?;
    // SAFETY: the term was made in this environment.
    Ok(unsafe { Term::new(env, term) })
}
