//! Clients that wait for a named signal, without holding a thread (Kyoto Tycoon's `WAIT` and
//! `SIGNAL`), or until other nodes know of their subscriptions.
//!
//! One registry serves all loops. It maps a name to the clients that wait for it, in order of
//! arrival. A waiter is identified by its **ticket**, a number that is never reused in the life of
//! a server. There are three ways out of the registry, each under its one lock, so that a ticket
//! leaves exactly once:
//!
//! - a signal takes it. Its loop receives [`Message::Wake`] with the ticket;
//! - its session continues because the time is over, and ends the wait;
//! - its connection closes.
//!
//! # Why no wake-up is lost or duplicated
//!
//! A client is registered during its own turn, before its loop puts the connection to sleep. A
//! signal may arrive between the two, but its message goes to the loop that is executing this very
//! turn, and that loop reads it when the connection already sleeps. So a client taken by a signal
//! always wakes up.
//!
//! Whether the outcome is the signal or the time-out does not depend on what woke the connection,
//! but on whether the registry still held the ticket when the session ended the wait
//! ([`Waiters::end`]). So a deadline and a signal that arrive together have one outcome, and the
//! count returned to the signaller agrees with it. The message of a signal that lost this race to
//! the deadline is still on its way. It contains a ticket that the connection no longer holds, even
//! if it waits for something else by then, so it wakes nothing.
//!
//! A signal that finds no waiter has no effect. A signal that finds a client whose disconnection is
//! not noticed yet is spent on it, as in Kyoto Tycoon.
//!
//! There are at most as many waiters as connections. A name without waiters takes no memory.

use crate::inbox::Message;
pub(crate) use crate::place::Place;
use crate::shared::Shared;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The clients that wait, by name.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    /// No list is empty. Tickets increase, so their order is that of arrival.
    waiting: HashMap<Arc<[u8]>, BTreeMap<u64, Place>>,
    /// Those that wait for other nodes.
    subscribing: BTreeMap<u64, Place>,
    last_ticket: u64,
}

/// A wait that has begun. It must be returned to [`Waiters::end`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Wait {
    /// `None`: for other nodes.
    name: Option<Arc<[u8]>>,
    pub(crate) ticket: u64,
}

/// The result of a signal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Signalled {
    /// Number of waiters found.
    pub(crate) waiting: usize,
    /// The waiters to wake up, with their tickets, in order of arrival.
    pub(crate) woken: BTreeMap<u64, Place>,
}

impl Waiters {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waiter behind those that already wait for this name.
    pub(crate) fn begin(&self, name: &[u8], place: Place) -> Wait {
        let mut registry = self.registry();
        registry.last_ticket += 1;
        let ticket = registry.last_ticket;
        let known = registry.waiting.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        registry.waiting.entry(name.clone()).or_default().insert(ticket, place);
        Wait { name: Some(name), ticket }
    }

    /// Registers a client that waits for other nodes.
    pub(crate) fn begin_subscribing(&self, place: Place) -> Wait {
        let mut registry = self.registry();
        registry.last_ticket += 1;
        let ticket = registry.last_ticket;
        registry.subscribing.insert(ticket, place);
        Wait { name: None, ticket }
    }

    /// Takes all clients that wait for other nodes.
    fn take_subscribing(&self) -> BTreeMap<u64, Place> {
        mem::take(&mut self.registry().subscribing)
    }

    /// Ends a wait. True if a signal took it before.
    pub(crate) fn end(&self, wait: Wait) -> bool {
        let mut registry = self.registry();
        let Some(name) = &wait.name else {
            return registry.subscribing.remove(&wait.ticket).is_none();
        };
        let Some(waiters) = registry.waiting.get_mut(name) else { return true };
        let signalled = waiters.remove(&wait.ticket).is_none();
        if waiters.is_empty() {
            registry.waiting.remove(name);
        }
        signalled
    }

    /// Takes the first waiter for this name, or all.
    pub(crate) fn signal(&self, name: &[u8], all: bool) -> Signalled {
        let mut registry = self.registry();
        let Some(waiters) = registry.waiting.get_mut(name) else { return Signalled::default() };
        let waiting = waiters.len();
        let woken = match all {
            true => mem::take(waiters),
            false => waiters.pop_first().into_iter().collect(),
        };
        if waiters.is_empty() {
            registry.waiting.remove(name);
        }
        Signalled { waiting, woken }
    }

    /// Number of names with waiters, and of waiters of all names.
    pub(crate) fn count(&self) -> (usize, usize) {
        let registry = self.registry();
        (registry.waiting.len(), registry.waiting.values().map(BTreeMap::len).sum())
    }
}

