//! The interface of every protocol's session to an event loop.

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
    /// ([`Work::begin_work`](crate::Work::begin_work)): call again when it is the turn of this
    /// connection.
    Pause,
    /// Execute nothing on this connection and send nothing to it for this time (`DEBUG SLEEP`, the
    /// reply to a password). Then send the output, even if the client has shut down its sending
    /// side meanwhile. Other connections are not affected.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// Send the output, then call again when the signal arrives for which the session has asked the
    /// host, or after this time. Nothing is executed on this connection meanwhile; other
    /// connections are not affected.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// Send the output, hand over what [`Store::run`](crate::Store::run) recorded for the log, and
    /// call again with the same input when the outcome has arrived. Nothing is executed on this
    /// connection meanwhile. If nothing was recorded, the log has no room: call again after a short
    /// time.
    Commit,
    /// Send the output, then close.
    Close,
}

/// A connection's protocol state.
pub trait Session {
    /// Bytes that the session keeps for its client between turns: queued commands, watched keys,
    /// partial bodies, collected results. Called after each turn, so it only adds up known numbers.
    fn held_bytes(&self) -> usize;

    /// Whether a reply is partly in the output, so that only its rest may follow.
    fn is_mid_reply(&self) -> bool;
}

/// A session that can run on hosts of this type. Each protocol needs other traits of its host.
pub trait Advance<H>: Session {
    /// Executes up to `requests_max` complete requests at the front of `input` and appends their
    /// replies to `output`, except for parts of large values, which go to
    /// [`Splices::splice`](crate::Splices::splice). Stops early, and returns `Next::Yield`, when
    /// the replies exceed `output_bytes_max` or the host ends the turn.
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress;
}

/// Bounds of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Requests.
    pub requests_max: usize,
    /// Bytes of output at which the turn ends.
    pub output_bytes_max: usize,
}
