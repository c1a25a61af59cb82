//! SIGTERM and Ctrl-C for a node that is a server. Never called when the application is embedded.
//!
//! The emulator handles SIGTERM from its first moments, and drops it until the first Erlang
//! processes run, some 0.3 s later. So `bin/todana` starts a server with both signals blocked: one
//! that comes early stays pending, and [`receive_signals`] lets it in when there is a process for
//! it.
//!
//! The BEAM has no Erlang-level SIGINT: its own handler opens the break menu. The command line
//! starts it with `+Bd`, without that handler, and the node forwards SIGINT to itself as SIGTERM,
//! for which the BEAM has an event, and remembers it for the log. `+Bi` would have the signal
//! ignored, and an ignored signal does not stay pending.

use crate::atoms;
use rustler::Binary;
use rustler::types::atom::Atom;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr;
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
        libc::sigaction(libc::SIGINT, &action, ptr::null_mut()) == 0
    };
    if installed { atoms::ok() } else { atoms::error() }
}

/// Whether a SIGTERM may be a SIGINT that was forwarded.
#[rustler::nif]
fn was_interrupted() -> bool {
    INTERRUPTED.load(Relaxed)
}

/// Lets SIGTERM and SIGINT in, those that are pending too.
///
/// A signal to the process goes to any thread that does not block it. This one is a scheduler of
/// the emulator, which never ends, and gets the mask that it has in any other Erlang node.
#[rustler::nif]
fn receive_signals() -> Atom {
    // SAFETY: the set is initialised by `sigemptyset` before it is used, and lives until the end.
    let received = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGTERM);
        libc::sigaddset(&mut signals, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &signals, ptr::null_mut()) == 0
    };
    if received { atoms::ok() } else { atoms::error() }
}

/// `run_program(Path, Arguments) -> ok | error`: runs a program without input and output until it
/// has ended, and says whether that was with status 0.
///
/// It blocks no signals. A port's program would block those that this process blocked when it was
/// started, as most of its threads still do, and a daemon could not be ended by them.
#[rustler::nif(schedule = "DirtyIo")]
fn run_program<'a>(program: Binary<'a>, arguments: Vec<Binary<'a>>) -> Atom {
    let arguments = arguments.iter().map(|argument| OsStr::from_bytes(argument));
    let mut command = Command::new(OsStr::from_bytes(&program));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec it calls only what a signal handler may call, and allocates
    // nothing.
    unsafe { command.pre_exec(block_nothing) };
    match command.status() {
        Ok(status) if status.success() => atoms::ok(),
        _ => atoms::error(),
    }
}

/// Has the calling thread block no signal.
fn block_nothing() -> io::Result<()> {
    // SAFETY: the set is initialised by `sigemptyset` before it is used, and lives until the end.
    let error = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}
