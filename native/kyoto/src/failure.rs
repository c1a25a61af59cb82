//! Why a procedure failed: the status and the text that clients see.
//!
//! The texts are the same as ktserver's, because clients compare them.

use super::http::Status;
use std::borrow::Cow;
use todana_command::{Error, Refusal, WrongKind};
use todana_protocol::NotDone;

/// A failed procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: Status,
    /// The text of `ERROR`.
    pub(super) text: Cow<'static, str>,
}

impl Failure {
    pub(super) const INVALID_PARAMETERS: Failure =
        Failure::new(Status::BadRequest, "invalid parameters");
    pub(super) const TOO_MANY_INPUTS: Failure = Failure::new(Status::BadRequest, "too many inputs");
    pub(super) const NO_SUCH_DATABASE: Failure =
        Failure::new(Status::BadRequest, "no such database");
    pub(super) const NO_SUCH_CURSOR: Failure = Failure::new(Status::BadRequest, "no such cursor");
    pub(super) const TIMED_OUT: Failure =
        Failure::new(Status::Unavailable, "the condition timed out");
    pub(super) const NO_UPDATE_LOG: Failure =
        Failure::new(Status::BadRequest, "no update log allows no replication");
    pub(super) const NO_POSITION_FILE: Failure =
        Failure::new(Status::NotImplemented, "the RTS file is not set");
    pub(super) const NO_SCRIPTS: Failure =
        Failure::new(Status::NotImplemented, "the scripting extention is disabled");
    pub(super) const NO_RECORD: Failure =
        Failure::new(Status::Logical, "DB: 7: no record: no record");
    pub(super) const DUPLICATE: Failure =
        Failure::new(Status::Logical, "DB: 6: record duplication: record duplication");
    pub(super) const STATUS_CONFLICT: Failure =
        Failure::new(Status::Logical, "DB: 8: logical inconsistency: status conflict");
    pub(super) const INCONSISTENT: Failure =
        Failure::new(Status::Logical, "DB: 8: logical inconsistency: logical inconsistency");
    pub(super) const BAD_EXPRESSION: Failure =
        Failure::new(Status::Logical, "DB: 8: logical inconsistency: compilation failed");
    pub(super) const NOT_IMPLEMENTED: Failure =
        Failure::new(Status::NotImplemented, "DB: 1: not implemented: not implemented");
    pub(super) const KEY_TOO_LONG: Failure =
        Failure::new(Status::Internal, "DB: 9: system error: the key is too long");
    pub(super) const VALUE_TOO_LONG: Failure =
        Failure::new(Status::Internal, "DB: 9: system error: the value is too long");
    pub(super) const FULL: Failure =
        Failure::new(Status::Internal, "DB: 9: system error: the database is full");
    pub(super) const TOO_MANY_AT_ONCE: Failure = Failure::new(
        Status::Internal,
        "DB: 9: system error: too many records for one step; send fewer, or without atomic",
    );
    pub(super) const REPLY_TOO_LONG: Failure =
        Failure::new(Status::Internal, "DB: 9: system error: the reply is too long");

    /// The request waits for the log and is run again. Clients never see this failure.
    pub(super) const COMMITTING: Failure =
        Failure::new(Status::Internal, "DB: 9: system error: the commit is not complete");

    pub(super) const fn new(status: Status, text: &'static str) -> Failure {
        Failure { status, text: Cow::Borrowed(text) }
    }

    /// No procedure has this name.
    pub(super) fn no_procedure(name: &[u8]) -> Failure {
        let name = String::from_utf8_lossy(name);
        let text = format!("not implemented: {name}");
        Failure { status: Status::NotImplemented, text: Cow::Owned(text) }
    }
}

impl From<NotDone> for Failure {
    fn from(why: NotDone) -> Failure {
        match why {
            NotDone::Loading => {
                Failure::new(Status::Unavailable, "DB: 9: system error: the database is loading")
            }
            NotDone::ReadOnly | NotDone::Busy => {
                Failure::new(Status::Unavailable, "DB: 9: system error: the log accepts no writes")
            }
            NotDone::OldMember => Failure::new(
                Status::NotImplemented,
                "not implemented: a member of the cluster has an older version",
            ),
            NotDone::NoLeader => Failure::new(
                Status::Unavailable,
                "DB: 9: system error: no leader confirms that the records are up to date",
            ),
            NotDone::Unanswered => Failure::new(
                Status::Unavailable,
                "DB: 9: system error: no member of the cluster answers",
            ),
            NotDone::Unknown => Failure::new(Status::Internal, "outcome unknown"),
            NotDone::Internal => {
                Failure::new(Status::Internal, "DB: 9: system error: internal error")
            }
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Present => Failure::DUPLICATE,
            Refusal::Absent => Failure::NO_RECORD,
            Refusal::VersionDiffers | Refusal::ValueDiffers => Failure::STATUS_CONFLICT,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Full => Failure::FULL,
            Error::WrongKind(kind) => Failure {
                text: Cow::Owned(format!("DB: 8: logical inconsistency: {}", WrongKind(kind))),
                ..Failure::INCONSISTENT
            },
            Error::ValueTooLarge => Failure::VALUE_TOO_LONG,
            Error::ReplyTooLarge | Error::TooManyKeys => Failure::REPLY_TOO_LONG,
            Error::NoSuchDatabase => Failure::NO_SUCH_DATABASE,
            Error::NotOrdered => Failure::NOT_IMPLEMENTED,
            Error::NotACounter
            | Error::NotAnInteger
            | Error::NotAFloat
            | Error::Overflow
            | Error::NotFinite
            | Error::SameObject
            | Error::NoScripts
            | Error::DifferentDurability
            | Error::NotASketch
            | Error::CorruptSketch
            | Error::BadPayload
            | Error::BadFormat
            | Error::OtherType
            | Error::Contended => Failure::INCONSISTENT,
        }
    }
}
