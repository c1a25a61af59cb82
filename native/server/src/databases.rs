//! The numbered databases: the tables that network clients and local processes share.
//!
//! They are created once for the node, so a restarted server serves the same records. Their order
//! is fixed when they are created; limits may change with every start of the application.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use todana_command::{DATABASES, Databases};
use todana_resp::{interpreter, set_script_secret};
use todana_table::{Budget, KeyOrder, Keyspace, Limits, Options, Table, WhenFull};

/// The requested properties of a database.
#[derive(Clone, Copy, Default)]
pub struct DatabaseOptions {
    /// The order of its keys; `None` if it is not ordered.
    pub order: Option<KeyOrder>,
    /// Its own limits. A durable one has none.
    pub limits: Limits,
}

/// The numbered databases of a node.
pub struct NumberedDatabases {
    databases: Arc<Databases>,
    budget: Arc<Budget>,
    /// The limits of each table, by its index.
    limits: [Limits; DATABASES],
    durable: Option<DurableDatabases>,
}

/// Which databases are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableDatabases {
    /// The seed of their tables.
    pub seed: u64,
    /// Their numbers.
    pub numbers: Vec<usize>,
}

impl DurableDatabases {
    /// The seed of a database, if it is durable.
    fn seed(durable: Option<&DurableDatabases>, number: usize) -> Option<u64> {
        durable.filter(|durable| durable.numbers.contains(&number)).map(|durable| durable.seed)
    }
}

/// Scripts of durable databases must do the same on each member, so they share the secret of the
/// tables; those of others have one of their own.
fn set_secret(durable: Option<&DurableDatabases>) {
    let own = || RandomState::new().hash_one(0);
    set_script_secret(durable.map_or_else(own, |durable| durable.seed));
}

/// Why databases cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotChanged {
    /// The records of this database would have to change their order.
    HasRecords(usize),
    /// Another process may be about to write to this database, which would be replaced.
    InUse(usize),
}

impl NumberedDatabases {
    /// New databases.
    pub fn new(
        wanted: &[DatabaseOptions; DATABASES],
        durable: Option<DurableDatabases>,
    ) -> NumberedDatabases {
        let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
        let tables = std::array::from_fn(|number| {
            make(wanted[number], DurableDatabases::seed(durable.as_ref(), number), &budget)
        });
        let databases = Arc::new(Databases::new(tables));
        databases.set_interpreter(interpreter());
        set_secret(durable.as_ref());
        NumberedDatabases { databases, budget, limits: wanted.map(|wanted| wanted.limits), durable }
    }

    /// Changes limits, and the order and durability of databases that are empty and not in use: a
    /// handle or a server would continue with the old ones.
    ///
    /// A request for a number applies to the table that had the number at first: an application
    /// that has exchanged two databases and restarts with the same settings requests no change.
    pub fn change(
        &mut self,
        wanted: &[DatabaseOptions; DATABASES],
        durable: Option<DurableDatabases>,
    ) -> Result<(), NotChanged> {
        let tables = self.databases.tables();
        let seed = |index| DurableDatabases::seed(durable.as_ref(), index);
        let differs = |index: &usize| {
            tables[*index].order() != wanted[*index].order
                || DurableDatabases::seed(self.durable.as_ref(), *index) != seed(*index)
        };
        let changed: Vec<usize> = (0..DATABASES).filter(differs).collect();
        if let Some(&first) = changed.first() {
            let has_records = |index: &&usize| !tables[**index].is_empty();
            if let Some(&index) = changed.iter().find(has_records) {
                return Err(NotChanged::HasRecords(index));
            }
            if Arc::strong_count(&self.databases) > 1 {
                return Err(NotChanged::InUse(first));
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

    /// The databases. As long as there is another reference, their orders cannot change.
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// The byte budget that those in memory share.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The configured limits of a database.
    pub fn limits(&self, number: usize) -> Limits {
        self.limits[self.databases.index(number)]
    }

    /// Which databases are durable, if any is.
    pub fn durable(&self) -> Option<&DurableDatabases> {
        self.durable.as_ref().filter(|durable| !durable.numbers.is_empty())
    }
}

/// A table; with this seed, and durable, if there is one.
fn make(wanted: DatabaseOptions, seed: Option<u64>, budget: &Arc<Budget>) -> Arc<Table> {
    let DatabaseOptions { order, limits } = wanted;
    let options = Options { order, seed, durable: seed.is_some(), ..Options::default() };
    Arc::new(Table::new(match seed {
        Some(_) => options,
        None => Options { limits, budget: Some(Arc::clone(budget)), ..options },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use todana_command::{Command, Context, NullReply, Set, StringCommand, execute};
    use todana_table::Comparison;

    const LEXICAL: KeyOrder = KeyOrder { comparison: Comparison::Lexical, descending: false };

    fn ordered(number: usize) -> [DatabaseOptions; DATABASES] {
        let mut wanted = [DatabaseOptions::default(); DATABASES];
        wanted[number].order = Some(LEXICAL);
        wanted
    }

    #[test]
    fn the_order_of_a_database_changes_while_it_is_empty_and_not_in_use() {
        let plain = [DatabaseOptions::default(); DATABASES];
        let mut databases = NumberedDatabases::new(&plain, None);
        assert_eq!(databases.change(&ordered(3), None), Ok(()));
        assert_eq!(databases.databases().table(3).order(), Some(LEXICAL));
        let user = Arc::clone(databases.databases());
        assert_eq!(databases.change(&ordered(4), None), Err(NotChanged::InUse(3)));
        let set = Command::String(StringCommand::Set(Set::new(b"a", b"1")));
        let context = Context { now_ms: 1, value_bytes_max: 100 };
        execute(&user, 3, &set, context, &mut NullReply);
        assert_eq!(databases.change(&ordered(4), None), Err(NotChanged::HasRecords(3)));
        // Limits change at any time.
        let mut wanted = ordered(3);
        wanted[0].limits.entries_max = Some(5);
        assert_eq!(databases.change(&wanted, None), Ok(()));
        assert_eq!(databases.limits(0).entries_max, Some(5));
    }

    #[test]
    fn only_the_named_databases_are_durable() {
        let plain = [DatabaseOptions::default(); DATABASES];
        let durable = DurableDatabases { seed: 7, numbers: vec![0, 2] };
        let databases = NumberedDatabases::new(&plain, Some(durable.clone()));
        assert_eq!(databases.durable(), Some(&durable));
        let numbers = (0..DATABASES).filter(|number| databases.databases().is_durable(*number));
        assert_eq!(numbers.collect::<Vec<_>>(), durable.numbers);
        let none = DurableDatabases { seed: 7, numbers: Vec::new() };
        assert_eq!(NumberedDatabases::new(&plain, Some(none)).durable(), None);
    }
}
