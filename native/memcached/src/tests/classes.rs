//! The classes of commands, compared with what they do to the records of durable databases.

use super::Conversation;
use crate::table::{CLASSES, COMMANDS, KINDS, Kind, Row};
use proptest::prelude::*;
use todana_group::Gate;
use todana_protocol::Class;
use todana_protocol::testing::{check_write, with_durable_hosts};

/// A request of each command that may change records, which changes those of [`connection`]. TOKEN
/// is the token of `a`.
const WRITES: &[(Row, &str)] = &[
    (Row::Set, "set a 0 0 1\r\n6\r\n"),
    (Row::Add, "add z 0 0 1\r\n6\r\n"),
    (Row::Replace, "replace a 0 0 1\r\n6\r\n"),
    (Row::Append, "append a 0 0 1\r\n6\r\n"),
    (Row::Prepend, "prepend a 0 0 1\r\n6\r\n"),
    (Row::Cas, "cas a 0 0 1 TOKEN\r\n6\r\n"),
    (Row::Gat, "gat 100 a\r\n"),
    (Row::Gats, "gats 100 a\r\n"),
    (Row::Delete, "delete a\r\n"),
    (Row::Incr, "incr a 1\r\n"),
    (Row::Decr, "decr a 1\r\n"),
    (Row::Touch, "touch a 100\r\n"),
    (Row::Mg, "mg z N100 v\r\n"),
    (Row::Mg, "mg a T100\r\n"),
    (Row::Ms, "ms a 1\r\n6\r\n"),
    (Row::Md, "md a\r\n"),
    (Row::Md, "md a I\r\n"),
    (Row::Ma, "ma a\r\n"),
    (Row::FlushAll, "flush_all\r\n"),
];

/// Words that others than writes may take.
const WORDS: &[&str] = &[
    "a",
    "b",
    "z",
    "*",
    "0",
    "1",
    "-1",
    "100",
    "mio:range-search",
    "asc",
    "desc",
    "noreply",
    "v",
    "t",
    "b",
    "k",
    "settings",
    "items",
    "slabs",
    "sizes",
    "conns",
    "reset",
    "graceful",
];

fn connection() -> Conversation {
    let mut connection = with_durable_hosts(Conversation::new);
    assert_eq!(
        connection.ask("set a 0 0 1\r\n5\r\nset b 0 0 5\r\nhello\r\n"),
        "STORED\r\n".repeat(2)
    );
    connection
}

#[test]
fn every_write_changes_records_and_is_refused_while_the_log_accepts_none() {
    for (row, request) in WRITES {
        assert_eq!(CLASSES[*row as usize], (*row, Class::Write));
        println!("{request}");
        let ask = |it: &mut Conversation| {
            let answer = it.ask("gets a\r\n");
            let token = answer.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap();
            it.ask(request.replace("TOKEN", token))
        };
        let is_refusal = |answer: &str| answer == "SERVER_ERROR temporary failure\r\n";
        check_write(connection, |it| &it.host, ask, is_refusal);
    }
    for ((row, class), kind) in CLASSES.iter().zip(KINDS) {
        if *class == Class::Write && *kind != Kind::Outcome {
            let name = COMMANDS[*row as usize];
            assert!(WRITES.iter().any(|(covered, _)| covered == row), "no request of {name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_other_command_changes_records_or_is_refused(
        at in 0..CLASSES.len(),
        words in prop::collection::vec(prop::sample::select(WORDS), 0..5),
        is_open: bool,
    ) {
        if CLASSES[at].1 == Class::Write {
            return Ok(());
        }
        let mut connection = connection();
        connection.host.set_gate(if is_open { Gate::Open } else { Gate::ReadOnly });
        let before = connection.host.written();
        let request = format!("{} {}\r\n", COMMANDS[at], words.join(" "));
        let answer = connection.ask(&request);
        prop_assert!(!answer.contains("temporary failure"), "{request}: {answer}");
        prop_assert_eq!(connection.host.written(), before, "{}: {}", request, answer);
    }
}
