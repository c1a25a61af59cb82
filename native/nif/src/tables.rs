//! The registry: tables by name, for the whole node.
//!
//! One Erlang process opens and closes tables, so these functions may take a lock. Every read by
//! name looks up the table, and takes no lock: an atom's term is the same word everywhere, so
//! comparing words finds a name in [`NAMES`].
//!
//! # Why a look-up by name is safe while the table is closed
//!
//! [`NAMES`] holds an address, not a reference. Two references keep the table alive: one in the
//! registry, and one in a handle, which is a persistent term (`todana_tables`). The Erlang side
//! erases that term after `close` has removed the name. The VM frees an erased term only after it
//! has scheduled out and scanned every process of the node, and it does not schedule out a process
//! that runs a NIF on a normal scheduler. A NIF that read the address before it was removed
//! has therefore returned before the table is freed. Functions on dirty schedulers do not have this
//! protection: they receive the handle's term ([`by_handle`]).

use crate::atoms;
use crate::codec::Misuse;
use crate::erts::{self, Raw, RawEnv, ResourceRef};
use crate::order;
use crate::store::{Codec, HANDLE, Store};
use crate::submit::{self, Form, Shape};
use crate::{database, durable};
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use todana_command::{Command, DatabaseCommand};
use todana_group::record::TableOptions;
use todana_table::{Keyspace, Limits, Named, Names, Options, Peak, WhenFull, reaper};

/// Maximum number of open tables.
const TABLES_MAX: usize = 4096;
const BUCKETS_LEN: usize = 2 * TABLES_MAX;
/// Number of shards that the first write may create on a normal scheduler: this takes some 50
/// microseconds.
const SHARDS_MADE_LATE_MAX: usize = 4_096;

/// The open tables by their names: the words of atoms' terms. Changed with [`OPEN`] locked.
static NAMES: Names<Store, BUCKETS_LEN> = Names::new();

/// An open table, and the resource for its handles.
struct Open {
    store: Arc<Store>,
    handle: ResourceRef<Arc<Store>>,
}

/// The references that keep open tables alive.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// What their records took.
static PEAK: Mutex<Peak> = Mutex::new(Peak::new());

/// For the first load, and for a load after the module was deleted and purged. In the second case
/// the resources of open tables have types that this instance does not know. Makes new handles, and
/// ends the subscriptions, whose terms the subscribers could no longer use.
pub(crate) fn renew_resources() {
    let mut open = OPEN.lock();
    for open in open.iter_mut() {
        open.handle = HANDLE.make(Arc::clone(&open.store), 0);
    }
    let stores: Vec<Arc<Store>> = open.iter().map(|open| Arc::clone(&open.store)).collect();
    // Look-ups of handles wait for this lock, and the ends of subscriptions wait for writers.
    drop(open);
    stores.iter().for_each(|store| store.end_subscriptions());
}

/// An atom's term as a word.
#[inline]
fn word(name: Raw) -> usize {
    // SAFETY: `ErlNifTerm` is a transparent wrapper of a `usize`.
    unsafe { std::mem::transmute::<Raw, usize>(name) }
}

/// Reads the records of the table that a name or a handle denotes, on a normal scheduler. Fails if
/// it is durable and its records cannot be read yet, or were replaced meanwhile.
///
/// # Safety
/// As for [`get`].
#[inline(always)]
pub(crate) unsafe fn read<'a, R>(
    env: RawEnv,
    term: Raw,
    read: impl FnOnce(&'a Store) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    // SAFETY: see the function.
    let store = unsafe { open_one(env, term)? };
    submit::reading(store, read)
}

/// Like [`read`], with a handle, on any scheduler.
///
/// # Safety
/// As for [`by_handle`].
pub(crate) unsafe fn read_by_handle<'a, R>(
    env: RawEnv,
    term: Raw,
    read: impl FnOnce(&'a Store) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    // SAFETY: see the function.
    let store = unsafe { open_by_handle(env, term)? };
    submit::reading(store, read)
}

/// The table that a name or a handle denotes, on a normal scheduler, for writes and for what does
/// not concern the records. Fails if it is durable and its records cannot be read yet.
///
/// # Safety
/// `env` and `term` belong to the present call, it runs on a normal scheduler, and `'a` does not
/// outlast it.
#[inline]
pub(crate) unsafe fn get<'a>(env: RawEnv, term: Raw) -> Result<&'a Store, Misuse> {
    // SAFETY: see the function.
    let store = unsafe { open_one(env, term)? };
    submit::readable(store)?;
    Ok(store)
}

