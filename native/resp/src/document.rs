//! The command table as a page of the documentation, and as a dictionary for the fuzzer.

use super::lookup::subcommands;
use super::spec::{CONTAINER, DEPRECATED, Group, OWN};
use super::syntax;
use super::table::{NAMES, Name, TABLE};
use std::collections::BTreeSet;
use todana_protocol::wrapped;

const HEAD: &str = "\
# RESP commands

<!-- Written from the command table. After a change: make docs -->

Todana implements RESP2, and RESP3 after `HELLO 3`, as in Redis 7.2: arguments, replies and error \
texts are the same
unless listed here. Values are strings. There are no lists, hashes, sets, sorted sets, streams, \
functions,
ACL users other than `default`, or blocking commands.

## Differences from Redis 7.2

";

const DIFFERENCES: &[&str] = &[
    "A key may have 64 KiB (a longer one is an error, and the connection stays open), a value 64 \
     MiB (a longer one is a protocol error, as for `proto-max-bulk-len`). A command has at most \
     65,536 arguments. All of these limits are options.",
    "A line that begins like an HTTP request, or with `Host:`, closes the connection without a \
     reply; Redis recognises only `POST` and `Host:`.",
    "A count or length of more than 64 bytes is refused at once, with Redis' error text; Redis \
     waits for 64 KiB.",
    "Before authentication, an inline command is limited to 10 words and 16 KiB, as arrays are.",
    "Commands queued by MULTI are limited to 65,536 words and 128 MiB, the keys of WATCH to 8,192 \
     and 8 MiB. Each command and key also counts some hundred bytes of bookkeeping. A command \
     beyond these limits returns a specific error; if it was a queued command, EXEC is then \
     refused.",
    "A script may access only the keys that it declares (KEYS), on every node, as Redis Cluster \
     demands it. It runs with these keys locked, and may call commands on keys, PING, ECHO and \
     TIME. It has no `os`, `io`, `print`, `setfenv` and `getfenv`; `math.random` begins anew with \
     each run, TIME is the time of the log, and `collectgarbage` does nothing. A script that takes \
     more than `script_steps_max` steps or `script_bytes_max` bytes is stopped, and what it has \
     written is undone; one that fails by itself keeps what it has written, as in Redis. All \
     scripts of one EXEC together have the steps of one. `SCRIPT KILL` finds nothing to end. See \
     [scripts.md](scripts.md).",
    "All commands of one EXEC together are limited to 65,536 [units of \
     work](#units-of-work-in-exec), because no other client can use their keys while EXEC runs. \
     Above the limit, EXEC returns `EXECABORT Transaction discarded because of: the commands are \
     too much work for one step` and executes nothing.",
    "If the memory limit is reached and the server does not evict, EXEC is refused as a whole with \
     `EXECABORT Transaction discarded because of: OOM ...`, unless there is room for everything \
     that its commands may add. Memory that commands of the same EXEC free does not count as room, \
     and a write counts even if its condition (NX, XX) may not hold.",
    "`LCS` accepts values if the product of their lengths is at most 2^25, for example 5.7 KiB \
     each, or 512 KiB and 64 bytes; this takes up to ten milliseconds. Between MULTI and EXEC, the \
     limit is 2^18. Above it, LCS returns `ERR string exceeds maximum allowed size \
     (proto-max-bulk-len)`.",
    "Names of clients, libraries and versions have at most 256 bytes. A pattern (KEYS, SCAN, \
     CONFIG GET, COMMAND LIST) has at most 1,024 bytes, all patterns of one CONFIG GET together 16 \
     KiB.",
    "The server closes a client for which more than 256 MiB of replies are pending, including all \
     replies of one EXEC.",
    "`SCAN` returns whole shards, and so may return more than COUNT keys. Cursors count shards. A \
     COUNT above 4,096 has the effect of 4,096.",
    "`KEYS` runs in slices, and the server serves other clients in between. It returns every key \
     that exists from its beginning to its end, once. Keys that are created or removed \
     during the command may or may not be returned. More than 256 MiB of \
     keys, with 8 bytes added for each, are an error.",
    "`DEL`, `UNLINK`, `EXISTS`, `TOUCH` and `MGET` are atomic up to 4,096 keys; with more, each \
     group of 4,096 keys is atomic. `MSET` and `MSETNX` are atomic and accept at most 8,192 pairs. \
     Replies of more than 256 KiB to KEYS, SCAN, RANGE, PREFIX, MGET and EXEC, and larger values, \
     are sent in slices.",
    "`SCAN TYPE` with a type other than `string` finds nothing.",
    "`FLUSHDB` and `FLUSHALL` remove the keys at once, even with ASYNC.",
    "`INCRBYFLOAT` computes with the 80-bit numbers of x87 on every processor, and returns what \
     Redis returns on x87. On a processor with a different `long double` (ARM), Redis' last digits \
     differ.",
    "`OBJECT IDLETIME` is always 0, `OBJECT REFCOUNT` is always 1, and `OBJECT FREQ` is always an \
     error. `OBJECT ENCODING` is the encoding that Redis would choose for a new value of these \
     bytes (never `raw` for a short value that was appended to).",
    "`MEMORY USAGE` is the size of the entry's allocation. `MEMORY PURGE` replies at \
     once and gives free pages back to the system in the background, which takes some 0.2 ms for \
     each MiB, and keeps threads waiting that need memory of the same arena; so it takes at most \
     1 % of the time, and does nothing within a second of another one. It has an effect with \
     glibc. The node does the same by itself when clients, or tables, have halved what they hold, \
     by 16 MiB or more: at most every ten seconds, and 0.1 % of the time. `MEMORY MALLOC-STATS` \
     returns a sentence.",
    "`BITOP` also has the operators DIFF, DIFF1, ANDOR and ONE of Redis 8.2. Values of more than a \
     MiB together are combined in slices; if others change them meanwhile, the command starts \
     over, and after 16 times it returns an error. In a durable database and between MULTI and \
     EXEC it is one step, and the values may have 256 MiB together (in EXEC, some 32 MiB).",
    "`PFCOUNT` does not store the estimate in the value. `PFMERGE` accepts at most 4,096 keys; \
     with more than 64, it reads them in slices, and only its write is one step. PFDEBUG and \
     PFSELFTEST do not exist.",
    "`DUMP` does not compress the value; the version of its format is 10, that of Redis 7.0. \
     `RESTORE` accepts strings of any version of Redis and Valkey, compressed ones included, and \
     no other types. IDLETIME and FREQ are checked and have no effect.",
    "`SORT` and `SORT_RO` return no elements of a missing key, and an error for any other, because \
     there are no lists, sets or sorted sets.",
    "`ACL` describes the user `default`; `ACL SETUSER` is refused.",
    "`SHUTDOWN` is refused: the server is a part of an Erlang node, which SIGTERM or `init:stop/0` \
     ends in an orderly way.",
    "`CONFIG REWRITE` is refused. `CONFIG SET` accepts options that can change at run time; it \
     accepts other options only with their present value. Options by which Redis is \
     tuned (`lua-time-limit`, `*-listpack-*` ...) are accepted without an effect, and \
     `maxmemory-policy` has two policies for Redis' eight words: \
     [production.md](production.md#options).",
    "There are no functions: `FUNCTION LIST` and `FUNCTION STATS` return that, `FUNCTION FLUSH` \
     has no effect, and `FUNCTION LOAD`, `DUMP` and `RESTORE`, and FCALL, are errors.",
    "`CLIENT LIST` runs in slices of 1,024 clients, and the server serves other clients in \
     between. It returns every client that is connected from its beginning to its end, once.",
    "`CLIENT LIST` has a field `watch=` (Redis 7.4); `qbuf-free`, `argv-mem`, `multi-mem`, `rbs`, \
     `rbp`, `oll` and `omem` are 0, and `obl` is all pending output. `CLIENT KILL` supports MAXAGE \
     (Redis 7.4). CLIENT UNBLOCK does not exist.",
    "Publish and subscribe, `CLIENT TRACKING`, keyspace notifications, `MONITOR` and `CLIENT \
     PAUSE` have limits of their own: [channels.md](channels.md). `CLIENT PAUSE` does not hold \
     back itself or `CLIENT UNPAUSE`.",
    "`CLIENT REPLY` between MULTI and EXEC suppresses the whole reply of EXEC, never a part of it.",
    "`CLIENT NO-EVICT ON` protects a client from being closed for the memory of all clients \
     (`maxmemory-clients`) as long as other clients hold memory; Redis never closes such a client. \
     `CLIENT NO-TOUCH` has no effect.",
    "`maxmemory-clients` is a number of bytes, not a percentage. Before the server closes a client \
     for this reason, it sends an error (`-OOM ...`) if the client has received its replies; Redis \
     sends nothing.",
    "The texts of `COMMAND DOCS` and of all HELP subcommands differ. `COMMAND DOCS` has no \
     history, and returns a command once even if it is named several times. `COMMAND INFO` accepts \
     at most 1,024 names.",
    "`DEBUG SLEEP` delays only its own connection. DEBUG has no other subcommands than HELP, \
     OBJECT and SET-ACTIVE-EXPIRE, which has no effect. SLEEP accepts only well-formed numbers up \
     to 60 seconds. Several of them in one EXEC may \
     sleep 60 seconds in total.",
    "`LATENCY LATEST`, `HISTORY`, `GRAPH`, `RESET` and `DOCTOR` never report spikes.",
    "`INFO` has Redis' fields, and additionally `todana_version`, `event_loops`, \
     `event_loops_in_use` (those that serve a client now), `connections_moved` (from loop to \
     loop), counts by protocol, and in a durable node `log_commit_usec` and `log_fsync_usec` \
     ([durability.md](durability.md)); `redis_version` is the version of Redis that Todana \
     follows. Fields of features that Todana does not have are 0 or left out. \
     `mem_fragmentation_ratio` \
     compares the resident bytes with `used_memory` and `process_startup_memory` together, which \
     is what the process held when the server started; `used_memory` is that of the records and \
     the clients only. `avg_ttl` is an estimate from a sample.",
    "All commands in one turn of an event loop see the same time. Any write changes a watched key, \
     even if it stores the same value. If a watched key was absent, and SWAPDB exchanges its \
     database with another one, EXEC requires that the key is absent from the new database and was \
     not created in the former one since WATCH.",
    "`EXEC` first executes all commands on records, as one step, then the commands about the \
     connection or the server (INFO, TIME ...); the replies are in the order of the commands.",
];

