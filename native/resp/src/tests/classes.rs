//! The classes of commands, compared with what they do to the records of durable databases.

use super::*;
use crate::lookup;
use crate::spec::{READONLY, WRITE};
use crate::table::{NAMES, Name};
use proptest::prelude::*;
use todana_group::Gate;
use todana_protocol::Class;
use todana_protocol::testing::{check_write, with_durable_hosts};

/// Requests that change the records of [`connection`], of the writes for which [`found`] finds none.
#[rustfmt::skip]
const WRITES: &[&str] = &[
    "EVAL \"return redis.call('SET',KEYS[1],ARGV[1])\" 1 a 7",
    "SCRIPT LOAD \"return redis.call('INCR',KEYS[1])\"; EVALSHA da8455f0535fd532821b3713a4eccd80fc4b8457 1 a",
    "GETEX a EX 100",
    "BITOP OR z a b",
    "BITFIELD b SET u8 0 1",
    r#"RESTORE z 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb""#,
    "SORT y STORE a",
    "DELEX a IFEQ 5",
    "SET a 6 IFEQ 5",
    "COPY a z DB 1",
    "MULTI; SET a 6; EXEC",
];

/// Words of which [`found`] makes requests: keys of [`connection`], an absent one, and numbers.
const FOUND_WORDS: &[&str] = &["a", "z", "b", "e", "1", "0", "5"];

/// Words that others than writes may take.
const WORDS: &[&str] = &[
    "a",
    "b",
    "e",
    "z",
    "*",
    "",
    "0",
    "1",
    "-1",
    "100",
    "2",
    "3",
    "COUNT",
    "MATCH",
    "TYPE",
    "string",
    "LEN",
    "IDX",
    "REV",
    "VALUES",
    "BIT",
    "ON",
    "OFF",
    "SKIP",
    "ID",
    "NORMAL",
    "FILTERBY",
    "ACLCAT",
    "read",
    "maxmemory",
    "timeout",
    "get",
    "set",
    "SCHEDULE",
    "LIB-NAME",
    "AUTH",
    "default",
    "SETNAME",
    "SAMPLES",
    "BYTE",
    "VERSION",
];

fn connection() -> (RespSession, FakeHost) {
    let (mut session, mut host) = (RespSession::default(), with_durable_hosts(host));
    for line in ["SET a 5", "SET b hello", "SET e 1 EX 100"] {
        assert_eq!(ask(&mut session, &mut host, line), "+OK");
    }
    (session, host)
}

/// The first request of this command, with as many words as it needs or one more, that changes the
/// records of [`connection`].
fn found(name: Name) -> Option<String> {
    let spec = name.spec();
    let least = usize::from(spec.arity.unsigned_abs()) - 1;
    let (mut session, mut host) = connection();
    let before = host.digests();
    for count in (least..=least + 1).filter(|count| spec.takes(count + 1) && *count <= 3) {
        for mut at in 0..FOUND_WORDS.len().pow(count as u32) {
            let mut line = spec.name.to_string();
            for _ in 0..count {
                line = format!("{line} {}", FOUND_WORDS[at % FOUND_WORDS.len()]);
                at /= FOUND_WORDS.len();
            }
            ask(&mut session, &mut host, &line);
            if host.digests() != before {
                return Some(line);
            }
        }
    }
    None
}

#[test]
fn every_write_changes_records_and_is_refused_while_the_log_accepts_none() {
    let mut covered = Vec::new();
    let writes = NAMES.iter().filter(|name| name.class() == Class::Write);
    let found: Vec<String> = writes.filter_map(|name| found(*name)).collect();
    for lines in WRITES.iter().copied().chain(found.iter().map(String::as_str)) {
        let lines: Vec<&str> = lines.split("; ").collect();
        let word = lines[lines.len() - 1].split(' ').next().unwrap();
        let name = lookup::command(word.as_bytes()).expect(word);
        assert_eq!(name.class(), Class::Write, "{word}");
        covered.push(name as usize);
        println!("{lines:?}");
        let ask = |(session, host): &mut (RespSession, FakeHost)| {
            lines.iter().map(|line| ask(session, host, line)).last().unwrap()
        };
        check_write(connection, |(_, host)| host, ask, |reply| reply.starts_with("-MISCONF"));
    }
    for name in NAMES.iter().filter(|name| name.class() == Class::Write) {
        assert!(covered.contains(&(*name as usize)), "no request of {}", name.spec().name);
    }
}

#[test]
fn classes_agree_with_the_flags_that_clients_see() {
    for name in NAMES {
        let spec = name.spec();
        let flagged = match (spec.is(WRITE), spec.is(READONLY)) {
            (true, _) => Class::Write,
            (_, true) => Class::Read,
            _ => Class::Local,
        };
        let own = match name {
            // Redis says nothing of transactions and scripts, whose commands speak for themselves.
            Name::Exec | Name::Eval | Name::EvalSha => Class::Write,
            Name::Watch => Class::Read,
            Name::LolWut => Class::Local,
            _ => flagged,
        };
        assert_eq!(name.class(), own, "{}", spec.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_other_command_changes_records_or_is_refused(
        at in 0..NAMES.len(),
        words in prop::collection::vec(prop::sample::select(WORDS), 0..6),
        is_open: bool,
    ) {
        let name = NAMES[at];
        if name.class() == Class::Write {
            return Ok(());
        }
        let (mut session, mut host) = connection();
        host.set_gate(if is_open { Gate::Open } else { Gate::ReadOnly });
        let before = host.written();
        let own = name.spec().name.split('|');
        let words: Vec<&str> = own.chain(words).collect();
        let mut input = format!("*{}\r\n", words.len());
        for word in &words {
            input.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let outcome = converse(&mut session, &mut host, [input.as_bytes()]);
        let reply = shown(&outcome.output);
        prop_assert!(!reply.contains("MISCONF"), "{words:?}: {reply}");
        prop_assert_eq!(host.written(), before, "{:?}: {}", words, reply);
    }
}
