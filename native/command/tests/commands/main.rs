//! What each command means, by subject, and batches among threads.

mod batch;
mod bits;
mod databases;
mod encode;
mod keys;
mod lease;
mod model;
mod numbers;
mod recorder;
mod strings;
