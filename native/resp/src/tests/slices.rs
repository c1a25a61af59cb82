//! Long commands: the part of them that each turn does, and what other clients see meanwhile.

use super::*;
use std::collections::BTreeSet;
use todana_command::STEP_KEYS_MAX;
use todana_protocol::{Budget, Next, Progress, Session};
use todana_table::{Keyspace, Meta};

const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 256 << 10 };
/// Bytes of replies in one turn, and the framing of the one that exceeds the limit.
const REPLY_BYTES_MAX: usize = (256 << 10) + 100;

fn filled(keys: usize) -> FakeHost {
    let host = host();
    for number in 0..keys {
        let key = format!("key:{number}");
        let table = host.databases.table(0);
        table.update(key.as_bytes(), 1, |record| record.put(&[b"v"], Meta::default())).unwrap();
    }
    host
}

fn names(from: usize, to: usize) -> String {
    (from..to).map(|number| format!("key:{number}")).collect::<Vec<_>>().join(" ")
}

/// Plays a request turn by turn; calls `between` after each turn but the last. Returns the output
/// of each turn.
fn turns(
    session: &mut RespSession,
    host: &mut FakeHost,
    input: &[u8],
    mut between: impl FnMut(&mut FakeHost, usize),
) -> Vec<Vec<u8>> {
    let (mut rest, mut answers) = (input.to_vec(), Vec::new());
    loop {
        let mut output = Vec::new();
        let Progress { consumed, next } = session.advance(&rest, &mut output, host, BUDGET);
        host.put_splices_into(&mut output);
        rest.drain(..consumed);
        answers.push(output);
        match next {
            Next::Yield => between(host, answers.len()),
            next => {
                assert_eq!((next, rest.len()), (Next::Read { wanted: 0 }, 0));
                return answers;
            }
        }
    }
}

#[test]
fn keys_are_collected_and_returned_in_many_turns() {
    let (mut host, mut session) = (filled(40_000), RespSession::default());
    let other = |host: &mut FakeHost, turn: usize| {
        // Keys that exist throughout are returned, whatever comes and goes.
        let line = format!("MSET new:{turn} v key:{turn} w");
        ask(&mut RespSession::default(), host, &line);
        ask(&mut RespSession::default(), host, &format!("DEL key:{}", 39_999 - turn));
    };
    let input = [array("KEYS *"), array("PING")].concat();
    let answers = turns(&mut session, &mut host, &input, other);
    // A turn visits 2,048 records and the rest of a shard; there are sixteen shards.
    assert!((8..=20).contains(&answers.len()), "{} turns", answers.len());
    assert!(answers.iter().all(|answer| answer.len() <= REPLY_BYTES_MAX));
    let text = String::from_utf8(answers.concat()).unwrap();
    let found: Vec<&str> = text.split("\r\n").filter(|word| word.starts_with("key:")).collect();
    let different: BTreeSet<&str> = found.iter().copied().collect();
    assert_eq!(found.len(), different.len(), "none is returned twice");
    assert!((0..39_900).all(|number| different.contains(&*format!("key:{number}"))));
    let returned: usize = text[1..].split("\r\n").next().unwrap().parse().unwrap();
    assert_eq!(text.matches('$').count(), returned);
    assert!(text.ends_with("+PONG\r\n"));
    assert_eq!(host.commands, 2 + 2 * (answers.len() as u64 - 1), "it is one call");
    // Its time is the sum of all its turns.
    let answers = turns(&mut session, &mut host, &array("KEYS *"), |_, _| {});
    assert_eq!((host.turn_ns, host.observed_ns), (1, answers.len() as u64));
    ask(&mut session, &mut host, "PING");
    assert_eq!(host.observed_ns, 1);
}

