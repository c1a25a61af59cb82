//! The classes of commands, compared with what they do to the records of durable databases.

use super::*;
use crate::lookup;
use crate::spec::{READONLY, WRITE};
use crate::table::{NAMES, Name};
use proptest::prelude::*;
use todana_group::Gate;
use todana_protocol::Class;
use todana_protocol::testing::{check_write, with_durable_hosts};

/// Requests that change the records of [`connection`], one or more for each command that may.
#[rustfmt::skip]
const WRITES: &[&str] = &[
    "EVAL \"return redis.call('SET',KEYS[1],ARGV[1])\" 1 a 7",
    "SCRIPT LOAD \"return redis.call('INCR',KEYS[1])\"; EVALSHA da8455f0535fd532821b3713a4eccd80fc4b8457 1 a",
    "SET a 6",
    "SETNX z 1",
    "SETEX a 100 1",
    "PSETEX a 100 1",
    "GETSET a 6",
    "GETDEL a",
    "GETEX a EX 100",
    "APPEND a 6",
    "SETRANGE a 1 6",
    "MSET a 6 z 1",
    "MSETNX y 1 z 1",
    "INCR a",
    "DECR a",
    "INCRBY a 2",
    "DECRBY a 2",
    "INCRBYFLOAT a 0.5",
    "SETBIT b 0 1",
    "BITOP OR z a b",
    "BITFIELD b SET u8 0 1",
    "PFADD z x",
    "PFMERGE z",
    r#"RESTORE z 0 "\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb""#,
    "SORT y STORE a",
    "DEL a",
    "DELEX a IFEQ 5",
    "DELIFEQ a 5",
    "SET a 6 IFEQ 5",
    "UNLINK a",
    "EXPIRE a 100",
    "PEXPIRE a 100",
    "EXPIREAT a 1700001000",
    "PEXPIREAT a 1700001000000",
    "PERSIST e",
    "RENAME a z",
    "RENAMENX a z",
    "COPY a z",
    "COPY a z DB 1",
    "MOVE a 1",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB 0 1",
    "MULTI; SET a 6; EXEC",
];

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

#[test]
fn every_write_changes_records_and_is_refused_while_the_log_accepts_none() {
    let mut covered = Vec::new();
    for lines in WRITES {
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
