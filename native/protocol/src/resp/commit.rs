//! The words for commands that the log of a durable database did not execute.
//!
//! Clients rely on the first word: they send a command again by themselves after LOADING or
//! CLUSTERDOWN, which is safe, because it was not executed; none does so after UNKNOWN.

use super::encoder::Failure;
use crate::{Host, NotDone};
use todana_group::Gate;

/// The error for a command that has no reply.
#[cold]
pub(super) fn not_done<H: Host>(why: NotDone, host: &H) -> Failure {
    match why {
        NotDone::Loading => "LOADING Todana is loading the dataset in memory".into(),
        NotDone::ReadOnly if host.log().is_some_and(|it| it.submit.gate() == Gate::Leaderless) => {
            format!("CLUSTERDOWN {}", host.log_trouble()).into()
        }
        NotDone::ReadOnly => {
            format!("MISCONF Errors writing to the AOF file: {}", host.log_trouble()).into()
        }
        NotDone::Busy => {
            "CLUSTERDOWN the log accepts no writes: it did not take this one in time".into()
        }
        NotDone::NoLeader => "CLUSTERDOWN no leader confirms that this node is up to date".into(),
        NotDone::Unknown => "UNKNOWN the write may or may not have been executed".into(),
        NotDone::Internal => "ERR internal error".into(),
    }
}
