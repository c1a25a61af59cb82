//! The commands, as data. It feeds look-up, arity and key checks, dispatch, `COMMAND`, the
//! documentation and the fuzzer's dictionary.
//!
//! Each row names what handles its command ([`dispatch`](super::dispatch) calls it):
//!
//! | handler | |
//! |---|---|
//! | `Store(function, arguments...)` | the function makes a command for the store |
//! | `Pairs(function, arguments...)` | the same, of a request with keys and values in turn |
//! | `Seeded(function, arguments...)` | the same, of a request with a random number |
//! | `Named(function, arguments...)` | the same, of a request with the source that it names |
//! | `Session(effort, method, arguments...)` | the method of [`Call`](super::call::Call) answers |
//! | `Container` | a subcommand, whose row follows, handles the request |
//!
//! The effort says what the answer counts in EXEC ([`Effort`](super::work::Effort)).

use super::spec::*;

/// Passes all rows to the macro `$with`.
#[rustfmt::skip]
macro_rules! each_command {
    ($with:ident) => { $with! {
        // ---- strings ----
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

        // ---- bits ----
        SetBit { name: "setbit", handler: Store(bits::set), arity: 4, keys: MODIFY, flags: WRITE | DENYOOM,
            group: Bitmap, since: "2.2.0", syntax: "key offset bit", cost: "O(n), n bytes of the whole value",
            summary: "Sets one bit of a value and returns the old bit." }
        GetBit { name: "getbit", handler: Store(bits::get), arity: 3, keys: READ, flags: READONLY | FAST, group: Bitmap,
            since: "2.2.0", syntax: "key offset", cost: "O(1)", summary: "Returns one bit of a value." }
        BitCount { name: "bitcount", handler: Store(bits::count), arity: -2, keys: READ, flags: READONLY, group: Bitmap,
            since: "2.6.0", syntax: "key [start end [BYTE|BIT]]", cost: "O(n), n bytes of the span",
            summary: "Counts the bits that are set in a value or a range of it." }
        BitPos { name: "bitpos", handler: Store(bits::position), arity: -3, keys: READ, flags: READONLY, group: Bitmap,
            since: "2.8.7", syntax: "key bit [start [end [BYTE|BIT]]]", cost: "O(n), n bytes of the span",
            summary: "Returns the position of the first bit that is set, or clear." }

        BitOp { name: "bitop", handler: Store(bits::operation), arity: -4, keys: COMBINE, flags: WRITE | DENYOOM,
            group: Bitmap, since: "2.6.0", syntax: "operation destkey key...",
            cost: "O(n), n bytes of the values",
            summary: "Combines values bit by bit (AND, OR, XOR, NOT, DIFF, DIFF1, ANDOR, ONE) and stores the result." }
        BitField { name: "bitfield", handler: Store(bits::fields, false), arity: -2, keys: MAY_MODIFY,
            flags: WRITE | DENYOOM, group: Bitmap, since: "3.2.0",
            syntax: "key [(GET encoding offset)|([OVERFLOW WRAP|SAT|FAIL] (SET encoding offset value)|(INCRBY encoding offset increment))...]",
            cost: "O(n), n operations", summary: "Reads and changes integers of any width at any bit of a value." }
        BitFieldRo { name: "bitfield_ro", handler: Store(bits::fields, true), arity: -2, keys: READ,
            flags: READONLY | FAST, group: Bitmap, since: "6.0.0", syntax: "key [GET encoding offset...]",
            cost: "O(n), n operations", summary: "Reads integers of any width at any bit of a value." }

        // ---- hyperloglogs ----
        PfAdd { name: "pfadd", handler: Store(sketches::add), arity: -2, keys: ADD, flags: WRITE | DENYOOM | FAST,
            group: HyperLogLog, since: "2.8.9", syntax: "key [element...]", cost: "O(n), n elements",
            summary: "Adds elements to a HyperLogLog; returns 1 if its estimate may have changed." }
        PfCount { name: "pfcount", handler: Store(sketches::count), arity: -2, keys: READ_EACH, flags: READONLY,
            group: HyperLogLog, since: "2.8.9", syntax: "key...", cost: "O(n), n keys",
            summary: "Estimates the number of different elements in HyperLogLogs." }
        PfMerge { name: "pfmerge", handler: Store(sketches::merge), arity: -2, keys: MERGE, flags: WRITE | DENYOOM,
            group: HyperLogLog, since: "2.8.9", syntax: "destkey [sourcekey...]", cost: "O(n), n keys",
            summary: "Adds the elements of HyperLogLogs to another one." }

        // ---- keys ----
        Del { name: "del", handler: Store(keys::delete), arity: -2, keys: REMOVE_EACH,
            flags: WRITE | MULTI_SHARD | AGG_SUM, group: Generic, since: "1.0.0", syntax: "key...",
            cost: "O(n), n keys", summary: "Removes keys, as one step." }
        DelEx { name: "delex", handler: Store(keys::delete_if), arity: -2, keys: REMOVE, flags: WRITE | FAST,
            group: String, since: "8.4.0", syntax: "key [IFEQ value|IFNE value]", cost: "O(n), n bytes of the value",
            summary: "Removes a key if its value is equal to a given one, or is not, as one step." }
        DelIfEq { name: "delifeq", handler: Store(keys::delete_if_equal), arity: 3, keys: REMOVE, flags: WRITE | FAST,
            group: String, since: "9.0.0", syntax: "key value", cost: "O(n), n bytes of the value",
            summary: "Removes a key if its value is equal to the given one: a command of Valkey." }
        Unlink { name: "unlink", handler: Store(keys::delete), arity: -2, keys: REMOVE_EACH,
            flags: WRITE | FAST | MULTI_SHARD | AGG_SUM, group: Generic, since: "4.0.0", syntax: "key...",
            cost: "O(n), n keys", summary: "Removes keys, as DEL does." }
        Exists { name: "exists", handler: Store(keys::exists), arity: -2, keys: LOOK_EACH,
            flags: READONLY | FAST | MULTI_SHARD | AGG_SUM, group: Generic, since: "1.0.0", syntax: "key...",
            cost: "O(n), n keys", summary: "Counts the keys that exist; a repeated key counts each time." }
        Expire { name: "expire", handler: Store(keys::expire, TimeUnit::SECONDS), arity: -3, keys: UPDATE,
            flags: WRITE | FAST, group: Generic, since: "1.0.0", syntax: "key seconds [NX|XX|GT|LT]", cost: "O(1)",
            summary: "Sets the time to live of a key in seconds." }
        PExpire { name: "pexpire", handler: Store(keys::expire, TimeUnit::MILLISECONDS), arity: -3, keys: UPDATE,
            flags: WRITE | FAST, group: Generic, since: "2.6.0", syntax: "key milliseconds [NX|XX|GT|LT]", cost: "O(1)",
            summary: "Sets the time to live of a key in milliseconds." }
        ExpireAt { name: "expireat", handler: Store(keys::expire, TimeUnit::AT_SECONDS), arity: -3, keys: UPDATE,
            flags: WRITE | FAST, group: Generic, since: "1.2.0", syntax: "key unix-time-seconds [NX|XX|GT|LT]",
            cost: "O(1)", summary: "Sets the expiry of a key to a Unix time in seconds." }
        PExpireAt { name: "pexpireat", handler: Store(keys::expire, TimeUnit::AT_MILLISECONDS), arity: -3, keys: UPDATE,
            flags: WRITE | FAST, group: Generic, since: "2.6.0", syntax: "key unix-time-milliseconds [NX|XX|GT|LT]",
            cost: "O(1)", summary: "Sets the expiry of a key to a Unix time in milliseconds." }
        Ttl { name: "ttl", handler: Store(keys::expiry, TimeUnit::SECONDS), arity: 2, keys: READ,
            flags: READONLY | FAST | RANDOM, group: Generic, since: "1.0.0", syntax: "key", cost: "O(1)",
            summary: "Returns the time to live in seconds: -1 if the key does not expire, -2 if there is no such key." }
        PTtl { name: "pttl", handler: Store(keys::expiry, TimeUnit::MILLISECONDS), arity: 2, keys: READ,
            flags: READONLY | FAST | RANDOM, group: Generic, since: "2.6.0", syntax: "key", cost: "O(1)",
            summary: "TTL in milliseconds." }
        ExpireTime { name: "expiretime", handler: Store(keys::expiry, TimeUnit::AT_SECONDS), arity: 2, keys: READ,
            flags: READONLY | FAST, group: Generic, since: "7.0.0", syntax: "key", cost: "O(1)",
            summary: "Returns the expiry as a Unix time in seconds: -1 if the key does not expire, -2 if there is no such key." }
        PExpireTime { name: "pexpiretime", handler: Store(keys::expiry, TimeUnit::AT_MILLISECONDS), arity: 2,
            keys: READ, flags: READONLY | FAST, group: Generic, since: "7.0.0", syntax: "key", cost: "O(1)",
            summary: "EXPIRETIME in milliseconds." }
        Persist { name: "persist", handler: Store(keys::persist), arity: 2, keys: UPDATE, flags: WRITE | FAST,
            group: Generic, since: "2.2.0", syntax: "key", cost: "O(1)", summary: "Removes the expiry of a key." }
        Type { name: "type", handler: Store(keys::kind), arity: 2, keys: LOOK, flags: READONLY | FAST, group: Generic,
            since: "1.0.0", syntax: "key", cost: "O(1)", summary: "Returns the type of a key's value: string or none." }
        KeysOf { name: "keys", handler: Store(keys::matching), arity: 2, keys: NO_KEYS,
            flags: READONLY | DANGEROUS | ALL_SHARDS | UNORDERED, group: Generic, since: "1.0.0", syntax: "pattern",
            cost: "O(n), n keys in the database", summary: "Returns all keys that match a pattern." }
        Scan { name: "scan", handler: Store(keys::scan), arity: -2, keys: NO_KEYS,
            flags: READONLY | RANDOM | SPECIAL_REQUEST, group: Generic, since: "2.8.0",
            syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]", cost: "O(1) per call, O(n) for all n keys",
            summary: "Returns a page of keys; a key that exists from the first page to the last is in one of them." }
        Range { name: "range", handler: Store(range::between), arity: -3, keys: NO_KEYS,
            flags: READONLY | OWN | ALL_SHARDS | SPECIAL_RESPONSE, group: Generic, since: "0.1.0",
            syntax: "from to [REV] [LIMIT limit] [AFTER last-key] [WITHVALUES]",
            cost: "O(log n + m), m keys of the answer",
            summary: "Returns the keys of an ordered database between two keys, both included; an empty key stands for the end of the database." }
        Prefix { name: "prefix", handler: Store(range::prefix), arity: -2, keys: NO_KEYS,
            flags: READONLY | OWN | ALL_SHARDS | SPECIAL_RESPONSE, group: Generic, since: "0.1.0",
            syntax: "beginning [REV] [LIMIT limit] [AFTER last-key] [WITHVALUES]",
            cost: "O(log n + m), m keys of the answer",
            summary: "Returns the keys of an ordered database that begin with these bytes, in order." }
        RandomKey { name: "randomkey", handler: Seeded(keys::random), arity: 1, keys: NO_KEYS,
            flags: READONLY | ALL_SHARDS | RANDOM, group: Generic, since: "1.0.0", syntax: "",
            cost: "O(1), O(shards) with few keys", summary: "Returns a random key; all are about equally likely." }
        RenameTo { name: "rename", handler: Store(keys::rename), arity: 3, keys: RENAME, flags: WRITE, group: Generic,
            since: "1.0.0", syntax: "key newkey", cost: "O(n), n bytes of the value",
            summary: "Renames a key, and replaces an existing destination." }
        RenameNx { name: "renamenx", handler: Store(keys::rename_if_absent), arity: 3, keys: RENAME_NX,
            flags: WRITE | FAST, group: Generic, since: "1.0.0", syntax: "key newkey",
            cost: "O(n), n bytes of the value", summary: "Renames a key if the destination does not exist." }
        CopyTo { name: "copy", handler: Store(keys::copy), arity: -3, keys: COPY, flags: WRITE | DENYOOM,
            group: Generic, since: "6.2.0", syntax: "source destination [DB destination-db] [REPLACE]",
            cost: "O(n), n bytes of the value", summary: "Copies a value and its expiry to another key." }
        Move { name: "move", handler: Store(keys::move_to), arity: 3, keys: MODIFY, flags: WRITE | FAST, group: Generic,
            since: "1.0.0", syntax: "key db", cost: "O(n), n bytes of the value",
            summary: "Moves a key to another database." }
        Touch { name: "touch", handler: Store(keys::touch), arity: -2, keys: LOOK_EACH,
            flags: READONLY | FAST | MULTI_SHARD | AGG_SUM, group: Generic, since: "3.2.1", syntax: "key...",
            cost: "O(n), n keys", summary: "Marks keys as used, and counts them." }
        DbSize { name: "dbsize", handler: Store(keys::count), arity: 1, keys: NO_KEYS,
            flags: READONLY | FAST | KEYSPACE | ALL_SHARDS | AGG_SUM, group: Server, since: "1.0.0", syntax: "",
            cost: "O(1)", summary: "Returns the number of keys in the database." }
        Dump { name: "dump", handler: Store(dump::dump), arity: 2, keys: READ, flags: READONLY | RANDOM,
            group: Generic, since: "2.6.0", syntax: "key", cost: "O(n), n bytes of the value",
            summary: "Returns a value in the form that RESTORE accepts, here and in Redis." }
        Restore { name: "restore", handler: Store(dump::restore), arity: -4, keys: OVERWRITE,
            flags: WRITE | DENYOOM | DANGEROUS, group: Generic, since: "2.6.0",
            syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
            cost: "O(n), n bytes of the value", summary: "Stores a value that DUMP returned, here or in Redis." }
        Sort { name: "sort", handler: Store(sort::sort, false), arity: -2, keys: READ,
            flags: WRITE | DENYOOM | DANGEROUS, group: Generic, since: "1.0.0",
            syntax: "key [BY pattern] [LIMIT offset count] [GET pattern...] [ASC|DESC] [ALPHA] [STORE destination]",
            cost: "O(1)", summary: "Returns no elements of a missing key; there is nothing else that could be sorted." }
        SortRo { name: "sort_ro", handler: Store(sort::sort, true), arity: -2, keys: READ,
            flags: READONLY | DANGEROUS, group: Generic, since: "7.0.0",
            syntax: "key [BY pattern] [LIMIT offset count] [GET pattern...] [ASC|DESC] [ALPHA]",
            cost: "O(1)", summary: "SORT without STORE." }
        FlushDb { name: "flushdb", handler: Store(keys::flush_database), arity: -1, keys: NO_KEYS,
            flags: WRITE | KEYSPACE | DANGEROUS | ALL_SHARDS | ALL_SUCCEEDED, group: Server, since: "1.0.0",
            syntax: "[ASYNC|SYNC]", cost: "O(n), n keys in the database", summary: "Removes all keys of the database." }
        FlushAll { name: "flushall", handler: Store(keys::flush_all), arity: -1, keys: NO_KEYS,
            flags: WRITE | KEYSPACE | DANGEROUS | ALL_SHARDS | ALL_SUCCEEDED, group: Server, since: "1.0.0",
            syntax: "[ASYNC|SYNC]", cost: "O(n), n keys", summary: "Removes all keys of all databases." }
        SwapDb { name: "swapdb", handler: Store(keys::swap_databases), arity: 3, keys: NO_KEYS,
            flags: WRITE | FAST | KEYSPACE | DANGEROUS, group: Server, since: "4.0.0", syntax: "index1 index2",
            cost: "O(1)", summary: "Exchanges two databases." }
        Object { name: "object", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Generic,
            since: "2.2.3", syntax: "", cost: "", summary: "Inspects the value of a key." }
        ObjectEncoding { name: "object|encoding", handler: Store(keys::object, ReplyFormat::Encoding), arity: 3,
            keys: LOOK_SECOND, flags: READONLY | RANDOM, group: Generic, since: "2.2.3", syntax: "key", cost: "O(1)",
            summary: "Returns the encoding that Redis would use: int, embstr or raw." }
        ObjectFreq { name: "object|freq", handler: Store(keys::object, ReplyFormat::Untold), arity: 3,
            keys: LOOK_SECOND, flags: READONLY | RANDOM, group: Generic, since: "4.0.0", syntax: "key", cost: "O(1)",
            summary: "Refused: the server does not report how often a key is used." }
        ObjectHelp { name: "object|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Generic, since: "6.2.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ObjectIdleTime { name: "object|idletime", handler: Store(keys::object, ReplyFormat::Always(0)), arity: 3,
            keys: LOOK_SECOND, flags: READONLY | RANDOM, group: Generic, since: "2.2.3", syntax: "key", cost: "O(1)",
            summary: "Returns the seconds since the last access; always 0, because accesses are not recorded." }
        ObjectRefCount { name: "object|refcount", handler: Store(keys::object, ReplyFormat::Always(1)), arity: 3,
            keys: LOOK_SECOND, flags: READONLY | RANDOM, group: Generic, since: "2.2.3", syntax: "key", cost: "O(1)",
            summary: "Returns the number of references to the value; always 1." }

        // ---- transactions ----
        Multi { name: "multi", handler: Session(Words, multi), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | ALLOW_BUSY | IMMEDIATE, group: Transactions, since: "1.2.0", syntax: "",
            cost: "O(1)", summary: "Starts a transaction: following commands are queued." }
        Exec { name: "exec", handler: Session(Words, exec), arity: 1, keys: NO_KEYS,
            flags: SESSION | SKIP_SLOWLOG | IMMEDIATE, group: Transactions, since: "1.2.0", syntax: "",
            cost: "that of the queued commands",
            summary: "Executes the queued commands as one step, unless a watched key has changed." }
        Discard { name: "discard", handler: Session(Words, discard), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | ALLOW_BUSY | IMMEDIATE, group: Transactions, since: "2.0.0", syntax: "",
            cost: "O(n), n queued commands", summary: "Drops the queued commands and the watched keys." }
        Watch { name: "watch", handler: Session(Words, watch), arity: -2, keys: LOOK_EACH,
            flags: SESSION | FAST | ALLOW_BUSY | IMMEDIATE, group: Transactions, since: "2.2.0", syntax: "key...",
            cost: "O(n), n keys", summary: "Makes the next EXEC fail if one of these keys changes." }
        Unwatch { name: "unwatch", handler: Session(Words, unwatch), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | ALLOW_BUSY, group: Transactions, since: "2.2.0", syntax: "",
            cost: "O(n), n watched keys", summary: "Drops the watched keys." }

        // ---- scripting ----
        Eval { name: "eval", handler: Store(scripts::eval, false), arity: -3, keys: COUNTED,
            flags: NOSCRIPT | STALE | MOVABLE_KEYS, group: Scripting, since: "2.6.0",
            syntax: "script numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script in Lua, which may access the given keys." }
        EvalRo { name: "eval_ro", handler: Store(scripts::eval, true), arity: -3, keys: READ_COUNTED,
            flags: READONLY | NOSCRIPT | STALE | MOVABLE_KEYS, group: Scripting, since: "7.0.0",
            syntax: "script numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script in Lua, which may read the given keys." }
        EvalSha { name: "evalsha", handler: Named(scripts::eval_named, false), arity: -3, keys: COUNTED,
            flags: NOSCRIPT | STALE | MOVABLE_KEYS, group: Scripting, since: "2.6.0",
            syntax: "sha1 numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script that this node has run or loaded, by the SHA-1 of its source." }
        EvalShaRo { name: "evalsha_ro", handler: Named(scripts::eval_named, true), arity: -3, keys: READ_COUNTED,
            flags: READONLY | NOSCRIPT | STALE | MOVABLE_KEYS, group: Scripting, since: "7.0.0",
            syntax: "sha1 numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script that this node has run or loaded, which may read the given keys." }
        Script { name: "script", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Scripting,
            since: "2.6.0", syntax: "", cost: "", summary: "Loads and forgets scripts." }
        ScriptExists { name: "script|exists", handler: Session(Words, script_exists), arity: -3, keys: NO_KEYS,
            flags: NOSCRIPT, group: Scripting, since: "2.6.0", syntax: "sha1...", cost: "O(n), n names",
            summary: "Returns whether this node knows the scripts." }
        ScriptFlush { name: "script|flush", handler: Session(Words, script_flush), arity: -2, keys: NO_KEYS,
            flags: NOSCRIPT, group: Scripting, since: "2.6.0", syntax: "[ASYNC|SYNC]", cost: "O(n), n scripts",
            summary: "Forgets all scripts that this node knows." }
        ScriptHelp { name: "script|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Scripting, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ScriptKill { name: "script|kill", handler: Session(Words, script_kill), arity: 2, keys: NO_KEYS,
            flags: NOSCRIPT | ALLOW_BUSY, group: Scripting, since: "2.6.0", syntax: "", cost: "O(1)",
            summary: "Always refused: a script ends by itself, or by its limits, before another request is read." }
        ScriptLoad { name: "script|load", handler: Session(Words, script_load), arity: 3, keys: NO_KEYS,
            flags: NOSCRIPT | STALE, group: Scripting, since: "2.6.0", syntax: "script",
            cost: "O(n), n bytes of the script", summary: "Compiles a script, keeps it on this node, and returns its SHA-1." }

        Function { name: "function", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Scripting,
            since: "7.0.0", syntax: "", cost: "", summary: "Functions, of which there are none." }
        FunctionDelete { name: "function|delete", handler: Session(Words, function_delete), arity: 3, keys: NO_KEYS,
            flags: NOSCRIPT | ALL_SHARDS | ALL_SUCCEEDED, group: Scripting, since: "7.0.0", syntax: "library-name",
            cost: "O(1)", summary: "Always an error: there is no library." }
        FunctionFlush { name: "function|flush", handler: Session(Words, function_flush), arity: -2, keys: NO_KEYS,
            flags: NOSCRIPT | ALL_SHARDS | ALL_SUCCEEDED, group: Scripting, since: "7.0.0", syntax: "[ASYNC|SYNC]",
            cost: "O(1)", summary: "Accepted without effect, because there is no function." }
        FunctionHelp { name: "function|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS,
            flags: ANYTIME, group: Scripting, since: "7.0.0", syntax: "", cost: "O(1)",
            summary: "Lists the subcommands." }
        FunctionKill { name: "function|kill", handler: Session(Words, script_kill), arity: 2, keys: NO_KEYS,
            flags: NOSCRIPT | ALLOW_BUSY, group: Scripting, since: "7.0.0", syntax: "", cost: "O(1)",
            summary: "Always refused, as SCRIPT KILL is." }
        FunctionList { name: "function|list", handler: Session(Words, function_list), arity: -2, keys: NO_KEYS,
            flags: NOSCRIPT | UNORDERED, group: Scripting, since: "7.0.0",
            syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]", cost: "O(1)", summary: "Returns an empty list." }
        FunctionStats { name: "function|stats", handler: Session(Words, function_stats), arity: 2, keys: NO_KEYS,
            flags: NOSCRIPT | ALLOW_BUSY | RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Scripting, since: "7.0.0",
            syntax: "", cost: "O(1)", summary: "Returns that no function runs, and that there is none." }

        // ---- publish and subscribe ----
        Subscribe { name: "subscribe", handler: Session(Words, subscribe, Topic::Channel), arity: -2, keys: NO_KEYS,
            flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "channel...", cost: "O(n), n channels",
            summary: "Subscribes to channels." }
        PSubscribe { name: "psubscribe", handler: Session(Words, subscribe, Topic::Pattern), arity: -2, keys: NO_KEYS,
            flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "pattern...", cost: "O(n), n patterns",
            summary: "Subscribes to all channels whose names match patterns." }
        SSubscribe { name: "ssubscribe", handler: Session(Words, subscribe, Topic::Shard), arity: -2, keys: NO_KEYS,
            flags: SESSION | PUBSUB, group: PubSub, since: "7.0.0", syntax: "shardchannel...", cost: "O(n), n channels",
            summary: "Subscribes to sharded channels." }
        Unsubscribe { name: "unsubscribe", handler: Session(Words, unsubscribe, Topic::Channel), arity: -1,
            keys: NO_KEYS, flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "[channel...]",
            cost: "O(n), n channels", summary: "Ends the subscriptions to channels, or to all." }
        PUnsubscribe { name: "punsubscribe", handler: Session(Words, unsubscribe, Topic::Pattern), arity: -1,
            keys: NO_KEYS, flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "[pattern...]",
            cost: "O(n), n patterns", summary: "Ends the subscriptions to patterns, or to all." }
        SUnsubscribe { name: "sunsubscribe", handler: Session(Words, unsubscribe, Topic::Shard), arity: -1,
            keys: NO_KEYS, flags: SESSION | PUBSUB, group: PubSub, since: "7.0.0", syntax: "[shardchannel...]",
            cost: "O(n), n channels", summary: "Ends the subscriptions to sharded channels, or to all." }
        Publish { name: "publish", handler: Session(Publish, publish, Topic::Channel), arity: 3, keys: NO_KEYS,
            flags: ANYTIME | FAST | PUBSUB, group: PubSub, since: "2.0.0", syntax: "channel message",
            cost: "O(n+m), n subscribers of the channel, m patterns",
            summary: "Sends a message to the subscribers of a channel, on all nodes of the cluster; returns the number of those on this node." }
        SPublish { name: "spublish", handler: Session(Publish, publish, Topic::Shard), arity: 3, keys: NO_KEYS,
            flags: ANYTIME | FAST | PUBSUB, group: PubSub, since: "7.0.0", syntax: "shardchannel message",
            cost: "O(n), n subscribers of the channel",
            summary: "Sends a message to the subscribers of a sharded channel, on all nodes of the cluster." }
        PubSub { name: "pubsub", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: PubSub,
            since: "2.8.0", syntax: "", cost: "", summary: "Describes the channels of this node." }
        PubSubChannels { name: "pubsub|channels", handler: Session(Topics, topics, Topic::Channel), arity: -2,
            keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "2.8.0", syntax: "[pattern]",
            cost: "O(n), n channels", summary: "Returns the channels that have subscribers." }
        PubSubHelp { name: "pubsub|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: PubSub, since: "6.2.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        PubSubNumPat { name: "pubsub|numpat", handler: Session(Words, pattern_count), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | PUBSUB, group: PubSub, since: "2.8.0", syntax: "", cost: "O(1)",
            summary: "Returns the number of different patterns." }
        PubSubNumSub { name: "pubsub|numsub", handler: Session(Words, subscriber_counts, Topic::Channel), arity: -2,
            keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "2.8.0", syntax: "[channel...]",
            cost: "O(n), n channels", summary: "Returns the numbers of subscribers of channels." }
        PubSubShardChannels { name: "pubsub|shardchannels", handler: Session(Topics, topics, Topic::Shard), arity: -2,
            keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "7.0.0", syntax: "[pattern]",
            cost: "O(n), n channels", summary: "Returns the sharded channels that have subscribers." }
        PubSubShardNumSub { name: "pubsub|shardnumsub", handler: Session(Words, subscriber_counts, Topic::Shard),
            arity: -2, keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "7.0.0",
            syntax: "[shardchannel...]", cost: "O(n), n channels",
            summary: "Returns the numbers of subscribers of sharded channels." }

        // ---- connection ----
        Hello { name: "hello", handler: Session(Words, hello), arity: -1, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY, group: Connection, since: "6.0.0",
            syntax: "[protover [AUTH username password] [SETNAME clientname]]", cost: "O(1)",
            summary: "Selects the protocol version, and returns properties of the server." }
        Auth { name: "auth", handler: Session(Words, auth), arity: -2, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY, group: Connection, since: "1.0.0",
            syntax: "[username] password", cost: "O(1)", summary: "Authenticates the connection." }
        Ping { name: "ping", handler: Session(Words, ping), arity: -1, keys: NO_KEYS,
            flags: FAST | ALL_SHARDS | ALL_SUCCEEDED, group: Connection, since: "1.0.0", syntax: "[message]",
            cost: "O(1)", summary: "Returns PONG, or the message." }
        Echo { name: "echo", handler: Session(Words, echo), arity: 2, keys: NO_KEYS, flags: ANYTIME | FAST,
            group: Connection, since: "1.0.0", syntax: "message", cost: "O(1)", summary: "Returns the message." }
        Select { name: "select", handler: Session(Words, select), arity: 2, keys: NO_KEYS, flags: ANYTIME | FAST,
            group: Connection, since: "1.0.0", syntax: "index", cost: "O(1)", summary: "Selects a database, 0 to 15." }
        Quit { name: "quit", handler: Session(Words, quit), arity: -1, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY | DEPRECATED | IMMEDIATE, group: Connection, since: "1.0.0",
            syntax: "", cost: "O(1)", summary: "Closes the connection." }
        Reset { name: "reset", handler: Session(Words, reset), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY | IMMEDIATE, group: Connection, since: "6.2.0", syntax: "",
            cost: "O(1)", summary: "Resets the connection to its initial state." }
        ReadOnly { name: "readonly", handler: Session(Words, read_at, Some(ReadLevel::Local)), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | FAST, group: Connection, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "This connection reads the records as this node has them: TODANA.READ local." }
        ReadWrite { name: "readwrite", handler: Session(Words, read_at, None), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | FAST, group: Connection, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "This connection reads at the level of the option read_level again." }
        TodanaRead { name: "todana.read", handler: Session(Words, read_level), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | FAST | OWN, group: Connection, since: "0.1.0", syntax: "local|bounded|linear", cost: "O(1)",
            summary: "Sets how new the records must be that this connection reads, if the node belongs to a cluster." }
        TodanaIndex { name: "todana.index", handler: Session(Words, log_index), arity: 1, keys: NO_KEYS,
            flags: FAST | OWN, group: Connection, since: "0.1.0", syntax: "", cost: "O(1)",
            summary: "Returns the number of the last entry of the log that this node has applied. Writes that were answered before are in it." }
        TodanaAfter { name: "todana.after", handler: Session(Words, read_after), arity: -2, keys: NO_KEYS,
            flags: FAST | OWN, group: Connection, since: "0.1.0", syntax: "index [milliseconds]", cost: "O(1)",
            summary: "Waits until this node has applied an entry of the log, for at most 5000 milliseconds or those given." }
        Client { name: "client", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Connection,
            since: "2.4.0", syntax: "", cost: "", summary: "Connections." }
        ClientCaching { name: "client|caching", handler: Session(Words, client_caching), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "6.0.0", syntax: "YES|NO", cost: "O(1)",
            summary: "Tracks the keys of the next command or transaction, or does not (CLIENT TRACKING with OPTIN or OPTOUT)." }
        ClientGetName { name: "client|getname", handler: Session(Words, client_get_name), arity: 2, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "2.6.9", syntax: "", cost: "O(1)",
            summary: "Returns the connection's name." }
        ClientGetRedir { name: "client|getredir", handler: Session(Words, client_get_redirect), arity: 2, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the client that receives the invalidations of this one: 0 if it receives them itself, -1 without tracking." }
        ClientHelp { name: "client|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Connection, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ClientId { name: "client|id", handler: Session(Words, client_id), arity: 2, keys: NO_KEYS, flags: SESSION,
            group: Connection, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Returns the connection's number." }
        ClientInfo { name: "client|info", handler: Session(Words, client_info), arity: 2, keys: NO_KEYS,
            flags: SESSION | RANDOM, group: Connection, since: "6.2.0", syntax: "", cost: "O(1)",
            summary: "Returns the connection's line of CLIENT LIST." }
        ClientKill { name: "client|kill", handler: Session(Clients, client_kill), arity: -3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Connection, since: "2.4.0",
            syntax: "old-format|([ID client-id] [TYPE normal|master|replica|pubsub] [USER username] [ADDR addr] [LADDR addr] [SKIPME yes|no] [MAXAGE maxage])",
            cost: "O(n), n connections", summary: "Closes connections." }
        ClientList { name: "client|list", handler: Session(ClientLines, client_list), arity: -2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM, group: Connection, since: "2.4.0",
            syntax: "[TYPE normal|master|replica|pubsub] [ID client-id...]", cost: "O(n), n connections",
            summary: "Lists connections." }
        ClientNoEvict { name: "client|no-evict", handler: Session(Words, client_no_evict), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Connection, since: "7.0.0", syntax: "ON|OFF", cost: "O(1)",
            summary: "Makes the server close this client last if all clients together hold too much memory." }
        ClientNoTouch { name: "client|no-touch", handler: Session(Words, client_no_touch), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "7.2.0", syntax: "ON|OFF", cost: "O(1)",
            summary: "Accepted without effect, because accesses are not recorded." }
        ClientPause { name: "client|pause", handler: Session(Words, client_pause), arity: -3, keys: NO_KEYS,
            flags: ADMIN | SESSION, group: Connection, since: "3.0.0", syntax: "timeout [WRITE|ALL]", cost: "O(1)",
            summary: "Has the requests of all clients wait for this number of milliseconds, or those that may write." }
        ClientReply { name: "client|reply", handler: Session(Words, client_reply), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "3.2.0", syntax: "ON|OFF|SKIP", cost: "O(1)",
            summary: "Switches replies on, off, or off for the next command." }
        ClientSetInfo { name: "client|setinfo", handler: Session(Words, client_set_info), arity: 4, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "7.2.0", syntax: "(LIB-NAME libname)|(LIB-VER libver)",
            cost: "O(1)", summary: "Sets the name or version of the client library." }
        ClientSetName { name: "client|setname", handler: Session(Words, client_set_name), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "2.6.9", syntax: "connection-name", cost: "O(1)",
            summary: "Sets the connection's name." }
        ClientTracking { name: "client|tracking", handler: Session(Words, client_tracking), arity: -3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "6.0.0",
            syntax: "ON|OFF [REDIRECT client-id] [PREFIX prefix...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]", cost: "O(1)",
            summary: "Sends this client an invalidation when a key changes that it has read." }
        ClientTrackingInfo { name: "client|trackinginfo", handler: Session(Words, client_tracking_info), arity: 2,
            keys: NO_KEYS, flags: SESSION, group: Connection, since: "6.2.0", syntax: "", cost: "O(1)",
            summary: "Returns the mode of CLIENT TRACKING." }
        ClientUnpause { name: "client|unpause", handler: Session(Words, client_unpause), arity: 2, keys: NO_KEYS,
            flags: ADMIN | SESSION, group: Connection, since: "6.2.0", syntax: "", cost: "O(1)",
            summary: "Ends CLIENT PAUSE." }

        // ---- server ----
        Info { name: "info", handler: Session(FiguresAndClients, info), arity: -1, keys: NO_KEYS,
            flags: ANYTIME | DANGEROUS | RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "1.0.0",
            syntax: "[section...]", cost: "O(1)", summary: "Returns statistics of the server by section." }
        Config { name: "config", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "2.0.0", syntax: "", cost: "", summary: "Accesses the options of the server." }
        ConfigGet { name: "config|get", handler: Session(OptionNames, config_get), arity: -3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "2.0.0", syntax: "parameter...", cost: "O(n), n patterns",
            summary: "Returns the options whose names match." }
        ConfigHelp { name: "config|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ConfigResetStat { name: "config|resetstat", handler: Session(Figures, config_reset_stat), arity: 2,
            keys: NO_KEYS, flags: OPERATE | NOSCRIPT, group: Server, since: "2.0.0", syntax: "", cost: "O(1)",
            summary: "Resets the counters to zero." }
        ConfigRewrite { name: "config|rewrite", handler: Session(Words, config_rewrite), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "2.8.0", syntax: "", cost: "O(1)",
            summary: "Refused: the server does not write the configuration file." }
        ConfigSet { name: "config|set", handler: Session(Options, config_set), arity: -4, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "2.0.0",
            syntax: "(parameter value)...", cost: "O(n), n options", summary: "Changes options of the running server." }
        Command { name: "command", handler: Session(Commands, command_info), arity: -1, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "2.8.13", syntax: "",
            cost: "O(n), n commands", summary: "Describes all commands." }
        CommandCount { name: "command|count", handler: Session(Words, command_count), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION, group: Server, since: "2.8.13", syntax: "", cost: "O(1)",
            summary: "Returns the number of commands." }
        CommandDocs { name: "command|docs", handler: Session(Commands, command_docs), arity: -2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "7.0.0", syntax: "[command-name...]",
            cost: "O(n), n commands", summary: "Returns the summary and the arguments of commands." }
        CommandGetKeys { name: "command|getkeys", handler: Session(Words, command_get_keys, false), arity: -3,
            keys: NO_KEYS, flags: ANYTIME | CONNECTION, group: Server, since: "2.8.13", syntax: "command [arg...]",
            cost: "O(n), n arguments", summary: "Returns the keys among a command's arguments." }
        CommandGetKeysAndFlags { name: "command|getkeysandflags", handler: Session(Words, command_get_keys, true),
            arity: -3, keys: NO_KEYS, flags: ANYTIME | CONNECTION, group: Server, since: "7.0.0",
            syntax: "command [arg...]", cost: "O(n), n arguments",
            summary: "Returns the keys among a command's arguments, with the accesses to each." }
        CommandHelp { name: "command|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION, group: Server, since: "5.0.0", syntax: "", cost: "O(1)",
            summary: "Lists the subcommands." }
        CommandInfo { name: "command|info", handler: Session(Commands, command_info), arity: -2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "2.8.13", syntax: "[command-name...]",
            cost: "O(n), n commands", summary: "Returns arity, flags and keys of commands." }
        CommandList { name: "command|list", handler: Session(CommandNames, command_list), arity: -2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "7.0.0",
            syntax: "[FILTERBY (MODULE module-name)|(ACLCAT category)|(PATTERN pattern)]", cost: "O(n), n commands",
            summary: "Returns the names of the commands." }
        BgRewriteAof { name: "bgrewriteaof", handler: Session(Words, background_rewrite), arity: 1, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Begins to write a snapshot of the durable records, which replaces the log before it." }
        BgSave { name: "bgsave", handler: Session(Words, background_save), arity: -1, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT, group: Server, since: "1.0.0", syntax: "[SCHEDULE]", cost: "O(1)",
            summary: "Begins to write a snapshot of the durable records." }
        LastSave { name: "lastsave", handler: Session(Words, last_save), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | FAST | RANDOM | ADMIN | DANGEROUS, group: Server, since: "1.0.0", syntax: "",
            cost: "O(1)",
            summary: "Returns the time of the last snapshot in seconds since the Unix epoch, or that of the start." }
        Save { name: "save", handler: Session(Words, save), arity: 1, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT | NO_MULTI, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Writes a snapshot of the durable records, and replies when it is on disk; others are served meanwhile." }
        Wait { name: "wait", handler: Session(Words, wait_for_replicas), arity: 3, keys: NO_KEYS,
            flags: NONE | CONNECTION, group: Server, since: "3.0.0", syntax: "numreplicas timeout", cost: "O(1)",
            summary: "Waits until this number of other nodes of the cluster have on disk what this node has, for at most these milliseconds; 0 has no end. Returns how many have it. Without a cluster, 0 when the time is over." }
        WaitAof { name: "waitaof", handler: Session(Words, wait_for_disk), arity: 4, keys: NO_KEYS,
            flags: CONNECTION | NOSCRIPT | NO_MULTI, group: Server, since: "7.2.0",
            syntax: "numlocal numreplicas timeout", cost: "O(1)",
            summary: "Replies when the writes of this connection are on disk." }
        Monitor { name: "monitor", handler: Session(Words, monitor), arity: 1, keys: NO_KEYS,
            flags: ADMIN | SESSION, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Sends this connection every command that clients of this node execute, as a line each." }
        Role { name: "role", handler: Session(Words, role), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | NOSCRIPT | FAST | ADMIN | DANGEROUS, group: Server, since: "2.8.12", syntax: "", cost: "O(n), n nodes",
            summary: "Returns the role of the node in its cluster, with the offsets of the log: master for the leader, and without a cluster." }
        Time { name: "time", handler: Session(Words, time), arity: 1, keys: NO_KEYS, flags: ANYTIME | FAST | RANDOM,
            group: Server, since: "2.6.0", syntax: "", cost: "O(1)",
            summary: "Returns the seconds since the Unix epoch, and the microseconds of this second." }
        Memory { name: "memory", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "4.0.0", syntax: "", cost: "", summary: "Reports memory usage." }
        MemoryDoctor { name: "memory|doctor", handler: Session(Figures, memory_doctor), arity: 2, keys: NO_KEYS,
            flags: RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Reports problems of memory usage." }
        MemoryHelp { name: "memory|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "4.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        MemoryStats { name: "memory|stats", handler: Session(Figures, memory_stats), arity: 2, keys: NO_KEYS,
            flags: RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Returns statistics of memory." }
        MemoryUsage { name: "memory|usage", handler: Store(keys::memory_usage), arity: -3, keys: LOOK_SECOND,
            flags: READONLY, group: Server, since: "4.0.0", syntax: "key [SAMPLES count]", cost: "O(1)",
            summary: "Returns the number of bytes of a key and its value." }
        MemoryMallocStats { name: "memory|malloc-stats", handler: Session(Words, memory_malloc_stats), arity: 2,
            keys: NO_KEYS, flags: RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "4.0.0", syntax: "",
            cost: "O(1)", summary: "Returns a sentence: the allocator's statistics are not reported." }
        MemoryPurge { name: "memory|purge", handler: Session(Words, memory_purge), arity: 2, keys: NO_KEYS,
            flags: ALL_SHARDS | ALL_SUCCEEDED, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Gives free memory back to the system." }
        Module { name: "module", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "4.0.0", syntax: "", cost: "", summary: "Modules, of which there are none." }
        ModuleHelp { name: "module|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ModuleList { name: "module|list", handler: Session(Words, module_list), arity: 2, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT | RANDOM, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Returns an empty list." }
        Acl { name: "acl", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server, since: "6.0.0",
            syntax: "", cost: "", summary: "Users, of whom there is one." }
        AclCat { name: "acl|cat", handler: Session(CommandNames, acl_categories), arity: -2, keys: NO_KEYS,
            flags: SESSION, group: Server, since: "6.0.0", syntax: "[category]", cost: "O(n), n commands",
            summary: "Returns the categories of commands, or the commands of one." }
        AclGetUser { name: "acl|getuser", handler: Session(Words, acl_get_user), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "6.0.0", syntax: "username", cost: "O(1)",
            summary: "Describes a user." }
        AclHelp { name: "acl|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "6.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        AclList { name: "acl|list", handler: Session(Words, acl_list), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Describes the user by rules." }
        AclSetUser { name: "acl|setuser", handler: Session(Words, acl_set_user), arity: -3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "6.0.0",
            syntax: "username [rule...]", cost: "O(1)", summary: "Refused: there is only the user default." }
        AclUsers { name: "acl|users", handler: Session(Words, acl_users), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the names of the users." }
        AclWhoAmI { name: "acl|whoami", handler: Session(Words, acl_who_am_i), arity: 2, keys: NO_KEYS,
            flags: SESSION, group: Server, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the name of the connection's user." }
        Shutdown { name: "shutdown", handler: Session(Words, shutdown), arity: -1, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | NO_MULTI | ALLOW_BUSY, group: Server, since: "1.0.0",
            syntax: "[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]", cost: "O(1)",
            summary: "Refused: clients may not stop the server." }
        SlowLog { name: "slowlog", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "2.2.12", syntax: "", cost: "", summary: "Accesses the slow log." }
        SlowLogGet { name: "slowlog|get", handler: Session(SlowLog, slow_log_get), arity: -2, keys: NO_KEYS,
            flags: OPERATE | ALL_NODES | RANDOM, group: Server, since: "2.2.12", syntax: "[count]",
            cost: "O(n), n entries", summary: "Returns the newest entries." }
        SlowLogHelp { name: "slowlog|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "6.2.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        SlowLogLen { name: "slowlog|len", handler: Session(Words, slow_log_len), arity: 2, keys: NO_KEYS,
            flags: OPERATE | ALL_NODES | AGG_SUM | RANDOM, group: Server, since: "2.2.12", syntax: "", cost: "O(1)",
            summary: "Returns the number of entries." }
        SlowLogReset { name: "slowlog|reset", handler: Session(Words, slow_log_reset), arity: 2, keys: NO_KEYS,
            flags: OPERATE | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "2.2.12", syntax: "",
            cost: "O(n), n entries", summary: "Removes all entries." }
        Latency { name: "latency", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "2.8.13", syntax: "", cost: "", summary: "Reports latencies." }
        LatencyDoctor { name: "latency|doctor", handler: Session(Words, latency_doctor), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "", cost: "O(1)", summary: "Reports latency spikes; always none." }
        LatencyGraph { name: "latency|graph", handler: Session(Words, latency_graph), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "event", cost: "O(1)", summary: "An error: there are no samples of any event." }
        LatencyHelp { name: "latency|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "2.8.13", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        LatencyHistogram { name: "latency|histogram", handler: Session(Commands, latency_histogram), arity: -2,
            keys: NO_KEYS, flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server,
            since: "7.0.0", syntax: "[command...]", cost: "O(n), n commands", summary: "Returns the calls of commands by latency." }
        LatencyHistory { name: "latency|history", handler: Session(Words, latency_history), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "event", cost: "O(1)", summary: "Returns the spikes of an event; always none." }
        LatencyLatest { name: "latency|latest", handler: Session(Words, latency_latest), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "", cost: "O(1)", summary: "Returns the latest spike of each event; always none." }
        LatencyReset { name: "latency|reset", handler: Session(Words, latency_reset), arity: -2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "2.8.13", syntax: "[event...]",
            cost: "O(1)", summary: "Removes the recorded spikes." }
        Debug { name: "debug", handler: Container, arity: -2, keys: NO_KEYS, flags: ADMIN | SESSION, group: Server,
            since: "1.0.0", syntax: "", cost: "", summary: "For tests." }
        DebugHelp { name: "debug|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Lists the subcommands." }
        DebugObject { name: "debug|object", handler: Store(keys::debug), arity: 3, keys: LOOK_SECOND,
            flags: READONLY | ADMIN | LOADING | STALE | NOSCRIPT, group: Server, since: "1.0.0", syntax: "key",
            cost: "O(1)", summary: "Describes the value of a key." }
        DebugSetActiveExpire { name: "debug|set-active-expire", handler: Session(Words, nothing), arity: 3,
            keys: NO_KEYS, flags: OPERATE | NOSCRIPT, group: Server, since: "3.0.0", syntax: "0|1", cost: "O(1)",
            summary: "Accepted without effect." }
        DebugSleep { name: "debug|sleep", handler: Session(Words, debug_sleep), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "1.0.0", syntax: "seconds", cost: "O(1)",
            summary: "Replies after the given time in seconds; other connections are served meanwhile." }
        LolWut { name: "lolwut", handler: Session(Figures, lolwut), arity: -1, keys: NO_KEYS, flags: READONLY | FAST,
            group: Server, since: "5.0.0", syntax: "[VERSION version]", cost: "O(1)",
            summary: "Returns a drawing and the version." }

        // ---- cluster ----
        Asking { name: "asking", handler: Session(Words, asking), arity: 1, keys: NO_KEYS, flags: FAST | CONNECTION,
            group: Cluster, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "Accepted without effect, because no slot is ever in transit." }
        Cluster { name: "cluster", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Cluster,
            since: "3.0.0", syntax: "", cost: "", summary: "Describes the cluster." }
        ClusterCountFailureReports { name: "cluster|count-failure-reports", handler: Session(Words, cluster_failure_reports),
            arity: 3, keys: NO_KEYS, flags: ADMIN | STALE | RANDOM, group: Cluster, since: "3.0.0", syntax: "node-id",
            cost: "O(1)", summary: "Returns 0: nodes do not vote about others." }
        ClusterCountKeysInSlot { name: "cluster|countkeysinslot", handler: Store(cluster::count_keys_in_slot), arity: 3,
            keys: NO_KEYS, flags: READONLY | STALE, group: Cluster, since: "3.0.0", syntax: "slot",
            cost: "O(n), n keys of the database", summary: "Returns the number of keys of a hash slot." }
        ClusterGetKeysInSlot { name: "cluster|getkeysinslot", handler: Store(cluster::get_keys_in_slot), arity: 4,
            keys: NO_KEYS, flags: READONLY | STALE | RANDOM, group: Cluster, since: "3.0.0", syntax: "slot count",
            cost: "O(n), n keys of the database", summary: "Returns keys of a hash slot." }
        ClusterHelp { name: "cluster|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Cluster, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ClusterInfo { name: "cluster|info", handler: Session(Words, cluster_info), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the state of the cluster: ok if a leader is known." }
        ClusterKeySlot { name: "cluster|keyslot", handler: Session(Words, cluster_key_slot), arity: 3, keys: NO_KEYS,
            flags: ANYTIME, group: Cluster, since: "3.0.0", syntax: "key", cost: "O(n), n bytes of the key",
            summary: "Returns the hash slot of a key." }
        ClusterLinks { name: "cluster|links", handler: Session(Words, cluster_links), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "7.0.0", syntax: "", cost: "O(1)",
            summary: "Returns an empty list: nodes are connected by Erlang's distribution." }
        ClusterMyId { name: "cluster|myid", handler: Session(Words, cluster_id, false), arity: 2, keys: NO_KEYS,
            flags: ANYTIME, group: Cluster, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the identity of this node." }
        ClusterMyShardId { name: "cluster|myshardid", handler: Session(Words, cluster_id, true), arity: 2, keys: NO_KEYS,
            flags: ANYTIME, group: Cluster, since: "7.2.0", syntax: "", cost: "O(1)",
            summary: "Returns the identity of the cluster, which is one shard." }
        ClusterNodes { name: "cluster|nodes", handler: Session(Words, cluster_nodes), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "3.0.0", syntax: "", cost: "O(n), n nodes",
            summary: "Describes the nodes, a line for each." }
        ClusterReplicas { name: "cluster|replicas", handler: Session(Words, cluster_replicas), arity: 3, keys: NO_KEYS,
            flags: ADMIN | STALE | RANDOM, group: Cluster, since: "5.0.0", syntax: "node-id", cost: "O(n), n nodes",
            summary: "Describes the nodes that follow the leader." }
        ClusterShards { name: "cluster|shards", handler: Session(Words, cluster_shards), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "7.0.0", syntax: "", cost: "O(n), n nodes",
            summary: "Returns the slots and the nodes." }
        ClusterSlaves { name: "cluster|slaves", handler: Session(Words, cluster_replicas), arity: 3, keys: NO_KEYS,
            flags: ADMIN | STALE | RANDOM | DEPRECATED, group: Cluster, since: "3.0.0", syntax: "node-id",
            cost: "O(n), n nodes", summary: "Describes the nodes that follow the leader." }
        ClusterSlots { name: "cluster|slots", handler: Session(Words, cluster_slots), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | RANDOM, group: Cluster, since: "3.0.0", syntax: "", cost: "O(n), n nodes",
            summary: "Returns the slots and the nodes that serve them; the leader is the first." }
    } };
}
pub(super) use each_command;

macro_rules! table {
    ($($id:ident {
        name: $name:literal,
        handler: $handler:ident $(($($details:tt)*))?,
        arity: $arity:literal,
        keys: $keys:expr,
        flags: $flags:expr,
        group: $group:ident,
        since: $since:literal,
        syntax: $syntax:literal,
        cost: $cost:literal,
        summary: $summary:literal
    })*) => {
        /// The commands by name; a name's number is its index in [`TABLE`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(clippy::enum_variant_names, reason = "CLIENT GETNAME")]
        pub(super) enum Name { $($id),* }

        /// All commands, subcommands after their containers.
        pub(super) static TABLE: &[Spec] = &[$(Spec {
            name: $name,
            group: Group::$group,
            arity: $arity,
            flags: $flags | table!(@flags $handler),
            keys: $keys,
            since: $since,
            syntax: $syntax,
            cost: $cost,
            summary: $summary,
        }),*];

        /// Names of the commands, in the order of their statistics: `get`, `client|list` ...
        pub const COMMANDS: &[&str] = &[$($name),*];

        pub(super) static NAMES: &[Name] = &[$(Name::$id),*];
    };
    (@flags Container) => { CONTAINER };
    (@flags $handler:ident) => { NONE };
}

each_command!(table);

impl Name {
    /// What the table says about it.
    #[inline]
    pub(super) fn spec(self) -> &'static Spec {
        &TABLE[self as usize]
    }
}
