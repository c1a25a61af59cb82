//! Replies of any shape, which scripts make.

use crate::wire::{Input, Malformed, Put, Take};

/// Deepest nesting that is decoded.
const DEPTH_MAX: usize = 128;

/// A reply of any shape. Protocols that lack a shape use the nearest one.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A fraction.
    Double(f64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A line that reports success, such as `OK`.
    Status(Vec<u8>),
    /// A line that reports a failure; its first word is a code.
    Error(Vec<u8>),
    /// A whole number as text.
    BigNumber(Vec<u8>),
    /// Text with three letters that name its format, such as `txt`.
    Verbatim([u8; 3], Vec<u8>),
    /// Values in order.
    List(Vec<Value>),
    /// Values without an order.
    Set(Vec<Value>),
    /// Keys and values.
    Map(Vec<(Value, Value)>),
}

impl Put for Value {
    fn put(&self, out: &mut Vec<u8>) {
        let bytes = |number: u8, bytes: &[u8], out: &mut Vec<u8>| {
            out.push(number);
            bytes.put(out);
        };
        let list = |number: u8, values: &[Value], out: &mut Vec<u8>| {
            out.push(number);
            values.len().put(out);
            values.iter().for_each(|value| value.put(out));
        };
        match self {
            Value::Null => out.push(0),
            Value::Boolean(false) => out.push(1),
            Value::Boolean(true) => out.push(2),
            Value::Integer(number) => {
                out.push(3);
                number.put(out);
            }
            Value::Double(number) => {
                out.push(4);
                number.to_bits().put(out);
            }
            Value::Bytes(text) => bytes(5, text, out),
            Value::Status(text) => bytes(6, text, out),
            Value::Error(text) => bytes(7, text, out),
            Value::BigNumber(text) => bytes(8, text, out),
            Value::Verbatim(format, text) => {
                out.push(12);
                out.extend_from_slice(format);
                text.as_slice().put(out);
            }
            Value::List(values) => list(9, values, out),
            Value::Set(values) => list(10, values, out),
            Value::Map(pairs) => {
                out.push(11);
                pairs.len().put(out);
                for (key, value) in pairs {
                    key.put(out);
                    value.put(out);
                }
            }
        }
    }
}

impl<'b: 's, 's> Take<'b, 's> for Value {
    fn take(input: &mut Input<'b, 's>) -> Result<Value, Malformed> {
        take(input, 0)
    }
}

fn take(input: &mut Input<'_, '_>, depth: usize) -> Result<Value, Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed);
    }
    Ok(match input.byte()? {
        0 => Value::Null,
        1 => Value::Boolean(false),
        2 => Value::Boolean(true),
        3 => Value::Integer(i64::take(input)?),
        4 => Value::Double(f64::from_bits(u64::take(input)?)),
        5 => Value::Bytes(input.bytes()?.to_vec()),
        6 => Value::Status(input.bytes()?.to_vec()),
        7 => Value::Error(input.bytes()?.to_vec()),
        8 => Value::BigNumber(input.bytes()?.to_vec()),
        9 => Value::List(list(input, depth)?),
        10 => Value::Set(list(input, depth)?),
        11 => {
            let mut pairs = Vec::new();
            for _ in 0..usize::take(input)? {
                pairs.push((take(input, depth + 1)?, take(input, depth + 1)?));
            }
            Value::Map(pairs)
        }
        12 => {
            let format = [input.byte()?, input.byte()?, input.byte()?];
            Value::Verbatim(format, input.bytes()?.to_vec())
        }
        _ => return Err(Malformed),
    })
}

fn list(input: &mut Input<'_, '_>, depth: usize) -> Result<Vec<Value>, Malformed> {
    let mut values = Vec::new();
    for _ in 0..usize::take(input)? {
        values.push(take(input, depth + 1)?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_survives_a_tape() {
        let text = || b"x".to_vec();
        let value = Value::List(vec![
            Value::Null,
            Value::Boolean(true),
            Value::Boolean(false),
            Value::Integer(-5),
            Value::Double(1.5),
            Value::Bytes(text()),
            Value::Status(text()),
            Value::Error(text()),
            Value::BigNumber(text()),
            Value::Verbatim(*b"txt", text()),
            Value::Set(vec![Value::Null]),
            Value::Map(vec![(Value::Null, Value::List(vec![]))]),
        ]);
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut input = Input { rest: &bytes, scratch: None };
        assert_eq!(Value::take(&mut input), Ok(value));
        assert!(input.rest.is_empty());
        for len in 0..bytes.len() {
            let mut input = Input { rest: &bytes[..len], scratch: None };
            assert!(Value::take(&mut input).is_err());
        }
        let deep = [9, 1].repeat(1_000);
        assert!(Value::take(&mut Input { rest: &deep, scratch: None }).is_err());
    }
}
