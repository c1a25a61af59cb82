//! The arguments of commands on keys.

use crate::wire::{Input, Malformed, Put, Take, structs};

/// The conditions of [`KeyCommand::Expire`](crate::KeyCommand::Expire) (Redis' NX, XX, GT, LT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireWhen {
    /// Only if there is no expiry yet.
    pub if_none: bool,
    /// Only if there is an expiry.
    pub if_some: bool,
    /// Only if the new expiry is later (no expiry counts as infinitely late).
    pub if_later: bool,
    /// Only if the new expiry is earlier.
    pub if_earlier: bool,
}

structs! {
    ExpireWhen { if_none, if_some, if_later, if_earlier }
}
