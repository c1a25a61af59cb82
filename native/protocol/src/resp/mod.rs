//! RESP: the protocol of Redis.

use crate::{Budget, Host, Next, Progress, Session};

/// Names of the commands, in the order of their statistics.
pub const COMMANDS: &[&str] = &["get"];

/// A RESP connection.
#[derive(Debug, Default)]
pub struct RespSession {}

impl Session for RespSession {
    fn advance<H: Host>(
        &mut self,
        _i: &[u8],
        _o: &mut Vec<u8>,
        _h: &mut H,
        _b: Budget,
    ) -> Progress {
        Progress { consumed: 0, next: Next::Close }
    }
}
