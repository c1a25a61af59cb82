//! The command table as a page of the documentation, and as words for the fuzzer.

use super::table::{COMMANDS, Group, KINDS, Kind};
use crate::written::{is_written, wrapped};

const HEAD: &str = "\
# memcached commands

<!-- Written from the command table.
After a change: make docs -->

";

const INTRODUCTION: &[&str] = &[
    "Todana speaks memcached's text protocol and meta commands as memcached 1.6.18 does, on \
     database 0: the same records that RESP's database 0 has. \
     `native/protocol/transcripts/memcached.txt` holds some hundred requests with memcached's \
     answers, which are compared byte for byte; the differences are marked there and listed here.",
    "A password is given as to `memcached -Y`: the first command is a `set` of any key whose \
     value is `username password`, or the password alone where it has no space in it. Any user \
     name will do. The answer is `STORED` or `CLIENT_ERROR authentication failure`; before that \
     everything else is answered `CLIENT_ERROR unauthenticated`, a value may have 16 KiB and a \
     line as well.",
];

const RANGE_SEARCH: &str = "\
     `get mio:range-search from to limit asc|desc` answers the records between two keys, both \
     included, in order, as the store Mio did: `VALUE` lines, then `END`. The lower key comes \
     first, also with `desc` (where the database is in descending order: the higher one, and \
     `asc` descends); the limit is 1 to 65,536. `gets` tells tokens as well. Database 0 \
     must be ordered (option `databases`, as in `todana start +`); it is a `SERVER_ERROR` where it \
     is not, and a `CLIENT_ERROR` where the line is wrong. The answer is made over as many turns \
     of the event loop as it takes. A record whose own key is `mio:range-search` is found by a \
     `get` of that key alone, or after another key, but not as the first of several.";

const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "Not there",
        &[
            "The binary protocol (answered with a `CLIENT_ERROR` and closed), UDP, SASL, TLS.",
            "`slabs`, `lru`, `lru_crawler`, `watch`, `cache_memlimit`, `refresh_certs`, `stats \
             detail` and `stats cachedump`: `ERROR`. `stats sizes` is disabled, `stats items` has \
             all records in class 1, `stats slabs` has totals only.",
            "What came after 1.6.18: the flags `E` (a token of the client's own), `S` and `x` are \
             invalid; `N` of `ms` is taken and does nothing.",
            "`shutdown` answers `ERROR: shutdown not enabled`, as memcached does unless it is \
             enabled. `verbosity` changes nothing.",
        ],
    ),
    (
        "Lines and limits",
        &[
            "Keys with control characters are refused (`CLIENT_ERROR bad command line format`); \
             the protocol forbids them, memcached takes them. Keys in base64 may have any bytes.",
            "The limit of a value, 1 MiB unless configured, counts the value alone; memcached \
             counts the key and its own header too.",
            "A line longer than 64 KiB (an option) is answered `CLIENT_ERROR line too long` and \
             the connection is closed; memcached closes without a word from 2 KiB on unless the \
             line is a `get` or `gets`. Those have no limit here either: their keys are read as \
             they come. If a key beyond the first 64 KiB is wrong, the values of those before it \
             may have been sent before the `CLIENT_ERROR`.",
            "Client flags beyond 32 bits, and lengths beyond 31 bits in `ms`, are refused; \
             memcached takes what is left of them in fewer bits.",
            "An opaque token may have 32 bytes, as documented; memcached 1.6.18 takes 31, and any \
             number in `ma`.",
            "A line that begins with `Host:` or any HTTP method closes the connection; memcached \
             looks for lines that end in HTTP's version.",
            "A `get` of many keys is answered over several turns of the event loop: what other \
             clients write between two keys is seen.",
        ],
    ),
    (
        "Records",
        &[
            "Times are kept in milliseconds: a record set for one second lives one second, and \
             `flush_all 1` takes a second; memcached's clock ticks once a second. Moments beyond \
             2038 and 2106 are what they say.",
            "Every write gives a new CAS token, and so do `touch`, `gat` and `mg T` where they \
             change the expiry; memcached keeps the token then. `gats` and `mg c T` tell the new \
             one. Tokens are below 2^48.",
            "`decr` stores the number as it is; memcached pads it with spaces to its former \
             length. What C's `strtoull` accepts is a number, as there: `007`, `+1`, ` 1`, `1 2`, \
             and `-0`.",
            "Records that came by another protocol have flags 0, and `h` and `l` of `mg` are 0 \
             for them until they are written by memcached.",
        ],
    ),
    (
        "Meta commands",
        &[
            "`mg` with `t` and `T` tells the new time to live in any order of the two; memcached \
             tells the old one if `t` comes first.",
            "`k` returns the key as it was sent, with `b` after it where that was sent; memcached \
             returns the text where the record was stored by a text key.",
            "`ma` with `q` says nothing when `N` makes the record either; with `C` it does not \
             make one (`NF`), as there is nothing that could have that token.",
            "`me` has no `cls`; `exp` is the time left (memcached 1.6.18 tells it negative); \
             `size` is the size of the entry in Todana.",
        ],
    ),
    (
        "Figures",
        &[
            "`version`, and the `version` of `stats`, tell the level of the protocol first: \
             `1.6.18-todana-` and Todana's version.",
            "`stats` has no figure that Todana does not have. `cmd_get`, `get_hits` and \
             `get_misses` count look-ups of keys by all protocols; `touch_hits` and \
             `touch_misses` count `touch` only; connections and bytes read and written are those \
             of all protocols; items, bytes and evictions those of database 0. `stats conns` has \
             no `state`.",
            "`stats reset` sets the counters of all protocols back.",
        ],
    ),
];

