//! The library `cjson`. Depth is bounded, and nothing here recurses.

mod decode;

use crate::library::{Answer, Arguments, Failure, Keys, VALUE_STEPS, function, keys, one, spend};
use crate::number::general;
use decode::decode;
use mlua::{Function, Lua, MultiValue, Result, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// What scripts may set.
struct Settings {
    sparse_convert: Cell<bool>,
    sparse_ratio: Cell<u32>,
    sparse_safe: Cell<u32>,
    encode_depth_max: Cell<usize>,
    decode_depth_max: Cell<usize>,
    precision: Cell<usize>,
    invalid_numbers: Cell<bool>,
}

/// The name of Lua's function `next`, which scripts may replace, in the registry.
const NEXT: &str = "todana.next";

/// Deepest nesting that scripts can set.
const DEPTH_MAX: usize = 1_000;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: Cell::new(false),
            sparse_ratio: Cell::new(2),
            sparse_safe: Cell::new(10),
            encode_depth_max: Cell::new(DEPTH_MAX),
            decode_depth_max: Cell::new(DEPTH_MAX),
            precision: Cell::new(14),
            invalid_numbers: Cell::new(false),
        }
    }
}

/// Keeps what the library needs of Lua's own ones, before a script begins.
pub(crate) fn prepare(lua: &Lua) -> Result<()> {
    lua.set_named_registry_value(NEXT, lua.globals().raw_get::<Function>("next")?)
}

pub(crate) fn fill(lua: &Lua, functions: &Table, values: &Table) -> Result<()> {
    let settings = Rc::new(Settings::default());
    let add = |name: &'static str, body: fn(&Settings, &Lua, &Arguments) -> Answer| {
        let settings = settings.clone();
        let body = move |lua: &Lua, arguments: &Arguments| body(&settings, lua, arguments);
        functions.raw_set(name, function(lua, name, body)?)
    };
    add("encode", |settings, lua, arguments| {
        expect_one(arguments)?;
        let text = encode(lua, settings, arguments.get(0))?;
        one(lua, lua.create_string(text)?)
    })?;
    add("decode", |settings, lua, arguments| {
        expect_one(arguments)?;
        let text = arguments.bytes(0)?;
        spend(lua, text.len() / 2)?;
        Ok(MultiValue::from_iter([decode(lua, &text, settings.decode_depth_max.get())?]))
    })?;
    add("encode_sparse_array", |settings, lua, arguments| {
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
        let now = (
            settings.sparse_convert.get(),
            settings.sparse_ratio.get(),
            settings.sparse_safe.get(),
        );
        Ok(mlua::IntoLuaMulti::into_lua_multi(now, lua)?)
    })?;
    add("encode_max_depth", |settings, lua, arguments| {
        depth(&settings.encode_depth_max, lua, arguments)
    })?;
    add("decode_max_depth", |settings, lua, arguments| {
        depth(&settings.decode_depth_max, lua, arguments)
    })?;
    add("encode_number_precision", |settings, lua, arguments| {
        if arguments.len() > 0 {
            settings.precision.set(setting(arguments, 0, 1, 16)?);
        }
        one(lua, settings.precision.get())
    })?;
    add("encode_invalid_numbers", |settings, lua, arguments| {
        if arguments.len() > 0 {
            let invalid = !matches!(arguments.get(0), Value::Nil | Value::Boolean(false));
            settings.invalid_numbers.set(invalid);
        }
        one(lua, settings.invalid_numbers.get())
    })?;
    add("decode_invalid_numbers", |_, lua, _| one(lua, false))?;
    add("encode_keep_buffer", |_, lua, _| one(lua, true))?;
    values.raw_set("null", Value::NULL)?;
    values.raw_set("_NAME", "cjson")?;
    values.raw_set("_VERSION", "2.1.0")
}

fn expect_one(arguments: &Arguments) -> std::result::Result<(), Failure> {
    match arguments.len() {
        1 => Ok(()),
        _ => Err(format!("bad argument #1 to '{}' (expected 1 argument)", arguments.name).into()),
    }
}

fn setting(
    arguments: &Arguments,
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

fn depth(cell: &Cell<usize>, lua: &Lua, arguments: &Arguments) -> Answer {
    if arguments.len() > 0 {
        cell.set(setting(arguments, 0, 1, i32::MAX as usize)?.min(DEPTH_MAX));
    }
    one(lua, cell.get())
}

/// A table that is being encoded.
enum Open {
    Array { table: Table, next: usize, len: usize },
    Object { table: Table, key: Value },
}

fn encode(lua: &Lua, settings: &Settings, value: &Value) -> std::result::Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut counted = 0;
    let next: Function = lua.named_registry_value(NEXT)?;
    put(lua, settings, value, &mut out, &mut open)?;
    while let Some(last) = open.last_mut() {
        // The text is charged as it grows, so that a table that contains itself ends.
        spend(lua, VALUE_STEPS + (out.len() - counted) / 4)?;
        counted = out.len();
        let value: Value = match last {
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
                let (next, value) = next.call::<(Value, Value)>((&*table, &*key))?;
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
        put(lua, settings, &value, &mut out, &mut open)?;
    }
    Ok(out)
}

fn put(
    lua: &Lua,
    settings: &Settings,
    value: &Value,
    out: &mut Vec<u8>,
    open: &mut Vec<Open>,
) -> std::result::Result<(), Failure> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(number) => put_number(settings, *number as f64, out)?,
        Value::Number(number) => put_number(settings, *number, out)?,
        Value::String(text) => {
            let text = text.as_bytes();
            spend(lua, text.len() / 4)?;
            put_text(&text, out);
        }
        Value::Table(table) => {
            if open.len() >= settings.encode_depth_max.get() {
                let depth = open.len() + 1;
                let text = format!("Cannot serialise, excessive depth ({depth})");
                return Err(text.into());
            }
            let Keys { entries, largest } = keys(lua, table)?;
            match largest {
                Some(len) if !is_sparse(settings, len, entries) => {
                    out.push(b'[');
                    open.push(Open::Array { table: table.clone(), next: 1, len });
                }
                Some(_) if !settings.sparse_convert.get() => {
                    return Err("Cannot serialise table: excessively sparse array".into());
                }
                _ => {
                    out.push(b'{');
                    open.push(Open::Object { table: table.clone(), key: Value::Nil });
                }
            }
        }
        other => {
            let name = other.type_name();
            return Err(format!("Cannot serialise {name}: type not supported").into());
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
    key: &Value,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Failure> {
    match key {
        Value::String(text) => put_text(&text.as_bytes(), out),
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
