//! Procedures, in whole conversations.

mod encodings;
mod parameters;
mod slices;
mod transcripts;

use super::Conversation;
use crate::columns::{Decoder, Encoding};
use crate::table::Row;
use crate::testing::FakeHost;
use crate::{KyotoDatabase, KyotoKind, KyotoSession, KyotoSettings};
use std::sync::Arc;
use todana_command::{DATABASES, Databases};
use todana_protocol::testing::START_MS;
use todana_protocol::{CommandStats, ProtocolName, ServerInfo};
use todana_table::{Counts, KeyOrder, Options, Table};

/// A host with three databases: `:`, `%` which is ordered, and `*` which is persistent.
fn host() -> FakeHost {
    let tables = std::array::from_fn::<_, DATABASES, _>(|number| {
        let order = (number == 1).then(KeyOrder::default);
        let options = Options { shards: Some(4), seed: Some(7), order, ..Options::default() };
        Arc::new(Table::new(options))
    });
    let mut host = FakeHost::on(Arc::new(Databases::new(tables)), ProtocolName::Kyoto);
    host.part.kyoto = KyotoSettings { databases: databases(), ..KyotoSettings::default() };
    host.info = info();
    let calls = [
        (Row::Set, 3, 1),
        (Row::SetBulk, 2, 1),
        (Row::Get, 5, 2),
        (Row::Seize, 2, 1),
        (Row::Remove, 2, 0),
        (Row::Status, 9, 0),
    ];
    host.stats = vec![CommandStats::default(); Row::Unknown as usize + 1];
    for (row, calls, errors) in calls {
        host.stats[row as usize] = CommandStats { calls, errors, ..CommandStats::default() };
    }
    host
}

fn databases() -> Vec<KyotoDatabase> {
    let entries_max = Some(1000);
    let stash = KyotoDatabase { entries_max, ..KyotoDatabase::default() };
    let (name, kind) = ("%".into(), KyotoKind::CacheTree);
    let tree = KyotoDatabase { name, kind, ..KyotoDatabase::default() };
    let (name, kind, persistent) = ("*".into(), KyotoKind::CacheHash, true);
    let cache_entries_max = Some(64);
    let cache =
        KyotoDatabase { name, kind, persistent, cache_entries_max, ..KyotoDatabase::default() };
    vec![stash, tree, cache]
}

fn info() -> ServerInfo {
    let counts = |bytes, index_bytes| Counts { bytes, index_bytes, ..Counts::default() };
    ServerInfo {
        version: "1.2.3".into(),
        process_id: 42,
        event_loops: 2,
        started_at_ms: START_MS - 1500,
        connections_by_protocol: [1, 2, 3],
        resident_bytes: 5000,
        resident_bytes_peak: 6000,
        system_memory_bytes: 9000,
        cpu_seconds: [0.25, 0.5],
        databases: vec![counts(100, 10), counts(200, 20)],
        ..ServerInfo::default()
    }
}

fn conversation() -> Conversation {
    Conversation { session: KyotoSession::default(), host: host(), waiting: Vec::new() }
}

/// A parsed response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    content_type: String,
    body: Vec<u8>,
}

impl Answer {
    /// Its names and values, in the order in which they were sent, decoded.
    fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let encoding = match self.content_type.as_str() {
            "text/tab-separated-values" => None,
            "text/tab-separated-values; colenc=B" => Some(Encoding::Base64),
            "text/tab-separated-values; colenc=U" => Some(Encoding::Url),
            other => panic!("{other}"),
        };
        let decode = |column: &[u8]| {
            let Some(encoding) = encoding else { return column.to_vec() };
            let mut decoded = Vec::new();
            Decoder::new(encoding).push(column, true, &mut decoded);
            decoded
        };
        let mut lines: Vec<&[u8]> = self.body.split(|&byte| byte == b'\n').collect();
        assert_eq!(lines.pop(), Some(&b""[..]), "the last line ends too");
        let columns = |line: &&[u8]| {
            let tab = line.iter().position(|&byte| byte == b'\t').expect("a tab");
            (decode(&line[..tab]), decode(&line[tab + 1..]))
        };
        lines.iter().map(columns).collect()
    }

    /// The same as text: `name=value` with escapes, one after another.
    fn text(&self) -> String {
        let mut text = self.status.to_string();
        for (name, value) in self.rows() {
            text += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
        }
        text
    }
}

/// Sends a request and parses its response.
fn ask(conversation: &mut Conversation, request: impl AsRef<[u8]>) -> Answer {
    let output = conversation.send(request).output;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    let head = String::from_utf8(output[..end].to_vec()).expect("a head of text");
    let field = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_default().trim().to_owned()
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = output[end..].to_vec();
    assert_eq!(field("Content-Length:"), body.len().to_string());
    Answer { status: status.expect("a status"), content_type: field("Content-Type:"), body }
}

/// A request with a body.
fn post(target: &str, content_type: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: :1978\r\nContent-Length: {length}\r\nContent-Type: \
         {content_type}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Calls a procedure by form data and returns the answer as text.
fn call(conversation: &mut Conversation, name: &str, form: &str) -> String {
    let request = post(&format!("/rpc/{name}"), "application/x-www-form-urlencoded", form);
    ask(conversation, request).text()
}
