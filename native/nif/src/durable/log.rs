//! What the processes around the log call: to take batches, to apply them, to open the gate.

use super::running::{LocalGroup, Numbered, Running, Settings};
use crate::{atoms, database, erts};
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, NewBinary, NifResult, Term};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use todana_command::{FORMAT_MAX, FORMAT_MIN};
use todana_group::{
    Applied, Gate, Group, GroupOptions, QUEUE_BYTES_MAX, READ_BOUND_MS, Slice, Submit, TooLong,
    Wake,
};

/// What a call on a normal scheduler may take.
const SLICE: Duration = Duration::from_micros(500);

/// What a call on a dirty scheduler may take before it returns, so that the process can be killed.
pub(super) const DIRTY_SLICE: Duration = Duration::from_millis(20);

/// Bytes of a batch that may be copied on a normal scheduler: some ten microseconds.
const TAKEN_BYTES_MAX: usize = 256 << 10;

/// The default of `durable_value_bytes_max`.
const VALUE_BYTES_MAX: usize = 16 << 20;

/// Wakes the processes of a group.
struct WakeProcesses(&'static LocalGroup);

impl Wake for WakeProcesses {
    fn wake(&self) {
        self.0.wake_batcher();
    }
    fn wake_asker(&self) {
        self.0.wake_asker();
    }
}

/// `group_open(Group, Options) -> ok | no_durable_databases`: makes the group of the durable
/// databases. If there is one with the same options, it stays.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_open(of: Numbered, options: Term<'_>) -> NifResult<Atom> {
    let number = |name: &str| -> NifResult<Option<u64>> {
        let key = Atom::from_str(options.get_env(), name)?;
        // An atom is `auto`.
        Ok(options.map_get(key).ok().and_then(|value| value.decode().ok()))
    };
    let bytes = |name: &str, default: usize| -> NifResult<usize> {
        Ok(number(name)?.map_or(default, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
    };
    let settings = Settings {
        value_bytes_max: bytes("durable_value_bytes_max", VALUE_BYTES_MAX)?,
        queue_bytes_max: bytes("group_queue_bytes_max", QUEUE_BYTES_MAX)?,
        snapshot_log_bytes: number("snapshot_log_bytes")?,
        read_bound_ms: number("read_bound_ms")?.unwrap_or(READ_BOUND_MS),
        others: number("others")?.map(|others| usize::try_from(others).unwrap_or(usize::MAX)),
    };
    let Some((databases, seed)) = database::durable() else {
        return Ok(atoms::no_durable_databases());
    };
    let mut running = of.running.lock();
    if running.as_ref().is_some_and(|running| {
        running.settings == settings && Arc::ptr_eq(running.group.databases(), &databases)
    }) {
        return Ok(atoms::ok());
    }
    let options = GroupOptions {
        databases,
        seed,
        incarnation: random(),
        value_bytes_max: settings.value_bytes_max,
        queue_bytes_max: settings.queue_bytes_max,
        snapshot_log_bytes: settings.snapshot_log_bytes,
    };
    let former = running.take();
    let group = Group::with_gate(
        options,
        Box::new(WakeProcesses(of.local())),
        of.shared_gate(),
        of.shared_clock(),
    );
    if settings.others.is_some() {
        // Until the map of the cluster says what the others read.
        group.set_common_formats(Some((FORMAT_MIN, FORMAT_MIN)));
    }
    group.set_read_bound_ms(settings.read_bound_ms);
    group.set_others(settings.others);
    of.publish(Some(Arc::clone(&group)));
    *running = Some(Running { group, settings, snapshot: Arc::default() });
    drop(running);
    former.iter().for_each(|former| end(&former.group));
    Ok(atoms::ok())
}

/// A number that no other group has: sequences begin at 1 in each.
fn random() -> u64 {
    // Keyed by the operating system.
    RandomState::new().build_hasher().finish()
}

/// `group_close(Group) -> ok`: ends the group, when its log does not run any more.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_close(of: Numbered) -> Atom {
    let mut running = of.running.lock();
    of.publish(None);
    let ended = running.take();
    drop(running);
    ended.iter().for_each(|ended| end(&ended.group));
    atoms::ok()
}

fn end(group: &Group) {
    group.set_gate(Gate::Closed, "the application was stopped");
    // Nobody applies them here any more.
    group.forget_all();
}

/// `group_attach(Group, Pid) -> ok`: this process receives `todana_ready` when something waits. A
/// call of its predecessor that goes on after that was killed has ended, so that `group_in_flight`
/// is complete.
#[rustler::nif]
fn group_attach(of: Numbered, batcher: LocalPid) -> Atom {
    *of.batcher.lock() = Some(batcher);
    if let Some(group) = of.group() {
        group.await_sealed();
    }
    atoms::ok()
}

/// `group_take(Group, InFlight) -> {Sequence, Batch} | empty | long`: the next batch of a batcher
/// that has this number of them in flight; `long` if it takes long to copy, so that
/// `group_take_dirty` must be called.
#[rustler::nif]
fn group_take(env: Env<'_>, of: Numbered, in_flight: usize) -> NifResult<Term<'_>> {
    take(env, of, in_flight, TAKEN_BYTES_MAX)
}

/// Like `group_take`, for batches of any length.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_take_dirty(env: Env<'_>, of: Numbered, in_flight: usize) -> NifResult<Term<'_>> {
    take(env, of, in_flight, usize::MAX)
}

fn take(env: Env<'_>, of: Numbered, in_flight: usize, bytes_max: usize) -> NifResult<Term<'_>> {
    let sealed = match of.the_group()?.take_within(in_flight, bytes_max) {
        Ok(Some(sealed)) => sealed,
        Ok(None) => return Ok(atoms::empty().encode(env)),
        Err(TooLong { .. }) => return Ok(atoms::long().encode(env)),
    };
    let mut batch = NewBinary::new(env, sealed.bytes.len());
    batch.as_mut_slice().copy_from_slice(&sealed.bytes);
    erts::bill(env.as_c_arg(), sealed.bytes.len());
    Ok((sealed.sequence, Binary::from(batch)).encode(env))
}

/// `group_forget(Group, Sequence) -> ok`: nobody has the batch any more; its outcome is unknown.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_forget(of: Numbered, sequence: u64) -> NifResult<Atom> {
    of.the_group()?.forget(sequence);
    Ok(atoms::ok())
}

/// `group_in_flight(Group) -> [Sequence]`: batches that were taken, and neither applied nor
/// forgotten.
#[rustler::nif]
fn group_in_flight(of: Numbered) -> NifResult<Vec<u64>> {
    Ok(of.the_group()?.in_flight())
}

/// `group_formats(Group) -> {Newest, Common, Unasked}`: the newest format of batches that this
/// version reads, the newest that all members read, which the group writes for a command that needs
/// it, and the newest that it writes although no command needs it.
#[rustler::nif]
fn group_formats(of: Numbered) -> (u8, u8, u8) {
    let group = of.group();
    let format = |of: fn(&Group) -> u8| group.as_ref().map_or(FORMAT_MAX, |group| of(group));
    (FORMAT_MAX, format(|group| group.format()), format(|group| group.unasked_format()))
}

/// `group_common_formats(Group, Common, Unasked) -> ok`: the newest format that all members of the
/// cluster read, and the newest that this node writes although no command needs it.
#[rustler::nif]
fn group_common_formats(of: Numbered, common: u64, unasked: u64) -> NifResult<Atom> {
    let format = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
    of.the_group()?.set_common_formats(Some((format(common), format(unasked))));
    Ok(atoms::ok())
}

/// `group_apply(Group, Batch, Offset, Index, TimeMs) -> {more | long, Offset} | {done,
/// IsSnapshotDue} | {newer, Sentence} | out_of_step`: applies an entry of the log, for half a
/// millisecond. `long` if it must go on with `group_apply_dirty`.
#[rustler::nif]
fn group_apply<'a>(
    env: Env<'a>,
    of: Numbered,
    batch: Binary<'a>,
    offset: usize,
    index: u64,
    time_ms: u64,
) -> NifResult<Term<'a>> {
    let started = Instant::now();
    let slice = Slice { time: SLICE, may_take_long: false };
    let applied = apply(env, of, &batch, offset, index, time_ms, slice);
    erts::consume_timeslice(env.as_c_arg(), started.elapsed());
    applied
}

