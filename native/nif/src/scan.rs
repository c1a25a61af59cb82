//! Scans and snapshots, a bounded page at a time.

use crate::codec::Misuse;
use crate::erts::{self, ResourceType};
use crate::pairs::Pairs;
use crate::store::{Codec, Store, now_ms};
use crate::{atoms, tables};
use parking_lot::Mutex;
use rustler::{Encoder, Env, Term};
use std::time::{Duration, Instant};
use todana_table::{Abandoned, Keyspace, Snapshot};

/// Resources that are snapshots being read.
pub(crate) static SNAPSHOT: ResourceType<Reading> = ResourceType::new(c"todana_snapshot");

/// A page ends after this time, whatever it holds: with the shard that is being read.
const PAGE: Duration = Duration::from_micros(500);
/// Records of a shard, on average, that a scan reads on a normal scheduler: it reads shards as a
/// whole, a record in about a microsecond. Where there are more, it runs on a dirty scheduler; and
/// so does the sweeper, which may move a whole index or tidy all deadlines of a shard.
const SHARD_RECORDS_MAX: u64 = 1_024;
/// The same for the copy of a shard's pointers with which a snapshot begins to read it, a pointer
/// in a nanosecond or two.
const COPIED_RECORDS_MAX: u64 = 65_536;

/// Whether a call that goes over whole shards of the table has to leave the normal schedulers.
pub(crate) fn has_large_shards(store: &Store) -> bool {
    store.table().shard_len() > SHARD_RECORDS_MAX
}

/// `scan(Table, Cursor, Count) -> {NextCursor, Pairs}`, the cursor being 0 at the end; see
/// [`reply::pair`](crate::reply::pair).
#[rustler::nif]
fn scan<'a>(env: Env<'a>, table: Term<'a>, cursor: u64, count: usize) -> Term<'a> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    match unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) if has_large_shards(store) => Misuse::Dirty.term(env),
        Ok(store) => page(env, store, cursor, count),
        Err(misuse) => misuse.term(env),
    }
}

/// The same by a handle.
#[rustler::nif(schedule = "DirtyCpu")]
fn scan_dirty<'a>(env: Env<'a>, handle: Term<'a>, cursor: u64, count: usize) -> Term<'a> {
    // SAFETY: both belong to the present call.
    match unsafe { tables::by_handle(env.as_c_arg(), handle.as_c_arg()) } {
        Ok(store) => page(env, store, cursor, count),
        Err(misuse) => misuse.term(env),
    }
}

fn page<'a>(env: Env<'a>, store: &Store, cursor: u64, count: usize) -> Term<'a> {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    let (table, now_ms) = (store.table(), now_ms());
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

/// Entries of a snapshot between two looks at the clock.
const PART: usize = 64;

/// A snapshot being read by one process. Where that dies, a scheduler collects it: to end a
/// snapshot takes a step for each shard, and what was kept is freed by the table's reaper.
pub(crate) struct Reading {
    snapshot: Mutex<Option<Snapshot<'static>>>,
    /// The time it shows: what had expired then is not seen.
    now_ms: u64,
    codec: Codec,
}

/// `snapshot(Table) -> {ok, Snapshot} | {error, busy}`
#[rustler::nif]
fn snapshot<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = match unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    let now_ms = now_ms();
    let table = store.table();
    // A clear that is due comes before the snapshot.
    table.sweep(now_ms, 0);
    let Some(snapshot) = table.snapshot_owned() else {
        return env.error_tuple(atoms::busy());
    };
    let reading = Reading { snapshot: Mutex::new(Some(snapshot)), now_ms, codec: store.codec };
    let reading = SNAPSHOT.make(reading, 0);
    // SAFETY: the term was made in this environment.
    let term = unsafe { Term::new(env, reading.term(env.as_c_arg())) };
    (atoms::ok(), term).encode(env)
}

/// `snapshot_next(Snapshot, Count) -> {more | done | abandoned, Pairs}`; the snapshot ends with
/// anything but `more`. A table with a limit abandons it where it would keep too much.
#[rustler::nif]
fn snapshot_next<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize) -> Term<'a> {
    part(env, snapshot, count, COPIED_RECORDS_MAX)
}

/// The same, however large a shard is.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_next_dirty<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize) -> Term<'a> {
    part(env, snapshot, count, u64::MAX)
}

/// The next records, up to a shard of more than `copied_max` of them: that is for a call of its
/// own, on a dirty scheduler.
fn part<'a>(env: Env<'a>, snapshot: Term<'a>, count: usize, copied_max: u64) -> Term<'a> {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call.
    let Some(reading) = (unsafe { SNAPSHOT.get(raw_env, snapshot.as_c_arg()) }) else {
        return Misuse::Argument(1, atoms::no_such_table()).term(env);
    };
    let mut guard = reading.snapshot.lock();
    let mut pairs = Pairs::new(raw_env, reading.codec);
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

/// Ends a snapshot, before its end too. On a dirty scheduler: another call may be reading it.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_end<'a>(env: Env<'a>, snapshot: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to the present call.
    if let Some(reading) = unsafe { SNAPSHOT.get(env.as_c_arg(), snapshot.as_c_arg()) } {
        let snapshot = reading.snapshot.lock().take();
        drop(snapshot);
    }
    atoms::ok().encode(env)
}
