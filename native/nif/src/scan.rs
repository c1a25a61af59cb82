//! Scans and snapshots, a bounded page at a time.

use crate::codec::Misuse;
use crate::erts::{self, ResourceType};
use crate::pairs::Pairs;
use crate::store::{Codec, Store};
use crate::{atoms, tables};
use parking_lot::Mutex;
use rustler::{Encoder, Env, Term};
use std::time::{Duration, Instant};
use todana_table::{Abandoned, Keyspace, Snapshot};

/// Resources for snapshots that are being read.
pub(crate) static SNAPSHOT: ResourceType<Reading> = ResourceType::new(c"todana_snapshot");

/// A page ends after this time, whatever it contains, but not before the current shard is finished.
const PAGE: Duration = Duration::from_micros(500);
/// Mean number of records in a shard up to which a snapshot starts to read it on a normal
/// scheduler: it copies a pointer for each record, in a nanosecond or two.
const COPIED_RECORDS_MAX: u64 = 65_536;

/// `scan(Table, Cursor, Count) -> {NextCursor, Pairs}`; the cursor is 0 at the end. For pairs, see
/// [`reply::pair`](crate::reply::pair).
#[rustler::nif]
fn scan<'a>(env: Env<'a>, table: Term<'a>, cursor: u64, count: usize) -> Term<'a> {
    let read = |store: &Store| match store.has_large_shards() {
        true => Err(Misuse::Dirty),
        false => Ok(page(env, store, cursor, count)),
    };
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let page = unsafe { tables::read(env.as_c_arg(), table.as_c_arg(), read) };
    page.unwrap_or_else(|misuse| misuse.term(env))
}

/// Like `scan`, with a handle.
#[rustler::nif(schedule = "DirtyCpu")]
fn scan_dirty<'a>(env: Env<'a>, handle: Term<'a>, cursor: u64, count: usize) -> Term<'a> {
    let read = |store: &Store| Ok(page(env, store, cursor, count));
    // SAFETY: both belong to the present call.
    let page = unsafe { tables::read_by_handle(env.as_c_arg(), handle.as_c_arg(), read) };
    page.unwrap_or_else(|misuse| misuse.term(env))
}

fn page<'a>(env: Env<'a>, store: &Store, cursor: u64, count: usize) -> Term<'a> {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    let (table, now_ms) = (store.table(), store.now_ms());
    let mut pairs = Pairs::new(raw_env, store.codec);
    let mut next = cursor;
    loop {
        next = table.scan(next, 1, now_ms, |entry| pairs.push(&entry));
        pairs.finish();
        if next == 0 || pairs.len() >= count || started.elapsed() > PAGE {
            break;
        }
    }
    erts::consume_timeslice(raw_env, started.elapsed());
    // SAFETY: the list was made in this environment.
    (next, unsafe { Term::new(env, pairs.list()) }).encode(env)
}

/// Entries of a snapshot between two reads of the clock.
const PART: usize = 64;

/// A snapshot that one process is reading. If the process dies, a scheduler collects the snapshot:
/// ending it takes one step per shard, and the table's reaper frees what was kept.
pub(crate) struct Reading {
    snapshot: Mutex<Option<Snapshot<'static>>>,
    /// The time that the snapshot shows: records that had expired by then are skipped.
    now_ms: u64,
    codec: Codec,
}

/// `snapshot(Table) -> {ok, Snapshot} | {error, busy}`
#[rustler::nif]
fn snapshot<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    let read = |store: &Store| Ok(begin(env, store));
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let begun = unsafe { tables::read(env.as_c_arg(), table.as_c_arg(), read) };
    begun.unwrap_or_else(|misuse| misuse.term(env))
}