/// The same, for what does not concern the records.
///
/// # Safety
/// As for [`get`].
#[inline]
pub(crate) unsafe fn open_one<'a>(env: RawEnv, term: Raw) -> Result<&'a Store, Misuse> {
    // Only an atom's term is a name.
    let name = word(term);
    match NAMES.find(name) {
        Named::At(store) => {
            // SAFETY: see the module's essay.
            let store = unsafe { store.as_ref() };
            // Another table may have taken the bucket since its name was read.
            if word(store.name) == name { Ok(store) } else { Err(no_such_table()) }
        }
        Named::Removed => Err(no_such_table()),
        // SAFETY: see the function.
        Named::Unknown => unsafe { open_by_handle(env, term) },
    }
}

/// Like [`get`], with a handle, on any scheduler.
///
/// # Safety
/// `env` and `term` belong to the present call, and `'a` does not outlast it.
pub(crate) unsafe fn by_handle<'a>(env: RawEnv, term: Raw) -> Result<&'a Store, Misuse> {
    // SAFETY: see the function.
    let store = unsafe { open_by_handle(env, term)? };
    submit::readable(store)?;
    Ok(store)
}

/// Like [`open_one`], with a handle, on any scheduler.
///
/// # Safety
/// `env` and `term` belong to the present call, and `'a` does not outlast it.
pub(crate) unsafe fn open_by_handle<'a>(env: RawEnv, term: Raw) -> Result<&'a Store, Misuse> {
    // SAFETY: see the function.
    match unsafe { HANDLE.get(env, term) } {
        Some(store) if !store.is_closed() => Ok(store),
        _ => Err(no_such_table()),
    }
}

/// Like [`by_handle`], with a reference that outlives the call.
///
/// # Safety
/// `env` and `term` belong to the present call.
pub(crate) unsafe fn shared(env: RawEnv, term: Raw) -> Result<Arc<Store>, Misuse> {
    // SAFETY: see the function.
    match unsafe { HANDLE.get(env, term) } {
        Some(store) if !store.is_closed() => Ok(Arc::clone(store)),
        _ => Err(no_such_table()),
    }
}

#[cold]
fn no_such_table() -> Misuse {
    Misuse::Argument(1, atoms::no_such_table())
}

/// Opens a table, or finds the one of that name. `{ok, Handle}`, or `{error, exists}` if it has
/// other options. The Erlang side has checked the options.
#[rustler::nif(schedule = "DirtyCpu")]
fn open<'a>(
    env: Env<'a>,
    name: Atom,
    codec: Atom,
    ttl_ms: Option<u64>,
    limits: (Option<u64>, Option<u64>, Atom),
    shards: Option<usize>,
    order: Option<Atom>,
) -> Term<'a> {
    let order = order::of_word(order);
    let codec = codec_of(codec, order.is_some());
    let (entries_max, bytes_max, when_full) = limits;
    let when_full = if when_full == atoms::refuse() { WhenFull::Refuse } else { WhenFull::Evict };
    let limits = Limits { entries_max, bytes_max, when_full };
    let options = Options { shards, limits, order, ..Options::default() };
    let mut made = None;
    if shards.is_some_and(|shards| shards > SHARDS_MADE_LATE_MAX) {
        // Here, and not in the first write; and before taking the lock, for which look-ups of
        // handles wait.
        let store = Store::own(name.as_c_arg(), codec, ttl_ms, options.clone());
        store.table().prepare();
        made = Some(store);
    }
    let mut open = OPEN.lock();
    if let Some(found) = open.iter().find(|open| open.store.name == name.as_c_arg()) {
        let store = &found.store;
        let same = store.codec == codec
            && store.ttl_ms() == ttl_ms
            && same_limits(store.limits(), limits)
            && store.options.shards == options.shards
            && store.options.order == options.order
            && store.database_number().is_none()
            && !store.is_durable();
        return if same { handle_term(env, found) } else { env.error_tuple(atoms::exists()) };
    }
    let store = made.unwrap_or_else(|| Store::own(name.as_c_arg(), codec, ttl_ms, options));
    publish(env, &mut open, store)
}

fn codec_of(word: Atom, is_ordered: bool) -> Codec {
    match (word == atoms::term(), is_ordered) {
        (false, _) => Codec::Raw,
        (true, false) => Codec::Term,
        (true, true) => Codec::OrderedTerm,
    }
}

