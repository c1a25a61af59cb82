//! Parses requests: arrays of bulk strings, and inline lines.
//!
//! The parser copies nothing and owns no input. The caller passes the input from the first byte of
//! the current request, and the parser remembers how far it has come. A request may therefore
//! arrive in any pieces, and no byte is examined twice: a large bulk string is skipped by its
//! length, and the search for the end of a long line resumes at its last position.

use super::inline;
use memchr::memchr;
use std::mem::take;

/// Limits of a client's requests, which depend on whether it has authenticated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most arguments.
    pub(super) arguments_max: usize,
    /// Longest argument.
    pub(super) argument_bytes_max: usize,
    /// Longest inline line.
    pub(super) line_bytes_max: usize,
    /// Whether these are the limits before authentication, which have their own error texts.
    pub(super) unauthenticated: bool,
}

/// The result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A complete request of this many bytes; its arguments are in [`Parser::arguments`].
    Request(usize),
    /// This many bytes without a request: an empty line or array.
    Nothing(usize),
    /// The request is incomplete: at least this many bytes are missing, and nothing can be said
    /// before they have arrived. 0 only if no byte of a request has.
    Incomplete(usize),
    /// The client does not speak RESP. Send this error and close.
    Broken(String),
    /// The client speaks HTTP. Close without a reply.
    Http,
}

/// Longest line with a count or a length. Every number fits.
const COUNT_LINE_BYTES_MAX: usize = 64;

/// Capacity in arguments that is kept between requests.
const ARGUMENTS_KEPT: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// At most the beginning of a first line has arrived.
    #[default]
    Start,
    /// This many arguments are missing.
    Arguments(usize),
    /// This many arguments are missing, and the first of them has this length.
    Body(usize, usize),
}

/// A resumable parser of requests.
#[derive(Debug, Default)]
pub(super) struct Parser {
    stage: Stage,
    /// The position in the current request.
    position: usize,
    /// Start and end of each argument: offsets in the request, or in `unquoted` for an inline one.
    ranges: Vec<(usize, usize)>,
    /// Arguments of an inline request without their quotes.
    unquoted: Vec<u8>,
    is_inline: bool,
    /// The length of the last request, if it must be processed again.
    again: Option<usize>,
}

