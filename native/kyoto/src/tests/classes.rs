//! The classes of procedures and methods, compared with what they do to the records of durable
//! databases.

use super::Conversation;
use crate::table::{CLASSES, COMMANDS, Row};
use proptest::prelude::*;
use todana_group::Gate;
use todana_protocol::Class;
use todana_protocol::testing::{check_write, with_durable_hosts};

/// A request of each row that may change records, which changes those of [`connection`]. Its first
/// cursor is on `a`.
const WRITES: &[(Row, &str)] = &[
    (Row::Clear, ""),
    (Row::Set, "key=a&value=6"),
    (Row::Add, "key=z&value=6"),
    (Row::Replace, "key=a&value=6"),
    (Row::Append, "key=a&value=6"),
    (Row::Increment, "key=z&num=1"),
    (Row::IncrementDouble, "key=z&num=1"),
    (Row::Cas, "key=a&oval=5&nval=6"),
    (Row::Remove, "key=a"),
    (Row::Seize, "key=a"),
    (Row::SetBulk, "_a=6&_z=1"),
    (Row::SetBulk, "_a=6&_z=1&atomic"),
    (Row::RemoveBulk, "_a"),
    (Row::RemoveBulk, "_a&atomic"),
    (Row::CurSetValue, "CUR=1&value=6"),
    (Row::CurRemove, "CUR=1"),
    (Row::CurSeize, "CUR=1"),
    (Row::RestPut, "PUT /a HTTP/1.1\r\nContent-Length: 1\r\n\r\n6"),
    (Row::RestDelete, "DELETE /a HTTP/1.1\r\n\r\n"),
    (Row::BinarySetBulk, "b8 00000000 00000001 0000 00000001 00000001 0000000000000005 61 36"),
    (Row::BinaryRemoveBulk, "b9 00000000 00000001 0000 00000001 61"),
];

/// Inputs that other procedures may take.
const INPUTS: &[&str] = &[
    "key=a", "key=z", "_a", "_z", "atomic", "CUR=1", "CUR=2", "step", "step=2", "prefix=", "max=9",
    "regex=.", "origin=a", "range=1", "utf", "DB=1", "DB=x", "name=x", "hard", "ts=1", "host=x",
];

fn connection() -> Conversation {
    let mut connection = with_durable_hosts(Conversation::new);
    for request in [call("set", "key=a&value=5"), call("cur_jump", "CUR=1")] {
        assert!(connection.ask(request).starts_with("HTTP/1.1 200"));
    }
    connection
}

fn call(name: &str, inputs: &str) -> Vec<u8> {
    format!("GET /rpc/{name}?{inputs} HTTP/1.1\r\n\r\n").into_bytes()
}

/// The bytes of a request in [`WRITES`].
fn bytes(row: Row, text: &str) -> Vec<u8> {
    if row.is_procedure() {
        return call(COMMANDS[row as usize], text);
    }
    if text.contains("HTTP") {
        return text.into();
    }
    let digits = text.replace(' ', "");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn every_write_changes_records_and_is_refused_while_the_log_accepts_none() {
    for (row, text) in WRITES {
        assert_eq!(CLASSES[*row as usize], (*row, Class::Write));
        println!("{row:?} {text}");
        let ask = |it: &mut Conversation| it.ask(bytes(*row, text));
        let is_refusal =
            |answer: &str| answer.starts_with("HTTP/1.1 503") || answer == "\\xbfclosed";
        check_write(connection, |it| &it.host, ask, is_refusal);
    }
    for (row, _) in CLASSES.iter().filter(|(_, class)| *class == Class::Write) {
        assert!(WRITES.iter().any(|(covered, _)| covered == row), "no request of {row:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_other_row_changes_records_or_is_refused(
        at in 0..CLASSES.len(),
        inputs in prop::collection::vec(prop::sample::select(INPUTS), 0..5),
        is_open: bool,
    ) {
        let (row, class) = CLASSES[at];
        if class == Class::Write {
            return Ok(());
        }
        let mut connection = connection();
        connection.host.set_gate(if is_open { Gate::Open } else { Gate::ReadOnly });
        let before = connection.host.written();
        let request = match row {
            Row::RestGet => b"GET /a HTTP/1.1\r\n\r\n".to_vec(),
            Row::RestHead => b"HEAD /a HTTP/1.1\r\n\r\n".to_vec(),
            Row::BinaryGetBulk => bytes(row, "ba 00000000 00000001 0000 00000001 61"),
            Row::BinaryPlayScript => bytes(row, "b4 00000000 00000001 00000000 61"),
            Row::BinaryReplication => bytes(row, "b1"),
            _ => call(COMMANDS[row as usize], &inputs.join("&")),
        };
        let answer = connection.ask(&request);
        let text = request.escape_ascii().to_string();
        prop_assert!(!answer.contains("the log accepts no writes"), "{text}: {answer}");
        prop_assert_eq!(connection.host.written(), before, "{}: {}", text, answer);
    }
}
