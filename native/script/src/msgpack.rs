//! The library `cmsgpack`. Depth is bounded as in Redis.

mod unpack;

use crate::library::{
    Answer, Arguments, Entries, Failure, Keys, VALUE_STEPS, add, entries, keys, spend, text,
};
use crate::lua::{Lua, Result, Table, Value};
use unpack::{DEPTH_MAX, unpack};

static FUNCTIONS: Entries = entries! {
    "pack": |lua, arguments| {
        if arguments.len() == 0 {
            return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
        }
        let mut out = Vec::new();
        for value in &arguments.values {
            pack(lua, value, 0, &mut out)?;
        }
        text(lua, out)
    },
    "unpack": |lua, arguments| {
        let bytes = arguments.bytes(0)?;
        Ok(unpack(lua, &bytes, 0, usize::MAX)?.0)
    },
    "unpack_one": |lua, arguments| limited(lua, arguments, Some(1), 1),
    "unpack_limit": |lua, arguments| limited(lua, arguments, None, 2),
};

pub(crate) fn fill(lua: &Lua, functions: &Table<'_>, values: &Table<'_>) -> Result<()> {
    add(lua, functions, FUNCTIONS)?;
    values.raw_set("_NAME", "cmsgpack")?;
    values.raw_set("_VERSION", "lua-cmsgpack 0.4.0")
}

/// Unpacks at most a number of values from an offset. Returns first where to continue, or -1.
fn limited<'l>(
    lua: &'l Lua,
    arguments: &Arguments<'l>,
    limit: Option<usize>,
    offset_at: usize,
) -> Answer<'l> {
    let bytes = arguments.bytes(0)?;
    let limit = match limit {
        Some(limit) => limit as f64,
        None => arguments.number(1)?,
    };
    let offset = match arguments.len() > offset_at {
        true => arguments.number(offset_at)?,
        false => 0.0,
    };
    if offset < 0.0 || limit < 0.0 {
        let text = format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            bytes.len()
        );
        return Err(text.into());
    }
    if offset > bytes.len() as f64 {
        let text = format!("Start offset {offset} greater than input length {}.", bytes.len());
        return Err(text.into());
    }
    let limit = if limit == 0.0 { usize::MAX } else { limit as usize };
    let (mut values, end) = unpack(lua, &bytes, offset as usize, limit)?;
    let next = if end == bytes.len() { -1 } else { end as i64 };
    values.insert(0, Value::Integer(next));
    Ok(values)
}

fn pack(
    lua: &Lua,
    value: &Value<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Failure> {
    spend(lua, VALUE_STEPS)?;
    match value {
        Value::Boolean(false) => out.push(0xc2),
        Value::Boolean(true) => out.push(0xc3),
        Value::Integer(number) => put_integer(*number, out),
        Value::Number(number) => put_number(*number, out),
        Value::String(text) => {
            let text = text.as_bytes();
            spend(lua, text.len() / 8)?;
            match text.len() {
                len @ ..32 => out.push(0xa0 | len as u8),
                len @ ..0x100 => out.extend_from_slice(&[0xd9, len as u8]),
                len => put_len(len, 0xda, out),
            }
            out.extend_from_slice(text);
        }
        Value::Table(table) if depth < DEPTH_MAX => return put_table(lua, table, depth, out),
        _ => out.push(0xc0),
    }
    Ok(())
}

fn put_table(
    lua: &Lua,
    table: &Table<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Failure> {
    let Keys { entries, largest } = keys(lua, table)?;
    // An empty table is an array.
    if largest.unwrap_or(0) == entries {
        match entries {
            len @ ..16 => out.push(0x90 | len as u8),
            len => put_len(len, 0xdc, out),
        }
        for at in 1..=entries {
            pack(lua, &table.raw_get(at)?, depth + 1, out)?;
        }
        return Ok(());
    }
    match entries {
        len @ ..16 => out.push(0x80 | len as u8),
        len => put_len(len, 0xde, out),
    }
    let mut before = Value::Nil;
    while let Some((key, value)) = table.after(&before)? {
        pack(lua, &key, depth + 1, out)?;
        pack(lua, &value, depth + 1, out)?;
        before = key;
    }
    Ok(())
}

/// A length of 16 bits after this byte, or of 32 after the next.
fn put_len(len: usize, byte: u8, out: &mut Vec<u8>) {
    match u16::try_from(len) {
        Ok(len) => {
            out.push(byte);
            out.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            out.push(byte + 1);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn put_number(number: f64, out: &mut Vec<u8>) {
    let float = number as f32;
    if f64::from(float) == number {
        out.push(0xca);
        out.extend_from_slice(&float.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn put_integer(number: i64, out: &mut Vec<u8>) {
    match number {
        0..=127 => out.push(number as u8),
        -32..=-1 => out.push(number as i8 as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
        -128..=-33 => out.extend_from_slice(&[0xd0, number as i8 as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        ..=-0x8000_0001 => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}
