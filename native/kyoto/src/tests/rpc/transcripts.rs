//! Conversations procedure by procedure, in the order of the table, each held in every way in which
//! inputs can be sent.
//!
//! ```text
//!   ## get                          a conversation about this procedure
//!   > get key=a value=a\x20b        a request: its name, then its inputs; escapes are as in Rust
//!   450                             the answer: its status,
//!     ERROR: no such database       and its rows in their order
//!   @ 1000                          this many milliseconds pass
//! ```

use super::{ask, conversation, host, post};
use crate::KyotoSession;
use crate::columns::Encoding;
use crate::table::{COMMANDS, Row};
use todana_protocol::testing::converse_in_every_way;

const FILES: [&str; 5] = [
    include_str!("../transcripts/server.txt"),
    include_str!("../transcripts/record.txt"),
    include_str!("../transcripts/bulk.txt"),
    include_str!("../transcripts/match.txt"),
    include_str!("../transcripts/cursor.txt"),
];

/// Longer conversations are not cut everywhere.
const CUT_BYTES_MAX: usize = 1536;

macro_rules! procedures {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*

        const PLAYED: &[&str] = &[$(stringify!($name),)*];
    };
}

procedures! {
    void echo report status play_script tune_replication ulog_list ulog_remove clear synchronize set
    add replace append increment increment_double cas remove get check seize set_bulk remove_bulk
    get_bulk vacuum match_prefix match_regex match_similar cur_jump cur_jump_back cur_step
    cur_step_back cur_set_value cur_remove cur_get_key cur_get_value cur_get cur_seize cur_delete
}

#[test]
fn every_procedure_has_a_conversation() {
    assert_eq!(PLAYED, &COMMANDS[..Row::RestGet as usize]);
}

#[test]
fn answers_do_not_depend_on_how_the_input_is_cut() {
    let mut cut = 0;
    for name in PLAYED {
        let mut input = Vec::new();
        for event in events(name) {
            if let Event::Exchange(exchange) = event {
                input.extend(exchange.request(Form::Tabs(Some(Encoding::Url))));
            }
        }
        if input.len() <= CUT_BYTES_MAX {
            let start = || (KyotoSession::default(), host());
            converse_in_every_way(start, &input, |outcome| outcome);
            cut += 1;
        }
    }
    assert!(cut > PLAYED.len() / 2, "{cut} conversations were short enough");
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

enum Event {
    Exchange(Exchange),
    Pass { ms: u64 },
}

struct Exchange {
    name: String,
    inputs: Rows,
    status: u16,
    outputs: Rows,
}

/// The encoding of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Query,
    Body,
    Tabs(Option<Encoding>),
}

fn play(name: &str) {
    for form in [
        Form::Query,
        Form::Body,
        Form::Tabs(None),
        Form::Tabs(Some(Encoding::Url)),
        Form::Tabs(Some(Encoding::Base64)),
    ] {
        let mut conversation = conversation();
        for event in events(name) {
            match event {
                Event::Pass { ms } => conversation.host.now_ms += ms,
                Event::Exchange(exchange) => {
                    let answer = ask(&mut conversation, exchange.request(form));
                    let mut rows = answer.rows();
                    // The Base64 forms have another order.
                    rows.sort();
                    let got = (answer.status, shown(&rows));
                    let wanted = (exchange.status, shown(&exchange.outputs));
                    let inputs = shown(&exchange.inputs);
                    assert_eq!(got, wanted, "{} {inputs:?} by {form:?}", exchange.name);
                }
            }
        }
    }
}

fn shown(rows: &Rows) -> Vec<String> {
    let show = |(name, value): &(Vec<u8>, Vec<u8>)| {
        format!("{}: {}", name.escape_ascii(), value.escape_ascii())
    };
    rows.iter().map(show).collect()
}

/// The events of a procedure.
fn events(name: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut is_meant = false;
    for line in FILES.iter().flat_map(|file| file.lines()) {
        if let Some(title) = line.strip_prefix("## ") {
            is_meant = title == name;
        } else if !is_meant || line.is_empty() || line.starts_with('#') {
        } else if let Some(request) = line.strip_prefix("> ") {
            let mut words = request.split(' ');
            let name = words.next().unwrap_or_default().to_owned();
            let inputs = words
                .map(|word| word.split_once('=').expect("an input with a value"))
                .map(|(name, value)| (unescape(name), unescape(value)))
                .collect();
            let (status, outputs) = (0, Vec::new());
            events.push(Event::Exchange(Exchange { name, inputs, status, outputs }));
        } else if let Some(ms) = line.strip_prefix("@ ") {
            events.push(Event::Pass { ms: ms.parse().expect("milliseconds") });
        } else {
            let Some(Event::Exchange(exchange)) = events.last_mut() else {
                panic!("an answer without its request: {line}")
            };
            match line.strip_prefix("  ") {
                Some(row) => {
                    let row = row.replace("{os}", std::env::consts::OS);
                    let (name, value) = row.split_once(": ").expect("a row with a value");
                    exchange.outputs.push((unescape(name), unescape(value)));
                }
                None => exchange.status = line.parse().expect("a status"),
            }
        }
    }
    assert!(!events.is_empty(), "nothing is said about {name}");
    events
}

impl Exchange {
    fn request(&self, form: Form) -> Vec<u8> {
        let target = format!("/rpc/{}", self.name);
        let columns = |encoding: Option<Encoding>, between: u8, after: u8| {
            let mut text = Vec::new();
            for (name, value) in &self.inputs {
                for (column, end) in [(name, between), (value, after)] {
                    match encoding {
                        Some(encoding) => encoding.encode_piece(column, &mut text),
                        None => text.extend_from_slice(column),
                    }
                    text.push(end);
                }
            }
            text
        };
        let form_data = || {
            let mut text = columns(Some(Encoding::Url), b'=', b'&');
            text.pop();
            text
        };
        match form {
            Form::Query => {
                let query = String::from_utf8(form_data()).expect("text");
                format!("GET {target}?{query} HTTP/1.1\r\n\r\n").into_bytes()
            }
            Form::Body => post(&target, "application/x-www-form-urlencoded", form_data()),
            Form::Tabs(Some(Encoding::Base64)) => {
                let body = columns(Some(Encoding::Base64), b'\t', b'\n');
                post(&target, "text/tab-separated-values; colenc=B", body)
            }
            Form::Tabs(None) if !self.has_controls() => {
                post(&target, "text/tab-separated-values", columns(None, b'\t', b'\n'))
            }
            Form::Tabs(_) => {
                let body = columns(Some(Encoding::Url), b'\t', b'\n');
                post(&target, "text/tab-separated-values; colenc=U", body)
            }
        }
    }

    fn has_controls(&self) -> bool {
        let has = |column: &[u8]| column.iter().any(u8::is_ascii_control);
        self.inputs.iter().any(|(name, value)| has(name) || has(value))
    }
}

/// The bytes that an escaped text describes.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
                rest = after;
            }
            (b'\\', [b't', after @ ..]) => {
                bytes.push(b'\t');
                rest = after;
            }
            (b'\\', [b'n', after @ ..]) => {
                bytes.push(b'\n');
                rest = after;
            }
            _ => bytes.push(*byte),
        }
    }
    bytes
}