/// Like `group_apply`, for entries with records that may take long.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_apply_dirty<'a>(
    env: Env<'a>,
    of: Numbered,
    batch: Binary<'a>,
    offset: usize,
    index: u64,
    time_ms: u64,
) -> NifResult<Term<'a>> {
    apply(env, of, &batch, offset, index, time_ms, DIRTY_SLICE.into())
}

fn apply<'a>(
    env: Env<'a>,
    of: Numbered,
    batch: &[u8],
    offset: usize,
    index: u64,
    time_ms: u64,
    slice: Slice,
) -> NifResult<Term<'a>> {
    Ok(match of.the_group()?.apply(batch, offset, index, time_ms, slice) {
        Applied::More(offset) => (atoms::more(), offset).encode(env),
        Applied::Long(offset) => (atoms::long(), offset).encode(env),
        Applied::Done { snapshot_due } => (atoms::done(), snapshot_due).encode(env),
        Applied::Newer(newer) => (atoms::newer(), newer.to_string()).encode(env),
        Applied::OutOfStep => atoms::out_of_step().encode(env),
    })
}

/// `group_applied(Group) -> Index`: of the last entry that was applied or skipped.
#[rustler::nif]
fn group_applied(of: Numbered) -> NifResult<u64> {
    Ok(of.the_group()?.applied_index())
}

