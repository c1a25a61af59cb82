//! What one client may do to all others: have them wait, and receive their commands.

/// How requests are held back (`CLIENT PAUSE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Until this time, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// Whether only requests that may write wait.
    pub writes_only: bool,
}

/// Requests that wait for the operator, and clients that receive all commands.
pub trait Operator {
    /// Until when requests wait (`CLIENT PAUSE`): all, or only those that may write. `None` if this
    /// one does not wait.
    fn held_until_ms(&self, may_write: bool) -> Option<u64>;
    /// Has requests wait until a time: all, or only those that may write. `None` ends that.
    fn hold_clients(&self, hold: Option<Hold>);
    /// Whether a client receives all commands (`MONITOR`).
    fn is_monitored(&self) -> bool;
    /// Sends a line to the clients that receive all commands.
    fn monitor(&self, line: Vec<u8>);
    /// Whether this client receives all commands from now on.
    fn set_monitor(&mut self, is_on: bool);
}
