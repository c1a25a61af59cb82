//! BITOP: combines values bit by bit, and stores the result.
//!
//! The sources are read as one step, and so is the result stored; in between, others may write. If
//! one of the sources has another version at the end, the operation starts over. Short ones hold
//! the locks throughout.

use crate::record::Held;
use crate::target::Target;
use crate::{BitOperator, Error, Reply};
use todana_table::{Filling, Full, Keyspace, Meta, WrongKind};

/// Bytes of sources that are combined while their shards are locked: some hundred microseconds.
pub(crate) const LOCKED_BYTES_MAX: usize = 1 << 20;

/// Bytes of sources from which on a command that is one step is refused: in the log, and in a
/// transaction (which has a lower limit of work). They take some hundred milliseconds.
pub(crate) const STEP_BYTES_MAX: usize = 256 << 20;

/// Bytes of sources that one slice combines: about a millisecond.
const SLICE_BYTES: usize = 4 << 20;

/// Bytes of the result that are combined together, so that they stay in the cache.
const CHUNK_BYTES: usize = 16 << 10;

/// How often others may change the sources before the operation gives up.
const ROUNDS_MAX: u32 = 16;

/// Results of this length are copied in slices.
const FILLED_BYTES_MIN: usize = 2 << 20;

/// The sources, read at one moment.
#[derive(Debug)]
pub(crate) struct Sources {
    values: Vec<Option<Held>>,
    /// The version of each; 0 without a record.
    versions: Vec<u64>,
}

impl Sources {
    pub(crate) fn read<K: Keyspace>(
        space: &K,
        keys: &[&[u8]],
        now_ms: u64,
    ) -> Result<Sources, WrongKind> {
        let mut sources = Sources { values: Vec::new(), versions: Vec::new() };
        for key in keys {
            let value = Held::read(space, key, now_ms)?;
            sources.versions.push(value.as_ref().map_or(0, Held::version));
            sources.values.push(value);
        }
        Ok(sources)
    }

    /// Whether the records are still these.
    pub(crate) fn are_still<K: Keyspace>(&self, space: &K, keys: &[&[u8]], now_ms: u64) -> bool {
        let version = |key| space.read(key, now_ms, |entry| entry.map_or(0, |it| it.version()));
        keys.iter().zip(&self.versions).all(|(key, read)| version(key) == *read)
    }

    /// Bytes of all sources.
    pub(crate) fn bytes(&self) -> usize {
        self.values().map(<[u8]>::len).sum()
    }

    /// Bytes of memory that only this holds.
    pub(crate) fn own_bytes(&self) -> usize {
        let own: usize = self.values.iter().flatten().map(Held::own_bytes).sum();
        own + self.values.capacity() * size_of::<Option<Held>>() + 8 * self.versions.capacity()
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(|value| value.as_ref().map_or(&[][..], Held::value))
    }

    /// Length of the result.
    fn length(&self) -> usize {
        self.values().map(<[u8]>::len).max().unwrap_or(0)
    }

    /// Combines the bytes from `at` on into `out`.
    fn combine(&self, operator: BitOperator, at: usize, out: &mut [u8]) {
        let end = at + out.len();
        let parts = self.values().map(|value| &value[at.min(value.len())..end.min(value.len())]);
        combine(operator, parts, out);
    }
}

/// Combines values; a short one counts as if zeroes followed it.
fn combine<'v>(operator: BitOperator, mut values: impl Iterator<Item = &'v [u8]>, out: &mut [u8]) {
    use BitOperator::{And, AndOr, Diff, Diff1, Not, One, Or, Xor};
    let first = values.next().unwrap_or_default();
    let (front, rest) = out.split_at_mut(first.len());
    front.copy_from_slice(first);
    rest.fill(0);
    let each = |out: &mut [u8], value: &[u8], join: fn(u8, u8) -> u8| {
        out.iter_mut().zip(value).for_each(|(out, byte)| *out = join(*out, *byte));
    };
    match operator {
        Not => out.iter_mut().for_each(|out| *out = !*out),
        Or => values.for_each(|value| each(out, value, |out, byte| out | byte)),
        Xor => values.for_each(|value| each(out, value, |out, byte| out ^ byte)),
        And => values.for_each(|value| {
            each(out, value, |out, byte| out & byte);
            out[value.len()..].fill(0);
        }),
        One => {
            let mut twice = vec![0; out.len()];
            for value in values {
                for ((out, twice), byte) in out.iter_mut().zip(&mut twice).zip(value) {
                    *twice |= *out & byte;
                    *out |= byte;
                }
            }
            each(out, &twice, |out, twice| out & !twice);
        }
        Diff | Diff1 | AndOr => {
            let mut others = vec![0; out.len()];
            values.for_each(|value| each(&mut others, value, |out, byte| out | byte));
            each(
                out,
                &others,
                match operator {
                    Diff => |first, others| first & !others,
                    Diff1 => |first, others| !first & others,
                    _ => |first, others| first & others,
                },
            );
        }
    }
}

