//! Commands on strings.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! strings {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Get { name: "get", handler: Store(strings::get), arity: 2, keys: READ, flags: READONLY | FAST, group: String,
            since: "1.0.0", syntax: "key", cost: "O(1)", summary: "Returns the value of a key." }
        Set { name: "set", handler: Store(strings::set), arity: -3, keys: MAY_MODIFY, flags: WRITE | DENYOOM,
            group: String, since: "1.0.0",
            syntax: "key value [NX|XX|IFEQ compared|IFNE compared] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
            cost: "O(1)",
            summary: "Stores a value, optionally under a condition and with an expiry; GET returns the old value." }
        SetNx { name: "setnx", handler: Store(strings::set_nx), arity: 3, keys: INSERT,
            flags: WRITE | DENYOOM | FAST | DEPRECATED, group: String, since: "1.0.0", syntax: "key value",
            cost: "O(1)", summary: "Stores a value if the key does not exist." }
        SetEx { name: "setex", handler: Store(strings::set_ex, TimeUnit::SECONDS), arity: 4, keys: OVERWRITE,
            flags: WRITE | DENYOOM | DEPRECATED, group: String, since: "2.0.0", syntax: "key seconds value",
            cost: "O(1)", summary: "Stores a value that expires, in seconds." }
        PSetEx { name: "psetex", handler: Store(strings::set_ex, TimeUnit::MILLISECONDS), arity: 4, keys: OVERWRITE,
            flags: WRITE | DENYOOM | DEPRECATED, group: String, since: "2.6.0", syntax: "key milliseconds value",
            cost: "O(1)", summary: "Stores a value that expires, in milliseconds." }
        GetSet { name: "getset", handler: Store(strings::get_set), arity: 3, keys: MODIFY,
            flags: WRITE | DENYOOM | FAST | DEPRECATED, group: String, since: "1.0.0", syntax: "key value",
            cost: "O(1)", summary: "Stores a value and returns the old one." }
        GetDel { name: "getdel", handler: Store(strings::get_del), arity: 2, keys: TAKE, flags: WRITE | FAST,
            group: String, since: "6.2.0", syntax: "key", cost: "O(1)",
            summary: "Removes a key and returns its value." }
        GetEx { name: "getex", handler: Store(strings::get_ex), arity: -2, keys: MODIFY, flags: WRITE | FAST,
            group: String, since: "6.2.0",
            syntax: "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]",
            cost: "O(1)", summary: "Returns the value of a key and changes its expiry." }
        Append { name: "append", handler: Store(strings::append), arity: 3, keys: EXTEND, flags: WRITE | DENYOOM | FAST,
            group: String, since: "2.0.0", syntax: "key value", cost: "O(n), n bytes of the whole value",
            summary: "Appends to a value; a missing value counts as empty." }
        StrLen { name: "strlen", handler: Store(strings::length), arity: 2, keys: LOOK, flags: READONLY | FAST,
            group: String, since: "2.2.0", syntax: "key", cost: "O(1)", summary: "Returns the length of a value in bytes." }
        GetRange { name: "getrange", handler: Store(strings::get_range), arity: 4, keys: READ, flags: READONLY,
            group: String, since: "2.4.0", syntax: "key start end", cost: "O(n), n bytes of the answer",
            summary: "Returns a part of a value by its first and last offset; negative offsets count from the end." }
        SubStr { name: "substr", handler: Store(strings::get_range), arity: 4, keys: READ, flags: READONLY | DEPRECATED,
            group: String, since: "1.0.0", syntax: "key start end", cost: "O(n), n bytes of the answer",
            summary: "The old name of GETRANGE." }
        SetRange { name: "setrange", handler: Store(strings::set_range), arity: 4, keys: UPDATE, flags: WRITE | DENYOOM,
            group: String, since: "2.2.0", syntax: "key offset value", cost: "O(n), n bytes of the whole value",
            summary: "Overwrites a part of a value from an offset on, and pads with zero bytes." }
        MGet { name: "mget", handler: Store(strings::get_many), arity: -2, keys: READ_EACH,
            flags: READONLY | FAST | MULTI_SHARD, group: String, since: "1.0.0", syntax: "key...", cost: "O(n), n keys",
            summary: "Returns the values of several keys, as one step." }
        MSet { name: "mset", handler: Pairs(strings::set_many, Condition::Always), arity: -3, keys: OVERWRITE_EACH,
            flags: WRITE | DENYOOM | MULTI_SHARD | ALL_SUCCEEDED, group: String, since: "1.0.1",
            syntax: "(key value)...", cost: "O(n), n keys", summary: "Stores several values as one step." }
        MSetNx { name: "msetnx", handler: Pairs(strings::set_many, Condition::IfAbsent), arity: -3, keys: INSERT_EACH,
            flags: WRITE | DENYOOM | MULTI_SHARD | AGG_MIN, group: String, since: "1.0.1", syntax: "(key value)...",
            cost: "O(n), n keys", summary: "Stores several values as one step, or none if one of the keys exists." }
        Incr { name: "incr", handler: Store(strings::add, 1), arity: 2, keys: MODIFY, flags: WRITE | DENYOOM | FAST,
            group: String, since: "1.0.0", syntax: "key", cost: "O(1)", summary: "Adds one to an integer." }
        Decr { name: "decr", handler: Store(strings::add, -1), arity: 2, keys: MODIFY, flags: WRITE | DENYOOM | FAST,
            group: String, since: "1.0.0", syntax: "key", cost: "O(1)", summary: "Subtracts one from an integer." }
        IncrBy { name: "incrby", handler: Store(strings::increase_by), arity: 3, keys: MODIFY,
            flags: WRITE | DENYOOM | FAST, group: String, since: "1.0.0", syntax: "key increment", cost: "O(1)",
            summary: "Adds to an integer." }
        DecrBy { name: "decrby", handler: Store(strings::decrease_by), arity: 3, keys: MODIFY,
            flags: WRITE | DENYOOM | FAST, group: String, since: "1.0.0", syntax: "key decrement", cost: "O(1)",
            summary: "Subtracts from an integer." }
        IncrByFloat { name: "incrbyfloat", handler: Store(strings::increase_by_float), arity: 3, keys: MODIFY,
            flags: WRITE | DENYOOM | FAST, group: String, since: "2.6.0", syntax: "key float", cost: "O(1)",
            summary: "Adds to a decimal number." }
        Lcs { name: "lcs", handler: Store(strings::lcs), arity: -3, keys: READ_TWO, flags: READONLY, group: String,
            since: "7.0.0", syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
            cost: "O(n*m), n and m bytes of the values", summary: "Returns the longest common subsequence of two values." }
    ] $($then)+ } };
}
pub(crate) use strings;
