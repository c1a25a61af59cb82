//! Runs scripts in Lua, whose commands are those of the table.

mod known;

use super::dispatch;
use super::encoder::Failure;
use super::lookup;
use super::reply::Formatted;
use super::request::{Request, ScriptLimits, pairs};
use super::sink::ValueSink;
use super::spec::{CONTAINER, NOSCRIPT, WRITE};
use super::table::Name;
use super::unsupported;
use known::{Found, Known, Name as ScriptName};
use std::sync::Arc;
use std::sync::Mutex;
use todana_command::{
    Context, Interpreter, Player, Script, ScriptCall, ScriptMemory, ScriptRecords, Scripted, Value,
};
use todana_script::{Called, Calls, Job, Limits, Outcome, Stop, name_of, run, run_compiled};

/// Steps of a script that a unit of a command's work counts: a quarter of a microsecond.
const UNIT_STEPS: u64 = 32;

/// Sets the secret by which scripts hash the keys of their tables: the same on all replicas.
pub fn set_script_secret(secret: u64) {
    todana_script::set_secret(secret);
}

/// What runs scripts, and remembers those that it has run.
pub fn interpreter() -> Arc<dyn Interpreter> {
    Arc::new(Lua::default())
}

#[derive(Default)]
struct Lua {
    known: Mutex<Known>,
}

impl Lua {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // A panic leaves it as it was before or after a change.
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The name of a source that is perhaps known.
    fn name(&self, source: &[u8]) -> Option<ScriptName> {
        let found = self.known().find(source);
        match found {
            Found::Known(name) => Some(name),
            Found::Unknown => None,
            // Others do not wait for it.
            Found::Perhaps => Some(name_of(source)),
        }
    }
}

impl Interpreter for Lua {
    fn run(
        &self,
        script: &Script<'_>,
        context: Context,
        records: &mut dyn ScriptRecords,
    ) -> Scripted {
        let bytes = usize::try_from(script.bytes_max).unwrap_or(usize::MAX);
        let limits = Limits { steps: script.steps_max, bytes };
        let (source, keys, arguments) = (script.source, script.keys(), script.arguments());
        let mut calls = TableCalls { context, records, reads: script.reads };
        let job = Job { source, keys, arguments, limits };
        let name = self.name(source).unwrap_or_else(|| name_of(source));
        let compiled = self.known().begin(name, source);
        let (outcome, steps) = match compiled {
            Some(compiled) => run_compiled(&job, &compiled, &mut calls),
            None => run(&job, &mut calls),
        };
        self.known().note(name, steps);
        let (reply, is_stopped) = match outcome {
            Outcome::Reply(reply) => (reply, false),
            Outcome::Stopped(why) => {
                let why = match why {
                    Stop::Steps => "it took too many steps (script_steps_max)",
                    Stop::Memory => "it needed too much memory (script_bytes_max)",
                };
                let text = format!("ERR The script was stopped, and has changed nothing: {why}.");
                (Value::Error(text.into_bytes()), true)
            }
        };
        Scripted { reply, is_stopped, steps }
    }

    fn probable_step_units(&self, script: &Script<'_>) -> u64 {
        let name = self.name(script.source);
        let steps = name.and_then(|name| self.known().steps(&name)).unwrap_or(script.steps_max);
        steps / UNIT_STEPS
    }

    fn load(&self, source: &[u8]) -> Result<[u8; 40], Vec<u8>> {
        todana_script::check(source)?;
        let name = self.name(source).unwrap_or_else(|| name_of(source));
        self.known().load(name, source);
        Ok(name)
    }

    fn source(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        self.known().source(name)
    }

    fn forget_all(&self) {
        *self.known() = Known::default();
        todana_script::forget_all();
    }

    fn memory(&self) -> ScriptMemory {
        let (scripts, source_bytes) = self.known().size();
        let memory = todana_script::memory();
        ScriptMemory {
            scripts,
            source_bytes,
            interpreter_bytes: memory.bytes,
            compiled_bytes: memory.scripts_bytes,
        }
    }
}

/// The commands of a script.
struct TableCalls<'a> {
    context: Context,
    records: &'a mut dyn ScriptRecords,
    reads: bool,
}

/// A call that has not executed anything.
fn refused(text: impl AsRef<[u8]>) -> Called {
    Called::Reply(Value::Error(text.as_ref().to_vec()), 0)
}

