//! The command table as a page of the documentation, and as a dictionary for the fuzzer.

use super::binary::OPCODES;
use super::table::{COMMANDS, Group, KINDS, Kind};
use todana_protocol::testing::is_written;
use todana_protocol::wrapped;

const HEAD: &str = "\
# memcached commands

<!-- Written from the command table.
After a change: make docs -->

";

const INTRODUCTION: &[&str] = &[
    "Todana implements memcached's text protocol with its meta commands, and the binary protocol, \
     as in memcached 1.6.18, on database 0: these are the records of RESP's database 0. A \
     connection whose first byte is 0x80 speaks the binary protocol, every other the text \
     protocol. `native/memcached/transcripts/memcached.txt` contains some hundred requests with \
     memcached's answers. The tests compare Todana's answers byte for byte; the file marks the \
     differences, and this page lists them.",
    "A client sends the password as with `memcached -Y`: the first command is a `set` of any key, \
     whose value is `username password`, or only the password if it contains no space. Any user \
     name is accepted. The answer is `STORED` or `CLIENT_ERROR authentication failure`. Before \
     authentication, the answer to any other command is `CLIENT_ERROR unauthenticated`, and a \
     value, like a line, may have at most 16 KiB.",
    "With the binary protocol, a client authenticates by SASL with the mechanism PLAIN. Any user \
     name is accepted. Before authentication, `version` and the SASL requests are answered; after \
     any other request the server answers `Auth failure.` and closes the connection. Without a \
     password, the SASL requests are unknown commands, as in memcached without `-S`.",
];

const RANGE_SEARCH: &str = "\
     `get mio:range-search from to limit asc|desc` returns the records between two keys, both \
     included, in order, as in the Mio store: `VALUE` lines, then `END`. The lower key comes \
     first, even with `desc`. (If the database is in descending order, the higher key comes first, \
     and `asc` descends.) The limit is 1 to 65,536. `gets` also returns the CAS tokens. Database 0 \
     must be ordered (option `databases`, as in `todana start +`); otherwise the answer is a \
     `SERVER_ERROR`. It is a `CLIENT_ERROR` if the line is malformed. A long answer is sent over \
     several turns of the event loop. To read a record whose key is `mio:range-search`, use a \
     `get` with this key alone, or with another key before it.";