const WORK_INTRODUCTION: &str = "\
    The units of all commands between MULTI and EXEC are added. KEYS, for example, can be part of \
    EXEC in databases of up to some 20,000 keys.";

/// Part of a command, units.
const WORK: &[[&str; 2]] = &[
    ["each word of a command", "1"],
    ["each key", "1"],
    [
        "each key that is removed or watched; the second key of a command on two, such as RENAME",
        "2 instead of 1",
    ],
    ["each pair of MSET", "5 instead of 1"],
    [
        "each KiB of values in the request; of an existing value that APPEND, SETRANGE or SETBIT \
         have to copy; of the reply of GETRANGE",
        "3",
    ],
    [
        "each KiB of a value below 16 KiB that APPEND, SETRANGE or SETBIT create; of zeroes that \
         SETRANGE or SETBIT write before their bytes",
        "1",
    ],
    ["each KiB that BITCOUNT or BITPOS read", "2"],
    ["each KiB that BITOP reads, and that it stores", "2 and 3"],
    ["each KiB of a value that DUMP returns or RESTORE stores", "8"],
    ["each HyperLogLog; each element of PFADD", "64; 2"],
    ["each script, whose steps have a limit of their own", "400"],
    ["LCS", "256"],
    ["PUBLISH", "16, and 4 for each pattern"],
    [
        "DBSIZE, SCAN, KEYS, RANGE, PREFIX, RANDOMKEY",
        "256, and 3 for each record that the command may visit (KEYS: the whole database; SCAN: \
         COUNT and a shard; RANGE: twice LIMIT and 1,024)",
    ],
    [
        "FLUSHDB, and FLUSHALL for each database",
        "1,024, if the database has records or the same EXEC also does something else in it",
    ],
    ["each KiB of arguments of a command about the connection or the server", "3"],
    [
        "INFO, MEMORY STATS, MEMORY DOCTOR, LOLWUT, CONFIG RESETSTAT",
        "3,072; for INFO also 1 for each client",
    ],
    ["COMMAND, COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM", "512"],
    ["COMMAND LIST, CONFIG GET, CONFIG SET, CLIENT LIST, CLIENT KILL, SLOWLOG GET, HELP", "64"],
    ["each word of COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM, CONFIG GET, CONFIG SET", "5"],
    ["each KiB of patterns of CONFIG GET and COMMAND LIST", "512"],
    ["each client", "4 for CLIENT LIST, 1 for CLIENT KILL"],
    ["each entry of the slow log", "8 for SLOWLOG GET"],
];