#[test]
fn keys_are_those_of_the_database_that_had_the_number_at_the_beginning() {
    let (mut host, mut session) = (filled(10_000), RespSession::default());
    let answers = turns(&mut session, &mut host, &array("KEYS key:*"), |host, turn| {
        if turn == 1 {
            ask(&mut RespSession::default(), host, "SWAPDB 0 5");
        }
    });
    assert!(answers.len() > 2);
    assert!(answers.concat().starts_with(b"*10000\r\n"));
}

#[test]
fn silence_and_what_follows_are_kept() {
    let (mut host, mut session) = (filled(20_000), RespSession::default());
    let input = [array("CLIENT REPLY SKIP"), array("KEYS *"), array("ECHO hi")].concat();
    let answers = turns(&mut session, &mut host, &input, |_, _| {});
    assert!(answers.len() > 4);
    assert_eq!(shown(&answers.concat()), "$2 hi");
    let input = b"KEYS key:1999?\r\nPING\r\n";
    let answers = turns(&mut session, &mut host, input, |_, _| {}).concat();
    assert!(answers.starts_with(b"*10\r\n") && answers.ends_with(b"\r\n+PONG\r\n"));
}

#[test]
fn many_keys_are_done_in_steps_of_thousands() {
    let count = 2 * STEP_KEYS_MAX + 10;
    let (mut host, mut session) = (filled(count), RespSession::default());
    for command in ["EXISTS", "TOUCH"] {
        let line = format!("{command} {} none", names(0, count));
        let answers = turns(&mut session, &mut host, &array(&line), |_, _| {});
        assert_eq!((answers.len(), shown(&answers.concat())), (3, format!(":{count}")));
    }
    assert_eq!(host.lookups, (2 * count as u64, 2));
    let mut left = Vec::new();
    let line = format!("DEL {} key:0", names(0, count));
    let input = [array(&line), array("DBSIZE")].concat();
    let answers = turns(&mut session, &mut host, &input, |host, _| {
        left.push(host.databases.table(0).len() as usize);
    });
    assert_eq!(left, [count - STEP_KEYS_MAX, count - 2 * STEP_KEYS_MAX]);
    assert_eq!(shown(&answers.concat()), format!(":{count} :0"));
    // The most keys of one step are one step.
    let (mut host, line) = (filled(STEP_KEYS_MAX), format!("UNLINK {}", names(0, STEP_KEYS_MAX)));
    let answers = turns(&mut session, &mut host, &array(&line), |_, _| panic!("a second turn"));
    assert_eq!(shown(&answers.concat()), format!(":{STEP_KEYS_MAX}"));
}

#[test]
fn large_values_are_returned_in_many_turns() {
    let (mut host, mut session) = (host(), RespSession::default());
    let value = "x".repeat(100_000);
    for number in 0..20 {
        ask(&mut session, &mut host, &format!("SET key:{number} {value}"));
    }
    let line = format!("MGET small {} none", names(0, 20));
    let answers = turns(&mut session, &mut host, &array(&line), |host, _| {
        // The values are those of the beginning.
        ask(&mut RespSession::default(), host, "FLUSHALL");
    });
    assert!(answers.iter().all(|answer| answer.len() <= REPLY_BYTES_MAX + value.len()));
    assert!(answers.len() > 5);
    let text = String::from_utf8(answers.concat()).unwrap();
    assert_eq!((&text[..9], text.matches(&*value).count()), ("*22\r\n$-1\r", 20));
    assert!(text.ends_with("$-1\r\n"));
}

