//! How new the records must be that a client reads: READONLY, READWRITE, TODANA.READ; and reads
//! after a write that was made by another node: TODANA.INDEX, TODANA.AFTER.

use super::call::{Call, Done};
use super::commit::not_done;
use super::encoder::Failure;
use super::flow::Flow;
use super::request::SYNTAX;
use crate::Host;
use todana_protocol::{Log, ReadLevel};

/// How long TODANA.AFTER waits if the client does not say.
const AFTER_MS: u64 = 5_000;

const NO_LOG: &str = "ERR this server keeps its records in memory, and has no log";

impl<H: Host> Call<'_, '_, H> {
    /// Sets the level, or the default if it is `None`.
    pub(super) fn read_at(&mut self, level: Option<ReadLevel>) -> Done {
        self.host.set_read_level(level);
        self.state.reads_here = level.is_some();
        self.ok()
    }

    pub(super) fn read_level(&mut self) -> Done {
        match ReadLevel::named(self.argument(1)) {
            Some(level) => self.read_at(Some(level)),
            None => Err("ERR the level must be local, bounded or linear".into()),
        }
    }

    pub(super) fn log_index(&mut self) -> Done {
        let index = self.log()?.submit.answered_index();
        self.encoder.count(index);
        Ok(Flow::Continue)
    }

    pub(super) fn read_after(&mut self) -> Done {
        let index = self.at_least_0(1)?;
        let ms = match &self.arguments[1..] {
            [_] => AFTER_MS,
            [_, _] => self.at_least_0(2)?,
            _ => return Err(SYNTAX),
        };
        let log = self.log()?;
        let database = self.state.database;
        log.admit_read().map_err(|why| not_done(why, database, self.host))?;
        if log.submit.applied_index() >= index {
            return self.ok();
        }
        let may_wait = ms > 0 && !self.state.is_in_exec;
        if may_wait && self.host.await_applied(database, index, ms) {
            return Ok(self.state.begins_commit(false));
        }
        Err(format!("CLUSTERDOWN this node has not applied entry {index} of the log").into())
    }

    fn log(&self) -> Result<Log<'_>, Failure> {
        self.host.log(self.state.database).ok_or(NO_LOG.into())
    }
}
