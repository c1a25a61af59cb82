//! Replies as values of Lua, and the other way, by the rules of Redis.

use crate::library::VALUE_STEPS;
use crate::lua::{Error, Lua, Result, Table, Text, Value as LuaValue};
use crate::meter::spend;
use todana_command::Value;

/// Deepest nesting of tables in a reply.
const DEPTH_MAX: usize = 48;

/// What redis.call returns for a reply. Errors are tables too.
pub(crate) fn to_lua<'l>(lua: &'l Lua, value: &Value, resp3: bool) -> Result<LuaValue<'l>> {
    let field = |name: &str, value: LuaValue<'l>| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok::<_, Error>(LuaValue::Table(table))
    };
    let text = |text: &[u8]| lua.create_string(text).map(LuaValue::String);
    Ok(match value {
        Value::Null if resp3 => LuaValue::Nil,
        Value::Null => LuaValue::Boolean(false),
        Value::Boolean(flag) => LuaValue::Boolean(*flag),
        // All numbers of Lua are fractions.
        Value::Integer(number) => LuaValue::Number(*number as f64),
        Value::Double(number) => field("double", LuaValue::Number(*number))?,
        Value::Bytes(bytes) => text(bytes)?,
        Value::Status(bytes) => field("ok", text(bytes)?)?,
        Value::Error(bytes) => field("err", text(bytes)?)?,
        Value::BigNumber(bytes) => field("big_number", text(bytes)?)?,
        Value::Verbatim(format, bytes) => {
            let verbatim = lua.create_table_with_capacity(0, 2)?;
            verbatim.raw_set("format", text(format)?)?;
            verbatim.raw_set("string", text(bytes)?)?;
            field("verbatim_string", LuaValue::Table(verbatim))?
        }
        Value::List(values) => LuaValue::Table(sequence(lua, values, resp3)?),
        Value::Set(values) => {
            let set = lua.create_table_with_capacity(0, values.len())?;
            for value in values {
                spend(lua, VALUE_STEPS as u64);
                set.raw_set(to_lua(lua, value, resp3)?, true)?;
            }
            field("set", LuaValue::Table(set))?
        }
        Value::Map(pairs) => {
            let map = lua.create_table_with_capacity(0, pairs.len())?;
            for (key, value) in pairs {
                spend(lua, VALUE_STEPS as u64);
                map.raw_set(to_lua(lua, key, resp3)?, to_lua(lua, value, resp3)?)?;
            }
            field("map", LuaValue::Table(map))?
        }
    })
}

fn sequence<'l>(lua: &'l Lua, values: &[Value], resp3: bool) -> Result<Table<'l>> {
    let table = lua.create_table_with_capacity(values.len(), 0)?;
    for (at, value) in values.iter().enumerate() {
        spend(lua, VALUE_STEPS as u64);
        table.raw_set(at + 1, to_lua(lua, value, resp3)?)?;
    }
    Ok(table)
}

/// The reply for what a script returns. `resp3` is whether the script has chosen RESP3.
pub(crate) fn from_lua(
    lua: &Lua,
    value: &LuaValue<'_>,
    resp3: bool,
    depth: usize,
) -> Result<Value> {
    if !spend(lua, VALUE_STEPS as u64) {
        // The caller sees that the script has to be stopped.
        return Ok(Value::Null);
    }
    Ok(match value {
        LuaValue::Nil => Value::Null,
        LuaValue::Boolean(flag) if resp3 => Value::Boolean(*flag),
        LuaValue::Boolean(true) => Value::Integer(1),
        LuaValue::Boolean(false) => Value::Null,
        LuaValue::Integer(number) => Value::Integer(*number),
        LuaValue::Number(number) => Value::Integer(whole(*number)),
        LuaValue::String(text) => Value::Bytes(copied(lua, text)),
        LuaValue::Table(_) if depth >= DEPTH_MAX => {
            Value::Error(b"ERR reached lua stack limit".to_vec())
        }
        LuaValue::Table(table) => from_table(lua, table, resp3, depth + 1)?,
        _ => Value::Null,
    })
}

fn from_table(lua: &Lua, table: &Table<'_>, resp3: bool, depth: usize) -> Result<Value> {
    let field = |name: &str| table.raw_get(name);
    if let LuaValue::String(text) = field("err")? {
        let text = copied(lua, &text);
        let text = text.strip_prefix(b"-").unwrap_or(&text);
        return Ok(Value::Error(text.to_vec()));
    }
    if let LuaValue::String(text) = field("ok")? {
        return Ok(Value::Status(copied(lua, &text)));
    }
    match field("double")? {
        LuaValue::Number(number) => return Ok(Value::Double(number)),
        LuaValue::Integer(number) => return Ok(Value::Double(number as f64)),
        _ => {}
    }
    let pairs = |table: Table<'_>| {
        let mut pairs = Vec::new();
        let mut before = LuaValue::Nil;
        while let Some((key, value)) = table.after(&before)? {
            if !spend(lua, VALUE_STEPS as u64) {
                break;
            }
            let first = from_lua(lua, &key, resp3, depth)?;
            pairs.push((first, from_lua(lua, &value, resp3, depth)?));
            before = key;
        }
        Ok::<_, Error>(pairs)
    };
    if let LuaValue::Table(map) = field("map")? {
        return Ok(Value::Map(pairs(map)?));
    }
    if let LuaValue::Table(set) = field("set")? {
        return Ok(Value::Set(pairs(set)?.into_iter().map(|(key, _)| key).collect()));
    }
    if let LuaValue::String(digits) = field("big_number")? {
        let digits = copied(lua, &digits);
        return Ok(Value::BigNumber(digits));
    }
    if let LuaValue::Table(verbatim) = field("verbatim_string")?
        && let LuaValue::String(text) = verbatim.raw_get("string")?
        && let LuaValue::String(format) = verbatim.raw_get("format")?
    {
        let mut letters = [b' '; 3];
        letters.iter_mut().zip(format.as_bytes().iter()).for_each(|(to, from)| *to = *from);
        return Ok(Value::Verbatim(letters, copied(lua, &text)));
    }
    let mut values = Vec::new();
    loop {
        match table.raw_get(values.len() + 1)? {
            LuaValue::Nil => return Ok(Value::List(values)),
            value => values.push(from_lua(lua, &value, resp3, depth)?),
        }
        if crate::meter::stopped(lua).is_some() {
            return Ok(Value::Null);
        }
    }
}

/// The integer of a number. One that is out of range, or none, is the smallest, as in Redis.
fn whole(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    match (-END..END).contains(&number) {
        true => number as i64,
        false => i64::MIN,
    }
}

fn copied(lua: &Lua, text: &Text<'_>) -> Vec<u8> {
    let bytes = text.as_bytes();
    match spend(lua, bytes.len() as u64 / 16) {
        true => bytes.to_vec(),
        false => Vec::new(),
    }
}
