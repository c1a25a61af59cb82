//! The table of procedures as a page of the documentation.

use super::table::{COMMANDS, Group, PAGE};
use todana_protocol::testing::is_written;
use todana_protocol::wrapped;

const HEAD: &str = "\
# Kyoto Tycoon commands

<!-- Written from the command table.
After a change: make docs -->

";

const INTRODUCTION: &[&str] = &[
    "Todana implements Kyoto Tycoon's protocols as in ktserver 0.9.56, all of them on one port: \
     procedures over HTTP (`POST /rpc/set`), single records by path (`GET /key`), and bulk \
     requests in the binary protocol. All protocols share the databases: database 0 of Kyoto \
     Tycoon is database 0 of RESP. The option `databases` sets the number of databases and their \
     order. [One record, four interfaces](#one-record-four-interfaces) states what a record \
     written by one of them looks like to the others.",
    "The password is given with HTTP's `Basic` scheme, with any user name, once per connection. \
     The server answers 403 to requests whose `Host` is neither an address, nor `localhost`, nor \
     one of `kyoto_hosts`, and to requests from pages of other sites. Pages of `kyoto_origins` may \
     send requests and read the answers (`Access-Control-Allow-Origin`); `OPTIONS` reports this to \
     browsers without a password. If a page only loads a URL and does not read it (images, links), \
     browsers state the origin only to loopback addresses and over TLS: a port that clients reach \
     in another way needs a password.",
    "Kyoto Tycoon's protocols have no password, so its clients cannot send one, and the binary \
     protocol has no field for it: if a password is set, a connection must authenticate over HTTP \
     before it uses the binary protocol. Unmodified clients therefore have to run on the server's \
     machine. Clients on other machines connect through a tunnel, or through a proxy on loopback \
     that adds the `Authorization` header.",
];

/// How clients send the requests of a group.
fn introduction(group: Group) -> &'static str {
    match group {
        Group::Server => "With any HTTP method, under `/rpc/`. For inputs in capitals see below.",
        Group::Record => {
            "`xt` is the time when the record expires. A write without `xt` removes the expiry."
        }
        Group::Bulk => {
            "Each input whose name begins with `_` is a record. If `atomic` is present, with any \
             value, the request is one step; otherwise the server processes the records one by \
             one, in the order of their keys. `num` is the number of records stored, removed or \
             found."
        }
        Group::Match => {
            "`max` is the maximum number of keys; if it is missing or negative, there is no \
             maximum. Each key is a line `_key` with its rank, from 0, as the value; `num` is the \
             number of keys. A search may miss keys that are created or removed while it runs."
        }
        Group::Cursor => {
            "`CUR` is a number that the client chooses; it is valid only on its connection. With \
             `step`, the cursor moves afterwards, in the direction of its last move: backward \
             after `cur_jump_back` or `cur_step_back`. Moving backward needs an ordered database. \
             If any client removes the record of a cursor, the cursor moves to the next record in \
             the same direction: a walk never returns to records that it has passed."
        }
        Group::Rest => {
            "`/key` is a key in database 0, `/1/key` or `/%25/key` a key in another database. A \
             slash in a key is written `%2F` unless a database is named. `X-Kt-Mode` is `set`, \
             `add` or `replace`. `X-Kt-Xt` is a point in time: seconds since 1970, or a date in \
             the format of HTTP, RFC 822 or W3C. `X-Kt-Xt: 60` is therefore a minute after the \
             beginning of 1970, whereas `xt=60` of a procedure is a minute from now. The maximum \
             length of a request line also limits the key in a path."
        }
        Group::Binary => {
            "The first byte of a request identifies it as binary. Each record is a separate step. \
             An error is the byte `BF`, after which the server closes the connection."
        }
    }
}

