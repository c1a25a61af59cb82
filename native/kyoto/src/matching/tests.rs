use super::*;
use crate::reading::Reading;
use crate::testing::FakeHost;
use std::sync::Arc;
use todana_command::{Databases, Expires, KeyCommand, Set, StringCommand};
use todana_protocol::ProtocolName;
use todana_protocol::testing::START_MS;
use todana_table::{KeyOrder, Options};

const LEXICAL: Option<KeyOrder> =
    Some(KeyOrder { comparison: Comparison::Lexical, descending: false });
const DECIMAL: Option<KeyOrder> =
    Some(KeyOrder { comparison: Comparison::Decimal, descending: false });
const DESCENDING: Option<KeyOrder> =
    Some(KeyOrder { comparison: Comparison::Lexical, descending: true });

/// A host with these records in database 0.
fn host(order: Option<KeyOrder>, keys: &[&[u8]]) -> FakeHost {
    let options = Options { shards: Some(64), seed: Some(7), order, ..Options::default() };
    let mut host = FakeHost::on(Arc::new(Databases::with_options(&options)), ProtocolName::Kyoto);
    keys.iter().for_each(|key| put(&mut host, key, Expires::Never));
    host
}

fn put(host: &mut FakeHost, key: &[u8], expires: Expires) {
    let set = Set { expires, ..Set::new(key, b"value") };
    let mut out = Vec::new();
    let mut turn = Turn::new(host, &mut out);
    see(&mut turn, 0, &Command::String(StringCommand::Set(set)), &mut |_| {})
        .expect("a value that is stored");
}

fn begin(host: &mut FakeHost, row: Row, query: &str) -> Result<Search, Failure> {
    let mut reading = Reading::new(query.as_bytes(), None, b"".into()).expect("a query");
    assert!(reading.step(), "a short query");
    let mut out = Vec::new();
    let turn = Turn::new(host, &mut out);
    Search::begin(&turn, row, 0, &reading.finish().expect("few inputs"))
}

/// The outputs of a search, and the number of rows after each of its steps.
fn run(host: &mut FakeHost, row: Row, query: &str) -> Result<(Outputs, Vec<usize>), Failure> {
    let mut search = begin(host, row, query)?;
    let mut out = Vec::new();
    let mut turn = Turn::new(host, &mut out);
    let (mut outputs, mut rows) = (Outputs::default(), Vec::new());
    loop {
        let done = search.step(&mut turn, &mut outputs)?;
        rows.push(outputs.lines.len());
        if done {
            return Ok((outputs, rows));
        }
    }
}

/// The keys that a search finds, in the order of their ranks, and its `num`; or the error.
fn find(host: &mut FakeHost, row: Row, query: &str) -> Result<Vec<String>, String> {
    let (outputs, _) = run(host, row, query).map_err(|failure| failure.text.into_owned())?;
    let text = |(start, end): (usize, usize)| outputs.bytes[start..end].escape_ascii().to_string();
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut number = None;
    for line in &outputs.lines {
        let value = text(line.value).parse().expect("a number");
        match text(line.name).strip_prefix('_') {
            Some(key) => found.push((value, key.to_owned())),
            None => {
                assert_eq!(text(line.name), "num");
                assert_eq!(number.replace(value), None, "num is there once");
            }
        }
    }
    assert_eq!(number, Some(found.len()));
    found.sort();
    assert!(found.iter().map(|(rank, _)| *rank).eq(0..found.len()), "ranks are 0, 1, ...");
    Ok(found.into_iter().map(|(_, key)| key).collect())
}

#[track_caller]
fn check(host: &mut FakeHost, row: Row, query: &str, expected: &[&str]) {
    assert_eq!(find(host, row, query).expect("a search that succeeds"), expected, "{query}");
}

/// Without an order, the order of matches is not compared.
#[track_caller]
fn check_set(host: &mut FakeHost, row: Row, query: &str, expected: &[&str]) {
    let mut found = find(host, row, query).expect("a search that succeeds");
    found.sort();
    assert_eq!(found, expected, "{query}");
}

#[test]
fn prefixes_are_found_in_the_order_of_the_database() {
    let keys: &[&[u8]] = &[b"b", b"ab", b"a", b"abc", b"ac", b"", b"a\xff"];
    let host = &mut host(LEXICAL, keys);
    check(host, Row::MatchPrefix, "prefix=a", &["a", "ab", "abc", "ac", r"a\xff"]);
    check(host, Row::MatchPrefix, "prefix=ab", &["ab", "abc"]);
    check(host, Row::MatchPrefix, "prefix=x", &[]);
    check(host, Row::MatchPrefix, "prefix=", &["", "a", "ab", "abc", "ac", r"a\xff", "b"]);
    check(host, Row::MatchPrefix, "prefix=a&max=2", &["a", "ab"]);
    let host = &mut self::host(DESCENDING, keys);
    check(host, Row::MatchPrefix, "prefix=ab", &["abc", "ab"]);
}

