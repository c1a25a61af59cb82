//! Runs one script.

use crate::convert::{from_lua, to_lua};
use crate::libraries::library;
use crate::library::{Failure, error_table, function, one};
use crate::meter::{self, Stop};
use crate::{json, name_of, number, shebang};
use mlua::{Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value as LuaValue};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use todana_command::Value;

/// What may be used of memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most steps: an instruction of Lua is one.
    pub steps: u64,
    /// Most bytes of the values of Lua.
    pub bytes: usize,
}

/// A script and what it gets.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its source.
    pub source: &'a [u8],
    /// `KEYS`.
    pub keys: &'a [&'a [u8]],
    /// `ARGV`.
    pub arguments: &'a [&'a [u8]],
    /// Its limits.
    pub limits: Limits,
}

/// What became of a call of a script.
#[derive(Debug)]
pub enum Called {
    /// The reply, and the steps that the call counts.
    Reply(Value, u64),
    /// Nothing: it would take more steps than are left.
    TooMuch,
}

/// Executes the commands of a script.
pub trait Calls {
    /// Executes a command, provided that it takes at most `steps_left`.
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, steps_left: u64) -> Called;
    /// The script logs a line.
    fn log(&mut self, level: i64, text: &[u8]) {
        let _ = (level, text);
    }
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has returned a reply, or failed with an error of its own, which is a reply too. What it
    /// has written stays.
    Reply(Value),
    /// It was stopped in the middle.
    Stopped(Stop),
}

/// What the libraries written in Lua are called in errors.
const PRELUDE_NAME: &str = "=[todana]";
const PRELUDE: &str = include_str!("prelude.lua");
/// What a script is called in errors.
const SCRIPT_NAME: &str = "@user_script";

/// Steps for a byte of source: its compilation takes time too.
const SOURCE_BYTE_STEPS: u64 = 1;
/// Steps for the way of a command from the script to the store and back.
const CALL_STEPS: u64 = 64;

/// References for which there is room from the beginning.
const REFERENCES: usize = 300;

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

/// Runs a script. Returns its outcome and the steps that it took.
pub fn run(job: &Job<'_>, calls: &mut dyn Calls) -> (Outcome, u64) {
    match begin(job) {
        Ok(lua) => {
            let reply = catch_unwind(AssertUnwindSafe(|| lua_run(&lua, job, calls)));
            let left = u64::try_from(meter::left(&lua)).unwrap_or(0);
            let taken = job.limits.steps.saturating_sub(left);
            let outcome = match (meter::stopped(&lua), reply) {
                // The binding panics if it has no room for a reference.
                (Some(why), _) => Outcome::Stopped(why),
                (None, Ok(Ok(value))) => Outcome::Reply(value),
                (None, Ok(Err(mlua::Error::MemoryError(_)))) => Outcome::Stopped(Stop::Memory),
                (None, Ok(Err(error))) => Outcome::Reply(internal(&error)),
                (None, Err(panic)) => resume_unwind(panic),
            };
            (outcome, taken)
        }
        Err(error) => (Outcome::Reply(internal(&error)), 0),
    }
}

/// Compiles a script, and drops the result. An error is one for the client.
pub fn check(source: &[u8]) -> std::result::Result<(), Vec<u8>> {
    /// Steps of a compilation that takes some ten milliseconds.
    const CHECK_STEPS: u64 = 2_000_000;
    let failed = |text: String| format!("ERR {text}").into_bytes();
    let (_, skipped) = shebang::split(source).map_err(failed)?;
    let limits = Limits { steps: CHECK_STEPS, bytes: 64 << 20 };
    let job = Job { source, keys: &[], arguments: &[], limits };
    let checked = begin(&job).and_then(|lua| {
        meter::set(&lua, limits.steps);
        match meter::spend(&lua, source.len() as u64 * SOURCE_BYTE_STEPS) {
            true => compile(&lua, &source[skipped..]).map(|compiled| compiled.map(drop)),
            false => Ok(Err(failed("the script is too long".to_owned()))),
        }
    });
    checked.unwrap_or_else(|_| Err(failed("the script takes too long to compile".to_owned())))
}

/// A compiled script, or the error for the client.
fn compile(lua: &Lua, source: &[u8]) -> Result<std::result::Result<mlua::Function, Vec<u8>>> {
    match lua.load(source).set_name(SCRIPT_NAME).into_function() {
        Ok(script) => Ok(Ok(script)),
        Err(mlua::Error::SyntaxError { message, .. }) => {
            let text = format!("ERR Error compiling script (new function): {message}");
            Ok(Err(text.into_bytes()))
        }
        Err(error) => Err(error),
    }
}

