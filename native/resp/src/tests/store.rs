//! Records: the replies of a real Redis to the same requests, and tests that no transcript can
//! express.

use super::*;
use todana_protocol::testing::{START_MS, with_durable_hosts};

#[test]
fn strings_answer_as_redis_does() {
    script(include_str!("transcripts/strings.txt"));
}

#[test]
fn bits_answer_as_redis_does() {
    script(include_str!("transcripts/bits.txt"));
}

#[test]
fn combined_bits_and_fields_answer_as_redis_does() {
    script(include_str!("transcripts/fields.txt"));
}

#[test]
fn sketches_answer_as_redis_does() {
    script(include_str!("transcripts/sketches.txt"));
}

#[test]
fn dumped_values_answer_as_redis_does() {
    script(include_str!("transcripts/dump.txt"));
}

/// As Redis 8.2 does.
#[test]
fn bits_are_combined_by_later_operators() {
    script(
        r#"
        > MSET a "\xf0" b "\x3c\xff" c "\x81"
        +OK
        > BITOP DIFF d a b c
        :2
        > GET d
        $2 @\x00
        > BITOP DIFF1 d a b c
        :2
        > GET d
        $2 \r\xff
        > BITOP ANDOR d a b c
        :2
        > GET d
        $2 \xb0\x00
        > BITOP ONE d a b c
        :2
        > GET d
        $2 M\xff
        > BITOP DIFF d a
        -ERR BITOP DIFF must be called with at least two source keys.
        > BITOP andor d a
        -ERR BITOP ANDOR must be called with at least two source keys.
        > BITOP ONE d a
        :1
        "#,
    );
}

#[test]
fn payloads_of_other_types_are_refused() {
    script(include_str!("transcripts/other_types.txt"));
}

#[test]
fn keys_answer_as_redis_does() {
    script(include_str!("transcripts/keys.txt"));
}

/// As Redis 8.4 and Valkey 9 do.
#[test]
fn a_value_is_compared_before_it_is_replaced_or_removed() {
    script(
        r#"
        > SET k 1 IFEQ 0
        $-1
        > SET k 1 IFNE 0
        +OK
        > SET k 2 IFEQ 1 EX 100
        +OK
        > TTL k
        :100
        > SET k 3 IFEQ 1 GET
        $1 2
        > SET k 3 GET IFEQ 2 KEEPTTL
        $1 2
        > TTL k
        :100
        > SET k 4 IFNE 3
        $-1
        > SET k 4 NX IFEQ 3
        -ERR syntax error
        > SET k 4 IFEQ 3 IFNE 2
        -ERR syntax error
        > SET k 4 IFEQ
        -ERR syntax error
        > DELIFEQ k 4
        :0
        > DELEX k IFEQ 4
        :0
        > DELEX k IFNE 3
        :0
        > DELIFEQ k 3
        :1
        > DELIFEQ k 3
        :0
        > DELEX k IFNE 3
        :0
        > MSET k 1 l 2
        +OK
        > DELEX k
        :1
        > DELEX l IFNE 1
        :1
        > DELEX l l
        -ERR wrong number of arguments for 'delex' command
        > DELEX l IFGT 1
        -ERR syntax error
        "#,
    );
}

#[test]
fn time_is_returned_relative_and_absolute() {
    let (mut host, mut session) = (host(), RespSession::default());
    let mut ask = |host: &mut FakeHost, line: &str| ask(&mut session, host, line);
    ask(&mut host, "SET k v PX 1500");
    assert_eq!(ask(&mut host, "PTTL k"), ":1500");
    assert_eq!(ask(&mut host, "TTL k"), ":2");
    assert_eq!(ask(&mut host, "PEXPIRETIME k"), format!(":{}", START_MS + 1500));
    assert_eq!(ask(&mut host, "EXPIRETIME k"), format!(":{}", (START_MS + 2000) / 1000));
    host.now_ms += 1499;
    assert_eq!(ask(&mut host, "TTL k"), ":0");
    assert_eq!(ask(&mut host, "GET k"), "$1 v");
    host.now_ms += 1;
    assert_eq!(ask(&mut host, "TTL k"), ":-2");
    assert_eq!(ask(&mut host, "GET k"), "$-1");
}

