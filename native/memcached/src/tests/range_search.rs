//! `get mio:range-search`.

use super::{Conversation, MemcachedSession};
use crate::testing::FakeHost;
use std::sync::Arc;
use todana_command::Databases;
use todana_protocol::ProtocolName;
use todana_protocol::testing::converse_in_every_way;
use todana_table::{KeyOrder, Keyspace, Meta, Options};

/// A host whose databases are ordered.
pub(super) fn host() -> FakeHost {
    let order = Some(KeyOrder::default());
    let options = Options { shards: Some(16), order, ..Options::default() };
    FakeHost::on(Arc::new(Databases::with_options(&options)), ProtocolName::Memcached)
}

fn ordered() -> Conversation {
    Conversation { host: host(), ..Conversation::new() }
}

/// A database with the keys `a` to `e`.
fn letters() -> Conversation {
    let mut conversation = ordered();
    for key in ["c", "a", "e", "b", "d"] {
        conversation.ask(format!("set {key} 7 0 2\r\n{key}!\r\n"));
    }
    conversation
}

fn values(keys: &str) -> String {
    let value = |key| format!("VALUE {key} 7 2\r\n{key}!\r\n");
    keys.chars().map(value).collect::<String>() + "END\r\n"
}

const USAGE: &str = "CLIENT_ERROR bad command line format.  \
                     Usage: get mio:range-search <from> <to> <limit, 1 to 65536> asc|desc\r\n";

#[test]
fn records_come_in_the_order_asked_for_with_both_ends() {
    let mut conversation = letters();
    let cases = [
        ("b d 10 asc", "bcd"),
        ("b d 10 desc", "dcb"),
        ("b d 2 asc", "bc"),
        ("b d 2 desc", "dc"),
        ("0 z 3 asc", "abc"),
        ("bb dd 65536 asc", "cd"),
        ("d b 10 asc", ""),
        ("x z 10 desc", ""),
    ];
    for (words, keys) in cases {
        let answer = conversation.ask(format!("get mio:range-search {words}\r\n"));
        assert_eq!(answer, values(keys), "{words}");
    }
}

#[test]
fn gets_returns_tokens() {
    let mut conversation = letters();
    let token = conversation.ask("gets b\r\n");
    assert_eq!(conversation.ask("gets mio:range-search b b 10 asc\r\n"), token);
    assert!(token.starts_with("VALUE b 7 2 "), "{token}");
}

#[test]
fn a_wrong_form_is_said() {
    let mut conversation = letters();
    let wrong = [
        "a",
        "a b",
        "a b 10",
        "a b 10 up",
        "a b 10 ASC",
        "a b 0 asc",
        "a b -1 asc",
        "a b x asc",
        "a b 65537 asc",
        "a b +5 asc",
        "a b -5 asc",
        "a b 99999999999999999999 asc",
        "a b 10 asc c",
        "a b 10 asc c d e f g",
    ];
    for words in wrong {
        assert_eq!(conversation.ask(format!("get mio:range-search {words}\r\n")), USAGE, "{words}");
    }
    let long = "k".repeat(251);
    let line = format!("get mio:range-search a {long} 10 asc\r\n");
    assert_eq!(conversation.ask(line), "CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn the_name_is_a_key_where_it_is_alone_or_not_first() {
    let mut conversation = letters();
    conversation.ask("set mio:range-search 0 0 1\r\nx\r\n");
    let value = "VALUE mio:range-search 0 1\r\nx\r\n";
    assert_eq!(conversation.ask("get mio:range-search\r\n"), format!("{value}END\r\n"));
    let both = conversation.ask("get a mio:range-search\r\n");
    assert_eq!(both, format!("VALUE a 7 2\r\na!\r\n{value}END\r\n"));
    assert_eq!(conversation.ask("get mio:range-searches a b 1 asc\r\n"), values("ab"));
}

#[test]
fn a_database_without_order_is_not_searched() {
    let answer = Conversation::new().ask("get mio:range-search a b 10 asc\r\nmn\r\n");
    let text =
        "SERVER_ERROR the database is not ordered: name it + or % when the server is started";
    assert_eq!(answer, format!("{text}\r\nMN\r\n"));
}

#[test]
fn a_long_answer_takes_several_turns() {
    let mut conversation = ordered();
    let value = "v".repeat(1_000);
    for number in 0..300 {
        conversation.ask(format!("set {number:03} 0 0 1000\r\n{value}\r\n"));
    }
    let budget = todana_protocol::Budget { requests_max: 10, output_bytes_max: 40_000 };
    let (session, host) = (&mut conversation.session, &mut conversation.host);
    let mut input = b"get mio:range-search 000 999 250 desc\r\nmn\r\n".to_vec();
    let (mut answer, mut turns) = (Vec::new(), 0);
    while !input.is_empty() {
        let mut output = Vec::new();
        let progress =
            todana_protocol::Advance::advance(session, &input, &mut output, host, budget);
        assert!(output.len() < 80_000);
        input.drain(..progress.consumed);
        answer.extend(output);
        turns += 1;
    }
    let records = (50..300).rev();
    let records: String =
        records.map(|number| format!("VALUE {number:03} 0 1000\r\n{value}\r\n")).collect();
    assert_eq!(String::from_utf8(answer).unwrap(), format!("{records}END\r\nMN\r\n"));
    assert!(turns > 3, "{turns}");
}

#[test]
fn an_answer_is_the_same_however_the_input_is_cut() {
    let input = b"set b 0 0 1\r\nx\r\nset a 0 0 1\r\ny\r\nget mio:range-search a b 5 asc\r\n\
                  get mio:range-search a b\r\nget  mio:range-search  a b 1 desc\nmn\r\n";
    let start = || (MemcachedSession::default(), host());
    let outcome = converse_in_every_way(start, input, |outcome| outcome);
    let answer = "STORED\r\nSTORED\r\nVALUE a 0 1\r\ny\r\nVALUE b 0 1\r\nx\r\nEND\r\n".to_owned()
        + USAGE
        + "VALUE b 0 1\r\nx\r\nEND\r\nMN\r\n";
    assert_eq!(String::from_utf8_lossy(&outcome.output), answer);
}

#[test]
fn keys_that_no_line_can_hold_are_left_out_and_do_not_count() {
    let mut conversation = letters();
    let long = [b'c'; 251];
    for key in [&b"b\r\nEND\r\n"[..], b"b b", b"b\0", b"c\x7f", &long] {
        let table = conversation.host.databases.table(0);
        let now_ms = conversation.host.now_ms;
        table.update(key, now_ms, |record| record.put(&[b"x"], Meta::default())).expect("room");
    }
    assert_eq!(conversation.ask("get mio:range-search a e 3 asc\r\n"), values("abc"));
    assert_eq!(conversation.ask("get mio:range-search a d 9 desc\r\n"), values("dcba"));
}
