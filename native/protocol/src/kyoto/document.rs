//! The table of procedures as a page of the documentation.

use super::table::{COMMANDS, Group, PAGE};
use crate::written::{is_written, wrapped};

const HEAD: &str = "\
# Kyoto Tycoon commands

<!-- Written from the command table.
After a change: make docs -->

";

const INTRODUCTION: &[&str] = &[
    "Todana speaks Kyoto Tycoon's protocols as ktserver 0.9.56 does, all on one port: procedures \
     by HTTP (`POST /rpc/set`), one record by its path (`GET /key`), and bulks in binary. The \
     records are those of the other protocols: database 0 here is database 0 of RESP. Which \
     databases there are, and which of them are ordered, is said by the option `databases`.",
    "A password is asked for by HTTP's `Basic` scheme, with any user name, once a connection. \
     Requests whose `Host` is neither an address, nor `localhost`, nor among `kyoto_hosts`, and \
     those that a page of another site sends, are answered 403. Pages of `kyoto_origins` may send \
     requests and read what is answered (`Access-Control-Allow-Origin`); `OPTIONS` tells their \
     browsers so, without a password. Of what a page loads without reading it, images and links, \
     browsers say where it comes from to loopback addresses and over TLS alone: a port that is \
     reached otherwise needs a password.",
    "Kyoto Tycoon knows no passwords, so its clients send none, and the binary protocol has no \
     word for one: over HTTP a connection must have authenticated before it is spoken. Clients as \
     they are therefore reach this port on the server's own machine. From others they come through \
     a tunnel, or a proxy on loopback that adds the `Authorization` header.",
];

/// How rows of a group are asked for.
fn introduction(group: Group) -> &'static str {
    match group {
        Group::Server => "By any method of HTTP, under `/rpc/`. Inputs in capitals, see below.",
        Group::Record => "`xt` is when the record expires. Without it a write makes it permanent.",
        Group::Bulk => {
            "A record is an input whose name begins with `_`. With `atomic`, whatever its value, \
             all are one step; without, they are done one by one in the order of their keys. `num` \
             tells how many were stored, removed or found."
        }
        Group::Match => {
            "`max` is how many keys are wanted; all where it is missing or negative. Each key \
             comes as `_key` with its rank, from 0; `num` tells how many. Keys that come or go \
             during a search may be missed."
        }
        Group::Cursor => {
            "`CUR` is a number of the client's choice, which counts on its connection only. With \
             `step` the cursor moves on afterwards, in the direction of its last move: after \
             `cur_jump_back` or `cur_step_back` that is backward. Moves backward need an ordered \
             database. A cursor whose record is removed, by anyone, moves on in the same \
             direction: a walk never returns to what it has passed."
        }
        Group::Rest => {
            "`/key` is a key in database 0, `/1/key` or `/%25/key` in another; a slash in a key \
             is `%2F` unless a database is named. `X-Kt-Mode` is `set`, `add` or `replace`, \
             `X-Kt-Xt` a moment: seconds since 1970, or a date as of HTTP, RFC 822 or W3C. So \
             `X-Kt-Xt: 60` was over in 1970, where the procedures' `xt=60` is a minute from now. A \
             key in a path is bounded by the length of a request line."
        }
        Group::Binary => {
            "The first byte of a request says that it is binary. Each record is a step of its own. \
             An error is the byte `BF`, after which the connection is closed."
        }
    }
}

