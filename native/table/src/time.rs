//! The time at which a table is read.

/// An expiry that never comes.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// A point in time that costs something to learn: a read asks for it only if a record that it found
/// has an expiry, or if a clear of the table is scheduled.
pub trait Time: Copy {
    /// Milliseconds since the Unix epoch.
    fn ms(self) -> u64;
}

/// A time that is known already.
impl Time for u64 {
    #[inline]
    fn ms(self) -> u64 {
        self
    }
}