const CHAPTERS: &[(&str, &[&str])] = &[
    (
        "Inputs",
        &[
            "The query, followed by the body, is a map of names to values; if a name occurs twice, \
             the last value counts. The server reads a body of type \
             `application/x-www-form-urlencoded` like the query. In a body of type \
             `text/tab-separated-values`, each line is a name, a tab and a value, and `colenc` \
             gives the encoding of both: `B` is Base64, `Q` quoted-printable, `U` URL encoding. \
             The encoding also applies to the values of the query. Bodies of other types are \
             ignored.",
            "In URL encoding, `+` is a blank, and the server drops blanks, control characters and \
             bytes above 0x7e. In Base64, it skips characters that are not part of the alphabet.",
        ],
    ),
    (
        "Outputs",
        &[
            "Lines of names and values, in byte order of the names as they are sent. If one of the \
             columns is longer than 255 bytes, or has a control character among its first 255 \
             bytes, all columns are encoded with `colenc=B` or `colenc=U`; the server estimates \
             which is shorter.",
            "200 is success. 400: an input is missing or wrong, or the database or cursor does not \
             exist. 450: there is no record, or there is one where none is allowed, or the value \
             differs, or an expression is invalid. 500: any other error. 501: not implemented. \
             503: `WAIT` has timed out. `ERROR` has the details: `DB: 7: no record: no record`.",
        ],
    ),
    (
        "Inputs of every procedure",
        &["`WAIT` is the name of a signal. The procedure waits for this signal before it \
             does anything. `WAITTIME` is the longest wait in seconds, at most a day. The \
             default is 30; it also applies if the text is not a number above 0. If the \
             client closes the connection, or its sending side, the wait ends. `DB` is the \
             number or the name of a database, 0 by default. `CUR` creates a cursor in that \
             database if the connection has none with this number. `SIGNAL` is the name of a \
             signal that the server sends afterwards, even if the procedure failed: to one \
             waiting client, or with `SIGNALBROAD` to all of them. `SIGNALED` is the number \
             of clients that were waiting."],
    ),
    (
        "Numbers and times",
        &[
            "Numbers are parsed leniently: blanks, a sign and digits, and any text after them is \
             ignored. Text that is not a number is 0; a number that does not fit in 64 bits wraps \
             around.",
            "`xt` is in seconds from now, or, if negative, in seconds since 1970. Values of 2^40 - \
             1 and more mean never. A record exists until the end of that second. Outputs give \
             `xt` in seconds since 1970, and only if the record expires. In a database with \
             `#ktopts=p`, `xt` has no effect.",
            "`increment` adds to a signed 64-bit number, which is stored as 8 bytes in big-endian \
             order and wraps around. `increment_double` adds to a number of 16 bytes: an integral \
             part, and a fraction in units of 10^-15. Only a fraction of 1 or more is carried into \
             the integral part: 1 and then -0.25 are stored as 1 and -0.25. `orig` is the initial \
             value of a missing number (0); with `try`, a missing number is an error; with `set`, \
             the present number is ignored. A `num` of 0 changes nothing. `cas` without `oval` \
             expects that there is no record; without `nval` it removes the record.",
        ],
    ),
];

const DATABASES: &[&str] = &[
    "Databases are named at the start, with the option `databases` or after the flags: `bin/todana \
     start ':' '*#capcnt=100000' '%'` serves three databases, 0 to 2. The last part of a name \
     selects the kind.",
    "The databases on disk need a data directory, the option `data_dir`; without one the server \
     does not start. The log in that directory holds the records of all of them, so the path of a \
     name has no meaning, except for `ktserver casket.kct` and `ktserver casket.kch`: the path of \
     the only database in a file is the data directory, unless `TODANA_DATA_DIR` names another \
     one. It has to be new or a data directory: Todana does not read a file of Kyoto Cabinet. In a \
     node with a data directory the databases after the last name are durable, and so is the first \
     one if none is named (`db0.kch`). Directories and text files (`.kcd`, `.kcf`, `.kcx`) are \
     refused. [durability.md](durability.md) says what survives a crash, and how to copy the \
     records of a Kyoto Cabinet file.",
    "Parameters follow the name, each after a `#`. The server logs those that have no effect at \
     the start, by their names and without their values.",
];

