//! The group: queue, batches, apply, de-duplication, gate.

mod applying;
mod batching;
mod harness;
mod origins;
