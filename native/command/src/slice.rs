//! Long commands in slices: one request may visit millions of records, and other clients must not
//! wait for it.
//!
//! A protocol that serves several clients executes such a command with [`execute_slice`]: each call
//! does a bounded part of it and returns where to continue. The table lists what is one step, which
//! no other client sees in part:
//!
//! | command | one step | a slice |
//! |---|---|---|
//! | DEL, UNLINK, EXISTS, TOUCH, MGET | up to 4,096 keys | 4,096 keys |
//! | MSET, MSETNX | all pairs | creates entries of 2,048 pairs or 2 MiB before it |
//! | KEYS, SCAN | a shard | 2,048 records and the rest of a shard |
//! | RANGE, PREFIX | a record | 2,048 records, or 8,192 keys that are skipped |
//! | SET of a large value | the record | copies 2 MiB before it |
//! | BITCOUNT, BITPOS in a large value | the value as it was at the beginning | reads 4 MiB |
//! | BITOP of long values | the reads, and the write if nothing has changed | combines 4 MiB |
//! | PFCOUNT, PFMERGE | the keys of a slice; the write of PFMERGE | 64 keys |
//! | DUMP, RESTORE of a long value | the read, or the write | 1 MiB |
//!
//! Replies are written in slices of 256 KiB. KEYS returns every key that exists from its beginning
//! to its end, once, from the database that had the number at its beginning.
//!
//! [`execute_slice`]: crate::execute_slice

use crate::bits::operation::Operation;
use crate::bits::search::Look;
use crate::database::page::{Collection, Page, Progress};
use crate::key::dump::{Dumping, Restoring};
use crate::record::Held;
use crate::sketch::commands::Union;
use crate::sketch::registers::Registers;
use crate::{Context, Reply};
use std::sync::Arc;
use todana_table::{Filling, Prepared, Shared, Table};

/// Maximum number of keys of a command that are one step.
pub const STEP_KEYS_MAX: usize = 4_096;
/// Bytes of replies in a slice, which the last record may exceed.
pub(crate) const SLICE_REPLY_BYTES: usize = 256 << 10;

/// The progress of a command that [`execute_slice`](crate::execute_slice) has begun.
#[derive(Debug)]
pub struct Begun(pub(crate) Box<Stage>);

#[derive(Debug)]
pub(crate) enum Stage {
    /// KEYS and SCAN visit records.
    Collecting(Arc<Table>, Collection),
    /// RANGE collects records, and continues after this key.
    Walking(Page, Vec<u8>),
    /// The collected records are written to the reply.
    Replying(Page, Progress),
    /// The number of keys processed, and the number of those found.
    Counting { done: usize, found: i64 },
    /// The number of keys processed; the records of the last ones are still to be written.
    Fetching { done: usize, rest: Vec<Option<Held>> },
    /// Entries are being created.
    Preparing(Vec<Prepared>),
    /// A large value is being copied.
    Filling(Filling),
    /// The bits of a large value are being read.
    Looking(Shared, Look),
    /// Values are being combined.
    Operating(Operation),
    /// The number of HyperLogLogs that have been read, and their elements.
    Uniting(usize, Union),
    /// The payload of a large value is being made.
    Dumping(Dumping),
    /// The payload of a large value is being read.
    Restoring(Restoring),
}

impl Begun {
    /// Bytes that are in memory only for this command, estimated from some thousand records.
    pub fn held_bytes(&self) -> usize {
        match &*self.0 {
            Stage::Collecting(_, collection) => collection.held_bytes(),
            Stage::Replying(page, _) | Stage::Walking(page, _) => page.held_bytes(),
            Stage::Fetching { rest, .. } => {
                let own: usize = rest.iter().flatten().map(Held::own_bytes).sum();
                own + rest.capacity() * size_of::<Option<Held>>()
            }
            Stage::Preparing(prepared) => prepared.iter().map(Prepared::bytes).sum(),
            Stage::Filling(filling) => filling.len(),
            Stage::Looking(value, _) => value.own_bytes(),
            Stage::Operating(operation) => operation.held_bytes(),
            Stage::Uniting(..) => size_of::<Registers>(),
            Stage::Dumping(dumping) => dumping.held_bytes(),
            Stage::Restoring(restoring) => restoring.held_bytes(),
            Stage::Counting { .. } => 0,
        }
    }
}

impl Begun {
    /// Whether the next slice looks at the table. Otherwise it has what it needs.
    pub fn reads(&self) -> bool {
        match &*self.0 {
            Stage::Collecting(..) | Stage::Walking(..) | Stage::Counting { .. } => true,
            Stage::Fetching { rest, .. } => rest.is_empty(),
            Stage::Uniting(..) => true,
            Stage::Replying(..)
            | Stage::Preparing(_)
            | Stage::Filling(_)
            | Stage::Looking(..)
            | Stage::Operating(_)
            | Stage::Dumping(_)
            | Stage::Restoring(_) => false,
        }
    }

    /// Whether a part of the reply was written, so that no error can take its place.
    pub fn has_replied(&self) -> bool {
        matches!(&*self.0, Stage::Replying(..) | Stage::Fetching { .. })
    }
}

/// What a slice of a command needs. The families execute it, each in its `slices.rs`.
pub(crate) struct Slice<'a, T, R> {
    pub(crate) target: T,
    /// The table of the database now.
    pub(crate) table: &'a Arc<Table>,
    pub(crate) context: Context,
    pub(crate) reply: &'a mut R,
}

impl<T, R: Reply> Slice<'_, T, R> {
    /// Writes some of the records that have been collected.
    pub(crate) fn write(self, page: Page, written: Progress) -> Option<Stage> {
        let written = page.write_some(written, SLICE_REPLY_BYTES, self.reply);
        (written.len() < page.len()).then_some(Stage::Replying(page, written))
    }
}