#[test]
fn prefixes_are_found_where_the_order_does_not_help() {
    let keys: &[&[u8]] = &[b"100", b"9", b"10", b"2", b"1"];
    check(&mut host(DECIMAL, keys), Row::MatchPrefix, "prefix=1", &["1", "10", "100"]);
    check_set(&mut host(None, keys), Row::MatchPrefix, "prefix=1", &["1", "10", "100"]);
}

#[test]
fn expressions_are_searched_in_all_keys() {
    let keys: &[&[u8]] = &[b"apple", b"banana", b"cherry", b"b\0x"];
    for order in [LEXICAL, None] {
        let host = &mut host(order, keys);
        check_set(host, Row::MatchRegex, "regex=an%2B", &["banana"]);
        check_set(host, Row::MatchRegex, "regex=^(a|b.*a$)", &["apple", "banana"]);
        check_set(host, Row::MatchRegex, "regex=x", &[]);
    }
}

#[test]
fn a_wrong_expression_is_reported() {
    let error = find(&mut host(None, &[b"a"]), Row::MatchRegex, "regex=(");
    assert_eq!(error, Err("DB: 8: logical inconsistency: compilation failed".into()));
}

#[test]
fn similar_keys_come_by_distance_then_by_key() {
    let keys: &[&[u8]] = &[b"teal", b"tea", b"team", b"sea", b"seam", b"x"];
    for order in [LEXICAL, DESCENDING, None] {
        let host = &mut host(order, keys);
        check(host, Row::MatchSimilar, "origin=tea", &["tea", "sea", "teal", "team"]);
        check(host, Row::MatchSimilar, "origin=tea&range=0", &["tea"]);
        check(host, Row::MatchSimilar, "origin=tea&range=-5", &["tea", "sea", "teal", "team"]);
        let all = ["tea", "sea", "teal", "team", "seam", "x"];
        check(host, Row::MatchSimilar, "origin=tea&range=9223372036854775807", &all);
    }
}

#[test]
fn the_most_similar_keys_are_kept() {
    let keys: &[&[u8]] = &[b"aaa", b"aab", b"abb", b"bbb", b"aac"];
    for order in [LEXICAL, DESCENDING, None] {
        let host = &mut host(order, keys);
        check(host, Row::MatchSimilar, "origin=bbb&range=3&max=2", &["bbb", "abb"]);
        check(host, Row::MatchSimilar, "origin=aaa&range=3&max=2", &["aaa", "aab"]);
    }
}

#[test]
fn similar_keys_are_compared_by_code_points_where_utf_is_given() {
    let host = &mut host(LEXICAL, &["für".as_bytes(), b"fur"]);
    check(host, Row::MatchSimilar, "origin=fur&utf=0", &["fur", r"f\xc3\xbcr"]);
    check(host, Row::MatchSimilar, "origin=fur", &["fur"]);
}

#[test]
fn searches_need_what_to_search_for() {
    let host = &mut host(None, &[]);
    for row in [Row::MatchPrefix, Row::MatchRegex, Row::MatchSimilar] {
        assert_eq!(find(host, row, "max=1"), Err("invalid parameters".into()), "{row:?}");
    }
    let origin = format!("origin={}", "x".repeat(2_000));
    assert_eq!(find(host, Row::MatchSimilar, &origin), Err("invalid parameters".into()));
}

#[test]
fn max_is_the_most_that_is_found_and_less_than_none_is_all() {
    for order in [LEXICAL, None] {
        let host = &mut host(order, &[b"a", b"b", b"c"]);
        for (row, query) in [
            (Row::MatchPrefix, "prefix="),
            (Row::MatchRegex, "regex=."),
            (Row::MatchSimilar, "origin=x&range=1"),
        ] {
            for (max, expected) in [("-1", 3), ("0", 0), ("1", 1), ("3", 3), ("9", 3), ("", 0)] {
                let found = find(host, row, &format!("{query}&max={max}"));
                assert_eq!(found.map(|found| found.len()), Ok(expected), "{row:?} {max}");
            }
        }
    }
}

#[test]
fn an_empty_database_has_no_matches() {
    for order in [LEXICAL, None] {
        for (row, query) in [
            (Row::MatchPrefix, "prefix="),
            (Row::MatchRegex, "regex="),
            (Row::MatchSimilar, "origin="),
        ] {
            check(&mut host(order, &[]), row, query, &[]);
        }
    }
}

