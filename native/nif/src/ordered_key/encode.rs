//! Encodes terms to bytes.

use super::*;
use crate::erts::{Raw, RawEnv};
use crate::store::KEY_BYTES_MAX;

/// Appends the bytes of a key. [`Misuse::Encode`] if it has more than `terms_max` terms.
///
/// # Safety
/// `env` and `term` belong to the present call.
pub(crate) unsafe fn encode(
    env: RawEnv,
    term: Raw,
    terms_max: usize,
    to: &mut Vec<u8>,
) -> Result<(), Misuse> {
    to.reserve(INITIAL_BYTES);
    to.push(ORDERED_KEY);
    let mut encoder = Encoder::new(env, to, terms_max);
    // SAFETY: see the function.
    unsafe { encoder.term(term, Numbers::ByValue, 0)? };
    let ties = encoder.ties;
    to.extend_from_slice(&ties);
    check_length(to)
}

/// Appends the bytes with which all keys that match a prefix begin. A prefix is a term whose last
/// parts are the atom `_`, or the first bytes of a binary.
///
/// # Safety
/// `env` and `term` belong to the present call.
pub(crate) unsafe fn encode_prefix(
    env: RawEnv,
    term: Raw,
    terms_max: usize,
    to: &mut Vec<u8>,
) -> Result<(), Misuse> {
    to.push(ORDERED_KEY);
    // SAFETY: see the function.
    if let Some(bytes) = unsafe { erts::binary(env, term) } {
        to.push(BITSTRING);
        if bytes.len() <= KEY_BYTES_MAX {
            text::write_open(to, bytes);
        }
        return check_length(to).and(if bytes.len() > KEY_BYTES_MAX { too_long() } else { Ok(()) });
    }
    let mut encoder = Encoder::new(env, to, terms_max);
    encoder.wildcard = Some(Wildcard { atom: atoms::wildcard().as_c_arg(), is_met: false });
    // SAFETY: see the function.
    unsafe { encoder.term(term, Numbers::ByValue, 0)? };
    if encoder.wildcard.is_none_or(|wildcard| wildcard.is_met) {
        check_length(to)
    } else {
        Err(Misuse::Argument(2, atoms::not_a_prefix()))
    }
}

/// Most keys fit into these bytes.
const INITIAL_BYTES: usize = 64;

/// Copying this many bytes takes as long as encoding a term. The bytes of a map that is inside the
/// key of a map are copied once for each map around it.
const COPIED_BYTES_PER_TERM: usize = 2 << 10;

/// How numbers compare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// Integers and floats by value, then by their ties.
    ByValue,
    /// All integers before all floats: within the keys of a map.
    ByType,
}

/// The atom that matches any term in a prefix.
#[derive(Clone, Copy)]
struct Wildcard {
    atom: Raw,
    /// Whether a wildcard was found: only wildcards may follow.
    is_met: bool,
}

struct Encoder<'a> {
    env: RawEnv,
    to: &'a mut Vec<u8>,
    ties: Vec<u8>,
    /// Number of ties of 0 since the last other tie.
    integers: usize,
    /// Terms that may still be encoded. [`COPIED_BYTES_PER_TERM`] count as one.
    terms_left: usize,
    is_dirty: bool,
    wildcard: Option<Wildcard>,
}