#[test]
fn a_client_holds_of_its_answer_what_the_table_has_no_more() {
    const VALUE_BYTES: usize = 50_000;
    let value = "x".repeat(VALUE_BYTES);
    let new: Vec<String> = (0..40).map(|number| format!("key:{number} new")).collect();
    let all_new = format!("MSET {}", new.join(" "));
    for command in [format!("MGET {}", names(0, 40)), "PREFIX key: WITHVALUES".into()] {
        let (mut host, mut other) = (range::lexical(), RespSession::default());
        for number in 0..40 {
            ask(&mut other, &mut host, &format!("SET key:{number} {value}"));
        }
        let mut session = RespSession::default();
        let (mut rest, mut held) = (array(&command), Vec::new());
        for meanwhile in ["PING", "SET key:39 new", &all_new] {
            let progress = session.advance(&rest, &mut Vec::new(), &mut host, BUDGET);
            assert_eq!((progress.next, session.is_mid_reply()), (Next::Yield, true));
            host.splices.clear();
            rest.drain(..progress.consumed);
            ask(&mut other, &mut host, meanwhile);
            held.push(session.held_bytes());
        }
        assert!(held[0] < 20_000, "{command}: {held:?}");
        let one = held[1] - held[0];
        assert!((VALUE_BYTES..VALUE_BYTES + 1_000).contains(&one), "{command}: {held:?}");
        assert!(held[2] > 10 * VALUE_BYTES, "{command}: {held:?}");
    }
}

#[test]
fn a_large_value_is_sent_out_of_the_table() {
    let (mut host, mut session) = (host(), RespSession::default());
    let value = "x".repeat(100_000);
    ask(&mut session, &mut host, &format!("SET big {value}"));
    let commands = [
        ("GET big", 100_000),
        ("MGET small big", 100_000),
        ("GETRANGE big 1 -2", 99_998),
        ("GETEX big", 100_000),
        ("GETDEL big", 100_000),
    ];
    for (command, bytes) in commands {
        for silent in [true, false] {
            if silent && command == "GETDEL big" {
                continue;
            }
            if silent {
                ask(&mut session, &mut host, "CLIENT REPLY SKIP");
            }
            let mut output = Vec::new();
            let input = array(command);
            while let Next::Yield = session.advance(&input, &mut output, &mut host, BUDGET).next {}
            let spliced: usize = host.splices.iter().map(|splice| splice.bytes().len()).sum();
            assert_eq!(spliced, if silent { 0 } else { bytes }, "{command}");
            assert!(output.len() < 100, "{command}");
            host.splices.clear();
        }
    }
}

#[test]
fn a_transaction_sends_large_values_between_its_other_replies() {
    let (mut host, mut session) = (host(), RespSession::default());
    let value = "x".repeat(20_000);
    let lines = [&format!("SET big {value}"), "MULTI", "GET big", "PING", "GETRANGE big 0 -1"];
    for line in lines {
        ask(&mut session, &mut host, line);
    }
    let reply = ask(&mut session, &mut host, "EXEC");
    assert_eq!(reply, format!("*3 $20000 {value} +PONG $20000 {value}"));
}

#[test]
fn a_large_value_is_copied_in_turns_and_stored_in_one() {
    let (mut host, mut session) = (host(), RespSession::default());
    ask(&mut session, &mut host, "SET big old");
    let value: String = (0..900_000).map(|number| format!("{number:07}")).collect();
    for (line, reply) in [
        (format!("SET big {value} GET"), "$3 old"),
        (format!("SET big {value} XX KEEPTTL"), "+OK"),
        (format!("SETNX big {value}"), ":0"),
        (format!("PSETEX other 100000 {value}"), "+OK"),
    ] {
        let is_first = reply == "$3 old";
        let answers = turns(&mut session, &mut host, &array(&line), |host, _| {
            let seen = ask(&mut RespSession::default(), host, "GET big");
            assert_eq!(is_first, seen == "$3 old");
        });
        // 2 MiB in each turn.
        assert_eq!((answers.len(), shown(&answers.concat())), (4, reply.to_owned()));
    }
    for key in ["big", "other"] {
        let seen = ask(&mut RespSession::default(), &mut host, &format!("GET {key}"));
        assert!(seen.ends_with(&value), "{key}");
    }
}