/// Name, suffix with the same meaning, description.
const KINDS: &[[&str; 3]] = &[
    [":", ".kcs", "a hash table; the default"],
    ["-", ".kcph", "a hash table; Kyoto Cabinet uses another structure"],
    ["*", ".kcc", "a hash table that evicts records beyond `#capcnt` records or `#capsiz` bytes"],
    ["%", ".kcg", "ordered"],
    ["+", ".kcpt", "ordered; Kyoto Cabinet uses another structure"],
    ["casket.kch", ".kch", "a hash table that is kept on disk"],
    ["casket.kct", ".kct", "ordered, and kept on disk"],
];

/// Parameter, kinds to which it applies in Kyoto Cabinet, its effect in Todana.
const PARAMETERS: &[[&str; 3]] = &[
    ["`type`", "all", "the kind of the database, in place of the one that its name selects"],
    [
        "`rcomp`",
        "`%` `+` `.kct`",
        "the order: `lex` by bytes, `dec` by the decimal number at the beginning of the key, \
         `lexdesc`, `decdesc`. It is fixed when a database on disk is created: another order is \
         refused while it exists",
    ],
    ["`ktopts=p`", "all", "this port ignores expiry times"],
    [
        "`ktcapcnt`, `ktcapsiz`",
        "all",
        "the greatest number of records and of bytes, in memory. No effect on databases on disk: \
         nothing removes their records except requests and their expiry. Watch the memory, or let \
         the records expire",
    ],
    ["`capcnt`, `capsiz`", "`*`", "the same, for `*` only"],
    ["`bnum`", "all but `+` `-`", "none: the hash tables grow by themselves"],
    [
        "`apow`, `fpow`",
        "`.kch` `.kct`",
        "none: records in a log need no alignment and no free list",
    ],
    ["`msiz`", "`.kch` `.kct`", "none: all records are in memory, no file is mapped"],
    [
        "`dfunit`",
        "`.kch` `.kct`",
        "none: there is nothing to defragment; a snapshot replaces the log (`snapshot_log_bytes`)",
    ],
    [
        "`opts`",
        "`*` `%` `.kch` `.kct`",
        "none: `s` and `l` describe addresses in a file; `c`: records are not compressed",
    ],
    ["`zcomp`", "`*` `%` `.kch` `.kct`", "none: records are neither compressed nor encrypted"],
    [
        "`zkey`",
        "`*` `%` `.kch` `.kct`",
        "none: **records on disk are not encrypted**; the log says so. Encrypt the file system",
    ],
    ["`psiz`, `pccap`", "`%` `.kct`", "none: there are no pages and no cache of pages"],
    [
        "`log`, `logkinds`, `logpx`, `mtrg`",
        "all",
        "none: Todana has a log of its own, which `-log` of ktserver names",
    ],
];

