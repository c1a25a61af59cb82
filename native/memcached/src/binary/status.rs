//! The status of a response, and the text that follows if it is an error.

use todana_protocol::NotDone;

/// The statuses that this server sends. The values are those of memcached's `protocol_binary.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    Invalid = 0x04,
    NotStored = 0x05,
    NotANumber = 0x06,
    AuthenticationError = 0x20,
    AuthenticationContinue = 0x21,
    UnknownCommand = 0x81,
    OutOfMemory = 0x82,
    InternalError = 0x84,
    TemporaryFailure = 0x86,
}

impl Status {
    /// The body of an error.
    pub(super) fn text(self) -> &'static str {
        match self {
            Status::Success | Status::AuthenticationContinue => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotANumber => "Non-numeric server-side value for incr or decr",
            Status::AuthenticationError => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::OutOfMemory => "Out of memory",
            Status::InternalError => "Internal error",
            Status::TemporaryFailure => "Temporary failure",
        }
    }
}

/// The answer to a request that the log of a durable database has not executed.
pub(super) fn not_done(why: NotDone) -> (Status, &'static str) {
    match why {
        NotDone::Loading => (Status::TemporaryFailure, "Loading"),
        NotDone::ReadOnly | NotDone::Busy | NotDone::NoLeader | NotDone::Unanswered => {
            (Status::TemporaryFailure, Status::TemporaryFailure.text())
        }
        NotDone::OldMember => (Status::TemporaryFailure, "A member of the cluster is older"),
        NotDone::Unknown => (Status::InternalError, "Outcome unknown"),
        NotDone::Internal => (Status::InternalError, Status::InternalError.text()),
    }
}