fn same_limits(one: Limits, other: Limits) -> bool {
    one.entries_max == other.entries_max
        && one.bytes_max == other.bytes_max
        && one.when_full == other.when_full
}

/// `set_limits(Table, Changes) -> ok`: changes the limits that are listed, `{Option, Value}` with
/// `nil` for no limit. The Erlang side has checked them. The sweeper and later writes evict what
/// exceeds them.
#[rustler::nif]
fn set_limits<'a>(env: Env<'a>, table: Term<'a>, changes: Vec<(Atom, Term<'a>)>) -> Term<'a> {
    // SAFETY: both belong to this call, which runs on a normal scheduler.
    let store = match unsafe { open_one(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    if store.database_number().is_some() {
        return Misuse::Argument(1, atoms::is_a_database()).term(env);
    }
    if store.is_durable() {
        return Misuse::Argument(1, atoms::is_durable()).term(env);
    }
    store.change_limits(|limits| {
        for (option, value) in changes {
            let number = value.decode::<u64>().ok();
            if option == atoms::entries_max() {
                limits.entries_max = number;
            } else if option == atoms::bytes_max() {
                limits.bytes_max = number;
            } else if option == atoms::ttl_ms() {
                store.set_ttl_ms(number);
            } else if option == atoms::when_full() {
                let refuse = atoms::refuse().encode(env) == value;
                limits.when_full = if refuse { WhenFull::Refuse } else { WhenFull::Evict };
            }
        }
    });
    atoms::ok().encode(env)
}

/// Opens a database of the server under a name, or finds it.
#[rustler::nif(schedule = "DirtyCpu")]
fn open_database<'a>(env: Env<'a>, name: Atom, number: usize) -> Term<'a> {
    let Some(databases) = database::databases(number) else {
        return env.error_tuple(atoms::no_such_database());
    };
    let mut open = OPEN.lock();
    if let Some(found) = open.iter().find(|open| open.store.name == name.as_c_arg()) {
        return match found.store.database_number() {
            Some(open) if open == number => handle_term(env, found),
            _ => env.error_tuple(atoms::exists()),
        };
    }
    publish(env, &mut open, Store::database(name.as_c_arg(), databases, number))
}

fn handle_term<'a>(env: Env<'a>, open: &Open) -> Term<'a> {
    // SAFETY: the term was made in this environment.
    let term = unsafe { Term::new(env, open.handle.term(env.as_c_arg())) };
    (atoms::ok(), term).encode(env)
}

fn publish<'a>(env: Env<'a>, open: &mut Vec<Open>, store: Store) -> Term<'a> {
    if open.len() >= TABLES_MAX {
        return env.error_tuple(atoms::full());
    }
    let name = word(store.name);
    let store = Arc::new(store);
    let address = NonNull::from(&*store);
    let opened = Open { handle: HANDLE.make(Arc::clone(&store), 0), store };
    let answer = handle_term(env, &opened);
    if !NAMES.insert(name, address) {
        return env.error_tuple(atoms::full());
    }
    open.push(opened);
    answer
}

