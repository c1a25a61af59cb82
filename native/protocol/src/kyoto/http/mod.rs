//! HTTP/1.0 and 1.1 as ktserver speaks them: request heads, bodies in chunks, responses.
//!
//! Stricter than ktserver where two readers of one request could differ about where it ends: two
//! lengths that differ, a length that is no number, a length beside `Transfer-Encoding`, another
//! encoding than `chunked`, and header lines that HTTP does not know are answered 400, and the
//! connection is closed.

mod chunks;
mod head;
mod response;

pub(super) use chunks::{Chunks, Trouble};
pub(super) use head::{Body, Found, Head, Method, Seen, find, parse};
pub(super) use response::{CONTINUE, Common, Dated, Response, Status, answer_preflight, refuse};