/// The page `docs/commands-memcached.md`.
fn document() -> String {
    let mut page = HEAD.to_owned();
    for paragraph in INTRODUCTION {
        page.push_str(&wrapped(paragraph, ""));
        page.push('\n');
    }
    page.push_str("## What differs from memcached 1.6.18\n");
    for (title, differences) in DIFFERENCES {
        page.push_str(&format!("\n### {title}\n\n"));
        for difference in *differences {
            page.push_str(&wrapped(&format!("- {difference}"), "  "));
        }
    }
    page.push_str("\n## What memcached does not have\n\n");
    page.push_str(&wrapped(RANGE_SEARCH, ""));
    page.push_str("\n## Commands\n\nArguments in brackets may be left out. ");
    page.push_str("With `noreply` nothing is answered.\n");
    for group in Group::ALL {
        page.push_str(&format!("\n### {group:?}\n\n| Command | |\n|---|---|\n"));
        for (name, kind) in COMMANDS.iter().zip(KINDS) {
            if let Kind::Command(of, arguments, summary) = kind
                && *of == group
            {
                let command = format!("{name} {arguments}").replace('|', "\\|");
                page.push_str(&format!("| `{}` | {summary} |\n", command.trim_end()));
            }
        }
    }
    page.push_str(FLAGS);
    page
}

const FLAGS: &str = "
### Flags of meta commands

| Flag | of | |
|---|---|---|
| `b` | all | The key is base64. |
| `k` | all but `me` | Return the key. |
| `Otoken` | all but `me` | Return the token. |
| `q` | `mg` | Say nothing of a miss. |
| `q` | `ms` `md` `ma` | Say nothing of success. |
| `v` | `mg` `ma` | Return the value. |
| `c` | `mg` `ms` `ma` | Return the CAS token. |
| `t` | `mg` `ma` | Return the seconds left to live, -1 for ever. |
| `f` `s` | `mg` | Return the client's flags, the length of the value. |
| `h` `l` | `mg` | Return whether the record was fetched before, the seconds since. |
| `u` | `mg` | Do not count this as a fetch. |
| `Ttime` | `mg` `ms` `ma`, `md` with `I` | Give the record this expiry. |
| `Ntime` | `mg` `ma` | Make the record, with this expiry, where there is none. |
| `Rtime` | `mg` | The first to see less time left than this is to recache (`W`). |
| `Ctoken` | `ms` `md` `ma` | Only where the record has this CAS token. |
| `I` | `ms` with `C` | Store over a newer record as well, marked stale. |
| `I` | `md` | Mark as stale instead of removing. |
| `Fflags` | `ms` | Store these client flags. |
| `Mmode` | `ms` | `S` set, `E` add, `R` replace, `A` append, `P` prepend. |
| `Mmode` | `ma` | `I` or `+` add, `D` or `-` take away. |
| `Dnumber` `Jnumber` | `ma` | What to add (1), what to begin with (0). |
| `P` `L` | all | Hints for proxies, passed over. |

Beside what was asked for, `mg` returns `W` (you won: recache it), `Z` (somebody else did) and `X`
(stale).
";

/// Words of the protocol for a fuzzer.
fn dictionary() -> String {
    const MORE: &[&str] = &[
        "\\x0d\\x0a",
        " noreply\\x0d\\x0a",
        " 0 0 1\\x0d\\x0ax\\x0d\\x0a",
        " 2\\x0d\\x0axy\\x0d\\x0a",
        " 0",
        " -1",
        " 4294967296",
        " 18446744073709551615",
        " YQ==",
        " b",
        " c",
        " f",
        " h",
        " k",
        " l",
        " O1",
        " q",
        " s",
        " t",
        " v",
        " u",
        " I",
        " N30",
        " R30",
        " T5",
        " C1",
        " D5",
        " J7",
        " ME",
        " MA",
        " MP",
        " MR",
        " MD",
        " F9",
        "get mio:range-search ",
        " 9 asc\\x0d\\x0a",
        " 9 desc\\x0d\\x0a",
        "secret\\x0d\\x0a",
        "set a 0 0 6\\x0d\\x0a",
        "Host:",
        "GET /",
        "\\x80",
    ];
    let mut lines = String::from("# Written from the command table.\n");
    for (name, kind) in COMMANDS.iter().zip(KINDS) {
        if matches!(kind, Kind::Command(..)) {
            lines.push_str(&format!("\"{name} \"\n"));
        }
    }
    for word in MORE {
        lines.push_str(&format!("\"{word}\"\n"));
    }
    lines
}

#[test]
fn the_page_of_commands_is_written() {
    is_written("docs/commands-memcached.md", &document());
}

#[test]
fn the_fuzzers_dictionary_is_written() {
    is_written("native/fuzz/dictionaries/memcached.dict", &dictionary());
}
