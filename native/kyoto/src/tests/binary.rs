//! Section 4 of the specification: the binary protocol, by magic.

use super::{Conversation, answers, answers_with};
use crate::table::{COMMANDS, Row};
use crate::testing::FakeHost;
use crate::{KyotoDatabase, KyotoSession};
use std::sync::Arc;
use todana_command::{DATABASES, Databases};
use todana_protocol::testing::START_MS;
use todana_protocol::{Advance, Budget, Next, ProtocolName};
use todana_table::{Limits, Options, Table, WhenFull};

const FOR_EVER: i64 = i64::MAX;
const SILENT: u32 = 1;

/// A bulk of encoded records.
fn bulk(magic: u8, flags: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let count = records.len() as u32;
    let header = [&[magic][..], &flags.to_be_bytes(), &count.to_be_bytes()].concat();
    [header, records.concat()].concat()
}

fn pair(database: u16, key: &str, value: &str, xt: i64) -> Vec<u8> {
    let sizes = [(key.len() as u32).to_be_bytes(), (value.len() as u32).to_be_bytes()].concat();
    let front = [&database.to_be_bytes()[..], &sizes, &xt.to_be_bytes()].concat();
    [&front, key.as_bytes(), value.as_bytes()].concat()
}

fn key(database: u16, key: &str) -> Vec<u8> {
    let length = (key.len() as u32).to_be_bytes();
    [&database.to_be_bytes()[..], &length, key.as_bytes()].concat()
}

fn set(pairs: &[(&str, &str)]) -> Vec<u8> {
    let records: Vec<_> = pairs.iter().map(|(k, value)| pair(0, k, value, FOR_EVER)).collect();
    bulk(0xb8, 0, &records)
}

fn get(keys: &[&str]) -> Vec<u8> {
    bulk(0xba, 0, &keys.iter().map(|k| key(0, k)).collect::<Vec<_>>())
}

fn count(magic: u8, count: u32) -> Vec<u8> {
    [&[magic][..], &count.to_be_bytes()].concat()
}

/// The reply to a get.
fn hits(records: &[Vec<u8>]) -> Vec<u8> {
    [count(0xba, records.len() as u32), records.concat()].concat()
}

/// The `xt` of a record that never expires.
const NEVER: i64 = 0xff_ffff_ffff;

fn hit(k: &str, value: &str) -> Vec<u8> {
    pair(0, k, value, NEVER)
}

/// Asserts the reply of a new connection, however the input is cut.
#[track_caller]
fn check(input: &[Vec<u8>], output: &[Vec<u8>], closed: bool) {
    check_with(input, output, closed, |_| {});
}

#[track_caller]
fn check_with(
    input: &[Vec<u8>],
    output: &[Vec<u8>],
    closed: bool,
    prepare: impl Fn(&mut FakeHost),
) {
    let outcome =
        todana_protocol::testing::Outcome { output: output.concat(), closed, slept_ms: 0, left: 0 };
    assert_eq!(answers_with(input.concat(), prepare), super::shown(&outcome));
}

fn two_databases(host: &mut FakeHost) {
    host.part.kyoto.databases = vec![
        KyotoDatabase::default(),
        KyotoDatabase { persistent: true, ..KyotoDatabase::default() },
    ];
}

#[test]
fn the_bytes_are_those_of_kyoto_tycoon() {
    let input = [
        0xb8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0x7f, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, b'k', b'1', b'a', b'b', b'c',
    ];
    assert_eq!(input.as_slice(), set(&[("k1", "abc")]));
    assert_eq!(answers(input), "\\xb8\\x00\\x00\\x00\\x01");
    let input = [&input[..], &get(&["k1"])].concat();
    let expected = "\\xb8\\x00\\x00\\x00\\x01\\xba\\x00\\x00\\x00\\x01\
                    \\x00\\x00\\x00\\x00\\x00\\x02\
                    \\x00\\x00\\x00\\x03\\x00\\x00\\x00\\xff\\xff\\xff\\xff\\xffk1abc";
    assert_eq!(answers(input), expected);
}

