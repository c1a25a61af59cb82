//! `synchronize`: succeeds when all writes that were answered before are on disk.
//!
//! In a node that synchronizes its log with every commit, an answered write is on disk. In one that
//! does so each second, this asks for it, and looks at the log from time to time.

use super::failure::Failure;
use super::flow::Step;
use super::http::Status;
use super::inputs::Inputs;
use super::turn::Turn;
use crate::Host;
use todana_protocol::Request;

/// A client that waits looks at the log again after this time.
const POLL_MS: u64 = 5;

/// How long a client waits for the disk.
const DISK_MS_MAX: u64 = 30_000;

const NO_COMMANDS: Failure =
    Failure::new(Status::Internal, "DB: 15: miscellaneous error: there are no commands");
const TOO_SLOW: Failure =
    Failure::new(Status::Internal, "DB: 9: system error: the disk does not answer");

/// A request that waits for the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synchronize {
    /// The number of what the log was asked for.
    number: u64,
    /// When the client stops waiting, in milliseconds since the Unix epoch.
    until_ms: u64,
}

impl Synchronize {
    /// Begins a request. `None` if everything is on disk, or nothing belongs there.
    pub(super) fn begin<H: Host>(
        turn: &mut Turn<'_, H>,
        database: usize,
        inputs: &Inputs<'_>,
    ) -> Result<Option<Synchronize>, Failure> {
        if inputs.has(b"command") {
            return Err(NO_COMMANDS);
        }
        turn.host.admit_read(database)?;
        if !turn.host.databases().is_durable(database) || turn.host.persistence().always {
            return Ok(None);
        }
        let number = turn.host.request_persistence(Request::Sync);
        let until_ms = turn.host.now_ms().saturating_add(DISK_MS_MAX);
        Ok(Some(Synchronize { number, until_ms }))
    }

    /// Looks whether it is done.
    pub(super) fn step<H: Host>(&self, turn: &Turn<'_, H>) -> Result<Step, Failure> {
        if turn.host.persistence().done >= self.number {
            Ok(Step::Done)
        } else if turn.host.now_ms() >= self.until_ms {
            Err(TOO_SLOW)
        } else {
            Ok(Step::Wait { ms: POLL_MS })
        }
    }
}
