//! The process that logs the lines of servers (`todana_log_events`).

use crate::{atoms, erts, values};
use parking_lot::Mutex;
use rustler::LocalPid;
use rustler::types::atom::Atom;
use todana_server::{Level, set_log_sink};

static READER: Mutex<Option<LocalPid>> = Mutex::new(None);

/// Sends a line to the process, if it lives.
fn sink(level: Level, line: &str) -> bool {
    let Some(reader) = *READER.lock() else { return false };
    let level = match level {
        Level::Warning => atoms::warning(),
        Level::Error => atoms::error(),
    };
    erts::send(reader, |env| {
        let line = values::fresh(env, line.as_bytes());
        erts::tuple(env, &[atoms::todana_line().as_c_arg(), level.as_c_arg(), line])
    })
}

/// `log_attach(Pid) -> ok`: this process receives `{todana_line, warning | error, Line}`.
#[rustler::nif]
fn log_attach(reader: LocalPid) -> Atom {
    *READER.lock() = Some(reader);
    set_log_sink(sink);
    atoms::ok()
}