const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "Not supported",
        &[
            "UDP, TLS, SASL mechanisms other than PLAIN.",
            "`slabs`, `lru`, `lru_crawler`, `watch`, `cache_memlimit`, `refresh_certs` and \
             `stats cachedump`: `ERROR`. `stats sizes` is disabled, `stats items` \
             and `stats slabs` report all records in class 1, as chunks of their mean size.",
            "Flags later than 1.6.18: `E` (a token that the client chooses), `S` and `x` are \
             invalid. `N` of `ms` is accepted, but has no effect.",
            "`shutdown` answers `ERROR: shutdown not enabled`, as memcached does unless it is \
             enabled. `verbosity` has no effect.",
        ],
    ),
    (
        "Lines and limits",
        &[
            "Keys with control characters are refused (`CLIENT_ERROR bad command line format`). \
             The protocol forbids them, but memcached accepts them. Keys in base64 may contain any \
             bytes.",
            "The limit of a value, 1 MiB by default, applies to the value alone; memcached \
             includes the key and its header.",
            "A line longer than 64 KiB (an option) is answered with `CLIENT_ERROR line too long`, \
             and the server closes the connection. memcached closes the connection without an \
             answer from 2 KiB on, unless the line is a `get` or `gets`. In Todana, too, the lines \
             of `get` and `gets` have no limit: the server processes their keys as they arrive. If \
             a key beyond the first 64 KiB is invalid, the server may already have sent the values \
             of earlier keys before the `CLIENT_ERROR`.",
            "Client flags beyond 32 bits, and lengths beyond 31 bits in `ms`, are refused; \
             memcached truncates them.",
            "An opaque token may have 32 bytes, as documented; memcached 1.6.18 accepts 31, and \
             any number in `ma`.",
            "A line that begins with `Host:` or any HTTP method closes the connection; memcached \
             looks for lines that end in HTTP's version.",
            "The server answers a `get` of many keys over several turns of the event loop: a write \
             of another client between two of them is visible.",
        ],
    ),
    (
        "Records",
        &[
            "Times have millisecond precision: a record set for one second exists for one second, \
             and `flush_all 1` takes effect after a second; memcached's clock ticks once a second. \
             Times after 2038 and 2106 are exact.",
            "Every write creates a new CAS token, and so do `touch`, `gat` and `mg T` if they \
             change the expiry; memcached keeps the token in that case. `gats` and `mg c T` return \
             the new token. Tokens are below 2^48.",
            "`decr` stores the number as it is; memcached pads it with spaces to its former \
             length. As in memcached, any text that C's `strtoull` accepts is a number: `007`, \
             `+1`, ` 1`, `1 2`, and `-0`.",
            "Records written through another protocol have flags 0, and `h` and `l` of `mg` are 0 \
             for them until a memcached client writes them.",
        ],
    ),
    (
        "Meta commands",
        &[
            "`mg` with `t` and `T` returns the new time to live in either order of the two flags; \
             memcached returns the old one if `t` comes first.",
            "`k` returns the key as the client sent it, followed by `b` if the client sent `b`; \
             memcached returns the text if the record was stored with a text key.",
            "`ma` with `q` also suppresses the answer when `N` creates the record; with `C` it \
             does not create a record (`NF`), because no record can have that token.",
            "`me` has no `cls`; `exp` is the remaining time (memcached 1.6.18 returns it negated); \
             `size` is the size of the entry in Todana.",
        ],
    ),
    (
        "Binary protocol",
        &[
            "An unknown opcode is answered with `Unknown command` and its body is skipped; \
             memcached skips more than the body if there are extras or a key, and loses the \
             connection.",
            "A body after the key of `touch` and `gat`, and a value of `stat`, are invalid \
             arguments; memcached takes them for the next request.",
            "`verbosity` is answered, without an effect; memcached does not know the opcode.",
            "`increment` and `decrement` with a CAS token do not create a record (`Not found`).",
            "A request that was not executed because the log accepts no writes is answered with \
             status 0x86, one whose outcome is unknown with 0x84, quiet requests included.",
            "The response to `stat` has the groups that `stats` has; `conns` is one of them.",
        ],
    ),
    (
        "Statistics",
        &[
            "`version`, and the `version` of `stats`, begin with the level of the protocol: \
             `1.6.18-todana-`, followed by Todana's version.",
            "`stats` omits statistics that Todana does not have. `cmd_get`, `get_hits` and \
             `get_misses` count look-ups of keys by this protocol, which `touch` is not; \
             `touch_hits` and `touch_misses` count `touch` only; `total_connections`, \
             `rejected_connections` and bytes read and written are those of all protocols; items, \
             bytes and evictions are those of database 0. `stats conns` has no `state`.",
            "`stats reset` resets the counters of all protocols.",
            "`stats detail on` counts requests by the prefix of their key, which ends before the \
             first `:`, in both forms of the protocol and as memcached does, without meta \
             commands, until `stats detail off`; `stats detail \
             dump` writes the counts, sorted. They belong to the server and not to a connection, \
             and `stats reset` forgets them. Up to 4,096 prefixes are counted, and further ones \
             are not. A request that the log of a durable database refuses is not counted. While \
             they are on, all clients of this protocol share one lock.",
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
    page.push_str("## Differences from memcached 1.6.18\n");
    for (title, differences) in DIFFERENCES {
        page.push_str(&format!("\n### {title}\n\n"));
        for difference in *differences {
            page.push_str(&wrapped(&format!("- {difference}"), "  "));
        }
    }
    page.push_str("\n## Extensions\n\n");
    page.push_str(&wrapped(RANGE_SEARCH, ""));
    page.push_str("\n## Commands\n\nArguments in brackets are optional. ");
    page.push_str("With `noreply` the server sends no answer.\n");
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
    page.push_str(BINARY);
    for opcode in OPCODES {
        let summary = opcode.summary;
        page.push_str(&format!("| `0x{:02x}` | {} | {summary} |\n", opcode.code, opcode.name));
    }
    page
}

const BINARY: &str = "
### Opcodes of the binary protocol

A request with a CAS token other than 0 is executed only if the record has this token. Quiet
requests are answered if they fail; a quiet retrieval is answered if it finds a record.

| Opcode | Name | |
|---|---|---|
";

const FLAGS: &str = "
### Flags of meta commands

| Flag | of | |
|---|---|---|
| `b` | all | The key is base64. |
| `k` | all but `me` | Return the key. |
| `Otoken` | all but `me` | Return the token. |
| `q` | `mg` | Do not answer a miss. |
| `q` | `ms` `md` `ma` | Do not answer success. |
| `v` | `mg` `ma` | Return the value. |
| `c` | `mg` `ms` `ma` | Return the CAS token. |
| `t` | `mg` `ma` | Return the remaining time to live in seconds, -1 for no expiry. |
| `f` `s` | `mg` | Return the client flags, the length of the value. |
| `h` `l` | `mg` | Return whether the record was fetched before, the seconds since then. |
| `u` | `mg` | Do not count this command as a fetch. |
| `Ttime` | `mg` `ms` `ma`, `md` with `I` | Set the expiry. |
| `Ntime` | `mg` `ma` | Create the record with this expiry if there is none. |
| `Rtime` | `mg` | The first client that sees less time left gets `W`: recache the value. |
| `Ctoken` | `ms` `md` `ma` | Only if the record has this CAS token. |
| `I` | `ms` with `C` | Also replace a newer record, and mark it as stale. |
| `I` | `md` | Mark as stale instead of removing. |
| `Fflags` | `ms` | Store these client flags. |
| `Mmode` | `ms` | `S` set, `E` add, `R` replace, `A` append, `P` prepend. |
| `Mmode` | `ma` | `I` or `+` increment, `D` or `-` decrement. |
| `Dnumber` `Jnumber` | `ma` | The amount to add (1), the initial value (0). |
| `P` `L` | all | Hints for proxies, ignored. |

`mg` also returns `W` (this client is to recache the value), `Z` (another client already is) and `X`
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
        "\\x80\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01",
        "\\x80\\x01\\x00\\x01\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x0a",
        "\\x80\\x05\\x00\\x01\\x14\\x00\\x00\\x00\\x00\\x00\\x00\\x15",
        "\\x80\\x21\\x00\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x0f",
        "PLAIN\\x00me\\x00secret",
        "\\xff\\xff\\xff\\xff",
    ];
    let mut lines = String::from("# Written from the command table.\n");
    for (name, kind) in COMMANDS.iter().zip(KINDS) {
        if matches!(kind, Kind::Command(..)) {
            lines.push_str(&format!("\"{name} \"\n"));
        }
    }
    for opcode in OPCODES {
        lines.push_str(&format!("\"\\x80\\x{:02x}\"\n", opcode.code));
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
