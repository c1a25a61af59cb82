//! The log as one turn of a connection sees it.

use super::level::ReadLevel;
use super::{NotDone, Ran};
use std::borrow::Cow;
use todana_command::{
    Command, Context, DATABASES, DatabaseCommand, Databases, LONG_UNITS, ScriptCommand,
    estimated_units, is_logged, probable_script_units,
};
use todana_group::{
    Gate, GroupNumber, Home, LONG_UNITS_MAX, Submit, plain_units, read_in_one_load,
};

/// The log of a database, and the databases whose writes go through logs.
#[derive(Clone, Copy, Debug)]
pub struct Log<'l> {
    /// The group that has the database.
    pub group: GroupNumber,
    /// That group, to which submissions go.
    pub submit: &'l dyn Submit,
    /// The databases, durable ones and others.
    pub databases: &'l Databases,
    /// Whether the connection may still wait for room in the log. If not, a write is refused.
    pub may_wait: bool,
    /// How new the records must be that a read sees, unless the client has chosen another level.
    pub level: ReadLevel,
    /// The time of the turn, by [`Submit::clock_ms`]: not earlier than the arrival of its input.
    pub clock_ms: u64,
    /// The time of the log at that moment ([`Submit::now_ms`]), by which records have expired.
    pub now_ms: u64,
    /// Whether the commands are those of a guest. Databases in memory are each node's own.
    pub of_guest: bool,
}

/// What a request probably takes where the log is applied, in units of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) units: u64,
    /// Those of scripts and transactions.
    pub(super) of_scripts: u64,
}

impl Work {
    /// The work of both.
    pub(super) fn and(self, other: Work) -> Work {
        Work {
            units: self.units.saturating_add(other.units),
            of_scripts: self.of_scripts.saturating_add(other.of_scripts),
        }
    }

    /// What it counts for in the queue.
    pub(super) fn queued(self) -> u64 {
        let plain = plain_units(self.units - self.of_scripts);
        self.of_scripts.saturating_add(plain)
    }
}

