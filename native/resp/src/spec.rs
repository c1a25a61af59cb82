//! The description of a command in the table: everything except its implementation.

use super::number;
use smallvec::SmallVec;
use todana_protocol::Class;

/// A command or subcommand.
#[derive(Debug)]
pub(super) struct Spec {
    /// Its name in lower case; a subcommand's is `container|name`.
    pub(super) name: &'static str,
    /// The group in which it is documented.
    pub(super) group: Group,
    /// Number of arguments including the name; a negative number is a minimum.
    pub(super) arity: i8,
    /// Flags; see the constants.
    pub(super) flags: u64,
    /// What its requests do to records.
    pub(super) class: Class,
    /// The positions of its keys.
    pub(super) keys: &'static [Keys],
    /// The version of Redis that introduced it; of Todana, if Redis does not have it.
    pub(super) since: &'static str,
    /// The syntax of its arguments; see [`super::syntax`].
    pub(super) syntax: &'static str,
    /// Its complexity.
    pub(super) cost: &'static str,
    /// A one-sentence summary.
    pub(super) summary: &'static str,
}

/// The group in which a command is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Group {
    String,
    Bitmap,
    HyperLogLog,
    Generic,
    Transactions,
    Scripting,
    PubSub,
    Connection,
    Server,
    Cluster,
    Names,
}

impl Group {
    pub(super) const ALL: [Group; 11] = [
        Group::String,
        Group::Bitmap,
        Group::HyperLogLog,
        Group::Generic,
        Group::Transactions,
        Group::Scripting,
        Group::PubSub,
        Group::Connection,
        Group::Server,
        Group::Cluster,
        Group::Names,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Generic => "generic",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::PubSub => "pubsub",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Cluster => "cluster",
            Group::Names => "names",
        }
    }
}

/// A sequence of keys among the arguments.
#[derive(Debug)]
pub(super) struct Keys {
    /// Position of the first; the command's name is 0.
    pub(super) first: usize,
    /// Position of the last after the first; -1 is the last argument.
    pub(super) last: i8,
    /// Distance between keys.
    pub(super) step: usize,
    /// Position of the number of keys; 0 if the request has none.
    pub(super) counted: usize,
    /// The accesses to them, in the terms of Redis' key specifications.
    pub(super) access: &'static [&'static str],
}

const fn keys(last: i8, step: usize, access: &'static [&'static str]) -> Keys {
    Keys { first: 1, last, step, counted: 0, access }
}

impl Keys {
    const fn from(self, first: usize) -> Keys {
        Keys { first, ..self }
    }

    /// As many keys as the argument before them says.
    const fn counted(self, at: usize) -> Keys {
        Keys { first: at + 1, counted: at, ..self }
    }

    /// The position after the last key.
    fn end(&self, arguments: &[&[u8]]) -> usize {
        let end = match (self.counted, usize::try_from(self.last)) {
            (0, Ok(last)) => self.first + last + 1,
            (0, Err(_)) => arguments.len(),
            (at, _) => {
                let number = arguments.get(at).and_then(|it| number::integer(it));
                let number = number.and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
                let end = self.first.saturating_add(number);
                // With a wrong number the request has no keys: its reply will be an error.
                if end > arguments.len() { self.first } else { end }
            }
        };
        end.min(arguments.len())
    }
}

