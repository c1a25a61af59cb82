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

use crate::bit_operation::Operation;
use crate::dump::{Dumping, Restoring};
use crate::page::{Collection, EARLY_ENDS_MAX, Page, Progress, WALK_BYTES_MAX};
use crate::record::Kept;
use crate::sketch::Registers;
use crate::sketches::Union;
use crate::target::{Numbered, Target};
use crate::{
    BitOperator, Command, Context, Databases, Error, Reply, Set, bit_operation, bits,
    dispatch::dispatch, dump, execute, keys, pairs, strings,
};
use std::sync::Arc;
use todana_table::{Filling, Full, Keyspace, NotOrdered, Prepared, Shared, Table, Walk, Walked};

/// Maximum number of keys of a command that are one step.
pub const STEP_KEYS_MAX: usize = 4_096;
/// Records that a slice visits, in addition to the rest of a shard: a millisecond or two.
pub(crate) const SLICE_RECORDS: usize = 2_048;
/// Steps of comparing and copying keys in a slice: about a millisecond.
pub(crate) const SLICE_STEPS: usize = 1 << 20;
/// Bytes of replies in a slice, which the last record may exceed.
const SLICE_REPLY_BYTES: usize = 256 << 10;

/// Values from this length on are copied in slices of this length: about a millisecond.
const SLICE_COPY_BYTES: usize = 2 << 20;
/// Bytes whose bits a slice reads: about a millisecond.
const SLICE_BITS_BYTES: usize = 4 << 20;

/// HyperLogLogs that a slice reads: about a millisecond.
const SLICE_SKETCHES: usize = 64;

/// Payloads of DUMP from this length on may be restored in slices.
const RESTORED_BYTES_MIN: usize = 64 << 10;

/// The progress of a command that [`execute_slice`] has begun.
#[derive(Debug)]
pub struct Begun(Box<Stage>);

