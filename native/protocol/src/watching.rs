//! Observes databases while clients or guests want to learn of changes: tracking, notifications.
//!
//! The observers see every change by any protocol, expiry and eviction included, and on a durable
//! node what the log has applied. They are called while a shard is locked, so they only look into
//! tables of their own and append to queues. While nobody listens there are none, and a write costs
//! nothing more.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use todana_command::{DATABASES, Databases, cause};
use todana_table::Observer;

/// Makes the observer of the database of this number, if that is observed.
pub type MakeObserver = Box<dyn Fn(usize) -> Option<Arc<dyn Observer>> + Send + Sync>;

/// The observers of a server, or of what a member does for guests.
pub struct Watching {
    databases: Arc<Databases>,
    make: MakeObserver,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of parties that want to learn of changes.
    listeners: usize,
    observers: Vec<Arc<dyn Observer>>,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}

impl Watching {
    /// None yet.
    pub fn new(databases: Arc<Databases>, make: MakeObserver) -> Watching {
        Watching { databases, make, state: Mutex::default() }
    }

    /// Adds a listener. When this returns true, every later change is observed; false if the
    /// databases have too many observers.
    pub fn begin(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.listeners == 0 {
            cause::listen();
            for number in 0..DATABASES {
                let Some(observer) = (self.make)(number) else { continue };
                if self.databases.observe(number, observer.clone()).is_err() {
                    self.forget(&mut state);
                    return false;
                }
                state.observers.push(observer);
            }
        }
        state.listeners += 1;
        true
    }

    /// Removes a listener.
    pub fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.listeners == 0 {
            return;
        }
        state.listeners -= 1;
        if state.listeners == 0 {
            self.forget(&mut state);
        }
    }

    /// Removes the observers of a server that stops.
    pub fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.listeners > 0 {
            state.listeners = 0;
            self.forget(&mut state);
        }
    }

    fn forget(&self, state: &mut State) {
        for observer in state.observers.drain(..) {
            self.databases.forget(&observer);
        }
        cause::end_listening();
    }
}
