//! The numbered databases: the tables that network clients and local processes share.
//!
//! Made on first use, once for the node: a server that is restarted serves the same records.

use crate::atoms;
use crate::store::now_ms;
use rustler::types::atom::Atom;
use std::sync::{Arc, OnceLock};
use todana_command::{DATABASES, Databases};
use todana_table::{Budget, Options, Table, WhenFull};

struct Shared {
    databases: Arc<Databases>,
    budget: Arc<Budget>,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

fn shared() -> &'static Shared {
    SHARED.get_or_init(|| {
        let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
        let tables = std::array::from_fn(|_| {
            let budget = Some(Arc::clone(&budget));
            Arc::new(Table::new(Options { budget, ..Options::default() }))
        });
        Shared { databases: Arc::new(Databases::new(tables)), budget }
    })
}

/// The databases, if there is one of this number.
pub(crate) fn databases(number: usize) -> Option<Arc<Databases>> {
    (number < DATABASES).then(|| Arc::clone(&shared().databases))
}

/// What a server needs.
pub(crate) fn for_server() -> (Arc<Databases>, Arc<Budget>) {
    let shared = shared();
    (Arc::clone(&shared.databases), Arc::clone(&shared.budget))
}

/// Sets how many bytes the databases may hold together, and what happens then.
#[rustler::nif(schedule = "DirtyCpu")]
fn set_memory_limit(bytes_max: Option<i64>, when_full: Atom) -> Atom {
    let budget = &shared().budget;
    budget.set_when_full(if when_full == atoms::refuse() {
        WhenFull::Refuse
    } else {
        WhenFull::Evict
    });
    budget.bytes_max.store(bytes_max.unwrap_or(i64::MAX), std::sync::atomic::Ordering::Relaxed);
    atoms::ok()
}

/// Milliseconds since the Unix epoch, by the clock that expiry goes by.
#[rustler::nif]
fn time_ms() -> u64 {
    now_ms()
}
