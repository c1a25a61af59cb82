//! EVAL and SCRIPT: requests that run scripts, and the scripts that this node knows by name.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::Flow;
use super::request::{Built, NOT_AN_INTEGER, Request, SYNTAX, ScriptLimits, plain};
use crate::Host;
use todana_command::{Command, Interpreter, Script};
use todana_script::Header;

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
    match source {
        Some(source) => script(request, source, reads),
        None => Err("NOSCRIPT No matching script. Please use EVAL.".into()),
    }
}

fn script<'a>(request: &Request<'a>, source: &'a [u8], reads: bool) -> Built<'a> {
    let keys = super::number::integer(request.arguments[2]).ok_or(NOT_AN_INTEGER)?;
    let words = &request.arguments[3..];
    if keys > words.len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let Ok(keys) = usize::try_from(keys) else {
        return Err("ERR Number of keys can't be negative".into());
    };
    let failed = |text: String| Failure::from(format!("ERR {text}"));
    let (Header { no_writes, .. }, _) = todana_script::split(source).map_err(failed)?;
    let ScriptLimits { steps_max, bytes_max } = request.script_limits;
    let reads = reads || no_writes;
    plain(Command::Script(Script { source, words, keys, steps_max, bytes_max, reads }))
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

    pub(super) fn script_flush(&mut self) -> Done {
        match self.arguments[2..] {
            [] => {}
            [how] if [&b"async"[..], b"sync"].iter().any(|it| it.eq_ignore_ascii_case(how)) => {}
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
