//! The head of a request: the request line and the headers.
//!
//! ```text
//!   PUT /key?ignored HTTP/1.1\r\n      the first line decides whether this is HTTP at all:
//!   Host: localhost:1978\r\n           any other line closes the connection without a reply,
//!   Content-Length: 5\r\n              as soon as it has been read
//!   \r\n
//! ```
//!
//! An incomplete head is not parsed, and no byte is searched twice for the end of the head: a
//! client that sends byte by byte costs no more than one that sends everything at once.

use httparse::{EMPTY_HEADER, Header, Status, parse_headers};
use memchr::{memchr, memchr_iter};

/// Longest request line without its end.
const LINE_BYTES_MAX: usize = 8191;

/// Most headers.
const HEADERS_MAX: usize = 128;

/// Most headers of a usual request.
const HEADERS_USUAL: usize = 16;

/// The method of a request. Methods are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Other,
}

impl Method {
    fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            _ => Method::Other,
        }
    }

    /// Whether the method uses a body. The body of any other method is skipped.
    pub(crate) fn takes_body(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Other)
    }
}

/// The body that follows the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Body {
    /// Nothing.
    #[default]
    None,
    /// This many bytes.
    Bytes(u64),
    /// Chunks.
    Chunks,
}

/// A head. If a header occurs twice, the last one counts.
#[derive(Clone, Debug)]
pub(crate) struct Head<'i> {
    /// The method as it was sent.
    pub(crate) name: &'i [u8],
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: &'i [u8],
    pub(crate) keep_alive: bool,
    pub(crate) body: Body,
    /// `Expect: 100-continue`.
    pub(crate) expects_continue: bool,
    pub(crate) host: Option<&'i [u8]>,
    pub(crate) origin: Option<&'i [u8]>,
    /// Whether this is a CORS preflight: a browser asks what a page of another site may send.
    pub(crate) is_preflight: bool,
    /// `Sec-Fetch-Site`
    pub(crate) fetch_site: Option<&'i [u8]>,
    /// `Referer`
    pub(crate) referer: Option<&'i [u8]>,
    pub(crate) authorization: Option<&'i [u8]>,
    pub(crate) content_type: Option<&'i [u8]>,
    /// `X-Kt-Mode`
    pub(crate) mode: Option<&'i [u8]>,
    /// `X-Kt-Xt`
    pub(crate) xt: Option<&'i [u8]>,
}

impl<'i> Head<'i> {
    /// The target up to its first question mark, and the text after it.
    pub(crate) fn path_and_query(&self) -> (&'i [u8], &'i [u8]) {
        match memchr(b'?', self.target) {
            Some(at) => (&self.target[..at], &self.target[at + 1..]),
            None => (self.target, b""),
        }
    }
}

/// How much of an incomplete head has been examined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The offset of the headers; 0 before the request line has been read.
    headers: usize,
    /// Number of bytes that do not contain the beginning of the end.
    searched: usize,
}

impl Seen {
    /// The offset of the headers, once a head was found.
    pub(crate) fn headers(&self) -> usize {
        self.headers
    }
}

/// What the input begins with.
#[derive(Clone, Debug)]
pub(crate) enum Found<'i> {
    /// A head of this length.
    Head(Head<'i>, usize),
    /// An incomplete head.
    Unfinished,
    /// Not HTTP.
    Other,
    /// Invalid HTTP.
    Bad(&'static str),
}

/// Searches for a head of at most `bytes_max` at the front of the input.
#[inline]
pub(crate) fn find<'i>(input: &'i [u8], seen: &mut Seen, bytes_max: usize) -> Found<'i> {
    let is_first_look = seen.searched == 0;
    if is_first_look && input.first().is_some_and(|&byte| !is_token(byte)) {
        return Found::Other;
    }
    if seen.headers == 0 {
        let found = memchr(b'\n', &input[seen.searched..]).map(|at| at + seen.searched);
        // The CR before the end does not count. While the end is missing, the last byte may be that
        // CR.
        let has_cr = found.is_none_or(|end| end > 0 && input[end - 1] == b'\r');
        let line_bytes_max = LINE_BYTES_MAX.min(bytes_max) + usize::from(has_cr);
        if found.unwrap_or(input.len()) > line_bytes_max {
            return Found::Other;
        }
        let Some(end) = found else {
            seen.searched = input.len();
            return Found::Unfinished;
        };
        if RequestLine::parse(&input[..end]).is_none() {
            return Found::Other;
        }
        (seen.headers, seen.searched) = (end + 1, end);
    }
    let bounded = &input[..input.len().min(bytes_max.max(seen.headers))];
    // A head nearly always arrives in one piece; then there is no need to search for its end.
    if is_first_look && let found @ Found::Head(..) = parse(bounded, seen.headers) {
        return found;
    }
    if ends(bounded, seen) {
        return parse(bounded, seen.headers);
    }
    if bounded.len() >= bytes_max {
        Found::Bad("request header too large")
    } else {
        Found::Unfinished
    }
}

