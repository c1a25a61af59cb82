//! Counts of requests by the prefix of their key, for `stats detail`.
//!
//! They are off until a client asks for them. A prefix is what is before the first `:`; a key
//! without one is not counted. As in memcached, `get` counts look-ups of keys, also by `gat`, `set`
//! and `del` count requests, whatever came of them, and meta commands do not count.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use todana_command::{Command, KeyCommand, StringCommand};

/// Most prefixes that are counted. Further ones are not.
pub const PREFIXES_MAX: usize = 4_096;

const DELIMITER: u8 = b':';

/// The counts of a server.
#[derive(Debug, Default)]
pub struct Prefixes {
    is_on: AtomicBool,
    counts: Mutex<HashMap<Box<[u8]>, Counts>>,
}

/// The counts of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletions: u64,
}

impl Prefixes {
    /// Whether requests are counted.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Begins or stops to count. The counts stay.
    pub(super) fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// Forgets all counts.
    pub fn reset(&self) {
        self.lock().clear();
    }

    /// Counts a command that was executed, if it is of a request that memcached counts.
    pub(super) fn count(&self, command: &Command<'_>, is_hit: bool) {
        let (key, more) = match *command {
            Command::String(StringCommand::Get { key })
            | Command::String(StringCommand::GetAndExpire { key, .. }) => {
                (key, Counts { gets: 1, hits: u64::from(is_hit), ..Counts::default() })
            }
            Command::String(StringCommand::Set(ref set)) => {
                (set.key, Counts { sets: 1, ..Counts::default() })
            }
            Command::String(StringCommand::Concat { key, .. }) => {
                (key, Counts { sets: 1, ..Counts::default() })
            }
            Command::Key(KeyCommand::DeleteIf { key, .. }) => {
                (key, Counts { deletions: 1, ..Counts::default() })
            }
            _ => return,
        };
        let Some(at) = memchr::memchr(DELIMITER, key) else { return };
        let prefix = &key[..at];
        let mut counts = self.lock();
        let is_full = counts.len() >= PREFIXES_MAX;
        let found = match counts.get_mut(prefix) {
            Some(found) => found,
            None if is_full => return,
            None => counts.entry(prefix.into()).or_default(),
        };
        found.gets += more.gets;
        found.hits += more.hits;
        found.sets += more.sets;
        found.deletions += more.deletions;
    }

    /// Writes a line for each prefix, in their order, and the end.
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        let mut lines: Vec<_> =
            self.lock().iter().map(|(prefix, counts)| (prefix.clone(), *counts)).collect();
        lines.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (prefix, Counts { gets, hits, sets, deletions }) in lines {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(&prefix);
            write!(out, " get {gets} hit {hits} set {sets} del {deletions}\r\n")
                .expect("a vector takes all bytes");
        }
        out.extend_from_slice(b"END\r\n");
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
