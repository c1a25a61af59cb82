//! The log of the node: lines for the operator.
//!
//! They go to the surrounding node, if that takes them, and else to standard error.

use std::sync::OnceLock;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The server goes on, and something is lost or refused.
    Warning,
    /// A defect.
    Error,
}

/// Takes a line; false if it could not.
pub type Sink = fn(Level, &str) -> bool;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Passes the lines of all servers of this process on to the node. The first call counts.
pub fn set_log_sink(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Logs a line without the line end.
#[cold]
pub(crate) fn line(level: Level, text: &str) {
    if !SINK.get().is_some_and(|sink| sink(level, text)) {
        eprintln!("todana: {text}");
    }
}

/// Logs a formatted line as a warning.
macro_rules! warning {
    ($($arguments:tt)*) => {
        $crate::node_log::line($crate::node_log::Level::Warning, &format!($($arguments)*))
    };
}

/// Logs a formatted line as an error.
macro_rules! error {
    ($($arguments:tt)*) => {
        $crate::node_log::line($crate::node_log::Level::Error, &format!($($arguments)*))
    };
}

pub(crate) use {error, warning};
