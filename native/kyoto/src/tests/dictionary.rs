//! Words of the protocol for a fuzzer.

use crate::table::{COMMANDS, Row};
use todana_protocol::testing::is_written;

const MORE: &[&str] = &[
    "GET ",
    "HEAD ",
    "PUT ",
    "POST ",
    "DELETE ",
    "OPTIONS ",
    "/1/",
    "?",
    "&",
    "=",
    "%00",
    " HTTP/1.1\\x0d\\x0a",
    " HTTP/1.0\\x0d\\x0a",
    "\\x0d\\x0a\\x0d\\x0a",
    "Host: localhost\\x0d\\x0a",
    "Origin: https://example.org\\x0d\\x0a",
    "Access-Control-Request-Method: PUT\\x0d\\x0a",
    "Sec-Fetch-Site: cross-site\\x0d\\x0a",
    "Authorization: Basic OnNlY3JldA==\\x0d\\x0a",
    "Connection: close\\x0d\\x0a",
    "Connection: keep-alive\\x0d\\x0a",
    "Content-Length: 3\\x0d\\x0a",
    "Transfer-Encoding: chunked\\x0d\\x0a",
    "Expect: 100-continue\\x0d\\x0a",
    "Content-Type: application/x-www-form-urlencoded\\x0d\\x0a",
    "Content-Type: text/tab-separated-values\\x0d\\x0a",
    "; colenc=B",
    "; colenc=Q",
    "; colenc=U",
    "X-Kt-Mode: add\\x0d\\x0a",
    "X-Kt-Xt: 1700000005\\x0d\\x0a",
    "3\\x0d\\x0aabc\\x0d\\x0a",
    "0\\x0d\\x0a\\x0d\\x0a",
    "DB=1",
    "CUR=1",
    "WAIT=x",
    "WAITTIME=1",
    "SIGNAL=x",
    "SIGNALBROAD",
    "key=a",
    "value=1",
    "_a=1",
    "xt=60",
    "num=1",
    "orig=try",
    "oval=1",
    "nval=2",
    "prefix=a",
    "regex=a",
    "origin=a",
    "max=1",
    "step",
    "atomic",
    "\\xb8\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01",
    "\\xb9\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01",
    "\\xba\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01",
    "\\xb4\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00x",
    "\\x00\\x00\\x00\\x00\\x00\\x01a",
    "\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05ax",
];

#[test]
fn the_fuzzers_dictionary_is_written() {
    let mut lines = String::from("# Written from the table of procedures.\n");
    for name in COMMANDS.iter().filter(|name| Row::procedure(name.as_bytes()).is_some()) {
        lines.push_str(&format!("\"/rpc/{name}\"\n"));
    }
    for word in MORE {
        lines.push_str(&format!("\"{word}\"\n"));
    }
    is_written("native/fuzz/dictionaries/kyoto.dict", &lines);
}