/// Begins a snapshot. It stays what it is if the records of a durable table are replaced later.
fn begin<'a>(env: Env<'a>, store: &Store) -> Term<'a> {
    let now_ms = store.now_ms();
    let table = store.table();
    // A due clear must be applied before the snapshot. If only the log may do that, and has not
    // done it yet, the snapshot shows nothing.
    table.sweep(now_ms, 0);
    let Some(snapshot) = table.snapshot_owned() else {
        return env.error_tuple(atoms::busy());
    };
    let snapshot = Some(snapshot).filter(|snapshot| !snapshot.is_cleared(now_ms));
    let reading = Reading { snapshot: Mutex::new(snapshot), now_ms, codec: store.codec };
    let reading = SNAPSHOT.make(reading, 0);
    // SAFETY: the term was made in this environment.
    let term = unsafe { Term::new(env, reading.term(env.as_c_arg())) };
    (atoms::ok(), term).encode(env)
}

/// `snapshot_next(Snapshot, Count) -> {more | done | abandoned, Pairs}`; any result but `more` ends
/// the snapshot. A table with a limit abandons a snapshot that would keep too much memory.
#[rustler::nif]
fn snapshot_next<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize) -> Term<'a> {
    part(env, snapshot, count, COPIED_RECORDS_MAX, Shape::Pairs)
}

/// Like `snapshot_next`, for shards of any size.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_next_dirty<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize) -> Term<'a> {
    part(env, snapshot, count, u64::MAX, Shape::Pairs)
}

/// Like `snapshot_next`, but returns `{KeyBytes, ValueBytes, Flags, ExpiresAtMs | infinity}` for
/// each record.
#[rustler::nif]
fn snapshot_records<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize) -> Term<'a> {
    part(env, snapshot, count, COPIED_RECORDS_MAX, Shape::Records)
}

/// Like `snapshot_records`, for shards of any size.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_records_dirty<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize) -> Term<'a> {
    part(env, snapshot, count, u64::MAX, Shape::Records)
}

/// What a part of a snapshot consists of.
enum Shape {
    Pairs,
    Records,
}

/// Returns the next records, but stops before a shard of more than `copied_max` records: it needs a
/// separate call, on a dirty scheduler.
fn part<'a>(
    env: Env<'a>,
    snapshot: Term<'a>,
    count: usize,
    copied_max: u64,
    shape: Shape,
) -> Term<'a> {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call.
    let Some(reading) = (unsafe { SNAPSHOT.get(raw_env, snapshot.as_c_arg()) }) else {
        return Misuse::Argument(1, atoms::no_such_table()).term(env);
    };
    let mut guard = reading.snapshot.lock();
    let mut pairs = match shape {
        Shape::Pairs => Pairs::new(raw_env, reading.codec),
        Shape::Records => Pairs::records(raw_env),
    };
    let mut step = if guard.is_some() { Ok(true) } else { Ok(false) };
    if let Some(snapshot) = guard.as_mut() {
        if snapshot.copies_next() > copied_max {
            return Misuse::Dirty.term(env);
        }
        while step == Ok(true) && pairs.len() < count && started.elapsed() <= PAGE {
            step = snapshot.next_part(PART.min(count - pairs.len()), |entry| {
                if !entry.is_expired(reading.now_ms) {
                    pairs.push(&entry);
                }
            });
            pairs.finish();
            if snapshot.copies_next() > COPIED_RECORDS_MAX {
                break;
            }
        }
    }
    let ended = if step == Ok(true) { None } else { guard.take() };
    drop(guard);
    drop(ended);
    erts::consume_timeslice(raw_env, started.elapsed());
    // SAFETY: the list was made in this environment.
    let list = unsafe { Term::new(env, pairs.list()) };
    let word = match step {
        Ok(true) => atoms::more(),
        Ok(false) => atoms::done(),
        Err(Abandoned) => atoms::abandoned(),
    };
    (word, list).encode(env)
}

/// Ends a snapshot, possibly early. On a dirty scheduler, since another call may be reading it.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_end<'a>(env: Env<'a>, snapshot: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to the present call.
    if let Some(reading) = unsafe { SNAPSHOT.get(env.as_c_arg(), snapshot.as_c_arg()) } {
        let snapshot = reading.snapshot.lock().take();
        drop(snapshot);
    }
    atoms::ok().encode(env)
}
