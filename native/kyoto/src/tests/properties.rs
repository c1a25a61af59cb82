use super::Conversation;
use crate::KyotoSession;
use crate::testing::KyotoPart;
use proptest::prelude::*;
use todana_protocol::ProtocolName;
use todana_protocol::testing::survive;

/// Pieces that requests are made of, so that random input gets beyond the first check.
const PIECES: &[&[u8]] = &[
    b"GET ",
    b"HEAD ",
    b"PUT ",
    b"POST ",
    b"DELETE ",
    b"GET /a HTTP/1.1\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /rpc/set HTTP/1.1\r\nContent-Type: text/tab-separated-values\r\n\
      Content-Length: 16\r\n\r\n",
    b"POST /rpc/get_bulk HTTP/1.1\r\nContent-Type: text/tab-separated-values; colenc=B\r\n",
    b"GET /rpc/set?key=a&value=1 HTTP/1.1\r\n\r\n",
    b"GET /rpc/cur_jump?CUR=1 HTTP/1.1\r\n\r\n",
    b"GET /rpc/cur_get?CUR=1&step HTTP/1.1\r\n\r\n",
    b"GET /rpc/match_prefix?prefix= HTTP/1.1\r\n\r\n",
    b"GET /rpc/match_regex?regex=a HTTP/1.1\r\n\r\n",
    b"GET /rpc/void?WAIT=x HTTP/1.1\r\n\r\n",
    b"GET /rpc/vacuum?SIGNAL=x HTTP/1.0\r\n\r\n",
    b"key\ta\nvalue\tb\n\n",
    b"/a",
    b"/0/b",
    b"/%",
    b"/rpc/",
    b"?key=a",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"X-Kt-Mode: add\r\n",
    b"X-Kt-Xt: 1700000001\r\n",
    b"Host: localhost:1978\r\n",
    b"Origin: https://example.org\r\n",
    b"OPTIONS /a HTTP/1.1\r\nAccess-Control-Request-Method: PUT\r\n",
    b"Authorization: Basic OnNlY3JldA==\r\n",
    b"Content-Type: application/x-www-form-urlencoded\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"\xb8\0\0\0\0\0\0\0\x01",
    b"\xb8\0\0\0\x01\0\0\0\x02",
    b"\xb9\0\0\0\0\0\0\0\x01",
    b"\xba\0\0\0\0\0\0\0\x02",
    b"\xb4\0\0\0\0\0\0\0\x01\0\0\0\x01x",
    b"\xb1",
    b"\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x05ax",
    b"\0\0\0\0\0\x01a",
    b"\0\0\0\x01\0\0\0\x01ab",
];

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_survived(input in prop::collection::vec(any::<u8>(), 0..2000)) {
        survive::<KyotoPart, KyotoSession>(ProtocolName::Kyoto, &input);
    }

    #[test]
    fn any_requests_are_answered_alike_however_cut(
        circumstances in any::<[u8; 2]>(),
        input in requests(),
    ) {
        let data = [&circumstances[..], &input].concat();
        survive::<KyotoPart, KyotoSession>(ProtocolName::Kyoto, &data);
    }

    /// Unconsumed input is an incomplete head, body or record, within the limits.
    #[test]
    fn unconsumed_input_is_bounded(input in requests(), repeat in 1..100_usize) {
        let mut conversation = Conversation::new();
        let limits = &mut conversation.host.limits;
        (limits.key_bytes_max, limits.value_bytes_max, limits.line_bytes_max) = (30, 100, 300);
        conversation.host.part.kyoto.body_bytes_max = 200;
        let outcome = conversation.send(input.repeat(repeat));
        prop_assert!(outcome.closed || outcome.left <= 300 + 200, "{}", outcome.left);
    }
}
