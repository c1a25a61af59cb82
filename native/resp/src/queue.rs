//! Commands that wait for EXEC, and the keys that are watched for it.

use super::encoder::Failure;
use super::reply_format::ReplyFormat;
use super::request::Pairs;
use super::table::Name;
use crate::Host;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use todana_command::{Command, TRANSACTION_UNITS_MAX, Watch, watch};
use todana_table::Absence;

/// Maximum number of words of all commands between MULTI and EXEC. Each is a unit of work.
pub(super) const QUEUED_WORDS_MAX: usize = TRANSACTION_UNITS_MAX as usize;

/// Maximum number of keys that a client watches. Watching a key takes about a microsecond, and so
/// does the end of the watch.
pub(super) const WATCHED_KEYS_MAX: usize = 8_192;

/// Maximum number of bytes of a client's watched keys, bookkeeping included.
const WATCHED_BYTES_MAX: usize = 8 << 20;

/// Bytes that EXEC needs for a command in addition to its arguments.
pub(super) const COMMAND_BYTES: usize = size_of::<(Name, usize)>()
    + size_of::<(Name, &[&[u8]])>()
    + size_of::<Pairs<'_>>()
    + size_of::<Part<'_>>()
    + size_of::<(usize, Command<'_>)>()
    + size_of::<(ReplyFormat, bool)>()
    + size_of::<(usize, bool)>();

/// Bytes that EXEC needs for an argument in addition to its own: its end, its slice, and its place
/// among the pairs or the keys.
pub(super) const ARGUMENT_BYTES: usize = size_of::<usize>() + 2 * size_of::<&[u8]>();

/// Bytes of a watched key in addition to its own: its entry, its place in the set of known keys,
/// with spare room, and the counts and the allocation of the key.
const WATCH_BYTES: usize = size_of::<Watch>() + 2 * size_of::<Arc<[u8]>>() + 32 + Absence::BYTES;

/// Commands queued since MULTI, with copies of their arguments.
#[derive(Debug, Default)]
pub(super) struct QueuedCommands {
    /// All arguments, one after another.
    pub(super) bytes: Vec<u8>,
    /// The end of each argument.
    pub(super) ends: Vec<usize>,
    /// Each command, with the number of its arguments.
    pub(super) commands: Vec<(Name, usize)>,
    /// Whether one of them may change what others see.
    pub(super) may_write: bool,
    /// Whether a command could not be queued, so that EXEC will be refused.
    pub(super) broken: bool,
}

impl QueuedCommands {
    pub(super) fn arguments(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let slice = |&end: &usize| &self.bytes[std::mem::replace(&mut start, end)..end];
        self.ends.iter().map(slice).collect()
    }

    /// Bytes that it holds, including bookkeeping.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * ARGUMENT_BYTES + self.commands.len() * COMMAND_BYTES
    }
}

/// Keys watched for the next EXEC.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Each key, with its state when it was watched.
    pub(super) list: Vec<Watch>,
    /// The keys of each database.
    known: BTreeMap<usize, HashSet<Arc<[u8]>>>,
    /// Total bytes of all this.
    bytes: usize,
}

impl Watches {
    /// Total bytes of all this.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Watches a key, unless it is already watched.
    pub(super) fn add<H: Host>(
        &mut self,
        database: usize,
        key: &[u8],
        now_ms: u64,
        host: &H,
    ) -> Result<(), Failure> {
        match self.has(database, key) {
            true => Ok(()),
            false => {
                let begin = || watch(host.databases(), database, key, now_ms);
                self.add_new(database, key, host, begin)
            }
        }
    }

    /// Whether a key is watched.
    pub(super) fn has(&self, database: usize, key: &[u8]) -> bool {
        self.known.get(&database).is_some_and(|known| known.contains(key))
    }

    /// Watches a key that is not watched yet.
    pub(super) fn add_new<H: Host>(
        &mut self,
        database: usize,
        key: &[u8],
        host: &H,
        begin: impl FnOnce() -> Watch,
    ) -> Result<(), Failure> {
        if self.list.len() >= WATCHED_KEYS_MAX {
            return Err(too_many_watched());
        }
        let bytes = self.bytes.saturating_add(key.len() + WATCH_BYTES);
        if bytes > host.limits().queued_bytes_max.min(WATCHED_BYTES_MAX) {
            return Err("ERR watched keys take too many bytes".into());
        }
        self.bytes = bytes;
        let watch = begin();
        self.known.entry(database).or_default().insert(watch.key().clone());
        self.list.push(watch);
        Ok(())
    }
}

pub(super) fn too_many_watched() -> Failure {
    format!("ERR more than {WATCHED_KEYS_MAX} watched keys").into()
}

/// How EXEC handles a queued command.
pub(super) enum Part<'a> {
    /// A command of the transaction, and whether its reply is in RESP3.
    Store(ReplyFormat, bool),
    /// Its arguments, or its password, are wrong.
    Fail(Failure),
    /// The session executes it.
    Local(Name, &'a [&'a [u8]]),
}