impl Parser {
    /// Bytes kept for the current request, beyond the few that each connection may keep.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        let ranges = self.ranges.capacity().saturating_sub(ARGUMENTS_KEPT);
        let unquoted = self.unquoted.capacity().saturating_sub(ARGUMENTS_KEPT);
        ranges * size_of::<(usize, usize)>() + unquoted
    }

    /// Whether there is no incomplete request.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Start) && self.position == 0 && self.again.is_none()
    }

    /// Keeps the last complete request in place as the next one too. It is not parsed again,
    /// because its arguments are known.
    pub(super) fn stay(&mut self, length: usize) {
        self.again = Some(length);
    }

    /// Continues with the request whose first byte is the first of `input`. The input holds at
    /// least the bytes of the last call, unless that call completed a request.
    #[inline(always)]
    pub(super) fn advance(&mut self, input: &[u8], bounds: Bounds) -> Parsed {
        if let Some(length) = self.again.take() {
            return Parsed::Request(length);
        }
        if let Stage::Start = self.stage {
            self.ranges.clear();
            match input.first() {
                None => return Parsed::Incomplete(0),
                Some(b'*') => {}
                Some(_) => return self.inline(input, bounds),
            }
            let (count, end) = match number_line(input, 1) {
                Line::Number(count, end) => (count, end),
                Line::Incomplete => return Parsed::Incomplete(1),
                Line::Invalid => return broken("invalid multibulk length"),
                Line::TooLong => return broken("too big mbulk count string"),
            };
            if count <= 0 {
                return Parsed::Nothing(end);
            }
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count > bounds.arguments_max {
                return broken(match bounds.unauthenticated {
                    true => "unauthenticated multibulk length",
                    false => "invalid multibulk length",
                });
            }
            self.is_inline = false;
            self.position = end;
            self.stage = Stage::Arguments(count);
        }
        self.arguments_of_array(input, bounds)
    }

    #[inline]
    fn arguments_of_array(&mut self, input: &[u8], bounds: Bounds) -> Parsed {
        loop {
            let (left, length) = match self.stage {
                Stage::Body(left, length) => (left, length),
                Stage::Arguments(left) => match self.length_line(input, bounds) {
                    Ok(length) => (left, length),
                    Err(step) => return step,
                },
                Stage::Start => unreachable!("an array was begun"),
            };
            // Lengths are bounded by `argument_bytes_max`, positions by the input: no overflow.
            let end = self.position + length;
            if input.len() < end + 2 {
                self.stage = Stage::Body(left, length);
                return Parsed::Incomplete(end + 2 - input.len());
            }
            self.ranges.push((self.position, end));
            self.position = end + 2;
            if left == 1 {
                self.stage = Stage::Start;
                return Parsed::Request(take(&mut self.position));
            }
            self.stage = Stage::Arguments(left - 1);
        }
    }

    #[inline]
    fn length_line(&mut self, input: &[u8], bounds: Bounds) -> Result<usize, Parsed> {
        match input.get(self.position) {
            None => return Err(Parsed::Incomplete(1)),
            Some(b'$') => {}
            Some(&other) => {
                return Err(broken(&format!("expected '$', got '{}'", char::from(other))));
            }
        }
        let (length, end) = match number_line(input, self.position + 1) {
            Line::Number(length, end) => (length, end),
            Line::Incomplete => return Err(Parsed::Incomplete(1)),
            Line::Invalid => return Err(broken("invalid bulk length")),
            Line::TooLong => return Err(broken("too big bulk count string")),
        };
        match usize::try_from(length) {
            Ok(length) if length <= bounds.argument_bytes_max => {
                self.position = end;
                Ok(length)
            }
            Ok(_) if bounds.unauthenticated => Err(broken("unauthenticated bulk length")),
            _ => Err(broken("invalid bulk length")),
        }
    }

    #[cold]
    fn inline(&mut self, input: &[u8], bounds: Bounds) -> Parsed {
        let line_bytes_max = bounds.line_bytes_max;
        let Some(found) = memchr(b'\n', &input[self.position..]) else {
            self.position = input.len();
            return match input.len() > line_bytes_max {
                true => broken("too big inline request"),
                false => Parsed::Incomplete(1),
            };
        };
        let end = take(&mut self.position) + found;
        if end > line_bytes_max {
            return broken("too big inline request");
        }
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        if inline::is_http(line) {
            return Parsed::Http;
        }
        self.unquoted.clear();
        if !inline::split(line, &mut self.unquoted, &mut self.ranges) {
            return broken("unbalanced quotes in request");
        }
        if self.ranges.is_empty() {
            return Parsed::Nothing(end + 1);
        }
        if self.ranges.len() > bounds.arguments_max {
            return broken("unauthenticated multibulk length");
        }
        self.is_inline = true;
        Parsed::Request(end + 1)
    }

    /// The arguments of the request that [`Parser::advance`] completed in `input`, in order.
    #[inline]
    pub(super) fn arguments<'a>(
        &'a self,
        input: &'a [u8],
    ) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let bytes = if self.is_inline { &self.unquoted } else { input };
        self.ranges.iter().map(move |&(start, end)| &bytes[start..end])
    }

    /// Releases the memory that an unusually long request needed.
    #[inline]
    pub(super) fn shrink(&mut self) {
        if self.ranges.capacity() > ARGUMENTS_KEPT || self.unquoted.capacity() > ARGUMENTS_KEPT {
            self.ranges.clear();
            self.ranges.shrink_to(ARGUMENTS_KEPT);
            self.unquoted.clear();
            self.unquoted.shrink_to(ARGUMENTS_KEPT);
        }
    }
}

fn broken(what: &str) -> Parsed {
    Parsed::Broken(format!("Protocol error: {what}"))
}

pub(super) enum Line {
    /// A number and the offset after its line.
    Number(i64, usize),
    Incomplete,
    Invalid,
    TooLong,
}

/// Parses a number and the two bytes that end its line. Like Redis, it accepts any byte after CR.
#[inline]
pub(super) fn number_line(input: &[u8], start: usize) -> Line {
    let mut number = 0;
    let mut at = start;
    // Up to eight digits cannot overflow; longer numbers take the slow path.
    while at < input.len() && at - start < 8 {
        match input[at] {
            digit @ b'0'..=b'9' => number = number * 10 + i64::from(digit - b'0'),
            b'\r' if at > start && (input[start] != b'0' || at - start == 1) => {
                return if at + 1 < input.len() {
                    Line::Number(number, at + 2)
                } else {
                    Line::Incomplete
                };
            }
            _ => break,
        }
        at += 1;
    }
    any_number_line(input, start)
}

