//! Numbers of any size as bytes that compare like their values.
//!
//! A number other than 0 is `1.f * 2^e`, where the bits of `f` do not end with a 0. An integer and
//! a float of the same value have the same bytes.
//!
//! ```text
//!   0          80
//!   positive   82 + e                   0 <= e < 64
//!              81, e as 2 bytes         e < 0 (the sign bit inverted)
//!              c2, e as 4 bytes         e >= 64
//!              then f, 7 bits a byte in the upper bits; the lowest bit is 0 in the last byte.
//!              From e = 1024 on, the zeroes at the end of f are there, too
//!   negative   like the positive number, every bit inverted
//! ```

const ZERO: u8 = 0x80;
/// Negative exponents.
const TINY: u8 = 0x81;
/// The exponent 0; the other exponents below [`SMALL_EXPONENTS`] follow.
const SMALL: u8 = 0x82;
const SMALL_EXPONENTS: u8 = 64;
/// Exponents from [`SMALL_EXPONENTS`] on.
const HUGE: u8 = SMALL + SMALL_EXPONENTS;

/// The sign bit of an exponent of 2 bytes.
const EXPONENT_SIGN: u16 = 0x8000;

const FLOAT_FRACTION_BITS: u32 = 52;
const FLOAT_EXPONENT_MIN: i32 = -1022;
const FLOAT_EXPONENT_MAX: i32 = 1023;
const FLOAT_EXPONENTS_END: usize = 1024;

/// Whether a byte begins a number.
pub(super) fn is_head(byte: u8) -> bool {
    (!HUGE..=HUGE).contains(&byte)
}

/// An integer of 64 bits, by its sign and its absolute value.
pub(super) fn write_integer(to: &mut Vec<u8>, negative: bool, magnitude: u64) {
    if magnitude == 0 {
        return to.push(ZERO);
    }
    let exponent = magnitude.ilog2();
    // Without the leading one, which may be the only bit.
    let fraction = magnitude.checked_shl(64 - exponent).unwrap_or(0);
    signed(to, negative, |to| {
        // It is below 64.
        to.push(SMALL + exponent as u8);
        write_fraction(to, fraction);
    });
}

/// A finite float.
pub(super) fn write_float(to: &mut Vec<u8>, float: f64) {
    let bits = float.to_bits();
    let stored = bits << 12;
    let (exponent, fraction) = match (bits >> FLOAT_FRACTION_BITS) & 0x7ff {
        0 if stored == 0 => return to.push(ZERO),
        // The leading one is among the bits of the fraction.
        0 => {
            let zeroes = stored.leading_zeros();
            let fraction = stored.checked_shl(zeroes + 1).unwrap_or(0);
            (FLOAT_EXPONENT_MIN - 1 - zeroes as i32, fraction)
        }
        biased => (biased as i32 - FLOAT_EXPONENT_MAX, stored),
    };
    signed(to, float.is_sign_negative(), |to| {
        match exponent {
            0..64 => to.push(SMALL + exponent as u8),
            64.. => {
                to.push(HUGE);
                to.extend_from_slice(&exponent.to_be_bytes());
            }
            _ => {
                to.push(TINY);
                to.extend_from_slice(&(exponent as i16 as u16 ^ EXPONENT_SIGN).to_be_bytes());
            }
        }
        write_fraction(to, fraction);
    });
}

/// An integer of more than 64 bits, by its sign and its absolute value (little-endian). No float
/// equals an integer of more than 1,024 bits; such an integer keeps its trailing zero bits, so that
/// a short key does not become a long number.
pub(super) fn write_big_integer(to: &mut Vec<u8>, negative: bool, magnitude: &[u8]) {
    let Some(top) = magnitude.iter().rposition(|byte| *byte != 0) else { return to.push(ZERO) };
    let magnitude = &magnitude[..=top];
    let exponent = top * 8 + magnitude[top].ilog2() as usize;
    if exponent < usize::from(SMALL_EXPONENTS) {
        let mut bytes = [0; 8];
        bytes[..magnitude.len()].copy_from_slice(magnitude);
        return write_integer(to, negative, u64::from_le_bytes(bytes));
    }
    // The number is not 0.
    let lowest_byte = magnitude.iter().position(|byte| *byte != 0).unwrap_or(0);
    let lowest = lowest_byte * 8 + magnitude[lowest_byte].trailing_zeros() as usize;
    signed(to, negative, |to| {
        to.push(HUGE);
        // A key whose exponent needs more bits would be too long.
        to.extend_from_slice(&(exponent as u32).to_be_bytes());
        // Bits of the fraction that are not written yet.
        let mut left = exponent;
        loop {
            let group = bits_below(magnitude, left);
            left = left.saturating_sub(7);
            let more = left > if exponent < FLOAT_EXPONENTS_END { lowest } else { 0 };
            to.push(group << 1 | u8::from(more));
            if !more {
                break;
            }
        }
    });
}

/// The 7 bits of a number below the given position, padded with zeroes.
fn bits_below(magnitude: &[u8], end: usize) -> u8 {
    let start = end.saturating_sub(7);
    let low = magnitude[start / 8];
    let high = magnitude.get(start / 8 + 1).copied().unwrap_or(0);
    let bits = u16::from_le_bytes([low, high]) >> (start % 8);
    let kept = end - start;
    ((bits & ((1 << kept) - 1)) << (7 - kept)) as u8
}

