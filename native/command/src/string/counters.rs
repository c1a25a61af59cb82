//! Counters of fixed width (Kyoto Tycoon's increment and increment_double).
//!
//! ```text
//!  binary     8 bytes   i64
//!  fraction  16 bytes   i64 integer part | i64 fraction in units of 10^-15
//!
//!  1.5       (1, 500000000000000)        -1.5      (-1, -500000000000000)
//!  infinity  (i64::MAX, 0)               -infinity (i64::MIN, 0)
//!  NaN       (i64::MIN, i64::MIN)
//! ```
//!
//! All integers are big-endian. The two parts are added separately, and only a fraction of one or
//! more is carried, as in Kyoto Tycoon: 1 and then -0.25 are stored as (1, -250000000000000).
//! Fractions are truncated after fifteen places, in the arithmetic of an x87's 64 bits on every
//! machine.

use crate::record::{is_past, resolve};
use crate::{Error, Expires, Origin, Refusal, Reply};
use todana_table::{Entry, Full, Keyspace, LockedKey, Meta};

/// Units of the fraction in one.
const UNITS: i64 = 1_000_000_000_000_000;

/// increment. Wraps around.
pub(crate) fn increment_word<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    delta: i64,
    origin: Origin<i64>,
    written: Written,
    reply: &mut R,
) {
    let origin = match origin {
        Origin::From(number) => Origin::From(number.wrapping_add(delta)),
        origin => origin,
    };
    let step = Increment { delta, only_looks: delta == 0, origin, written };
    match step.take(space, key) {
        Ok(number) => reply.integer(number),
        Err(unchanged) => unchanged.write(reply),
    }
}

/// increment_double. Delta and origin are the bits of doubles.
pub(crate) fn increment_fraction<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    delta_bits: u64,
    origin: Origin<u64>,
    written: Written,
    reply: &mut R,
) {
    let delta = f64::from_bits(delta_bits);
    let origin = match origin {
        Origin::Refuse => Origin::Refuse,
        Origin::Set => Origin::Set,
        Origin::From(bits) if f64::from_bits(bits).is_nan() => Origin::Refuse,
        Origin::From(bits) => Origin::From(Fraction::of(f64::from_bits(bits) + delta)),
    };
    let step = Increment { delta: Fraction::of(delta), only_looks: delta == 0.0, origin, written };
    match step.take(space, key) {
        Ok(sum) => reply.bytes(sum.to_bytes().as_ref()),
        Err(unchanged) => unchanged.write(reply),
    }
}

/// Whether a counter is written, and its expiry.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) now_ms: u64,
    pub(crate) expires: Expires,
}

/// A number stored as bytes of fixed length.
trait Counter: Copy {
    type Bytes: AsRef<[u8]>;

    /// `None` if the bytes do not have the right length.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    fn to_bytes(self) -> Self::Bytes;
    /// The sum, or `None` if no delta changes the number.
    fn plus(self, delta: Self) -> Option<Self>;
}

/// One increment.
struct Increment<C> {
    delta: C,
    /// The delta is zero: a record, including its expiry, stays unchanged.
    only_looks: bool,
    /// The initial value of a missing counter.
    origin: Origin<C>,
    written: Written,
}

/// Why a counter was not changed.
enum Unchanged {
    Absent,
    Failed(Error),
}

impl Unchanged {
    fn write<R: Reply>(self, reply: &mut R) {
        match self {
            Unchanged::Absent => reply.refused(Refusal::Absent),
            Unchanged::Failed(error) => reply.error(error),
        }
    }
}

impl<E: Into<Error>> From<E> for Unchanged {
    fn from(error: E) -> Unchanged {
        Unchanged::Failed(error.into())
    }
}

impl<C: Counter> Increment<C> {
    /// Returns the number that the record has afterwards.
    fn take<K: Keyspace>(&self, space: &K, key: &[u8]) -> Result<C, Unchanged> {
        space.update(key, self.written.now_ms, |locked| {
            let old = match locked.entry() {
                Some(entry) => Some(C::from_bytes(entry.text()?).ok_or(Error::NotACounter)?),
                None => None,
            };
            let new = match (self.origin, old) {
                (Origin::Set, _) => self.delta,
                (_, Some(old)) if self.only_looks => return Ok(old),
                (_, Some(old)) => match old.plus(self.delta) {
                    Some(sum) => sum,
                    None => return Ok(old),
                },
                (Origin::From(number), None) => number,
                (Origin::Refuse, None) => return Err(Unchanged::Absent),
            };
            self.put(locked, new)?;
            Ok(new)
        })
    }

    fn put(&self, locked: &mut LockedKey<'_>, number: C) -> Result<(), Full> {
        let entry = locked.entry();
        let expires_at_ms = resolve(self.written.expires, entry.as_ref(), self.written.now_ms);
        let old = entry.as_ref().map_or_else(Meta::default, Entry::meta);
        locked.put(&[number.to_bytes().as_ref()], Meta { expires_at_ms, ..old })?;
        if is_past(expires_at_ms, self.written.now_ms) {
            locked.remove();
        }
        Ok(())
    }
}

impl Counter for i64 {
    type Bytes = [u8; 8];

