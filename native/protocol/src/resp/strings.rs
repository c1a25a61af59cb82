//! Strings: GET, SET and their kin.

use super::encoder::Failure;
use super::number;
use super::reply_format::ReplyFormat;
use super::request::{Built, NOT_AN_INTEGER, Request, SYNTAX, wrong_arity};
use super::table::Name;
use todana_command::{Command, Condition, Delta, Expires, Increment, Initial, LcsWant, Set, Side};

/// Most pairs of MSET and MSETNX, which are one step: some fifteen milliseconds.
pub(super) const PAIRS_MAX: usize = 8_192;

pub(super) fn build<'a>(request: &Request<'a>) -> Built<'a> {
    let arguments = request.arguments;
    let key = arguments[1];
    let plain = |command| Ok((command, ReplyFormat::Plain));
    match request.name {
        Name::SetNx => {
            let set = Set { condition: Condition::IfAbsent, ..stored(key, arguments[2]) };
            Ok((Command::Set(set), ReplyFormat::OneOrZero))
        }
        Name::SetEx | Name::PSetEx => {
            let seconds = request.name == Name::SetEx;
            let expires = request.expires_in(2, seconds)?;
            plain(Command::Set(Set { expires, ..stored(key, arguments[3]) }))
        }
        Name::GetSet => plain(Command::Set(Set { return_old: true, ..stored(key, arguments[2]) })),
        Name::GetDel => plain(Command::Take { key }),
        Name::GetEx => request.get_ex(),
        Name::Append => {
            let (bytes, condition) = (arguments[2], Condition::Always);
            let expires = Expires::Keep;
            let side = Side::Append;
            plain(Command::Concat { key, bytes, side, create: true, condition, expires })
        }
        Name::StrLen => plain(Command::Length { key }),
        Name::GetRange | Name::SubStr => {
            let (start, end) = (request.integer(2)?, request.integer(3)?);
            plain(Command::GetRange { key, start, end })
        }
        Name::SetRange => request.set_range(),
        Name::MGet => plain(Command::GetMany { keys: &arguments[1..] }),
        Name::MSet | Name::MSetNx => {
            if arguments.len().is_multiple_of(2) {
                return Err(wrong_arity(request.name));
            }
            if request.pairs.len() > PAIRS_MAX {
                return Err(format!("ERR more than {PAIRS_MAX} pairs").into());
            }
            let (condition, format) = match request.name {
                Name::MSet => (Condition::Always, ReplyFormat::Plain),
                _ => (Condition::IfAbsent, ReplyFormat::OneOrZero),
            };
            let (pairs, expires) = (request.pairs, Expires::Never);
            Ok((Command::SetMany { pairs, condition, expires }, format))
        }
        Name::Incr => plain(added(key, 1)),
        Name::Decr => plain(added(key, -1)),
        Name::IncrBy => plain(added(key, request.integer(2)?)),
        Name::DecrBy => match request.integer(2)?.checked_neg() {
            Some(delta) => plain(added(key, delta)),
            None => Err("ERR decrement would overflow".into()),
        },
        Name::IncrByFloat => plain(Command::IncrementFloat { key, delta: arguments[2] }),
        _ => request.lcs(),
    }
}

fn stored<'a>(key: &'a [u8], value: &'a [u8]) -> Set<'a> {
    Set {
        key,
        value,
        flags: 0,
        condition: Condition::Always,
        expires: Expires::Never,
        return_old: false,
        track_access: false,
    }
}

fn added(key: &[u8], delta: i64) -> Command<'_> {
    Command::Increment(Increment {
        key,
        delta: Delta::Signed(delta),
        initial: Some((Initial::Zero, Expires::Never)),
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    })
}

