//! The commands as data: their names, arguments, effects and rows of statistics.

/// What a row of statistics counts.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command as `docs/commands-memcached.md` lists it: group, arguments, summary.
    Command(Group, &'static str, &'static str),
    /// Calls of a command with a certain outcome, counted separately for `stats`.
    Outcome,
}

/// Groups of commands, in the order of memcached's protocol document.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Storage,
    Retrieval,
    Deletion,
    Arithmetic,
    Touch,
    Meta,
    Server,
}

#[cfg(test)]
impl Group {
    pub(super) const ALL: [Group; 7] =
        [Storage, Retrieval, Deletion, Arithmetic, Touch, Meta, Server];
}

#[cfg(test)]
use Group::{Arithmetic, Deletion, Meta, Retrieval, Server, Storage, Touch};
#[cfg(test)]
use Kind::{Command, Outcome};

macro_rules! rows {
    ($($row:ident $name:literal $kind:expr;)*) => {
        /// A row of the statistics of commands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Row { $($row,)* }

        /// Names of the commands, in the order of their statistics. Some rows count the calls of a
        /// command with a certain outcome (`incr_miss`); the row of the command itself then counts
        /// its other calls.
        pub const COMMANDS: &[&str] = &[$($name,)*];

        /// What each row counts.
        #[cfg(test)]
        pub(super) const KINDS: &[Kind] = &[$($kind,)*];
    };
}

rows! {
    Set "set" Command(Storage, "key flags exptime bytes [noreply]",
        "Stores a value.");
    Add "add" Command(Storage, "key flags exptime bytes [noreply]",
        "Stores a value if there is no record.");
    Replace "replace" Command(Storage, "key flags exptime bytes [noreply]",
        "Stores a value if there is a record.");
    Append "append" Command(Storage, "key flags exptime bytes [noreply]",
        "Appends bytes to a value; flags and expiry do not change.");
    Prepend "prepend" Command(Storage, "key flags exptime bytes [noreply]",
        "Prepends bytes to a value; flags and expiry do not change.");
    Cas "cas" Command(Storage, "key flags exptime bytes token [noreply]",
        "Stores a value if the record has not changed since its token was read.");
    CasMiss "cas_miss" Outcome;
    CasBadval "cas_badval" Outcome;
    Get "get" Command(Retrieval, "key... | mio:range-search from to limit asc|desc",
        "Returns the values of keys, or of a range of keys.");
    Gets "gets" Command(Retrieval, "key... | mio:range-search from to limit asc|desc",
        "Returns the values and the tokens for cas of keys, or of a range of keys.");
    Gat "gat" Command(Retrieval, "exptime key...",
        "Returns values and sets the expiry of the records.");
    Gats "gats" Command(Retrieval, "exptime key...",
        "Returns values with their tokens and sets the expiry of the records.");
    Delete "delete" Command(Deletion, "key [0] [noreply]",
        "Removes a record.");
    DeleteMiss "delete_miss" Outcome;
    Incr "incr" Command(Arithmetic, "key number [noreply]",
        "Adds to an unsigned number of 64 bits, which wraps around.");
    IncrMiss "incr_miss" Outcome;
    Decr "decr" Command(Arithmetic, "key number [noreply]",
        "Subtracts from an unsigned number of 64 bits, which stops at 0.");
    DecrMiss "decr_miss" Outcome;
    Touch "touch" Command(Touch, "key exptime [noreply]",
        "Sets the expiry of a record.");
    TouchMiss "touch_miss" Outcome;
    Me "me" Command(Meta, "key [b]",
        "Returns metadata of a record.");
    Mg "mg" Command(Meta, "key flag...",
        "Returns what the flags select: value, token, time to live, and so on; can grant leases.");
    Ms "ms" Command(Meta, "key bytes flag...",
        "Stores, adds, replaces, appends or prepends, depending on the mode flag.");
    Md "md" Command(Meta, "key flag...",
        "Removes a record or marks it as stale.");
    MdMiss "md_miss" Outcome;
    Ma "ma" Command(Meta, "key flag...",
        "Increments or decrements a number; can create the record.");
    MaMiss "ma_miss" Outcome;
    MaDecr "ma_decr" Outcome;
    MaDecrMiss "ma_decr_miss" Outcome;
    Mn "mn" Command(Meta, "",
        "Answers `MN`, which marks the end of a sequence of quiet commands.");
    FlushAll "flush_all" Command(Server, "[exptime] [noreply]",
        "Removes all records of database 0, now or at a later time.");
    Version "version" Command(Server, "",
        "Returns the level of the protocol and the version of the server.");
    Verbosity "verbosity" Command(Server, "level [noreply]",
        "Answers `OK` and changes nothing.");
    Stats "stats" Command(Server, "[settings | items | slabs | sizes | conns | reset]",
        "Returns statistics of the server, or resets its counters.");
    Quit "quit" Command(Server, "",
        "Closes the connection.");
    Shutdown "shutdown" Command(Server, "[graceful]",
        "Refused: no client may stop the server.");
    Authenticate "authenticate" Outcome;
    Unknown "unknown" Outcome;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_distinct_names_in_order() {
        assert_eq!(COMMANDS.len(), KINDS.len());
        assert_eq!(COMMANDS[Row::Get as usize], "get");
        assert_eq!(COMMANDS[Row::Unknown as usize], "unknown");
        for (at, name) in COMMANDS.iter().enumerate() {
            assert!(!COMMANDS[..at].contains(name), "{name}");
        }
    }
}
