//! The enum that every request becomes.
//!
//! A command is a plain value: times are absolute, nothing is random, and nothing depends on the
//! connection that sent it. It can be queued, replayed on another node and executed twice with the
//! same result. Protocols only build commands and format their replies; `execute` alone defines the
//! meaning of a command.

use crate::bits::BitsCommand;
use crate::cause::Names;
use crate::cost::{Reads, TableSize};
use crate::database::DatabaseCommand;
use crate::family::{Brings, Described, Kinds};
use crate::key::KeyCommand;
use crate::lease::LeaseCommand;
use crate::scope::Scope;
use crate::script::ScriptCommand;
use crate::sizes::{Room, Sizes};
use crate::sketch::SketchCommand;
use crate::slice::{Slice, Stage};
use crate::string::StringCommand;
use crate::target::Target;
use crate::terms::Context;
use crate::{Access, Reply};
use std::hash::{DefaultHasher, Hash, Hasher};
use todana_table::Keyspace;

/// One operation on a database, of one of the families. Byte strings are borrowed from the request.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a> {
    /// On strings.
    String(StringCommand<'a>),
    /// On strings of bits.
    Bits(BitsCommand<'a>),
    /// On HyperLogLogs.
    Sketch(SketchCommand<'a>),
    /// On keys, whatever their values are.
    Key(KeyCommand<'a>),
    /// On whole databases.
    Database(DatabaseCommand<'a>),
    /// On leases.
    Lease(LeaseCommand<'a>),
    /// About scripts.
    Script(ScriptCommand<'a>),
}

/// Does the same for a command of each family.
macro_rules! each {
    ($command:expr, $it:pat_param => $do:expr) => {
        match $command {
            Command::String($it) => $do,
            Command::Bits($it) => $do,
            Command::Sketch($it) => $do,
            Command::Key($it) => $do,
            Command::Database($it) => $do,
            Command::Lease($it) => $do,
            Command::Script($it) => $do,
        }
    };
}

impl<'a> Command<'a> {
    /// The number of the command in encoded form.
    pub(crate) fn number(&self) -> u16 {
        each!(self, it => it.number())
    }

    /// Appends the fields in encoded form.
    pub(crate) fn put_fields(&self, out: &mut Vec<u8>) {
        each!(self, it => it.put_fields(out));
    }

    /// The first format of the log's batches that has this command. A new command gets a new
    /// format, unless the newest one was in no release yet. So does a command whose fields get more
    /// variants.
    pub fn format(&self) -> u8 {
        each!(self, it => it.format())
    }

    /// The records that the command concerns.
    #[inline]
    pub(crate) fn scope(&self) -> Scope<'a> {
        each!(self, it => it.scope())
    }

    /// A number that differs for most other commands: it follows from the variant and the first
    /// key, not from values and times.
    pub fn fingerprint(&self) -> u64 {
        let (mut hasher, mut first) = (DefaultHasher::new(), None);
        self.scope().each_key(|key| _ = first.get_or_insert(key));
        (self.number(), first).hash(&mut hasher);
        hasher.finish()
    }

    /// What the command does to records.
    #[inline]
    pub fn access(&self) -> Access {
        each!(self, it => it.access())
    }

    /// Whether the command can do nothing but remove records, now or later.
    pub fn only_removes(&self) -> bool {
        each!(self, it => it.only_removes())
    }

    /// Whether the command reads, or only removes records.
    pub fn never_adds(&self) -> bool {
        matches!(self.access(), Access::Read | Access::Walk) || self.only_removes()
    }

    /// The same read in the words of an older format, with another reply: a transaction of the log
    /// may have it before all members of a cluster read the newest format.
    pub fn in_older_words(&self) -> Option<Command<'a>> {
        match *self {
            // Its reply is the record.
            Command::Key(KeyCommand::Describe { key }) => {
                Some(Command::String(StringCommand::Get { key }))
            }
            _ => None,
        }
    }

    /// What the command does with a record that is no string.
    pub fn kinds(&self) -> Kinds {
        each!(self, it => it.kinds())
    }

    /// The values that the command stores.
    pub fn brings(&self) -> Brings {
        each!(self, it => it.brings())
    }

    /// Whether a server with several clients has to run the command with
    /// [`execute_slice`](crate::execute_slice).
    #[inline]
    pub fn is_long(&self) -> bool {
        each!(self, it => it.is_long())
    }

    pub(crate) fn names(&self) -> Names {
        each!(self, it => it.names())
    }

    pub(crate) fn reads(&self) -> Reads {
        each!(self, it => it.reads())
    }

    pub(crate) fn units(&self, table: TableSize) -> u64 {
        each!(self, it => it.units(table))
    }

    pub(crate) fn room(&self) -> Room {
        each!(self, it => it.room())
    }

    pub(crate) fn foresee(&self, sizes: &mut Sizes<'_, '_, 'a>) {
        each!(self, it => it.foresee(sizes));
    }

    pub(crate) fn slice<T: Target, R: Reply>(
        &self,
        slice: Slice<'_, T, R>,
        stage: Option<Stage>,
    ) -> Option<Stage> {
        each!(self, it => it.slice(slice, stage))
    }

    /// Executes the command on one table, outside a transaction. Returns false, and has done
    /// nothing, if it needs more than that.
    #[inline]
    pub(crate) fn alone<T: Target, R: Reply>(
        &self,
        target: &T,
        context: Context,
        reply: &mut R,
    ) -> bool {
        each!(self, it => it.alone(target, context, reply))
    }

    /// Executes the command on one table, whose locks are taken for each key or are already held.
    #[inline]
    pub(crate) fn run<K: Keyspace, R: Reply>(&self, space: &K, context: Context, reply: &mut R) {
        each!(self, it => it.run(space, context, reply));
    }
}