#[cold]
fn any_number_line(input: &[u8], start: usize) -> Line {
    let rest = &input[start..];
    let Some(end) = memchr(b'\r', rest) else {
        return if rest.len() > COUNT_LINE_BYTES_MAX { Line::TooLong } else { Line::Incomplete };
    };
    if end > COUNT_LINE_BYTES_MAX {
        return Line::TooLong;
    }
    if end + 1 == rest.len() {
        return Line::Incomplete;
    }
    match super::number::integer(&rest[..end]) {
        Some(number) => Line::Number(number, start + end + 2),
        None => Line::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        arguments_max: 4,
        argument_bytes_max: 100,
        line_bytes_max: 64,
        unauthenticated: false,
    };

    fn whole(input: &[u8]) -> (Parsed, Vec<Vec<u8>>) {
        let mut parser = Parser::default();
        let step = parser.advance(input, BOUNDS);
        let arguments = match step {
            Parsed::Request(_) => parser.arguments(input).map(<[u8]>::to_vec).collect(),
            _ => Vec::new(),
        };
        (step, arguments)
    }

    #[test]
    fn an_array_of_bulk_strings_is_a_request() {
        let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nrest";
        assert_eq!(whole(input), (Parsed::Request(20), vec![b"GET".to_vec(), b"k".to_vec()]));
    }

    #[test]
    fn bytes_known_to_be_missing_are_reported() {
        assert_eq!(whole(b"*1\r\n$50\r\nabc").0, Parsed::Incomplete(49));
        assert_eq!(whole(b"*1\r\n$5").0, Parsed::Incomplete(1));
    }

    #[test]
    fn empty_arrays_and_lines_ask_for_nothing() {
        assert_eq!(whole(b"*0\r\n").0, Parsed::Nothing(4));
        assert_eq!(whole(b"*-1\r\n").0, Parsed::Nothing(5));
        assert_eq!(whole(b"\r\n").0, Parsed::Nothing(2));
        assert_eq!(whole(b"  \n").0, Parsed::Nothing(3));
    }

    #[test]
    fn limits_hold_at_their_edge_and_not_beyond() {
        let request = |length: usize| format!("*1\r\n${length}\r\n{}\r\n", "x".repeat(length));
        assert_eq!(whole(request(100).as_bytes()).0, Parsed::Request(4 + 6 + 102));
        assert_eq!(whole(request(101).as_bytes()).0, broken("invalid bulk length"));
        assert_eq!(whole(request(0).as_bytes()).0, Parsed::Request(4 + 4 + 2));
        assert_eq!(whole(b"*1\r\n$-1\r\n").0, broken("invalid bulk length"));
        assert_eq!(whole(b"*4\r\n").0, Parsed::Incomplete(1));
        assert_eq!(whole(b"*5\r\n").0, broken("invalid multibulk length"));
        let line = |length: usize| format!("{}\n", "x".repeat(length));
        assert_eq!(whole(line(64).as_bytes()).0, Parsed::Request(65));
        assert_eq!(whole(line(65).as_bytes()).0, broken("too big inline request"));
        assert_eq!(whole(&[b'x'; 65]).0, broken("too big inline request"));
        assert_eq!(whole(&[b'x'; 64]).0, Parsed::Incomplete(1));
    }

    #[test]
    fn numbers_are_strict() {
        for bad in ["", "+1", "01", "1x", "-", "99999999999999999999"] {
            let array = format!("*{bad}\r\n");
            assert_eq!(whole(array.as_bytes()).0, broken("invalid multibulk length"), "{bad}");
        }
        let digits = [b"*".as_slice(), &[b'1'; 65]].concat();
        assert_eq!(whole(&digits).0, broken("too big mbulk count string"));
    }

    #[test]
    fn a_request_may_be_cut_anywhere() {
        let bounds = Bounds { argument_bytes_max: 300, ..BOUNDS };
        let arguments = [b"MSET".to_vec(), Vec::new(), vec![b'x'; 300], b"\r\n$1\r\n".to_vec()];
        let bulk = |it: &Vec<u8>| {
            [format!("${}\r\n", it.len()).as_bytes(), it.as_slice(), b"\r\n".as_slice()].concat()
        };
        let array = [b"*4\r\n".to_vec(), arguments.iter().flat_map(bulk).collect()].concat();
        let line = b"SET 'a b' \"\\r\\n\"  c\r\n".to_vec();
        let words: Vec<Vec<u8>> = [&b"SET"[..], b"a b", b"\r\n", b"c"].map(<[u8]>::to_vec).into();
        for (input, arguments) in [(array, arguments.to_vec()), (line, words)] {
            let longer = [&input[..], b"*1\r\n"].concat();
            for first in 0..=input.len() {
                for second in [first, first + 1, input.len() - 1] {
                    let mut parser = Parser::default();
                    for end in [first, second].into_iter().filter(|end| *end < input.len()) {
                        let Parsed::Incomplete(missing) = parser.advance(&input[..end], bounds)
                        else {
                            panic!("complete after {end} bytes");
                        };
                        assert_eq!(missing == 0, end == 0, "{end}");
                        assert!(end + missing <= input.len(), "{end} and {missing}");
                    }
                    let parsed = parser.advance(&longer, bounds);
                    assert_eq!(parsed, Parsed::Request(input.len()), "{first}, {second}");
                    let found: Vec<_> = parser.arguments(&longer).map(<[u8]>::to_vec).collect();
                    assert_eq!(found, arguments, "{first}, {second}");
                }
            }
        }
    }

    #[test]
    fn a_large_bulk_in_pieces_is_not_looked_at_again() {
        let bounds = Bounds { argument_bytes_max: 1 << 20, ..BOUNDS };
        let input = [b"*1\r\n$1000000\r\n".as_slice(), &[b'x'; 1_000_000], b"\r\n"].concat();
        let mut parser = Parser::default();
        for end in 1..input.len() {
            assert!(matches!(parser.advance(&input[..end], bounds), Parsed::Incomplete(_)));
        }
        assert_eq!(parser.advance(&input, bounds), Parsed::Request(input.len()));
    }
}