#[test]
fn set_bulk_stores_and_counts() {
    let input = [set(&[("a", "1"), ("b", ""), ("", "3"), ("a", "4")]), get(&["a", "b", "", "c"])];
    let output = [count(0xb8, 4), hits(&[hit("a", "4"), hit("b", ""), hit("", "3")])];
    check(&input, &output, false);
}

#[test]
fn remove_bulk_counts_what_there_was() {
    let remove = bulk(0xb9, 0, &[key(0, "a"), key(0, "x"), key(0, "a"), key(0, "b")]);
    let input = [set(&[("a", "1"), ("b", "2"), ("c", "3")]), remove, get(&["a", "b", "c"])];
    let output = [count(0xb8, 3), count(0xb9, 2), hits(&[hit("c", "3")])];
    check(&input, &output, false);
}

#[test]
fn get_bulk_answers_in_the_order_of_the_request() {
    let input = [set(&[("a", "1"), ("b", "2")]), get(&["b", "x", "a", "b"])];
    let output = [count(0xb8, 2), hits(&[hit("b", "2"), hit("a", "1"), hit("b", "2")])];
    check(&input, &output, false);
}

#[test]
fn empty_bulks_are_answered() {
    let input = [bulk(0xb8, 0, &[]), bulk(0xb9, 0, &[]), bulk(0xba, 0, &[])];
    check(&input, &[count(0xb8, 0), count(0xb9, 0), count(0xba, 0)], false);
}

#[test]
fn times_are_from_now_or_negative() {
    let now = (START_MS / 1000) as i64;
    for (xt, returned) in [
        (0, Some(now)),
        (60, Some(now + 60)),
        (-now - 9, Some(now + 9)),
        (-now, Some(now)),
        (-now + 1, None),
        (-1, None),
        (NEVER, Some(NEVER)),
        (NEVER - now - 1, Some(NEVER - 1)),
        (-NEVER, Some(NEVER)),
        (i64::MAX, Some(NEVER)),
        (i64::MIN, Some(NEVER)),
    ] {
        let input = [bulk(0xb8, 0, &[pair(0, "a", "x", xt)]), get(&["a"])];
        let found: Vec<_> =
            returned.map(|returned| pair(0, "a", "x", returned)).into_iter().collect();
        check(&input, &[count(0xb8, 1), hits(&found)], false);
    }
}

#[test]
fn a_persistent_database_has_no_times() {
    let input = [bulk(0xb8, 0, &[pair(1, "a", "x", -1)]), bulk(0xba, 0, &[key(1, "a")])];
    let output = [count(0xb8, 1), hits(&[pair(1, "a", "x", i64::MAX)])];
    check_with(&input, &output, false, two_databases);
}

#[test]
fn records_of_a_database_that_there_is_not_are_passed_over() {
    let input = [
        bulk(0xb8, 0, &[pair(1, "a", "x", 0), pair(0, "b", "y", FOR_EVER), pair(9, "", "", 0)]),
        bulk(0xb9, 0, &[key(2, "b"), key(0, "a"), key(65_535, "b")]),
        bulk(0xba, 0, &[key(1, "a"), key(0, "b")]),
    ];
    check(&input, &[count(0xb8, 1), count(0xb9, 0), hits(&[hit("b", "y")])], false);
}

#[test]
fn nothing_is_said_where_silence_is_asked_for() {
    let a = pair(0, "a", "x", FOR_EVER);
    let input = [
        bulk(0xb8, SILENT, &[a.clone(), pair(0, "b", "y", FOR_EVER)]),
        bulk(0xb9, SILENT, &[key(0, "b")]),
        script(SILENT, "name", &[("k", "v")]),
        get(&["a", "b"]),
    ];
    check(&input, &[hits(&[hit("a", "x")])], false);
    let silent_get = bulk(0xba, SILENT, &[key(0, "a")]);
    check(&[silent_get], &[hits(&[])], false);
    let other_flags = bulk(0xb8, !SILENT, &[a]);
    check(&[other_flags], &[count(0xb8, 1)], false);
}