impl Log<'_> {
    /// Whether a command must go through the log, or wait for what goes through it.
    pub(super) fn concerns(&self, database: usize, command: &Command<'_>) -> bool {
        self.databases.is_durable(database)
            || self.is_clear_of_all(command)
            || is_logged(self.databases, database, command) == Ok(true)
    }

    /// Whether a command clears databases of both kinds. The log carries it out on the durable
    /// ones, and then the session on the others.
    pub(super) fn is_clear_of_all(&self, command: &Command<'_>) -> bool {
        matches!(command, Command::Database(DatabaseCommand::ClearAll { .. }))
            && self.databases.are_mixed()
            && !self.of_guest
    }

    /// The home in which a command for this database has its records.
    pub(super) fn home(&self, database: usize, command: &Command<'_>) -> Home {
        let of_all = self.is_clear_of_all(command);
        Home::Database(if of_all { self.database_of(true) } else { database })
    }

    /// The number of a database of a kind.
    pub(super) fn database_of(&self, durable: bool) -> usize {
        let like = |number: &usize| self.databases.is_durable(*number) == durable;
        (0..DATABASES).find(like).unwrap_or(0)
    }

    /// Whether records may be read now.
    pub fn admit_read(&self) -> Result<(), NotDone> {
        self.submit.readable().map(drop).ok_or(self.not_readable())
    }

    /// Why nothing can be read or written.
    fn not_readable(&self) -> NotDone {
        if self.submit.is_away() { NotDone::Unanswered } else { NotDone::Loading }
    }

    /// Reads records. If they are replaced meanwhile, the result is dropped, and so must be the
    /// reply.
    pub(super) fn read<T>(&self, read: impl FnOnce() -> T) -> Ran<T> {
        let read = read_in_one_load(|| self.submit.readable(), read);
        read.map_or(Ran::Refused(NotDone::Loading), Ran::Done)
    }

    /// Whether a write may be recorded: `Ok(false)` if the log has no room for this work now.
    pub(super) fn admit_write(
        &self,
        work: Work,
        only_removes: impl Fn() -> bool,
    ) -> Result<bool, NotDone> {
        self.admit_by_gate(only_removes)?;
        match self.submit.has_room(work.queued()) {
            true => Ok(true),
            false if self.may_wait => Ok(false),
            false => Err(NotDone::Busy),
        }
    }

    /// The same for a write that needs no room.
    pub(super) fn admit_by_gate(&self, only_removes: impl Fn() -> bool) -> Result<(), NotDone> {
        match self.submit.gate() {
            Gate::Closed => Err(self.not_readable()),
            Gate::ReadOnly | Gate::Leaderless => Err(NotDone::ReadOnly),
            Gate::Removals if !only_removes() => Err(NotDone::ReadOnly),
            Gate::Open | Gate::Removals => Ok(()),
        }
    }

    /// Whether a write may join records that were admitted before it. If not, it waits for their
    /// commit.
    pub(super) fn admits_another(&self, only_removes: impl Fn() -> bool) -> bool {
        self.submit.gate() != Gate::Removals || only_removes()
    }

    /// Whether records that were admitted may have this work together with another one.
    pub(super) fn may_join(&self, joined: Work) -> bool {
        let units = joined.queued();
        units < LONG_UNITS || self.submit.has_room(units)
    }

    /// The reason for which records were not executed, by the gate: one that closed dropped them.
    pub(super) fn refine(&self, why: NotDone) -> NotDone {
        match (why, self.submit.gate()) {
            (NotDone::Busy, Gate::Closed) => self.not_readable(),
            (NotDone::Busy, Gate::ReadOnly | Gate::Removals | Gate::Leaderless) => {
                NotDone::ReadOnly
            }
            _ => why,
        }
    }

    /// Whether all members of the cluster can read this command in the log.
    pub(super) fn admit_format(&self, command: &Command<'_>) -> Result<(), NotDone> {
        let is_read = command.format() <= self.submit.format();
        if is_read { Ok(()) } else { Err(NotDone::OldMember) }
    }

    /// The commands of a transaction, those in older words whose format is not written yet unasked.
    pub(super) fn in_words_of_all<'c>(
        &self,
        commands: &'c [(usize, Command<'c>)],
    ) -> Cow<'c, [(usize, Command<'c>)]> {
        let unasked = self.submit.unasked_format();
        let is_new = |command: &Command<'_>| command.format() > unasked;
        if !commands.iter().any(|(_, command)| is_new(command)) {
            return commands.into();
        }
        let in_words = |(database, command): &(usize, Command<'c>)| {
            let older = if is_new(command) { command.in_older_words() } else { None };
            (*database, older.unwrap_or_else(|| command.clone()))
        };
        commands.iter().map(in_words).collect()
    }

    /// The longest value that a command may build, if its protocol allows less than the log.
    pub(super) fn own_limit(&self, context: Context, command: &Command<'_>) -> Option<usize> {
        let limit = context.value_bytes_max;
        (limit < self.submit.value_bytes_max() && command.brings().builds()).then_some(limit)
    }

    /// A script that other nodes run is known by its name here, too. If it is none, they say so.
    pub(super) fn remember_script(&self, command: &Command<'_>) {
        if let Command::Script(ScriptCommand::Run(script)) = command
            && let Some(interpreter) = self.databases.interpreter()
        {
            let _ = interpreter.load(script.source);
        }
    }

    /// The context in which records of the log are read here.
    pub(super) fn reading(&self, context: Context) -> Context {
        Context { now_ms: self.now_ms, ..context }
    }

    /// The units of work that a command probably takes where the log is applied.
    pub(super) fn work(&self, database: usize, command: &Command<'_>) -> Work {
        match command {
            Command::Script(ScriptCommand::Run(script)) => {
                let units = probable_script_units(script, self.databases);
                Work { units, of_scripts: units }
            }
            _ if database >= DATABASES => Work { units: 1, of_scripts: 0 },
            _ => {
                let table = self.databases.table(database);
                let units = estimated_units(command, table, LONG_UNITS_MAX);
                Work { units, of_scripts: 0 }
            }
        }
    }

    /// The limits that hold for values in the log.
    pub(super) fn limit(&self, context: Context) -> Context {
        let value_bytes_max = context.value_bytes_max.min(self.submit.value_bytes_max());
        Context { value_bytes_max, ..context }
    }
}
