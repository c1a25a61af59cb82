//! Nanoseconds per pipelined command.
fn main() {}
