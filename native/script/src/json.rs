//! The library `cjson`. Depth is bounded, and nothing here recurses.

mod decode;

use crate::library::{
    Answer, Arguments, Entries, Failure, Keys, VALUE_STEPS, add, entries, keys, one, spend, text,
};
use crate::lua::{Lua, Push, Result, Table, Value};
use crate::number::general;
use crate::settings::{DEPTH_MAX, Settings};
use decode::decode;
use std::cell::Cell;

static FUNCTIONS: Entries = entries! {
    "encode": |lua, arguments| {
        expect_one(arguments)?;
        let encoded = encode(lua, &lua.settings, arguments.get(0))?;
        text(lua, encoded)
    },
    "decode": |lua, arguments| {
        expect_one(arguments)?;
        let text = arguments.bytes(0)?;
        spend(lua, text.len() / 2)?;
        one(decode(lua, &text, lua.settings.decode_depth_max.get())?)
    },
    "encode_sparse_array": |lua, arguments| {
        let settings = &lua.settings;
        if arguments.len() > 0 {
            settings
                .sparse_convert
                .set(!matches!(arguments.get(0), Value::Nil | Value::Boolean(false)));
        }
        let whole = |at: usize, cell: &Cell<u32>| {
            if arguments.len() > at {
                cell.set(setting(arguments, at, 0, i32::MAX as usize)? as u32);
            }
            Ok::<(), Failure>(())
        };
        whole(1, &settings.sparse_ratio)?;
        whole(2, &settings.sparse_safe)?;
        Ok(vec![
            Value::Boolean(settings.sparse_convert.get()),
            Value::Integer(settings.sparse_ratio.get().into()),
            Value::Integer(settings.sparse_safe.get().into()),
        ])
    },
    "encode_max_depth": |lua, arguments| {
        depth(&lua.settings.encode_depth_max, arguments)
    },
    "decode_max_depth": |lua, arguments| {
        depth(&lua.settings.decode_depth_max, arguments)
    },
    "encode_number_precision": |lua, arguments| {
        let settings = &lua.settings;
        if arguments.len() > 0 {
            settings.precision.set(setting(arguments, 0, 1, 16)?);
        }
        one(whole(settings.precision.get()))
    },
    "encode_invalid_numbers": |lua, arguments| {
        let settings = &lua.settings;
        if arguments.len() > 0 {
            let invalid = !matches!(arguments.get(0), Value::Nil | Value::Boolean(false));
            settings.invalid_numbers.set(invalid);
        }
        one(Value::Boolean(settings.invalid_numbers.get()))
    },
    "decode_invalid_numbers": |_, _| one(Value::Boolean(false)),
    "encode_keep_buffer": |_, _| one(Value::Boolean(true)),
};

pub(crate) fn fill(lua: &Lua, functions: &Table<'_>, values: &Table<'_>) -> Result<()> {
    add(lua, functions, FUNCTIONS)?;
    values.raw_set("null", Value::Null)?;
    values.raw_set("_NAME", "cjson")?;
    values.raw_set("_VERSION", "2.1.0")
}

fn whole<'l>(number: usize) -> Value<'l> {
    Value::Number(number as f64)
}

fn expect_one(arguments: &Arguments<'_>) -> std::result::Result<(), Failure> {
    match arguments.len() {
        1 => Ok(()),
        _ => Err(format!("bad argument #1 to '{}' (expected 1 argument)", arguments.name).into()),
    }
}

fn setting(
    arguments: &Arguments<'_>,
    at: usize,
    least: usize,
    most: usize,
) -> std::result::Result<usize, Failure> {
    let number = arguments.number(at)?;
    match number >= least as f64 && number <= most as f64 {
        true => Ok(number as usize),
        false => {
            let name = arguments.name;
            let text = format!("expected integer between {least} and {most}");
            Err(format!("bad argument #{} to '{name}' ({text})", at + 1).into())
        }
    }
}

fn depth<'l>(cell: &Cell<usize>, arguments: &Arguments<'_>) -> Answer<'l> {
    if arguments.len() > 0 {
        cell.set(setting(arguments, 0, 1, i32::MAX as usize)?.min(DEPTH_MAX));
    }
    one(whole(cell.get()))
}

/// A table that is being encoded.
enum Open<'a, 'l> {
    Array { table: Held<'a, 'l>, next: usize, len: usize },
    Object { table: Held<'a, 'l>, key: Value<'l> },
}

/// The value to be encoded, or one in it.
enum Held<'a, 'l> {
    Whole(&'a Table<'l>),
    Part(Table<'l>),
}

impl<'l> std::ops::Deref for Held<'_, 'l> {
    type Target = Table<'l>;

    fn deref(&self) -> &Table<'l> {
        match self {
            Held::Whole(table) => table,
            Held::Part(table) => table,
        }
    }
}

