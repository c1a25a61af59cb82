//! HyperLogLogs: estimates of how many different elements were added.
//!
//! The value is Redis' string, byte for byte, so that it can be copied between the servers:
//!
//! ```text
//!   offset 0  "HYLL"
//!          4  encoding: 0 dense, 1 sparse      5  three bytes of 0
//!          8  the estimate as of its computation, lowest byte first; the highest bit means that
//!             elements were added since
//!         16  registers
//!
//!   dense     16,384 registers of 6 bits, lowest bit first: 12,288 bytes
//!   sparse    runs of registers, in order:
//!             00llllll            l + 1 registers of 0
//!             01llllll llllllll   l + 1 registers of 0, up to 16,384
//!             1vvvvvll            l + 1 registers of v + 1, up to 4 of at most 32
//! ```
//!
//! The lowest 14 bits of an element's hash select a register. It keeps the greatest number of
//! trailing zeroes, plus one, of the other 50 bits. A sparse value becomes dense when it would be
//! longer than [`SPARSE_BYTES_MAX`], or a register exceeds 32.
//!
//! The estimate is that of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches" (2017).

use crate::Error;

/// Registers, and the bits of the hash that select one.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;

/// Bits of the hash that are counted.
const COUNTED_BITS: u32 = 64 - INDEX_BITS;

/// Bits of a register.
const REGISTER_BITS: usize = 6;

/// The greatest number in a register.
const REGISTER_MAX: usize = (1 << REGISTER_BITS) - 1;

const MAGIC: &[u8] = b"HYLL";
const HEAD_BYTES: usize = 16;
const ENCODING_AT: usize = 4;
const ESTIMATE_AT: usize = 8;
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Bytes of a dense value, the longest there is.
pub(crate) const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;

/// The longest sparse value, without its head (Redis' hll-sparse-max-bytes).
const SPARSE_BYTES_MAX: usize = 3_000;

/// The longest runs.
const ZEROES_MAX: usize = 64;
const LONG_ZEROES_MAX: usize = 16_384;
const EQUALS_MAX: usize = 4;
const SPARSE_REGISTER_MAX: u8 = 32;

/// The seed of the elements' hash.
const SEED: u64 = 0xadc8_3b19;

/// All registers, one byte each.
pub(crate) type Registers = [u8; REGISTERS];

/// Registers of 0.
pub(crate) fn no_registers() -> Box<Registers> {
    Box::new([0; REGISTERS])
}

/// The register of an element, and the number that it must have at least.
pub(crate) fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let counted = hash >> INDEX_BITS | 1 << COUNTED_BITS;
    (hash as usize & (REGISTERS - 1), counted.trailing_zeros() as u8 + 1)
}

/// MurmurHash2 of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        let word = (word ^ word >> SHIFT).wrapping_mul(FACTOR);
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// A value in one of the two encodings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'v> {
    value: &'v [u8],
}

