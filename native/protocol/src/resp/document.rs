//! The command table as a page of the documentation, and as words for the fuzzer.

use super::lookup::subcommands;
use super::spec::{CONTAINER, DEPRECATED, Group, OWN};
use super::syntax;
use super::table::{NAMES, Name, TABLE};
use crate::written::wrapped;
use std::collections::BTreeSet;

const HEAD: &str = "\
# RESP commands

<!-- Written from the command table. After a change: make docs -->

Todana speaks RESP2, and RESP3 after `HELLO 3`, as Redis 7.2 does: arguments, answers and the \
words of errors are the
same unless listed here. The values are strings; there are no lists, hashes, sets, sorted sets or \
streams, no scripts,
no publish and subscribe, no ACL users beside `default`, and no commands that wait.

## What differs from Redis 7.2

";

const DIFFERENCES: &[&str] = &[
    "A key may be 64 KiB long (an error, the connection goes on), a value 64 MiB (a protocol \
     error, as beyond `proto-max-bulk-len`); a command has at most 65,536 arguments. All of them \
     are options.",
    "A line that begins like an HTTP request, or with `Host:`, closes the connection without an \
     answer; Redis knows `POST` and `Host:` only.",
    "A count or length longer than 64 bytes is refused at once, with Redis' words; Redis waits for \
     64 KiB.",
    "Before authentication an inline line is limited to 10 words and 16 KiB, as arrays are.",
    "Commands queued by MULTI have 65,536 words at most and may hold 128 MiB; keys of WATCH are \
     8,192 at most and may hold 8 MiB. Some hundred bytes of bookkeeping count for each. Beyond \
     that they \
     answer an error of their own, and after that of a queued command EXEC refuses.",
    "All commands of one EXEC together are at most 65,536 units of work, since nobody else can use \
     their keys meanwhile; beyond that EXEC answers `EXECABORT Transaction discarded because of: \
     the commands are too much work for one step`, and nothing is done. Each word \
     counts 1, and beside that a key 1 (one that \
     is removed or watched 2, a pair of MSET 5, a second key of RENAME, COPY and MOVE 2); a KiB of \
     values that are sent 3, and so does one that APPEND, SETRANGE or SETBIT find in a value that \
     they have to copy, or GETRANGE answers; a KiB of zeroes that SETRANGE or SETBIT write before \
     their bytes 1, and so does one of a value below 16 KiB that these three make; a KiB that \
     BITCOUNT or BITPOS looks at 2; LCS 256; DBSIZE, SCAN, KEYS, RANGE, PREFIX and RANDOMKEY 256 \
     and 3 for each record that they may look at (KEYS: all of the database; SCAN: COUNT and a \
     shard; RANGE: twice LIMIT and 1,024); FLUSHDB, and FLUSHALL for each database, 1,024 where \
     the database has records or the same EXEC does something else in it. So KEYS takes part in \
     EXEC up to some 20,000 keys. What the connection or the server answers counts 3 for a KiB of \
     words; beside that INFO, MEMORY STATS, MEMORY DOCTOR, LOLWUT and CONFIG RESETSTAT \
     3,072 (INFO 1 for each client too); COMMAND, COMMAND INFO, COMMAND DOCS and LATENCY HISTOGRAM \
     512; COMMAND LIST, CONFIG GET, CONFIG SET, CLIENT LIST, CLIENT KILL, SLOWLOG GET and HELP 64; \
     each word of COMMAND INFO, COMMAND DOCS, LATENCY HISTOGRAM, CONFIG GET and CONFIG SET 5 more; \
     a KiB of patterns of CONFIG GET and COMMAND LIST 512; each client 4 for CLIENT LIST and 1 for \
     CLIENT KILL; each entry of the slow log 8 for SLOWLOG GET.",
    "Where the memory limit is reached and nothing is evicted, EXEC is refused as a whole with \
     `EXECABORT Transaction discarded because of: OOM ...` unless there is room for all that its \
     commands may add. Room that the same EXEC makes by removing and shortening does not count, \
     and what a condition (NX, XX) may refuse counts as if it were written.",
    "`LCS` takes values whose lengths multiplied are at most 2^25, as 5.7 KiB each or 512 KiB and \
     64 bytes, which takes up to ten milliseconds; between MULTI and EXEC 2^18. Beyond that it \
     answers `ERR string exceeds maximum allowed size (proto-max-bulk-len)`.",
    "Names of clients, libraries and versions are 256 bytes long at most. A pattern (KEYS, SCAN, \
     CONFIG GET, COMMAND LIST) is 1,024 bytes long at most, all those of one CONFIG GET 16 KiB.",
    "A client for which more than 256 MiB of answers wait is closed, all answers of one EXEC \
     counted.",
    "`SCAN` may return more than COUNT keys: whole shards at a time. Cursors count shards. A COUNT \
     beyond 4,096 counts as that.",
    "`KEYS` goes on in slices, and other clients are served in between: it returns every key that \
     is there from its beginning to its end, once; keys that come or go meanwhile may or may not \
     be among them. More than 256 MiB of keys, 8 bytes counted beside each, are an error.",
    "`DEL`, `UNLINK`, `EXISTS`, `TOUCH` and `MGET` are one step up to 4,096 keys; beyond that each \
     4,096 keys are. `MSET` and `MSETNX` are one step, and take 8,192 pairs at most. Answers of \
     more than 256 KiB of KEYS, SCAN, RANGE, PREFIX, MGET and EXEC, and larger values, are written \
     in slices.",
    "`SCAN TYPE` with a type other than `string` finds nothing.",
    "`FLUSHDB` and `FLUSHALL` remove at once, with ASYNC too.",
    "`INCRBYFLOAT` reckons with the 80-bit fractions of x87 on every processor, and answers what \
     Redis does there; on a processor whose `long double` is another (ARM), Redis' last digits \
     differ.",
    "`OBJECT IDLETIME` is always 0, `OBJECT REFCOUNT` always 1, `OBJECT FREQ` always an error, and \
     `OBJECT ENCODING` is what Redis would choose for a fresh value of these bytes (never `raw` \
     for a short value that was appended to).",
    "`MEMORY USAGE` is the size of the entry's allocation; there are no MEMORY MALLOC-STATS and \
     PURGE.",
    "`CONFIG REWRITE` is refused. `CONFIG SET` takes options that can change at run time, and for \
     others their present value. Options of features that are not there have Redis' default in \
     `CONFIG GET` where clients ask for them.",
    "`CLIENT LIST` goes on in slices of 1,024 clients, and other clients are served in between: \
     it returns every client that is there from its beginning to its end, once.",
    "`CLIENT LIST` has a field `watch=` (Redis 7.4); `qbuf-free`, `argv-mem`, `multi-mem`, `rbs`, \
     `rbp`, `oll` and `omem` are 0, and `obl` is all output that waits. `CLIENT KILL` knows MAXAGE \
     (Redis 7.4). There are no CLIENT CACHING, GETREDIR, PAUSE, TRACKING, TRACKINGINFO, UNBLOCK \
     and UNPAUSE.",
    "`CLIENT REPLY` between MULTI and EXEC silences all of EXEC's answer, and never breaks it in \
     the middle.",
    "`CLIENT NO-EVICT ON` keeps a client from being closed for the memory of all clients \
     (`maxmemory-clients`) as long as others hold any; Redis never closes such a client. `CLIENT \
     NO-TOUCH` has no effect.",
    "`maxmemory-clients` is a number of bytes, no percentage. A client closed for it is told so \
     (`-OOM ...`) where it has taken its replies; Redis closes it without a word.",
    "`COMMAND DOCS` and all HELP texts are in other words; `COMMAND DOCS` has no history, \
     and tells a command once however often it is named; `COMMAND INFO` takes 1,024 names at most.",
    "`DEBUG SLEEP` holds its own connection only, and is the only DEBUG beside HELP; it takes \
     strict numbers up to 60 seconds. Those of one EXEC add up, to 60 seconds at most.",
    "`LATENCY LATEST`, `HISTORY`, `RESET` and `DOCTOR` never know of spikes; there is no LATENCY \
     GRAPH.",
    "`INFO` has `todana_version`, `event_loops` and counts by protocol beside Redis' fields; \
     `redis_version` is the version that is followed. Fields of features that are not there are 0, \
     and `errorstats` is empty.",
    "All commands of one turn of an event loop see the same time; what is watched counts as \
     changed by any write, also one that stored the same value. A key that was absent, where \
     SWAPDB gives the watched number another database, must be absent from that at EXEC, and not \
     have come about in the former one since WATCH.",
    "`EXEC` carries out all commands on records first, as one step, then those that answer from \
     the connection or the server (INFO, TIME ...); the answers are in the order of the commands.",
];

