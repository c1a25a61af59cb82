//! Bits of a value: SETBIT, GETBIT, BITCOUNT, BITPOS.

use super::encoder::Failure;
use super::number;
use super::request::{Built, Request, SYNTAX, plain};
use todana_command::{Command, Span, Unit};

/// SETBIT.
pub(super) fn set<'a>(request: &Request<'a>) -> Built<'a> {
    let offset = request.bit_offset()?;
    let bit = match number::integer(request.arguments[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    plain(Command::SetBit { key: request.arguments[1], offset, bit })
}

/// GETBIT.
pub(super) fn get<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::GetBit { key: request.arguments[1], offset: request.bit_offset()? })
}

/// BITCOUNT.
pub(super) fn count<'a>(request: &Request<'a>) -> Built<'a> {
    let span = match request.arguments.len() {
        2 => None,
        4 | 5 => {
            let (start, end) = (request.integer(2)?, request.integer(3)?);
            Some(Span { start, end, unit: request.unit(4)? })
        }
        _ => return Err(SYNTAX),
    };
    plain(Command::BitCount { key: request.arguments[1], span })
}

/// BITPOS.
pub(super) fn position<'a>(request: &Request<'a>) -> Built<'a> {
    let bit = match request.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    if request.arguments.len() > 6 {
        return Err(SYNTAX);
    }
    let given = |at| at < request.arguments.len();
    let start = given(3).then(|| request.integer(3)).transpose()?;
    let unit = request.unit(5)?;
    let end = given(4).then(|| request.integer(4)).transpose()?;
    plain(Command::BitPosition { key: request.arguments[1], bit, start, end, unit })
}

impl Request<'_> {
    /// A bit offset within the longest value.
    fn bit_offset(&self) -> Result<u64, Failure> {
        let offset = number::integer(self.arguments[2]).and_then(|it| u64::try_from(it).ok());
        let within = offset.filter(|offset| offset >> 3 < self.value_bytes_max as u64);
        within.ok_or_else(|| "ERR bit offset is not an integer or out of range".into())
    }

    /// BYTE or BIT, if it is the last argument.
    fn unit(&self, at: usize) -> Result<Unit, Failure> {
        match self.arguments.get(at) {
            None => Ok(Unit::Byte),
            Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(Unit::Byte),
            Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(Unit::Bit),
            Some(_) => Err(SYNTAX),
        }
    }
}