/// Closes a table by its handle: empties it and removes the name. The caller erases the persistent
/// term afterwards.
#[rustler::nif(schedule = "DirtyCpu")]
fn close<'a>(env: Env<'a>, handle: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to this call.
    let store = match unsafe { open_by_handle(env.as_c_arg(), handle.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    let mut open = OPEN.lock();
    let Some(at) = open.iter().position(|open| open.store.name == store.name) else {
        return no_such_table().term(env);
    };
    let reference = open.swap_remove(at);
    store.close();
    NAMES.remove(word(store.name));
    drop(open);
    store.end_subscriptions();
    if store.database_number().is_none() && !store.is_durable() {
        // Here, on a dirty scheduler, and not when some process collects the last handle.
        store.table().clear();
    }
    drop(reference);
    atoms::ok().encode(env)
}

/// All open tables as `{Name, Handle}`.
#[rustler::nif]
fn tables(env: Env<'_>) -> Vec<(Term<'_>, Term<'_>)> {
    let open = OPEN.lock();
    open.iter()
        .map(|open| {
            // SAFETY: an atom, and a term made in this environment.
            unsafe {
                let handle = Term::new(env, open.handle.term(env.as_c_arg()));
                (Term::new(env, open.store.name), handle)
            }
        })
        .collect()
}

/// The options of a table, and the number of a database: `{Name, Codec, TtlMs, {EntriesMax,
/// BytesMax, WhenFull}, Order, Database, {ShardsGiven, Shards, IsDurable}}`.
#[rustler::nif]
fn options<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to this call, which runs on a normal scheduler.
    let store = match unsafe { open_one(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    // SAFETY: an atom.
    let name = unsafe { Term::new(env, store.name) };
    let codec = if store.codec == Codec::Raw { atoms::raw() } else { atoms::term() };
    let limits = match store.database_number() {
        Some(number) => database::limits(number),
        None => store.limits(),
    };
    let when_full =
        if limits.when_full == WhenFull::Refuse { atoms::refuse() } else { atoms::evict() };
    let limits = (limits.entries_max, limits.bytes_max, when_full);
    let order = store.table().order().map(|order| order::word(order, store.codec));
    let shards = (store.options.shards, store.table().shards(), store.is_durable());
    (name, codec, store.ttl_ms(), limits, order, store.database_number(), shards).encode(env)
}

/// Counts as a list of pairs.
#[rustler::nif(schedule = "DirtyCpu")]
fn counts<'a>(env: Env<'a>, handle: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to this call.
    let store = match unsafe { open_by_handle(env.as_c_arg(), handle.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    let counts = store.table().counts();
    let (hits, misses) = store.looks();
    vec![
        ("entries", counts.entries),
        ("entries_with_expiry", counts.entries_with_expiry),
        ("bytes", counts.bytes),
        ("kept_bytes", counts.kept_bytes),
        ("index_bytes", counts.index_bytes),
        ("expired", counts.expired),
        ("evicted", counts.evicted),
        ("refused", counts.refused),
        ("version", counts.version),
        ("hits", hits),
        ("misses", misses),
        ("subscriptions", store.subscriptions().lock().len() as u64),
    ]
    .encode(env)
}

/// Removes a few expired records: `{Removed, MoreAreDue}`.
#[rustler::nif]
fn sweep<'a>(env: Env<'a>, table: Term<'a>, work_max: usize) -> Term<'a> {
    // SAFETY: both belong to this call, which runs on a normal scheduler.
    match unsafe { open_one(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) if store.has_large_shards() => Misuse::Dirty.term(env),
        Ok(store) => sweep_some(env, store, work_max),
        Err(misuse) => misuse.term(env),
    }
}

/// Like `sweep`, with a handle.
#[rustler::nif(schedule = "DirtyCpu")]
fn sweep_dirty<'a>(env: Env<'a>, handle: Term<'a>, work_max: usize) -> Term<'a> {
    // SAFETY: both belong to this call.
    match unsafe { open_by_handle(env.as_c_arg(), handle.as_c_arg()) } {
        Ok(store) => sweep_some(env, store, work_max),
        Err(misuse) => misuse.term(env),
    }
}

fn sweep_some<'a>(env: Env<'a>, store: &Store, work_max: usize) -> Term<'a> {
    if store.is_durable() {
        // The log removes what has expired.
        return (0_u64, false).encode(env);
    }
    let started = std::time::Instant::now();
    let swept = store.table().sweep(crate::time::now_ms(), work_max);
    erts::consume_timeslice(env.as_c_arg(), started.elapsed());
    swept.encode(env)
}

/// `sweep_rest() -> Written | none`: a number that grows with the writes to all tables that are
/// swept; `none` while one of them has something to sweep, now or later.
#[rustler::nif]
fn sweep_rest(env: Env<'_>) -> Term<'_> {
    let open = OPEN.lock();
    let mut swept = open.iter().map(|open| &open.store).filter(|store| !store.is_durable());
    let written = swept.try_fold(0_u64, |sum, store| {
        let counts = store.table().counts();
        // A write that was refused for lack of room may ask the sweeper for some.
        let written = counts.version.wrapping_add(counts.refused);
        store.table().is_at_rest().then(|| sum.wrapping_add(written))
    });
    written.map_or_else(|| atoms::none().encode(env), |sum| sum.encode(env))
}

/// `release_memory() -> ok`: gives free memory back to the system if the tables have shrunk. Called
/// each second.
#[rustler::nif]
fn release_memory() -> Atom {
    let held = |open: &Open| {
        let counts = open.store.table().counts();
        counts.bytes + counts.kept_bytes
    };
    let bytes = OPEN.lock().iter().map(held).sum();
    let is_freeing = reaper::pending_entries() > 0;
    let mut peak = PEAK.lock();
    if peak.has_passed(bytes, is_freeing) && reaper::release_free_memory(reaper::RELEASE_SHARE) {
        peak.forget();
    }
    atoms::ok()
}

/// `time_ms(Table) -> Ms`: milliseconds since the Unix epoch, by the clock by which the records of
/// the table expire.
#[rustler::nif]
fn time_ms<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    // SAFETY: both belong to this call, which runs on a normal scheduler.
    match unsafe { open_one(env.as_c_arg(), table.as_c_arg()) } {
        Ok(store) => store.now_ms().encode(env),
        Err(misuse) => misuse.term(env),
    }
}

/// Removes all records; returns how many there were.
#[rustler::nif(schedule = "DirtyCpu")]
fn clear<'a>(env: Env<'a>, handle: Term<'a>, form: Form<'a>) -> Term<'a> {
    // SAFETY: both belong to this call.
    match unsafe { by_handle(env.as_c_arg(), handle.as_c_arg()) } {
        Ok(store) if store.is_durable() => {
            if let Err(misuse) = submit::begin(store, form) {
                return misuse.term(env);
            }
            submit::term(
                env,
                submit::submit(env, store, form, Shape::Number, |records| {
                    records.put(&Command::Database(DatabaseCommand::Count));
                    records.put(&Command::Database(DatabaseCommand::Clear { at_ms: None }));
                }),
            )
        }
        Ok(store) => store.table().clear().encode(env),
        Err(misuse) => misuse.term(env),
    }
}