#[derive(Debug)]
enum Stage {
    /// KEYS and SCAN visit records.
    Collecting(Arc<Table>, Collection),
    /// RANGE collects records, and continues after this key.
    Walking(Page, Vec<u8>),
    /// The collected records are written to the reply.
    Replying(Page, Progress),
    /// The number of keys processed, and the number of those found.
    Counting { done: usize, found: i64 },
    /// The number of keys processed; the records of the last ones are still to be written.
    Fetching { done: usize, rest: Vec<Option<Kept>> },
    /// Entries are being created.
    Preparing(Vec<Prepared>),
    /// A large value is being copied.
    Filling(Filling),
    /// The bits of a large value are being read.
    Looking(Shared, bits::Look),
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
                let own: usize = rest.iter().flatten().map(Kept::own_bytes).sum();
                own + rest.capacity() * size_of::<Option<Kept>>()
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

impl Command<'_> {
    /// Whether a server with several clients has to run the command with [`execute_slice`].
    #[inline]
    pub fn is_long(&self) -> bool {
        match self {
            Command::Keys { .. }
            | Command::KeysOfSlot { .. }
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::SetMany { .. }
            | Command::BitCount { .. }
            | Command::BitPosition { .. }
            | Command::Dump { .. }
            | Command::BitOperation { .. } => true,
            Command::CountSketches { keys } | Command::MergeSketches { keys } => {
                keys.len() > SLICE_SKETCHES
            }
            Command::Restore { payload, .. } => {
                payload.len().max(dump::value_length(payload)) >= RESTORED_BYTES_MIN
            }
            Command::Set(set) => set.value.len() >= SLICE_COPY_BYTES,
            Command::GetMany { keys } => keys.len() > 1,
            Command::Delete { keys } | Command::Exists { keys } | Command::NoteAccess { keys } => {
                keys.len() > STEP_KEYS_MAX
            }
            Command::Get { .. }
            | Command::Length { .. }
            | Command::GetRange { .. }
            | Command::GetBit { .. }
            | Command::Lcs { .. }
            | Command::BitFields { .. }
            | Command::AddToSketch { .. }
            | Command::StoreNothing { .. }
            | Command::Expiry { .. }
            | Command::MemoryUsage { .. }
            | Command::Lease { .. }
            | Command::Concat { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::Increment(_)
            | Command::IncrementFloat { .. }
            | Command::IncrementBinary { .. }
            | Command::IncrementFraction { .. }
            | Command::CompareValue { .. }
            | Command::ReplaceIf { .. }
            | Command::DeleteIf { .. }
            | Command::Invalidate { .. }
            | Command::Take { .. }
            | Command::GetAndExpire { .. }
            | Command::Expire { .. }
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Count
            | Command::Sweep { .. }
            | Command::RandomKey { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Script(_)
            | Command::Swap { .. } => false,
        }
    }
}

/// Executes a slice of a command. Returns where to continue with the same command, or nothing at
/// its end. Replies are written in parts, in order.
pub fn execute_slice<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    begun: Option<Begun>,
    reply: &mut R,
) -> Option<Begun> {
    let Some(target) = Numbered::new(databases, database) else {
        reply.error(Error::NoSuchDatabase);
        return None;
    };
    let stage = begun.map(|begun| *begun.0);
    let slice = Slice { target, context, reply };
    let stage = match (command, stage) {
        (_, Some(Stage::Replying(page, written))) => slice.write(page, written),
        (Command::Keys { pattern }, None) => {
            let collection = Collection::of_all(pattern);
            slice.collect(command, databases.table(database).clone(), collection)
        }
        (&Command::KeysOfSlot { slot, count }, None) => {
            let collection = Collection::of_slot(slot, count);
            slice.collect(command, databases.table(database).clone(), collection)
        }
        (&Command::Scan { cursor, count, pattern, values }, None) => {
            let count = count.min(keys::SCAN_RECORDS_MAX);
            let collection = Collection::new(cursor, count, pattern, values);
            slice.collect(command, databases.table(database).clone(), collection)
        }
        (_, Some(Stage::Collecting(table, collection))) => {
            slice.collect(command, table, collection)
        }
        (&Command::Range { keys, after, reverse, count, values }, stage) => {
            let walk = Walk { keys, after, reverse, count: count.max(1) };
            match stage {
                Some(Stage::Walking(page, after)) => {
                    slice.walk(&Walk { after: Some(&after), ..walk }, page)
                }
                _ => slice.walk(&walk, Page::new(values, WALK_BYTES_MAX)),
            }
        }
        (Command::Delete { .. } | Command::Exists { .. } | Command::NoteAccess { .. }, stage) => {
            let (done, found) = match stage {
                Some(Stage::Counting { done, found }) => (done, found),
                _ => (0, 0),
            };
            slice.count(command, done, found)
        }
        (Command::GetMany { keys }, stage) => slice.fetch(keys, stage),
        (&Command::SetMany { pairs, condition, expires }, stage) => {
            let prepared = match stage {
                Some(Stage::Preparing(prepared)) => prepared,
                _ => Vec::new(),
            };
            slice.store(&pairs::Pairs { pairs, condition, expires }, prepared)
        }
        (Command::Set(set), stage) => slice.set(set, stage),
        (Command::BitCount { .. } | Command::BitPosition { .. }, stage) => {
            slice.look(command, stage)
        }
        (&Command::BitOperation { operator, keys }, stage) => slice.operate(operator, keys, stage),
        (&Command::CountSketches { keys }, stage) => slice.unite(keys, stage, false),
        (&Command::MergeSketches { keys }, stage) => slice.unite(keys, stage, true),
        (_, Some(Stage::Dumping(dumping))) => dumping.go_on(slice.reply).map(Stage::Dumping),
        (Command::Dump { key }, _) => match Dumping::begin(&slice.target, key, context.now_ms) {
            Some(dumping) => Some(Stage::Dumping(dumping)),
            None => {
                dump::dump(&slice.target, key, context.now_ms, slice.reply);
                None
            }
        },
        (&Command::Restore { key, payload, expires, replace }, stage) => {
            let restoring = match stage {
                Some(Stage::Restoring(restoring)) => restoring,
                _ => Restoring::default(),
            };
            let restored = dump::Restored { key, payload, expires, replace };
            let more = restoring.go_on(&slice.target, &restored, context, slice.reply);
            more.map(Stage::Restoring)
        }
        _ => {
            execute(databases, database, command, context, slice.reply);
            None
        }
    };
    stage.map(|stage| Begun(Box::new(stage)))
}

struct Slice<'a, R> {
    target: Numbered<'a>,
    context: Context,
    reply: &'a mut R,
}

