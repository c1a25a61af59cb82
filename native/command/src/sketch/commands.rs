//! PFADD, PFCOUNT, PFMERGE: the commands on HyperLogLogs.

use crate::sketch::registers::{Registers, Sketch, View, estimate, no_registers, register_of};
use crate::{Error, Reply};
use todana_table::{Full, Keyspace, Meta};

/// Most keys that PFMERGE takes: each takes some ten microseconds, and the log executes them as one
/// step.
pub const MERGED_KEYS_MAX: usize = 4_096;

/// PFADD. Creates a missing value. Replies whether anything changed.
pub(crate) fn add<K: Keyspace, R: Reply>(
    space: &K,
    key: &[u8],
    elements: &[&[u8]],
    now_ms: u64,
    reply: &mut R,
) {
    // Without the lock, because elements may be long.
    let raised: Vec<(usize, u8)> = elements.iter().map(|element| register_of(element)).collect();
    let added = change(space, key, now_ms, |sketch, is_new| {
        let mut changed = is_new;
        for (at, value) in &raised {
            changed |= sketch.raise(*at, *value)?;
        }
        if changed {
            sketch.note_change();
        }
        Ok(changed)
    });
    match added {
        Ok(changed) => reply.flag(changed),
        Err(error) => reply.error(error),
    }
}

/// Changes a value, or a new one. It is stored if the change says so.
fn change<K: Keyspace>(
    space: &K,
    key: &[u8],
    now_ms: u64,
    change: impl FnOnce(&mut Sketch, bool) -> Result<bool, Error>,
) -> Result<bool, Error> {
    space.update(key, now_ms, |locked| {
        let entry = locked.entry();
        let (mut sketch, is_new) = match &entry {
            Some(entry) => (Sketch::of(entry.text()?)?, false),
            None => (Sketch::new(), true),
        };
        let meta = entry.map_or_else(Meta::default, |entry| entry.meta());
        let changed = change(&mut sketch, is_new)?;
        if changed {
            locked.put(&[sketch.value()], meta).map_err(|Full| Error::Full)?;
        }
        Ok(changed)
    })
}

/// The greatest of the registers of several values.
#[derive(Debug)]
pub(crate) struct Union {
    registers: Box<Registers>,
    /// Whether one of the values is dense.
    dense: bool,
}

impl Union {
    pub(crate) fn new() -> Union {
        Union { registers: no_registers(), dense: false }
    }

    /// Adds the values of these keys; a missing one has no elements.
    pub(crate) fn add<K: Keyspace>(
        &mut self,
        space: &K,
        keys: &[&[u8]],
        now_ms: u64,
    ) -> Result<(), Error> {
        for key in keys {
            space.read(key, now_ms, |entry| {
                let Some(entry) = entry else { return Ok(()) };
                let view = View::of(entry.text()?)?;
                self.dense |= view.is_dense();
                view.raise(&mut self.registers)
            })?;
        }
        Ok(())
    }

    pub(crate) fn count<R: Reply>(&self, reply: &mut R) {
        reply.integer(i64::try_from(estimate(&self.registers)).unwrap_or(i64::MAX));
    }

    /// Adds the elements to the value of a key.
    pub(crate) fn store<K: Keyspace, R: Reply>(
        &self,
        space: &K,
        key: &[u8],
        now_ms: u64,
        reply: &mut R,
    ) {
        let stored = change(space, key, now_ms, |sketch, _| {
            sketch.raise_all(&self.registers, self.dense).map(|()| true)
        });
        match stored {
            Ok(_) => reply.done(),
            Err(error) => reply.error(error),
        }
    }
}

/// PFCOUNT. The estimate in a single value is used if it is current.
pub(crate) fn count<K: Keyspace, R: Reply>(space: &K, keys: &[&[u8]], now_ms: u64, reply: &mut R) {
    if let [key] = keys {
        let known = space.read(key, now_ms, |entry| {
            let entry = entry?;
            View::of(entry.text().ok()?).ok()?.known_estimate()
        });
        if let Some(known) = known {
            return reply.integer(i64::try_from(known).unwrap_or(i64::MAX));
        }
    }
    let mut union = Union::new();
    match union.add(space, keys, now_ms) {
        Ok(()) => union.count(reply),
        Err(error) => reply.error(error),
    }
}

/// PFMERGE: the first key is the destination, and one of the sources.
pub(crate) fn merge<K: Keyspace, R: Reply>(space: &K, keys: &[&[u8]], now_ms: u64, reply: &mut R) {
    let Some(to) = keys.first() else { return reply.error(Error::SameObject) };
    let mut union = Union::new();
    match union.add(space, keys, now_ms) {
        Ok(()) => union.store(space, to, now_ms, reply),
        Err(error) => reply.error(error),
    }
}
