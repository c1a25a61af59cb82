//! Which format of the log's batches has which command.
//!
//! A node of an older version stops at a batch of a format that it does not know. So a batch has
//! the lowest format that has all its commands, and each format adds commands to the one before.
//! A command keeps its number, its fields and its meaning in all formats.

/// The first format.
pub const FORMAT_MIN: u8 = 1;

/// The newest format, which has every command. The fourth and the fifth have no command of their
/// own: batches of the fourth carry the time, and an entry of the fifth has several batches.
pub const FORMAT_MAX: u8 = 6;