impl<R: Reply> Slice<'_, R> {
    fn collect(
        self,
        command: &Command<'_>,
        table: Arc<Table>,
        mut collection: Collection,
    ) -> Option<Stage> {
        if !collection.collect(&*table, SLICE_RECORDS, SLICE_STEPS, self.context.now_ms) {
            return Some(Stage::Collecting(table, collection));
        }
        let (cursor, page) = collection.end();
        match command {
            Command::Scan { .. } => self.reply.page(cursor, page.len()),
            _ if page.is_full() => {
                self.reply.error(Error::ReplyTooLarge);
                return None;
            }
            _ => self.reply.list(page.len()),
        }
        self.write(page, Progress::default())
    }

    fn walk(self, walk: &Walk<'_>, mut page: Page) -> Option<Stage> {
        let slice = Walk { count: walk.count.min(page.len() + SLICE_RECORDS), ..*walk };
        let walked = page.walk(&self.target, &slice, EARLY_ENDS_MAX, self.context.now_ms);
        let after = match walked {
            Err(NotOrdered) => {
                self.reply.error(Error::NotOrdered);
                return None;
            }
            Ok(Walked::End) => None,
            // An empty reply would mean the end.
            Ok(Walked::Until(key)) if page.len() == 0 => return Some(Stage::Walking(page, key)),
            Ok(Walked::Until(key)) if page.len() == slice.count && slice.count < walk.count => {
                return Some(Stage::Walking(page, key));
            }
            Ok(Walked::Until(key)) => Some(key),
        };
        self.reply.slice(after.as_deref(), page.len());
        self.write(page, Progress::default())
    }

    fn write(self, page: Page, written: Progress) -> Option<Stage> {
        let written = page.write_some(written, SLICE_REPLY_BYTES, self.reply);
        (written.len() < page.len()).then_some(Stage::Replying(page, written))
    }

    fn count(self, command: &Command<'_>, done: usize, found: i64) -> Option<Stage> {
        let (Command::Delete { keys } | Command::Exists { keys } | Command::NoteAccess { keys }) =
            *command
        else {
            return None;
        };
        let step = &keys[done..keys.len().min(done + STEP_KEYS_MAX)];
        let locked = self.target.lock(step.iter().copied(), self.context.now_ms);
        let found = found + keys::found(&locked, command, step, self.context.now_ms);
        let done = done + step.len();
        if done < keys.len() {
            return Some(Stage::Counting { done, found });
        }
        drop(locked);
        self.reply.integer(found);
        None
    }

    fn fetch(self, keys: &[&[u8]], stage: Option<Stage>) -> Option<Stage> {
        let (mut done, mut rest) = match stage {
            Some(Stage::Fetching { done, rest }) => (done, rest),
            _ => {
                self.reply.list(keys.len());
                (0, Vec::new())
            }
        };
        if rest.is_empty() {
            let step = &keys[done..keys.len().min(done + STEP_KEYS_MAX)];
            let now_ms = self.context.now_ms;
            let locked = self.target.lock(step.iter().copied(), now_ms);
            rest = strings::get_each_small(&locked, step, now_ms, self.reply);
            done += step.len();
            // Records are popped from the end, so they are stored in reverse order.
            rest.reverse();
        }
        let mut bytes = 0;
        while bytes < SLICE_REPLY_BYTES
            && let Some(kept) = rest.pop()
        {
            let key = keys[done - rest.len() - 1];
            bytes += kept.as_ref().map_or(0, |kept| kept.value().len());
            strings::reply_with_kept(key, kept, self.reply);
        }
        (done < keys.len() || !rest.is_empty()).then_some(Stage::Fetching { done, rest })
    }

    fn set(self, set: &Set<'_>, stage: Option<Stage>) -> Option<Stage> {
        let filling = match stage {
            Some(Stage::Filling(filling)) => Ok(filling),
            _ => Filling::new(set.value.len()),
        };
        let Ok(mut filling) = filling else {
            self.reply.error(Error::Full);
            return None;
        };
        let rest = &set.value[filling.filled()..];
        filling.push(&rest[..rest.len().min(SLICE_COPY_BYTES)]);
        if filling.filled() < filling.len() {
            return Some(Stage::Filling(filling));
        }
        strings::set_filled(&self.target, set, filling, self.context.now_ms, self.reply);
        None
    }

    fn look(self, command: &Command<'_>, stage: Option<Stage>) -> Option<Stage> {
        let now_ms = self.context.now_ms;
        let (value, mut look) = match (stage, command) {
            (Some(Stage::Looking(value, look)), _) => (value, look),
            (_, Command::BitCount { key, .. } | Command::BitPosition { key, .. }) => {
                let begun = self.target.read(key, now_ms, |entry| {
                    let entry = entry.filter(|entry| entry.value().len() > SLICE_BITS_BYTES)?;
                    Some((entry.share()?, bits::Look::at(command, entry.value().len())?))
                });
                let Some(begun) = begun else {
                    dispatch(&self.target, command, self.context, self.reply);
                    return None;
                };
                begun
            }
            _ => return None,
        };
        match look.go_on(&value, SLICE_BITS_BYTES) {
            None => Some(Stage::Looking(value, look)),
            Some(result) => {
                self.reply.integer(result);
                None
            }
        }
    }

    fn operate(self, operator: BitOperator, keys: &[&[u8]], stage: Option<Stage>) -> Option<Stage> {
        let stage = match stage {
            Some(Stage::Operating(mut operation)) => {
                if !operation.go_on() {
                    return Some(Stage::Operating(operation));
                }
                bit_operation::Stage::Finished(operation)
            }
            _ => bit_operation::Stage::Begin,
        };
        let now_ms = self.context.now_ms;
        bit_operation::step(&self.target, operator, keys, now_ms, stage, self.reply)
            .map(Stage::Operating)
    }

    fn unite(self, keys: &[&[u8]], stage: Option<Stage>, merges: bool) -> Option<Stage> {
        let (done, mut union) = match stage {
            Some(Stage::Uniting(done, union)) => (done, union),
            _ => (0, Union::new()),
        };
        let now_ms = self.context.now_ms;
        let step = &keys[done..keys.len().min(done + SLICE_SKETCHES)];
        if let Err(error) = union.add(&self.target, step, now_ms) {
            self.reply.error(error);
            return None;
        }
        let done = done + step.len();
        if done < keys.len() {
            return Some(Stage::Uniting(done, union));
        }
        match keys.first() {
            Some(to) if merges => union.store(&self.target, to, now_ms, self.reply),
            _ => union.count(self.reply),
        }
        None
    }

    fn store(self, pairs: &pairs::Pairs<'_>, mut prepared: Vec<Prepared>) -> Option<Stage> {
        let now_ms = self.context.now_ms;
        let prepared = match pairs.prepare_some(&mut prepared, now_ms) {
            Some(Ok(false)) => return Some(Stage::Preparing(prepared)),
            Some(Ok(true)) => Some(Ok(prepared)),
            Some(Err(Full)) => Some(Err(Full)),
            None => None,
        };
        let locked = self.target.lock(pairs.pairs.iter().map(|(key, _)| *key), now_ms);
        pairs::set_many(&locked, pairs, prepared, now_ms, self.reply);
        None
    }
}
