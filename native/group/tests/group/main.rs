//! The group: queue, batches, apply, de-duplication, gate.

mod applying;
mod batching;
mod expiring;
mod harness;
mod origins;
mod reads;
mod reporting;
mod snapshots;
