//! A request on its way to the waist, and what every group of commands needs to read its arguments.

use super::encoder::Failure;
use super::number;
use super::reply_format::ReplyFormat;
use super::table::Name;
use super::{bits, keys, range, strings};
use smallvec::SmallVec;
use todana_command::{Command, DATABASES};

/// Arguments of a request; the few of most requests need no allocation.
pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; 8]>;

/// Keys and values of MSET and MSETNX.
pub(super) type Pairs<'a> = SmallVec<[(&'a [u8], &'a [u8]); 4]>;

/// A command for the waist and the wording of its answer, or why there is none.
pub(super) type Built<'a> = Result<(Command<'a>, ReplyFormat), Failure>;

/// A request that has the right number of arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// Its command.
    pub(super) name: Name,
    /// Its arguments, the command's name first.
    pub(super) arguments: &'a [&'a [u8]],
    /// The arguments in pairs, for commands that take [`takes_pairs`].
    pub(super) pairs: &'a [(&'a [u8], &'a [u8])],
    /// Now, in milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// Longest value.
    pub(super) value_bytes_max: usize,
    /// A number that differs from request to request.
    pub(super) random: u64,
}

pub(super) const SYNTAX: Failure = Failure::new("ERR syntax error");
pub(super) const NOT_AN_INTEGER: Failure =
    Failure::new("ERR value is not an integer or out of range");
pub(super) const NO_SUCH_DATABASE: Failure = Failure::new("ERR DB index is out of range");

/// Whether a command's arguments are keys and values in turn.
#[inline]
pub(super) fn takes_pairs(name: Name) -> bool {
    matches!(name, Name::MSet | Name::MSetNx)
}

/// The arguments of MSET and MSETNX in pairs; one without a partner is left out (see
/// [`Request::build`]).
pub(super) fn pairs<'a>(arguments: &[&'a [u8]]) -> Pairs<'a> {
    arguments[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

pub(super) fn wrong_arity(name: Name) -> Failure {
    format!("ERR wrong number of arguments for '{}' command", name.spec().name).into()
}

impl<'a> Request<'a> {
    /// The command that the waist has for this request; `None` where the session itself answers it.
    #[inline]
    pub(super) fn build(&self) -> Option<Built<'a>> {
        // Not all names: one of them is `Command`.
        use Name::{
            Append, BitCount, BitPos, CopyTo, DbSize, Decr, DecrBy, Del, Exists, Expire, ExpireAt,
            ExpireTime, FlushAll, FlushDb, Get, GetBit, GetDel, GetEx, GetRange, GetSet, Incr,
            IncrBy, IncrByFloat, KeysOf, Lcs, MGet, MSet, MSetNx, MemoryUsage, Move,
            ObjectEncoding, ObjectFreq, ObjectIdleTime, ObjectRefCount, PExpire, PExpireAt,
            PExpireTime, PSetEx, PTtl, Persist, Prefix, RandomKey, Range, RenameNx, RenameTo, Scan,
            Set, SetBit, SetEx, SetNx, SetRange, StrLen, SubStr, SwapDb, Touch, Ttl, Type, Unlink,
        };
        Some(match self.name {
            Get => Ok((Command::Get { key: self.arguments[1] }, ReplyFormat::Plain)),
            Set => self.set(),
            SetNx | SetEx | PSetEx | GetSet | GetDel | GetEx | Append | StrLen | GetRange
            | SubStr | SetRange | MGet | MSet | MSetNx | Incr | Decr | IncrBy | DecrBy
            | IncrByFloat | Lcs => strings::build(self),
            SetBit | GetBit | BitCount | BitPos => bits::build(self),
            Range | Prefix => range::build(self),
            Del | Unlink | Exists | Expire | PExpire | ExpireAt | PExpireAt | Ttl | PTtl
            | ExpireTime | PExpireTime | Persist | Type | KeysOf | Scan | RandomKey | RenameTo
            | RenameNx | CopyTo | Move | Touch | DbSize | FlushDb | FlushAll | SwapDb
            | ObjectEncoding | ObjectFreq | ObjectIdleTime | ObjectRefCount | MemoryUsage => {
                keys::build(self)
            }
            _ => return None,
        })
    }

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
