//! What the clients of a node without records want to learn of: changes of keys that they have
//! read, and of keys with some prefixes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use todana_command::cause::Writer;

/// Learns of changes at another node, and passes them to clients.
pub trait Follow: Send + Sync {
    /// A record of this key has changed, by this writer.
    fn changed(&self, key: &[u8], writer: Writer);
    /// Any record may have changed.
    fn all_changed(&self);
}

/// The source of such changes, as a server sees it.
pub trait Following: Send + Sync {
    /// Passes all changes to this server from now on.
    fn follow(&self, follower: Weak<dyn Follow>);
    /// A client begins to track keys.
    fn begin(&self);
    /// A client that tracked keys does so no longer.
    fn end(&self);
    /// A client wants to learn of keys with this prefix.
    fn add_prefix(&self, prefix: &Arc<[u8]>);
    /// No longer.
    fn remove_prefix(&self, prefix: &[u8]);
}

/// What the clients want, and how much of it the present seat knows.
#[derive(Default)]
pub(crate) struct Wishes {
    follower: Mutex<Option<Weak<dyn Follow>>>,
    wanted: Mutex<Wanted>,
}

#[derive(Default)]
struct Wanted {
    /// Clients that track keys.
    clients: usize,
    /// The number of clients for each prefix.
    prefixes: BTreeMap<Arc<[u8]>, usize>,
    /// The prefixes of which the seat has to learn whether they are wanted.
    unsent: BTreeSet<Arc<[u8]>>,
    /// Whether the seat has to learn that nothing is wanted.
    is_over: bool,
}

impl Wishes {
    pub(crate) fn follow(&self, follower: Weak<dyn Follow>) {
        *self.follower.lock() = Some(follower);
    }

    /// The server that follows, if there is one.
    pub(crate) fn follower(&self) -> Option<Arc<dyn Follow>> {
        self.follower.lock().as_ref()?.upgrade()
    }

    pub(crate) fn begin(&self) {
        let mut wanted = self.wanted.lock();
        wanted.clients += 1;
        // The seat must not forget what this client is about to read.
        wanted.is_over = false;
    }

    /// Whether that was the last client, so that there is something to take.
    pub(crate) fn end(&self) -> bool {
        let mut wanted = self.wanted.lock();
        wanted.clients = wanted.clients.saturating_sub(1);
        wanted.is_over = wanted.clients == 0;
        wanted.is_over
    }

    /// Whether there is something to take.
    pub(crate) fn add_prefix(&self, prefix: &Arc<[u8]>) -> bool {
        let mut wanted = self.wanted.lock();
        let count = wanted.prefixes.entry(prefix.clone()).or_default();
        *count += 1;
        *count == 1 && wanted.unsent.insert(prefix.clone())
    }

    /// Whether there is something to take.
    pub(crate) fn remove_prefix(&self, prefix: &[u8]) -> bool {
        let mut wanted = self.wanted.lock();
        match wanted.prefixes.get_mut(prefix) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => {
                wanted.prefixes.remove(prefix);
                wanted.unsent.insert(prefix.into())
            }
            None => false,
        }
    }

    /// The seat is another one, which knows nothing.
    pub(crate) fn begin_anew(&self) {
        let wanted = &mut *self.wanted.lock();
        wanted.is_over = false;
        wanted.unsent = wanted.prefixes.keys().cloned().collect();
    }

    /// The seat reports changes although no client wants them. Whether there is something to take.
    pub(crate) fn repeat_end(&self) -> bool {
        let mut wanted = self.wanted.lock();
        wanted.is_over |= wanted.clients == 0;
        wanted.is_over
    }

    /// Takes the prefixes of which the seat has to learn, and whether they are wanted. It learns of
    /// them before anything that is submitted later.
    pub(crate) fn take_prefixes(&self) -> Vec<(Arc<[u8]>, bool)> {
        let wanted = &mut *self.wanted.lock();
        let prefixes = std::mem::take(&mut wanted.unsent).into_iter();
        let with_word = |prefix| {
            let is_wanted = wanted.prefixes.contains_key(&prefix);
            (prefix, is_wanted)
        };
        prefixes.map(with_word).collect()
    }

    /// Takes whether the seat has to learn that nothing is wanted. It learns of that after
    /// everything that was submitted before, and before anything that is submitted later.
    pub(crate) fn take_end(&self) -> bool {
        std::mem::take(&mut self.wanted.lock().is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(wishes: &Wishes) -> (Vec<(Vec<u8>, bool)>, bool) {
        let prefixes = wishes.take_prefixes().into_iter();
        (prefixes.map(|(prefix, is)| (prefix.to_vec(), is)).collect(), wishes.take_end())
    }

    #[test]
    fn a_seat_learns_each_prefix_once() {
        let (wishes, a, b) = (Wishes::default(), Arc::from(*b"a"), Arc::from(*b"b"));
        wishes.begin();
        wishes.begin();
        assert!(wishes.add_prefix(&a) && wishes.add_prefix(&b) && !wishes.add_prefix(&a));
        let (is_a, is_b) = (|is| (b"a".to_vec(), is), |is| (b"b".to_vec(), is));
        assert_eq!(taken(&wishes), (vec![is_a(true), is_b(true)], false));
        assert_eq!(taken(&wishes), (vec![], false));
        assert!(!wishes.remove_prefix(b"a") && wishes.remove_prefix(b"b"));
        assert!(!wishes.remove_prefix(b"b"));
        assert_eq!(taken(&wishes), (vec![is_b(false)], false));
        // Another seat.
        wishes.begin_anew();
        assert_eq!(taken(&wishes), (vec![is_a(true)], false));
        assert!(!wishes.repeat_end());
        assert!(!wishes.end() && wishes.remove_prefix(b"a") && wishes.end());
        assert_eq!(taken(&wishes), (vec![is_a(false)], true));
        // The seat has got a late submission.
        assert_eq!(taken(&wishes), (vec![], false));
        assert!(wishes.repeat_end());
        assert_eq!(taken(&wishes), (vec![], true));
    }

    #[test]
    fn a_seat_does_not_forget_what_a_new_client_reads() {
        let wishes = Wishes::default();
        wishes.begin();
        assert!(wishes.end());
        wishes.begin();
        assert_eq!(taken(&wishes), (vec![], false));
    }
}
