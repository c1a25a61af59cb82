//! What Kyoto Tycoon needs of the server.

use super::settings::KyotoSettings;
use todana_protocol::{Durability, Figures, Splices};

/// The server as sessions of Kyoto Tycoon see it.
pub trait Host:
    todana_protocol::Host + Durability + Figures + Settings + Signals + Splices
{
}

impl<H> Host for H where
    H: todana_protocol::Host + Durability + Figures + Settings + Signals + Splices
{
}

/// The settings of the protocol.
pub trait Settings {
    /// Settings of the Kyoto Tycoon protocol.
    fn kyoto(&self) -> &KyotoSettings;
}

/// Signals that clients send each other (the parameters `WAIT` and `SIGNAL`).
pub trait Signals {
    /// Begins to wait for a signal of this name; called before the session returns
    /// [`Next::Wait`](todana_protocol::Next::Wait).
    fn begin_wait(&mut self, name: &[u8]);
    /// Ends the wait. True if the signal came, false if the time ran out first.
    fn end_wait(&mut self) -> bool;
    /// Signals one client that waits for this name, or all of them. Returns how many waited.
    fn signal(&mut self, name: &[u8], all: bool) -> usize;
}