/// A BITOP in progress.
#[derive(Debug)]
pub(crate) struct Operation {
    operator: BitOperator,
    sources: Sources,
    result: Output,
    rounds: u32,
}

#[derive(Debug)]
enum Output {
    Short(Vec<u8>),
    Long(Filling),
}

impl Output {
    fn filled(&self) -> usize {
        match self {
            Output::Short(bytes) => bytes.len(),
            Output::Long(filling) => filling.filled(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Output::Short(result) => result.extend_from_slice(bytes),
            Output::Long(filling) => filling.push(bytes),
        }
    }
}

impl Operation {
    /// `None` if there is no memory for the result.
    pub(crate) fn new(operator: BitOperator, sources: Sources) -> Option<Operation> {
        let result = match sources.length() {
            0..FILLED_BYTES_MIN => Output::Short(Vec::new()),
            long => Output::Long(Filling::new(long).ok()?),
        };
        Some(Operation { operator, sources, result, rounds: 0 })
    }

    pub(crate) fn held_bytes(&self) -> usize {
        let result = match &self.result {
            Output::Short(bytes) => bytes.capacity(),
            Output::Long(filling) => filling.len(),
        };
        result + self.sources.own_bytes()
    }

    /// Combines some more bytes. True at the end.
    pub(crate) fn go_on(&mut self) -> bool {
        let each = SLICE_BYTES / self.sources.values.len().max(1);
        let length = self.sources.length();
        let end = length.min(self.result.filled() + each.max(1));
        self.combine_to(end);
        end == length
    }

    /// Combines the rest.
    pub(crate) fn finish(&mut self) {
        self.combine_to(self.sources.length());
    }

    fn combine_to(&mut self, end: usize) {
        let mut chunk = vec![0; CHUNK_BYTES.min(end - self.result.filled())];
        while self.result.filled() < end {
            let at = self.result.filled();
            let chunk = &mut chunk[..CHUNK_BYTES.min(end - at)];
            self.sources.combine(self.operator, at, chunk);
            self.result.push(chunk);
        }
    }

    /// Starts over with the sources as they are now, unless others change them too often.
    pub(crate) fn restart(self, sources: Sources) -> Result<Operation, Error> {
        let rounds = self.rounds + 1;
        if rounds > ROUNDS_MAX {
            return Err(Error::Contended);
        }
        let again = Operation::new(self.operator, sources).ok_or(Error::Full)?;
        Ok(Operation { rounds, ..again })
    }

