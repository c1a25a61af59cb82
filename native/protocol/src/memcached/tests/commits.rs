//! Requests on durable databases.

use super::Conversation;
use crate::Limits;
use crate::testing::{TestLog, with_durable_hosts};

#[test]
fn what_is_appended_keeps_within_the_limit_of_the_protocol_and_of_the_log() {
    // The second request of a pipeline finds a value that is not there when it is submitted.
    let append = "append a 0 0 4\r\nxxxx\r\n";
    let requests = format!("set a 0 0 4\r\nxxxx\r\n{append}{append}ms a 4 MP\r\nyyyy\r\nget a\r\n");
    let play = |mut client: Conversation, protocol_max, log_max| {
        client.host.limits =
            Limits { memcached_value_bytes_max: protocol_max, ..Limits::default() };
        client.host.log = TestLog::of(&client.host.databases, log_max);
        client.ask(&requests)
    };
    let expected = play(Conversation::new(), 10, 0);
    assert!(expected.ends_with("\r\nVALUE a 0 8\r\nxxxxxxxx\r\nEND\r\n"), "{expected}");
    for (protocol_max, log_max) in [(10, 1 << 20), (1 << 20, 10)] {
        let client = with_durable_hosts(Conversation::new);
        assert_eq!(play(client, protocol_max, log_max), expected);
    }
}
