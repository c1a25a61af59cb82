//! The library `struct`: numbers and strings as bytes, by a format.
//!
//! `>` and `<` set the order of bytes, `!n` the alignment, `=` and `@` the defaults. `b B h H i I l
//! L T` are integers (`i` and `I` with an optional number of bytes), `f d` fractions, `s` a string
//! that ends with a zero, `cN` N bytes (`c0`: as many as the integer before says), `x` a zero.

use crate::library::{
    Answer, Arguments, Entries, Failure, VALUE_STEPS, add, entries, one, one_more, spend,
    text as one_text,
};
use crate::lua::{Lua, Result, Table, Value};

/// Longest integer, in bytes.
const INTEGER_BYTES_MAX: usize = 32;

/// The alignment of `!` without a number.
const ALIGNMENT: usize = 8;

type Done<T> = std::result::Result<T, Failure>;

static FUNCTIONS: Entries = entries! {
    "pack": pack,
    "unpack": unpack,
    "size": size,
};

pub(crate) fn fill(lua: &Lua, functions: &Table<'_>) -> Result<()> {
    add(lua, functions, FUNCTIONS)
}

/// A field of a format.
enum Field {
    Integer { bytes: usize, signed: bool },
    Float,
    Double,
    Text,
    Bytes(usize),
    Zero,
}

/// The fields of a format that are left, and the settings that it has made.
struct Format<'a> {
    text: &'a [u8],
    little: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &Lua, text: &'a [u8]) -> Done<Format<'a>> {
        spend(lua, text.len())?;
        Ok(Format { text, little: true, alignment: 1 })
    }

    /// A number in the format, if there is one.
    fn number(&mut self) -> Done<Option<usize>> {
        let len = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return Ok(None);
        }
        let (digits, rest) = self.text.split_at(len);
        self.text = rest;
        let number = digits.iter().try_fold(0_u32, |number, digit| {
            number.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
        });
        let number = number.filter(|number| *number <= i32::MAX as u32);
        number.map(|number| Some(number as usize)).ok_or_else(|| "integral size overflow".into())
    }

    fn integer_bytes(&mut self, default: usize) -> Done<usize> {
        let bytes = self.number()?.unwrap_or(default);
        match bytes {
            0 => Err("integral size 0 is not valid".into()),
            1..=INTEGER_BYTES_MAX => Ok(bytes),
            _ => {
                Err(format!("integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}")
                    .into())
            }
        }
    }

    /// The next field, and its alignment.
    fn next(&mut self) -> Done<Option<(Field, usize)>> {
        loop {
            let Some((&letter, rest)) = self.text.split_first() else { return Ok(None) };
            self.text = rest;
            let integer = |bytes: usize, signed: bool| Field::Integer { bytes, signed };
            let field = match letter {
                b'b' | b'B' => integer(1, letter == b'b'),
                b'h' | b'H' => integer(2, letter == b'h'),
                b'l' | b'L' => integer(8, letter == b'l'),
                b'T' => integer(8, false),
                b'i' | b'I' => integer(self.integer_bytes(4)?, letter == b'i'),
                b'f' => Field::Float,
                b'd' => Field::Double,
                b's' => Field::Text,
                b'x' => Field::Zero,
                b'c' => Field::Bytes(self.number()?.unwrap_or(1)),
                b' ' => continue,
                b'>' | b'<' | b'=' | b'@' => {
                    self.little = letter != b'>';
                    continue;
                }
                b'!' => {
                    let alignment = self.number()?.unwrap_or(ALIGNMENT);
                    if !alignment.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    self.alignment = alignment;
                    continue;
                }
                _ => return Err(format!("invalid format option '{}'", char::from(letter)).into()),
            };
            let size = match field {
                Field::Integer { bytes, .. } => bytes,
                Field::Float => 4,
                Field::Double => 8,
                Field::Text | Field::Bytes(_) | Field::Zero => 1,
            };
            return Ok(Some((field, size.min(self.alignment))));
        }
    }
}

/// Bytes before the next multiple of an alignment, which may be no power of two (`i3`).
fn padding(at: usize, alignment: usize) -> usize {
    match alignment.is_power_of_two() {
        true => at.wrapping_neg() & (alignment - 1),
        false => 0,
    }
}

