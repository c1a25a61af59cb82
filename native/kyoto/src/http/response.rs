//! Responses.
//!
//! ```text
//!   HTTP/1.1 200 OK\r\n
//!   Server: Todana/0.1.0\r\n
//!   Date: Sat, 21 Nov 2026 12:00:00 GMT\r\n
//!   Connection: close\r\n                         only if the connection will be closed
//!   Content-Length: 5\r\n
//!   <other headers, sorted by name>\r\n
//!   \r\n
//!   hello
//! ```

use httpdate::HttpDate;
use smallvec::SmallVec;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// The reply to `Expect: 100-continue`.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 200,
    Created = 201,
    NoContent = 204,
    BadRequest = 400,
    Unauthorized = 401,
    Forbidden = 403,
    NotFound = 404,
    TooLarge = 413,
    /// Kyoto Tycoon's own status: no record, duplicate, or another value.
    Logical = 450,
    Internal = 500,
    NotImplemented = 501,
    /// A wait that timed out.
    Unavailable = 503,
}

impl Status {
    /// Number and reason phrase, as in the status line.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::Created => "201 Created",
            Status::NoContent => "204 No Content",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::TooLarge => "413 Request Entity Too Large",
            Status::Logical => "450 Logical Inconsistency",
            Status::Internal => "500 Internal Server Error",
            Status::NotImplemented => "501 Not Implemented",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// The current second in the form of headers, formatted once a second and not for each response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dated {
    second: u64,
    text: [u8; DATE_BYTES],
}

/// Length of a date: `Sat, 21 Nov 2026 12:00:00 GMT`.
const DATE_BYTES: usize = 29;

/// The last second that a date of this form can express.
const SECOND_MAX: u64 = 253_402_300_799;

impl Default for Dated {
    fn default() -> Dated {
        Dated { second: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" }
    }
}

impl Dated {
    /// The date of a second since the Unix epoch; the end of the year 9999 for later seconds.
    pub(crate) fn of(second: u64) -> Dated {
        let mut dated = Dated::default();
        dated.set(second);
        dated
    }

    /// Changes to another second.
    #[inline]
    pub(crate) fn set(&mut self, second: u64) {
        if second != self.second {
            self.word(second);
        }
    }

    #[inline(never)]
    fn word(&mut self, second: u64) {
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(second.min(SECOND_MAX));
        let written = write!(self.text.as_mut_slice(), "{}", HttpDate::from(moment));
        debug_assert!(written.is_ok(), "a date has 29 bytes");
        self.second = second;
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Headers common to all responses to a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub(crate) date: Dated,
    /// The origin of the page that sent the request if its pages may read the response; otherwise
    /// empty.
    pub(crate) origin: Vec<u8>,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'r> {
    pub(crate) status: Status,
    pub(crate) keep_alive: bool,
    /// The value of `Content-Length`; `None` omits the header (`HEAD`).
    pub(crate) length: Option<usize>,
    /// Further headers, sorted by name. Their values contain no line ends.
    pub(crate) headers: &'r [(&'static str, &'r [u8])],
}

/// The line with the server's name, and the name of the header after it.
const SERVER: &[u8] =
    concat!("\r\nServer: Todana/", env!("CARGO_PKG_VERSION"), "\r\nDate: ").as_bytes();

impl Response<'_> {
    /// A response without a body or further headers.
    pub(crate) fn of(status: Status) -> Response<'static> {
        Response { status, keep_alive: true, length: None, headers: &[] }
    }

    /// Writes the head; the body follows.
    #[inline]
    pub(crate) fn write_head(&self, out: &mut Vec<u8>, common: &Common) {
        // Reserves space, so that few of the writes below have to grow the buffer.
        out.reserve(256);
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(self.status.words().as_bytes());
        out.extend_from_slice(SERVER);
        out.extend_from_slice(common.date.text());
        if !self.keep_alive {
            out.extend_from_slice(b"\r\nConnection: close");
        }
        if let Some(length) = self.length {
            out.extend_from_slice(b"\r\nContent-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        }
        match common.origin.is_empty() {
            true => write_headers(self.headers, out),
            false => write_headers(&self.headers_for_a_page(&common.origin), out),
        }
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Writes the headers, including those that a browser requires before a page of another origin
    /// may read the response.
    #[cold]
    fn headers_for_a_page<'h>(
        &'h self,
        origin: &'h [u8],
    ) -> SmallVec<[(&'static str, &'h [u8]); 4]> {
        let mut headers = SmallVec::<[(&str, &[u8]); 4]>::from_slice(self.headers);
        headers.push(("Access-Control-Allow-Origin", origin));
        headers.push(("Vary", &b"Origin"[..]));
        headers.sort_unstable_by_key(|(name, _)| *name);
        headers
    }

    /// Writes a response with a complete body; `with_body` is false for `HEAD`.
    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>, common: &Common, body: &[u8], with_body: bool) {
        if with_body {
            Response { length: Some(body.len()), ..self }.write_head(out, common);
            out.extend_from_slice(body);
        } else {
            self.write_head(out, common);
        }
    }
}

fn write_headers(headers: &[(&'static str, &[u8])], out: &mut Vec<u8>) {
    for (name, value) in headers {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
    }
}

/// Answers a preflight: a browser asks whether a page of an allowed origin may send a request.
#[cold]
pub(crate) fn answer_preflight(out: &mut Vec<u8>, common: &Common, keep_alive: bool) {
    let headers: [(&str, &[u8]); 2] = [
        ("Access-Control-Allow-Headers", b"Authorization, Content-Type, X-Kt-Mode, X-Kt-Xt"),
        ("Access-Control-Allow-Methods", b"GET, HEAD, POST, PUT, DELETE"),
    ];
    let (status, length) = (Status::NoContent, Some(0));
    Response { status, keep_alive, length, headers: &headers }.write_head(out, common);
}

/// Answers a request that was not executed. The body is a sentence: the status line and `why` in
/// parentheses. More headers may follow `Content-Type`.
#[cold]
pub(crate) fn refuse(
    out: &mut Vec<u8>,
    common: &Common,
    (status, why): (Status, &str),
    keep_alive: bool,
    with_body: bool,
) {
    let body = format!("{} ({why})\n", status.words());
    let headers: [(&str, &[u8]); 2] =
        [("Content-Type", b"text/plain"), ("Www-Authenticate", b"Basic realm=\"todana\"")];
    let headers = if status == Status::Unauthorized { &headers[..] } else { &headers[..1] };
    let response = Response { status, keep_alive, length: None, headers };
    response.write(out, common, body.as_bytes(), with_body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        for (second, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_700_000_000, "Tue, 14 Nov 2023 22:13:20 GMT"),
            (SECOND_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(Dated::of(second).text(), text.as_bytes(), "{second}");
        }
    }

    #[test]
    fn a_date_goes_back_as_well() {
        let mut dated = Dated::of(1_700_000_000);
        dated.set(0);
        assert_eq!(dated.text(), Dated::default().text());
    }
}
