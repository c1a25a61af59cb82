//! Counters of fixed width (Kyoto Tycoon's increment and increment_double).
//!
//! ```text
//!  word       8 bytes   i64
//!  fraction  16 bytes   i64 integer part | i64 fraction in units of 10^-15
//!
//!  1.5       (1, 500000000000000)        -1.5      (-1, -500000000000000)
//!  infinity  (i64::MAX, 0)               -infinity (i64::MIN, 0)
//!  NaN       (i64::MIN, i64::MIN)
//! ```
//!
//! All integers have their highest byte first. The parts of a fraction that is written here have
//! one sign; others are read as their sum. Fractions are added as whole numbers of units, so that
//! every machine comes to the same bytes.

use crate::record::{is_past, resolve};
use crate::{Error, Expires, Origin, Refusal, Reply};
use todana_table::{Entry, Full, Keyspace, Meta, Slot};

/// Units of a fraction in one.
const UNITS: i128 = 1_000_000_000_000_000;

/// increment. Wraps around.
pub(crate) fn increment_word<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    delta: i64,
    origin: Origin<i64>,
    written: Written,
    reply: &mut R,
) {
    let step = Step { delta, only_looks: delta == 0, origin, written };
    match step.take(space, key) {
        Ok(number) => reply.integer(number),
        Err(unchanged) => unchanged.tell(reply),
    }
}

/// increment_double. Delta and origin are doubles, as bits.
pub(crate) fn increment_fraction<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    delta_bits: u64,
    origin: Origin<u64>,
    written: Written,
    reply: &mut R,
) {
    let origin = match origin {
        Origin::Refuse => Origin::Refuse,
        Origin::Set => Origin::Set,
        Origin::From(bits) => Origin::From(Fraction::of(f64::from_bits(bits))),
    };
    let delta = f64::from_bits(delta_bits);
    let step = Step { delta: Fraction::of(delta), only_looks: delta == 0.0, origin, written };
    match step.take(space, key) {
        Ok(sum) => reply.bytes(sum.to_bytes().as_ref()),
        Err(unchanged) => unchanged.tell(reply),
    }
}

/// When a counter is written, and the expiry it is written with.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) now_ms: u64,
    pub(crate) expires: Expires,
}

/// A number that is stored as bytes of fixed length.
trait Counter: Copy {
    type Bytes: AsRef<[u8]>;

    /// `None` where the bytes are not as many as they should be.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    fn to_bytes(self) -> Self::Bytes;
    fn plus(self, delta: Self) -> Self;
}

/// One increment.
struct Step<C> {
    delta: C,
    /// There is nothing to add: a record stays as it is, its expiry too.
    only_looks: bool,
    origin: Origin<C>,
    written: Written,
}

/// Why a counter was not changed.
enum Unchanged {
    Absent,
    NotACounter,
    Full,
}

impl Unchanged {
    fn tell<R: Reply>(self, reply: &mut R) {
        match self {
            Unchanged::Absent => reply.refused(Refusal::Absent),
            Unchanged::NotACounter => reply.error(Error::NotACounter),
            Unchanged::Full => reply.error(Error::Full),
        }
    }
}

impl From<Full> for Unchanged {
    fn from(_: Full) -> Unchanged {
        Unchanged::Full
    }
}

impl<C: Counter> Step<C> {
    /// The number that the record has afterwards.
    fn take<K: Keyspace>(&self, space: &K, key: &[u8]) -> Result<C, Unchanged> {
        space.update(key, self.written.now_ms, |slot| {
            let old = match slot.entry() {
                Some(entry) => Some(C::from_bytes(entry.value()).ok_or(Unchanged::NotACounter)?),
                None => None,
            };
            let new = match (self.origin, old) {
                (Origin::Set, _) => self.delta,
                (_, Some(old)) if self.only_looks => return Ok(old),
                (_, Some(old)) => old.plus(self.delta),
                (Origin::From(base), None) => base.plus(self.delta),
                (Origin::Refuse, None) => return Err(Unchanged::Absent),
            };
            self.put(slot, new)?;
            Ok(new)
        })
    }

    fn put(&self, slot: &mut Slot<'_>, number: C) -> Result<(), Full> {
        let entry = slot.entry();
        let expires_at_ms = resolve(self.written.expires, entry.as_ref());
        let old = entry.as_ref().map_or_else(Meta::default, Entry::meta);
        slot.put(&[number.to_bytes().as_ref()], Meta { expires_at_ms, ..old })?;
        if is_past(expires_at_ms, self.written.now_ms) {
            slot.remove();
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

    fn plus(self, delta: i64) -> i64 {
        self.wrapping_add(delta)
    }
}

/// A number with fifteen decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fraction {
    NotANumber,
    Infinite {
        negative: bool,
    },
    /// In units. Its integer part is less than that of infinity.
    Units(i128),
}

impl Fraction {
    /// The nearest.
    fn of(number: f64) -> Fraction {
        if number.is_nan() {
            return Fraction::NotANumber;
        }
        // 2^63 and more do not fit the integer part; what is less has one that is exact.
        if number.abs() >= -(i64::MIN as f64) {
            return Fraction::Infinite { negative: number < 0.0 };
        }
        let units = (number.fract() * UNITS as f64).round() as i128;
        Fraction::of_units(number.trunc() as i128 * UNITS + units)
    }

    fn of_units(units: i128) -> Fraction {
        let integer = units / UNITS;
        if integer >= i128::from(i64::MAX) {
            Fraction::Infinite { negative: false }
        } else if integer <= i128::from(i64::MIN) {
            Fraction::Infinite { negative: true }
        } else {
            Fraction::Units(units)
        }
    }
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
            (integer, fraction) => {
                Fraction::of_units(i128::from(integer) * UNITS + i128::from(fraction))
            }
        })
    }

    fn to_bytes(self) -> [u8; 16] {
        let (integer, fraction) = match self {
            Fraction::NotANumber => (i64::MIN, i64::MIN),
            Fraction::Infinite { negative: true } => (i64::MIN, 0),
            Fraction::Infinite { negative: false } => (i64::MAX, 0),
            Fraction::Units(units) => ((units / UNITS) as i64, (units % UNITS) as i64),
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&integer.to_be_bytes());
        bytes[8..].copy_from_slice(&fraction.to_be_bytes());
        bytes
    }

    /// Infinity and NaN stay what they are, whatever is added.
    fn plus(self, delta: Fraction) -> Fraction {
        match (self, delta) {
            (Fraction::Units(units), Fraction::Units(delta)) => Fraction::of_units(units + delta),
            (Fraction::Units(_), delta) => delta,
            (sticky, _) => sticky,
        }
    }
}