fn signed(to: &mut Vec<u8>, negative: bool, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    write(to);
    if negative {
        to[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// The fraction's bits begin at the highest bit.
fn write_fraction(to: &mut Vec<u8>, mut fraction: u64) {
    loop {
        let group = (fraction >> 57) as u8;
        fraction <<= 7;
        let more = fraction != 0;
        to.push(group << 1 | u8::from(more));
        if !more {
            break;
        }
    }
}

/// A number in a key.
pub(super) struct Number<'k> {
    pub(super) negative: bool,
    /// None means 0.
    exponent: Option<i32>,
    /// The fraction, as it is in the key.
    groups: &'k [u8],
}

/// An absolute value.
pub(super) enum Magnitude {
    Small(u64),
    /// Little-endian.
    Big(Vec<u8>),
}

impl<'k> Number<'k> {
    /// The number at the start, and the bytes after it.
    pub(super) fn read(bytes: &'k [u8]) -> Option<(Number<'k>, &'k [u8])> {
        let (&head, rest) = bytes.split_first()?;
        if head == ZERO {
            return Some((Number { negative: false, exponent: None, groups: &[] }, rest));
        }
        let negative = head < ZERO;
        let inverted = if negative { u8::MAX } else { 0 };
        let (exponent, rest) = match head ^ inverted {
            TINY => {
                let (bytes, rest) = rest.split_first_chunk::<2>()?;
                let bytes = bytes.map(|byte| byte ^ inverted);
                (i32::from((u16::from_be_bytes(bytes) ^ EXPONENT_SIGN) as i16), rest)
            }
            HUGE => {
                let (bytes, rest) = rest.split_first_chunk::<4>()?;
                (i32::from_be_bytes(bytes.map(|byte| byte ^ inverted)), rest)
            }
            head => (i32::from(head.checked_sub(SMALL)?), rest),
        };
        let last = rest.iter().position(|byte| (byte ^ inverted) & 1 == 0)?;
        let (groups, rest) = rest.split_at(last + 1);
        Some((Number { negative, exponent: Some(exponent), groups }, rest))
    }

    fn group(&self, at: usize) -> u8 {
        let byte = self.groups[at];
        (if self.negative { !byte } else { byte }) >> 1
    }

    /// Bits of the fraction up to the last one that is set.
    fn fraction_bits(&self) -> usize {
        let Some(last) = self.groups.len().checked_sub(1) else { return 0 };
        match self.group(last) {
            0 => 7 * last,
            group => 7 * last + 7 - group.trailing_zeros() as usize,
        }
    }

    /// Whether an integer has this value.
    pub(super) fn is_integral(&self) -> bool {
        match self.exponent {
            None => true,
            Some(exponent) => usize::try_from(exponent).is_ok_and(|e| e >= self.fraction_bits()),
        }
    }

    /// The first 64 bits of the fraction, from the highest bit on.
    fn fraction(&self) -> u64 {
        let mut fraction = 0;
        for at in 0..self.groups.len().min(10) {
            let group = u64::from(self.group(at)) << 57;
            fraction |= group >> (7 * at);
        }
        fraction
    }

    /// The absolute value of an integral number. None if the bytes do not encode a key.
    pub(super) fn magnitude(&self) -> Option<Magnitude> {
        let Some(exponent) = self.exponent else { return Some(Magnitude::Small(0)) };
        let exponent = usize::try_from(exponent).ok()?;
        if exponent < usize::from(SMALL_EXPONENTS) {
            let fraction = self.fraction().checked_shr(64 - exponent as u32).unwrap_or(0);
            return Some(Magnitude::Small(1 << exponent | fraction));
        }
        // No longer than the key, or than the largest float.
        if exponent >= FLOAT_EXPONENTS_END && self.groups.len() != exponent.div_ceil(7) {
            return None;
        }
        let mut magnitude = vec![0; exponent / 8 + 1];
        set_bits(&mut magnitude, exponent, 1);
        for at in 0..self.groups.len() {
            let (end, group) = (exponent.checked_sub(7 * at)?, self.group(at));
            match end.checked_sub(7) {
                Some(start) => set_bits(&mut magnitude, start, group),
                None => set_bits(&mut magnitude, 0, group >> (7 - end)),
            }
        }
        Some(Magnitude::Big(magnitude))
    }

    /// The number as a float, if it was one. None if the bytes do not encode a key.
    pub(super) fn float(&self) -> Option<f64> {
        let Some(exponent) = self.exponent else { return Some(0.0) };
        let fraction = self.fraction() >> 12;
        let bits = if exponent >= FLOAT_EXPONENT_MIN {
            let biased = u64::try_from(exponent + FLOAT_EXPONENT_MAX).ok()?;
            biased << FLOAT_FRACTION_BITS | fraction
        } else {
            let shift = u32::try_from(FLOAT_EXPONENT_MIN - exponent).ok()?;
            (1 << FLOAT_FRACTION_BITS | fraction).checked_shr(shift)?
        };
        let float = f64::from_bits(bits);
        float.is_finite().then_some(if self.negative { -float } else { float })
    }
}

/// Sets bits from a position on.
fn set_bits(magnitude: &mut [u8], start: usize, bits: u8) {
    let [low, high] = (u16::from(bits) << (start % 8)).to_le_bytes();
    magnitude[start / 8] |= low;
    if high != 0 {
        magnitude[start / 8 + 1] |= high;
    }
}