fn script(flags: u32, name: &str, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes =
        [&[0xb4][..], &flags.to_be_bytes(), &(name.len() as u32).to_be_bytes()].concat();
    bytes.extend((pairs.len() as u32).to_be_bytes());
    bytes.extend(name.bytes());
    for (k, value) in pairs {
        bytes.extend((k.len() as u32).to_be_bytes());
        bytes.extend((value.len() as u32).to_be_bytes());
        bytes.extend(k.bytes().chain(value.bytes()));
    }
    bytes
}

#[test]
fn scripts_are_refused_and_the_connection_goes_on() {
    let input = [
        script(0, "echo", &[("a", "x"), ("", ""), ("b", "")]),
        script(0, "", &[]),
        script(0, "no such", &[]),
        get(&[]),
    ];
    check(&input, &[vec![0xbf; 3], hits(&[])], false);
}

#[test]
fn replication_is_refused() {
    check(&[vec![0xb1], vec![0; 14]], &[vec![0xbf]], true);
}

#[test]
fn other_magics_close_without_a_word() {
    for magic in [0x00, 0x80, 0xb0, 0xb2, 0xb7, 0xbb, 0xbf, 0xff] {
        check(&[vec![magic], vec![0; 20]], &[], true);
    }
}

#[test]
fn keys_and_values_have_up_to_the_limits() {
    let prepare = |host: &mut FakeHost| {
        (host.limits.key_bytes_max, host.limits.value_bytes_max) = (3, 5);
    };
    let before = pair(0, "a", "x", FOR_EVER);
    for (k, value, fits) in [
        ("kk", "vvvv", true),
        ("kkk", "vvvvv", true),
        ("kkkk", "vvvvv", false),
        ("kkk", "vvvvvv", false),
    ] {
        let records = [before.clone(), pair(0, k, value, FOR_EVER)];
        let stored = if fits { count(0xb8, 2) } else { vec![0xbf] };
        check_with(&[bulk(0xb8, 0, &records)], &[stored], !fits, prepare);
        check_with(&[bulk(0xb8, SILENT, &records)], &[], !fits, prepare);
        check_with(&[script(0, "s", &[(k, value)])], &[vec![0xbf]], !fits, prepare);
    }
    for (k, fits) in [("kk", true), ("kkk", true), ("kkkk", false)] {
        let removed = if fits { count(0xb9, 0) } else { vec![0xbf] };
        check_with(&[bulk(0xb9, 0, &[key(0, k)])], &[removed], !fits, prepare);
        let found = if fits { hits(&[]) } else { vec![0xbf] };
        check_with(&[get(&["a", k])], &[found], !fits, prepare);
    }
    let huge = [&[0xb8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0][..], &[0xff; 8], &[0; 8]].concat();
    check(&[huge], &[vec![0xbf]], true);
}

#[test]
fn records_before_an_error_stay() {
    let mut conversation = Conversation::new();
    conversation.host.limits.key_bytes_max = 3;
    let records = [pair(0, "a", "x", FOR_EVER), pair(0, "long", "x", FOR_EVER)];
    assert_eq!(conversation.ask(bulk(0xb8, 0, &records)), "\\xbfclosed");
    conversation.session = KyotoSession::default();
    conversation.waiting.clear();
    let outcome = conversation.send(get(&["a"]));
    assert_eq!(outcome.output, hits(&[hit("a", "x")]));
}

#[test]
fn a_full_database_refuses_and_closes() {
    let full = |host: &mut FakeHost| {
        let tables = std::array::from_fn::<_, DATABASES, _>(|_| {
            let limits =
                Limits { bytes_max: Some(1), when_full: WhenFull::Refuse, ..Limits::default() };
            let options = Options { shards: Some(16), limits, ..Options::default() };
            Arc::new(Table::new(options))
        });
        host.databases = Arc::new(Databases::new(tables));
    };
    check_with(&[set(&[("a", "x")])], &[vec![0xbf]], true, full);
}

