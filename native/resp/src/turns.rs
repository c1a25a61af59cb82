//! Scripts and transactions take turns with other clients of their event loop.
//!
//! A script is bounded, and so is EXEC, but many clients may send them at once. Before either
//! begins, the session asks the host ([`Work::begin_work`]), and says whether it probably takes
//! long. A script for the log takes no time here.

use crate::Host;
use todana_command::{LONG_UNITS, Script, Transaction, probable_script_units, probable_units};

/// Whether a script may run now.
pub(super) fn may_run<H: Host>(database: usize, script: &Script<'_>, host: &mut H) -> bool {
    let databases = host.databases();
    if host.is_playing() || databases.is_durable(database) && !script.reads {
        return true;
    }
    let units = probable_script_units(script, databases);
    host.begin_work(units >= LONG_UNITS)
}

/// Whether a transaction may be executed now. One for the log is work here too, since this node
/// admits it.
pub(super) fn may_execute<H: Host>(transaction: &Transaction<'_>, host: &mut H) -> bool {
    if host.is_playing() {
        return true;
    }
    let units = probable_units(transaction, host.databases(), LONG_UNITS);
    host.begin_work(units >= LONG_UNITS)
}
