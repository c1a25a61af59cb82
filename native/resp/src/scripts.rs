//! EVAL and SCRIPT: requests that run scripts, and the scripts that this node knows by name.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::Flow;
use super::request::{Built, NOT_AN_INTEGER, Request, SYNTAX, ScriptLimits, plain};
use crate::Host;
use todana_command::{Command, Interpreter, Script, ScriptCommand};

/// The limits of scripts that clients of this node run.
pub(super) fn limits<H: Host>(host: &H) -> ScriptLimits {
    let limits = host.limits();
    ScriptLimits { steps_max: limits.script_steps_max, bytes_max: limits.script_bytes_max as u64 }
}

/// EVAL and EVAL_RO.
pub(super) fn eval<'a>(request: &Request<'a>, reads: bool) -> Built<'a> {
    script(request, request.arguments[1], reads)
}

/// EVALSHA and EVALSHA_RO.
pub(super) fn eval_named<'a>(
    request: &Request<'a>,
    source: Option<&'a [u8]>,
    reads: bool,
) -> Built<'a> {
    const NAME_BYTES: usize = 40;
    match source {
        Some(source) => script(request, source, reads),
        None => {
            if request.arguments[1].len() == NAME_BYTES {
                counted(request)?;
            }
            Err("NOSCRIPT No matching script. Please use EVAL.".into())
        }
    }
}

/// The number of keys.
fn counted(request: &Request<'_>) -> Result<usize, Failure> {
    let keys = super::number::integer(request.arguments[2]).ok_or(NOT_AN_INTEGER)?;
    if keys > request.arguments[3..].len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    usize::try_from(keys).map_err(|_| "ERR Number of keys can't be negative".into())
}

/// Whether a script must not begin while the memory is full.
pub(super) fn needs_room(source: &[u8]) -> bool {
    todana_script::split(source).is_ok_and(|(header, _)| header.needs_room())
}

/// Whether a script says that it does not write.
pub(super) fn only_reads(source: &[u8]) -> bool {
    todana_script::split(source).is_ok_and(|(header, _)| header.no_writes)
}

/// Whether this word says how to flush.
fn is_flush(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync")
}

fn script<'a>(request: &Request<'a>, source: &'a [u8], reads: bool) -> Built<'a> {
    let (words, keys) = (&request.arguments[3..], counted(request)?);
    let failed = |text: String| Failure::from(format!("ERR {text}"));
    let (header, _) = todana_script::split(source).map_err(failed)?;
    if reads && header.declares_writes() {
        // A script that cannot be compiled has that error first.
        todana_script::check(source)?;
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    let ScriptLimits { steps_max, bytes_max } = request.script_limits;
    let reads = reads || header.no_writes;
    plain(Command::Script(ScriptCommand::Run(Script {
        source,
        words,
        keys,
        steps_max,
        bytes_max,
        reads,
    })))
}

impl<'c, H: Host> Call<'c, '_, H> {
    fn interpreter(&self) -> Result<&dyn Interpreter, Failure> {
        let interpreter = self.host.databases().interpreter();
        interpreter.ok_or_else(|| "ERR scripts are not available".into())
    }

    pub(super) fn script_load(&mut self) -> Done {
        let source = self.argument(2);
        let name = self.interpreter()?.load(source)?;
        self.encoder.bulk(&name);
        Ok(Flow::Continue)
    }

    pub(super) fn script_exists(&mut self) -> Done {
        let interpreter = self.interpreter()?;
        let known = |name: &&[u8]| interpreter.source(name).is_some();
        let known: Vec<bool> = self.arguments[2..].iter().map(known).collect();
        self.encoder.array(known.len());
        known.into_iter().for_each(|known| self.encoder.integer(i64::from(known)));
        Ok(Flow::Continue)
    }

    pub(super) fn function_delete(&mut self) -> Done {
        Err("ERR Library not found".into())
    }

    pub(super) fn function_flush(&mut self) -> Done {
        match self.arguments[2..] {
            [] => self.ok(),
            [how] if is_flush(how) => self.ok(),
            [_] => Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
            _ => Err(Failure::quoting(
                "ERR unknown subcommand or wrong number of arguments for '",
                self.argument(1),
                "'. Try FUNCTION HELP.",
            )),
        }
    }

    pub(super) fn function_list(&mut self) -> Done {
        let (mut with_code, mut with_name) = (false, false);
        let mut words = self.arguments[2..].iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"withcode") && !with_code {
                with_code = true;
            } else if word.eq_ignore_ascii_case(b"libraryname") && !with_name {
                with_name = true;
                words.next().ok_or("ERR library name argument was not given")?;
            } else {
                return Err(Failure::quoting("ERR Unknown argument ", word, ""));
            }
        }
        self.encoder.array(0);
        Ok(Flow::Continue)
    }

    pub(super) fn function_stats(&mut self) -> Done {
        self.encoder.map(2);
        self.encoder.text("running_script");
        self.encoder.null();
        self.encoder.text("engines");
        self.encoder.map(1);
        self.encoder.text("LUA");
        self.encoder.map(2);
        for count in ["libraries_count", "functions_count"] {
            self.encoder.text(count);
            self.encoder.integer(0);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn script_flush(&mut self) -> Done {
        match self.arguments[2..] {
            [] => {}
            [how] if is_flush(how) => {}
            [_] => return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
            _ => return Err(SYNTAX),
        }
        self.interpreter()?.forget_all();
        self.ok()
    }

    /// A script ends before the next request of any client of its loop is read, or in the log.
    pub(super) fn script_kill(&mut self) -> Done {
        Err("NOTBUSY No scripts in execution right now.".into())
    }
}