impl<'a> Encoder<'a> {
    fn new(env: RawEnv, to: &'a mut Vec<u8>, terms_max: usize) -> Encoder<'a> {
        Encoder {
            env,
            to,
            ties: Vec::new(),
            integers: 0,
            terms_left: terms_max,
            is_dirty: terms_max == usize::MAX,
            wildcard: None,
        }
    }

    /// # Safety
    /// The term belongs to the present call.
    unsafe fn term(&mut self, mut term: Raw, numbers: Numbers, depth: u32) -> Result<(), Misuse> {
        if depth > DEPTH_MAX {
            return Err(Misuse::Argument(2, atoms::key_too_deep()));
        }
        let env = self.env;
        // One iteration for each cell of a list.
        loop {
            self.count_terms(1)?;
            if self.to.len() > KEY_BYTES_MAX {
                return too_long();
            }
            if let Some(wildcard) = &mut self.wildcard {
                if term == wildcard.atom {
                    wildcard.is_met = true;
                    return Ok(());
                }
                if wildcard.is_met {
                    return Err(Misuse::Argument(2, atoms::not_a_prefix()));
                }
            }
            // SAFETY: see the function.
            if let Some(elements) = unsafe { erts::elements(env, term) } {
                self.to.push(TUPLE);
                self.size(elements.len())?;
                for element in elements {
                    // SAFETY: see the function.
                    unsafe { self.term(*element, numbers, depth + 1)? };
                }
            } else if erts::is_number(env, term) {
                self.number(term, numbers)?;
            } else if erts::is_atom(env, term) {
                self.atom(term);
            } else if let Some((head, tail)) = erts::uncons(env, term) {
                self.to.push(LIST);
                // SAFETY: see the function.
                unsafe { self.term(head, numbers, depth + 1)? };
                term = tail;
                continue;
            } else if erts::is_nil(env, term) {
                self.to.push(NIL);
            } else if erts::is_map(env, term) {
                // SAFETY: see the function.
                unsafe { self.map(term, numbers, depth)? };
            } else {
                // SAFETY: see the function.
                unsafe { self.bitstring(term)? };
            }
            return Ok(());
        }
    }

    /// [`Misuse::Encode`] if no terms are left.
    #[inline]
    fn count_terms(&mut self, terms: usize) -> Result<(), Misuse> {
        self.terms_left = self.terms_left.checked_sub(terms).ok_or(Misuse::Encode)?;
        Ok(())
    }

    fn size(&mut self, size: usize) -> Result<(), Misuse> {
        // Each part takes at least one byte.
        if size > KEY_BYTES_MAX {
            return too_long();
        }
        match u8::try_from(size) {
            Ok(size) if size < LONG_SIZE => self.to.push(size),
            _ => {
                self.to.push(LONG_SIZE);
                self.to.extend_from_slice(&(size as u32).to_be_bytes());
            }
        }
        Ok(())
    }

    // Not inlined: otherwise each frame of `term` would contain the buffer.
    #[inline(never)]
    fn atom(&mut self, term: Raw) {
        self.to.push(ATOM);
        let mut name = [0; erts::ATOM_BYTES_MAX];
        text::write(self.to, erts::atom_name(self.env, term, &mut name));
    }

    fn tie(&mut self, tie: u8) {
        if tie == TIE_INTEGER {
            self.integers += 1;
        } else {
            self.ties.resize(self.ties.len() + self.integers, TIE_INTEGER);
            self.integers = 0;
            self.ties.push(tie);
        }
    }

    fn number(&mut self, term: Raw, numbers: Numbers) -> Result<(), Misuse> {
        if let Some(number) = erts::get_i64(self.env, term) {
            number::write_integer(self.to, number < 0, number.unsigned_abs());
        } else if let Some(number) = erts::get_u64(self.env, term) {
            number::write_integer(self.to, false, number);
        } else if let Some(float) = erts::get_f64(self.env, term) {
            self.float(float, numbers);
            return Ok(());
        } else {
            self.big_integer(term)?;
        }
        if numbers == Numbers::ByValue {
            self.tie(TIE_INTEGER);
        }
        Ok(())
    }

    /// The BEAM exposes an integer of more than 64 bits only in the external format, with any
    /// length.
    #[cold]
    fn big_integer(&mut self, term: Raw) -> Result<(), Misuse> {
        let external = self.external(term)?;
        let (negative, magnitude) = match *external.as_slice() {
            [131, 110, _, sign, ref magnitude @ ..] => (sign != 0, magnitude),
            [131, 111, _, _, _, _, sign, ref magnitude @ ..] => (sign != 0, magnitude),
            _ => return too_long(),
        };
        if magnitude.len() > KEY_BYTES_MAX {
            return too_long();
        }
        number::write_big_integer(self.to, negative, magnitude);
        Ok(())
    }

    fn float(&mut self, float: f64, numbers: Numbers) {
        if numbers == Numbers::ByType {
            let bits = float.to_bits();
            let sortable = if float.is_sign_negative() { !bits } else { bits | 1 << 63 };
            self.to.push(FLOAT);
            self.to.extend_from_slice(&sortable.to_be_bytes());
            return;
        }
        number::write_float(self.to, float);
        if float == 0.0 && float.is_sign_negative() {
            self.tie(TIE_MINUS_ZERO);
        } else if float.fract() == 0.0 {
            self.tie(TIE_FLOAT);
        }
    }

    /// A bitstring. Any other term has no order: an identifier, a fun, a native record, and what
    /// later versions of Erlang add.
    ///
    /// # Safety
    /// The term belongs to the present call.
    unsafe fn bitstring(&mut self, term: Raw) -> Result<(), Misuse> {
        // SAFETY: see the function.
        if let Some(bytes) = unsafe { erts::binary(self.env, term) } {
            if bytes.len() > KEY_BYTES_MAX {
                return too_long();
            }
            self.to.push(BITSTRING);
            text::write(self.to, bytes);
            return Ok(());
        }
        let no_order = Err(Misuse::Argument(2, atoms::no_order()));
        if erts::is_identifier(self.env, term) || erts::is_fun(self.env, term) {
            return no_order;
        }
        // A bitstring that does not end at a byte boundary; only the external format exposes its
        // bits, and whether the term is a bitstring.
        let external = self.external(term)?;
        match *external.as_slice() {
            [131, 77, _, _, _, _, bits, ref bytes @ ..] if bytes.len() <= KEY_BYTES_MAX => {
                self.to.push(BITSTRING);
                text::write_bits(self.to, bytes, bits);
                Ok(())
            }
            [131, 77, ..] => too_long(),
            _ => no_order,
        }
    }

    /// The external format of a term of any length; only for dirty schedulers.
    fn external(&self, term: Raw) -> Result<Vec<u8>, Misuse> {
        if !self.is_dirty {
            return Err(Misuse::Encode);
        }
        erts::to_external(self.env, term).ok_or(Misuse::Argument(2, atoms::key_too_long()))
    }

    /// # Safety
    /// The term belongs to the present call.
    unsafe fn map(&mut self, map: Raw, numbers: Numbers, depth: u32) -> Result<(), Misuse> {
        // Within a map, `_` is an ordinary atom.
        let wildcard = self.wildcard.take();
        self.to.push(MAP);
        self.size(erts::map_size(self.env, map))?;
        let start = self.to.len();
        let mut pairs = Vec::new();
        let mut result = Ok(());
        erts::each_pair(self.env, map, |key, value| {
            let key_start = self.to.len() - start;
            // SAFETY: see the function.
            result = unsafe { self.term(key, Numbers::ByType, depth + 1) };
            pairs.push((key_start..self.to.len() - start, value));
            result.is_ok()
        });
        result?;
        self.count_terms((self.to.len() - start) / COPIED_BYTES_PER_TERM)?;
        let keys = self.to.split_off(start);
        pairs.sort_unstable_by(|(one, _), (other, _)| keys[one.clone()].cmp(&keys[other.clone()]));
        for (key, _) in &pairs {
            self.to.extend_from_slice(&keys[key.clone()]);
        }
        for (_, value) in pairs {
            // SAFETY: see the function.
            unsafe { self.term(value, numbers, depth + 1)? };
        }
        self.wildcard = wildcard;
        Ok(())
    }
}

fn check_length(bytes: &[u8]) -> Result<(), Misuse> {
    if bytes.len() > KEY_BYTES_MAX { too_long() } else { Ok(()) }
}

#[cold]
fn too_long<T>() -> Result<T, Misuse> {
    Err(Misuse::Argument(2, atoms::key_too_long()))
}