const CHAPTERS: &[(&str, &[&str])] = &[
    (
        "Inputs",
        &[
            "The query, and the body after it, are a map of names to values; of the same name, the \
             last counts. A body of `application/x-www-form-urlencoded` is read as the query is. \
             In one of `text/tab-separated-values` each line is a name, a tab and a value, and \
             `colenc` says how both are encoded: `B` is Base64, `Q` quoted-printable, `U` URL \
             encoding. It is applied to what the query said too. Bodies of other types are passed \
             over.",
            "In URL encoding `+` is a blank, and blanks, control characters and bytes above 0x7e \
             are dropped. In Base64, characters that do not belong there are skipped.",
        ],
    ),
    (
        "Outputs",
        &[
            "Lines of names and values in byte order of the names as they are sent. All columns \
             are encoded if one of them is longer than 255 bytes, or has a control character \
             among its first 255 bytes: by `colenc=B` or `colenc=U`, whichever a rough guess \
             takes for shorter.",
            "200 is success. 400: an input is missing or wrong, or there is no such database or \
             cursor. 450: no record, a record where there should be none, another value, a wrong \
             expression. 500: what else can go wrong. 501: not implemented. 503: the time to wait \
             was over. `ERROR` tells more: `DB: 7: no record: no record`.",
        ],
    ),
    (
        "Inputs of every procedure",
        &["`WAIT` is the name of a signal to wait for before anything is done, for `WAITTIME` \
        seconds, a day at most; 30 if it is missing, no number, or not above 0. A client that \
        closes the connection, or its sending side, waits no more. `DB` is the number of a \
        database or its name, 0 if missing. `CUR` makes a cursor on that database, if there is \
        none of this number. `SIGNAL` is the name of a signal to give afterwards, also if the \
        procedure failed: to one client that waits, or to all with `SIGNALBROAD`; `SIGNALED` \
        tells how many waited."],
    ),
    (
        "Numbers and times",
        &[
            "Numbers are read leniently: blanks, a sign, digits, and whatever follows. What is no \
             number is 0, what is too large wraps around in 64 bits.",
            "`xt` is in seconds from now, or, negative, since 1970. From 2^40 - 1 on it means \
             never. A record lives to the end of that second. Outputs tell it in seconds since \
             1970, and only where the record expires. In a database with `#ktopts=p` there is no \
             `xt`.",
            "`increment` adds to 64 bits, signed, stored as 8 bytes with the highest first, and \
             wraps around. `increment_double` adds to 16 bytes: a whole part, and 10^-15ths, of \
             which only one and more is carried: 1 and then -0.25 are stored as 1 and -0.25. \
             `orig` is what a missing number counts as (0); with `try` there must be one, with \
             `set` it does not count what there was. A `num` of 0 changes nothing. `cas` without \
             `oval` expects no record, without `nval` it removes one.",
        ],
    ),
];

const DATABASES: &[&str] = &[
    "Named at the start, by the option `databases` or after the flags: \
     `bin/todana start ':' '*#capcnt=100000' '%'` serves three, 0 to 2. The last part of a name \
     tells the kind.",
    "Parameters follow the name, each behind a `#`: `capcnt` and `capsiz` (`*` only), `ktcapcnt` \
     and `ktcapsiz` (the same for any kind), `ktopts=p` (no expiry by this port), `rcomp` (the \
     order: `lex` by bytes, `dec` by the decimal number at the front of the key, `lexdesc`, \
     `decdesc`), and `type` (a kind in place of the name's). Kyoto Cabinet's other parameters have \
     no meaning here; the log says so at the start.",
];

/// Name, another way to say it, what it is.
const KINDS: &[[&str; 3]] = &[
    [":", ".kcs", "a hash; the default"],
    ["-", ".kcph", "a hash; Kyoto Cabinet has another structure behind it"],
    ["*", ".kcc", "a hash that makes room beyond `#capcnt` records or `#capsiz` bytes"],
    ["%", ".kcg", "ordered"],
    ["+", ".kcpt", "ordered; Kyoto Cabinet has another structure behind it"],
];

/// Limit, what happens beyond it.
const LIMITS: &[(&str, &str, &str)] = &[
    ("Request line", "8191 bytes", "the connection is closed"),
    (
        "Request line and headers",
        "64 KiB, 16 KiB before a password is told; 128 headers",
        "400, and the connection is closed",
    ),
    ("Body", "`kyoto_body_bytes_max` (64 MiB)", "413, and the connection is closed"),
    ("Inputs", "1,048,576 a request", "400 `too many inputs`"),
    (
        "Key that is written",
        "`key_bytes_max` (64 KiB)",
        "500 `DB: 9: system error: the key is too long`; by REST in `X-Kt-Error`; in binary, where \
         keys that are read count too, `BF`, and the connection is closed",
    ),
    (
        "Value that is written",
        "`value_bytes_max` (64 MiB)",
        "500 `DB: 9: system error: the value is too long`; by REST and in binary as with keys",
    ),
    (
        "Database that may not evict",
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
        "Bulk with `atomic`",
        "32,768 records; 16 MiB of values that are stored",
        "500 `DB: 9: system error: too many records for one step; send fewer, or without atomic`, \
         and nothing is done",
    ),
    ("Time to wait", "24 hours", "waits no longer"),
    ("Databases", "16", "the server does not start"),
];

