use super::Conversation;
use crate::MemcachedSession;
use todana_protocol::{Advance, Budget, Next};

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";

#[test]
fn keys_have_up_to_250_bytes() {
    for (length, fits) in [(1, true), (249, true), (250, true), (251, false), (60_000, false)] {
        let mut conversation = Conversation::new();
        let key = "k".repeat(length);
        let checks = [
            (format!("set {key} 0 0 1\r\n"), "x\r\n", "STORED\r\n"),
            (format!("get {key}\r\n"), "", ""),
            (format!("gat 0 {key}\r\n"), "", ""),
            (format!("touch {key} 0\r\n"), "", "TOUCHED\r\n"),
            (format!("mg {key}\r\n"), "", "HD\r\n"),
            (format!("ms {key} 1\r\n"), "1\r\n", "HD\r\n"),
            (format!("ma {key}\r\n"), "", "HD\r\n"),
            (format!("incr {key} 1\r\n"), "", "3\r\n"),
            (format!("md {key}\r\n"), "", "HD\r\n"),
            (format!("delete {key}\r\n"), "", "NOT_FOUND\r\n"),
        ];
        for (line, body, answer) in checks {
            if !fits {
                assert_eq!(conversation.ask(line), BAD_FORMAT);
            } else if answer.is_empty() {
                let value = format!("VALUE {key} 0 1\r\nx\r\nEND\r\n");
                assert_eq!(conversation.ask(line), value);
            } else {
                assert_eq!(conversation.ask(line + body), answer);
            }
        }
    }
}

#[test]
fn a_lower_limit_on_keys_counts_as_well() {
    let mut conversation = Conversation::new();
    conversation.host.limits.key_bytes_max = 3;
    assert_eq!(conversation.ask("get abc\r\n"), "END\r\n");
    assert_eq!(conversation.ask("get abcd\r\n"), BAD_FORMAT);
}

#[test]
fn keys_have_no_control_characters() {
    for byte in [0, 1, 9, 11, 13, 31, 127] {
        let line = [b"get a", [byte].as_slice(), b"b\r\n"].concat();
        assert_eq!(Conversation::new().ask(line), BAD_FORMAT, "{byte}");
    }
    assert_eq!(Conversation::new().ask("get \u{e4}\u{20ac}\r\n"), "END\r\n");
}

#[test]
fn values_have_up_to_the_limit() {
    let max = Conversation::new().host.limits.memcached_value_bytes_max;
    for (length, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        let value = "v".repeat(length);
        let mut conversation = Conversation::new();
        let stored = conversation.ask(format!("set a 0 0 {length}\r\n{value}\r\nmn\r\n"));
        let get = conversation.ask("mg a s\r\n");
        let stored_meta = conversation.ask(format!("ms b {length}\r\n{value}\r\nmn\r\n"));
        if fits {
            assert_eq!(
                (stored.as_str(), stored_meta.as_str()),
                ("STORED\r\nMN\r\n", "HD\r\nMN\r\n")
            );
            assert_eq!(get, format!("HD s{length}\r\n"));
        } else {
            assert_eq!(stored, format!("{TOO_LARGE}MN\r\n"));
            assert_eq!(stored_meta, format!("{TOO_LARGE}MN\r\n"));
            assert_eq!(get, "EN\r\n");
        }
    }
}

#[test]
fn values_do_not_grow_beyond_the_limit() {
    let mut conversation = Conversation::new();
    conversation.host.limits.memcached_value_bytes_max = 10;
    conversation.ask("set a 0 0 8\r\n12345678\r\n");
    assert_eq!(conversation.ask("append a 0 0 3\r\nabc\r\n"), "NOT_STORED\r\n");
    assert_eq!(conversation.ask("append a 0 0 2\r\nab\r\n"), "STORED\r\n");
    assert_eq!(conversation.ask("prepend a 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    assert_eq!(conversation.ask("ms a 1 MA k\r\nx\r\n"), "NS ka\r\n");
    assert_eq!(conversation.ask("get a\r\n"), "VALUE a 0 10\r\n12345678ab\r\nEND\r\n");
}

#[test]
fn lines_have_up_to_the_limit() {
    let mut conversation = Conversation::new();
    let max = conversation.host.limits.line_bytes_max;
    // The limit applies to the line including its CR.
    let line = |length: usize| format!("get {}\r\n", " ".repeat(length - 5));
    assert_eq!(conversation.ask(line(max - 1)), "ERROR\r\n");
    assert_eq!(conversation.ask(line(max)), "ERROR\r\n");
    assert_eq!(conversation.ask(line(max + 1)), "CLIENT_ERROR line too long\r\nclosed");
    let mut conversation = Conversation::new();
    assert_eq!(conversation.ask("x".repeat(max)), "");
    assert_eq!(conversation.ask("x"), "CLIENT_ERROR line too long\r\nclosed");
}

/// Keys of the greatest length, as they stand in a line.
fn many_keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0>250}")).collect()
}

