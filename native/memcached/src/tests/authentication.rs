use super::Conversation;

fn guarded() -> Conversation {
    let mut conversation = Conversation::new();
    conversation.host.password = Some(b"se cret".to_vec());
    conversation
}

#[test]
fn any_user_name_with_the_password_is_admitted() {
    let mut conversation = guarded();
    assert_eq!(conversation.ask("set auth 0 0 11\r\nuser secret\r\n"), FAILURE);
    assert_eq!(conversation.ask("set auth 7 x 12\r\nuser se cret\r\nmn\r\n"), "STORED\r\nMN\r\n");
    assert_eq!(conversation.ask("get auth\r\n"), "END\r\n");
}

const FAILURE: &str = "CLIENT_ERROR authentication failure\r\n";

#[test]
fn the_password_alone_is_admitted() {
    let mut conversation = guarded();
    conversation.host.password = Some(b"secret".to_vec());
    assert_eq!(conversation.ask("set a 0 0 6\r\nsecret\r\n"), "STORED\r\n");
    assert_eq!(conversation.ask("set a 0 0 6\r\nsecret\r\nget a\r\n").lines().count(), 4);
}

#[test]
fn nothing_else_is_answered_before() {
    let mut conversation = guarded();
    for line in
        ["get a", "mn", "version", "stats", "quit", "ms a 1", "set a 0 0", "", "add a 0 0 1"]
    {
        assert_eq!(
            conversation.ask(format!("{line}\r\n")),
            "CLIENT_ERROR unauthenticated\r\n",
            "{line}"
        );
    }
    assert_eq!(conversation.ask("GET / HTTP/1.1\r\n"), "closed");
}

#[test]
fn a_wrong_end_of_the_password_fails() {
    let mut conversation = guarded();
    let answer = conversation.ask("set a 0 0 12\r\nuser se cretXX");
    assert_eq!(answer, FAILURE);
}

#[test]
fn sizes_are_limited_before_authentication() {
    let limit = guarded().host.limits.unauthenticated_argument_bytes_max;
    let secret = |length: usize| format!("set a 0 0 {length}\r\n{}\r\n", "x".repeat(length));
    assert_eq!(guarded().ask(secret(limit - 1)), FAILURE);
    assert_eq!(guarded().ask(secret(limit)), FAILURE);
    assert_eq!(guarded().ask(secret(limit + 1)), format!("{FAILURE}closed"));
    assert_eq!(guarded().ask("set a 0 0 18446744073709551615\r\n"), format!("{FAILURE}closed"));
    let line = |length: usize| format!("{}\r\n", "x".repeat(length - 1));
    assert_eq!(guarded().ask(line(limit)), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(guarded().ask(line(limit + 1)), "CLIENT_ERROR line too long\r\nclosed");
    assert_eq!(guarded().ask("x".repeat(limit + 1)), "CLIENT_ERROR line too long\r\nclosed");
}

#[test]
fn the_password_is_neither_logged_nor_left_waiting() {
    let mut conversation = guarded();
    conversation.host.slow_us = Some(5);
    assert_eq!(conversation.ask("set a 0 0 10\r\nuser"), "");
    assert_eq!(conversation.ask(" wrong\r\n"), FAILURE);
    let log = conversation.host.slow_log.lock().unwrap();
    assert!(log.iter().all(|entry| entry.arguments.is_empty()));
}