pub(super) const NO_KEYS: &[Keys] = &[];
pub(super) const READ: &[Keys] = &[keys(0, 1, &["RO", "access"])];
pub(super) const LOOK: &[Keys] = &[keys(0, 1, &["RO"])];
pub(super) const LOOK_SECOND: &[Keys] = &[keys(0, 1, &["RO"]).from(2)];
pub(super) const LOOK_EACH: &[Keys] = &[keys(-1, 1, &["RO"])];
pub(super) const READ_EACH: &[Keys] = &[keys(-1, 1, &["RO", "access"])];
pub(super) const READ_TWO: &[Keys] = &[keys(1, 1, &["RO", "access"])];
pub(super) const OVERWRITE: &[Keys] = &[keys(0, 1, &["OW", "update"])];
pub(super) const OVERWRITE_EACH: &[Keys] = &[keys(-1, 2, &["OW", "update"])];
pub(super) const INSERT: &[Keys] = &[keys(0, 1, &["OW", "insert"])];
pub(super) const INSERT_EACH: &[Keys] = &[keys(-1, 2, &["OW", "insert"])];
pub(super) const EXTEND: &[Keys] = &[keys(0, 1, &["RW", "insert"])];
pub(super) const MODIFY: &[Keys] = &[keys(0, 1, &["RW", "access", "update"])];
pub(super) const MAY_MODIFY: &[Keys] = &[keys(0, 1, &["RW", "access", "update", "variable_flags"])];
pub(super) const UPDATE: &[Keys] = &[keys(0, 1, &["RW", "update"])];
pub(super) const TAKE: &[Keys] = &[keys(0, 1, &["RW", "access", "delete"])];
pub(super) const REMOVE: &[Keys] = &[keys(0, 1, &["RM", "delete"])];
pub(super) const COUNTED: &[Keys] = &[keys(-1, 1, &["RW", "access", "update"]).counted(2)];
pub(super) const READ_COUNTED: &[Keys] = &[keys(-1, 1, &["RO", "access"]).counted(2)];
pub(super) const REMOVE_EACH: &[Keys] = &[keys(-1, 1, &["RM", "delete"])];
pub(super) const RENAME: &[Keys] =
    &[keys(0, 1, &["RW", "access", "delete"]), keys(0, 1, &["OW", "update"]).from(2)];
pub(super) const RENAME_NX: &[Keys] =
    &[keys(0, 1, &["RW", "access", "delete"]), keys(0, 1, &["OW", "insert"]).from(2)];
pub(super) const COMBINE: &[Keys] =
    &[keys(0, 1, &["OW", "update"]).from(2), keys(-1, 1, &["RO", "access"]).from(3)];
pub(super) const ADD: &[Keys] = &[keys(0, 1, &["RW", "insert"])];
pub(super) const MERGE: &[Keys] =
    &[keys(0, 1, &["RW", "access", "insert"]), keys(-1, 1, &["RO", "access"]).from(2)];
pub(super) const COPY: &[Keys] =
    &[keys(0, 1, &["RO", "access"]), keys(0, 1, &["OW", "update"]).from(2)];

macro_rules! bits {
    ($($name:ident = $bit:literal),* $(,)?) => {
        $(pub(super) const $name: u64 = 1 << $bit;)*
    };
}

bits! {
    WRITE = 0, READONLY = 1, DENYOOM = 2, ADMIN = 3, NOSCRIPT = 4, LOADING = 5, STALE = 6,
    SKIP_SLOWLOG = 7, FAST = 8, NO_AUTH = 9, ALLOW_BUSY = 10,
    // Specific to Todana, reported as the command of a module.
    OWN = 11,
    // Categories that follow neither from the group nor from flags.
    KEYSPACE = 12, CONNECTION = 13, DANGEROUS = 14, DEPRECATED = 16,
    // Has subcommands, which handle its requests. It follows from the handler, not from a row.
    CONTAINER = 15,
    // Executed, not queued, between MULTI and EXEC.
    IMMEDIATE = 17,
    // Refused between MULTI and EXEC.
    NO_MULTI = 18,
    // Its keys have no fixed positions.
    MOVABLE_KEYS = 19,
    // Concerns channels.
    PUBSUB = 30,
    // Tips.
    RANDOM = 20, UNORDERED = 21, MULTI_SHARD = 22, ALL_SHARDS = 23, ALL_NODES = 24,
    SPECIAL_REQUEST = 25, ALL_SUCCEEDED = 26, AGG_SUM = 27, AGG_MIN = 28, SPECIAL_RESPONSE = 29,
}

pub(super) const NONE: u64 = 0;
/// Flags of commands that are always permitted.
pub(super) const ANYTIME: u64 = LOADING | STALE;
/// Flags of commands on the connection only.
pub(super) const SESSION: u64 = NOSCRIPT | LOADING | STALE;
/// Flags of administrative commands.
pub(super) const OPERATE: u64 = ADMIN | LOADING | STALE;

