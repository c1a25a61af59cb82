use super::{Conversation, get, request, set};

fn guarded() -> Conversation {
    let mut conversation = Conversation::new();
    conversation.host.password = Some(b"secret".to_vec());
    conversation
}

fn plain(value: &str) -> super::Sent {
    request("sasl auth").key("PLAIN").value(value)
}

#[test]
fn plain_with_the_password_authenticates() {
    for value in ["\0user\0secret", "admin\0user\0secret", "\0\0secret"] {
        let mut client = guarded();
        let mechanisms = client.ask(&request("sasl list mechs"));
        assert_eq!(mechanisms.text(), "0x00 PLAIN");
        assert_eq!(client.ask(&plain(value)).text(), "0x00 Authenticated");
        assert!(client.host.authenticated);
        assert_eq!(client.ask(&set("a", "1")).text(), "0x00 ");
    }
}

#[test]
fn the_value_may_follow_in_a_step() {
    let mut client = guarded();
    assert_eq!(client.ask(&plain("")).text(), "0x21 ");
    let step = request("sasl step").key("PLAIN").value("\0user\0secret");
    assert_eq!(client.ask(&step).text(), "0x00 Authenticated");
    // There is only one step.
    assert_eq!(client.ask(&step).text(), "0x20 Auth failure.");
    assert_eq!(client.texts(&[get("a")]), ["0x20 Auth failure.", "closed"]);
}

#[test]
fn nothing_else_authenticates() {
    let values = ["\0user\0guess", "secret", "\0secret", "\0user\0secret\0", "\0user\0secret\0x"];
    for request in values.map(plain).into_iter().chain([
        request("sasl auth").key("CRAM-MD5").value("\0user\0secret"),
        request("sasl step").key("PLAIN").value("\0user\0secret"),
    ]) {
        let mut client = guarded();
        assert_eq!(client.ask(&request).text(), "0x20 Auth failure.");
        assert!(!client.host.authenticated);
    }
}

#[test]
fn only_version_is_answered_before() {
    let mut client = guarded();
    assert_eq!(client.ask(&request("version")).status, 0);
    for request in [get("a"), set("a", "1"), request("noop"), request("stat"), request("quit")] {
        assert_eq!(guarded().texts(&[request]), ["0x20 Auth failure.", "closed"]);
    }
    let long = plain(&"x".repeat(16 << 10));
    assert_eq!(guarded().ask(&long).text(), "0x20 Auth failure.");
    let longer = plain(&"x".repeat((16 << 10) + 1));
    assert_eq!(guarded().texts(&[longer]), ["0x20 Auth failure.", "closed"]);
}

#[test]
fn without_a_password_the_opcodes_are_unknown() {
    let mut client = Conversation::new();
    let step = request("sasl step").key("PLAIN").value("x");
    let answers = client.texts(&[request("sasl list mechs"), plain("x"), step, request("noop")]);
    let unknown = "0x81 Unknown command";
    assert_eq!(answers, [unknown, unknown, unknown, "0x00 "]);
}

#[test]
fn the_answer_to_a_password_is_delayed() {
    let mut client = guarded();
    client.host.password_delay_ms = 700;
    let outcome = client.send(&plain("\0user\0guess").bytes());
    assert_eq!(outcome.slept_ms, 700);
    client.host.slow_us = Some(5);
    client.ask(&plain("\0user\0secret"));
    let log = client.host.slow_log.lock().unwrap();
    let words: Vec<_> = log.iter().flat_map(|entry| &entry.arguments).collect();
    assert!(words.iter().all(|word| !word.ends_with(b"secret")), "{words:?}");
}
