//! What every protocol's session looks like to an event loop.

use crate::Host;
use std::ops::Range;
use todana_table::Shared;

/// What one call of [`Session::advance`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes at the front of the input that are done with. The caller drops them.
    pub consumed: usize,
    /// What the session wants next.
    pub next: Next,
}

/// What a session wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes; `wanted` is how many more are known to be missing for the request under way (0
    /// if unknown). The loop may size its buffer by it up to a bound of its own, never beyond
    /// the input limit.
    Read {
        /// Bytes known to be missing.
        wanted: usize,
    },
    /// The budget of this turn is used up with complete requests left in the input: call again,
    /// after others had theirs.
    Yield,
    /// Nothing is to be executed on this connection or sent to it for so long (`DEBUG SLEEP`, the
    /// answer to a password), then the output goes out, also to a client that has ended its sending
    /// side meanwhile. Other connections go on.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// Send what is in the output, then call again when the signal comes for which
    /// [`Host::begin_wait`] was called, or after so long. Nothing is executed on this connection
    /// meanwhile; other connections go on.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// Send what is in the output, then close.
    Close,
}

/// A connection's protocol state.
pub trait Session {
    /// Executes complete requests at the front of `input`, at most `requests_max` of them, and
    /// appends the replies to `output`, but for parts of large values: those go to
    /// [`Host::splice`]. Stops early when the replies grow beyond `output_bytes_max`, or the host
    /// says that the turn is over (then `Next::Yield`).
    fn advance<H: Host>(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress;

    /// Bytes that the session itself keeps between turns for its client: queued commands, watched
    /// keys, bodies in part, results collected so far. Asked for after each turn, so it adds up
    /// what is known already.
    fn held_bytes(&self) -> usize;

    /// Whether a reply has gone to the output in part, so that nothing but its rest may follow.
    fn is_mid_reply(&self) -> bool;
}

/// A part of a large value that belongs into the output, and is sent without being copied there.
#[derive(Debug)]
pub struct Splice {
    /// Bytes of the output that go out before it.
    pub at: usize,
    /// The value.
    pub value: Shared,
    /// What of it is sent.
    pub range: Range<usize>,
}

impl Splice {
    /// The bytes that are sent.
    pub fn bytes(&self) -> &[u8] {
        self.value.get(self.range.clone()).unwrap_or_default()
    }
}

/// How much one turn may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests.
    pub requests_max: usize,
    /// Bytes of output at which the turn ends.
    pub output_bytes_max: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProtocolName;
    use crate::kyoto::KyotoSession;
    use crate::memcached::MemcachedSession;
    use crate::resp::RespSession;
    use crate::testing::FakeHost;

    #[test]
    fn a_right_password_of_a_wrong_user_does_not_authenticate() {
        let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
        let mut session = RespSession::default();
        let mut host = FakeHost::new(ProtocolName::Resp);
        host.password = Some(b"secret".to_vec());
        for (input, authenticated) in
            [("AUTH bob secret\r\n", false), ("AUTH default secret\r\n", true)]
        {
            session.advance(input.as_bytes(), &mut Vec::new(), &mut host, budget);
            assert_eq!(host.authenticated, authenticated, "{input}");
        }
        let mut session = MemcachedSession::default();
        let mut host = FakeHost::new(ProtocolName::Memcached);
        host.password = Some(b"secret".to_vec());
        for (secret, authenticated) in [("me guess!", false), ("me secret", true)] {
            let input = format!("set x 0 0 9\r\n{secret}\r\n");
            session.advance(input.as_bytes(), &mut Vec::new(), &mut host, budget);
            assert_eq!(host.authenticated, authenticated, "{input}");
        }
    }