/// The handle of a table that is given by name or handle, on a normal scheduler.
pub(crate) fn handle_of<'a>(env: Env<'a>, table: Term<'a>) -> Result<Term<'a>, Misuse> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store: *const Store = unsafe { open_one(env.as_c_arg(), table.as_c_arg())? };
    let open = OPEN.lock();
    let found = open.iter().find(|open| ptr::eq(Arc::as_ptr(&open.store), store));
    let handle = found.ok_or_else(no_such_table)?.handle.term(env.as_c_arg());
    // SAFETY: the term was made in this environment.
    Ok(unsafe { Term::new(env, handle) })
}

/// `durable_table(Name) -> {Codec, TtlMs, Order, Shards} | none`: the options of a named table of
/// the log, whether it is open or not.
#[rustler::nif]
fn durable_table<'a>(env: Env<'a>, name: rustler::Binary<'a>) -> Term<'a> {
    let found = durable::named_table(name.as_slice());
    let Some((_, table)) = found else { return atoms::none().encode(env) };
    let TableOptions { order, opaque, .. } = table.options();
    let OpaqueOptions { codec, ttl_ms, shards } = OpaqueOptions::decode(opaque);
    let order = order.map(|order| order::word(order, codec));
    let codec = if codec == Codec::Raw { atoms::raw() } else { atoms::term() };
    (codec, ttl_ms, order, shards).encode(env)
}

/// `durable_tables() -> [Name]`: the named tables of the log.
#[rustler::nif]
fn durable_tables(env: Env<'_>) -> Vec<Term<'_>> {
    let tables = durable::named_tables();
    let name = |name: &[u8]| {
        let term = crate::values::fresh(env.as_c_arg(), name);
        // SAFETY: the term was made in this environment.
        unsafe { Term::new(env, term) }
    };
    tables.iter().map(|table| name(table.name())).collect()
}

/// `durable_record(Table, Key) -> Value | none`: the bytes of a record of a named table of the log,
/// even if records may not be read yet. For this node's own purposes.
#[rustler::nif]
fn durable_record<'a>(
    env: Env<'a>,
    table: rustler::Binary<'a>,
    key: rustler::Binary<'a>,
) -> Term<'a> {
    let value = durable::named_table(table.as_slice()).and_then(|(_, named)| {
        let copy = |value: &[u8]| crate::values::fresh(env.as_c_arg(), value);
        named.table().read(key.as_slice(), 0, |entry| entry?.text().ok().map(copy))
    });
    match value {
        // SAFETY: the term was made in this environment.
        Some(value) => unsafe { Term::new(env, value) },
        None => atoms::none().encode(env),
    }
}

/// What a named table of the log keeps for this library: the options with which it was opened, as
/// bytes.
struct OpaqueOptions {
    codec: Codec,
    ttl_ms: Option<u64>,
    /// Number of shards, if it was given.
    shards: Option<u32>,
}

