//! Scripts: programs that execute commands on keys which they have declared.

pub(crate) mod interpreter;
pub(crate) mod run;

use crate::Error;
use crate::access::Access;
use crate::cause::Names;
use crate::cost::{Reads, copied};
use crate::family::{Brings, Kinds, commands};
use crate::scope::Scope;
use crate::sizes::Room;
use crate::wire::{Input, Malformed, Put, Take, structs};

/// The fields of [`ScriptCommand::Run`].
#[derive(Clone, Debug, PartialEq)]
pub struct Script<'a> {
    /// The program.
    pub source: &'a [u8],
    /// The keys, and after them the arguments.
    pub words: &'a [&'a [u8]],
    /// How many of the words are keys.
    pub keys: usize,
    /// Most steps, in the measure of the interpreter.
    pub steps_max: u64,
    /// Most bytes of memory.
    pub bytes_max: u64,
    /// Whether it must not write.
    pub reads: bool,
}

impl<'a> Script<'a> {
    /// The keys that it declares.
    pub fn keys(&self) -> &'a [&'a [u8]] {
        &self.words[..self.keys.min(self.words.len())]
    }

    /// Its arguments.
    pub fn arguments(&self) -> &'a [&'a [u8]] {
        &self.words[self.keys.min(self.words.len())..]
    }
}

structs! {
    Script<'a> { source, words, keys, steps_max, bytes_max, reads }
}

/// The units of a script that does nothing: its interpreter has to be made.
const SCRIPT_UNITS: u64 = 400;

/// The units of a script without its steps.
pub(crate) fn units_of_script(script: &Script<'_>) -> u64 {
    let bytes = script.words.iter().map(|word| word.len()).sum::<usize>();
    SCRIPT_UNITS + script.words.len() as u64 + copied(bytes + script.source.len())
}

commands! {
    /// Commands about scripts.
    ScriptCommand<'a> {
        /// Runs a script, which reads and writes its keys. If it is stopped for its limits, nothing
        /// of it stays. Reply: `value`.
        44 Run(script: Script<'a>) => {
            format: 3,
            keys: Scope::Script(script.keys()),
            access: if script.reads { Access::Walk } else { Access::Write },
            removes: false,
            // Its commands have their own names.
            events: Names::PLAIN,
            // Its commands are counted one by one, and their writes are admitted one by one.
            reads: Reads::Nothing,
            kinds: Kinds::All,
            brings: {
                let words = script.words.iter().map(|word| word.len()).max().unwrap_or(0);
                Brings::Part(words.max(script.source.len()))
            },
            // Its own work is bounded by its steps, which all scripts of a transaction share.
            units: |_| units_of_script(script),
            room: Room::Nothing,
            // Nobody knows what it writes. Its writes take room that was reserved for commands
            // behind it, so that one of these may be refused alone.
            foresee: |_| {},
            slices: [never],
            alone: [by_keys],
            run: |_, _, reply| {
                // A transaction runs it, because only that knows the interpreter.
                reply.error(Error::NoSuchDatabase);
            },
        }
    }
}