fn encode<'l>(
    lua: &'l Lua,
    settings: &Settings,
    value: &Value<'l>,
) -> std::result::Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let mut open: Vec<Open<'_, 'l>> = Vec::new();
    let mut counted = 0;
    let function = lua.next()?;
    match value {
        Value::Table(table) => put_table(lua, settings, Held::Whole(table), &mut out, &mut open)?,
        scalar => put(lua, settings, scalar, &mut out)?,
    }
    while let Some(last) = open.last_mut() {
        // The text is charged as it grows, so that a table that contains itself ends.
        spend(lua, VALUE_STEPS + (out.len() - counted) / 4)?;
        counted = out.len();
        let value = match last {
            Open::Array { next, len, .. } if *next > *len => {
                out.push(b']');
                open.pop();
                continue;
            }
            Open::Array { table, next, .. } => {
                if *next > 1 {
                    out.push(b',');
                }
                let value = table.raw_get(*next)?;
                *next += 1;
                value
            }
            Open::Object { table, key } => {
                let is_first = key.is_nil();
                let push = |lua: &Lua| {
                    (&**table).push(lua)?;
                    (&*key).push(lua)
                };
                let mut results = function.call(2, push)?.into_iter();
                let mut result = || results.next().unwrap_or(Value::Nil);
                let (next, value) = (result(), result());
                if next.is_nil() {
                    out.push(b'}');
                    open.pop();
                    continue;
                }
                if !is_first {
                    out.push(b',');
                }
                put_key(settings, &next, &mut out)?;
                *key = next;
                value
            }
        };
        match value {
            Value::Table(table) => {
                put_table(lua, settings, Held::Part(table), &mut out, &mut open)?;
            }
            scalar => put(lua, settings, &scalar, &mut out)?,
        }
    }
    Ok(out)
}

fn put(
    lua: &Lua,
    settings: &Settings,
    value: &Value<'_>,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Failure> {
    match value {
        Value::Nil | Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(number) => put_number(settings, *number as f64, out)?,
        Value::Number(number) => put_number(settings, *number, out)?,
        Value::String(text) => {
            let text = text.as_bytes();
            spend(lua, text.len() / 4)?;
            put_text(text, out);
        }
        other => {
            let name = other.type_name();
            return Err(format!("Cannot serialise {name}: type not supported").into());
        }
    }
    Ok(())
}

fn put_table<'a, 'l>(
    lua: &'l Lua,
    settings: &Settings,
    table: Held<'a, 'l>,
    out: &mut Vec<u8>,
    open: &mut Vec<Open<'a, 'l>>,
) -> std::result::Result<(), Failure> {
    if open.len() >= settings.encode_depth_max.get() {
        let depth = open.len() + 1;
        return Err(format!("Cannot serialise, excessive depth ({depth})").into());
    }
    let Keys { entries, largest } = keys(lua, &table)?;
    match largest {
        Some(len) if !is_sparse(settings, len, entries) => {
            out.push(b'[');
            open.push(Open::Array { table, next: 1, len });
        }
        Some(_) if !settings.sparse_convert.get() => {
            return Err("Cannot serialise table: excessively sparse array".into());
        }
        _ => {
            out.push(b'{');
            open.push(Open::Object { table, key: Value::Nil });
        }
    }
    Ok(())
}

fn is_sparse(settings: &Settings, len: usize, items: usize) -> bool {
    let ratio = settings.sparse_ratio.get() as usize;
    ratio > 0 && len > items.saturating_mul(ratio) && len > settings.sparse_safe.get() as usize
}

fn put_number(
    settings: &Settings,
    number: f64,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Failure> {
    if !number.is_finite() && !settings.invalid_numbers.get() {
        return Err("Cannot serialise number: must not be NaN or Inf".into());
    }
    out.extend_from_slice(general(number, settings.precision.get()).as_bytes());
    Ok(())
}

fn put_key(
    settings: &Settings,
    key: &Value<'_>,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Failure> {
    match key {
        Value::String(text) => put_text(text.as_bytes(), out),
        Value::Integer(_) | Value::Number(_) => {
            let number = match key {
                Value::Integer(number) => *number as f64,
                Value::Number(number) => *number,
                _ => 0.0,
            };
            out.push(b'"');
            put_number(settings, number, out)?;
            out.push(b'"');
        }
        _ => return Err("Cannot serialise table: table key must be a number or string".into()),
    }
    out.push(b':');
    Ok(())
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        let escaped = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            8 => b'b',
            9 => b't',
            10 => b'n',
            12 => b'f',
            13 => b'r',
            0..32 | 127 => {
                let digit =
                    |four: u8| char::from_digit(four.into(), 16).map_or(b'0', |it| it as u8);
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
    out.push(b'"');
}