    fn from_bytes(bytes: &[u8]) -> Option<i64> {
        bytes.try_into().ok().map(i64::from_be_bytes)
    }

    fn to_bytes(self) -> [u8; 8] {
        self.to_be_bytes()
    }

    fn plus(self, delta: i64) -> Option<i64> {
        Some(self.wrapping_add(delta))
    }
}

/// A number with fifteen decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fraction {
    NotANumber,
    Infinite {
        negative: bool,
    },
    /// The integer part is not one that stands for an infinity or NaN.
    Parts {
        integer: i64,
        units: i64,
    },
}

impl Fraction {
    fn of(number: f64) -> Fraction {
        if number.is_nan() {
            return Fraction::NotANumber;
        }
        // 2^63 and larger numbers do not fit the integer part; smaller ones have an exact integer
        // part.
        if number.abs() >= -(i64::MIN as f64) {
            return Fraction::Infinite { negative: number < 0.0 };
        }
        Fraction::of_parts((number.trunc() as i64).into(), units(number.fract()))
    }

    fn of_parts(integer: i128, units: i64) -> Fraction {
        match i64::try_from(integer) {
            Ok(integer) if integer != i64::MIN && integer != i64::MAX => {
                Fraction::Parts { integer, units }
            }
            _ => Fraction::Infinite { negative: integer < 0 },
        }
    }
}

/// The units in a number between -1 and 1: their product in x87 arithmetic, rounded to 64 bits and
/// then truncated.
fn units(fract: f64) -> i64 {
    let bits = fract.abs().to_bits();
    let exponent = (bits >> 52) as u32;
    // Below this exponent, even the largest mantissa is less than half a unit.
    if exponent < 1023 - 52 {
        return 0;
    }
    // The number is mantissa / 2^scale; its product with the units has at most 103 bits.
    let (mantissa, scale) = (bits & ((1 << 52) - 1) | 1 << 52, 1023 + 52 - exponent);
    let product = u128::from(mantissa) * UNITS as u128;
    let spare = (128 - product.leading_zeros()).saturating_sub(64);
    let (kept, cut) = (product >> spare, product & ((1 << spare) - 1));
    let half = (1u128 << spare) >> 1;
    let rounds_up = cut > half || (cut == half && spare > 0 && kept & 1 == 1);
    let units = ((kept + u128::from(rounds_up)) << spare >> scale) as i64;
    if fract < 0.0 { -units } else { units }
}

impl Counter for Fraction {
    type Bytes = [u8; 16];

    fn from_bytes(bytes: &[u8]) -> Option<Fraction> {
        let (integer, fraction) = bytes.split_first_chunk::<8>()?;
        let parts = (i64::from_be_bytes(*integer), i64::from_bytes(fraction)?);
        Some(match parts {
            (i64::MIN, i64::MIN) => Fraction::NotANumber,
            (i64::MIN, _) => Fraction::Infinite { negative: true },
            (i64::MAX, _) => Fraction::Infinite { negative: false },
            (integer, units) => Fraction::Parts { integer, units },
        })
    }

    fn to_bytes(self) -> [u8; 16] {
        let (integer, fraction) = match self {
            Fraction::NotANumber => (i64::MIN, i64::MIN),
            Fraction::Infinite { negative: true } => (i64::MIN, 0),
            Fraction::Infinite { negative: false } => (i64::MAX, 0),
            Fraction::Parts { integer, units } => (integer, units),
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&integer.to_be_bytes());
        bytes[8..].copy_from_slice(&fraction.to_be_bytes());
        bytes
    }

    fn plus(self, delta: Fraction) -> Option<Fraction> {
        let Fraction::Parts { integer, units } = self else { return None };
        let Fraction::Parts { integer: more, units: more_units } = delta else {
            return Some(delta);
        };
        let mut integer = i128::from(integer) + i128::from(more);
        let mut sum = i128::from(units) + i128::from(more_units);
        let one = i128::from(UNITS);
        if sum >= one {
            (integer, sum) = (integer + 1, sum - one);
        }
        // Kyoto Tycoon lets the sum wrap around. Todana carries its whole part.
        let units = match i64::try_from(sum) {
            Ok(units) => units,
            Err(_) => {
                integer += sum / one;
                (sum % one) as i64
            }
        };
        Some(Fraction::of_parts(integer, units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_cut_off() {
        for (fract, expected) in [
            (0.0, 0),
            (0.5, 500_000_000_000_000),
            (-0.25, -250_000_000_000_000),
            (0.1, 100_000_000_000_000),
            (0.3, 299_999_999_999_999),
            (-0.3, -299_999_999_999_999),
            (0.999_999_999_999_999_9, 999_999_999_999_999),
            (1e-15, 1),
            (9e-16, 0),
            (f64::MIN_POSITIVE, 0),
            (5e-324, 0),
        ] {
            assert_eq!(units(fract), expected, "{fract}");
        }
    }

    #[test]
    fn products_are_rounded_to_64_bits_before_they_are_cut_off() {
        // The exact product is less than 4147 by 2^-66.
        assert_eq!(units(4.147e-12), 4_147);
        assert_eq!(units(-1.237e-11), -12_370);
    }
}
