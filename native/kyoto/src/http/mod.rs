//! HTTP/1.0 and 1.1 in ktserver's form: request heads, chunked bodies, responses.
//!
//! This implementation is stricter than ktserver if two readers of a request could disagree about
//! where it ends. Two different lengths, a length that is not a number, a length beside
//! `Transfer-Encoding`, an encoding other than `chunked`, and malformed header lines are answered
//! with status 400, and the connection is closed.

mod chunks;
mod head;
mod response;

pub(super) use chunks::{Chunks, Trouble};
pub(super) use head::{Body, Found, Head, Method, Seen, find, parse};
pub(super) use response::{CONTINUE, Common, Dated, Response, Status, answer_preflight, refuse};