const FLAGS: [(u64, &str); 15] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (NO_MULTI, "no_multi"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (ALLOW_BUSY, "allow_busy"),
    (OWN, "module"),
    (MOVABLE_KEYS, "movablekeys"),
];

/// The module of commands that Redis does not have.
pub(super) const MODULE: &str = "todana";

const TIPS: [(u64, &str); 10] = [
    (RANDOM, "nondeterministic_output"),
    (UNORDERED, "nondeterministic_output_order"),
    (MULTI_SHARD, "request_policy:multi_shard"),
    (ALL_SHARDS, "request_policy:all_shards"),
    (ALL_NODES, "request_policy:all_nodes"),
    (SPECIAL_REQUEST, "request_policy:special"),
    (ALL_SUCCEEDED, "response_policy:all_succeeded"),
    (AGG_SUM, "response_policy:agg_sum"),
    (AGG_MIN, "response_policy:agg_min"),
    (SPECIAL_RESPONSE, "response_policy:special"),
];

/// The categories of access control that have commands.
pub(super) const CATEGORIES: [&str; 14] = [
    "keyspace",
    "read",
    "write",
    "string",
    "bitmap",
    "hyperloglog",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl Spec {
    #[inline]
    pub(super) fn is(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Whether a request of `count` arguments has the right number.
    #[inline]
    pub(super) fn takes(&self, count: usize) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }

    /// The container of a subcommand.
    pub(super) fn container(&self) -> Option<&'static str> {
        self.name.split_once('|').map(|(container, _)| container)
    }

    /// The name without its container's.
    pub(super) fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, name)| name)
    }

    pub(super) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        FLAGS.iter().filter(|(flag, _)| self.is(*flag)).map(|(_, name)| *name)
    }

    pub(super) fn tips(&self) -> impl Iterator<Item = &'static str> {
        TIPS.iter().filter(|(flag, _)| self.is(*flag)).map(|(_, name)| *name)
    }

    /// Categories of access control, without `@`.
    pub(super) fn categories(&self) -> Vec<&'static str> {
        let generic = self.group == Group::Generic && !self.is(CONTAINER);
        let connection = self.group == Group::Connection && !self.is(CONTAINER);
        let belongs = |category: &&'static str| match *category {
            "keyspace" => generic || self.is(KEYSPACE),
            "read" => self.is(READONLY),
            "write" => self.is(WRITE),
            "string" => self.group == Group::String,
            "bitmap" => self.group == Group::Bitmap,
            "hyperloglog" => self.group == Group::HyperLogLog,
            "pubsub" => self.is(PUBSUB),
            "admin" => self.is(ADMIN),
            "fast" => self.is(FAST),
            "slow" => !self.is(FAST),
            "dangerous" => self.is(ADMIN) || self.is(DANGEROUS),
            "connection" => connection || self.is(CONNECTION),
            "scripting" => self.group == Group::Scripting && !self.is(CONTAINER),
            "transaction" => self.group == Group::Transactions,
            other => unreachable!("the category {other} has no rule"),
        };
        CATEGORIES.iter().copied().filter(belongs).collect()
    }

    /// First, last and step of the keys, in the format for old clients.
    pub(super) fn key_positions(&self) -> (i64, i64, i64) {
        let Some(first) = self.keys.first().filter(|run| run.counted == 0) else {
            return (0, 0, 0);
        };
        let last = match self.keys.last() {
            Some(run) if run.last < 0 => i64::from(run.last),
            Some(run) => run.first as i64 + i64::from(run.last),
            None => 0,
        };
        (first.first as i64, last, first.step as i64)
    }

    /// Positions of the keys in a request, each with its accesses.
    pub(super) fn keys_in(
        &self,
        arguments: &[&[u8]],
    ) -> impl Iterator<Item = (usize, &'static [&'static str])> + use<> {
        let ends: SmallVec<[usize; 2]> = self.keys.iter().map(|run| run.end(arguments)).collect();
        self.keys.iter().zip(ends).flat_map(move |(run, end)| {
            (run.first..end).step_by(run.step).map(move |at| (at, run.access))
        })
    }
}
