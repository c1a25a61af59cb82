//! Requests that are malformed.

use super::{Conversation, OPCODES, Received, Sent, get, request, responses, set};
use crate::binary::opcode::Has;

#[test]
fn another_magic_byte_closes_the_connection() {
    let mut client = Conversation::new();
    let input = [set("a", "1").bytes(), b"get a\r\n".to_vec()].concat();
    let outcome = client.send(&input);
    assert_eq!((responses(&outcome.output).len(), outcome.closed), (1, true));
}

#[test]
fn a_connection_that_began_with_text_stays_with_text() {
    let mut client = Conversation::new();
    assert_eq!(client.send(b"mn\r\n").output, b"MN\r\n");
    let outcome = client.send(b"\x80\x0b\r\n");
    assert_eq!((outcome.output.as_slice(), outcome.closed), (&b"ERROR\r\n"[..], false));
}

#[test]
fn a_body_that_is_too_short_for_key_and_extras_closes_the_connection() {
    let mut bytes = set("a", "1").bytes();
    bytes[11] = 8;
    let outcome = Conversation::new().send(&bytes);
    let texts: Vec<String> = responses(&outcome.output).iter().map(Received::text).collect();
    assert_eq!((texts, outcome.closed), (vec!["0x81 Unknown command".to_owned()], true));
}

#[test]
fn lengths_that_an_opcode_does_not_have_close_the_connection() {
    for opcode in OPCODES {
        let valid = Sent {
            code: opcode.code,
            extras: vec![0; usize::from(opcode.extras[0])],
            key: if opcode.key == Has::Always { b"a".to_vec() } else { Vec::new() },
            value: Vec::new(),
            opaque: 0,
            cas: 0,
        };
        let mut broken = vec![
            Sent { extras: [valid.extras.as_slice(), b"x"].concat(), ..valid.clone() },
            Sent { key: vec![b'k'; 251], ..valid.clone() },
        ];
        match opcode.key {
            Has::Always => broken.push(Sent { key: Vec::new(), ..valid.clone() }),
            Has::Never => broken.push(Sent { key: b"a".to_vec(), ..valid.clone() }),
            Has::Sometimes => {}
        }
        if opcode.value == Has::Never {
            broken.push(Sent { value: b"v".to_vec(), ..valid.clone() });
        }
        for sent in broken {
            let answers = Conversation::new().texts(&[sent]);
            assert_eq!(answers, ["0x04 Invalid arguments", "closed"], "{}", opcode.name);
        }
    }
}

#[test]
fn an_unknown_opcode_is_answered_and_its_body_is_skipped() {
    for code in (0..=u8::MAX).filter(|code| OPCODES.iter().all(|known| known.code != *code)) {
        let unknown = Sent { code, ..set("a", "12345") };
        let answers = Conversation::new().texts(&[unknown, request("noop")]);
        assert_eq!(answers, ["0x81 Unknown command", "0x00 "], "{code:#x}");
    }
}

#[test]
fn a_request_waits_for_its_last_byte() {
    let bytes = set("a", "hello").bytes();
    for length in 0..bytes.len() {
        let mut client = Conversation::new();
        assert!(client.send(&bytes[..length]).output.is_empty(), "{length}");
        assert_eq!(client.send(&bytes[length..]).output.len(), 24, "{length}");
        assert_eq!(client.ask(&get("a")).text(), "0x00 hello");
    }
}

#[test]
fn the_longest_body_is_skipped_as_it_arrives() {
    let mut client = Conversation::new();
    let mut head = set("a", "").bytes();
    head[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    let outcome = client.send(&head);
    assert_eq!(responses(&outcome.output)[0].text(), "0x03 Too large.");
    for _ in 0..100 {
        let outcome = client.send(&[0x80; 10_000]);
        assert_eq!((outcome.output.len(), outcome.left, outcome.closed), (0, 0, false));
    }
}
