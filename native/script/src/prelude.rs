//! What a script finds in its environment.

use crate::convert::to_lua;
use crate::job::Called;
use crate::libraries::library;
use crate::library::{Failure, entry, error_table, spend, text};
use crate::lua::{Error, Function, Lua, Native, Push, Result, Returned, Value as LuaValue};
use crate::{meter, name_of, number};
use std::ffi::CStr;
use todana_command::Value;

/// What the libraries written in Lua are called in errors.
const PRELUDE_NAME: &CStr = c"=[todana]";
const PRELUDE: &str = include_str!("prelude.lua");
/// What a script is called in errors.
pub(crate) const SCRIPT_NAME: &CStr = c"@user_script";

/// Steps for the way of a command from the script to the store and back.
const CALL_STEPS: u64 = 64;

/// Constants of the table `redis`.
const CONSTANTS: [(&str, i64); 9] = [
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REPL_NONE", 0),
    ("REPL_AOF", 1),
    ("REPL_SLAVE", 2),
    ("REPL_REPLICA", 2),
    ("REPL_ALL", 3),
];

/// The version of Redis whose scripts are understood.
const REDIS_VERSION: &str = "7.4.0";
const REDIS_VERSION_NUMBER: i64 = 0x0007_0400;

static CALL: Native = Native(|lua, arguments| {
    let (is_done, value) = called(lua, &arguments)?;
    Ok(Returned::two(LuaValue::Boolean(is_done), value))
});
static PCALL: Native = Native(|lua, arguments| {
    let (_, value) = called(lua, &arguments)?;
    Ok(Returned::two(LuaValue::Boolean(true), value))
});
static LOG: Native = Native(|lua, arguments| {
    let refused = log(lua, &arguments)?;
    let is_done = refused.is_none();
    let value = match refused {
        Some(text) => LuaValue::Table(error_table(lua, text)?),
        None => LuaValue::Nil,
    };
    Ok(Returned::two(LuaValue::Boolean(is_done), value))
});
static LIBRARIES: Native = Native(|lua, arguments| {
    let made = match arguments.first() {
        Some(LuaValue::String(name)) => library(lua, name.as_bytes())?,
        _ => None,
    };
    Ok(match made {
        Some((functions, values)) => {
            Returned::two(LuaValue::Table(functions), LuaValue::Table(values))
        }
        None => Returned::two(LuaValue::Nil, LuaValue::Nil),
    })
});
static SHA1HEX: Native = entry!("sha1hex", |lua, arguments| {
    if arguments.len() != 1 {
        return Err(Failure::Reply("ERR wrong number of arguments"));
    }
    let bytes = arguments.bytes(0)?;
    spend(lua, bytes.len())?;
    text(lua, name_of(&bytes))
});
static SETRESP: Native = entry!("setresp", |lua, arguments| {
    if arguments.len() != 1 {
        return Err(Failure::Reply("ERR redis.setresp() requires one argument."));
    }
    lua.resp3.set(match arguments.number(0)? {
        2.0 => false,
        3.0 => true,
        _ => return Err(Failure::Reply("ERR RESP version must be 2 or 3.")),
    });
    Ok(Vec::new())
});
static HANDLER: Native = Native(|lua, arguments| {
    handle(lua, arguments.into_iter().next().unwrap_or(LuaValue::Nil)).map(Returned::one)
});

/// Makes the environment, and returns the function that runs a script in it.
pub(crate) fn prelude(lua: &Lua) -> Result<Function<'_>> {
    let (call, pcall) = (lua.native(&CALL)?, lua.native(&PCALL)?);
    let log = lua.native(&LOG)?;
    let libraries = lua.native(&LIBRARIES)?;
    let constants = lua.create_table()?;
    for (name, number) in CONSTANTS {
        constants.raw_set(name, number)?;
    }
    constants.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    constants.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER)?;
    let (sha1hex, setresp) = (lua.native(&SHA1HEX)?, lua.native(&SETRESP)?);
    let handler = lua.native(&HANDLER)?;
    let made = lua.load(PRELUDE.as_bytes(), PRELUDE_NAME)?.call(8, |lua| {
        call.push(lua)?;
        pcall.push(lua)?;
        libraries.push(lua)?;
        (&constants).push(lua)?;
        sha1hex.push(lua)?;
        setresp.push(lua)?;
        log.push(lua)?;
        handler.push(lua)
    })?;
    match made.into_iter().next() {
        Some(LuaValue::Function(driver)) => Ok(driver),
        _ => Err(Error::Other("the prelude returns no function".to_owned())),
    }
}