#[test]
fn bits_of_a_large_value_are_looked_at_in_turns() {
    let (mut host, mut session) = (host(), RespSession::default());
    host.limits.value_bytes_max = 64 << 20;
    let bit = 20 * 8 * (1 << 20) + 5;
    ask(&mut session, &mut host, &format!("SETBIT big {bit} 1"));
    for (line, reply, turns_min) in [
        ("BITCOUNT big".to_owned(), ":1".to_owned(), 5),
        ("BITPOS big 1".to_owned(), format!(":{bit}"), 5),
        ("BITPOS big 0".to_owned(), ":0".to_owned(), 1),
        (format!("BITPOS big 1 0 {} BIT", bit - 1), ":-1".to_owned(), 5),
        (format!("BITCOUNT big 9 {} BIT", bit - 1), ":0".to_owned(), 5),
    ] {
        let answers = turns(&mut session, &mut host, &array(&line), |host, _| {
            ask(&mut RespSession::default(), host, "SETBIT big 0 0");
        });
        assert!(answers.len() >= turns_min, "{line}: {}", answers.len());
        assert_eq!(shown(&answers.concat()), reply, "{line}");
    }
}

#[test]
fn a_transaction_answers_in_as_many_turns_as_it_takes() {
    let (mut host, mut session) = (host(), RespSession::default());
    let value = "x".repeat(1_000);
    ask(&mut session, &mut host, &format!("SET k {value}"));
    ask(&mut session, &mut host, "MULTI");
    for number in 0..4_000 {
        ask(&mut session, &mut host, if number % 9 == 0 { "TIME" } else { "GET k" });
    }
    let input = [array("EXEC"), array("PING")].concat();
    let answers = turns(&mut session, &mut host, &input, |host, _| {
        // The values are those of the beginning.
        ask(&mut RespSession::default(), host, "FLUSHALL");
    });
    assert!(answers.iter().all(|answer| answer.len() <= REPLY_BYTES_MAX));
    assert!(answers.len() >= 13, "{} turns", answers.len());
    let text = String::from_utf8(answers.concat()).unwrap();
    assert!(text.starts_with("*4000\r\n*2\r\n$10\r\n") && text.ends_with("x\r\n+PONG\r\n"));
    assert_eq!((text.matches(&*value).count(), text.matches("*2\r\n").count()), (3_555, 445));
    assert_eq!(session.held_bytes(), 0);
}

#[test]
fn replies_after_a_large_value_wait_for_it() {
    let mut host = host();
    let value = "x".repeat(1 << 20);
    ask(&mut RespSession::default(), &mut host, &format!("SET k {value}"));
    let mut play = |lines: &[&str]| {
        let input: Vec<u8> = lines.iter().flat_map(|line| array(line)).collect();
        converse(&mut RespSession::default(), &mut host, [&*input])
    };
    let outcome = play(&["MULTI", "GET k", "DEBUG SLEEP 0.05", "EXEC", "PING"]);
    assert_eq!((outcome.closed, outcome.slept_ms), (false, 50));
    assert!(outcome.output.ends_with(b"x\r\n+OK\r\n+PONG\r\n"));
    let outcome = play(&["MULTI", "GET k", "CLIENT KILL ID 7 SKIPME no", "EXEC", "PING"]);
    assert!(outcome.closed && outcome.output.ends_with(b"x\r\n:1\r\n"));
    let outcome =
        play(&["CLIENT REPLY SKIP", "GET k", "CLIENT REPLY OFF", "MULTI", "GET k", "EXEC"]);
    assert_eq!((outcome.closed, outcome.output.len()), (false, 0));
}

#[test]
fn pairs_are_made_ready_in_turns_and_stored_in_one() {
    let (mut host, mut session) = (host(), RespSession::default());
    let value = "x".repeat(100_000);
    let pairs: Vec<String> = (0..60).map(|number| format!("key:{number} {value}")).collect();
    let line = format!("MSET {}", pairs.join(" "));
    let answers = turns(&mut session, &mut host, &array(&line), |host, _| {
        assert_eq!(host.databases.table(0).len(), 0);
    });
    assert_eq!((answers.len(), shown(&answers.concat())), (3, "+OK".to_owned()));
    assert_eq!(host.databases.table(0).len(), 60);
}

