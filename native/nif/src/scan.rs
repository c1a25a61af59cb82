//! Scans and snapshots, a bounded page at a time.

use crate::erts::{self, ResourceType};
use crate::pairs::Pairs;
use crate::store::{Codec, now_ms};
use crate::{atoms, tables};
use parking_lot::Mutex;
use rustler::{Encoder, Env, Term};
use std::time::{Duration, Instant};
use todana_table::{Abandoned, Keyspace, Snapshot};

/// Resources that are snapshots being read.
pub(crate) static SNAPSHOT: ResourceType<Reading> = ResourceType::new(c"todana_snapshot");

/// A page ends after this time, whatever it holds: with the shard that is being read.
const PAGE: Duration = Duration::from_micros(500);

/// `scan(Table, Cursor, Count) -> {NextCursor, Pairs}`, the cursor being 0 at the end; see
/// [`reply::pair`].
#[rustler::nif]
fn scan<'a>(env: Env<'a>, table: Term<'a>, cursor: u64, count: usize) -> Term<'a> {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = match unsafe { tables::get(raw_env, table.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
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
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call.
    let Some(reading) = (unsafe { SNAPSHOT.get(raw_env, snapshot.as_c_arg()) }) else {
        return crate::codec::Misuse::Argument(1, atoms::no_such_table()).term(env);
    };
    let mut guard = reading.snapshot.lock();
    let mut pairs = Pairs::new(raw_env, reading.codec);
    let mut step = if guard.is_some() { Ok(true) } else { Ok(false) };
    if let Some(snapshot) = guard.as_mut() {
        while step == Ok(true) && pairs.len() < count && started.elapsed() <= PAGE {
            step = snapshot.next_part(PART.min(count - pairs.len()), |entry| {
                if !entry.is_expired(reading.now_ms) {
                    pairs.push(&entry);
                }
            });
            pairs.finish();
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