#[test]
fn a_line_of_keys_may_be_longer_than_other_lines() {
    let keys = many_keys(1_000);
    for (name, token) in [("get", ""), ("gets", " ")] {
        let line = format!(" {name} {}  \r\nmn\r\n", keys.join("  "));
        for piece_bytes in [1_000, 65_536, 100_003, line.len()] {
            let mut conversation = Conversation::new();
            let max = conversation.host.limits.line_bytes_max;
            assert!(line.len() > 3 * max);
            for key in &keys[500..] {
                conversation.ask(format!("set {key} 0 0 1\r\nx\r\n"));
            }
            let mut answer = String::new();
            for piece in line.as_bytes().chunks(piece_bytes) {
                answer += &conversation.ask(piece);
                assert!(conversation.waiting.len() <= max, "more than a line waits");
            }
            let found = answer.matches(&format!(" 0 1{token}")).count();
            assert_eq!(found, 500, "{name} {piece_bytes}");
            assert!(answer.starts_with(&format!("VALUE {} 0 1{token}", keys[500])), "{name}");
            assert!(answer.ends_with("x\r\nEND\r\nMN\r\n"), "{name} {piece_bytes}");
        }
    }
}

#[test]
fn a_long_line_of_keys_is_passed_over_from_a_word_that_is_none() {
    let keys = many_keys(1_000).join(" ");
    let long = "x".repeat(100_000);
    for bad in ["a\tb", &long[..251], &long] {
        let mut conversation = Conversation::new();
        conversation.ask(format!("set {} 0 0 1\r\nx\r\n", &keys[..250]));
        let answer = conversation.ask(format!("get {keys} {bad} {keys}\r\nmn\r\n"));
        let found = format!("VALUE {} 0 1\r\nx\r\n", &keys[..250]);
        assert_eq!(answer, format!("{found}{BAD_FORMAT}MN\r\n"), "{}", bad.len());
    }
}

#[test]
fn other_long_lines_close_the_connection() {
    let keys = many_keys(1_000).join(" ");
    for start in ["gat 0", "gats 0", "mg", "delete", "get mio:range-search a b 1", "gett", "x"] {
        let answer = Conversation::new().ask(format!("{start} {keys}\r\n"));
        assert_eq!(answer, "CLIENT_ERROR line too long\r\nclosed", "{start}");
    }
    let mut conversation = Conversation::new();
    conversation.host.password = Some("secret".into());
    let answer = conversation.ask(format!("get {keys}\r\n"));
    assert_eq!(answer, "CLIENT_ERROR line too long\r\nclosed");
}

#[test]
fn a_large_value_is_passed_over_as_it_comes() {
    let mut conversation = Conversation::new();
    let budget = Budget { requests_max: 10, output_bytes_max: 1000 };
    let (session, host) = (&mut conversation.session, &mut conversation.host);
    let mut output = Vec::new();
    let line = b"set a 0 0 2147483645\r\n";
    let progress = session.advance(line, &mut output, host, budget);
    assert_eq!(progress.consumed, line.len());
    assert_eq!(output, TOO_LARGE.as_bytes());
    let block = vec![b'x'; 1 << 20];
    let mut left = 2_147_483_645 + 2;
    while left > 0 {
        let piece = &block[..block.len().min(left)];
        let progress = session.advance(piece, &mut output, host, budget);
        assert_eq!(progress.consumed, piece.len());
        left -= piece.len();
    }
    output.clear();
    session.advance(b"mn\r\n", &mut output, host, budget);
    assert_eq!(output, b"MN\r\n");
}