/// redis.call and redis.pcall: whether the command has succeeded, and its reply.
fn called<'l>(lua: &'l Lua, arguments: &[LuaValue<'l>]) -> Result<(bool, LuaValue<'l>)> {
    let resp3 = lua.resp3.get();
    let failed = |text: &str| {
        let error = Value::Error(text.as_bytes().to_vec());
        Ok((false, to_lua(lua, &error, resp3)?))
    };
    if arguments.is_empty() {
        return failed("ERR Please specify at least one argument for this redis lib call");
    }
    let mut texts: Vec<Vec<u8>> = Vec::with_capacity(arguments.len());
    let mut steps = CALL_STEPS;
    for argument in arguments {
        let text = match argument {
            LuaValue::String(text) => text.as_bytes().to_vec(),
            LuaValue::Integer(number) => number.to_string().into_bytes(),
            LuaValue::Number(fraction) => number::argument(*fraction).into_bytes(),
            _ => {
                return failed("ERR Lua redis lib command arguments must be strings or integers");
            }
        };
        steps += 8 + text.len() as u64 / 16;
        texts.push(text);
    }
    if !meter::spend(lua, steps) {
        return Ok((true, LuaValue::Nil));
    }
    let arguments: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let left = u64::try_from(meter::left(lua)).unwrap_or(0);
    let value = match lua.calls(|calls| calls.call(&arguments, resp3, left)) {
        Some(Called::Reply(value, steps)) => {
            meter::spend(lua, steps);
            value
        }
        // The commands are not held by anyone else: they do not run scripts.
        None => return Ok((true, LuaValue::Nil)),
        Some(Called::TooMuch) => {
            // The next instruction stops the script.
            meter::spend(lua, left.saturating_add(1));
            return Ok((true, LuaValue::Nil));
        }
    };
    drop(texts);
    Ok((!matches!(value, Value::Error(_)), to_lua(lua, &value, resp3)?))
}

/// redis.log. Returns what is wrong.
fn log(lua: &Lua, arguments: &[LuaValue<'_>]) -> Result<Option<&'static str>> {
    if arguments.len() < 2 {
        return Ok(Some("ERR redis.log() requires two arguments or more."));
    }
    let level = match arguments[0] {
        LuaValue::Integer(level) => level,
        LuaValue::Number(level) => level as i64,
        _ => return Ok(Some("ERR First argument must be a number (log level).")),
    };
    if !(0..=3).contains(&level) {
        return Ok(Some("ERR Invalid log level."));
    }
    let mut line = Vec::new();
    for argument in arguments.iter().skip(1) {
        if let LuaValue::String(text) = argument {
            if !meter::spend(lua, text.as_bytes().len() as u64) {
                return Ok(None);
            }
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(text.as_bytes());
        }
    }
    lua.calls(|calls| calls.log(level, &line));
    Ok(None)
}

/// Adds the line of the script to an error that nobody has caught.
fn handle<'l>(lua: &'l Lua, error: LuaValue<'l>) -> Result<LuaValue<'l>> {
    let table = match error {
        LuaValue::Table(table) => table,
        other => {
            let text = match &other {
                LuaValue::String(text) => text.as_bytes().to_vec(),
                LuaValue::Integer(number) => number.to_string().into_bytes(),
                LuaValue::Number(number) => number.to_string().into_bytes(),
                LuaValue::Boolean(flag) => flag.to_string().into_bytes(),
                LuaValue::Nil => b"nil".to_vec(),
                _ => format!("(error object is a {} value)", other.type_name()).into_bytes(),
            };
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string([b"ERR ", &text[..]].concat())?)?;
            table
        }
    };
    if let Some(line) = lua.line(SCRIPT_NAME) {
        table.raw_set("line", line)?;
    }
    Ok(LuaValue::Table(table))
}
