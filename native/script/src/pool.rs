//! The interpreters of the process.
//!
//! A run takes one, preferably that which its thread had last, and gives it back. So there are as
//! many as scripts have run at once, up to a number, and they keep a bounded memory together.

use crate::interpreter::Interpreter;
use crate::lua::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// Most interpreters that wait for a script.
const IDLE_MAX: usize = 16;

/// Most bytes of compiled scripts of all interpreters.
const SCRIPTS_BYTES_MAX: usize = 16 << 20;

struct Idle {
    thread: ThreadId,
    interpreter: Interpreter,
}

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// The interpreters that there are.
static ALL: AtomicUsize = AtomicUsize::new(0);

fn idle() -> MutexGuard<'static, Vec<Idle>> {
    // A panic leaves the list as it was before or after a change.
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An interpreter that is in use.
pub(crate) struct Taken(Option<Interpreter>);

impl std::ops::Deref for Taken {
    type Target = Interpreter;

    fn deref(&self) -> &Interpreter {
        // It is there until it is given back.
        self.0.as_ref().unwrap_or_else(|| unreachable!())
    }
}

impl std::ops::DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut Interpreter {
        self.0.as_mut().unwrap_or_else(|| unreachable!())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.0.is_some() {
            ALL.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An interpreter for a script of at most `bytes_max` bytes.
pub(crate) fn take(bytes_max: usize) -> Result<Taken> {
    let thread = std::thread::current().id();
    loop {
        let found = {
            let mut idle = idle();
            match idle.iter().rposition(|it| it.thread == thread) {
                Some(at) => Some(idle.swap_remove(at)),
                None => idle.pop(),
            }
        };
        let Some(Idle { mut interpreter, .. }) = found else { break };
        if interpreter.fits(bytes_max) {
            return Ok(Taken(Some(interpreter)));
        }
        ALL.fetch_sub(1, Ordering::Relaxed);
    }
    let interpreter = Interpreter::new(bytes_max)?;
    ALL.fetch_add(1, Ordering::Relaxed);
    Ok(Taken(Some(interpreter)))
}

/// The interpreter is not needed any more.
pub(crate) fn give_back(mut taken: Taken) {
    let Some(mut interpreter) = taken.0.take() else { return };
    let all = ALL.load(Ordering::Relaxed).max(1);
    interpreter.forget(SCRIPTS_BYTES_MAX / all);
    interpreter.rest();
    let thread = std::thread::current().id();
    let mut idle = idle();
    if idle.len() < IDLE_MAX {
        idle.push(Idle { thread, interpreter });
    } else {
        ALL.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the interpreters that wait for a script have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The interpreters that there are, with those that run a script.
    pub interpreters: usize,
    /// Bytes of all that wait.
    pub bytes: usize,
    /// Bytes of compiled scripts among these.
    pub scripts_bytes: usize,
}

/// What the interpreters have.
pub fn memory() -> Memory {
    let mut idle = idle();
    let bytes = idle.iter_mut().map(|it| it.interpreter.bytes()).sum();
    let scripts_bytes = idle.iter().map(|it| it.interpreter.scripts_bytes()).sum();
    Memory { interpreters: ALL.load(Ordering::Relaxed), bytes, scripts_bytes }
}

/// Forgets all compiled scripts.
pub fn forget_all() {
    for it in idle().iter_mut() {
        it.interpreter.forget(0);
    }
}

/// Fails if the memory of an interpreter is damaged.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn check() {
    for it in idle().iter_mut() {
        it.interpreter.check();
    }
}