impl OpaqueOptions {
    fn encode(&self) -> [u8; 13] {
        let mut bytes = [0; 13];
        bytes[0] = match self.codec {
            Codec::Raw => 0,
            Codec::Term => 1,
            Codec::OrderedTerm => 2,
        };
        bytes[1..9].copy_from_slice(&self.ttl_ms.unwrap_or(0).to_le_bytes());
        bytes[9..].copy_from_slice(&self.shards.unwrap_or(0).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> OpaqueOptions {
        let codec = match bytes.first() {
            Some(1) => Codec::Term,
            Some(2) => Codec::OrderedTerm,
            _ => Codec::Raw,
        };
        let ttl_ms = bytes.get(1..9).and_then(|bytes| bytes.try_into().ok());
        let ttl_ms = ttl_ms.map(u64::from_le_bytes).filter(|ttl_ms| *ttl_ms > 0);
        let shards = bytes.get(9..13).and_then(|bytes| bytes.try_into().ok());
        let shards = shards.map(u32::from_le_bytes).filter(|shards| *shards > 0);
        OpaqueOptions { codec, ttl_ms, shards }
    }
}

/// `create_durable(Name, Codec, TtlMs, Order, Shards, Form)`: creates a named table of the log.
/// Answers `present` if there is one.
#[rustler::nif]
fn create_durable<'a>(
    env: Env<'a>,
    name: rustler::Binary<'a>,
    codec: Atom,
    ttl_ms: Option<u64>,
    order: Option<Atom>,
    shards: Option<u32>,
    form: Form<'a>,
) -> Term<'a> {
    let order = order::of_word(order);
    let codec = codec_of(codec, order.is_some());
    let opaque = OpaqueOptions { codec, ttl_ms, shards }.encode();
    let shards = shards.map(|shards| shards as usize);
    let options = TableOptions { order, shards, opaque: &opaque };
    let group = durable::for_named_table(name.as_slice());
    submit::to_group(env, group, form, |records| records.create_table(name.as_slice(), &options))
}

/// `drop_durable(Name, Form)`: removes a named table of the log with its records.
#[rustler::nif]
fn drop_durable<'a>(env: Env<'a>, name: rustler::Binary<'a>, form: Form<'a>) -> Term<'a> {
    let group = durable::for_named_table(name.as_slice());
    submit::to_group(env, group, form, |records| records.drop_table(name.as_slice()))
}

/// Opens a named table of the log, or finds the open one. `{error, exists}` if the open table of
/// that name is not this one.
#[rustler::nif(schedule = "DirtyCpu")]
fn open_durable<'a>(env: Env<'a>, name: Atom, text: rustler::Binary<'a>) -> Term<'a> {
    let found = durable::named_table(text.as_slice());
    let Some((group, table)) = found else { return env.error_tuple(atoms::absent()) };
    let mut open = OPEN.lock();
    if let Some(found) = open.iter().find(|open| open.store.name == name.as_c_arg()) {
        let same = found.store.is_named() && found.store.home() == Some(table.home());
        return if same { handle_term(env, found) } else { env.error_tuple(atoms::exists()) };
    }
    let OpaqueOptions { codec, ttl_ms, shards } = OpaqueOptions::decode(table.options().opaque);
    let shards = shards.map(|shards| shards as usize);
    publish(env, &mut open, Store::named(group, name.as_c_arg(), codec, ttl_ms, shards, table))
}

/// `open_away(Name, Codec, TtlMs, Order, Shards)`: opens a named table of which other nodes have
/// the records. `{error, exists}` if an open table of that name is another one.
#[rustler::nif(schedule = "DirtyCpu")]
fn open_away<'a>(
    env: Env<'a>,
    name: Atom,
    codec: Atom,
    ttl_ms: Option<u64>,
    order: Option<Atom>,
    shards: Option<usize>,
) -> Term<'a> {
    let mut open = OPEN.lock();
    if let Some(found) = open.iter().find(|open| open.store.name == name.as_c_arg()) {
        let same = found.store.is_away() && found.store.database_number().is_none();
        return if same { handle_term(env, found) } else { env.error_tuple(atoms::exists()) };
    }
    let order = order::of_word(order);
    let codec = codec_of(codec, order.is_some());
    let options = Options { order, shards, ..Options::default() };
    publish(env, &mut open, Store::away(name.as_c_arg(), codec, ttl_ms, options))
}

/// `is_away(Table) -> boolean()`: whether other nodes have the records of an open table, and this
/// one has none.
#[rustler::nif]
fn is_away<'a>(env: Env<'a>, table: Term<'a>) -> bool {
    // SAFETY: both belong to this call, which runs on a normal scheduler.
    unsafe { open_one(env.as_c_arg(), table.as_c_arg()) }.is_ok_and(Store::is_away)
}
