//! The formats of the replies of the store's commands.

/// The format of a command's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyFormat {
    /// Values and keys as bulk strings, numbers as integers, `none` as null, `done` as OK.
    Plain,
    /// `done` and `stored` are 1, `refused` is 0.
    OneOrZero,
    /// RENAME: a missing source is an error.
    Rename,
    /// RENAMENX: the same, with one or zero.
    RenameNx,
    /// EXISTS and TOUCH: how many of this many keys exist.
    Found(usize),
    /// TTL and PTTL, EXPIRETIME and PEXPIRETIME.
    Expiry {
        /// A moment rather than the time left.
        absolute: bool,
        /// Rounded to seconds.
        seconds: bool,
    },
    /// TYPE.
    Type,
    /// OBJECT ENCODING.
    Encoding,
    /// DEBUG OBJECT.
    DebugObject,
    /// The same number for every record.
    Always(i64),
    /// OBJECT FREQ.
    NotTracked,
    /// GETEX with an invalid expiry, which is an error only if the record exists.
    GetExFailure {
        /// The expiry is a number at least.
        integer: bool,
    },
    /// A page of SCAN with a TYPE that no key has.
    NoKeys,
    /// CLUSTER COUNTKEYSINSLOT: the number of keys in place of the list.
    ListLength,
    /// BITFIELD: a number that does not fit is null.
    Fields,
    /// RESTORE: an existing key is an error.
    Restore,
    /// RESTORE with a time to live that is invalid, which Redis finds after an existing key.
    RestoreFailure {
        /// The time to live is a number at least.
        integer: bool,
    },
    /// SORT: no elements if there is no key, otherwise an error.
    Sort {
        /// The number of elements is returned, not the elements.
        stores: bool,
    },
    /// RANGE and PREFIX.
    Range,
    /// The same with values: pairs in RESP3, a flat list in RESP2, as in ZRANGE WITHSCORES.
    Pairs,
}

/// The error of a command for a type that the value does not have.
pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

/// The error of RESTORE for a negative time to live.
pub(super) const INVALID_TTL: &str = "ERR Invalid TTL value, must be >= 0";

/// The error of RESTORE for a key that exists.
pub(super) const BUSY_KEY: &str = "BUSYKEY Target key name already exists.";

/// The error of a write for which there is no room.
pub(super) const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