#[test]
fn the_reply_of_a_get_has_up_to_the_limit() {
    let value = "v".repeat(40);
    // 5 bytes and 18 + 1 + 40 for each hit.
    for (limit, fits) in [(5 + 2 * 59, true), (5 + 2 * 59 - 1, false)] {
        let prepare = |host: &mut FakeHost| host.limits.output_bytes_max = limit;
        let input = [set(&[("a", &value)]), get(&["a", "x", "a"])];
        let reply = if fits { hits(&[hit("a", &value), hit("a", &value)]) } else { vec![0xbf] };
        check_with(&input, &[count(0xb8, 1), reply], !fits, prepare);
    }
}

#[test]
fn records_are_stored_as_they_come() {
    let mut session = KyotoSession::default();
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 10, output_bytes_max: 1000 };
    let mut output = Vec::new();
    let record = pair(0, "a", "12345", FOR_EVER);
    let header = [&[0xb8, 0, 0, 0, 0][..], &u32::MAX.to_be_bytes()].concat();
    let input = [&header[..], &record, &record[..20]].concat();
    let progress = session.advance(&input, &mut output, &mut host, budget);
    assert_eq!((progress.consumed, progress.next), (9 + 24, Next::Read { wanted: 4 }));
    let mut found = Vec::new();
    KyotoSession::default().advance(&get(&["a"]), &mut found, &mut host, budget);
    assert_eq!(found, hits(&[hit("a", "12345")]));
    assert!(output.is_empty());
}

#[test]
fn a_long_bulk_takes_several_turns() {
    let mut session = KyotoSession::default();
    let mut host = FakeHost::new(ProtocolName::Kyoto);
    let budget = Budget { requests_max: 10, output_bytes_max: 10_000 };
    let value = "v".repeat(1000);
    session.advance(&set(&[("a", &value)]), &mut Vec::new(), &mut host, budget);
    let mut input = get(&["a"; 5000]);
    let (mut answer, mut turns) = (Vec::new(), 0);
    while !input.is_empty() {
        let mut output = Vec::new();
        let progress = session.advance(&input, &mut output, &mut host, budget);
        input.drain(..progress.consumed);
        assert_eq!(
            output.is_empty(),
            !input.is_empty(),
            "nothing is sent before the count is known"
        );
        answer.extend(output);
        turns += 1;
    }
    assert_eq!(answer, hits(&vec![hit("a", &value); 5000]));
    assert!(turns > 400, "{turns}");
    assert_eq!(host.lookups, (5000, 0));

    let misses = get(&["x"; 3000]);
    let progress = session.advance(&misses, &mut Vec::new(), &mut host, budget);
    assert_eq!(progress.next, Next::Yield);
    assert!(progress.consumed < 9 + 7 * 1100, "{}", progress.consumed);
}

#[test]
fn bulks_are_counted_once() {
    let mut conversation = Conversation::new();
    conversation.host.keep_observed = true;
    conversation.ask(set(&[("a", "1"), ("b", "2")]));
    conversation.ask(get(&["a"]));
    conversation.ask(bulk(0xb9, SILENT, &[key(0, "a")]));
    conversation.ask(script(0, "x", &[]));
    let observed: Vec<_> = conversation
        .host
        .observed
        .iter()
        .map(|(_, row, failed)| (COMMANDS[*row], *failed))
        .collect();
    let rows = [
        (Row::BinarySetBulk, false),
        (Row::BinaryGetBulk, false),
        (Row::BinaryRemoveBulk, false),
        (Row::BinaryPlayScript, true),
    ];
    assert_eq!(observed, rows.map(|(row, failed)| (COMMANDS[row as usize], failed)));
}