/// Subject, limit, what happens beyond it.
const LIMITS: &[(&str, &str, &str)] = &[
    ("Request line", "8191 bytes", "the server closes the connection"),
    (
        "Request line and headers",
        "64 KiB, or 16 KiB before authentication; 128 headers",
        "400, and the server closes the connection",
    ),
    ("Body", "`kyoto_body_bytes_max` (64 MiB)", "413, and the server closes the connection"),
    ("Inputs", "1,048,576 per request", "400 `too many inputs`"),
    (
        "Key of a write",
        "`key_bytes_max` (64 KiB)",
        "500 `DB: 9: system error: the key is too long`; in REST, in `X-Kt-Error`. In the binary \
         protocol, which also limits the keys of reads, `BF`, and the server closes the connection",
    ),
    (
        "Value of a write",
        "`value_bytes_max` (64 MiB)",
        "500 `DB: 9: system error: the value is too long`; in REST and in the binary protocol as \
         for keys",
    ),
    (
        "Database that does not evict",
        "its limits, with `memory_policy=refuse`",
        "500 `DB: 9: system error: the database is full`",
    ),
    ("Reply", "256 MiB", "500 `DB: 9: system error: the reply is too long`"),
    (
        "Cursors of a connection",
        "1024",
        "500 `DB: 9: system error: the connection has too many cursors`",
    ),
    (
        "Bulk request with `atomic`",
        "32,768 records; 16 MiB of values to store",
        "500 `DB: 9: system error: too many records for one step; send fewer, or without atomic`, \
         and nothing is changed",
    ),
    ("`WAITTIME`", "24 hours", "the wait ends after 24 hours"),
    ("Databases", "16", "the server does not start"),
];

