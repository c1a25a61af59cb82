//! What each opcode does.

use super::{Conversation, get, in_every_way, request, set};
use crate::table::{COMMANDS, Row};

const DAY: u32 = 86_400;

#[test]
fn a_record_has_flags_and_a_token() {
    let mut client = Conversation::new();
    let stored = client.ask(&request("set").key("a").value("hello").u32(0xdead_beef).u32(0));
    assert_eq!((stored.status, stored.value.len()), (0, 0));
    let found = client.ask(&get("a").opaque(77));
    assert_eq!((found.code, found.status, found.opaque), (0, 0, 77));
    assert_eq!(found.extras, 0xdead_beef_u32.to_be_bytes());
    assert_eq!((found.key.as_slice(), found.value.as_slice()), (&b""[..], &b"hello"[..]));
    assert!(found.cas != 0 && found.cas == stored.cas);
    let with_key = client.ask(&request("getk").key("a"));
    assert_eq!((with_key.key, with_key.value), (b"a".to_vec(), b"hello".to_vec()));
}

#[test]
fn keys_may_have_any_bytes() {
    let key: Vec<u8> = (0..=249).collect();
    let mut client = Conversation::new();
    let store = request("set").key(&key).value("x").u32(0).u32(0);
    assert_eq!(client.ask(&store).status, 0);
    assert_eq!(client.ask(&request("getk").key(&key)).key, key);
}

#[test]
fn a_quiet_retrieval_answers_hits_and_other_quiet_requests_answer_errors() {
    let quiet = |name: &str, key: &str| request(name).key(key);
    let answers = in_every_way(&[
        request("setq").key("a").value("1").u32(0).u32(0),
        quiet("getq", "a"),
        quiet("getq", "z"),
        quiet("getkq", "a"),
        quiet("getkq", "z"),
        quiet("gatq", "a").u32(DAY),
        quiet("gatkq", "z").u32(DAY),
        request("addq").key("a").value("2").u32(0).u32(0),
        request("replaceq").key("z").value("2").u32(0).u32(0),
        quiet("appendq", "a").value("0"),
        quiet("appendq", "z").value("0"),
        quiet("prependq", "a").value("4"),
        quiet("incrementq", "a").u64(5).u64(0).u32(u32::MAX),
        quiet("decrementq", "z").u64(5).u64(0).u32(u32::MAX),
        quiet("deleteq", "z"),
        get("a"),
        request("flushq"),
        get("a"),
        request("noop"),
        request("quitq"),
    ]);
    let expected = [
        "0x00 1",
        "0x00 a 1",
        "0x00 1",
        "0x02 Data exists for key.",
        "0x01 Not found",
        "0x05 Not stored.",
        "0x01 Not found",
        "0x01 Not found",
        "0x00 415",
        "0x01 Not found",
        "0x00 ",
        "closed",
    ];
    assert_eq!(answers, expected);
}

#[test]
fn misses_of_retrievals_that_return_keys_have_the_key() {
    let answers = in_every_way(&[
        get("z"),
        request("getk").key("z"),
        request("gat").key("z").u32(1),
        request("gatk").key("z").u32(1),
    ]);
    assert_eq!(answers, ["0x01 Not found", "0x01 z ", "0x01 Not found", "0x01 z "]);
}

#[test]
fn conditions_are_those_of_opcode_and_token() {
    let mut client = Conversation::new();
    let with = |name: &str, cas: u64| request(name).key("a").value("v").u32(0).u32(0).cas(cas);
    assert_eq!(client.ask(&with("replace", 0)).text(), "0x01 Not found");
    assert_eq!(client.ask(&with("set", 5)).text(), "0x01 Not found");
    let token = client.ask(&with("add", 0)).cas;
    assert_eq!(client.ask(&with("add", 0)).text(), "0x02 Data exists for key.");
    assert_eq!(client.ask(&with("set", token + 1)).text(), "0x02 Data exists for key.");
    let append = |cas| request("append").key("a").value("w").cas(cas);
    assert_eq!(client.ask(&append(token + 1)).text(), "0x02 Data exists for key.");
    let token = client.ask(&append(token)).cas;
    // With a token, add and replace are compare-and-swap too.
    let token = client.ask(&with("add", token)).cas;
    let token = client.ask(&with("replace", token)).cas;
    assert_eq!(client.ask(&get("a")).cas, token);
    let delete = |cas| request("delete").key("a").cas(cas);
    assert_eq!(client.ask(&delete(token - 1)).text(), "0x02 Data exists for key.");
    assert_eq!(client.ask(&delete(token)).text(), "0x00 ");
    assert_eq!(client.ask(&delete(0)).text(), "0x01 Not found");
}

