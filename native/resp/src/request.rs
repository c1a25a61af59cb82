//! A request that becomes a command, and functions that parse arguments for all command groups.

use super::encoder::Failure;
use super::number;
use super::reply_format::ReplyFormat;
use super::table::Name;
use smallvec::SmallVec;
use todana_command::{Command, DATABASES};

/// The arguments of a request. Up to a few arguments need no allocation.
pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; 8]>;

/// Most steps and most bytes of a script.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScriptLimits {
    pub(super) steps_max: u64,
    pub(super) bytes_max: u64,
}

/// A key and its value.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Keys and values of MSET and MSETNX.
pub(super) type Pairs<'a> = SmallVec<[Pair<'a>; 4]>;

/// A command and the format of its reply, or the error.
pub(super) type Built<'a> = Result<(Command<'a>, ReplyFormat), Failure>;

/// A request with the right number of arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// Its command.
    pub(super) name: Name,
    /// Its arguments, beginning with the command's name.
    pub(super) arguments: &'a [&'a [u8]],
    /// The present time, in milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// Longest value.
    pub(super) value_bytes_max: usize,
    /// The limits of a script.
    pub(super) script_limits: ScriptLimits,
}

pub(super) const SYNTAX: Failure = Failure::new("ERR syntax error");
pub(super) const NOT_AN_INTEGER: Failure =
    Failure::new("ERR value is not an integer or out of range");
pub(super) const NO_SUCH_DATABASE: Failure = Failure::new("ERR DB index is out of range");

/// The arguments of MSET and MSETNX in pairs, without an incomplete last pair.
pub(super) fn pairs<'a>(arguments: &[&'a [u8]]) -> Pairs<'a> {
    arguments[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// A command whose reply has no format of its own.
pub(super) fn plain(command: Command<'_>) -> Built<'_> {
    Ok((command, ReplyFormat::Plain))
}

pub(super) fn wrong_arity(name: Name) -> Failure {
    format!("ERR wrong number of arguments for '{}' command", name.spec().name).into()
}

impl<'a> Request<'a> {
    pub(super) fn integer(&self, at: usize) -> Result<i64, Failure> {
        number::integer(self.arguments[at]).ok_or(NOT_AN_INTEGER)
    }

    /// The number of a database.
    pub(super) fn database(&self, at: usize) -> Result<usize, Failure> {
        database(self.arguments[at])
    }
}

/// The number of a database, in an argument.
pub(super) fn database(argument: &[u8]) -> Result<usize, Failure> {
    let number = number::integer(argument).ok_or(NOT_AN_INTEGER)?;
    if i32::try_from(number).is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        let text = format!("ERR value is out of range, value must between {least} and {most}");
        return Err(text.into());
    }
    let known = usize::try_from(number).ok().filter(|number| *number < DATABASES);
    known.ok_or(NO_SUCH_DATABASE)
}