/// Subject, ktserver, Todana, reason.
const DIFFERENCES: &[[&str; 4]] = &[
    [
        "Databases",
        "in memory and in files, each in its own file",
        "in memory: `-` `+` `:` `*` `%`; with a data directory `.kch` and `.kct`, whose records \
         are in memory too, and in one log on disk",
        "one log makes a write to any of them durable with one fdatasync",
    ],
    [
        "Database in a file after a crash",
        "repaired when it is opened, which takes long and may lose records",
        "every write that was answered is there (`durability=always`)",
        "a reply should be a promise",
    ],
    [
        "Scripts, update log, replication, snapshots, plug-ins",
        "available if configured",
        "answered as by a ktserver that was started without them: 501, 400, `BF`",
        "its scripts call Kyoto Cabinet; Todana has those of Redis; its log is not ktserver's",
    ],
    [
        "`synchronize` with `command`",
        "runs a program on the server's machine",
        "500 `DB: 15: miscellaneous error: there are no commands`",
        "clients should not start programs",
    ],
    [
        "Threads",
        "one worker for each request, including clients that wait and incomplete requests; at most \
         64",
        "a client that waits or is slow occupies no thread, only its connection",
        "slow clients must not block others",
    ],
    [
        "Long procedures",
        "run to their end, some of them with the database locked",
        "run in slices, and other clients are served in between; only bulk requests with `atomic` \
         are one step, and they are limited",
        "one client must not delay the others",
    ],
    [
        "Limits",
        "256 MiB for a key, value and body; longer keys are truncated in `*`; 200 databases",
        "see above; nothing is truncated",
        "one client must not take all memory",
    ],
    [
        "Cursors of a connection",
        "no limit",
        "the 1,025th returns 500",
        "one client must not take all memory",
    ],
    [
        "`Host`, `Origin`, `Sec-Fetch-Site`, `Referer`",
        "ignored",
        "checked, see above: 403",
        "otherwise every page in a browser could use the port",
    ],
    [
        "`OPTIONS` with `Access-Control-Request-Method`",
        "501, or runs the procedure",
        "204 for pages of `kyoto_origins`, without running anything",
        "browsers send it before they allow a page to send a request",
    ],
    [
        "Password",
        "none",
        "`Basic`: 401 without it. The binary protocol has no field for it: `BF` before the \
         connection has authenticated over HTTP",
        "one password protects all ports",
    ],
    [
        "Body with `GET`, `HEAD`, `DELETE`",
        "parsed as the next request",
        "ignored",
        "two parsers must agree on the end of a request",
    ],
    [
        "Length of a body",
        "the last `Content-Length` counts, even if it is invalid, and has precedence over chunks",
        "different or invalid lengths, a length together with chunks, and codings other than \
         `chunked` are 400, and the server closes the connection",
        "the same",
    ],
    [
        "Chunks in HTTP/1.0",
        "accepted",
        "accepted, and the server closes the connection after the answer",
        "the same",
    ],
    [
        "Headers",
        "a line of more than 8 KiB is parsed as two; every CR is dropped; a line without a colon \
         is ignored",
        "a malformed head is 400, and the server closes the connection",
        "the same",
    ],
    ["`Expect: 100-continue`", "ignored", "answered", "curl waits a second for the answer"],
    ["`Server`", "`KyotoTycoon/0.9.56b`", "`Todana/` and its version", "it is another server"],
    [
        "Eviction in `*` with `capcnt` and `capsiz`",
        "evicts the least recently used record of one of 16 slots",
        "evicts the least used of some sampled records",
        "the table does not keep the order of use",
    ],
    [
        "Eviction with `ktcapcnt` and `ktcapsiz`",
        "evicts the record at an internal cursor",
        "as in `*`; the limits are never exceeded",
        "a record that was just stored should stay",
    ],
    [
        "Order of databases that are not ordered",
        "by buckets; in `*` by 16 slots, in each the oldest first",
        "an arbitrary order that does not change",
        "the hash tables differ",
    ],
    [
        "`-`",
        "backward moves work in some cases",
        "501, as in all databases that are not ordered",
        "it is not ordered",
    ],
    [
        "`X-Kt-Xt` of a record that expires after the year 9999",
        "a date in that year",
        "the last second of 9999",
        "the dates of HTTP have four digits for the year",
    ],
    [
        "REST errors of the database",
        "500 for errors other than 404 and 450",
        "the same, also for keys and values that are too long",
        "one rule for both HTTP interfaces",
    ],
    [
        "`increment_double` from 2^63 on",
        "stores -infinity, or wraps around",
        "stores and returns infinity with the sign of the number",
        "the behaviour is undefined in C",
    ],
    [
        "`num` and `orig` of `increment_double`",
        "parsed digit by digit with 64 bits, at most sixteen digits",
        "the nearest double",
        "the two rarely differ, and only in the last of 53 bits",
    ],
    [
        "`match_*` and expired records",
        "return expired records that are not yet removed",
        "skip expired records",
        "a search should not find a record that cannot be read",
    ],
    [
        "`match_regex`",
        "glibc's expressions",
        "the same, without back-references and very large repetitions (450)",
        "a search takes time linear in the key",
    ],
    [
        "`match_regex` and long keys",
        "searched",
        "500 if the length of a key in bytes, multiplied by the number of states of the \
         expression, exceeds 2^18",
        "one client must not delay the others",
    ],
    [
        "`match_similar`",
        "any origin",
        "an origin of at most 1,024 characters",
        "computing a distance takes time proportional to both lengths",
    ],
    [
        "A cursor that moves backward, after another client has removed its record",
        "moves to the following record, which the walk has passed",
        "moves to the preceding record",
        "a walk should not return the same record twice",
    ],
    [
        "Direction of cursors on `+`",
        "`step`, `cur_remove` and `cur_seize` always go forward",
        "the direction of the last move, as on `%`",
        "one order, one behaviour",
    ],
    [
        "A cursor whose record is removed and stored again before the cursor is used",
        "on the following record",
        "on the same record",
        "a cursor stores a key, and the table does not know the cursors",
    ],
    [
        "Cursors and records that have expired",
        "such a record is a place of a cursor until the collector, which runs with other requests, \
         removes it: `cur_step` may end on it, and reads and `cur_set_value` then go on to the \
         next record, unless its key has been stored again",
        "no step ends on such a record; a cursor whose record expires goes on to the next one when \
         it is used, unless its key has been stored again",
        "where a walk goes should not depend on when the collector runs",
    ],
    [
        "`clear` by another connection",
        "resets the cursors of all connections",
        "cursors continue with records that are stored after their keys",
        "the same",
    ],
    [
        "`vacuum` with `step`",
        "visits `step` records",
        "removes at most `step` expired records",
        "the table knows which records expire next",
    ],
    [
        "Records with an expiry from another protocol",
        "-",
        "`xt` is the last whole second; they expire within the following one",
        "Redis has times in milliseconds",
    ],
    [
        "`status`",
        "has figures of files and pages",
        "these figures are 0; `size`, and for a database on disk `realsize`, is the number of \
         bytes of records and indexes",
        "Todana has neither a file for each database nor pages",
    ],
    [
        "`report`: memory",
        "`sys_mem_size`, `sys_mem_free`, `sys_mem_cached`",
        "absent",
        "Todana does not report figures that it does not know",
    ],
    [
        "`report`: `cnt_*`",
        "counted per operation",
        "counted per call: a bulk request counts as one, over HTTP and in the binary protocol. A \
         miss is a call that failed: any status except 2xx, in REST too; a bulk request that found \
         nothing has not failed",
        "the server measures calls",
    ],
    [
        "`report`: `conf_*`",
        "versions and features of its build",
        "0.9.56, the version of Todana, and its features",
        "it is another server",
    ],
];