#[test]
fn counters_are_created_with_their_initial_value_and_wrap() {
    let mut client = Conversation::new();
    let change = |name: &str, by: u64, initial: u64, expiry: u32| {
        request(name).key("n").u64(by).u64(initial).u32(expiry)
    };
    let mut ask = |name: &str, by: u64, initial: u64, expiry: u32| {
        let answer = client.ask(&change(name, by, initial, expiry));
        let number: Result<[u8; 8], _> = answer.value.clone().try_into();
        match answer.status {
            0 => number.map(u64::from_be_bytes).expect("eight bytes"),
            _ => panic!("{}", answer.text()),
        }
    };
    assert_eq!(ask("increment", 5, 40, 0), 40);
    assert_eq!(ask("increment", 5, 40, 0), 45);
    assert_eq!(ask("decrement", 6, 0, 0), 39);
    assert_eq!(ask("decrement", 100, 0, 0), 0);
    assert_eq!(ask("increment", u64::MAX, 0, 0), u64::MAX);
    assert_eq!(ask("increment", 2, 0, 0), 1);
    let none = request("increment").key("z").u64(1).u64(1).u32(u32::MAX);
    assert_eq!(client.ask(&none).text(), "0x01 Not found");
    assert_eq!(client.ask(&set("n", "x")).status, 0);
    let answer = client.ask(&change("increment", 1, 0, 0));
    assert_eq!(answer.text(), "0x06 Non-numeric server-side value for incr or decr");
    let answer = client.ask(&change("increment", 1, 0, 0).cas(1));
    assert_eq!(answer.text(), "0x02 Data exists for key.");
}

#[test]
fn times_are_relative_for_thirty_days_and_then_absolute() {
    let mut client = Conversation::new();
    let store = |key: &str, expiry: u32| request("set").key(key).value("x").u32(0).u32(expiry);
    let now_s = u32::try_from(client.host.now_ms / 1000).unwrap();
    client.texts(&[store("a", 10), store("b", now_s + 20), store("c", 0), store("d", now_s - 1)]);
    assert_eq!(client.ask(&get("d")).status, 1);
    client.host.now_ms += 10_001;
    assert_eq!(client.ask(&get("a")).status, 1);
    let touched = client.ask(&request("touch").key("b").u32(100));
    assert_eq!((touched.status, touched.extras.len(), touched.value.len()), (0, 4, 0));
    client.host.now_ms += 20_000;
    assert_eq!(client.ask(&request("gat").key("b").u32(10)).text(), "0x00 x");
    client.host.now_ms += 10_001;
    assert_eq!(client.ask(&get("b")).status, 1);
    assert_eq!(client.ask(&request("touch").key("b").u32(1)).text(), "0x01 Not found");
    assert_eq!(client.ask(&request("flush").u32(5)).status, 0);
    assert_eq!(client.ask(&get("c")).status, 0);
    client.host.now_ms += 5_001;
    assert_eq!(client.ask(&get("c")).status, 1);
}

#[test]
fn a_value_that_is_too_long_is_skipped_and_a_set_removes_the_record() {
    let mut client = Conversation::new();
    client.host.limits.memcached_value_bytes_max = 10;
    let long = "x".repeat(11);
    client.texts(&[set("a", "1"), set("b", "1")]);
    let add = request("append").key("b").value(&long);
    let answers = client.texts(&[set("a", &long), add, get("a"), get("b"), request("noop")]);
    let expected = ["0x03 Too large.", "0x03 Too large.", "0x01 Not found", "0x00 1", "0x00 "];
    assert_eq!(answers, expected);
    let grows = request("append").key("b").value("x".repeat(10));
    assert_eq!(client.ask(&grows).text(), "0x05 Not stored.");
}

#[test]
fn requests_about_the_server_are_answered() {
    let mut client = Conversation::new();
    client.host.info.version = "9.9.9".into();
    assert_eq!(client.ask(&request("version")).text(), "0x00 1.6.18-todana-9.9.9");
    assert_eq!(client.ask(&request("verbosity").u32(3)).text(), "0x00 ");
    for group in ["", "settings", "items", "slabs", "sizes", "conns", "reset"] {
        let answers = client.texts(&[request("stat").key(group)]);
        assert_eq!(answers.last().map(String::as_str), Some("0x00 "), "{group}");
    }
    assert_eq!(client.host.stats_resets.load(std::sync::atomic::Ordering::Relaxed), 1);
    let answers = client.texts(&[request("stat")]);
    assert!(answers.contains(&"0x00 version 1.6.18-todana-9.9.9".to_owned()), "{answers:?}");
    assert_eq!(client.ask(&request("stat").key("nothing")).text(), "0x01 Not found");
    assert_eq!(client.texts(&[request("quit"), get("a")]), ["0x00 ", "closed"]);
}

#[test]
fn requests_are_counted_in_the_rows_of_the_text_protocol() {
    let mut client = Conversation::new();
    client.host.keep_observed = true;
    client.texts(&[
        set("a", "1"),
        set("a", "1").cas(77),
        set("z", "1").cas(1),
        get("a"),
        request("getkq").key("z"),
        request("touch").key("a").u32(0),
        request("touch").key("z").u32(0),
        request("delete").key("z"),
    ]);
    let rows: Vec<&str> = client.host.observed.iter().map(|(_, row, _)| COMMANDS[*row]).collect();
    let expected = [
        Row::Set,
        Row::CasBadval,
        Row::CasMiss,
        Row::Get,
        Row::Get,
        Row::Touch,
        Row::TouchMiss,
        Row::DeleteMiss,
    ];
    assert_eq!(rows, expected.map(|row| COMMANDS[row as usize]));
    assert_eq!(client.host.lookups, (1, 1));
}
