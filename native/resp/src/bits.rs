//! Bits of values: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP, BITFIELD.

use super::encoder::Failure;
use super::number;
use super::reply_format::ReplyFormat;
use super::request::{Built, Request, SYNTAX, plain};
use todana_command::{BitOperator, BitsCommand, Command, Fields, NotFields, Span, Unit};

/// The operators of BITOP, and the least number of sources of each.
const OPERATORS: [(&str, BitOperator, usize); 8] = [
    ("and", BitOperator::And, 1),
    ("or", BitOperator::Or, 1),
    ("xor", BitOperator::Xor, 1),
    ("not", BitOperator::Not, 1),
    ("diff", BitOperator::Diff, 2),
    ("diff1", BitOperator::Diff1, 2),
    ("andor", BitOperator::AndOr, 2),
    ("one", BitOperator::One, 1),
];

/// SETBIT.
pub(super) fn set<'a>(request: &Request<'a>) -> Built<'a> {
    let offset = request.bit_offset()?;
    let bit = match number::integer(request.arguments[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    plain(Command::Bits(BitsCommand::SetBit { key: request.arguments[1], offset, bit }))
}

/// GETBIT.
pub(super) fn get<'a>(request: &Request<'a>) -> Built<'a> {
    plain(Command::Bits(BitsCommand::GetBit {
        key: request.arguments[1],
        offset: request.bit_offset()?,
    }))
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
    plain(Command::Bits(BitsCommand::BitCount { key: request.arguments[1], span }))
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
    plain(Command::Bits(BitsCommand::BitPosition {
        key: request.arguments[1],
        bit,
        start,
        end,
        unit,
    }))
}

/// BITOP.
pub(super) fn operation<'a>(request: &Request<'a>) -> Built<'a> {
    let word = request.arguments[1];
    let known = |(name, ..): &&(&str, _, _)| word.eq_ignore_ascii_case(name.as_bytes());
    let (name, operator, sources) = OPERATORS.iter().find(known).copied().ok_or(SYNTAX)?;
    let keys = &request.arguments[2..];
    if operator == BitOperator::Not && keys.len() != 2 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    if keys.len() - 1 < sources {
        let name = name.to_ascii_uppercase();
        let text = format!("ERR BITOP {name} must be called with at least two source keys.");
        return Err(text.into());
    }
    plain(Command::Bits(BitsCommand::BitOperation { operator, keys }))
}

/// BITFIELD, and BITFIELD_RO, which only gets.
pub(super) fn fields<'a>(request: &Request<'a>, read_only: bool) -> Built<'a> {
    let words = &request.arguments[2..];
    let fields = Fields::of(words, request.value_bytes_max);
    let fields = fields.and_then(|fields| match has_capital_type(words) {
        true => Err(NotFields::Type),
        false => Ok(fields),
    });
    let writes = fields.map_err(|error| Failure::from(format!("ERR {error}")))?.write();
    if writes && read_only {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let key = request.arguments[1];
    Ok((Command::Bits(BitsCommand::BitFields { key, words, writes }), ReplyFormat::Fields))
}

/// Whether a type of valid words has a capital letter. Redis has none. A log may have one from
/// earlier versions, which accepted it, so the command itself still does.
fn has_capital_type(words: &[&[u8]]) -> bool {
    let mut rest = words;
    while let Some(word) = rest.first() {
        let skipped = match word.to_ascii_lowercase().as_slice() {
            b"overflow" => 2,
            b"get" => 3,
            _ => 4,
        };
        let has_type = skipped > 2;
        let capital = |kind: &&[u8]| kind.first().is_some_and(u8::is_ascii_uppercase);
        if has_type && rest.get(1).is_some_and(capital) {
            return true;
        }
        rest = rest.get(skipped..).unwrap_or_default();
    }
    false
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
