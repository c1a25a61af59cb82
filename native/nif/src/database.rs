//! The numbered databases of the node, which every server and all local processes share.

use crate::atoms;
use crate::order;
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{DATABASES, Databases};
use todana_server::{DatabaseOptions, DurableDatabases, NotChanged, NumberedDatabases};
use todana_table::{Budget, Limits, WhenFull};

/// Locked only briefly, never while a command is executed. Only the lock holder may clone the
/// databases.
static SHARED: Mutex<Option<NumberedDatabases>> = Mutex::new(None);

fn with_shared<R>(look: impl FnOnce(&mut NumberedDatabases) -> R) -> R {
    let plain = || NumberedDatabases::new(&[DatabaseOptions::default(); DATABASES], None);
    look(SHARED.lock().get_or_insert_with(plain))
}

/// The databases, if there is one with this number.
pub(crate) fn databases(number: usize) -> Option<Arc<Databases>> {
    (number < DATABASES).then(|| with_shared(|shared| Arc::clone(shared.databases())))
}

/// The configured limits of a database, if there is one with this number.
pub(crate) fn limits(number: usize) -> Limits {
    if number < DATABASES { with_shared(|shared| shared.limits(number)) } else { Limits::default() }
}

/// The databases and their budget, for a server.
pub(crate) fn for_server() -> (Arc<Databases>, Arc<Budget>) {
    with_shared(|shared| (Arc::clone(shared.databases()), Arc::clone(shared.budget())))
}

/// The databases and the seed of those that are durable, if any is.
pub(crate) fn durable() -> Option<(Arc<Databases>, u64)> {
    with_shared(|shared| Some((Arc::clone(shared.databases()), shared.durable()?.seed)))
}

/// `set_databases([{Order, EntriesMax, BytesMax}], nil | {Seed, [DurableNumber]}) -> ok | {error,
/// {has_records | in_use, Number}}`: sets the properties of the databases; `nil` is no order or no
/// limit. Databases beyond the end of the list are plain.
#[rustler::nif(schedule = "DirtyCpu")]
fn set_databases<'a>(
    env: Env<'a>,
    databases: Vec<(Option<Atom>, Option<u64>, Option<u64>)>,
    durable: Option<(u64, Vec<usize>)>,
) -> Term<'a> {
    let mut wanted = [DatabaseOptions::default(); DATABASES];
    for (wanted, (order, entries_max, bytes_max)) in wanted.iter_mut().zip(databases) {
        let limits = Limits { entries_max, bytes_max, when_full: WhenFull::Evict };
        *wanted = DatabaseOptions { order: order::of_word(order), limits };
    }
    let durable = durable.map(|(seed, numbers)| DurableDatabases { seed, numbers });
    let mut shared = SHARED.lock();
    let changed = match shared.as_mut() {
        Some(shared) => shared.change(&wanted, durable),
        None => {
            *shared = Some(NumberedDatabases::new(&wanted, durable));
            Ok(())
        }
    };
    match changed {
        Ok(()) => atoms::ok().encode(env),
        Err(NotChanged::HasRecords(number)) => env.error_tuple((atoms::has_records(), number)),
        Err(NotChanged::InUse(number)) => env.error_tuple((atoms::in_use(), number)),
    }
}

/// Sets how many bytes the databases may hold together, and what happens when that is exceeded.
/// `{badarg, <<"memory_policy">>}` if there is no such policy.
#[rustler::nif(schedule = "DirtyCpu")]
fn set_memory_limit<'a>(env: Env<'a>, bytes_max: Option<i64>, policy: Atom) -> Term<'a> {
    let when_full = match policy {
        policy if policy == atoms::evict() => WhenFull::Evict,
        policy if policy == atoms::refuse() => WhenFull::Refuse,
        _ => return (atoms::badarg(), "memory_policy").encode(env),
    };
    with_shared(|shared| {
        shared.budget().set_when_full(when_full);
        shared.budget().bytes_max.store(bytes_max.unwrap_or(i64::MAX), Relaxed);
    });
    atoms::ok().encode(env)
}
