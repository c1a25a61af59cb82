//! Section 2.1 and 2.2 of the specification: how inputs and outputs are encoded, byte for byte.

use super::{ask, call, conversation, post};
use proptest::prelude::*;

const FORM: &str = "application/x-www-form-urlencoded";
const TABS: &str = "text/tab-separated-values";

/// The reply of `echo` to a query and a body.
fn echo(query: &str, content_type: &str, body: impl AsRef<[u8]>) -> String {
    ask(&mut conversation(), post(&format!("/rpc/echo{query}"), content_type, body)).text()
}

#[test]
fn later_inputs_replace_earlier_ones() {
    assert_eq!(echo("?a=1&b=1", TABS, "b\t2\nb\t3\nc\t4\n"), "200 a=1 b=3 c=4");
    assert_eq!(echo("?a=1;b=1&&c", FORM, "b=2&a=3"), "200 a=3 b=2 c=");
}

#[test]
fn lines_of_tabs_are_read_leniently() {
    for (body, rows) in [
        ("a\t1", "200 a=1"),
        ("a\t1\r\nb\t2\r\n", "200 a=1 b=2"),
        ("a\t1\t2\n", "200 a=1\\t2"),
        ("no tab\na\t1\n\n\n", "200 a=1"),
        ("a\t\n\tb\n", "200 =b a="),
        ("a\r\t1\r\r\n", "200 a\\r=1\\r"),
        ("", "200"),
    ] {
        assert_eq!(echo("", TABS, body), rows, "{}", body.escape_debug());
    }
}

#[test]
fn the_beginning_of_the_content_type_counts() {
    for (content_type, rows) in [
        ("text/tab-separated-values; charset=utf-8", "200 Yg===YQ=="),
        ("TEXT/Tab-Separated-Values;ColEnc=b", "200 b=a"),
        ("text/tab-separated-values; colenc=\"U\"", "200 Yg===YQ=="),
        ("text/plain", "200"),
        ("", "200"),
    ] {
        assert_eq!(echo("", content_type, "Yg==\tYQ=="), rows, "{content_type}");
    }
}

#[test]
fn a_form_ends_at_its_first_nul() {
    assert_eq!(echo("", FORM, "a=1&b=2\0&c=3"), "200 a=1 b=2");
    assert_eq!(echo("", FORM, "\0a=1"), "200");
}

#[test]
fn bytes_that_do_not_belong_into_a_url_are_dropped() {
    assert_eq!(echo("", FORM, "a=x y\tz\u{e9}&b=%20+"), "200 a=xyz b=  ");
}

#[test]
fn a_query_is_decoded_twice_where_the_body_is_encoded() {
    let content_type = "text/tab-separated-values; colenc=U";
    assert_eq!(echo("?a%2562=%2541", content_type, "c\t%2541"), "200 ab=A c=%41");
    let content_type = "text/tab-separated-values; colenc=B";
    assert_eq!(echo("?YQ%3D%3D=Yg==", content_type, "Yw==\tZA=="), "200 a=b c=d");
}

#[test]
fn quoted_printable_is_understood() {
    let content_type = "text/tab-separated-values; colenc=Q";
    assert_eq!(echo("", content_type, "a=3D\t=E3=81b\n"), "200 a==\\xe3\\x81b");
}

/// Content type and body of the reply of `echo` to one input.
fn sent(name: &str, value: &[u8]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    let encoding = crate::columns::Encoding::Url;
    encoding.encode_piece(name.as_bytes(), &mut body);
    body.push(b'\t');
    encoding.encode_piece(value, &mut body);
    let content_type = "text/tab-separated-values; colenc=U";
    let answer = ask(&mut conversation(), post("/rpc/echo", content_type, body));
    (answer.content_type, answer.body)
}