#[test]
fn clients_are_listed_in_many_turns() {
    let (mut host, mut session) = (host(), RespSession::default());
    let client = |id| todana_protocol::testing::client(id, ProtocolName::Resp);
    host.others = (8..8_008).map(client).collect();
    let input = [array("CLIENT LIST"), array("PING")].concat();
    let answers = turns(&mut session, &mut host, &input, |host, turn| {
        // A client that has been described leaves, and another one connects.
        host.others.remove(0);
        host.others.push(client(10_000 + turn as u64));
    });
    // Each of the list's eight turns is empty, and the last fills the output.
    assert_eq!(answers.len(), 9);
    assert!(answers[..7].iter().all(Vec::is_empty));
    let text = String::from_utf8(answers.concat()).unwrap();
    let ids: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok())
        .collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "each once");
    assert!((8..8_008).all(|id| ids.binary_search(&id).is_ok()));
    assert!(text.ends_with("+PONG\r\n"));
    assert_eq!(host.commands, 2);
    // Outside EXEC, finding some of them takes as many turns; in EXEC all are found in one.
    let count = |answer: &[u8]| String::from_utf8_lossy(answer).matches("id=").count();
    let line = array("CLIENT LIST ID 7000 500 501 1");
    let answers = turns(&mut session, &mut host, &line, |_, _| {});
    assert_eq!((answers.len(), count(&answers.concat())), (8, 3));
    ask(&mut session, &mut host, "MULTI");
    ask(&mut session, &mut host, "CLIENT LIST");
    let answers = turns(&mut session, &mut host, &array("EXEC"), |host, _| host.others.clear());
    assert_eq!(count(&answers.concat()), 8_001);
}

