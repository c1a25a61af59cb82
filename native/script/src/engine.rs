//! Runs one script.

use crate::convert::from_lua;
use crate::interpreter::{CompiledScript, Interpreter, Prepared, SOURCE_BYTE_STEPS};
use crate::job::{Calls, Job, Limits, Outcome, Stop};
use crate::lua::{Error, Function, Lua, Push, Result, Value as LuaValue};
use crate::{meter, name_of, pool, shebang};
use std::panic::resume_unwind;
use todana_command::Value;

/// What a script is called in errors.
const SHOWN_NAME: &str = "@user_script";

/// Runs a script. Returns its outcome and the steps that it took.
pub fn run(job: &Job<'_>, calls: &mut dyn Calls) -> (Outcome, u64) {
    run_as(job, None, calls)
}

/// Runs a script that was perhaps run before: its source is compiled once. `compiled` must be of
/// this source. The outcome and the steps are those of [`run`].
pub fn run_compiled(
    job: &Job<'_>,
    compiled: &CompiledScript,
    calls: &mut dyn Calls,
) -> (Outcome, u64) {
    run_as(job, Some(compiled), calls)
}

fn run_as(
    job: &Job<'_>,
    compiled: Option<&CompiledScript>,
    calls: &mut dyn Calls,
) -> (Outcome, u64) {
    let mut interpreter = match pool::take(job.limits.bytes) {
        Ok(interpreter) => interpreter,
        Err(error) => return (Outcome::Reply(internal(&error)), 0),
    };
    let ran = run_in(&mut interpreter, job, compiled, calls);
    match ran {
        Ok(ran) => {
            pool::give_back(interpreter);
            ran
        }
        // It is not used again.
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs a script in an interpreter. An error is a panic of its commands.
pub(crate) fn run_in(
    interpreter: &mut Interpreter,
    job: &Job<'_>,
    compiled: Option<&CompiledScript>,
    calls: &mut dyn Calls,
) -> std::result::Result<(Outcome, u64), Box<dyn std::any::Any + Send>> {
    let (_, skipped) = shebang::split(job.source).unwrap_or_default();
    let source = &job.source[skipped..];
    let prepared = interpreter.prepare(source, job, compiled);
    let lua = interpreter.lua();
    let reply = match prepared {
        Prepared::Script(script) => {
            let (driver, script) = (lua.at(interpreter.driver()), lua.taken(script));
            lua.with_calls(calls, || lua_run(lua, &driver, script, job))?
        }
        Prepared::Wrong(text) => Ok(Value::Error(text)),
        Prepared::Stopped(why, taken) => return Ok((Outcome::Stopped(why), taken)),
        Prepared::Failed(error) => Err(error),
    };
    let left = u64::try_from(meter::left(lua)).unwrap_or(0);
    let taken = job.limits.steps.saturating_sub(left);
    let outcome = match (meter::stopped(lua), reply) {
        (Some(why), _) => Outcome::Stopped(why),
        (None, Ok(value)) => Outcome::Reply(value),
        (None, Err(Error::Memory)) => Outcome::Stopped(Stop::Memory),
        (None, Err(error)) => Outcome::Reply(internal(&error)),
    };
    Ok((outcome, taken))
}

/// Compiles a script, and drops the result. An error is one for the client.
pub fn check(source: &[u8]) -> std::result::Result<(), Vec<u8>> {
    /// Steps of a compilation that takes some ten milliseconds.
    const CHECK_STEPS: u64 = 2_000_000;
    let failed = |text: &str| format!("ERR {text}").into_bytes();
    let (_, skipped) = shebang::split(source).map_err(|text| failed(&text))?;
    let limits = Limits { steps: CHECK_STEPS, bytes: 64 << 20 };
    let job = Job { source, keys: &[], arguments: &[], limits };
    let most = CHECK_STEPS / SOURCE_BYTE_STEPS;
    if source.len() as u64 > most {
        return Err(failed(&format!("the script is too long: it may have {most} bytes")));
    }
    let too_long = "the script takes too long to compile";
    let mut interpreter = pool::take(limits.bytes).map_err(|_| failed(too_long))?;
    let checked = match interpreter.prepare(&source[skipped..], &job, None) {
        Prepared::Script(..) => Ok(()),
        Prepared::Wrong(text) => Err(text),
        Prepared::Stopped(..) | Prepared::Failed(_) => Err(failed(too_long)),
    };
    pool::give_back(interpreter);
    checked
}

fn internal(error: &Error) -> Value {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    Value::Error(format!("ERR Error running script: {line}").into_bytes())
}

fn lua_run(lua: &Lua, driver: &Function<'_>, script: Function<'_>, job: &Job<'_>) -> Result<Value> {
    let mut results = driver.call(1, |lua| script.push(lua))?.into_iter();
    let is_done = results.next().unwrap_or(LuaValue::Nil).is_true();
    let result = results.next().unwrap_or(LuaValue::Nil);
    drop(results);
    match is_done {
        true => from_lua(lua, &result, lua.resp3.get(), 0),
        false => failed(lua, &result, job),
    }
}

/// The reply for an error that nobody has caught.
fn failed(lua: &Lua, error: &LuaValue<'_>, job: &Job<'_>) -> Result<Value> {
    let LuaValue::Table(table) = error else {
        return Ok(Value::Error(b"ERR Error running script".to_vec()));
    };
    let mut text = match table.raw_get("err")? {
        LuaValue::String(text) => {
            let text = text.as_bytes();
            text.strip_prefix(b"-").unwrap_or(text).to_vec()
        }
        _ => b"ERR unknown error".to_vec(),
    };
    if let LuaValue::Integer(line) = table.raw_get("line")? {
        let name = name_of(job.source);
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(&name);
        text.extend_from_slice(format!(", on {SHOWN_NAME}:{line}.").as_bytes());
    }
    meter::spend(lua, text.len() as u64);
    Ok(Value::Error(text))
}