fn pack<'l>(lua: &'l Lua, arguments: &Arguments<'l>) -> Answer<'l> {
    let text = arguments.bytes(0)?;
    let mut format = Format::new(lua, &text)?;
    let mut out: Vec<u8> = Vec::new();
    let mut at = 1;
    while let Some((field, alignment)) = format.next()? {
        out.resize(out.len() + padding(out.len(), alignment), 0);
        spend(lua, VALUE_STEPS)?;
        match field {
            Field::Integer { bytes, .. } => {
                let number = arguments.number(at)?;
                at += 1;
                // Negative numbers wrap around, and larger ones lose their upper bits.
                let number = match number < 0.0 {
                    true => number as i64 as i128,
                    false => i128::from(number as u64),
                };
                let mut wide = [if number < 0 { 0xff } else { 0 }; INTEGER_BYTES_MAX];
                wide[..8].copy_from_slice(&number.to_le_bytes()[..8]);
                put(&wide[..bytes], format.little, &mut out);
            }
            Field::Float => {
                put(&(arguments.number(at)? as f32).to_le_bytes(), format.little, &mut out);
                at += 1;
            }
            Field::Double => {
                put(&arguments.number(at)?.to_le_bytes(), format.little, &mut out);
                at += 1;
            }
            Field::Text => {
                let text = arguments.bytes(at)?;
                at += 1;
                spend(lua, text.len() / 8)?;
                out.extend_from_slice(&text);
                out.push(0);
            }
            Field::Bytes(len) => {
                let text = arguments.bytes(at)?;
                at += 1;
                let len = if len == 0 { text.len() } else { len };
                let Some(text) = text.get(..len) else {
                    return Err(format!("bad argument #{at} to 'pack' (string too short)").into());
                };
                spend(lua, len / 8)?;
                out.extend_from_slice(text);
            }
            Field::Zero => out.push(0),
        }
    }
    one_text(lua, out)
}

fn put(little_endian: &[u8], little: bool, out: &mut Vec<u8>) {
    match little {
        true => out.extend_from_slice(little_endian),
        false => out.extend(little_endian.iter().rev()),
    }
}

fn unpack<'l>(lua: &'l Lua, arguments: &Arguments<'l>) -> Answer<'l> {
    let (text, data) = (arguments.bytes(0)?, arguments.bytes(1)?);
    let offset = if arguments.len() > 2 { arguments.number(2)? } else { 1.0 };
    if offset < 1.0 {
        return Err("offset must be 1 or greater".into());
    }
    let mut format = Format::new(lua, &text)?;
    let mut at = offset.min(usize::MAX as f64 / 2.0) as usize - 1;
    let mut values: Vec<Value<'l>> = Vec::new();
    spend(lua, data.len() / 16)?;
    while let Some((field, alignment)) = format.next()? {
        spend(lua, VALUE_STEPS)?;
        one_more(values.len())?;
        at = at.saturating_add(padding(at, alignment));
        let short = || Failure::from("bad argument #2 to 'unpack' (data string too short)");
        let take = |at: usize, len: usize| {
            at.checked_add(len).and_then(|end| data.get(at..end)).ok_or_else(short)
        };
        match field {
            Field::Integer { bytes, signed } => {
                let field = take(at, bytes)?;
                at += bytes;
                values.push(Value::Number(integer(field, signed, format.little)));
            }
            Field::Float => {
                let bits = field_of::<4>(take(at, 4)?, format.little);
                values.push(Value::Number(f64::from(f32::from_le_bytes(bits))));
                at += 4;
            }
            Field::Double => {
                let bits = field_of::<8>(take(at, 8)?, format.little);
                values.push(Value::Number(f64::from_le_bytes(bits)));
                at += 8;
            }
            Field::Text => {
                let rest = take(at, 0).and(data.get(at..).ok_or_else(short))?;
                let Some(len) = rest.iter().position(|&byte| byte == 0) else {
                    return Err("unfinished string in data".into());
                };
                values.push(Value::String(lua.create_string(&rest[..len])?));
                at += len + 1;
            }
            Field::Bytes(len) => {
                let len = match len {
                    0 => match values.pop() {
                        Some(Value::Number(number)) if number >= 0.0 => number as usize,
                        _ => return Err("format 'c0' needs a previous size".into()),
                    },
                    len => len,
                };
                values.push(Value::String(lua.create_string(take(at, len)?)?));
                at += len;
            }
            Field::Zero => at += take(at, 1)?.len(),
        }
    }
    values.push(Value::Integer(at as i64 + 1));
    Ok(values)
}

fn field_of<const LEN: usize>(bytes: &[u8], little: bool) -> [u8; LEN] {
    let mut field: [u8; LEN] = std::array::from_fn(|at| bytes[at]);
    if !little {
        field.reverse();
    }
    field
}

/// The lowest 64 bits of an integer.
fn integer(bytes: &[u8], signed: bool, little: bool) -> f64 {
    let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    let number = match little {
        true => bytes.iter().rev().fold(0, fold),
        false => bytes.iter().fold(0, fold),
    };
    if !signed {
        return number as f64;
    }
    let shift = 64 - 8 * bytes.len().min(8) as u32;
    ((number << shift).cast_signed() >> shift) as f64
}

fn size<'l>(lua: &'l Lua, arguments: &Arguments<'l>) -> Answer<'l> {
    let text = arguments.bytes(0)?;
    let mut format = Format::new(lua, &text)?;
    let mut size = 0_usize;
    while let Some((field, alignment)) = format.next()? {
        spend(lua, 1)?;
        size += padding(size, alignment);
        size += match field {
            Field::Integer { bytes, .. } => bytes,
            Field::Float => 4,
            Field::Double => 8,
            Field::Zero => 1,
            Field::Bytes(len) if len > 0 => len,
            Field::Bytes(_) => return Err("variable-size format in sizeof".into()),
            Field::Text => return Err("variable-length format in sizeof".into()),
        };
    }
    one(Value::Number(size as f64))
}