/// Whether an empty line follows the bytes already searched.
fn ends(input: &[u8], seen: &mut Seen) -> bool {
    for at in memchr_iter(b'\n', &input[seen.searched..]) {
        let at = at + seen.searched;
        if matches!(input[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            return true;
        }
    }
    seen.searched = input.len().saturating_sub(2).max(seen.searched);
    false
}

/// Parses a head whose headers begin at `headers`.
pub(crate) fn parse(input: &[u8], headers: usize) -> Found<'_> {
    let Some(line) = RequestLine::parse(&input[..headers - 1]) else { return Found::Other };
    let mut usual = [EMPTY_HEADER; HEADERS_USUAL];
    let mut result = parse_headers(&input[headers..], &mut usual);
    let mut many;
    if result == Err(httparse::Error::TooManyHeaders) {
        many = [EMPTY_HEADER; HEADERS_MAX];
        result = parse_headers(&input[headers..], &mut many);
    }
    match result {
        Ok(Status::Complete((length, found))) => match line.with(found) {
            Ok(head) => Found::Head(head, headers + length),
            Err(why) => Found::Bad(why),
        },
        Ok(Status::Partial) => Found::Unfinished,
        Err(httparse::Error::TooManyHeaders) => Found::Bad("too many headers"),
        Err(_) => Found::Bad("invalid header"),
    }
}

/// The first line.
struct RequestLine<'i> {
    name: &'i [u8],
    target: &'i [u8],
    is_1_1: bool,
}

impl<'i> RequestLine<'i> {
    /// Parses a line without its LF.
    fn parse(line: &'i [u8]) -> Option<RequestLine<'i>> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (name, rest) = line.split_at(memchr(b' ', line)?);
        let rest = &rest[1..];
        let (target, version) = rest.split_at(memchr(b' ', rest)?);
        let is_1_1 = match version {
            b" HTTP/1.1" => true,
            b" HTTP/1.0" => false,
            _ => return None,
        };
        let is_target = |&byte: &u8| byte > b' ' && byte != 0x7f;
        let is_sound = !name.is_empty()
            && name.iter().all(|&byte| is_token(byte))
            && !target.is_empty()
            && target.iter().all(is_target);
        is_sound.then_some(RequestLine { name, target, is_1_1 })
    }

    /// The head with this request line and these headers.
    fn with(self, headers: &[Header<'i>]) -> Result<Head<'i>, &'static str> {
        let mut head = Head {
            name: self.name,
            method: Method::of(self.name),
            target: self.target,
            keep_alive: self.is_1_1,
            body: Body::None,
            expects_continue: false,
            host: None,
            origin: None,
            is_preflight: false,
            fetch_site: None,
            referer: None,
            authorization: None,
            content_type: None,
            mode: None,
            xt: None,
        };
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // The length is compared first, because most headers are irrelevant.
            match header.name.len() {
                4 if is("host") => head.host = Some(header.value),
                6 if is("origin") => head.origin = Some(header.value),
                6 if is("expect") => {
                    head.expects_continue =
                        self.is_1_1 && header.value.eq_ignore_ascii_case(b"100-continue");
                }
                7 if is("referer") => head.referer = Some(header.value),
                7 if is("x-kt-xt") => head.xt = Some(header.value),
                9 if is("x-kt-mode") => head.mode = Some(header.value),
                10 if is("connection") => {
                    head.keep_alive = keeps_alive(header.value, head.keep_alive);
                }
                12 if is("content-type") => head.content_type = Some(header.value),
                13 if is("authorization") => head.authorization = Some(header.value),
                14 if is("content-length") => head.body = with_length(head.body, header.value)?,
                14 if is("sec-fetch-site") => head.fetch_site = Some(header.value),
                17 if is("transfer-encoding") => {
                    let is_chunked = header.value.eq_ignore_ascii_case(b"chunked");
                    if !is_chunked || head.body != Body::None {
                        return Err("invalid transfer encoding");
                    }
                    head.body = Body::Chunks;
                }
                29 if is("access-control-request-method") => {
                    head.is_preflight = self.name == b"OPTIONS";
                }
                _ => {}
            }
        }
        head.is_preflight &= head.origin.is_some();
        // A proxy between an HTTP/1.0 client and this server does not know chunks, and would take
        // the bytes after them for another message.
        head.keep_alive &= self.is_1_1 || head.body != Body::Chunks;
        Ok(head)
    }
}

/// The body after a `Content-Length`, given the body known so far.
fn with_length(body: Body, value: &[u8]) -> Result<Body, &'static str> {
    const TROUBLE: &str = "invalid content length";
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| is_number).ok_or(TROUBLE)?;
    let length = Body::Bytes(text.parse().map_err(|_| TROUBLE)?);
    if body == Body::None || body == length { Ok(length) } else { Err(TROUBLE) }
}

fn keeps_alive(value: &[u8], or: bool) -> bool {
    let mut keeps = or;
    for word in value.split(|&byte| byte == b',') {
        let word = word.trim_ascii();
        if word.eq_ignore_ascii_case(b"close") {
            return false;
        }
        keeps |= word.eq_ignore_ascii_case(b"keep-alive");
    }
    keeps
}

/// Whether a method may contain this byte.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
