use super::Conversation;
use todana_protocol::testing::with_durable_hosts;

/// Stores `a` with an expiry, lets `passed_ms` pass, and returns whether it exists.
fn lives(exptime: &str, passed_ms: u64) -> bool {
    let mut conversation = Conversation::new();
    assert_eq!(conversation.ask(format!("set a 0 {exptime} 1\r\nx\r\n")), "STORED\r\n");
    conversation.host.now_ms += passed_ms;
    conversation.ask("get a\r\n") != "END\r\n"
}

#[test]
fn records_live_as_long_as_they_were_given() {
    let year_ms = 365 * 86_400_000;
    assert!(lives("0", 100 * year_ms));
    assert!(lives("1", 999));
    assert!(!lives("1", 1000));
    assert!(!lives("-1", 0));
    assert!(!lives("-9223372036854775808", 0));
    assert!(lives("2592000", 2_592_000_000 - 1));
    assert!(!lives("2592000", 2_592_000_000));
    // From here on it is an absolute time, long past.
    assert!(!lives("2592001", 0));
    assert!(!lives("1700000000", 0));
    assert!(lives("1700000001", 999));
    assert!(!lives("1700000001", 1000));
    // More than the 32 bits that memcached uses.
    assert!(lives("4294967296", year_ms));
    assert!(lives("9223372036854775807", 1000 * year_ms));
}

#[test]
fn touch_and_gat_and_meta_commands_change_the_expiry() {
    for command in ["touch a 10\r\n", "gat 10 a\r\n", "mg a T10\r\n", "md a I T10\r\n"] {
        let mut conversation = Conversation::new();
        conversation.ask("set a 0 0 1\r\n5\r\n");
        conversation.ask(command);
        assert_eq!(conversation.ask("mg a u t\r\n").split(' ').nth(1).unwrap().trim(), "t10");
        conversation.host.now_ms += 9_999;
        assert_ne!(conversation.ask("get a\r\n"), "END\r\n", "{command}");
        conversation.host.now_ms += 1;
        assert_eq!(conversation.ask("get a\r\n"), "END\r\n", "{command}");
    }
}

#[test]
fn numbers_and_longer_values_keep_their_expiry() {
    for command in ["incr a 1\r\n", "append a 0 0 1\r\n1\r\n", "ma a\r\n", "ms a 1 MP\r\n1\r\n"] {
        let mut conversation = Conversation::new();
        conversation.ask("set a 0 10 1\r\n5\r\n");
        conversation.host.now_ms += 5_000;
        conversation.ask(command);
        assert_eq!(conversation.ask("mg a t\r\n"), "HD t5\r\n", "{command}");
    }
}

#[test]
fn flush_all_can_be_put_off() {
    let mut conversation = Conversation::new();
    conversation.ask("set a 0 0 1\r\nx\r\n");
    assert_eq!(conversation.ask("flush_all 10\r\n"), "OK\r\n");
    conversation.host.now_ms += 9_999;
    assert_ne!(conversation.ask("get a\r\n"), "END\r\n");
    conversation.host.now_ms += 1;
    assert_eq!(conversation.ask("get a\r\n"), "END\r\n");
    conversation.ask("set a 0 0 1\r\nx\r\n");
    conversation.host.now_ms += 100_000;
    assert_ne!(conversation.ask("get a\r\n"), "END\r\n");
    conversation.ask("flush_all -1\r\n");
    assert_eq!(conversation.ask("get a\r\n"), "END\r\n");
}

/// The clock of a durable database may be corrected slowly, or by an operator.
#[test]
fn a_delay_counts_by_the_time_of_the_log() {
    const LATE_MS: u64 = 3_600_000;
    let mut client = with_durable_hosts(Conversation::new);
    client.host.log_is_late_ms = LATE_MS;
    client.ask("set a 0 0 1\r\nx\r\nset b 0 -1 1\r\nx\r\nset c 0 10 1\r\nx\r\n");
    assert_eq!(client.ask("mg b\r\nmg c t\r\nflush_all 10\r\n"), "EN\r\nHD t10\r\nOK\r\n");
    client.host.now_ms += 9_999;
    assert_ne!(client.ask("get a\r\n"), "END\r\n");
    client.host.now_ms += 1;
    assert_eq!(client.ask("get a\r\n"), "END\r\n");
}

#[test]
fn mg_returns_the_seconds_since_the_last_look() {
    let mut conversation = Conversation::new();
    conversation.ask("set a 0 0 1\r\nx\r\n");
    conversation.host.now_ms += 7_000;
    assert_eq!(conversation.ask("mg a l h u\r\n"), "HD l7 h0\r\n");
    assert_eq!(conversation.ask("mg a l h\r\n"), "HD l7 h0\r\n");
    conversation.host.now_ms += 3_000;
    assert_eq!(conversation.ask("mg a l h\r\n"), "HD l3 h1\r\n");
}
