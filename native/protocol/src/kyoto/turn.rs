//! What a handler uses: the host, the output, and access to the commands.

use super::database::KyotoDatabase;
use super::settings::KyotoSettings;
use super::table::Row;
use crate::{Host, ProtocolName, Splice};
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Command, Context, Reply};
use todana_table::Shared;

/// One call of `advance`.
#[derive(Debug)]
pub(super) struct Turn<'t, H> {
    pub(super) host: &'t mut H,
    pub(super) out: &'t mut Vec<u8>,
    /// Bytes of large values that are sent with the output.
    pub(super) spliced_bytes: usize,
    /// Key look-ups that hit, and that missed.
    pub(super) lookups: (u64, u64),
}

impl<'t, H: Host> Turn<'t, H> {
    /// Begins a call.
    pub(super) fn new(host: &'t mut H, out: &'t mut Vec<u8>) -> Turn<'t, H> {
        Turn { host, out, spliced_bytes: 0, lookups: (0, 0) }
    }

    /// Executes a command on an existing database.
    #[inline]
    pub(super) fn execute<R: Reply>(
        &mut self,
        database: usize,
        command: &Command<'_>,
        reply: &mut R,
    ) {
        let value_bytes_max = self.host.limits().value_bytes_max;
        let context = Context { now_ms: self.host.now_ms(), value_bytes_max };
        let _ = self.host.run(database, command, context, reply);
    }

    /// Sends a large value after the present output.
    pub(super) fn splice(&mut self, value: Shared) {
        let (at, range) = (self.out.len(), 0..value.len());
        self.spliced_bytes += range.len();
        self.host.splice(Splice { at, value, range });
    }

    /// The settings of this protocol.
    pub(super) fn settings(&self) -> &KyotoSettings {
        self.host.kyoto()
    }

    /// The settings of a database; those of database 0 if it has none.
    pub(super) fn database(&self, number: usize) -> &KyotoDatabase {
        let databases = &self.host.kyoto().databases;
        databases.get(number).unwrap_or(&databases[0])
    }

    /// Counts an answered request, and adds it to the slow log if it was slow.
    #[inline]
    pub(super) fn observe(&mut self, row: Row, failed: bool, words: &[&[u8]]) {
        let index = row as usize;
        self.host.client().last_command.store(index, Relaxed);
        if let Some(micros) = self.host.observe(ProtocolName::Kyoto, index, failed) {
            self.host.log_slow(micros, words);
        }
    }
}