const OWN_COMMANDS: &[&str] = &[
    "`RANGE` and `PREFIX` need an ordered database, which is one with the name `+` or `%` (option \
     `databases`, as in `todana start +`); in other databases they return `ERR the database is not \
     ordered`. The order is that of the keys' bytes, or the one in the database's name \
     (`%#rcomp=dec`).",
    "`from` is the key that comes first in that order, even with REV, which walks from `to` to \
     `from`. A key may be any bytes, but an empty `from` or `to` stands for the end of the \
     database: `RANGE \"\" \"\"` is the whole database, `RANGE user:7 \"\"` is everything from \
     `user:7` on.",
    "A reply has at most LIMIT keys (by default 1,000, at most 65,536), and it ends after 16 MiB. \
     To continue, send the same command with AFTER and the last key of the reply, until a reply is \
     empty; a reply with fewer than LIMIT keys need not be the last. The key after AFTER need not \
     exist any more. A key that exists all the time is returned exactly once; with MULTI and EXEC, \
     the whole range is from one point in time.",
    "If a database is ordered by numbers, the keys with a prefix are not adjacent, and PREFIX \
     visits all keys. If the command skips thousands of keys before it finds the first, because \
     they have expired or have another prefix, it continues in later turns of the event loop, and \
     the server serves other clients in between; between MULTI and EXEC it returns an error after \
     a thousand skipped keys. After the first key is found, a reply ends early if the command \
     skips thousands of keys (between MULTI and EXEC a thousand).",
    "WITHVALUES returns keys and values alternately, and in RESP3 an array of pairs, as `ZRANGE \
     WITHSCORES` does.",
    "`TODANA.SCOPES`, `TODANA.WHEREIS`, `TODANA.NAMES`, `TODANA.GROUPS` and `TODANA.MEMBERS` read \
     the names and groups of Erlang processes, on any node of a cluster; the selected database has \
     no influence. Erlang answers them, so they are refused between MULTI and EXEC and in scripts. \
     [names-and-groups.md](names-and-groups.md#from-other-languages) describes them.",
    "`COMMAND` returns all these with the flag `module`, `COMMAND DOCS` and `COMMAND LIST FILTERBY \
     MODULE` as commands of the module `todana`.",
];

