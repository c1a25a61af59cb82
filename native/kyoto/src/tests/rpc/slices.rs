//! Requests that take several turns have the same result as small ones.

use super::{Answer, ask, call, conversation, host, post};
use crate::KyotoSession;
use std::collections::BTreeMap;
use todana_protocol::{Advance, Budget, Next};

const TABS: &str = "text/tab-separated-values";

/// Keys in no particular order, of different lengths.
fn key(number: usize) -> String {
    let scattered = number.wrapping_mul(7919) % 20_011;
    format!("{scattered:x}-{}", "k".repeat(scattered % 7))
}

fn records(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|number| (key(number), format!("value {number}"))).collect()
}

fn body(records: &BTreeMap<String, String>, with_values: bool) -> String {
    let mut body = String::new();
    // In reverse order.
    for (key, value) in records.iter().rev() {
        let value = if with_values { value } else { "" };
        body += &format!("_{key}\t{value}\n");
    }
    body
}

fn found(answer: &Answer) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let rows = answer.rows().into_iter();
    let rows = rows.map(|(name, value)| (text(&name), text(&value)));
    rows.filter_map(|(name, value)| Some((name.strip_prefix('_')?.to_owned(), value))).collect()
}

#[test]
fn many_records_are_stored_found_and_removed() {
    for atomic in ["", "?atomic"] {
        let mut conversation = conversation();
        let records = records(20_000);
        let request = post(&format!("/rpc/set_bulk{atomic}"), TABS, body(&records, true));
        assert_eq!(ask(&mut conversation, request).text(), "200 num=20000");
        let keys = body(&records, false) + "_missing\t\n";
        let request = post(&format!("/rpc/get_bulk{atomic}"), TABS, &keys);
        let answer = ask(&mut conversation, request);
        assert!(found(&answer) == records, "what was found is what was stored");
        assert!(answer.body.ends_with(b"num\t20000\n"));
        assert!(answer.rows().is_sorted(), "rows are in the order of their names");
        let request = post(&format!("/rpc/remove_bulk{atomic}"), TABS, &keys);
        assert_eq!(ask(&mut conversation, request).text(), "200 num=20000");
    }
}

#[test]
fn an_atomic_bulk_has_a_limit_and_does_nothing_beyond_it() {
    const TOO_MANY: &str = "500 ERROR=DB: 9: system error: too many records for one step; send \
                            fewer, or without atomic";
    let body =
        |count: usize| -> String { (0..count).map(|number| format!("_{number:05}\t\n")).collect() };
    let mut conversation = conversation();
    let mut bulk = |name: &str, body: String| {
        let answer = ask(&mut conversation, post(&format!("/rpc/{name}"), TABS, body));
        if answer.rows().len() > 1 { answer.rows().len().to_string() } else { answer.text() }
    };
    assert_eq!(bulk("set_bulk?atomic", body(32_769)), TOO_MANY);
    assert_eq!(bulk("get_bulk", body(32_769)), "200 num=0");
    assert_eq!(bulk("set_bulk?atomic", body(32_768)), "200 num=32768");
    assert_eq!(bulk("get_bulk?atomic", body(32_769)), TOO_MANY);
    assert_eq!(bulk("get_bulk?atomic", body(32_768)), "32769");
    assert_eq!(bulk("remove_bulk?atomic", body(32_769)), TOO_MANY);
    assert_eq!(bulk("remove_bulk", body(32_769)), "200 num=32768");
}

#[test]
fn an_atomic_bulk_stores_no_more_than_so_many_bytes() {
    let mut conversation = conversation();
    let half = "x".repeat(8 << 20);
    let body = |more: &str| format!("_a\t{half}\n_b\t{half}{more}\n");
    let answer = ask(&mut conversation, post("/rpc/set_bulk?atomic", TABS, body("y")));
    assert!(answer.text().starts_with("500 ERROR=DB: 9: system error: too many"));
    assert_eq!(call(&mut conversation, "check", "key=a"), "450 ERROR=DB: 7: no record: no record");
    let answer = ask(&mut conversation, post("/rpc/set_bulk?atomic", TABS, body("")));
    assert_eq!(answer.text(), "200 num=2");
}

#[test]
fn of_many_records_with_few_names_the_last_counts() {
    let mut conversation = conversation();
    let body: String = (0..30_000).map(|at| format!("_{}\t{at}\n", at % 10)).collect();
    let request = post("/rpc/set_bulk", TABS, body);
    assert_eq!(ask(&mut conversation, request).text(), "200 num=10");
    assert_eq!(call(&mut conversation, "get", "key=3"), "200 value=29993");
}

