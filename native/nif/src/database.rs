//! The numbered databases: the tables that network clients and local processes share.
//!
//! They are created once for the node, so a restarted server serves the same records. Their order
//! is fixed when they are created; limits may change with every start of the application.

use crate::atoms;
use crate::order;
use parking_lot::Mutex;
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{DATABASES, Databases};
use todana_resp::{interpreter, set_script_secret};
use todana_table::{Budget, KeyOrder, Keyspace, Limits, Options, Table, WhenFull};

/// The requested properties of a database.
#[derive(Clone, Copy, Default)]
struct Wanted {
    order: Option<KeyOrder>,
    limits: Limits,
}

struct Shared {
    databases: Arc<Databases>,
    budget: Arc<Budget>,
    /// The limits of each table, by its index.
    limits: [Limits; DATABASES],
    durable: Option<Durable>,
}

/// Which databases are durable.
#[derive(Clone, PartialEq, Eq)]
struct Durable {
    /// The seed of their tables.
    seed: u64,
    /// Their numbers.
    numbers: Vec<usize>,
}

impl Durable {
    /// The seed of a database, if it is durable.
    fn seed(durable: Option<&Durable>, number: usize) -> Option<u64> {
        durable.filter(|durable| durable.numbers.contains(&number)).map(|durable| durable.seed)
    }
}

/// Scripts of durable databases must do the same on each member, so they share the secret of the
/// tables; those of others have one of their own.
fn set_secret(durable: Option<&Durable>) {
    let own = || RandomState::new().hash_one(0);
    set_script_secret(durable.map_or_else(own, |durable| durable.seed));
}

/// Locked only briefly, never while a command is executed. Only the lock holder may clone the
/// databases.
static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// Why databases cannot change.
enum Refused {
    /// The records of this database would have to change their order.
    HasRecords(usize),
    /// Another process may be about to write to this database, which would be replaced.
    InUse(usize),
}

impl Shared {
    fn new(wanted: &[Wanted; DATABASES], durable: Option<Durable>) -> Shared {
        let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
        let tables = std::array::from_fn(|number| {
            make(wanted[number], Durable::seed(durable.as_ref(), number), &budget)
        });
        let databases = Arc::new(Databases::new(tables));
        databases.set_interpreter(interpreter());
        set_secret(durable.as_ref());
        Shared { databases, budget, limits: wanted.map(|wanted| wanted.limits), durable }
    }

    /// Changes limits, and the order and durability of databases that are empty and not in use: a
    /// handle or a server would continue with the old ones.
    ///
    /// A request for a number applies to the table that had the number at first: an application
    /// that has exchanged two databases and restarts with the same settings requests no change.
    fn change(
        &mut self,
        wanted: &[Wanted; DATABASES],
        durable: Option<Durable>,
    ) -> Result<(), Refused> {
        let tables = self.databases.tables();
        let seed = |index| Durable::seed(durable.as_ref(), index);
        let differs = |index: &usize| {
            tables[*index].order() != wanted[*index].order
                || Durable::seed(self.durable.as_ref(), *index) != seed(*index)
        };
        let changed: Vec<usize> = (0..DATABASES).filter(differs).collect();
        if let Some(&first) = changed.first() {
            let has_records = |index: &&usize| !tables[**index].is_empty();
            if let Some(&index) = changed.iter().find(has_records) {
                return Err(Refused::HasRecords(index));
            }
            if Arc::strong_count(&self.databases) > 1 {
                return Err(Refused::InUse(first));
            }
            let replace = |index| {
                changed.contains(&index).then(|| make(wanted[index], seed(index), &self.budget))
            };
            self.databases = Arc::new(self.databases.with_tables(replace));
        }
        set_secret(durable.as_ref());
        self.durable = durable;
        for (index, wanted) in wanted.iter().enumerate() {
            self.databases.tables()[index].set_limits(wanted.limits);
            self.limits[index] = wanted.limits;
        }
        Ok(())
    }
}

/// A table; with this seed, and durable, if there is one.
fn make(wanted: Wanted, seed: Option<u64>, budget: &Arc<Budget>) -> Arc<Table> {
    let Wanted { order, limits } = wanted;
    let options = Options { order, seed, durable: seed.is_some(), ..Options::default() };
    Arc::new(Table::new(match seed {
        Some(_) => options,
        None => Options { limits, budget: Some(Arc::clone(budget)), ..options },
    }))
}

fn with_shared<R>(look: impl FnOnce(&mut Shared) -> R) -> R {
    let mut shared = SHARED.lock();
    look(shared.get_or_insert_with(|| Shared::new(&[Wanted::default(); DATABASES], None)))
}

/// The databases, if there is one with this number.
pub(crate) fn databases(number: usize) -> Option<Arc<Databases>> {
    (number < DATABASES).then(|| with_shared(|shared| Arc::clone(&shared.databases)))
}

/// The configured limits of a database, if there is one with this number.
pub(crate) fn limits(number: usize) -> Limits {
    let of_table = |shared: &mut Shared| shared.limits[shared.databases.index(number)];
    if number < DATABASES { with_shared(of_table) } else { Limits::default() }
}

/// The databases and their budget, for a server.
pub(crate) fn for_server() -> (Arc<Databases>, Arc<Budget>) {
    with_shared(|shared| (Arc::clone(&shared.databases), Arc::clone(&shared.budget)))
}

/// The databases and the seed of those that are durable, if any is.
pub(crate) fn durable() -> Option<(Arc<Databases>, u64)> {
    with_shared(|shared| {
        let durable = shared.durable.as_ref().filter(|durable| !durable.numbers.is_empty())?;
        Some((Arc::clone(&shared.databases), durable.seed))
    })
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
    let mut wanted = [Wanted::default(); DATABASES];
    for (wanted, (order, entries_max, bytes_max)) in wanted.iter_mut().zip(databases) {
        let limits = Limits { entries_max, bytes_max, when_full: WhenFull::Evict };
        *wanted = Wanted { order: order::of_word(order), limits };
    }
    let durable = durable.map(|(seed, numbers)| Durable { seed, numbers });
    let mut shared = SHARED.lock();
    let changed = match shared.as_mut() {
        Some(shared) => shared.change(&wanted, durable),
        None => {
            *shared = Some(Shared::new(&wanted, durable));
            Ok(())
        }
    };
    match changed {
        Ok(()) => atoms::ok().encode(env),
        Err(Refused::HasRecords(number)) => env.error_tuple((atoms::has_records(), number)),
        Err(Refused::InUse(number)) => env.error_tuple((atoms::in_use(), number)),
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
        shared.budget.set_when_full(when_full);
        shared.budget.bytes_max.store(bytes_max.unwrap_or(i64::MAX), Relaxed);
    });
    atoms::ok().encode(env)
}