fn internal(error: &mlua::Error) -> Value {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    Value::Error(format!("ERR Error running script: {line}").into_bytes())
}

/// A new interpreter.
fn begin(job: &Job<'_>) -> Result<Lua> {
    let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    json::prepare(&lua)?;
    // Room for the references that a function of a library needs, so that only one with many
    // arguments makes more, and may meet the limit.
    let globals = lua.globals();
    drop(vec![globals; REFERENCES]);
    // What the interpreter has before the script does not count.
    lua.set_memory_limit(lua.used_memory().saturating_add(job.limits.bytes))?;
    Ok(lua)
}

fn lua_run(lua: &Lua, job: &Job<'_>, calls: &mut dyn Calls) -> Result<Value> {
    let resp3 = Rc::new(Cell::new(false));
    let (_, skipped) = shebang::split(job.source).unwrap_or_default();
    let calls = &RefCell::new(calls);
    lua.scope(|scope| {
        let caller = |raises: bool| {
            let resp3 = resp3.clone();
            scope.create_function(move |lua, arguments: MultiValue| {
                // It is not held by anyone else: commands do not run scripts.
                let Ok(mut calls) = calls.try_borrow_mut() else {
                    return Ok((true, LuaValue::Nil));
                };
                let (is_done, value) = call(lua, &mut **calls, arguments, resp3.get())?;
                Ok((is_done || !raises, value))
            })
        };
        let callers = (caller(true)?, caller(false)?);
        let log = scope.create_function(move |lua, arguments: MultiValue| {
            let Ok(mut calls) = calls.try_borrow_mut() else { return Ok((true, None)) };
            log(lua, &mut **calls, arguments)
        })?;
        let driver = prelude(lua, callers, log, &resp3)?;
        let globals = lua.globals();
        let list = |values: &[&[u8]]| {
            let table = lua.create_table_with_capacity(values.len(), 0)?;
            for (at, value) in values.iter().enumerate() {
                table.raw_set(at + 1, lua.create_string(value)?)?;
            }
            Ok::<_, mlua::Error>(table)
        };
        // The words are a part of the request, whose length has limits of its own. They take memory
        // of the script and no steps.
        globals.raw_set("KEYS", list(job.keys)?)?;
        globals.raw_set("ARGV", list(job.arguments)?)?;
        // Counting begins here, and with the text that has to be compiled.
        let source = &job.source[skipped..];
        meter::set(lua, job.limits.steps);
        if !meter::spend(lua, source.len() as u64 * SOURCE_BYTE_STEPS) {
            return Ok(Value::Null);
        }
        let script = match compile(lua, source)? {
            Ok(script) => script,
            Err(error) => return Ok(Value::Error(error)),
        };
        let (is_done, result): (bool, LuaValue) = driver.call(script)?;
        match is_done {
            true => from_lua(lua, &result, resp3.get(), 0),
            false => failed(lua, &result, job),
        }
    })
}

/// Makes the environment, and returns the function that runs a script in it.
fn prelude(
    lua: &Lua,
    (call, pcall): (mlua::Function, mlua::Function),
    log: mlua::Function,
    resp3: &Rc<Cell<bool>>,
) -> Result<mlua::Function> {
    let libraries = lua.create_function(|lua, name: LuaValue| match name {
        LuaValue::String(name) => {
            let name = name.as_bytes().to_vec();
            Ok(library(lua, &name)?
                .map_or((None, None), |(functions, values)| (Some(functions), Some(values))))
        }
        _ => Ok((None, None)),
    })?;
    let constants = lua.create_table()?;
    for (name, number) in CONSTANTS {
        constants.raw_set(name, number)?;
    }
    constants.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    constants.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER)?;
    let sha1hex = function(lua, "sha1hex", |lua, arguments| {
        if arguments.len() != 1 {
            return Err(Failure::Reply("ERR wrong number of arguments"));
        }
        let bytes = arguments.bytes(0)?;
        crate::library::spend(lua, bytes.len())?;
        one(lua, lua.create_string(name_of(&bytes))?)
    })?;
    let chosen = resp3.clone();
    let setresp = function(lua, "setresp", move |_, arguments| {
        if arguments.len() != 1 {
            return Err(Failure::Reply("ERR redis.setresp() requires one argument."));
        }
        chosen.set(match arguments.number(0)? {
            2.0 => false,
            3.0 => true,
            _ => return Err(Failure::Reply("ERR RESP version must be 2 or 3.")),
        });
        Ok(MultiValue::new())
    })?;
    let handler = lua.create_function(handle)?;
    let parts = (call, pcall, libraries, constants, sha1hex, setresp, log, handler);
    lua.load(PRELUDE).set_name(PRELUDE_NAME).call(parts)
}