#[test]
fn a_large_value_is_decoded_and_encoded_piece_by_piece() {
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let value: Vec<u8> = (0..1_000_001).map(|_| random()).collect();
    for (letter, encoding) in
        [("B", crate::columns::Encoding::Base64), ("U", crate::columns::Encoding::Url)]
    {
        let mut conversation = conversation();
        let mut body = Vec::new();
        for (column, end) in [(&b"key"[..], b'\t'), (b"big", b'\n'), (b"value", b'\t')] {
            encoding.encode_piece(column, &mut body);
            body.push(end);
        }
        encoding.encode_piece(&value, &mut body);
        let content_type = format!("{TABS}; colenc={letter}");
        let request = post("/rpc/set", &content_type, body);
        assert_eq!(ask(&mut conversation, request).text(), "200");
        let answer = ask(&mut conversation, post("/rpc/get", TABS, "key\tbig\n"));
        assert_eq!(answer.content_type, format!("{TABS}; colenc=B"));
        assert!(answer.rows() == [(b"value".to_vec(), value.clone())]);
    }
}

#[test]
fn a_large_body_of_form_data_is_read() {
    let mut conversation = conversation();
    let records = records(15_000);
    let form: Vec<String> = records.iter().map(|(key, value)| format!("_{key}={value}")).collect();
    let form = form.join("&").replace(' ', "+");
    assert!(form.len() > 300_000);
    assert_eq!(call(&mut conversation, "set_bulk", &form), "200 num=15000");
    let request = post("/rpc/get_bulk", TABS, body(&records, false));
    assert!(found(&ask(&mut conversation, request)) == records);
}

#[test]
fn other_connections_have_their_turns_meanwhile() {
    let (mut session, mut host) = (KyotoSession::default(), host());
    let input = post("/rpc/set_bulk", TABS, body(&records(20_000), true));
    let budget = Budget { requests_max: 1, output_bytes_max: 1 << 16 };
    let (mut output, mut left) = (Vec::new(), &input[..]);
    let mut turns = 0;
    loop {
        let progress = session.advance(left, &mut output, &mut host, budget);
        left = &left[progress.consumed..];
        if matches!(progress.next, Next::Read { .. }) {
            break;
        }
        turns += 1;
    }
    assert!(turns >= 20, "{turns} turns for 20,000 records");
    assert!(output.ends_with(b"\r\n\r\nnum\t20000\n"));
}

#[test]
fn long_names_are_put_in_order() {
    let mut conversation = conversation();
    let body: String =
        (0..40).rev().map(|at| format!("_{}{at:02}\tx\n", "k".repeat(20_000))).collect();
    let request = post("/rpc/set_bulk", TABS, &body);
    assert_eq!(ask(&mut conversation, request).text(), "200 num=40");
    let answer = ask(&mut conversation, post("/rpc/get_bulk", TABS, &body));
    assert_eq!(answer.rows().len(), 41);
    assert!(answer.rows().is_sorted());
}

#[test]
fn many_inputs_are_echoed_in_slices() {
    let (mut session, mut host) = (KyotoSession::default(), host());
    let rows: String = (0..20_000).map(|at| format!("{at:05}\t{}\n", "v".repeat(50))).collect();
    let input = post("/rpc/echo", TABS, &rows);
    let budget = Budget { requests_max: 1, output_bytes_max: 1 << 24 };
    let (mut output, mut left, mut turns) = (Vec::new(), &input[..], 0);
    loop {
        let progress = session.advance(left, &mut output, &mut host, budget);
        left = &left[progress.consumed..];
        if matches!(progress.next, Next::Read { .. }) {
            break;
        }
        turns += 1;
    }
    assert!(output.ends_with(rows.as_bytes()), "what was sent comes back");
    // It would be four fewer if the procedure ran in one turn.
    assert!(turns >= 16, "{turns} turns for 20,000 rows");
}

#[test]
fn a_request_has_up_to_a_million_inputs() {
    for (count, expected) in [(1 << 20, "200"), ((1 << 20) + 1, "400 ERROR=too many inputs")] {
        let request = post("/rpc/void", TABS, "\t\n".repeat(count));
        assert_eq!(ask(&mut conversation(), request).text(), expected, "{count}");
    }
    // The query counts as well.
    let request = post("/rpc/void?a", TABS, "\t\n".repeat(1 << 20));
    assert_eq!(ask(&mut conversation(), request).text(), "400 ERROR=too many inputs");
}
