//! The words for commands that the log of a durable database did not execute.
//!
//! Clients rely on the first word: they send a command again by themselves after LOADING or
//! CLUSTERDOWN, which is safe, because it was not executed; none does so after UNKNOWN.

use super::encoder::Failure;
use crate::Host;
use todana_command::{Access, BitsCommand, Command, Context, StringCommand};
use todana_group::Gate;
use todana_protocol::NotDone;

/// The error for a command on a database that has no reply.
#[cold]
pub(super) fn not_done<H: Host>(why: NotDone, database: usize, host: &H) -> Failure {
    match why {
        NotDone::Loading => "LOADING Todana is loading the dataset in memory".into(),
        NotDone::ReadOnly
            if host.log(database).is_some_and(|it| it.submit.gate() == Gate::Leaderless) =>
        {
            format!("CLUSTERDOWN {}", host.log_trouble(database)).into()
        }
        NotDone::ReadOnly => {
            format!("MISCONF Errors writing to the AOF file: {}", host.log_trouble(database)).into()
        }
        NotDone::Busy => {
            "CLUSTERDOWN the log accepts no writes: it did not take this one in time".into()
        }
        NotDone::OldMember => {
            "ERR a member of the cluster has an older version of Todana that does \
             not know this command: upgrade all members first"
                .into()
        }
        NotDone::NoLeader => "CLUSTERDOWN no leader confirms that this node is up to date".into(),
        NotDone::Unanswered => "CLUSTERDOWN no member of the cluster answers this node".into(),
        NotDone::Unknown => "UNKNOWN the write may or may not have been executed".into(),
        NotDone::Internal => "ERR internal error".into(),
    }
}

/// The error for a value that is too large for the log, though not for the protocol.
#[cold]
pub(super) fn log_limit<H: Host>(
    database: usize,
    command: &Command<'_>,
    context: Context,
    host: &H,
) -> Option<Failure> {
    let limit = host.log(database)?.submit.value_bytes_max();
    let is_beyond_both = match *command {
        Command::String(StringCommand::SetRange { offset, bytes, .. }) => {
            offset.saturating_add(bytes.len() as u64) > context.value_bytes_max as u64
        }
        // The request does not say how long the value is.
        Command::Bits(BitsCommand::BitFields { .. })
        | Command::Bits(BitsCommand::BitOperation { .. }) => true,
        _ => command.access() != Access::Write,
    };
    let is_of_log = host.databases().is_durable(database) && limit < context.value_bytes_max;
    (is_of_log && !is_beyond_both).then(|| {
        let text = "ERR string exceeds maximum allowed size of a durable database";
        format!("{text} (durable_value_bytes_max: {limit} bytes)").into()
    })
}
