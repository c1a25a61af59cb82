//! Commands on keys, whatever their values are.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! keys {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
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
        ObjectFreq { name: "object|freq", handler: Store(keys::object, ReplyFormat::NotTracked), arity: 3,
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
    ] $($then)+ } };
}
pub(crate) use keys;