impl<'v> View<'v> {
    /// Checks the head; [`Error::NotASketch`] if it is another kind of value.
    pub(crate) fn of(value: &'v [u8]) -> Result<View<'v>, Error> {
        let is_known = value.starts_with(MAGIC)
            && match value.get(ENCODING_AT) {
                Some(&DENSE) => value.len() == DENSE_BYTES,
                Some(&SPARSE) => value.len() >= HEAD_BYTES,
                _ => false,
            };
        if is_known { Ok(View { value }) } else { Err(Error::NotASketch) }
    }

    pub(crate) fn is_dense(&self) -> bool {
        self.value[ENCODING_AT] == DENSE
    }

    /// The estimate in the head, unless elements were added since.
    pub(crate) fn known_estimate(&self) -> Option<u64> {
        let bytes: [u8; 8] = self.value[ESTIMATE_AT..HEAD_BYTES].try_into().ok()?;
        (self.value[STALE_AT] & STALE == 0).then_some(u64::from_le_bytes(bytes))
    }

    /// Raises each register to the value's.
    pub(crate) fn raise(&self, registers: &mut Registers) -> Result<(), Error> {
        let body = &self.value[HEAD_BYTES..];
        if self.is_dense() {
            for (register, at) in registers.iter_mut().zip(0..) {
                *register = (*register).max(dense(body, at));
            }
            return Ok(());
        }
        let mut first = 0;
        for run in runs(body) {
            let run = run.ok_or(Error::CorruptSketch)?;
            let end = first + run.length;
            let concerned = registers.get_mut(first..end).ok_or(Error::CorruptSketch)?;
            if run.value > 0 {
                concerned.iter_mut().for_each(|register| *register = (*register).max(run.value));
            }
            first = end;
        }
        if first == REGISTERS { Ok(()) } else { Err(Error::CorruptSketch) }
    }
}

/// The dense register `at`.
fn dense(body: &[u8], at: usize) -> u8 {
    let bit = at * REGISTER_BITS;
    let low = body[bit / 8];
    let high = body.get(bit / 8 + 1).copied().unwrap_or(0);
    let word = u16::from_le_bytes([low, high]) >> (bit % 8);
    word as u8 & REGISTER_MAX as u8
}

fn set_dense(body: &mut [u8], at: usize, value: u8) {
    let bit = at * REGISTER_BITS;
    let (byte, shift) = (bit / 8, bit % 8);
    let mask = (REGISTER_MAX as u16) << shift;
    let [low, high] = (u16::from(value) << shift).to_le_bytes();
    let [low_mask, high_mask] = mask.to_le_bytes();
    body[byte] = body[byte] & !low_mask | low;
    if high_mask != 0 {
        body[byte + 1] = body[byte + 1] & !high_mask | high;
    }
}

/// A run of equal registers in a sparse value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    value: u8,
    length: usize,
    /// Bytes of its encoding.
    bytes: usize,
}

impl Run {
    /// The run at the front.
    fn of(body: &[u8]) -> Option<Run> {
        let (&first, rest) = body.split_first()?;
        Some(match first >> 6 {
            0 => Run { value: 0, length: usize::from(first) + 1, bytes: 1 },
            1 => {
                let length = usize::from(first & 0x3f) << 8 | usize::from(*rest.first()?);
                Run { value: 0, length: length + 1, bytes: 2 }
            }
            _ => {
                Run { value: (first >> 2 & 0x1f) + 1, length: usize::from(first & 3) + 1, bytes: 1 }
            }
        })
    }

    /// Appends a run.
    fn put(out: &mut Vec<u8>, value: u8, length: usize) {
        if length == 0 {
            return;
        }
        if value > 0 {
            out.push(0x80 | (value - 1) << 2 | (length - 1) as u8);
        } else if length <= ZEROES_MAX {
            out.push((length - 1) as u8);
        } else {
            let [high, low] = ((length - 1) as u16).to_be_bytes();
            out.extend_from_slice(&[0x40 | high, low]);
        }
    }
}

/// The runs of a sparse value; `None` where it ends within one.
fn runs(body: &[u8]) -> impl Iterator<Item = Option<Run>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let run = Run::of(rest);
        rest = &rest[run.map_or(rest.len(), |run| run.bytes)..];
        Some(run)
    })
}

/// The first run of a sparse value.
const START: (usize, usize) = (HEAD_BYTES, 0);

/// A value that is changed.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    value: Vec<u8>,
    /// Where the search for a register may begin in a sparse value: the offset of a run, and its
    /// first register. Registers are often changed in order.
    from: (usize, usize),
}

/// The run before a run, the run's place, and the run.
type Found = ((usize, usize), (usize, usize), Run);

impl Sketch {
    /// A value without elements.
    pub(crate) fn new() -> Sketch {
        let mut value = [MAGIC, &[SPARSE], &[0; HEAD_BYTES - ENCODING_AT - 1]].concat();
        Run::put(&mut value, 0, LONG_ZEROES_MAX);
        Sketch { value, from: START }
    }

