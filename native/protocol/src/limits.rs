//! Limits that parsers enforce.

use crate::options::{MB, TB, bytes, integer};

crate::options! {
    /// Limits that parsers enforce. They refuse a request beyond them and never truncate it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Longest key (memcached: 250 at most in any case).
        key_bytes_max: usize = 64 << 10, option bytes(1, MB);
        /// Longest value in RESP.
        value_bytes_max: usize = 64 << 20, option bytes(1, 512 * MB);
        /// Longest value in memcached.
        memcached_value_bytes_max: usize = 1 << 20, option bytes(1, 512 * MB);
        /// Most steps of a script: an instruction of Lua is one.
        script_steps_max: u64 = 2_000_000, option integer(1_000, 1_000_000_000);
        /// Most bytes of memory of a script.
        script_bytes_max: usize = 16 << 20, option bytes(64 << 10, 1024 * MB);
        /// Most arguments of a RESP command.
        arguments_max: usize = 65_536, option integer(1, 1_048_576);
        /// Longest inline or text line.
        line_bytes_max: usize = 64 << 10, option bytes(64, 16 * MB);
        /// Most arguments before authentication.
        unauthenticated_arguments_max: usize = 10, option integer(1, 1_048_576);
        /// Longest argument before authentication.
        unauthenticated_argument_bytes_max: usize = 16 << 10, option bytes(1, MB);
        /// Most bytes of commands queued by MULTI.
        queued_bytes_max: usize = 128 << 20, option bytes(1, TB);
        /// Most subscriptions of a client: channels, patterns and sharded channels together.
        subscriptions_max: usize = 10_000, option integer(1, 1_048_576);
        /// Most bytes of output that may wait for a client. Beyond that a session stops writing
        /// replies and asks to close.
        output_bytes_max: usize = 256 << 20;
    }
}
