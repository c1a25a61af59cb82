//! What runs scripts, as the databases see it. `run.rs` calls it.

use crate::tape::Tape;
use crate::value::Value;
use crate::{Command, Context, Script};
use std::sync::Arc;

/// What became of a command of a script.
#[derive(Debug)]
pub enum ScriptCall {
    /// Its reply, and the units of its work.
    Done(Tape, u64),
    /// It concerns a key that the script has not declared.
    NotDeclared,
    /// It concerns more than keys, or the script must not write.
    NotAllowed,
    /// It takes more units than were given.
    TooMuchWork,
}

/// The records of a script, while it runs.
pub trait ScriptRecords {
    /// Executes a command that takes at most `units_max` units ([`estimated_units`]).
    ///
    /// [`estimated_units`]: crate::estimated_units
    fn execute(&mut self, command: &Command<'_>, units_max: u64) -> ScriptCall;
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Scripted {
    /// Its reply.
    pub reply: Value,
    /// Whether it was stopped in the middle, so that nothing of it may stay.
    pub is_stopped: bool,
    /// The steps that it took.
    pub steps: u64,
}

/// The memory of scripts that do not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptMemory {
    /// The number of scripts that are remembered.
    pub scripts: usize,
    /// Bytes of their sources.
    pub source_bytes: usize,
    /// Bytes of the interpreters that wait for a script.
    pub interpreter_bytes: usize,
    /// Bytes of compiled scripts among these.
    pub compiled_bytes: usize,
}

/// Runs scripts.
pub trait Interpreter: Send + Sync {
    /// Runs a script. The result follows from the script, the time of the context and the replies
    /// of the commands alone.
    fn run(
        &self,
        script: &Script<'_>,
        context: Context,
        records: &mut dyn ScriptRecords,
    ) -> Scripted;
    /// The units of the steps that a script will probably take, as this node knows it.
    fn probable_step_units(&self, script: &Script<'_>) -> u64;
    /// Remembers a script, and returns its name; or an error for the client.
    fn load(&self, source: &[u8]) -> Result<[u8; 40], Vec<u8>>;
    /// The source of a script by its name, if this node remembers it.
    fn source(&self, name: &[u8]) -> Option<Arc<[u8]>>;
    /// Forgets all scripts.
    fn forget_all(&self);
    /// What scripts take of the memory of this node.
    fn memory(&self) -> ScriptMemory;
}