    #[test]
    fn the_answer_to_a_password_is_held_back_right_or_wrong() {
        let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
        let slow = |protocol| {
            let mut host = FakeHost::new(protocol);
            host.password = Some(b"secret".to_vec());
            host.password_delay_ms = 700;
            host
        };
        let mut output = Vec::new();
        for (input, answer) in [
            (
                "AUTH guess\r\n",
                "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            ),
            ("AUTH secret\r\n", "+OK\r\n"),
            ("HELLO 3 AUTH default guess\r\n", "-WRONGPASS invalid"),
            ("HELLO 3 AUTH default secret\r\n", "%7\r\n"),
        ] {
            let mut host = slow(ProtocolName::Resp);
            let input = [input, "PING\r\n"].concat();
            output.clear();
            let mut session = RespSession::default();
            let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
            let consumed = input.len() - 6;
            assert_eq!(progress, Progress { consumed, next: Next::Sleep { ms: 700 } });
            assert!(output.starts_with(answer.as_bytes()), "{input}");
        }
        for (secret, answer) in
            [("guess!", "CLIENT_ERROR authentication failure\r\n"), ("secret", "STORED\r\n")]
        {
            let mut host = slow(ProtocolName::Memcached);
            let input = format!("set x 0 0 6\r\n{secret}\r\nmn\r\n");
            output.clear();
            let mut session = MemcachedSession::default();
            let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
            let consumed = input.len() - 4;
            assert_eq!(progress, Progress { consumed, next: Next::Sleep { ms: 700 } });
            assert_eq!(output, answer.as_bytes());
        }
        for (password, answer) in [("Omd1ZXNz", "HTTP/1.1 401"), ("OnNlY3JldA==", "HTTP/1.1 404")] {
            let mut host = slow(ProtocolName::Kyoto);
            let input = format!("GET /k HTTP/1.1\r\nAuthorization: Basic {password}\r\n\r\n");
            output.clear();
            let mut session = KyotoSession::default();
            let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
            assert_eq!(progress, Progress { consumed: 0, next: Next::Sleep { ms: 700 } });
            assert!(output.is_empty() && !host.authenticated);
            let progress = session.advance(input.as_bytes(), &mut output, &mut host, budget);
            assert!(!matches!(progress.next, Next::Sleep { .. }), "{password}");
            assert!(output.starts_with(answer.as_bytes()), "{password}");
        }
    }

    #[test]
    fn what_is_asked_before_a_page_may_send_spares_no_delay() {
        let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
        let mut host = FakeHost::new(ProtocolName::Kyoto);
        host.password = Some(b"secret".to_vec());
        host.password_delay_ms = 700;
        host.kyoto.origins = vec!["https://example.org".into()];
        let guess = "Authorization: Basic Omd1ZXNz\r\n\r\n";
        let asked = format!(
            "OPTIONS /k HTTP/1.1\r\nOrigin: https://example.org\r\n\
             Access-Control-Request-Method: GET\r\n{guess}"
        );
        let input = format!("{asked}GET /k HTTP/1.1\r\n{guess}");
        let (mut session, mut output, mut consumed, mut slept) =
            (KyotoSession::default(), Vec::new(), 0, 0);
        loop {
            let input = &input.as_bytes()[consumed..];
            let progress = session.advance(input, &mut output, &mut host, budget);
            consumed += progress.consumed;
            match progress.next {
                Next::Sleep { .. } => slept += 1,
                next => break assert_eq!((next, slept), (Next::Close, 2)),
            }
        }
    }

    #[test]
    fn a_turn_whose_time_is_used_up_ends_with_the_command_under_way() {
        let budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };
        let mut output = Vec::new();

        let mut host = FakeHost::new(ProtocolName::Resp);
        host.turn_ends_at = 2;
        let input = b"*1\r\n$4\r\nPING\r\n".repeat(5);
        let progress = RespSession::default().advance(&input, &mut output, &mut host, budget);
        assert_eq!(progress, Progress { consumed: 2 * 14, next: Next::Yield });

        let mut host = FakeHost::new(ProtocolName::Memcached);
        host.turn_ends_at = 2;
        let input = b"mn\r\n".repeat(5);
        let progress = MemcachedSession::default().advance(&input, &mut output, &mut host, budget);
        assert_eq!(progress, Progress { consumed: 2 * 4, next: Next::Yield });
    }
}