    /// Stores the result. An empty one removes the record.
    pub(crate) fn store<K: Keyspace, R: Reply>(
        self,
        space: &K,
        key: &[u8],
        now_ms: u64,
        reply: &mut R,
    ) {
        let length = self.result.filled();
        if length == 0 {
            space.update(key, now_ms, |locked| _ = locked.remove());
            return reply.integer(0);
        }
        let stored = match self.result {
            Output::Short(value) => {
                space.update(key, now_ms, |locked| locked.put(&[&value], Meta::default()))
            }
            Output::Long(filling) => filling.prepared(key, Meta::default()).and_then(|prepared| {
                space.update(key, now_ms, |locked| locked.put_prepared(prepared))
            }),
        };
        match stored {
            Ok(_) => reply.integer(length as i64),
            Err(Full) => reply.error(Error::Full),
        }
    }
}

/// BITOP in one go. Long values are combined without the locks.
pub(crate) fn as_one_step<T: Target, R: Reply>(
    target: &T,
    operator: BitOperator,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    let mut stage = Stage::Begin;
    loop {
        stage = match step(target, operator, keys, now_ms, stage, reply) {
            None => return,
            Some(mut operation) => {
                if operation.sources.bytes() > STEP_BYTES_MAX {
                    return reply.error(Error::ValueTooLarge);
                }
                operation.finish();
                Stage::Finished(operation)
            }
        };
    }
}

/// How far a BITOP has come.
pub(crate) enum Stage {
    Begin,
    /// The result is complete.
    Finished(Operation),
}

/// Begins, or ends: short values are combined at once. Returns what remains to be combined.
pub(crate) fn step<T: Target, R: Reply>(
    target: &T,
    operator: BitOperator,
    keys: &[&[u8]],
    now_ms: u64,
    stage: Stage,
    reply: &mut R,
) -> Option<Operation> {
    let [to, from @ ..] = keys else {
        reply.error(Error::SameObject);
        return None;
    };
    let locked = target.lock(keys.iter().copied(), now_ms);
    let next = match stage {
        Stage::Finished(operation) if operation.sources.are_still(&locked, from, now_ms) => {
            operation.store(&locked, to, now_ms, reply);
            return None;
        }
        stage => match (Sources::read(&locked, from, now_ms), stage) {
            (Err(wrong), _) => Err(wrong.into()),
            (Ok(sources), Stage::Finished(operation)) => operation.restart(sources),
            (Ok(sources), Stage::Begin) => {
                let is_short = sources.bytes() <= LOCKED_BYTES_MAX;
                match Operation::new(operator, sources) {
                    Some(mut operation) if is_short => {
                        operation.finish();
                        operation.store(&locked, to, now_ms, reply);
                        return None;
                    }
                    operation => operation.ok_or(Error::Full),
                }
            }
        },
    };
    next.map_err(|error| reply.error(error)).ok()
}

/// BITOP in one go, with the locks held: the first key is the destination.
pub(crate) fn bit_operation<K: Keyspace, R: Reply>(
    space: &K,
    operator: BitOperator,
    keys: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    let [to, from @ ..] = keys else { return reply.error(Error::SameObject) };
    let sources = match Sources::read(space, from, now_ms) {
        Ok(sources) => sources,
        Err(wrong) => return reply.error(wrong.into()),
    };
    if sources.bytes() > STEP_BYTES_MAX {
        return reply.error(Error::ValueTooLarge);
    }
    match Operation::new(operator, sources) {
        None => reply.error(Error::Full),
        Some(mut operation) => {
            operation.finish();
            operation.store(space, to, now_ms, reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BitOperator::{And, AndOr, Diff, Diff1, Not, One, Or, Xor};

    fn result(operator: BitOperator, values: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0x55; values.iter().map(|value| value.len()).max().unwrap_or(0)];
        combine(operator, values.iter().copied(), &mut out);
        out
    }

    /// The same, bit by bit, by the definition of each operator.
    fn expected(operator: BitOperator, values: &[&[u8]]) -> Vec<u8> {
        let length = values.iter().map(|value| value.len()).max().unwrap_or(0);
        let bit = |at: usize| {
            let is_set = |value: &&[u8]| {
                value.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
            };
            let set = values.iter().filter(|value| is_set(value)).count();
            let first = is_set(&values[0]);
            let others = set > usize::from(first);
            match operator {
                And => set == values.len(),
                Or => set > 0,
                Xor => set % 2 == 1,
                Not => !first,
                Diff => first && !others,
                Diff1 => !first && others,
                AndOr => first && others,
                One => set == 1,
            }
        };
        let byte = |at: usize| (0..8).fold(0, |byte, n| byte << 1 | u8::from(bit(at * 8 + n)));
        (0..length).map(byte).collect()
    }

    #[test]
    fn each_operator_is_its_definition() {
        let values: [&[u8]; 4] = [b"\xff\x0f\x33", b"\x0f\x55", b"", b"\xaa\x99\x3c\x81"];
        for operator in [And, Or, Xor, Not, Diff, Diff1, AndOr, One] {
            for mask in 1_usize..16 {
                let chosen: Vec<&[u8]> =
                    (0..4).filter(|n| mask & 1 << n != 0).map(|n| values[n]).collect();
                let chosen = if operator == Not { &chosen[..1] } else { &chosen[..] };
                assert_eq!(result(operator, chosen), expected(operator, chosen), "{operator:?}");
            }
        }
    }
}
