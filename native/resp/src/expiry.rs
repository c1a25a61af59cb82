//! Times in arguments: seconds or milliseconds, from now or since the Unix epoch.

use super::encoder::Failure;
use super::number;
use super::request::{NOT_AN_INTEGER, Request, SYNTAX};
use todana_command::Expires;

impl Request<'_> {
    /// The expiry in an argument, which must be a positive number.
    #[inline(always)]
    pub(super) fn expiry(&self, unit: TimeUnit, at: usize) -> Result<Expires, Failure> {
        let number = number::integer(self.arguments[at]).ok_or(NOT_AN_INTEGER)?;
        if number > 0 { self.expires(unit, number) } else { Err(self.invalid_expiry()) }
    }

    /// The expiry that a number sets, which may be in the past. A moment beyond 63 bits is invalid.
    #[inline(always)]
    pub(super) fn expires(&self, unit: TimeUnit, number: i64) -> Result<Expires, Failure> {
        let ms = if unit.seconds { number.checked_mul(1000) } else { Some(number) };
        let base = if unit.absolute { Some(0) } else { i64::try_from(self.now_ms).ok() };
        let at_ms = ms.zip(base).and_then(|(ms, base)| ms.checked_add(base));
        let (Some(ms), Some(_)) = (ms, at_ms) else { return Err(self.invalid_expiry()) };
        Ok(match u64::try_from(ms) {
            Ok(ms) if !unit.absolute => Expires::After(ms),
            Ok(at_ms) => Expires::At(at_ms),
            // Before now by every clock: that of the log may be behind this node's.
            Err(_) => Expires::At(0),
        })
    }

    #[cold]
    pub(super) fn invalid_expiry(&self) -> Failure {
        format!("ERR invalid expire time in '{}' command", self.name.spec().name).into()
    }
}

/// The option of SET and GETEX for the expiry. It may be repeated, and the last one counts.
#[derive(Default)]
pub(super) struct ExpiryOption {
    /// A time, and the position of its argument.
    pub(super) unit: Option<(TimeUnit, usize)>,
    /// KEEPTTL or PERSIST.
    pub(super) other: bool,
}

impl ExpiryOption {
    /// Parses EX, PX, EXAT or PXAT at a position; returns the position of its argument.
    pub(super) fn take(&mut self, request: &Request<'_>, at: usize) -> Result<usize, Failure> {
        let unit = TimeUnit::of(request.arguments[at]).ok_or(SYNTAX)?;
        let mixed = self.other || self.unit.is_some_and(|(known, _)| known != unit);
        if mixed || at + 1 >= request.arguments.len() {
            return Err(SYNTAX);
        }
        self.unit = Some((unit, at + 1));
        Ok(at + 1)
    }
}

/// The unit of a time, and whether it is absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeUnit {
    pub(super) seconds: bool,
    pub(super) absolute: bool,
}

impl TimeUnit {
    pub(super) const SECONDS: TimeUnit = TimeUnit { seconds: true, absolute: false };
    pub(super) const MILLISECONDS: TimeUnit = TimeUnit { seconds: false, absolute: false };
    pub(super) const AT_SECONDS: TimeUnit = TimeUnit { seconds: true, absolute: true };
    pub(super) const AT_MILLISECONDS: TimeUnit = TimeUnit { seconds: false, absolute: true };

    fn of(option: &[u8]) -> Option<TimeUnit> {
        const OPTIONS: [(&[u8], TimeUnit); 4] = [
            (b"ex", TimeUnit::SECONDS),
            (b"px", TimeUnit::MILLISECONDS),
            (b"exat", TimeUnit::AT_SECONDS),
            (b"pxat", TimeUnit::AT_MILLISECONDS),
        ];
        let found = OPTIONS.iter().find(|(word, _)| option.eq_ignore_ascii_case(word));
        found.map(|(_, unit)| *unit)
    }
}
