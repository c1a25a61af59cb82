//! Decodes the bytes of a key to its term.

use super::number::{Magnitude, Number};
use super::text::Text;
use super::*;
use crate::erts::{Raw, RawEnv};
use crate::values;

/// The term of a key's bytes. None if they do not encode a key.
pub(crate) fn decode(env: RawEnv, key: &[u8]) -> Option<Raw> {
    let (&ORDERED_KEY, bytes) = key.split_first()? else { return None };
    let mut decoder = Decoder { env, rest: bytes, ties: &[] };
    let term = decoder.term(true, 0)?;
    let ties = decoder.rest;
    if ties.is_empty() {
        return Some(term);
    }
    // Some of the numbers are floats. Their ties follow the term, whose end is known only now.
    Decoder { env, rest: bytes, ties }.term(true, 0)
}

struct Decoder<'k> {
    env: RawEnv,
    rest: &'k [u8],
    /// The ties of the following numbers.
    ties: &'k [u8],
}

impl Decoder<'_> {
    /// `by_value`: the term is not within a key of a map.
    fn term(&mut self, by_value: bool, depth: u32) -> Option<Raw> {
        if depth > DEPTH_MAX {
            return None;
        }
        let env = self.env;
        let (&head, rest) = self.rest.split_first()?;
        if number::is_head(head) {
            return self.number(by_value);
        }
        self.rest = rest;
        match head {
            FLOAT => {
                let (bytes, rest) = rest.split_first_chunk::<8>()?;
                self.rest = rest;
                let sortable = u64::from_be_bytes(*bytes);
                let bits = if sortable >> 63 == 1 { sortable ^ 1 << 63 } else { !sortable };
                erts::make_f64(env, f64::from_bits(bits))
            }
            ATOM => erts::make_atom(env, &self.text()?.bytes),
            TUPLE => {
                let elements = self.terms(by_value, depth)?;
                Some(erts::tuple(env, &elements))
            }
            MAP => {
                let rest = self.rest;
                let keys = self.terms(false, depth)?;
                let mut values = Vec::with_capacity(keys.len().min(rest.len()));
                for _ in 0..keys.len() {
                    values.push(self.term(by_value, depth + 1)?);
                }
                erts::map(env, &keys, &values)
            }
            NIL => Some(erts::nil(env)),
            LIST => self.list(by_value, depth),
            BITSTRING => {
                let text = self.text()?;
                let Some(bits) = text.bits_of_last else {
                    return Some(values::copied(env, &text.bytes));
                };
                let length = u32::try_from(text.bytes.len()).ok()?.to_be_bytes();
                let head = [131, 77, length[0], length[1], length[2], length[3], bits];
                erts::from_external(env, &[&head, &text.bytes])
            }
            _ => None,
        }
    }

    /// A size, and as many terms.
    fn terms(&mut self, by_value: bool, depth: u32) -> Option<Vec<Raw>> {
        let (&size, rest) = self.rest.split_first()?;
        self.rest = rest;
        let mut size = usize::from(size);
        if size == usize::from(LONG_SIZE) {
            let (bytes, rest) = self.rest.split_first_chunk::<4>()?;
            self.rest = rest;
            size = usize::try_from(u32::from_be_bytes(*bytes)).ok()?;
        }
        // Each takes at least one byte.
        let mut terms = Vec::with_capacity(size.min(self.rest.len()));
        for _ in 0..size {
            terms.push(self.term(by_value, depth + 1)?);
        }
        Some(terms)
    }

    /// A list, without its first byte.
    fn list(&mut self, by_value: bool, depth: u32) -> Option<Raw> {
        let mut heads = vec![self.term(by_value, depth + 1)?];
        while let [LIST, rest @ ..] = self.rest {
            self.rest = rest;
            heads.push(self.term(by_value, depth + 1)?);
        }
        let tail = self.term(by_value, depth)?;
        Some(heads.iter().rev().fold(tail, |list, head| erts::cons(self.env, *head, list)))
    }

    fn text(&mut self) -> Option<Text<'_>> {
        let (text, rest) = Text::read(self.rest)?;
        self.rest = rest;
        Some(text)
    }

    fn number(&mut self, by_value: bool) -> Option<Raw> {
        let env = self.env;
        let (number, rest) = Number::read(self.rest)?;
        self.rest = rest;
        if !number.is_integral() {
            return erts::make_f64(env, number.float()?);
        }
        if by_value && let Some((&tie, ties)) = self.ties.split_first() {
            self.ties = ties;
            if tie == TIE_MINUS_ZERO {
                return erts::make_f64(env, -0.0);
            }
            if tie == TIE_FLOAT {
                return erts::make_f64(env, number.float()?);
            }
        }
        match number.magnitude()? {
            Magnitude::Small(magnitude) if !number.negative => Some(erts::make_u64(env, magnitude)),
            Magnitude::Small(magnitude) if magnitude <= 1 << 63 => {
                // This includes -2^63, which has no positive counterpart.
                Some(erts::make_i64(env, (magnitude as i64).wrapping_neg()))
            }
            Magnitude::Small(magnitude) => self.big(true, &magnitude.to_le_bytes()),
            Magnitude::Big(magnitude) => self.big(number.negative, &magnitude),
        }
    }

    fn big(&self, negative: bool, magnitude: &[u8]) -> Option<Raw> {
        let length = u32::try_from(magnitude.len()).ok()?.to_be_bytes();
        let sign = u8::from(negative);
        let head = [131, 111, length[0], length[1], length[2], length[3], sign];
        erts::from_external(self.env, &[&head, magnitude])
    }
}