impl Shared {
    /// Signals the first client that waits for this name, or all, and sends their loops the
    /// wake-ups. Returns how many waited.
    pub(crate) fn signal(&self, name: &[u8], all: bool) -> usize {
        let Signalled { waiting, woken } = self.waiters.signal(name, all);
        for (ticket, Place { event_loop, index }) in woken {
            self.loops[event_loop].inbox.send(Message::Wake { index, ticket });
        }
        waiting
    }

    /// Wakes the clients that wait for other nodes. Each loop is woken once.
    pub(crate) fn wake_subscribers(&self) {
        let mut woken: Vec<Vec<Message>> = self.loops.iter().map(|_| Vec::new()).collect();
        for (ticket, Place { event_loop, index }) in self.waiters.take_subscribing() {
            woken[event_loop].push(Message::Wake { index, ticket });
        }
        self.loops.iter().zip(woken).for_each(|(part, messages)| part.inbox.send_all(messages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    fn place(index: usize) -> Place {
        Place { event_loop: 0, index }
    }

    fn indices(signalled: &Signalled) -> Vec<usize> {
        signalled.woken.values().map(|place| place.index).collect()
    }

    #[test]
    fn a_signal_takes_the_first_waiter() {
        let waiters = Waiters::default();
        let waits: Vec<Wait> = (0..3).map(|index| waiters.begin(b"a", place(index))).collect();
        let other = waiters.begin(b"b", place(9));
        let first = waiters.signal(b"a", false);
        assert_eq!((first.waiting, indices(&first)), (3, vec![0]));
        let rest = waiters.signal(b"a", true);
        assert_eq!((rest.waiting, indices(&rest)), (2, vec![1, 2]));
        assert_eq!(waiters.signal(b"a", true), Signalled::default());
        assert!(waits.into_iter().all(|wait| waiters.end(wait)));
        assert!(!waiters.end(other));
        assert_eq!(waiters.count(), (0, 0));
    }

    #[test]
    fn those_that_wait_for_other_nodes_are_taken_together() {
        let waiters = Waiters::default();
        let named = waiters.begin(b"a", place(0));
        let waits: Vec<Wait> = (1..4).map(|at| waiters.begin_subscribing(place(at))).collect();
        assert_eq!(waiters.count(), (1, 1), "they have no name");
        let [first, second, third] = waits.try_into().expect("three");
        assert!(!waiters.end(second));
        let taken = waiters.take_subscribing();
        assert_eq!(taken.values().map(|place| place.index).collect::<Vec<_>>(), [1, 3]);
        assert!(waiters.end(first) && waiters.end(third));
        assert!(!waiters.end(named));
        assert!(waiters.take_subscribing().is_empty());
    }

    #[test]
    fn a_wait_that_ended_before_the_signal_is_skipped() {
        let waiters = Waiters::default();
        let [first, second] = [0, 1].map(|index| waiters.begin(b"a", place(index)));
        assert!(!waiters.end(first));
        assert_eq!(indices(&waiters.signal(b"a", false)), [1]);
        // A new wait for the same name is not the one that was signalled.
        let again = waiters.begin(b"a", place(1));
        assert!(again.ticket > second.ticket);
        assert!(waiters.end(second) && !waiters.end(again));
    }

    #[test]
    fn every_wait_ends_once_under_concurrency() {
        const WAITERS: usize = 4;
        const ROUNDS: usize = 5_000;
        let waiters = Waiters::default();
        let (signalled, running) = (AtomicUsize::new(0), AtomicUsize::new(WAITERS));
        let (mut taken, mut most) = (HashSet::new(), 0);
        thread::scope(|scope| {
            for index in 0..WAITERS {
                let (waiters, signalled, running) = (&waiters, &signalled, &running);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let wait = waiters.begin(&[(round % 3) as u8], place(index));
                        if round % 2 == 0 {
                            thread::yield_now();
                        }
                        signalled.fetch_add(waiters.end(wait).into(), SeqCst);
                    }
                    running.fetch_sub(1, SeqCst);
                });
            }
            for name in (0..3u8).cycle() {
                let found = waiters.signal(&[name], name == 2);
                most = most.max(found.waiting);
                for (ticket, _) in found.woken {
                    assert!(taken.insert(ticket), "ticket {ticket} was taken twice");
                }
                if running.load(SeqCst) == 0 {
                    break;
                }
            }
        });
        assert_eq!(taken.len(), signalled.into_inner());
        assert!(!taken.is_empty() && most <= WAITERS);
        assert_eq!(waiters.count(), (0, 0));
    }
}
