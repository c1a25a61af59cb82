//! Scripts: a program that executes commands on keys which it has declared.
//!
//! A script runs like a transaction: with the locks of all its keys held, as one step. This crate
//! knows no language. It locks the keys, calls the [`Interpreter`] of the databases, executes the
//! commands that this asks for, provided that they name declared keys only, and undoes them all if
//! the interpreter had to stop the script in the middle.
//!
//! A script of a durable database is one record of the log, with its source and its limits, and
//! every replica runs it when it applies the record. So the interpreter must do the same on each.

use crate::record::Carried;
use crate::scope::Scope;
use crate::script::interpreter::{Interpreter, ScriptCall, ScriptRecords, Scripted};
use crate::tape::{Status, Tape};
use crate::work;
use crate::{Access, Command, Context, KeyCommand, Script, cause};
use std::collections::HashSet;
use todana_table::Keyspace;

/// Runs a script on a table whose shards are locked for its keys.
pub(crate) fn run<K: Keyspace>(
    space: &K,
    interpreter: &dyn Interpreter,
    script: &Script<'_>,
    context: Context,
) -> Scripted {
    let declared = script.keys().iter().copied().collect();
    let (before, saved) = (Vec::new(), HashSet::new());
    let mut records = Records { space, script, context, declared, before, saved };
    let scripted = interpreter.run(script, context, &mut records);
    if scripted.is_stopped {
        records.undo();
    }
    scripted
}

struct Records<'a, K> {
    space: &'a K,
    script: &'a Script<'a>,
    context: Context,
    declared: HashSet<&'a [u8]>,
    /// The keys that were perhaps written, as they were before, in the order of the first writes:
    /// that of the versions which an undo gives, on all replicas.
    before: Vec<(&'a [u8], Before)>,
    /// The keys in `before`.
    saved: HashSet<&'a [u8]>,
}

/// A record before the script.
enum Before {
    Absent,
    There(Carried),
}

impl<K: Keyspace> ScriptRecords for Records<'_, K> {
    fn execute(&mut self, command: &Command<'_>, units_max: u64) -> ScriptCall {
        let writes = match command.access() {
            Access::Read | Access::Walk => false,
            Access::Lease | Access::Write | Access::Sweep => true,
        };
        let scope = command.scope();
        // The room behind a value differs between replicas.
        let differs = matches!(command, Command::Key(KeyCommand::MemoryUsage { .. }));
        let is_of_keys = matches!(scope, Scope::Key(_) | Scope::Keys(_));
        if !is_of_keys || differs || (writes && self.script.reads) {
            return ScriptCall::NotAllowed;
        }
        let mut are_declared = true;
        scope.each_key(|key| are_declared &= self.declared.contains(key));
        if !are_declared {
            return ScriptCall::NotDeclared;
        }
        let units = self.units(command);
        if units > units_max {
            return ScriptCall::TooMuchWork;
        }
        if writes {
            scope.each_key(|key| self.save(key));
        }
        let mut tape = Tape::new();
        let _executing = cause::executing(|| command.names());
        command.run(self.space, self.context, &mut tape);
        tape.end(Status::Done);
        ScriptCall::Done(tape, units)
    }
}

impl<K: Keyspace> Records<'_, K> {
    /// The units of a command, from the lengths of the present values. They do not depend on the
    /// spare room behind a value, which differs between replicas.
    fn units(&self, command: &Command<'_>) -> u64 {
        let now_ms = self.context.now_ms;
        let length = |key: &[u8]| {
            self.space.read(key, now_ms, |entry| entry.map_or(0, |it| it.stored().bytes().len()))
        };
        work::units_in_script(command, length, self.context.value_bytes_max)
    }

    /// Saves a record before the first write.
    fn save(&mut self, key: &[u8]) {
        let Some(key) = self.declared.get(key).copied() else { return };
        if !self.saved.insert(key) {
            return;
        }
        let before = self.space.read(key, self.context.now_ms, |entry| match entry {
            None => Before::Absent,
            Some(entry) => Before::There(Carried::of(&entry)),
        });
        self.before.push((key, before));
    }

    /// Restores the records. They get new versions, but no room is needed that was not theirs.
    fn undo(self) {
        let now_ms = self.context.now_ms;
        for (key, before) in self.before {
            self.space.update(key, now_ms, |locked| {
                let version = locked.entry().map(|entry| entry.version());
                match &before {
                    Before::Absent => _ = locked.remove(),
                    Before::There(carried) if version == Some(carried.version()) => {}
                    Before::There(carried) => _ = carried.put_moved(locked),
                }
            });
        }
    }
}