/// The clock of a durable database may be corrected slowly, or by an operator.
#[test]
fn a_time_before_now_removes_a_record_whatever_the_time_of_the_log_is() {
    let (mut host, mut session) = (with_durable_hosts(host), RespSession::default());
    host.log_is_late_ms = 3_600_000;
    for line in ["EXPIRE k -1", "PEXPIRE k -1", "EXPIRE k 0", "EXPIREAT k -1", "PEXPIREAT k 1"] {
        ask(&mut session, &mut host, "SET k v");
        assert_eq!(ask(&mut session, &mut host, line), ":1", "{line}");
        assert_eq!(ask(&mut session, &mut host, "EXISTS k"), ":0", "{line}");
        assert_eq!(ask(&mut session, &mut host, line), ":0", "{line}");
    }
    ask(&mut session, &mut host, "SET k v EX 10");
    assert_eq!(ask(&mut session, &mut host, "TTL k"), ":10");
    for line in ["EXPIRE k -1 GT", "EXPIRE k -1 NX"] {
        assert_eq!(ask(&mut session, &mut host, line), ":0", "{line}");
    }
    assert_eq!(ask(&mut session, &mut host, "EXPIRE k -1 LT"), ":1");
    assert_eq!(ask(&mut session, &mut host, "EXISTS k"), ":0");
}

#[test]
fn scan_returns_every_key_once_all_pages_are_read() {
    let (mut host, mut session) = (host(), RespSession::default());
    for number in 0..200 {
        ask(&mut session, &mut host, &format!("SET key:{number} v"));
    }
    let (mut cursor, mut found) = ("0".to_owned(), std::collections::BTreeSet::new());
    loop {
        let page = ask(&mut session, &mut host, &format!("SCAN {cursor} MATCH key:1* COUNT 20"));
        let words: Vec<&str> = page.split_whitespace().collect();
        found.extend(words.iter().filter(|word| word.starts_with("key:")).map(|it| it.to_string()));
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 111);
    let page = ask(&mut session, &mut host, "SCAN 0 COUNT 20 TYPE list");
    assert!(page.ends_with("*0") && !page.starts_with("*2 $1 0 "), "{page}");
    let all = ask(&mut session, &mut host, "KEYS key:19*");
    assert!(all.starts_with("*11 "), "{all}");
}

#[test]
fn some_key_is_found_at_random() {
    let (mut host, mut session) = (host(), RespSession::default());
    assert_eq!(ask(&mut session, &mut host, "RANDOMKEY"), "$-1");
    ask(&mut session, &mut host, "MSET a 1 b 2 c 3");
    let draw = |_| ask(&mut session, &mut host, "RANDOMKEY");
    let drawn: std::collections::BTreeSet<String> = (0..100).map(draw).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), ["$1 a", "$1 b", "$1 c"]);
}

#[test]
fn a_full_store_refuses_in_redis_words() {
    script(
        r#"
        > SET k v
        +OK
        > OBJECT FREQ k
        -ERR access frequency is not tracked
        > OBJECT FREQ nokey
        $-1
        > SETRANGE k 100000000 x
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        > GET k
        $1 v
        > RESTORE k -1 x
        -BUSYKEY Target key name already exists.
        > RESTORE k x x
        -BUSYKEY Target key name already exists.
        > RESTORE k -1 x REPLACE
        -ERR Invalid TTL value, must be >= 0
        > RESTORE k x x REPLACE
        -ERR value is not an integer or out of range
        > RESTORE nokey -1 x
        -ERR Invalid TTL value, must be >= 0
        > RESTORE nokey x x
        -ERR value is not an integer or out of range
        > RESTORE k -1 x BAD
        -ERR syntax error
        > BITFIELD k GET u8 0
        *1 :118
        > BITFIELD k GET U8 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported
        but i64 is.
        > BITFIELD k OVERFLOW SAT SET I8 0 1
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported
        but i64 is.
        > BITFIELD_RO k GET u8 0 GET I8 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported
        but i64 is.
        > SET "" x
        +OK
        > KEYS **
        *1 $1 k
        > KEYS ""
        *1 $0
        "#,
    );
    let mut out = Vec::new();
    let mut encoder = super::super::encoder::Encoder::new(&mut out, false, 1000);
    let format = super::super::reply_format::ReplyFormat::Plain;
    let mut reply = super::super::reply::Formatted { sink: &mut encoder, format, now_ms: 0 };
    todana_command::Reply::error(&mut reply, todana_command::Error::Full);
    assert_eq!(shown(&out), "-OOM command not allowed when used memory > 'maxmemory'.");
}
