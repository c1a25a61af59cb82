//! Ctrl-C for a node that is a server.
//!
//! The BEAM has no Erlang-level SIGINT: its own handler opens the break menu, and `+Bi` ignores the
//! signal. Started by the command line with `+Bi`, the node forwards SIGINT to itself as SIGTERM,
//! for which the BEAM has an event, and remembers it for the log. Never called when the application
//! is embedded.

use crate::atoms;
use rustler::types::atom::Atom;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// SIGINT has come.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn forward(_signal: libc::c_int) {
    INTERRUPTED.store(true, Relaxed);
    // SAFETY: both functions may be called in a signal handler.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGTERM);
    }
}

/// Makes SIGINT do what SIGTERM does.
#[rustler::nif]
fn forward_interrupt() -> Atom {
    // SAFETY: the structure is fully initialised by zeroes and the two fields that are set; the
    // handler calls only what a signal handler may call.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = forward as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()) == 0
    };
    if installed { atoms::ok() } else { atoms::error() }
}

/// Whether a SIGTERM may be a SIGINT that was forwarded.
#[rustler::nif]
fn was_interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}
