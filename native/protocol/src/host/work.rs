//! Commands that take long.

/// Commands that take several turns, and the turns of scripts and transactions.
pub trait Work {
    /// Returns the time in nanoseconds since the last observation of this turn. It belongs to a
    /// command that continues in a later turn and is observed when it is complete.
    fn pause(&mut self) -> u64;
    /// Resumes a command that took `nanos` in earlier turns: the next observation includes them.
    fn resume(&mut self, nanos: u64);
    /// Asks whether a script or a transaction may begin in this turn. They take turns: if not, the
    /// session leaves the request in its input and returns [`Next::Pause`](crate::Next::Pause).
    /// `is_long` is whether it probably takes long
    /// ([`LONG_UNITS`](todana_command::LONG_UNITS)).
    fn begin_work(&mut self, is_long: bool) -> bool;
    /// The work that [`Work::begin_work`] has permitted is done.
    fn end_work(&mut self);
}