/// The last chapter: how a write through one protocol appears in the others.
const INTERFACES: &str = include_str!("interfaces.md");

/// The page `docs/commands-kyoto.md`.
fn document() -> String {
    let mut page = HEAD.to_owned();
    for paragraph in INTRODUCTION {
        page.push_str(&wrapped(paragraph, ""));
        page.push('\n');
    }
    for group in Group::ALL {
        page.push_str(&format!("## {group:?}\n\n{}\n", wrapped(introduction(group), "")));
        page.push_str("| Name | Inputs | |\n|---|---|---|\n");
        for (name, (of, inputs, summary)) in COMMANDS.iter().zip(PAGE) {
            // `unknown` has a row in the statistics only.
            if *of == group && *name != "unknown" {
                page.push_str(&format!("| `{name}` | {} | {summary} |\n", code(inputs)));
            }
        }
        page.push('\n');
    }
    let [before, files, after] = DATABASES else { panic!("there are three paragraphs") };
    page.push_str(&format!("## Databases\n\n{}\n", wrapped(before, "")));
    page.push_str("| Name | or a name that ends in | |\n|---|---|---|\n");
    for [name, suffix, kind] in KINDS {
        page.push_str(&format!("| `{name}` | `{suffix}` | {kind} |\n"));
    }
    page.push_str(&format!("\n{}\n{}\n", wrapped(files, ""), wrapped(after, "")));
    page.push_str("| Parameter | of | effect |\n|---|---|---|\n");
    for [name, kinds, effect] in PARAMETERS {
        page.push_str(&format!("| {name} | {kinds} | {effect} |\n"));
    }
    page.push('\n');
    for (title, paragraphs) in CHAPTERS {
        page.push_str(&format!("## {title}\n\n"));
        for paragraph in *paragraphs {
            page.push_str(&wrapped(paragraph, ""));
            page.push('\n');
        }
    }
    page.push_str("## Limits\n\n| Subject | Limit | Beyond the limit |\n|---|---|---|\n");
    for (what, most, beyond) in LIMITS {
        page.push_str(&format!("| {what} | {most} | {beyond} |\n"));
    }
    page.push_str("\n## Differences from ktserver 0.9.56\n\n");
    page.push_str("| | ktserver | Todana | reason |\n|---|---|---|---|\n");
    for [subject, theirs, ours, reason] in DIFFERENCES {
        page.push_str(&format!("| {subject} | {theirs} | {ours} | {reason} |\n"));
    }
    page.push('\n');
    page.push_str(INTERFACES);
    page
}

/// Formats the names of inputs as code.
fn code(inputs: &str) -> String {
    if inputs.is_empty() || inputs == "anything" {
        return inputs.to_owned();
    }
    let names: Vec<String> = inputs.split(", ").map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[test]
fn the_page_of_commands_is_written() {
    is_written("docs/commands-kyoto.md", &document());
}