/// `group_answered(Group) -> Index`: of the last entry that has a write of which a client here
/// knows the outcome. It may be the one behind that of `group_applied`.
#[rustler::nif]
fn group_answered(of: Numbered) -> NifResult<u64> {
    Ok(of.the_group()?.answered_index())
}

/// `group_skip(Group, Index) -> ok`: this entry of the log is not for the databases.
#[rustler::nif]
fn group_skip(of: Numbered, index: u64) -> NifResult<Atom> {
    of.the_group()?.skip(index);
    Ok(atoms::ok())
}

/// `group_load(Group) -> Number`: which load of the databases this is.
#[rustler::nif]
fn group_load(of: Numbered) -> NifResult<u64> {
    Ok(of.the_group()?.loads())
}

/// `group_reset(Group) -> ok`: empties the databases. The log is applied from its first entry next.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_reset(of: Numbered) -> NifResult<Atom> {
    of.group_to_load()?.reset();
    Ok(atoms::ok())
}

/// `group_gate(Group, closed | open | read_only | removals | no_leader, Reason, Load) -> ok`: does
/// nothing if the gate is to be opened for another load than the present one.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_gate(of: Numbered, word: Atom, reason: &str, load: u64) -> NifResult<Atom> {
    let gate = gate_of(word).ok_or(rustler::Error::BadArg)?;
    // Without a lock: what waits in the queue may be dropped, and its clients learn of it.
    let group = of.the_group()?;
    match gate {
        Gate::Closed => group.set_gate(gate, reason),
        Gate::Open | Gate::ReadOnly | Gate::Removals | Gate::Leaderless => {
            group.set_gate_of(load, gate, reason);
        }
    }
    Ok(atoms::ok())
}

/// The gate of this name.
pub(crate) fn gate_of(word: Atom) -> Option<Gate> {
    Some(match word {
        word if word == atoms::closed() => Gate::Closed,
        word if word == atoms::open() => Gate::Open,
        word if word == atoms::read_only() => Gate::ReadOnly,
        word if word == atoms::removals() => Gate::Removals,
        word if word == atoms::no_leader() => Gate::Leaderless,
        _ => return None,
    })
}

/// The name of a gate.
pub(crate) fn word_of(gate: Gate) -> Atom {
    match gate {
        Gate::Closed => atoms::closed(),
        Gate::Open => atoms::open(),
        Gate::ReadOnly => atoms::read_only(),
        Gate::Removals => atoms::removals(),
        Gate::Leaderless => atoms::no_leader(),
    }
}

/// A gate as the figures have it, which do not say why nothing is written.
pub(crate) fn figure_of(gate: Gate) -> Atom {
    match gate {
        Gate::Open => atoms::open(),
        Gate::ReadOnly | Gate::Removals | Gate::Leaderless => atoms::read_only(),
        Gate::Closed => atoms::closed(),
    }
}

/// `group_tick(Group) -> ok`: once a second. Has the log remove what has expired, and drops the
/// handle of a snapshot that nobody writes.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_tick(of: Numbered) -> NifResult<Atom> {
    let (group, snapshot) = of.group_and_snapshot()?;
    snapshot.drop_abandoned();
    group.tick(of.now_ms());
    Ok(atoms::ok())
}

/// `group_info(Group) -> #{Name => Value}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn group_info(env: Env<'_>, of: Numbered) -> NifResult<Term<'_>> {
    let group = of.the_group()?;
    let figures = group.figures();
    let atom = |name| Atom::from_str(env, name);
    let times = Term::map_from_pairs(
        env,
        &[(atom("p50")?, figures.commit_p50_us), (atom("p99")?, figures.commit_p99_us)],
    )?;
    let mut pairs = vec![
        (atom("gate")?, figure_of(group.gate()).encode(env)),
        (atom("commit_us")?, times),
        (atom("oldest_ms")?, group.oldest_in_flight_ms().unwrap_or(0).encode(env)),
        (atom("data_bytes")?, group.data_bytes().encode(env)),
    ];
    for (name, number) in [
        ("queue_bytes", figures.queue_bytes as u64),
        ("in_flight", figures.in_flight as u64),
        ("applied_index", figures.applied_index),
        ("log_time_ms", figures.log_time_ms),
        ("batches", figures.batches),
        ("records", figures.records),
        ("log_bytes", figures.log_bytes),
        ("logged_bytes", figures.logged_bytes),
        ("duplicates", figures.duplicates),
        ("malformed", figures.malformed),
        ("panics", figures.panics),
        ("format_used", figures.format_used.into()),
        ("format_max", figures.format_max.into()),
    ] {
        pairs.push((atom(name)?, number.encode(env)));
    }
    if let Some(progress) = figures.recovery {
        let percent = progress.done.saturating_mul(100) / progress.total.max(1);
        pairs.push((atom("progress")?, percent.min(100).encode(env)));
    }
    Term::map_from_pairs(env, &pairs)
}
