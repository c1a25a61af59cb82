//! The time of a turn.

/// The clock of a turn.
pub trait Clock {
    /// The time in milliseconds since the Unix epoch. It is constant during a turn, and not earlier
    /// than the arrival of the turn's input.
    fn now_ms(&self) -> u64;
    /// The time to which replies refer (how long a record still lives). If requests are run again
    /// after a commit, it is later than [`Clock::now_ms`], which is the same in both runs.
    fn replied_at_ms(&self) -> u64;
    /// The time in microseconds since the Unix epoch (`TIME`).
    fn now_us(&self) -> u64;
}
