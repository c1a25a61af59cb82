//! The commands, as data. It feeds look-up, arity and key checks, `COMMAND`, the documentation and
//! the fuzzer's dictionary; what each command does is in the module of its group.

use super::spec::*;

macro_rules! commands {
    ($($name:ident: $word:literal, $group:ident, $arity:literal, $flags:expr, $keys:expr, $since:literal, $syntax:literal,
       $complexity:literal, $summary:literal;)*) => {
        /// The commands by name; a name's number is its index in [`TABLE`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(clippy::enum_variant_names, reason = "CLIENT GETNAME")]
        pub(super) enum Name { $($name),* }

        /// All commands, subcommands after their containers.
        pub(super) static TABLE: &[Spec] = &[$(Spec {
            name: $word,
            group: Group::$group,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            since: $since,
            syntax: $syntax,
            complexity: $complexity,
            summary: $summary,
        }),*];

        /// Names of the commands, in the order of their statistics: `get`, `client|list` ...
        pub const COMMANDS: &[&str] = &[$($word),*];

        pub(super) static NAMES: &[Name] = &[$(Name::$name),*];
    };
}

impl Name {
    /// What the table says about it.
    #[inline]
    pub(super) fn spec(self) -> &'static Spec {
        &TABLE[self as usize]
    }
}