#[test]
fn a_page_of_scan_is_bounded_whatever_its_count() {
    let (mut host, mut session) = (filled(60_000), RespSession::default());
    let (mut cursor, mut pages) = ("0".to_owned(), 0);
    loop {
        let page = ask(&mut session, &mut host, &format!("SCAN {cursor} COUNT 5000000"));
        let words: Vec<&str> = page.split_whitespace().collect();
        pages += 1;
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    // Sixteen shards of 3,750 records on average.
    assert!(pages >= 7, "{pages} pages");
}

/// A host with a value of this length at each of these keys.
fn with_values(keys: &[&str], length: usize) -> FakeHost {
    let host = host();
    for (key, byte) in keys.iter().zip(1..) {
        let table = host.databases.table(0);
        let value = vec![byte; length];
        table.update(key.as_bytes(), 1, |record| record.put(&[&value], Meta::default())).unwrap();
    }
    host
}

fn value(host: &FakeHost, key: &str) -> Vec<u8> {
    let table = host.databases.table(0);
    table.read(key.as_bytes(), 1, |entry| {
        entry.map_or(Vec::new(), |it| it.stored().bytes().to_vec())
    })
}

#[test]
fn long_values_are_combined_in_many_turns_as_one_step() {
    let length = 3 << 20;
    let request = array("BITOP OR a a b c");
    let mut host = with_values(&["a", "b", "c"], length);
    let answers = turns(&mut RespSession::default(), &mut host, &request, |_, _| {});
    assert!(answers.len() > 2, "{} turns", answers.len());
    assert_eq!(answers.concat(), format!(":{length}\r\n").as_bytes());
    assert!(value(&host, "a").iter().all(|byte| *byte == 3));

    // A bit that another client sets meanwhile is not lost.
    let mut host = with_values(&["a", "b", "c"], length);
    let change = |host: &mut FakeHost, turn: usize| {
        if turn < 4 {
            ask(&mut RespSession::default(), host, &format!("SETBIT a {} 1", turn * 8));
        }
    };
    turns(&mut RespSession::default(), &mut host, &request, change);
    let combined = value(&host, "a");
    assert_eq!(combined[..5], [3, 0x83, 0x83, 0x83, 3]);

    // If they change again and again, the command gives up.
    let mut host = with_values(&["a", "b", "c"], length);
    let change = |host: &mut FakeHost, turn: usize| {
        ask(&mut RespSession::default(), host, &format!("SETRANGE b 0 {turn}"));
    };
    let answers = turns(&mut RespSession::default(), &mut host, &request, change).concat();
    assert_eq!(shown(&answers), "-ERR the values were changed too often while BITOP read them");
    assert!(value(&host, "a").iter().all(|byte| *byte == 1));
}

#[test]
fn long_values_are_dumped_and_restored_in_many_turns() {
    let length = 3 << 20;
    let (mut host, mut session) = (with_values(&["a"], length), RespSession::default());
    let answers = turns(&mut session, &mut host, &array("DUMP a"), |_, _| {});
    assert!(answers.len() > 2, "{} turns", answers.len());
    let answer = answers.concat();
    let start = answer.iter().position(|byte| *byte == b'\n').expect("a length") + 1;
    let payload = &answer[start..answer.len() - 2];
    assert_eq!(payload.len(), length + 6 + 10);
    let mut restore =
        format!("*4\r\n$7\r\nRESTORE\r\n$1\r\nb\r\n$1\r\n0\r\n${}\r\n", payload.len());
    // The key is created by another client before the end.
    let mut request = std::mem::take(&mut restore).into_bytes();
    request.extend_from_slice(payload);
    request.extend_from_slice(b"\r\n");
    let answers = turns(&mut session, &mut host, &request, |_, _| {});
    assert!(answers.len() > 2, "{} turns", answers.len());
    assert_eq!((answers.concat(), value(&host, "b")), (b"+OK\r\n".to_vec(), vec![1; length]));

    ask(&mut RespSession::default(), &mut host, "DEL b");
    let create = |host: &mut FakeHost, _: usize| {
        ask(&mut RespSession::default(), host, "SET b other");
    };
    let answers = turns(&mut session, &mut host, &request, create).concat();
    assert_eq!(shown(&answers), "-BUSYKEY Target key name already exists.");
    assert_eq!(value(&host, "b"), b"other");
}

#[test]
fn many_sketches_are_merged_in_many_turns() {
    let (mut host, mut session) = (host(), RespSession::default());
    let keys: Vec<String> = (0..200).map(|number| format!("h{number}")).collect();
    for key in &keys {
        ask(&mut session, &mut host, &format!("PFADD {key} {key} same"));
    }
    let merge = array(&format!("PFMERGE all {}", keys.join(" ")));
    let add = |host: &mut FakeHost, turn: usize| {
        ask(&mut RespSession::default(), host, &format!("PFADD all {turn}"));
    };
    let answers = turns(&mut session, &mut host, &merge, add);
    assert_eq!((answers.len(), answers.concat()), (4, b"+OK\r\n".to_vec()));
    // 200 keys, the element that they share, and three that were added meanwhile.
    let count = ask(&mut session, &mut host, "PFCOUNT all");
    let count: i64 = count[1..].parse().unwrap();
    assert!((196..=212).contains(&count), "{count}");
    let counted =
        turns(&mut session, &mut host, &array(&format!("PFCOUNT {}", keys.join(" "))), |_, _| {});
    assert_eq!(counted.len(), 4);

    let many: Vec<&str> = std::iter::repeat_n("h1", 4_096).collect();
    let answer = ask(&mut session, &mut host, &format!("PFMERGE all {}", many.join(" ")));
    assert_eq!(answer, "-ERR PFMERGE accepts at most 4096 keys");
}
