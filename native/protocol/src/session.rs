//! What every protocol's session looks like to an event loop.

use crate::Host;

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
    /// Nothing is to be executed on this connection or sent to it for so long (`DEBUG SLEEP`), then
    /// the output goes out. Other connections go on.
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
    /// appends the replies to `output`. Stops early when `output` grows beyond
    /// `output_bytes_max`, or the host says that the turn is over (then `Next::Yield`).
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
