//! Inline requests: a line of words, some quoted, as a person types them into telnet.

/// Whether a line is the beginning of an HTTP request or its `Host` header: a web page, or a server
/// that was misled into connecting, is the client.
pub(super) fn is_http(line: &[u8]) -> bool {
    const VERBS: [&[u8]; 8] =
        [b"POST", b"PUT", b"HEAD", b"PATCH", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE"];
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let word = &line[..end];
    if VERBS.iter().any(|verb| word.eq_ignore_ascii_case(verb)) {
        return true;
    }
    if line.len() >= 5 && line[..5].eq_ignore_ascii_case(b"host:") {
        return true;
    }
    // GET is a Redis command too; the end of the line shows whether it is HTTP.
    let last = line.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
    word.eq_ignore_ascii_case(b"GET") && last.len() >= 5 && last[..5].eq_ignore_ascii_case(b"http/")
}

/// Splits a line into words, appended to `words` without their quotes, each with a range. False if
/// quotes do not close, or close in the middle of a word.
///
/// In double quotes, `\xHH`, `\n`, `\r`, `\t`, `\b` and `\a` have their meaning in C, and a
/// backslash before any other byte means that byte; in single quotes only `\'` is special.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, ranges: &mut Vec<(usize, usize)>) -> bool {
    let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b || byte == 0;
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return true;
        }
        let start = words.len();
        let mut quote = None;
        loop {
            let byte = line.get(at).copied();
            match (quote, byte) {
                (Some(_), None) => return false,
                (None, None) => break,
                (None, Some(byte)) if is_space(byte) => break,
                (None, Some(byte @ (b'"' | b'\''))) => quote = Some(byte),
                (Some(open), Some(byte)) if byte == open => {
                    if line.get(at + 1).is_some_and(|&next| !is_space(next)) {
                        return false;
                    }
                    quote = None;
                }
                (Some(b'\''), Some(b'\\')) if line.get(at + 1) == Some(&b'\'') => {
                    words.push(b'\'');
                    at += 1;
                }
                (Some(b'"'), Some(b'\\')) if at + 1 < line.len() => {
                    at += 1;
                    if let Some(code) = hexadecimal(&line[at..]) {
                        words.push(code);
                        at += 2;
                    } else {
                        words.push(escaped(line[at]));
                    }
                }
                (_, Some(byte)) => words.push(byte),
            }
            at += 1;
        }
        ranges.push((start, words.len()));
    }
}

fn escaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// The byte that `xHH` encodes.
fn hexadecimal(bytes: &[u8]) -> Option<u8> {
    let [b'x', high, low, ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut bytes, &mut ranges)
            .then(|| ranges.iter().map(|&(a, b)| bytes[a..b].escape_ascii().to_string()).collect())
    }

    #[test]
    fn words_are_separated_by_space() {
        assert_eq!(words("  set  a\tb ").unwrap(), ["set", "a", "b"]);
        assert_eq!(words("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn quotes_keep_spaces_and_escapes() {
        assert_eq!(words(r#"set "a b" 'c d'"#).unwrap(), ["set", "a b", "c d"]);
        assert_eq!(words(r#""\x41\n\q\"" 'it\'s \n'"#).unwrap(), [r#"A\nq\""#, r"it\'s \\n"]);
        assert_eq!(words(r#"a"b c""#).unwrap(), ["ab c"]);
        assert_eq!(words(r#""" ''"#).unwrap(), ["", ""]);
    }

    #[test]
    fn open_and_misplaced_quotes_are_refused() {
        for line in [r#"a "b"#, r"a 'b", r#""a"b"#, r#"'a'"b""#, r#""a\"#] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn http_is_recognised_and_get_is_not() {
        for line in ["POST / HTTP/1.1", "Host: localhost", "host:x", "GET / HTTP/1.1", "put /x"] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
        for line in ["GET key", "get http", "SET post put", "PING", "postpone"] {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
