//! Estimates, under the locks of a transaction and before its first command, the bytes that it will
//! copy and the room that it needs.
//!
//! The estimate visits the commands in the order of execution. For each key it maintains the room
//! reserved for the entry and the greatest length that the value may have, because a command may
//! fail, or have a condition that does not hold. The estimate is therefore never too low. It is too
//! high only in these cases: memory that the transaction itself frees by removals and by shorter
//! values does not count, a write counts even if its condition may not hold, and a value that grows
//! counts with the spare quarter that it gets.

use crate::Context;
use crate::database_map::{DatabaseMap, LockedTables};
use crate::databases::Databases;
use crate::plan::{Transaction, map_after};
use crate::sizes::{Foresight, Sizes};
use crate::work::TRANSACTION_UNITS_MAX;
use todana_table::Keyspace;

/// Whether the needs of a transaction depend on the existing records.
pub(crate) fn is_needed(transaction: &Transaction<'_>, tables: &LockedTables<'_>) -> bool {
    let mut largest = 0;
    for (_, command) in transaction.commands {
        let Some(bytes) = command.room().bytes() else { return true };
        largest = largest.max(bytes);
    }
    tables.iter().flatten().any(|table| table.refuses(largest))
}

/// Estimates a transaction. Stops when the limit of work is exceeded.
pub(crate) fn foresee(
    transaction: &Transaction<'_>,
    databases: &Databases,
    tables: &LockedTables<'_>,
    map: DatabaseMap,
    context: Context,
) -> Foresight {
    let count = transaction.commands.len();
    let mut sizes = Sizes::new(tables, databases.durable_tables(), map, context, count);
    for (database, command) in transaction.commands {
        sizes.map = map_after(command.scope(), sizes.map, databases);
        let Some(index) = sizes.map.index(*database) else { continue };
        if tables[index].is_some() {
            sizes.index = index;
            command.foresee(&mut sizes);
        }
        if sizes.foresight().units > TRANSACTION_UNITS_MAX {
            break;
        }
    }
    sizes.into_foresight()
}
