//! The group: queue, batches, apply, de-duplication, gate.

mod applying;
mod batching;
mod clocks;
mod combining;
mod expiring;
mod formats;
mod harness;
mod origins;
mod reporting;
mod snapshots;
mod waiting_reads;
