//! The interface of every protocol's session to an event loop.

use crate::Host;

/// The result of one call of [`Session::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes at the front of the input that the session has consumed. The caller drops them.
    pub consumed: usize,
    /// What the session needs next.
    pub next: Next,
}

/// What a session needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes; at least `wanted` of the current request are missing (0 if unknown), and the
    /// session need not be called before they have arrived. The loop may size its buffer by it, up
    /// to a bound of its own and never beyond the limit of the input.
    Read {
        /// Number of bytes that are known to be missing.
        wanted: usize,
    },
    /// The budget of this turn is used up, and the input still contains complete requests: call
    /// again after other connections had their turns.
    Yield,
    /// The next request is a script or a transaction that must not begin in this turn
    /// ([`Host::begin_work`]): call again when it is the turn of this connection.
    Pause,
    /// Execute nothing on this connection and send nothing to it for this time (`DEBUG SLEEP`, the
    /// reply to a password). Then send the output, even if the client has shut down its sending
    /// side meanwhile. Other connections are not affected.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// Send the output, then call again when the signal of [`Host::begin_wait`] arrives, or after
    /// this time. Nothing is executed on this connection meanwhile; other connections are not
    /// affected.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// Send the output, hand over what [`Host::run`] recorded for the log, and call again with the
    /// same input when the outcome has arrived. Nothing is executed on this connection meanwhile.
    /// If nothing was recorded, the log has no room: call again after a short time.
    Commit,
    /// Send the output, then close.
    Close,
}

/// A connection's protocol state.
pub trait Session {
    /// Executes up to `requests_max` complete requests at the front of `input` and appends their
    /// replies to `output`, except for parts of large values, which go to [`Host::splice`]. Stops
    /// early, and returns `Next::Yield`, when the replies exceed `output_bytes_max` or the host
    /// ends the turn.
    fn advance<H: Host>(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress;

    /// Bytes that the session keeps for its client between turns: queued commands, watched keys,
    /// partial bodies, collected results. Called after each turn, so it only adds up known numbers.
    fn held_bytes(&self) -> usize;

    /// Whether a reply is partly in the output, so that only its rest may follow.
    fn is_mid_reply(&self) -> bool;
}

/// Bounds of one turn.
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