/// The page `docs/commands-resp.md`.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    for difference in DIFFERENCES {
        page.push_str(&wrapped(&format!("- {difference}"), "  "));
    }
    page.push_str("\n## Units of work in EXEC\n\n");
    page.push_str(&wrapped(WORK_INTRODUCTION, ""));
    page.push_str("\n| Part of a command | Units |\n|---|---|\n");
    for [part, units] in WORK {
        page.push_str(&format!("| {part} | {units} |\n"));
    }
    page.push_str("\n## Extensions\n\n");
    for paragraph in OWN_COMMANDS {
        page.push_str(&wrapped(&format!("- {paragraph}"), "  "));
    }
    page.push_str("\n## Commands\n");
    for group in Group::ALL {
        page.push_str(&format!("\n### {}\n\n", title(group)));
        page.push_str("| Command | Since Redis | Cost | |\n|---|---|---|---|\n");
        for (name, spec) in NAMES.iter().zip(TABLE) {
            let is_container = spec.is(CONTAINER) && subcommands(*name).next().is_some();
            if spec.group == group && !is_container {
                page.push_str(&row(*name));
            }
        }
    }
    page
}

fn title(group: Group) -> &'static str {
    match group {
        Group::String => "Strings",
        Group::Bitmap => "Bits",
        Group::HyperLogLog => "HyperLogLogs",
        Group::Generic => "Keys",
        Group::Transactions => "Transactions",
        Group::Scripting => "Scripts",
        Group::PubSub => "Publish and subscribe",
        Group::Connection => "Connection",
        Group::Server => "Server",
        Group::Cluster => "Cluster",
        Group::Names => "Names and groups of processes",
    }
}

