//! The slow log: the latest commands that took long, truncated as Redis does.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use todana_protocol::{Client, SlowEntry};

/// Maximum number of arguments kept of a command; the last one then says how many more there were.
const ARGUMENTS_MAX: usize = 32;
/// Maximum bytes kept of an argument.
const ARGUMENT_BYTES_MAX: usize = 128;

/// Shared by all loops; locked only for commands that were slow, and for readers.
#[derive(Debug, Default)]
pub(crate) struct SlowLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// Latest first.
    entries: VecDeque<SlowEntry>,
}

impl SlowLog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry and removes the oldest ones beyond `entries_max`.
    pub(crate) fn add(
        &self,
        client: &Client,
        now_ms: u64,
        micros: u64,
        arguments: &[&[u8]],
        entries_max: usize,
    ) {
        let name = client.names.lock().unwrap_or_else(PoisonError::into_inner).name.clone();
        let arguments = cut(arguments);
        let mut state = self.state();
        let (id, at_s, address) = (state.next_id, now_ms / 1_000, client.address.to_string());
        state.next_id += 1;
        state.entries.push_front(SlowEntry { id, at_s, micros, arguments, address, name });
        state.entries.truncate(entries_max);
    }

    /// The latest entries, latest first.
    pub(crate) fn newest(&self, count: Option<usize>) -> Vec<SlowEntry> {
        self.state().entries.iter().take(count.unwrap_or(usize::MAX)).cloned().collect()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Removes all entries; their numbers are not reused.
    pub(crate) fn clear(&self) {
        self.state().entries.clear();
    }
}

fn cut(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let whole = arguments.len() <= ARGUMENTS_MAX;
    let kept = if whole { arguments.len() } else { ARGUMENTS_MAX - 1 };
    let mut cut: Vec<Vec<u8>> = arguments[..kept].iter().map(|bytes| cut_bytes(bytes)).collect();
    if !whole {
        cut.push(format!("... ({} more arguments)", arguments.len() - kept).into_bytes());
    }
    cut
}

fn cut_bytes(bytes: &[u8]) -> Vec<u8> {
    match bytes.len().checked_sub(ARGUMENT_BYTES_MAX) {
        None | Some(0) => bytes.to_vec(),
        Some(more) => {
            let mut cut = bytes[..ARGUMENT_BYTES_MAX].to_vec();
            cut.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
            cut
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::tests::client;

    #[test]
    fn keeps_the_latest_entries_and_continues_numbering_after_a_reset() {
        let (log, client) = (SlowLog::default(), client(1));
        (0..5).for_each(|micros| log.add(&client, 7_000, micros, &[b"get", b"k"], 3));
        assert_eq!(log.len(), 3);
        let newest = log.newest(Some(2));
        assert_eq!(newest.iter().map(|e| (e.id, e.micros)).collect::<Vec<_>>(), [(4, 4), (3, 3)]);
        assert_eq!((newest[0].at_s, newest[0].address.as_str()), (7, "127.0.0.1:1"));
        log.clear();
        log.add(&client, 7_000, 9, &[b"get"], 3);
        assert_eq!(log.newest(None)[0].id, 5);
    }

    #[test]
    fn cuts_arguments_at_32_and_128() {
        let long = [b'x'; 129];
        let arguments: Vec<&[u8]> = vec![&long; 33];
        let cut_33 = cut(&arguments);
        assert_eq!(cut_33.len(), 32);
        assert_eq!(cut_33[31], b"... (2 more arguments)");
        assert!(cut_33[0].ends_with(b"x... (1 more bytes)"));
        assert_eq!(cut(&arguments[..32]).len(), 32);
        assert_eq!(cut_bytes(&long[..128]), &long[..128]);
    }
}
