//! Several records as one step.

use crate::record::{check, is_past, resolve};
use crate::target::Target;
use crate::{Condition, Error, Expires, Reply};
use std::collections::HashSet;
use todana_table::{Entry, Full, Growth, Keyspace, Meta, PREFETCH_KEYS_MAX, Prepared};

/// Most entries prepared at a time if other clients wait, and the bytes of values that end a slice.
const SLICE_PAIRS: usize = 2_048;
const SLICE_BYTES: usize = 2 << 20;

/// Up to this number of pairs, duplicate keys are found by comparing each pair of keys.
const FEW_PAIRS: usize = 8;

/// Pairs of key and value that are written under one condition and with one expiry.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<'a> {
    pub(crate) pairs: &'a [(&'a [u8], &'a [u8])],
    pub(crate) condition: Condition,
    pub(crate) expires: Expires,
}

impl Pairs<'_> {
    /// Whether the expiry has passed, so that writing the records removes them.
    fn are_past(&self, now_ms: u64) -> bool {
        is_past(resolve(self.expires, None, now_ms), now_ms)
    }

    /// Prepares the entries before any lock is taken, because copying the values may be slow.
    /// `None` if the entries depend on the present records, or are not needed.
    pub(crate) fn prepare(&self, now_ms: u64) -> Option<Result<Vec<Prepared>, Full>> {
        let mut prepared = Vec::new();
        loop {
            match self.prepare_some(&mut prepared, now_ms)? {
                Ok(false) => {}
                Ok(true) => return Some(Ok(prepared)),
                Err(Full) => return Some(Err(Full)),
            }
        }
    }

    /// Prepares more entries after those in `prepared`. True when all are prepared.
    pub(crate) fn prepare_some(
        &self,
        prepared: &mut Vec<Prepared>,
        now_ms: u64,
    ) -> Option<Result<bool, Full>> {
        if self.expires == Expires::Keep || self.are_past(now_ms) {
            return None;
        }
        let expires_at_ms = resolve(self.expires, None, now_ms);
        let meta = Meta { expires_at_ms, ..Meta::default() };
        let mut bytes = 0;
        for (key, value) in self.pairs[prepared.len()..].iter().take(SLICE_PAIRS) {
            match Prepared::new(key, &[value], meta) {
                Ok(entry) => prepared.push(entry),
                Err(Full) => return Some(Err(Full)),
            }
            bytes += value.len();
            if bytes >= SLICE_BYTES {
                break;
            }
        }
        Some(Ok(prepared.len() == self.pairs.len()))
    }

    /// Positions of pairs whose key occurs again later.
    fn superseded(&self) -> HashSet<usize> {
        let mut superseded = HashSet::new();
        if self.pairs.len() <= FEW_PAIRS {
            for (position, (key, _)) in self.pairs.iter().enumerate() {
                if self.pairs[position + 1..].iter().any(|(other, _)| other == key) {
                    superseded.insert(position);
                }
            }
            return superseded;
        }
        let mut behind = HashSet::with_capacity(self.pairs.len());
        for (position, (key, _)) in self.pairs.iter().enumerate().rev() {
            if !behind.insert(key) {
                superseded.insert(position);
            }
        }
        superseded
    }

    fn entries(&self, expiry: impl Fn(&[u8]) -> Option<u64>) -> Result<Vec<Prepared>, Full> {
        let entry = |(key, value): &(&[u8], &[u8])| {
            Prepared::new(key, &[value], Meta { expires_at_ms: expiry(key), ..Meta::default() })
        };
        self.pairs.iter().map(entry).collect()
    }
}

/// MSET as one step. The entries are prepared before the locks are taken.
pub(crate) fn set_at_once<T: Target, R: Reply>(
    target: &T,
    pairs: &Pairs<'_>,
    now_ms: u64,
    reply: &mut R,
) {
    let prepared = pairs.prepare(now_ms);
    let locked = target.lock(pairs.pairs.iter().map(|(key, _)| *key), now_ms);
    set_many(&locked, pairs, prepared, now_ms, reply);
}