impl<'a> Request<'a> {
    #[inline]
    pub(super) fn set(&self) -> Built<'a> {
        let mut set = stored(self.arguments[1], self.arguments[2]);
        if self.arguments.len() > 3 {
            self.set_options(&mut set)?;
        }
        Ok((Command::Set(set), ReplyFormat::Plain))
    }

    fn set_options(&self, set: &mut Set<'a>) -> Result<(), Failure> {
        let mut expiry = ExpiryOption::default();
        let mut at = 3;
        while let Some(option) = self.arguments.get(at) {
            let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
            if word(b"nx") && set.condition != Condition::IfPresent {
                set.condition = Condition::IfAbsent;
            } else if word(b"xx") && set.condition != Condition::IfAbsent {
                set.condition = Condition::IfPresent;
            } else if word(b"get") {
                set.return_old = true;
            } else if word(b"keepttl") && expiry.unit.is_none() {
                expiry.other = true;
            } else {
                at = expiry.take(self, at)?;
            }
            at += 1;
        }
        set.expires = match expiry.unit {
            Some((unit, at)) => self.expiry(unit, at)?,
            None if expiry.other => Expires::Keep,
            None => Expires::Never,
        };
        Ok(())
    }

    fn get_ex(&self) -> Built<'a> {
        let mut expiry = ExpiryOption::default();
        let mut at = 2;
        while let Some(option) = self.arguments.get(at) {
            if option.eq_ignore_ascii_case(b"persist") && expiry.unit.is_none() {
                expiry.other = true;
            } else {
                at = expiry.take(self, at)?;
            }
            at += 1;
        }
        let key = self.arguments[1];
        let command = match expiry.unit {
            Some((unit, at)) => match self.expiry(unit, at) {
                Ok(expires) => Command::GetAndExpire { key, expires },
                // Only a key that is there has an expiry that can be wrong.
                Err(failure) => {
                    let integer = failure != NOT_AN_INTEGER;
                    return Ok((Command::Get { key }, ReplyFormat::GetExFailure { integer }));
                }
            },
            None if expiry.other => Command::GetAndExpire { key, expires: Expires::Never },
            None => Command::Get { key },
        };
        Ok((command, ReplyFormat::Plain))
    }

    fn set_range(&self) -> Built<'a> {
        let (key, bytes) = (self.arguments[1], self.arguments[3]);
        let Ok(offset) = u64::try_from(self.integer(2)?) else {
            return Err("ERR offset is out of range".into());
        };
        let command = match bytes {
            [] => Command::Length { key },
            bytes => Command::SetRange { key, offset, bytes },
        };
        Ok((command, ReplyFormat::Plain))
    }

    fn lcs(&self) -> Built<'a> {
        let (mut length, mut spans, mut with_lengths, mut length_min) = (false, false, false, 0);
        let mut at = 3;
        while let Some(option) = self.arguments.get(at) {
            let word = |known: &[u8]| option.eq_ignore_ascii_case(known);
            if word(b"len") {
                length = true;
            } else if word(b"idx") {
                spans = true;
            } else if word(b"withmatchlen") {
                with_lengths = true;
            } else if word(b"minmatchlen") && at + 1 < self.arguments.len() {
                length_min = usize::try_from(self.integer(at + 1)?).unwrap_or(0);
                at += 1;
            } else {
                return Err(SYNTAX);
            }
            at += 1;
        }
        let want = match (length, spans) {
            (true, true) => {
                let text = "ERR If you want both the length and indexes, please just use IDX.";
                return Err(text.into());
            }
            (true, false) => LcsWant::Length,
            (false, true) => LcsWant::Spans { length_min, with_lengths },
            (false, false) => LcsWant::Text,
        };
        let keys = [self.arguments[1], self.arguments[2]];
        Ok((Command::Lcs { keys, want }, ReplyFormat::Plain))
    }

    fn expires_in(&self, at: usize, seconds: bool) -> Result<Expires, Failure> {
        self.expiry(if seconds { Unit::SECONDS } else { Unit::MILLISECONDS }, at)
    }

    /// An expiry out of an argument, which must be a positive number.
    fn expiry(&self, unit: Unit, at: usize) -> Result<Expires, Failure> {
        let number = number::integer(self.arguments[at]).ok_or(NOT_AN_INTEGER)?;
        let at_ms = self.moment(unit, number).filter(|_| number > 0);
        at_ms.map(Expires::At).ok_or_else(|| self.invalid_expiry())
    }

    /// Milliseconds since the Unix epoch, 0 for what was before; `None` beyond 63 bits.
    pub(super) fn moment(&self, unit: Unit, number: i64) -> Option<u64> {
        let ms = if unit.seconds { number.checked_mul(1000)? } else { number };
        let base = if unit.absolute { 0 } else { i64::try_from(self.now_ms).ok()? };
        Some(u64::try_from(ms.checked_add(base)?).unwrap_or(0))
    }

    pub(super) fn invalid_expiry(&self) -> Failure {
        format!("ERR invalid expire time in '{}' command", self.name.spec().name).into()
    }
}

/// The one option that SET and GETEX take about the expiry. It may be repeated; the last one
/// counts.
#[derive(Default)]
struct ExpiryOption {
    /// A moment, and the position of its argument.
    unit: Option<(Unit, usize)>,
    /// KEEPTTL or PERSIST.
    other: bool,
}

impl ExpiryOption {
    /// Takes EX, PX, EXAT or PXAT at a position; returns that of its argument.
    fn take(&mut self, request: &Request<'_>, at: usize) -> Result<usize, Failure> {
        let unit = Unit::of(request.arguments[at]).ok_or(SYNTAX)?;
        let mixed = self.other || self.unit.is_some_and(|(known, _)| known != unit);
        if mixed || at + 1 >= request.arguments.len() {
            return Err(SYNTAX);
        }
        self.unit = Some((unit, at + 1));
        Ok(at + 1)
    }
}

/// How a moment is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) seconds: bool,
    pub(super) absolute: bool,
}

impl Unit {
    pub(super) const SECONDS: Unit = Unit { seconds: true, absolute: false };
    pub(super) const MILLISECONDS: Unit = Unit { seconds: false, absolute: false };
    pub(super) const AT_SECONDS: Unit = Unit { seconds: true, absolute: true };
    pub(super) const AT_MILLISECONDS: Unit = Unit { seconds: false, absolute: true };

    fn of(option: &[u8]) -> Option<Unit> {
        const OPTIONS: [(&[u8], Unit); 4] = [
            (b"ex", Unit::SECONDS),
            (b"px", Unit::MILLISECONDS),
            (b"exat", Unit::AT_SECONDS),
            (b"pxat", Unit::AT_MILLISECONDS),
        ];
        let found = OPTIONS.iter().find(|(word, _)| option.eq_ignore_ascii_case(word));
        found.map(|(_, unit)| *unit)
    }
}
