//! The commands about persistence: BGSAVE, SAVE, LASTSAVE, BGREWRITEAOF, WAIT, WAITAOF.
//!
//! In a node with a data directory the log is what Redis calls the append-only file, and a snapshot
//! of the records both its RDB file and the base of that file.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::Flow;
use super::number;
use super::request::{NOT_AN_INTEGER, SYNTAX};
use super::state::{Saving, Unfinished};
use crate::Host;
use std::sync::Arc;
use todana_protocol::{Persistence, Request};

/// A client that waits looks at the log again after this time.
pub(super) const POLL_MS: u64 = 5;

/// WAIT looks again after this time whether other members have the entry, then after twice as long,
/// up to the second time.
const COPIES_MS: (u64, u64) = (20, 640);

/// How long WAIT sleeps, at most `pause_ms`. Nobody else can come to have an entry without a
/// cluster.
pub(super) fn wait_ms(until_ms: u64, pause_ms: u64, database: usize, host: &impl Host) -> u64 {
    let left_ms = until_ms.saturating_sub(host.now_ms());
    let others = host.log(database).map_or(0, |log| log.submit.others());
    if others == 0 { left_ms } else { left_ms.min(pause_ms) }
}

const IN_MEMORY: &str = "ERR there is nothing to save to: this server keeps its records in memory, \
                         and has no data_dir";
const IN_PROGRESS: &str = "ERR Background save already in progress";

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn background_save(&mut self) -> Done {
        let scheduled = match &self.arguments[1..] {
            [] => false,
            [word] if word.eq_ignore_ascii_case(b"schedule") => true,
            _ => return Err(SYNTAX),
        };
        let now = self.durable()?;
        if now.snapshot_in_progress {
            if !scheduled {
                return Err(IN_PROGRESS.into());
            }
            self.encoder.simple("Background saving scheduled");
            return Ok(Flow::Continue);
        }
        self.host.request_persistence(Request::Snapshot);
        self.encoder.simple("Background saving started");
        Ok(Flow::Continue)
    }

    pub(super) fn background_rewrite(&mut self) -> Done {
        if !self.durable()?.snapshot_in_progress {
            self.host.request_persistence(Request::Snapshot);
        }
        self.encoder.simple("Background append only file rewriting started");
        Ok(Flow::Continue)
    }

    pub(super) fn save(&mut self) -> Done {
        let now = self.durable()?;
        match self.begun() {
            None if now.snapshot_in_progress => Err(IN_PROGRESS.into()),
            None => {
                let number = self.host.request_persistence(Request::WaitedSnapshot);
                self.wait(Saving { number, deadline_ms: 0 })
            }
            Some(saving) if now.done < saving.number => self.wait(saving),
            Some(_) if now.snapshot_failed => Err("ERR the snapshot was not written".into()),
            Some(_) => self.ok(),
        }
    }

    pub(super) fn last_save(&mut self) -> Done {
        let started_s = self.host.server_info().started_at_ms / 1000;
        let at_s = match self.host.persistence().snapshot_at_s {
            0 => started_s,
            at_s => at_s,
        };
        self.encoder.count(at_s);
        Ok(Flow::Continue)
    }

    /// Waits until this number of other members have on disk what this node has applied: all writes
    /// of this client. Of a majority that is known at once, of the others a moment later. Without
    /// other members, nobody acknowledges anything. As in Redis, the client waits for its time if
    /// they are fewer, for ever if that is 0; but not in EXEC, and not for no replica.
    pub(super) fn wait_for_replicas(&mut self) -> Done {
        let replicas = self.at_least_0(1)?;
        let timeout_ms = self.at_least_0(2)?;
        let now_ms = self.host.now_ms();
        let log = self.host.log(self.state.database);
        let begun = match self.state.begun.take() {
            Some(Unfinished::Waiting { until_ms, index, pause_ms }) => {
                (until_ms, index, COPIES_MS.1.min(2 * pause_ms))
            }
            _ => {
                let until_ms = match timeout_ms {
                    _ if replicas == 0 || self.state.is_in_exec => now_ms,
                    0 => u64::MAX,
                    _ => now_ms.saturating_add(timeout_ms),
                };
                let (index, others) = log.as_ref().map_or((0, 0), |log| {
                    (log.submit.answered_index(), log.submit.others() as u64)
                });
                // There are not as many members, unless more join.
                let is_vain = replicas > others;
                (until_ms, index, if is_vain { COPIES_MS.1 } else { COPIES_MS.0 })
            }
        };
        let (until_ms, index, pause_ms) = begun;
        let copies = log.map_or(0, |log| log.submit.copies(index)) as u64;
        if now_ms < until_ms && copies < replicas {
            self.state.begun = Some(Unfinished::Waiting { until_ms, index, pause_ms });
        } else {
            self.encoder.count(copies);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn wait_for_disk(&mut self) -> Done {
        let local = self.at_least_0(1)?;
        let _replicas = self.at_least_0(2)?;
        let timeout_ms = self.at_least_0(3)?;
        let now = self.host.persistence();
        if local > 1 {
            return Err("ERR value is out of range, must be between 0 and 1".into());
        }
        if !now.is_durable() {
            if local == 1 {
                let text = "ERR WAITAOF cannot be used when numlocal is set but appendonly is \
                            disabled.";
                return Err(text.into());
            }
            return self.acknowledged(0);
        }
        if now.always {
            // A reply means that the write is on disk.
            return self.acknowledged(1);
        }
        let now_ms = self.host.now_ms();
        let saving = self.begun().unwrap_or_else(|| Saving {
            number: self.host.request_persistence(Request::Sync),
            deadline_ms: match timeout_ms {
                0 => 0,
                ms => now_ms.saturating_add(ms),
            },
        });
        if now.done >= saving.number {
            self.acknowledged(1)
        } else if local == 0 || (saving.deadline_ms > 0 && now_ms >= saving.deadline_ms) {
            self.acknowledged(0)
        } else {
            self.wait(saving)
        }
    }

    /// The disks that have all writes of this client: its own, and those of replicas.
    fn acknowledged(&mut self, local: u64) -> Done {
        self.encoder.array(2);
        self.encoder.count(local);
        self.encoder.count(0);
        Ok(Flow::Continue)
    }

    fn durable(&self) -> Result<Arc<Persistence>, Failure> {
        let now = self.host.persistence();
        if now.is_durable() { Ok(now) } else { Err(IN_MEMORY.into()) }
    }

    /// The wait of the present request, if it has begun in an earlier turn.
    fn begun(&mut self) -> Option<Saving> {
        match self.state.begun.take() {
            Some(Unfinished::Saving(saving)) => Some(saving),
            _ => None,
        }
    }

    fn wait(&mut self, saving: Saving) -> Done {
        self.state.begun = Some(Unfinished::Saving(saving));
        Ok(Flow::Continue)
    }

    pub(super) fn at_least_0(&self, at: usize) -> Result<u64, Failure> {
        let number = number::integer(self.argument(at)).ok_or(NOT_AN_INTEGER)?;
        u64::try_from(number).map_err(|_| "ERR value is out of range, must be positive".into())
    }
}