#[rustfmt::skip]
commands! {
    // ---- strings ----
    Get: "get", String, 2, READONLY | FAST, READ, "1.0.0", "key", "O(1)", "The value of a key.";
    Set: "set", String, -3, WRITE | DENYOOM, MAY_MODIFY, "1.0.0",
        "key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        "O(1)", "Stores a value, under conditions and with an expiry if asked for; GET answers the old value.";
    SetNx: "setnx", String, 3, WRITE | DENYOOM | FAST | DEPRECATED, INSERT, "1.0.0", "key value", "O(1)",
        "Stores a value where there is none.";
    SetEx: "setex", String, 4, WRITE | DENYOOM | DEPRECATED, OVERWRITE, "2.0.0", "key seconds value", "O(1)",
        "Stores a value that expires.";
    PSetEx: "psetex", String, 4, WRITE | DENYOOM | DEPRECATED, OVERWRITE, "2.6.0", "key milliseconds value", "O(1)",
        "Stores a value that expires, by the millisecond.";
    GetSet: "getset", String, 3, WRITE | DENYOOM | FAST | DEPRECATED, MODIFY, "1.0.0", "key value", "O(1)",
        "Stores a value and answers the old one.";
    GetDel: "getdel", String, 2, WRITE | FAST, TAKE, "6.2.0", "key", "O(1)", "Removes a key and answers its value.";
    GetEx: "getex", String, -2, WRITE | FAST, MODIFY, "6.2.0",
        "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]", "O(1)",
        "The value of a key, whose expiry is changed.";
    Append: "append", String, 3, WRITE | DENYOOM | FAST, EXTEND, "2.0.0", "key value", "O(n), n bytes of the whole value",
        "Adds to the end of a value; a missing one counts as empty.";
    StrLen: "strlen", String, 2, READONLY | FAST, LOOK, "2.2.0", "key", "O(1)", "Length of a value in bytes.";
    GetRange: "getrange", String, 4, READONLY, READ, "2.4.0", "key start end", "O(n), n bytes of the answer",
        "Part of a value, by first and last offset, negative ones from the end.";
    SubStr: "substr", String, 4, READONLY | DEPRECATED, READ, "1.0.0", "key start end", "O(n), n bytes of the answer",
        "The old name of GETRANGE.";
    SetRange: "setrange", String, 4, WRITE | DENYOOM, UPDATE, "2.2.0", "key offset value",
        "O(n), n bytes of the whole value", "Overwrites part of a value from an offset on, padding with zero bytes.";
    MGet: "mget", String, -2, READONLY | FAST | MULTI_SHARD, READ_EACH, "1.0.0", "key...", "O(n), n keys",
        "The values of several keys, as of one moment.";
    MSet: "mset", String, -3, WRITE | DENYOOM | MULTI_SHARD | ALL_SUCCEEDED, OVERWRITE_EACH, "1.0.1", "(key value)...",
        "O(n), n keys", "Stores several values as one step.";
    MSetNx: "msetnx", String, -3, WRITE | DENYOOM | MULTI_SHARD | AGG_MIN, INSERT_EACH, "1.0.1", "(key value)...",
        "O(n), n keys", "Stores several values as one step, or none if one of the keys exists.";
    Incr: "incr", String, 2, WRITE | DENYOOM | FAST, MODIFY, "1.0.0", "key", "O(1)", "Adds one to a whole number.";
    Decr: "decr", String, 2, WRITE | DENYOOM | FAST, MODIFY, "1.0.0", "key", "O(1)", "Takes one from a whole number.";
    IncrBy: "incrby", String, 3, WRITE | DENYOOM | FAST, MODIFY, "1.0.0", "key increment", "O(1)",
        "Adds to a whole number.";
    DecrBy: "decrby", String, 3, WRITE | DENYOOM | FAST, MODIFY, "1.0.0", "key decrement", "O(1)",
        "Takes from a whole number.";
    IncrByFloat: "incrbyfloat", String, 3, WRITE | DENYOOM | FAST, MODIFY, "2.6.0", "key float", "O(1)",
        "Adds to a decimal fraction.";
    Lcs: "lcs", String, -3, READONLY, READ_TWO, "7.0.0", "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        "O(n*m), n and m bytes of the values", "The longest common subsequence of two values.";

    // ---- bits ----
    SetBit: "setbit", Bitmap, 4, WRITE | DENYOOM, MODIFY, "2.2.0", "key offset bit", "O(n), n bytes of the whole value",
        "Sets one bit of a value and answers the old one.";
    GetBit: "getbit", Bitmap, 3, READONLY | FAST, READ, "2.2.0", "key offset", "O(1)", "One bit of a value.";
    BitCount: "bitcount", Bitmap, -2, READONLY, READ, "2.6.0", "key [start end [BYTE|BIT]]", "O(n), n bytes of the span",
        "Number of set bits in a value or a span of it.";
    BitPos: "bitpos", Bitmap, -3, READONLY, READ, "2.8.7", "key bit [start [end [BYTE|BIT]]]", "O(n), n bytes of the span",
        "Position of the first bit that is set, or is not.";

    // ---- keys ----
    Del: "del", Generic, -2, WRITE | MULTI_SHARD | AGG_SUM, REMOVE_EACH, "1.0.0", "key...", "O(n), n keys", "Removes keys, as one step.";
    Unlink: "unlink", Generic, -2, WRITE | FAST | MULTI_SHARD | AGG_SUM, REMOVE_EACH, "4.0.0", "key...", "O(n), n keys",
        "Removes keys, as DEL does.";
    Exists: "exists", Generic, -2, READONLY | FAST | MULTI_SHARD | AGG_SUM, LOOK_EACH, "1.0.0", "key...", "O(n), n keys",
        "How many of the keys exist, repeated ones counted again.";
    Expire: "expire", Generic, -3, WRITE | FAST, UPDATE, "1.0.0", "key seconds [NX|XX|GT|LT]", "O(1)",
        "Lets a key expire after so many seconds.";
    PExpire: "pexpire", Generic, -3, WRITE | FAST, UPDATE, "2.6.0", "key milliseconds [NX|XX|GT|LT]", "O(1)",
        "Lets a key expire after so many milliseconds.";
    ExpireAt: "expireat", Generic, -3, WRITE | FAST, UPDATE, "1.2.0", "key unix-time-seconds [NX|XX|GT|LT]", "O(1)",
        "Lets a key expire at a second.";
    PExpireAt: "pexpireat", Generic, -3, WRITE | FAST, UPDATE, "2.6.0", "key unix-time-milliseconds [NX|XX|GT|LT]", "O(1)",
        "Lets a key expire at a millisecond.";
    Ttl: "ttl", Generic, 2, READONLY | FAST | RANDOM, READ, "1.0.0", "key", "O(1)",
        "Seconds that a key has to live: -1 if it does not expire, -2 if there is none.";
    PTtl: "pttl", Generic, 2, READONLY | FAST | RANDOM, READ, "2.6.0", "key", "O(1)", "TTL in milliseconds.";
    ExpireTime: "expiretime", Generic, 2, READONLY | FAST, READ, "7.0.0", "key", "O(1)",
        "The second at which a key expires: -1 if it does not, -2 if there is none.";
    PExpireTime: "pexpiretime", Generic, 2, READONLY | FAST, READ, "7.0.0", "key", "O(1)", "EXPIRETIME in milliseconds.";
    Persist: "persist", Generic, 2, WRITE | FAST, UPDATE, "2.2.0", "key", "O(1)", "Takes a key's expiry away.";
    Type: "type", Generic, 2, READONLY | FAST, LOOK, "1.0.0", "key", "O(1)", "The type of a key's value: string or none.";
    KeysOf: "keys", Generic, 2, READONLY | DANGEROUS | ALL_SHARDS | UNORDERED, NO_KEYS, "1.0.0", "pattern", "O(n), n keys in the database",
        "All keys that match a pattern, in one answer.";
    Scan: "scan", Generic, -2, READONLY | RANDOM | SPECIAL_REQUEST, NO_KEYS, "2.8.0",
        "cursor [MATCH pattern] [COUNT count] [TYPE type]", "O(1) per call, O(n) for all n keys",
        "A page of keys; every key that is there from the first to the last page is in one of them.";
    Range: "range", Generic, -3, READONLY | OWN | ALL_SHARDS | SPECIAL_RESPONSE, NO_KEYS, "0.1.0",
        "from to [REV] [LIMIT limit] [AFTER last-key] [WITHVALUES]", "O(log n + m), m keys of the answer",
        "Keys of an ordered database from one to another, both included; an empty one leaves that end open.";
    Prefix: "prefix", Generic, -2, READONLY | OWN | ALL_SHARDS | SPECIAL_RESPONSE, NO_KEYS, "0.1.0",
        "beginning [REV] [LIMIT limit] [AFTER last-key] [WITHVALUES]", "O(log n + m), m keys of the answer",
        "Keys of an ordered database that begin with these bytes, in order.";
    RandomKey: "randomkey", Generic, 1, READONLY | ALL_SHARDS | RANDOM, NO_KEYS, "1.0.0", "",
        "O(1), O(shards) with few keys", "A key by chance, all about equally likely.";
    RenameTo: "rename", Generic, 3, WRITE, RENAME, "1.0.0", "key newkey", "O(n), n bytes of the value",
        "Gives a value another key, over what that key had.";
    RenameNx: "renamenx", Generic, 3, WRITE | FAST, RENAME_NX, "1.0.0", "key newkey", "O(n), n bytes of the value",
        "Gives a value another key if that is free.";
    CopyTo: "copy", Generic, -3, WRITE | DENYOOM, COPY, "6.2.0", "source destination [DB destination-db] [REPLACE]",
        "O(n), n bytes of the value", "Copies a value and its expiry to another key.";
    Move: "move", Generic, 3, WRITE | FAST, MODIFY, "1.0.0", "key db", "O(n), n bytes of the value",
        "Moves a key to another database.";
    Touch: "touch", Generic, -2, READONLY | FAST | MULTI_SHARD | AGG_SUM, LOOK_EACH, "3.2.1", "key...", "O(n), n keys",
        "Notes that keys were looked at, and counts them.";
    DbSize: "dbsize", Server, 1, READONLY | FAST | KEYSPACE | ALL_SHARDS | AGG_SUM, NO_KEYS, "1.0.0", "", "O(1)",
        "Number of keys in the database.";
    FlushDb: "flushdb", Server, -1, WRITE | KEYSPACE | DANGEROUS | ALL_SHARDS | ALL_SUCCEEDED, NO_KEYS, "1.0.0", "[ASYNC|SYNC]",
        "O(n), n keys in the database", "Removes all keys of the database.";
    FlushAll: "flushall", Server, -1, WRITE | KEYSPACE | DANGEROUS | ALL_SHARDS | ALL_SUCCEEDED, NO_KEYS, "1.0.0", "[ASYNC|SYNC]",
        "O(n), n keys", "Removes all keys of all databases.";
    SwapDb: "swapdb", Server, 3, WRITE | FAST | KEYSPACE | DANGEROUS, NO_KEYS, "4.0.0", "index1 index2", "O(1)",
        "Exchanges two databases.";
    Object: "object", Generic, -2, CONTAINER, NO_KEYS, "2.2.3", "", "", "What is known of a key's value.";
    ObjectEncoding: "object|encoding", Generic, 3, READONLY | RANDOM, LOOK_SECOND, "2.2.3", "key", "O(1)",
        "The name that Redis would give to the value's form: int, embstr or raw.";
    ObjectFreq: "object|freq", Generic, 3, READONLY | RANDOM, LOOK_SECOND, "4.0.0", "key", "O(1)",
        "Refused: how often a key is used is not told.";
    ObjectHelp: "object|help", Generic, 2, ANYTIME, NO_KEYS, "6.2.0", "", "O(1)", "Lists the subcommands.";
    ObjectIdleTime: "object|idletime", Generic, 3, READONLY | RANDOM, LOOK_SECOND, "2.2.3", "key", "O(1)",
        "Seconds since the last look; always 0, as looks are not noted.";
    ObjectRefCount: "object|refcount", Generic, 3, READONLY | RANDOM, LOOK_SECOND, "2.2.3", "key", "O(1)",
        "Number of references to the value; always 1.";

    // ---- transactions ----
    Multi: "multi", Transactions, 1, SESSION | FAST | ALLOW_BUSY, NO_KEYS, "1.2.0", "", "O(1)",
        "Begins to queue commands.";
    Exec: "exec", Transactions, 1, SESSION | SKIP_SLOWLOG, NO_KEYS, "1.2.0", "", "that of the queued commands",
        "Executes the queued commands as one step, unless a watched key has changed.";
    Discard: "discard", Transactions, 1, SESSION | FAST | ALLOW_BUSY, NO_KEYS, "2.0.0", "", "O(n), n queued commands",
        "Forgets the queued commands and the watched keys.";
    Watch: "watch", Transactions, -2, SESSION | FAST | ALLOW_BUSY, LOOK_EACH, "2.2.0", "key...", "O(n), n keys",
        "Lets the next EXEC depend on these keys staying as they are.";
    Unwatch: "unwatch", Transactions, 1, SESSION | FAST | ALLOW_BUSY, NO_KEYS, "2.2.0", "", "O(n), n watched keys",
        "Forgets the watched keys.";

    // ---- connection ----
    Hello: "hello", Connection, -1, SESSION | FAST | NO_AUTH | ALLOW_BUSY, NO_KEYS, "6.0.0",
        "[protover [AUTH username password] [SETNAME clientname]]", "O(1)",
        "Chooses the protocol version, and answers who the server is.";
    Auth: "auth", Connection, -2, SESSION | FAST | NO_AUTH | ALLOW_BUSY, NO_KEYS, "1.0.0", "[username] password", "O(1)",
        "Authenticates the connection.";
    Ping: "ping", Connection, -1, FAST | ALL_SHARDS | ALL_SUCCEEDED, NO_KEYS, "1.0.0", "[message]", "O(1)",
        "Answers PONG, or the message.";
    Echo: "echo", Connection, 2, ANYTIME | FAST, NO_KEYS, "1.0.0", "message", "O(1)", "Answers the message.";
    Select: "select", Connection, 2, ANYTIME | FAST, NO_KEYS, "1.0.0", "index", "O(1)", "Chooses a database, 0 to 15.";
    Quit: "quit", Connection, -1, SESSION | FAST | NO_AUTH | ALLOW_BUSY | DEPRECATED, NO_KEYS, "1.0.0", "", "O(1)",
        "Closes the connection.";
    Reset: "reset", Connection, 1, SESSION | FAST | NO_AUTH | ALLOW_BUSY, NO_KEYS, "6.2.0", "", "O(1)",
        "Makes the connection as it was when it was new.";
    Client: "client", Connection, -2, CONTAINER, NO_KEYS, "2.4.0", "", "", "Connections.";
    ClientGetName: "client|getname", Connection, 2, SESSION, NO_KEYS, "2.6.9", "", "O(1)", "The connection's name.";
    ClientHelp: "client|help", Connection, 2, ANYTIME, NO_KEYS, "5.0.0", "", "O(1)", "Lists the subcommands.";
    ClientId: "client|id", Connection, 2, SESSION, NO_KEYS, "5.0.0", "", "O(1)", "The connection's number.";
    ClientInfo: "client|info", Connection, 2, SESSION | RANDOM, NO_KEYS, "6.2.0", "", "O(1)",
        "The connection's line of CLIENT LIST.";
    ClientKill: "client|kill", Connection, -3, OPERATE | NOSCRIPT, NO_KEYS, "2.4.0",
        "old-format|([ID client-id] [TYPE normal|master|replica|pubsub] [USER username] [ADDR addr] [LADDR addr] [SKIPME yes|no] [MAXAGE maxage])",
        "O(n), n connections", "Closes connections.";
    ClientList: "client|list", Connection, -2, OPERATE | NOSCRIPT | RANDOM, NO_KEYS, "2.4.0",
        "[TYPE normal|master|replica|pubsub] [ID client-id...]", "O(n), n connections", "Lists connections.";
    ClientNoEvict: "client|no-evict", Connection, 3, OPERATE | NOSCRIPT, NO_KEYS, "7.0.0", "ON|OFF", "O(1)",
        "Has this client closed last where all clients hold too much memory.";
    ClientNoTouch: "client|no-touch", Connection, 3, SESSION, NO_KEYS, "7.2.0", "ON|OFF", "O(1)",
        "Accepted without effect, as looks are not noted.";
    ClientReply: "client|reply", Connection, 3, SESSION, NO_KEYS, "3.2.0", "ON|OFF|SKIP", "O(1)",
        "Switches answers off, on, or off for the next command.";
    ClientSetInfo: "client|setinfo", Connection, 4, SESSION, NO_KEYS, "7.2.0", "(LIB-NAME libname)|(LIB-VER libver)", "O(1)",
        "Tells the name or version of the client library.";
    ClientSetName: "client|setname", Connection, 3, SESSION, NO_KEYS, "2.6.9", "connection-name", "O(1)",
        "Names the connection.";

    // ---- server ----
    Info: "info", Server, -1, ANYTIME | DANGEROUS | RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, NO_KEYS, "1.0.0", "[section...]", "O(1)",
        "Figures of the server by section.";
    Config: "config", Server, -2, CONTAINER, NO_KEYS, "2.0.0", "", "", "Options of the server.";
    ConfigGet: "config|get", Server, -3, OPERATE | NOSCRIPT, NO_KEYS, "2.0.0", "parameter...", "O(n), n patterns",
        "Options whose names match.";
    ConfigHelp: "config|help", Server, 2, ANYTIME, NO_KEYS, "5.0.0", "", "O(1)", "Lists the subcommands.";
    ConfigResetStat: "config|resetstat", Server, 2, OPERATE | NOSCRIPT, NO_KEYS, "2.0.0", "", "O(1)",
        "Sets counters back to zero.";
    ConfigRewrite: "config|rewrite", Server, 2, OPERATE | NOSCRIPT, NO_KEYS, "2.8.0", "", "O(1)",
        "Refused: the configuration file belongs to its author.";
    ConfigSet: "config|set", Server, -4, OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, NO_KEYS, "2.0.0", "(parameter value)...",
        "O(n), n options", "Changes options of the running server.";
    Command: "command", Server, -1, ANYTIME | CONNECTION | UNORDERED, NO_KEYS, "2.8.13", "", "O(n), n commands",
        "What the server knows of each command.";
    CommandCount: "command|count", Server, 2, ANYTIME | CONNECTION, NO_KEYS, "2.8.13", "", "O(1)", "Number of commands.";
    CommandDocs: "command|docs", Server, -2, ANYTIME | CONNECTION | UNORDERED, NO_KEYS, "7.0.0", "[command-name...]",
        "O(n), n commands", "Summary and arguments of commands.";
    CommandGetKeys: "command|getkeys", Server, -3, ANYTIME | CONNECTION, NO_KEYS, "2.8.13", "command [arg...]",
        "O(n), n arguments", "The keys among a command's arguments.";
    CommandGetKeysAndFlags: "command|getkeysandflags", Server, -3, ANYTIME | CONNECTION, NO_KEYS, "7.0.0", "command [arg...]",
        "O(n), n arguments", "The keys among a command's arguments, each with what is done to it.";
    CommandHelp: "command|help", Server, 2, ANYTIME | CONNECTION, NO_KEYS, "5.0.0", "", "O(1)", "Lists the subcommands.";
    CommandInfo: "command|info", Server, -2, ANYTIME | CONNECTION | UNORDERED, NO_KEYS, "2.8.13", "[command-name...]",
        "O(n), n commands", "Arity, flags and keys of commands.";
    CommandList: "command|list", Server, -2, ANYTIME | CONNECTION | UNORDERED, NO_KEYS, "7.0.0",
        "[FILTERBY (MODULE module-name)|(ACLCAT category)|(PATTERN pattern)]", "O(n), n commands", "Names of the commands.";
    Time: "time", Server, 1, ANYTIME | FAST | RANDOM, NO_KEYS, "2.6.0", "", "O(1)",
        "Seconds since the Unix epoch, and the microseconds of this second.";
    Memory: "memory", Server, -2, CONTAINER, NO_KEYS, "4.0.0", "", "", "Where the memory is.";
    MemoryDoctor: "memory|doctor", Server, 2, RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, NO_KEYS, "4.0.0", "", "O(1)",
        "Says whether memory looks healthy.";
    MemoryHelp: "memory|help", Server, 2, ANYTIME, NO_KEYS, "4.0.0", "", "O(1)", "Lists the subcommands.";
    MemoryStats: "memory|stats", Server, 2, RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, NO_KEYS, "4.0.0", "", "O(1)",
        "Figures of memory.";
    MemoryUsage: "memory|usage", Server, -3, READONLY, LOOK_SECOND, "4.0.0", "key [SAMPLES count]", "O(1)",
        "Bytes that a key and its value take.";
    SlowLog: "slowlog", Server, -2, CONTAINER, NO_KEYS, "2.2.12", "", "", "Commands that took long.";
    SlowLogGet: "slowlog|get", Server, -2, OPERATE | ALL_NODES | RANDOM, NO_KEYS, "2.2.12", "[count]", "O(n), n entries",
        "The newest entries.";
    SlowLogHelp: "slowlog|help", Server, 2, ANYTIME, NO_KEYS, "6.2.0", "", "O(1)", "Lists the subcommands.";
    SlowLogLen: "slowlog|len", Server, 2, OPERATE | ALL_NODES | AGG_SUM | RANDOM, NO_KEYS, "2.2.12", "", "O(1)",
        "Number of entries.";
    SlowLogReset: "slowlog|reset", Server, 2, OPERATE | ALL_NODES | ALL_SUCCEEDED, NO_KEYS, "2.2.12", "", "O(n), n entries",
        "Forgets all entries.";
    Latency: "latency", Server, -2, CONTAINER, NO_KEYS, "2.8.13", "", "", "How long commands take.";
    LatencyDoctor: "latency|doctor", Server, 2, OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, NO_KEYS, "2.8.13", "", "O(1)",
        "Says whether there were spikes.";
    LatencyHelp: "latency|help", Server, 2, ANYTIME, NO_KEYS, "2.8.13", "", "O(1)", "Lists the subcommands.";
    LatencyHistogram: "latency|histogram", Server, -2, OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, NO_KEYS, "7.0.0", "[command...]",
        "O(n), n commands", "Calls of commands by latency.";
    LatencyHistory: "latency|history", Server, 3, OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, NO_KEYS, "2.8.13", "event", "O(1)",
        "Spikes of an event; always none.";
    LatencyLatest: "latency|latest", Server, 2, OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, NO_KEYS, "2.8.13", "", "O(1)",
        "The latest spike of each event; always none.";
    LatencyReset: "latency|reset", Server, -2, OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, NO_KEYS, "2.8.13", "[event...]", "O(1)",
        "Forgets spikes.";
    Debug: "debug", Server, -2, CONTAINER | ADMIN | SESSION, NO_KEYS, "1.0.0", "", "", "For tests.";
    DebugHelp: "debug|help", Server, 2, OPERATE | NOSCRIPT, NO_KEYS, "1.0.0", "", "O(1)", "Lists the subcommands.";
    DebugSleep: "debug|sleep", Server, 3, OPERATE | NOSCRIPT, NO_KEYS, "1.0.0", "seconds", "O(1)",
        "Answers after so many seconds; other connections go on.";
    LolWut: "lolwut", Server, -1, READONLY | FAST, NO_KEYS, "5.0.0", "[VERSION version]", "O(1)", "A picture and the version.";
}
