//! Bytes of MessagePack as values of Lua.

use crate::library::{Failure, VALUE_STEPS, one_more, spend};
use crate::lua::{Lua, Value};

/// Tables nested deeper are packed as nil, and refused when they are unpacked.
pub(super) const DEPTH_MAX: usize = 16;

const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

type Unpacked<T> = Result<T, Failure>;

/// Unpacks values from `offset`, and returns where they end.
pub(super) fn unpack<'l>(
    lua: &'l Lua,
    bytes: &[u8],
    offset: usize,
    limit: usize,
) -> Unpacked<(Vec<Value<'l>>, usize)> {
    let mut input = Input { lua, bytes, at: offset };
    let mut values = Vec::new();
    while input.at < bytes.len() && values.len() < limit {
        one_more(values.len())?;
        values.push(input.value(0)?);
    }
    Ok((values, input.at))
}

struct Input<'l, 'a> {
    lua: &'l Lua,
    bytes: &'a [u8],
    at: usize,
}

impl<'l, 'a> Input<'l, 'a> {
    fn take(&mut self, len: usize) -> Unpacked<&'a [u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(Failure::from(MISSING))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// An unsigned number of `len` bytes.
    fn number(&mut self, len: usize) -> Unpacked<u64> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> Unpacked<Value<'l>> {
        spend(self.lua, VALUE_STEPS)?;
        let byte = self.take(1)?[0];
        Ok(match byte {
            0..=0x7f => Value::Integer(i64::from(byte)),
            0xe0..=0xff => Value::Integer(i64::from(byte.cast_signed())),
            0x80..=0x8f => self.map(usize::from(byte & 15), depth)?,
            0x90..=0x9f => self.array(usize::from(byte & 15), depth)?,
            0xa0..=0xbf => self.text(usize::from(byte & 31))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => {
                let bits = self.number(4)? as u32;
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            0xcb => Value::Number(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Value::Number(self.number(1 << (byte - 0xcc))? as f64),
            0xd0..=0xd3 => {
                let len = 1 << (byte - 0xd0);
                let shift = 64 - 8 * len as u32;
                let number = (self.number(len)? << shift).cast_signed() >> shift;
                Value::Number(number as f64)
            }
            0xc4 | 0xd9 => self.long_text(1)?,
            0xc5 | 0xda => self.long_text(2)?,
            0xc6 | 0xdb => self.long_text(4)?,
            0xdc | 0xdd => {
                let len = self.number(2 << (byte - 0xdc))?;
                self.array(len as usize, depth)?
            }
            0xde | 0xdf => {
                let len = self.number(2 << (byte - 0xde))?;
                self.map(len as usize, depth)?
            }
            _ => return Err(BAD.into()),
        })
    }

    fn long_text(&mut self, len: usize) -> Unpacked<Value<'l>> {
        let len = self.number(len)?;
        self.text(len as usize)
    }

    fn text(&mut self, len: usize) -> Unpacked<Value<'l>> {
        let text = self.take(len)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> Unpacked<Value<'l>> {
        let depth = self.enter(len, depth)?;
        let table = self.lua.create_table()?;
        for at in 1..=len {
            let value = self.value(depth)?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> Unpacked<Value<'l>> {
        let depth = self.enter(len.saturating_mul(2), depth)?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value(depth)?, self.value(depth)?);
            match key {
                Value::Nil => return Err(BAD.into()),
                Value::Number(number) if number.is_nan() => return Err(BAD.into()),
                _ => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }

    /// A table with this number of values, each of which takes a byte at least.
    fn enter(&self, values: usize, depth: usize) -> Unpacked<usize> {
        if values > self.bytes.len() - self.at {
            return Err(MISSING.into());
        }
        if depth >= 2 * DEPTH_MAX {
            return Err(BAD.into());
        }
        Ok(depth + 1)
    }
}