#[test]
fn a_value_in_pieces_is_asked_for_by_length() {
    let mut conversation = Conversation::new();
    let budget = Budget { requests_max: 10, output_bytes_max: 1000 };
    let (session, host) = (&mut conversation.session, &mut conversation.host);
    let mut output = Vec::new();
    let mut input = b"set a 0 0 1000\r\n".to_vec();
    for arrived in 0..100 {
        let progress = session.advance(&input, &mut output, host, budget);
        assert_eq!(progress.next, Next::Read { wanted: 1002 - arrived * 10 });
        assert_eq!(progress.consumed, 0);
        input.extend_from_slice(&[b'x'; 10]);
    }
    input.extend_from_slice(b"\r\n");
    session.advance(&input, &mut output, host, budget);
    assert_eq!(output, b"STORED\r\n");
}

#[test]
fn many_keys_are_answered_over_several_turns() {
    let mut conversation = Conversation::new();
    let value = "v".repeat(1000);
    conversation.ask(format!("set a 0 0 1000\r\n{value}\r\n"));
    let budget = Budget { requests_max: 10, output_bytes_max: 10_000 };
    let (session, host) = (&mut conversation.session, &mut conversation.host);
    let mut input = format!("get{}\r\nmn\r\n", " a".repeat(500)).into_bytes();
    let (mut answer, mut turns) = (Vec::new(), 0);
    while !input.is_empty() {
        let mut output = Vec::new();
        let progress = session.advance(&input, &mut output, host, budget);
        assert!(output.len() < 12_000);
        input.drain(..progress.consumed);
        answer.extend(output);
        turns += 1;
    }
    let record = format!("VALUE a 0 1000\r\n{value}\r\n");
    assert_eq!(answer, format!("{}END\r\nMN\r\n", record.repeat(500)).into_bytes());
    assert!(turns > 45, "{turns}");
    assert_eq!(host.lookups, (500, 0));
}

#[test]
fn keys_that_are_not_there_end_a_turn_as_well() {
    let mut conversation = Conversation::new();
    let budget = Budget { requests_max: 10, output_bytes_max: 10_000 };
    let input = format!("get{}\r\n", " a".repeat(3000));
    let mut output = Vec::new();
    let progress =
        conversation.session.advance(input.as_bytes(), &mut output, &mut conversation.host, budget);
    assert_eq!(progress.next, Next::Yield);
    assert!(output.is_empty());
    assert!(progress.consumed < 2100);
}

#[test]
fn a_line_with_a_wrong_key_fails_as_a_whole() {
    let mut conversation = Conversation::new();
    conversation.ask(format!("set a 0 0 60000\r\n{}\r\n", "v".repeat(60_000)));
    let line = format!("get{} {}\r\nmn\r\n", " a".repeat(50), "k".repeat(251));
    assert_eq!(conversation.ask(line), format!("{BAD_FORMAT}MN\r\n"));
}

#[test]
fn a_turn_ends_after_its_requests() {
    let mut session = MemcachedSession::default();
    let mut host = Conversation::new().host;
    let budget = Budget { requests_max: 2, output_bytes_max: 1000 };
    let mut output = Vec::new();
    let progress = session.advance(b"mn\r\nmn\r\nmn\r\n", &mut output, &mut host, budget);
    assert_eq!((progress.consumed, progress.next), (8, Next::Yield));
    let progress = session.advance(b"mn\r\n", &mut output, &mut host, budget);
    assert_eq!((progress.consumed, progress.next), (4, Next::Read { wanted: 0 }));
}

#[test]
fn numbers_wrap_and_stop_at_the_ends_of_64_bits() {
    let mut conversation = Conversation::new();
    conversation.ask("set a 0 0 20\r\n18446744073709551615\r\n");
    assert_eq!(conversation.ask("incr a 1\r\n"), "0\r\n");
    assert_eq!(conversation.ask("decr a 1\r\n"), "0\r\n");
    assert_eq!(conversation.ask("incr a 18446744073709551615\r\n"), "18446744073709551615\r\n");
    assert_eq!(conversation.ask("decr a 18446744073709551615\r\n"), "0\r\n");
}