/// Subject, ktserver, Todana, why.
const DIFFERENCES: &[[&str; 4]] = &[
    [
        "Databases",
        "also in files",
        "in memory: `-` `+` `:` `*` `%`",
        "Todana keeps records in memory",
    ],
    [
        "Scripts, update log, replication, snapshots, plug-ins",
        "there, if set up",
        "answered as by a ktserver that was started without: 501, 400, `BF`",
        "Lua is not embedded, and there is no log yet",
    ],
    [
        "`synchronize` with `command`",
        "runs a program of the server's machine",
        "500 `DB: 15: miscellaneous error: there are no commands`",
        "clients should not start programs",
    ],
    [
        "Threads",
        "a worker for each request, client that waits, half of a request; 64 at most",
        "none: a client that waits, or is slow, holds nothing but its connection",
        "slow clients must not stop others",
    ],
    [
        "Long procedures",
        "run to their end, some under the database's lock",
        "go on slice by slice between other clients' requests; `atomic` bulks alone are one step, \
         and have a limit for it",
        "one client must not hold up the others",
    ],
    [
        "Limits",
        "256 MiB a key, value and body; longer keys are cut in `*`; 200 databases",
        "see above; nothing is cut",
        "one client must not take all memory",
    ],
    [
        "Too many cursors",
        "none are",
        "the 1,025th of a connection is 500",
        "one client must not take all memory",
    ],
    [
        "`Host`, `Origin`, `Sec-Fetch-Site`, `Referer`",
        "not looked at",
        "looked at, see above: 403",
        "every page in a browser can reach the port otherwise",
    ],
    [
        "`OPTIONS` with `Access-Control-Request-Method`",
        "501, or the procedure is run",
        "204 for pages of `kyoto_origins`, and nothing is run",
        "browsers ask so before pages may send",
    ],
    [
        "Password",
        "none",
        "`Basic`: 401 without it. In binary there is no word for it: `BF` before a request by HTTP \
         has told it",
        "one password guards all ports",
    ],
    [
        "Body with `GET`, `HEAD`, `DELETE`",
        "taken for the next request",
        "passed over",
        "two readers of a request must not differ about its end",
    ],
    [
        "Length of a body",
        "the last `Content-Length` counts, whatever it is, before chunks",
        "lengths that differ or are no number, a length beside chunks, and codings other than \
         `chunked` are 400, and the connection is closed",
        "the same",
    ],
    [
        "Chunks in HTTP/1.0",
        "taken",
        "taken, and the connection is closed after the answer",
        "the same",
    ],
    [
        "Headers",
        "a line of more than 8 KiB is taken for two; every CR is dropped; a line without a colon \
         is passed over",
        "what HTTP does not know is 400, and the connection is closed",
        "the same",
    ],
    ["`Expect: 100-continue`", "not looked at", "answered", "curl waits a second for it"],
    ["`Server`", "`KyotoTycoon/0.9.56b`", "`Todana/` and its version", "it is another server"],
    [
        "Room in `*` with `capcnt` and `capsiz`",
        "the least recently used of 16 slots goes",
        "of some sampled records the one used least goes",
        "no order of use is kept for each record",
    ],
    [
        "Room with `ktcapcnt` and `ktcapsiz`",
        "whatever a cursor stands on goes",
        "the same as in `*`; the limits are never passed",
        "a record that was just stored should stay",
    ],
    [
        "Order where there is none",
        "buckets; in `*` 16 slots, the oldest first in each",
        "some order that stays the same",
        "hash tables differ",
    ],
    [
        "`-`",
        "backward moves work in part",
        "501, as with all databases without order",
        "it is not ordered",
    ],
    [
        "`X-Kt-Xt` of a record that expires after 9999",
        "a date of the year",
        "the last second of 9999",
        "dates of HTTP have four digits for it",
    ],
    [
        "REST, where the database fails",
        "500 for what is not 404 or 450",
        "the same; so are keys and values that are too long",
        "one rule for both ways by HTTP",
    ],
    [
        "`increment_double` from 2^63 on",
        "stores -infinity, or wraps around",
        "infinity of the number's sign, stored and returned",
        "C leaves open what becomes of such numbers",
    ],
    [
        "`num` and `orig` of `increment_double`",
        "read digit by digit with 64 bits, sixteen digits at most",
        "the nearest double",
        "the same in all but the last of 53 bits, and there seldom",
    ],
    [
        "`match_*` and expired records",
        "tells those that were not collected yet",
        "passes over them",
        "what cannot be read should not be found",
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
        "500 where bytes of a key times states of the expression pass 2^18",
        "one client must not hold up the others",
    ],
    [
        "`match_similar`",
        "any origin",
        "an origin of at most 1,024 characters",
        "a distance takes time by both lengths",
    ],
    [
        "A cursor that goes backward and whose record another client removes",
        "on the record that follows it, which the walk has passed",
        "on the record before it",
        "a walk should not return the same record twice",
    ],
    [
        "Direction of cursors on `+`",
        "`step`, `cur_remove` and `cur_seize` always go forward",
        "the direction of the last move, as on `%`",
        "one order, one behaviour",
    ],
    [
        "A cursor whose record is removed and stored again before its next look",
        "on the record that followed",
        "on the record again",
        "a cursor remembers a key, and the table knows nothing of it",
    ],
    [
        "`clear` by another connection",
        "its cursors are not set any more",
        "they go on with what is stored after their keys since",
        "the same",
    ],
    [
        "`vacuum` with `step`",
        "looks at so many records",
        "removes at most so many expired records",
        "the table knows which records expire next",
    ],
    [
        "Expired by other protocols",
        "-",
        "`xt` tells the last whole second; they expire within the next",
        "Redis' times are in milliseconds",
    ],
    [
        "`status`",
        "figures of files and pages",
        "the names are there, with 0; `size` is bytes of records and indexes",
        "there are none of them",
    ],
    [
        "`report`: memory",
        "`sys_mem_size`, `sys_mem_free`, `sys_mem_cached`",
        "left out",
        "figures that are not known are not made up",
    ],
    [
        "`report`: `cnt_*`",
        "by operation",
        "by call: a bulk is one, by HTTP and in binary. A miss is a call that failed: any status \
         but 2xx, also by REST; a bulk that found nothing has not failed",
        "calls are what the server measures",
    ],
    [
        "`report`: `conf_*`",
        "versions and features of its build",
        "0.9.56, the version of Todana, and what it has",
        "it is another server",
    ],
];

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
            // What is no procedure has a row of the statistics only.
            if *of == group && *name != "unknown" {
                page.push_str(&format!("| `{name}` | {} | {summary} |\n", code(inputs)));
            }
        }
        page.push('\n');
    }
    let [before, after] = DATABASES else { panic!("the table stands between two paragraphs") };
    page.push_str(&format!("## Databases\n\n{}\n", wrapped(before, "")));
    page.push_str("| Name | or a name that ends in | |\n|---|---|---|\n");
    for [name, suffix, kind] in KINDS {
        page.push_str(&format!("| `{name}` | `{suffix}` | {kind} |\n"));
    }
    page.push_str(&format!("\n{}\n", wrapped(after, "")));
    for (title, paragraphs) in CHAPTERS {
        page.push_str(&format!("## {title}\n\n"));
        for paragraph in *paragraphs {
            page.push_str(&wrapped(paragraph, ""));
            page.push('\n');
        }
    }
    page.push_str("## Limits\n\n| What | At most | Beyond it |\n|---|---|---|\n");
    for (what, most, beyond) in LIMITS {
        page.push_str(&format!("| {what} | {most} | {beyond} |\n"));
    }
    page.push_str("\n## What differs from ktserver 0.9.56\n\n");
    page.push_str("| | ktserver | Todana | because |\n|---|---|---|---|\n");
    for [subject, theirs, ours, reason] in DIFFERENCES {
        page.push_str(&format!("| {subject} | {theirs} | {ours} | {reason} |\n"));
    }
    page
}

/// Names of inputs in the type of code.
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
