//! The arguments of commands on leases.

use crate::Expires;
use crate::wire::{Input, Malformed, Put, Take, structs};

/// Options of [`LeaseCommand::Get`](crate::LeaseCommand::Get).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Creates an empty record with this expiry if there is none; the caller wins the right to fill
    /// it.
    pub vivify: Option<Expires>,
    /// The first caller wins the right to recache once the record has less than this many
    /// milliseconds left.
    pub recache_below_ms: Option<u64>,
    /// New expiry for the record.
    pub touch: Option<Expires>,
    /// Do not record the access.
    pub quiet_access: bool,
    /// This call never wins (`me`).
    pub never_win: bool,
}

structs! {
    LeaseOptions { vivify, recache_below_ms, touch, quiet_access, never_win }
}