fn row(name: Name) -> String {
    let spec = name.spec();
    let words = spec.name.to_ascii_uppercase().replace('|', " ");
    let arguments = syntax::for_people(spec.syntax).replace('|', "\\|");
    let command = format!("`{words} {arguments}").trim_end().to_owned();
    let mut summary = spec.summary.to_owned();
    if spec.is(DEPRECATED) {
        summary.push_str(" Deprecated.");
    }
    let since = if spec.is(OWN) { "not in Redis" } else { spec.since };
    format!("| {command}` | {since} | {} | {summary} |\n", spec.cost)
}

/// Words of the protocol for a fuzzer: names, options, and the bytes around them.
pub fn dictionary() -> String {
    let mut words = BTreeSet::new();
    for spec in TABLE {
        words.insert(spec.own_name().to_owned());
        let tokens = spec.syntax.split(|c: char| " |[]().".contains(c));
        words.extend(
            tokens.filter(|it| !it.is_empty()).filter(|it| is_token(it)).map(str::to_owned),
        );
    }
    let mut lines = String::from("# Written from the command table.\n");
    for frame in
        [r"\x0d\x0a", r"*1\x0d\x0a", r"*3\x0d\x0a", r"$3\x0d\x0a", r"$0\x0d\x0a", r"*-1\x0d\x0a"]
    {
        lines.push_str(&format!("\"{frame}\"\n"));
    }
    for word in words {
        let (whole, length) = (word.to_ascii_uppercase(), word.len());
        lines.push_str(&format!("\"{whole}\"\n\"${length}\\x0d\\x0a{whole}\\x0d\\x0a\"\n"));
    }
    lines
}

fn is_token(word: &str) -> bool {
    !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use todana_protocol::testing::is_written;

    #[test]
    fn every_group_has_a_chapter() {
        for (name, spec) in NAMES.iter().zip(TABLE) {
            assert!(
                Group::ALL.contains(&spec.group),
                "the group of {name:?} is not in `Group::ALL`"
            );
        }
    }

    #[test]
    fn the_page_of_commands_is_written() {
        is_written("docs/commands-resp.md", &document());
    }

    #[test]
    fn the_fuzzers_dictionary_is_written() {
        is_written("native/fuzz/dictionaries/resp.dict", &dictionary());
    }
}