/// MSET, MSETNX, `todana:put_all`. The caller holds the locks of all keys. `prepared` is the result
/// of [`Pairs::prepare`] from before the locks.
///
/// All records are written or none, and a refused write leaves no trace: the entries exist and room
/// for them is reserved before the first one is inserted, under the limits that apply to the
/// insertions, so inserting cannot fail. A repeated key keeps its last value. If a write may be
/// refused, a repeated key is written only once: its earlier entries are neither counted nor do
/// they evict others.
pub(crate) fn set_many<K: Keyspace, R: Reply>(
    space: &K,
    pairs: &Pairs<'_>,
    prepared: Option<Result<Vec<Prepared>, Full>>,
    now_ms: u64,
    reply: &mut R,
) {
    if pairs.condition != Condition::Always {
        let mut refused = None;
        each_key(space, pairs, |_, key| {
            let check = |entry: Option<Entry<'_>>| check(pairs.condition, entry.as_ref()).err();
            refused = refused.or_else(|| space.read(key, now_ms, check));
        });
        if let Some(refusal) = refused {
            return reply.refused(refusal);
        }
    }
    if pairs.are_past(now_ms) {
        each_key(space, pairs, |_, key| {
            space.update(key, now_ms, |locked| locked.remove());
        });
        return reply.done();
    }
    let present_expiry = |key: &[u8]| {
        space.read(key, now_ms, |entry| resolve(pairs.expires, entry.as_ref(), now_ms))
    };
    let prepared = prepared.unwrap_or_else(|| pairs.entries(present_expiry));
    let Ok(prepared) = prepared else { return reply.error(Error::Full) };
    let largest_bytes = prepared.iter().map(|entry| entry.bytes() as u64).max().unwrap_or(0);
    let refuses = space.refuses(largest_bytes);
    let superseded = if refuses { pairs.superseded() } else { HashSet::new() };
    let mut growth = Growth { largest_bytes, ..Growth::default() };
    if refuses {
        each_key(space, pairs, |position, key| {
            if !superseded.contains(&position) {
                let bytes = prepared[position].bytes() as u64;
                count_growth(&mut growth, space, key, bytes, now_ms);
            }
        });
    }
    if space.reserve(growth) == Err(Full) {
        return reply.error(Error::Full);
    }
    let mut prepared = prepared.into_iter();
    let mut written = Ok(());
    each_key(space, pairs, |position, key| {
        if let Some(entry) = prepared.next()
            && !superseded.contains(&position)
        {
            let put = space.update(key, now_ms, |locked| locked.put_prepared(entry).map(|_| ()));
            written = written.and(put);
        }
    });
    match written {
        Ok(()) => reply.done(),
        // Only for a key of more than 1 GiB in an ordered table; no protocol accepts such keys.
        Err(Full) => reply.error(Error::Full),
    }
}

/// Visits the keys, while prefetching the next ones.
fn each_key<K: Keyspace>(space: &K, pairs: &Pairs<'_>, mut visit: impl FnMut(usize, &[u8])) {
    for (chunk, pairs) in pairs.pairs.chunks(PREFETCH_KEYS_MAX).enumerate() {
        prefetch_few(space, pairs.iter().map(|(key, _)| *key));
        for (at, (key, _)) in pairs.iter().enumerate() {
            visit(chunk * PREFETCH_KEYS_MAX + at, key);
        }
    }
}

/// Prefetches the memory that these keys need, at most [`PREFETCH_KEYS_MAX`]. A single key has
/// nothing to overlap the fetch with.
pub(crate) fn prefetch_few<'a, K: Keyspace>(space: &K, keys: impl Iterator<Item = &'a [u8]>) {
    let mut few = [&[][..]; PREFETCH_KEYS_MAX];
    let mut len = 0;
    for (place, key) in few.iter_mut().zip(keys) {
        (*place, len) = (key, len + 1);
    }
    if len > 1 {
        space.prefetch(&few[..len]);
    }
}

/// Adds what an entry of `bytes` for this key adds to the table.
pub(crate) fn count_growth<K: Keyspace>(
    growth: &mut Growth,
    space: &K,
    key: &[u8],
    bytes: u64,
    now_ms: u64,
) {
    let present = |entry: Option<Entry<'_>>| entry.map(|entry| entry.bytes() as u64);
    let present = space.read(key, now_ms, present);
    growth.entries += u64::from(present.is_none());
    growth.bytes += bytes.saturating_sub(present.unwrap_or(0));
}
