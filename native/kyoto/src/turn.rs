//! What a handler uses: the host, the output, and access to the commands.

use super::database::KyotoDatabase;
use super::failure::Failure;
use super::settings::KyotoSettings;
use super::table::Row;
use crate::Host;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::{Command, Context, Reply};
use todana_protocol::{ProtocolName, Ran, Splice};
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
    /// Whether the present request waits for the log.
    pub(super) committing: Committing,
    /// Where the next request begins, if it may share the commit of the present one.
    pub(super) behind: Option<usize>,
    /// Whether the present request shares the commit of one before it. It is run only to record its
    /// command.
    pub(super) rides: bool,
}

/// Whether a request waits for the log of a durable database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Committing {
    /// It does not.
    #[default]
    Nothing,
    /// A command was recorded; the next one may be, too. The request is run again after the commit.
    Recorded,
    /// The same, but nothing more may be recorded in this turn.
    Later,
}

impl<'t, H: Host> Turn<'t, H> {
    /// Begins a call.
    pub(super) fn new(host: &'t mut H, out: &'t mut Vec<u8>) -> Turn<'t, H> {
        let (spliced_bytes, lookups, committing) = (0, (0, 0), Committing::Nothing);
        Turn { host, out, spliced_bytes, lookups, committing, behind: None, rides: false }
    }

    /// Runs a command on an existing database. It fails with [`Failure::COMMITTING`] if the request
    /// must be run again when the log has committed it.
    #[inline]
    pub(super) fn execute<R: Reply>(
        &mut self,
        database: usize,
        command: &Command<'_>,
        reply: &mut R,
    ) -> Result<(), Failure> {
        let value_bytes_max = self.host.limits().value_bytes_max;
        let context = Context { now_ms: self.host.now_ms(), value_bytes_max };
        match self.host.run(database, command, context, reply) {
            Ran::Done(()) => Ok(()),
            ran => Err(self.not_run(ran)),
        }
    }

    /// Why a command has no reply.
    #[cold]
    fn not_run(&mut self, ran: Ran<()>) -> Failure {
        self.committing = match ran {
            Ran::Refused(why) => return why.into(),
            Ran::Submitted if self.committing != Committing::Later => Committing::Recorded,
            Ran::Submitted | Ran::Later | Ran::Done(()) => Committing::Later,
        };
        Failure::COMMITTING
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
        if self.committing != Committing::Nothing {
            return;
        }
        let index = row as usize;
        self.host.client().last_command.store(index, Relaxed);
        if let Some(micros) = self.host.observe(ProtocolName::Kyoto, index, failed) {
            self.host.log_slow(micros, words);
        }
    }
}