const OWN_COMMANDS: &[&str] = &[
    "`RANGE` and `PREFIX` need a database that is ordered, which those with the names `+` and `%` \
     are (option `databases`, as in `todana start +`); in others they answer `ERR the database is \
     not ordered`. The order is that of the keys' bytes, or what the database's name says \
     (`%#rcomp=dec`).",
    "`from` is the key that comes first in that order, also with REV, which walks from `to` down. \
     Any bytes can be a key, but an empty `from` or `to` stands for the end of the database: \
     `RANGE \"\" \"\"` is all of it, `RANGE user:7 \"\"` what comes from `user:7` on.",
    "An answer has LIMIT keys at most, 1,000 where it is not given and 65,536 at most, and it ends \
     beyond 16 MiB. To go on, the same command is sent again with AFTER and the last key of the \
     answer, until an answer is empty; a shorter one than LIMIT need not be the last. The key \
     after AFTER need not be there any more. A key that is there all the time is found exactly \
     once; MULTI and EXEC show all of a range as of one moment.",
    "Where a database is ordered by numbers, the keys of a prefix are not beside one another, and \
     PREFIX looks at all keys. Where thousands of keys are passed over before the first that is \
     found, because they have expired or have another prefix, the command goes on in later turns \
     of the event loop, and other clients are served in between; between MULTI and EXEC it answers \
     an error after a thousand. An answer ends early where thousands are passed over behind it \
     (between MULTI and EXEC a thousand).",
    "WITHVALUES answers keys and values in turn, and in RESP3 an array of pairs, as `ZRANGE \
     WITHSCORES` does.",
    "`COMMAND` tells them with the flag `module`, `COMMAND DOCS` and `COMMAND LIST FILTERBY \
     MODULE` as those of the module `todana`.",
];

/// The page `docs/commands-resp.md`.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    for difference in DIFFERENCES {
        page.push_str(&wrapped(&format!("- {difference}"), "  "));
    }
    page.push_str("\n## What Redis does not have\n\n");
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
        Group::Generic => "Keys",
        Group::Transactions => "Transactions",
        Group::Connection => "Connection",
        Group::Server => "Server",
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
    format!("| {command}` | {since} | {} | {summary} |\n", spec.complexity)
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
    use crate::written::is_written;

    #[test]
    fn the_page_of_commands_is_written() {
        is_written("docs/commands-resp.md", &document());
    }

    #[test]
    fn the_fuzzers_dictionary_is_written() {
        is_written("native/fuzz/dictionaries/resp.dict", &dictionary());
    }
}
