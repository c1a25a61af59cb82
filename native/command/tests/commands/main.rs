//! The meaning of each command, by subject, and transactions on several threads.

mod access;
mod admission;
mod bits;
mod compare;
mod counters;
mod databases;
mod encode;
mod formats;
mod keys;
mod lease;
mod logged;
mod model;
mod numbers;
mod optimistic;
mod pairs;
mod range;
mod recorder;
mod replay;
mod strings;
mod sweep;
mod tape;
mod transactions;