/// Redis' words for a refusal, by which clients recognise it, and a sentence about this one.
fn refused_because(words: &str, name: Name, why: &str) -> Called {
    let name = name.spec().name.replace('|', " ").to_ascii_uppercase();
    refused(format!("ERR {words}: {name} {why}."))
}

/// There is no command of this word.
fn unknown(before: &str, word: &[u8]) -> Called {
    let words = "ERR Unknown Redis command called from script: ";
    refused(Failure::quoting(&format!("{words}{before} '"), word, "'."))
}

const NOT_ALLOWED: &str = "This Redis command is not allowed from script";
const NOT_OF_KEYS: &str = "concerns other things than the keys of the script";

impl Calls for TableCalls<'_> {
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, steps_left: u64) -> Called {
        let Some(mut name) = lookup::command(arguments[0]) else {
            return match unsupported::failure_in_script(arguments[0]) {
                Some(failure) => refused(failure),
                None => unknown("there is no command", arguments[0]),
            };
        };
        if name.spec().is(CONTAINER) {
            let word = arguments.get(1).copied().unwrap_or_default();
            let Some(subcommand) = lookup::subcommand(name, word) else {
                let container = name.spec().name.to_ascii_uppercase();
                return unknown(&format!("{container} has no subcommand"), word);
            };
            name = subcommand;
        }
        let spec = name.spec();
        if !spec.takes(arguments.len()) {
            let words = "Wrong number of args calling Redis command from script";
            let why = format!("does not take {} words", arguments.len());
            return refused_because(words, name, &why);
        }
        if spec.is(NOSCRIPT) {
            return refused_because(NOT_ALLOWED, name, NOT_OF_KEYS);
        }
        let Context { now_ms, value_bytes_max } = self.context;
        if arguments.iter().any(|argument| argument.len() > value_bytes_max) {
            let words = "string exceeds maximum allowed size (proto-max-bulk-len)";
            let why = format!("has an argument of more than {value_bytes_max} bytes");
            return refused_because(words, name, &why);
        }
        let script_limits = ScriptLimits::default();
        let request = Request { name, arguments, now_ms, value_bytes_max, script_limits };
        let pairs = if dispatch::takes_pairs(name) { pairs(arguments) } else { Default::default() };
        let (command, format) = match dispatch::build(&request, &pairs, 0, None) {
            Some(Ok(built)) => built,
            Some(Err(failure)) => return refused(failure),
            None => return own(name, arguments, now_ms),
        };
        let (tape, units) = match self.records.execute(&command, steps_left / UNIT_STEPS) {
            ScriptCall::Done(tape, units) => (tape, units),
            ScriptCall::TooMuchWork => return Called::TooMuch,
            ScriptCall::NotDeclared => {
                let words = "Script attempted to access a non local key";
                return refused_because(words, name, "names a key that is not among KEYS");
            }
            ScriptCall::NotAllowed if self.reads && name.spec().is(WRITE) => {
                let words = "Write commands are not allowed from read-only scripts";
                return refused_because(words, name, "may change records");
            }
            ScriptCall::NotAllowed => {
                let why = match name {
                    Name::MemoryUsage => "may differ between the nodes of a cluster",
                    _ => NOT_OF_KEYS,
                };
                return refused_because(NOT_ALLOWED, name, why);
            }
        };
        let mut value = ValueSink::new(resp3);
        Player::new(tape).next(&mut Formatted { sink: &mut value, format, now_ms });
        Called::Reply(value.into_value(), units.saturating_mul(UNIT_STEPS))
    }
}

/// Commands that concern no records.
fn own(name: Name, arguments: &[&[u8]], now_ms: u64) -> Called {
    let text = |text: &[u8]| Value::Bytes(text.to_vec());
    let value = match (name, arguments) {
        (Name::Ping, [_]) => Value::Status(b"PONG".to_vec()),
        (Name::Ping | Name::Echo, [_, word]) => text(word),
        // The time of the log, if there is one.
        (Name::Time, _) => {
            let seconds = (now_ms / 1_000).to_string();
            let micros = (now_ms % 1_000 * 1_000).to_string();
            Value::List(vec![text(seconds.as_bytes()), text(micros.as_bytes())])
        }
        _ => return refused_because(NOT_ALLOWED, name, NOT_OF_KEYS),
    };
    Called::Reply(value, 0)
}