#[test]
fn columns_are_encoded_only_where_one_needs_it() {
    for (value, suffix) in [
        (&b"plain"[..], ""),
        (b"high \xc3\xa9\xff", ""),
        (b"", ""),
        (&[b'x'; 255], ""),
        (&[b'x'; 256], "; colenc=U"),
        (b"a\tb, which is long enough for escapes", "; colenc=U"),
        (b"a\x7fb, which is long enough for escapes", "; colenc=U"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x64", "; colenc=B"),
    ] {
        let (content_type, _) = sent("name", value);
        assert_eq!(content_type, format!("{TABS}{suffix}"), "{}", value.escape_ascii());
    }
}

#[test]
fn control_characters_far_behind_in_a_long_column_count_by_its_length() {
    let mut value = vec![b'x'; 300];
    value[299] = 0;
    let (content_type, body) = sent("n", &value);
    assert_eq!(content_type, "text/tab-separated-values; colenc=U");
    assert_eq!(body, [&b"n\t"[..], &[b'x'; 299], b"%00\n"].concat());
}

#[test]
fn the_encoding_that_is_guessed_to_be_shorter_is_chosen() {
    // Name: 9 and 4; value: of 2 bytes 6, of 3 bytes 7.
    assert_eq!(sent("name", b"\n").1, b"name\t%0a\n");
    // 9 + 6 against 4 + 6; 9 + 9 against 4 + 12; 9 + 10 against 4 + 15; 9 + 12 against 4 + 18.
    assert_eq!(sent("name", b"\n\n").1, b"name\t%0a%0a\n");
    assert_eq!(sent("name", b"\n\n\n\n\n").1, b"name\t%0a%0a%0a%0a%0a\n");
    assert_eq!(sent("name", b"\n\n\n\n\n\n").1, b"bmFtZQ==\tCgoKCgoK\n");
}

#[test]
fn rows_are_in_the_order_of_their_encoded_names() {
    // `%` comes before `-` and `a`. In Base64 `-` is `LQ==`, `a` is `YQ==` and `~` is `fg==`.
    let mut conversation = conversation();
    let body = "a\tline%0a\n%2f\t1\n-\t2\n";
    let request = post("/rpc/echo", "text/tab-separated-values; colenc=U", body);
    assert_eq!(ask(&mut conversation, request).body, b"%2f\t1\n-\t2\na\tline%0a\n");
    let nuls = "%00".repeat(20);
    let body = format!("a\t{nuls}\n-\t{nuls}\n%ff\t{nuls}\n~\t{nuls}\n");
    let request = post("/rpc/echo", "text/tab-separated-values; colenc=U", body);
    let answer = ask(&mut conversation, request);
    let names: Vec<&[u8]> = answer
        .body
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b'\t').next())
        .collect();
    assert_eq!(names, [&b"/w=="[..], b"LQ==", b"YQ==", b"fg==", b""]);
}

#[test]
fn names_of_procedures_are_decoded() {
    let mut conversation = conversation();
    assert_eq!(call(&mut conversation, "%73et", "key=a&value=1"), "200");
    assert_eq!(call(&mut conversation, "ge%74", "key=a"), "200 value=1");
    let unknown = call(&mut conversation, "no%20such", "key=a");
    assert_eq!(unknown, "501 ERROR=not implemented: no such");
    assert_eq!(call(&mut conversation, "", ""), "501 ERROR=not implemented: ");
    assert_eq!(call(&mut conversation, "SET", ""), "501 ERROR=not implemented: SET");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn echo_returns_what_it_was_sent(
        rows in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 0..12),
            prop::collection::vec(any::<u8>(), 0..300),
            0..12,
        ),
        letter in prop::sample::select(&b"BU"[..]),
    ) {
        let encoding = crate::columns::Encoding::of_letter(letter).unwrap();
        let mut body = Vec::new();
        for (name, value) in &rows {
            encoding.encode_piece(name, &mut body);
            body.push(b'\t');
            encoding.encode_piece(value, &mut body);
            body.push(b'\n');
        }
        let content_type = format!("{TABS}; colenc={}", char::from(letter));
        let request = post("/rpc/echo", &content_type, body);
        let mut answered = ask(&mut conversation(), request).rows();
        answered.sort();
        prop_assert_eq!(answered, rows.into_iter().collect::<Vec<_>>());
    }
}