    /// A copy of a value.
    pub(crate) fn of(value: &[u8]) -> Result<Sketch, Error> {
        View::of(value)?;
        Ok(Sketch { value: value.to_vec(), from: START })
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    fn is_dense(&self) -> bool {
        self.value[ENCODING_AT] == DENSE
    }

    /// Raises a register. Returns whether it was lower.
    pub(crate) fn raise(&mut self, at: usize, value: u8) -> Result<bool, Error> {
        if !self.is_dense() {
            if let Some(raised) = self.raise_sparse(at, value)? {
                return Ok(raised);
            }
            self.become_dense()?;
        }
        let body = &mut self.value[HEAD_BYTES..];
        let is_lower = dense(body, at) < value;
        if is_lower {
            set_dense(body, at, value);
        }
        Ok(is_lower)
    }

    /// Marks the estimate as out of date.
    pub(crate) fn note_change(&mut self) {
        self.value[STALE_AT] |= STALE;
    }

    /// Raises each register to these, and becomes dense if asked to.
    pub(crate) fn raise_all(&mut self, registers: &Registers, dense: bool) -> Result<(), Error> {
        if dense && !self.is_dense() {
            self.become_dense()?;
        }
        for (at, value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            self.raise(at, *value)?;
        }
        self.note_change();
        Ok(())
    }

    fn become_dense(&mut self) -> Result<(), Error> {
        let mut registers = no_registers();
        View { value: &self.value }.raise(&mut registers)?;
        self.value.truncate(HEAD_BYTES);
        self.value[ENCODING_AT] = DENSE;
        self.value.resize(DENSE_BYTES, 0);
        for (at, value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            set_dense(&mut self.value[HEAD_BYTES..], at, *value);
        }
        Ok(())
    }

    /// `None` if the value must become dense first.
    fn raise_sparse(&mut self, at: usize, value: u8) -> Result<Option<bool>, Error> {
        if value > SPARSE_REGISTER_MAX {
            return Ok(None);
        }
        let (before, (offset, first), run) = match self.find(self.from, at)? {
            // The run before it may be joined to it.
            (before, found, _) if before == found && before != START => self.find(START, at)?,
            found => found,
        };
        self.from = before;
        if run.value >= value {
            return Ok(Some(false));
        }
        let mut parts = Vec::with_capacity(5);
        Run::put(&mut parts, run.value, at - first);
        Run::put(&mut parts, value, 1);
        Run::put(&mut parts, run.value, first + run.length - at - 1);
        let bytes = self.value.len() - run.bytes + parts.len();
        if parts.len() > run.bytes && bytes > SPARSE_BYTES_MAX {
            return Ok(None);
        }
        self.value.splice(offset..offset + run.bytes, parts);
        self.join(before.0);
        Ok(Some(true))
    }

    /// The run of a register, and the run before it: both by offset and first register. The search
    /// begins at a run; it starts over if that is behind the register.
    fn find(&self, from: (usize, usize), at: usize) -> Result<Found, Error> {
        let (mut offset, mut first) = if from.1 > at { START } else { from };
        let mut before = (offset, first);
        loop {
            let run = self.value.get(offset..).and_then(Run::of).ok_or(Error::CorruptSketch)?;
            if at < first + run.length {
                return Ok((before, (offset, first), run));
            }
            before = (offset, first);
            (offset, first) = (offset + run.bytes, first + run.length);
        }
    }

    /// Joins equal neighbours among the five runs from `offset` on.
    fn join(&mut self, offset: usize) {
        let mut at = offset;
        for _ in 0..5 {
            let Some(run) = self.value.get(at..).and_then(Run::of) else { return };
            let next = self.value.get(at + run.bytes..).and_then(Run::of);
            match next {
                Some(next)
                    if run.value > 0
                        && next.value == run.value
                        && run.length + next.length <= EQUALS_MAX =>
                {
                    let mut joined = Vec::with_capacity(1);
                    Run::put(&mut joined, run.value, run.length + next.length);
                    self.value.splice(at..at + run.bytes + next.bytes, joined);
                }
                _ => at += run.bytes,
            }
        }
    }
}

/// The number of different elements that were added to these registers.
pub(crate) fn estimate(registers: &Registers) -> u64 {
    /// 1 / (2 ln 2)
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let mut histogram = [0_u32; REGISTER_MAX + 1];
    registers.iter().for_each(|register| histogram[usize::from(*register).min(REGISTER_MAX)] += 1);
    let all = REGISTERS as f64;
    let counted = COUNTED_BITS as usize;
    let mut z = all * tau((all - f64::from(histogram[counted + 1])) / all);
    for count in histogram[1..=counted].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += all * sigma(f64::from(histogram[0]) / all);
    (ALPHA * all * all / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(sketch: &Sketch) -> Box<Registers> {
        let mut registers = no_registers();
        View::of(sketch.value()).unwrap().raise(&mut registers).unwrap();
        registers
    }

    fn add(sketch: &mut Sketch, element: &[u8]) -> bool {
        let (at, value) = register_of(element);
        sketch.raise(at, value).unwrap()
    }

    #[test]
    fn both_encodings_have_the_registers_that_were_raised() {
        let mut sketch = Sketch::new();
        let mut model = no_registers();
        let mut was_sparse = 0;
        for number in 0..30_000_u32 {
            let element = number.to_string();
            let (at, value) = register_of(element.as_bytes());
            let raised = add(&mut sketch, element.as_bytes());
            assert_eq!(raised, model[at] < value);
            model[at] = model[at].max(value);
            was_sparse += usize::from(!sketch.is_dense());
            if number % 97 == 0 {
                assert_eq!(registers(&sketch), model, "{number}");
            }
        }
        assert!(sketch.is_dense() && was_sparse > 500);
        assert_eq!(sketch.value().len(), DENSE_BYTES);
        assert_eq!(registers(&sketch), model);
    }

    #[test]
    fn the_estimate_is_near_the_number_of_elements() {
        let mut sketch = Sketch::new();
        assert_eq!(estimate(&registers(&sketch)), 0);
        for number in 1..=100_000_u32 {
            add(&mut sketch, &number.to_le_bytes());
            if [1, 2, 10, 100, 1_000, 10_000, 100_000].contains(&number) {
                let found = estimate(&registers(&sketch)) as f64;
                let wanted = f64::from(number);
                assert!((found - wanted).abs() <= wanted * 0.04, "{number}: {found}");
            }
        }
    }

    #[test]
    fn a_merge_has_the_greater_of_each_register() {
        let filled = |numbers: std::ops::Range<u32>| {
            let mut sketch = Sketch::new();
            numbers.for_each(|number| _ = add(&mut sketch, &number.to_le_bytes()));
            sketch
        };
        for (first, second) in [(0..40, 30..90), (0..40, 0..9_000), (0..9_000, 8_000..9_100)] {
            let both = filled(first.start.min(second.start)..first.end.max(second.end));
            let (mut first, second) = (filled(first), filled(second));
            first.raise_all(&registers(&second), second.is_dense()).unwrap();
            assert_eq!(registers(&first), registers(&both));
        }
    }

    #[test]
    fn values_that_are_none_or_that_are_damaged_are_found() {
        for value in [&b""[..], b"HYLL", b"HYLL\x01", b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0", b"HYL1"] {
            assert_eq!(View::of(value).err(), Some(Error::NotASketch));
        }
        let sketch = Sketch::new();
        let dense = [&sketch.value()[..4], &[0; 12]].concat();
        assert_eq!(View::of(&dense).err(), Some(Error::NotASketch));
        let head = &sketch.value()[..HEAD_BYTES];
        for body in [&b""[..], b"\x7f", b"\x7f\xfe", b"\x7f\xff\x00", b"\x00"] {
            let value = [head, body].concat();
            let view = View::of(&value).unwrap();
            assert_eq!(view.raise(&mut no_registers()), Err(Error::CorruptSketch), "{body:?}");
            let mut sketch = Sketch::of(&value).unwrap();
            assert!(sketch.raise_all(&[40; REGISTERS], false).is_err(), "{body:?}");
        }
    }
}
