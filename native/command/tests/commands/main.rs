//! What each command means, by subject, and batches among threads.

mod batch;
mod bits;
mod encode;
mod keys;
mod numbers;
mod recorder;
mod strings;
