//! The commands as data: their names, arguments, effects, rows of statistics, and what they do to
//! records.

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
#[cfg(test)]
use todana_protocol::Class;

macro_rules! rows {
    ($($row:ident $name:literal $class:ident $kind:expr;)*) => {
        /// A row of the statistics of commands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Row { $($row,)* }

        /// Names of the commands, in the order of their statistics. Some rows count the calls of a
        /// command with a certain outcome (`incr_miss`); the row of the command itself then counts
        /// its other calls.
        pub const COMMANDS: &[&str] = &[$($name,)*];

        /// What requests of each row do to records.
        #[cfg(test)]
        pub(super) const CLASSES: &[(Row, Class)] = &[$((Row::$row, Class::$class),)*];

        /// What each row counts.
        #[cfg(test)]
        pub(super) const KINDS: &[Kind] = &[$($kind,)*];
    };
}

rows! {
    Set "set" Write Command(Storage, "key flags exptime bytes [noreply]",
        "Stores a value.");
    Add "add" Write Command(Storage, "key flags exptime bytes [noreply]",
        "Stores a value if there is no record.");
    Replace "replace" Write Command(Storage, "key flags exptime bytes [noreply]",
        "Stores a value if there is a record.");
    Append "append" Write Command(Storage, "key flags exptime bytes [noreply]",
        "Appends bytes to a value; flags and expiry do not change.");
    Prepend "prepend" Write Command(Storage, "key flags exptime bytes [noreply]",
        "Prepends bytes to a value; flags and expiry do not change.");
    Cas "cas" Write Command(Storage, "key flags exptime bytes token [noreply]",
        "Stores a value if the record has not changed since its token was read.");
    CasMiss "cas_miss" Write Outcome;
    CasBadval "cas_badval" Write Outcome;
    Get "get" Read Command(Retrieval, "key... | mio:range-search from to limit asc|desc",
        "Returns the values of keys, or of a range of keys.");
    Gets "gets" Read Command(Retrieval, "key... | mio:range-search from to limit asc|desc",
        "Returns the values and the tokens for cas of keys, or of a range of keys.");
    Gat "gat" Write Command(Retrieval, "exptime key...",
        "Returns values and sets the expiry of the records.");
    Gats "gats" Write Command(Retrieval, "exptime key...",
        "Returns values with their tokens and sets the expiry of the records.");
    Delete "delete" Write Command(Deletion, "key [0] [noreply]",
        "Removes a record.");
    DeleteMiss "delete_miss" Write Outcome;
    Incr "incr" Write Command(Arithmetic, "key number [noreply]",
        "Adds to an unsigned number of 64 bits, which wraps around.");
    IncrMiss "incr_miss" Write Outcome;
    Decr "decr" Write Command(Arithmetic, "key number [noreply]",
        "Subtracts from an unsigned number of 64 bits, which stops at 0.");
    DecrMiss "decr_miss" Write Outcome;
    Touch "touch" Write Command(Touch, "key exptime [noreply]",
        "Sets the expiry of a record.");
    TouchMiss "touch_miss" Write Outcome;
    Me "me" Read Command(Meta, "key [b]",
        "Returns metadata of a record.");
    Mg "mg" Write Command(Meta, "key flag...",
        "Returns what the flags select: value, token, time to live, and so on; can grant leases.");
    Ms "ms" Write Command(Meta, "key bytes flag...",
        "Stores, adds, replaces, appends or prepends, depending on the mode flag.");
    Md "md" Write Command(Meta, "key flag...",
        "Removes a record or marks it as stale.");
    MdMiss "md_miss" Write Outcome;
    Ma "ma" Write Command(Meta, "key flag...",
        "Increments or decrements a number; can create the record.");
    MaMiss "ma_miss" Write Outcome;
    MaDecr "ma_decr" Write Outcome;
    MaDecrMiss "ma_decr_miss" Write Outcome;
    Mn "mn" Local Command(Meta, "",
        "Answers `MN`, which marks the end of a sequence of quiet commands.");
    FlushAll "flush_all" Write Command(Server, "[exptime] [noreply]",
        "Removes all records of database 0, now or at a later time.");
    Version "version" Local Command(Server, "",
        "Returns the level of the protocol and the version of the server.");
    Verbosity "verbosity" Local Command(Server, "level [noreply]",
        "Answers `OK` and changes nothing.");
    Stats "stats" Local Command(Server,
        "[settings | items | slabs | sizes | conns | detail on|off|dump | reset]",
        "Returns statistics of the server, counts requests by the prefix of their key, or resets \
         the counters.");
    Quit "quit" Local Command(Server, "",
        "Closes the connection.");
    Shutdown "shutdown" Local Command(Server, "[graceful]",
        "Refused: no client may stop the server.");
    Authenticate "authenticate" Local Outcome;
    Unknown "unknown" Local Outcome;
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