#[test]
fn expired_records_do_not_match() {
    for order in [LEXICAL, None] {
        let host = &mut host(order, &[b"a1", b"a3"]);
        put(host, b"a2", Expires::At(START_MS + 1_000));
        check_set(host, Row::MatchPrefix, "prefix=a", &["a1", "a2", "a3"]);
        host.now_ms += 1_000;
        check_set(host, Row::MatchPrefix, "prefix=a", &["a1", "a3"]);
        check_set(host, Row::MatchRegex, "regex=a", &["a1", "a3"]);
        check_set(host, Row::MatchSimilar, "origin=a", &["a1", "a3"]);
    }
}

#[test]
fn more_matches_than_a_reply_may_hold_are_an_error() {
    for order in [LEXICAL, None] {
        let host = &mut host(order, &[&[b'a'; 60], &[b'b'; 60]]);
        host.limits.output_bytes_max = 100;
        for (row, query) in [
            (Row::MatchPrefix, "prefix="),
            (Row::MatchRegex, "regex="),
            (Row::MatchSimilar, "origin=&range=100"),
        ] {
            let too_long = "DB: 9: system error: the reply is too long";
            assert_eq!(find(host, row, query), Err(too_long.into()), "{row:?}");
        }
    }
}

fn many_keys(order: Option<KeyOrder>, count: usize) -> FakeHost {
    let mut host = host(order, &[]);
    for number in 0..count {
        put(&mut host, format!("key{number:06}").as_bytes(), Expires::Never);
    }
    host
}

#[test]
fn a_search_through_many_keys_takes_many_steps() {
    for order in [LEXICAL, None] {
        let host = &mut many_keys(order, 200_000);
        for (row, query) in [
            (Row::MatchPrefix, "prefix=key"),
            (Row::MatchRegex, "regex=[0-9]{6}$"),
            (Row::MatchSimilar, "origin=key100000&range=9"),
        ] {
            let (outputs, rows) = run(host, row, query).expect("a search that succeeds");
            assert_eq!(outputs.lines.len(), 200_001, "{row:?}");
            let gains = rows.windows(2).map(|pair| pair[1] - pair[0]).chain([rows[0]]);
            assert!(gains.max() <= Some(SLICE_KEYS + 1), "{row:?} handles too much in a step");
        }
    }
}

#[test]
fn the_work_of_a_step_is_bounded_too() {
    let host = &mut host(None, &[]);
    for number in 0..200 {
        put(host, format!("{number:03}{}", "x".repeat(5_000)).as_bytes(), Expires::Never);
    }
    for (row, query) in [
        (Row::MatchRegex, "regex=(x[^y]{5})%2B$".to_owned()),
        (Row::MatchSimilar, format!("origin={}&range=9999", "x".repeat(800))),
    ] {
        let mut search = begin(host, row, &query).expect("a search");
        let most = SLICE_WORK / search.sieve.wanted.work(&[b'x'; 5_003]) + 1;
        let (_, rows) = run(host, row, &query).expect("a search that succeeds");
        assert!(rows.len() >= 200 / most, "{row:?} takes {} steps", rows.len());
        let mut out = Vec::new();
        let mut turn = Turn::new(host, &mut out);
        let done = search.step(&mut turn, &mut Outputs::default());
        assert_eq!(done, Ok(false));
        assert!(search.unseen.len() >= COSTLY_KEYS.min(200) - most, "the rest waits");
    }
}

#[test]
fn a_key_too_long_for_an_expression_is_an_error() {
    let long = vec![b'x'; 60_000];
    let host = &mut host(None, &[&long]);
    let error = find(host, Row::MatchRegex, "regex=y{100}");
    assert_eq!(error, Err(TOO_MUCH_WORK.text.into_owned()));
    check(host, Row::MatchRegex, "regex=y$", &[]);
}

#[test]
fn keys_that_are_there_all_the_time_are_found_once_while_others_come_and_go() {
    for order in [LEXICAL, None] {
        let host = &mut many_keys(order, 10_000);
        let mut search = begin(host, Row::MatchPrefix, "prefix=key").expect("a search");
        let mut outputs = Outputs::default();
        for number in 0.. {
            let key = format!("other{number}");
            put(host, key.as_bytes(), Expires::Never);
            let mut out = Vec::new();
            let mut turn = Turn::new(host, &mut out);
            let gone = format!("other{}", number - number % 2);
            let keys: &[&[u8]] = &[gone.as_bytes()];
            see(&mut turn, 0, &Command::Key(KeyCommand::Delete { keys }), &mut |_| {})
                .expect("a removal");
            if search.step(&mut turn, &mut outputs).expect("a step") {
                break;
            }
        }
        let text = |(start, end): (usize, usize)| &outputs.bytes[start..end];
        let mut found: Vec<&[u8]> = outputs.lines.iter().map(|line| text(line.name)).collect();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 10_001);
        assert_eq!(search.sieve.matches, 10_000);
    }
}
