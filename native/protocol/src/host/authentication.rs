//! Passwords.

/// What clients must do before they may send commands.
pub trait Authentication {
    /// Whether clients must authenticate.
    fn requires_password(&self) -> bool;
    /// Whether this client need not authenticate: no password is set, or, in its first turn, none
    /// was when it connected.
    fn is_admitted(&self) -> bool;
    /// Compares in constant time. True if no password is set.
    fn check_password(&self, password: &[u8]) -> bool;
    /// How long to delay the reply to the next password, right or wrong, because this client's
    /// address has sent many wrong ones. The session asks before it checks the password, and sleeps
    /// ([`Next::Sleep`](crate::Next::Sleep)).
    fn password_delay_ms(&self) -> u64;
    /// Records that this client has authenticated, so that the server need not close it for not
    /// doing so in time. A correct password with an unknown user name does not authenticate.
    fn note_authenticated(&mut self);
}
