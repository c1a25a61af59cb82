//! What each command means, by subject, and batches among threads.

mod batch;
mod bits;
mod keys;
mod numbers;
mod recorder;
mod strings;