/// redis.call and redis.pcall: whether the command has succeeded, and its reply.
fn call(
    lua: &Lua,
    calls: &mut dyn Calls,
    arguments: MultiValue,
    resp3: bool,
) -> Result<(bool, LuaValue)> {
    let failed = |text: &str| {
        let error = Value::Error(text.as_bytes().to_vec());
        Ok((false, to_lua(lua, &error, resp3)?))
    };
    if arguments.is_empty() {
        return failed("ERR Please specify at least one argument for this redis lib call");
    }
    let mut texts: Vec<Vec<u8>> = Vec::with_capacity(arguments.len());
    let mut steps = CALL_STEPS;
    for argument in &arguments {
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
    let value = match calls.call(&arguments, resp3, left) {
        Called::Reply(value, steps) => {
            meter::spend(lua, steps);
            value
        }
        Called::TooMuch => {
            // The next instruction stops the script.
            meter::spend(lua, left.saturating_add(1));
            return Ok((true, LuaValue::Nil));
        }
    };
    drop(texts);
    Ok((!matches!(value, Value::Error(_)), to_lua(lua, &value, resp3)?))
}

/// redis.log.
fn log(lua: &Lua, calls: &mut dyn Calls, arguments: MultiValue) -> Result<(bool, Option<Table>)> {
    let failed = |text: &str| Ok((false, Some(error_table(lua, text)?)));
    if arguments.len() < 2 {
        return failed("ERR redis.log() requires two arguments or more.");
    }
    let level = match arguments.front() {
        Some(LuaValue::Integer(level)) => *level,
        Some(LuaValue::Number(level)) => *level as i64,
        _ => return failed("ERR First argument must be a number (log level)."),
    };
    if !(0..=3).contains(&level) {
        return failed("ERR Invalid log level.");
    }
    let mut line = Vec::new();
    for argument in arguments.iter().skip(1) {
        if let LuaValue::String(text) = argument {
            if !meter::spend(lua, text.as_bytes().len() as u64) {
                return Ok((true, None));
            }
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(&text.as_bytes());
        }
    }
    calls.log(level, &line);
    Ok((true, None))
}

/// Adds the line of the script to an error that nobody has caught.
fn handle(lua: &Lua, error: LuaValue) -> Result<Table> {
    let table = match error {
        LuaValue::Table(table) => table,
        other => {
            let text = match &other {
                LuaValue::String(text) => text.as_bytes().to_vec(),
                LuaValue::Integer(_) | LuaValue::Number(_) | LuaValue::Boolean(_) => {
                    other.to_string()?.into_bytes()
                }
                LuaValue::Error(error) => error.to_string().into_bytes(),
                LuaValue::Nil => b"nil".to_vec(),
                _ => format!("(error object is a {} value)", other.type_name()).into_bytes(),
            };
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string([b"ERR ", &text[..]].concat())?)?;
            table
        }
    };
    for level in 1..100 {
        let line = lua.inspect_stack(level, |frame| {
            let is_script = frame.source().source.as_deref() == Some(SCRIPT_NAME);
            is_script.then(|| frame.current_line()).flatten()
        });
        match line {
            None => break,
            Some(None) => {}
            Some(Some(line)) => {
                table.raw_set("line", line)?;
                break;
            }
        }
    }
    Ok(table)
}

/// The reply for an error that nobody has caught.
fn failed(lua: &Lua, error: &LuaValue, job: &Job<'_>) -> Result<Value> {
    let LuaValue::Table(table) = error else {
        return Ok(Value::Error(b"ERR Error running script".to_vec()));
    };
    let mut text = match table.raw_get::<LuaValue>("err")? {
        LuaValue::String(text) => {
            let text = text.as_bytes();
            text.strip_prefix(b"-").unwrap_or(&text).to_vec()
        }
        _ => b"ERR unknown error".to_vec(),
    };
    if let LuaValue::Integer(line) = table.raw_get::<LuaValue>("line")? {
        let name = name_of(job.source);
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(&name);
        text.extend_from_slice(format!(", on {SCRIPT_NAME}:{line}.").as_bytes());
    }
    meter::spend(lua, text.len() as u64);
    Ok(Value::Error(text))
}
