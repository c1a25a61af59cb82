//! Bracket expressions: `[a-z]`, `[^[:alpha:]]`.

use std::fmt::Write;

/// The expression is wrong, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct NotCompiled;

/// A set of bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Set {
    bits: [u128; 2],
}

impl Set {
    /// Reads a bracket expression after its opening bracket. Returns the set and the rest of the
    /// pattern.
    pub(super) fn read(rest: &[u8]) -> Result<(Set, &[u8]), NotCompiled> {
        let mut reader = Reader { rest, set: Set::default() };
        reader.expression()?;
        Ok((reader.set, reader.rest))
    }

    fn add(&mut self, byte: u8) {
        self.bits[usize::from(byte >> 7)] |= 1 << (byte & 0x7f);
    }

    fn has(&self, byte: u8) -> bool {
        self.bits[usize::from(byte >> 7)] >> (byte & 0x7f) & 1 == 1
    }

    /// The set in the syntax of the `regex` crate.
    pub(super) fn written(&self) -> String {
        if self.bits == [0; 2] {
            return r"[^\x00-\xFF]".into();
        }
        let mut written = String::from("[");
        let mut begun = None;
        for byte in 0..=255 {
            let low = *begun.get_or_insert(byte);
            if !self.has(byte) {
                begun = None;
            } else if byte == 255 || !self.has(byte + 1) {
                let _ = write!(written, "\\x{low:02X}-\\x{byte:02X}");
                begun = None;
            }
        }
        written.push(']');
        written
    }
}

/// A bracket expression that is being read.
struct Reader<'p> {
    rest: &'p [u8],
    set: Set,
}

/// An element of a bracket expression.
enum Element {
    Byte(u8),
    Class,
}

impl Reader<'_> {
    /// Reads everything up to the closing bracket.
    fn expression(&mut self) -> Result<(), NotCompiled> {
        let negated = self.skip(b"^");
        let mut first = true;
        loop {
            if !first && self.skip(b"]") {
                break;
            }
            let hyphen = self.rest.first() == Some(&b'-');
            if hyphen && !first && self.rest.get(1) != Some(&b']') {
                return Err(NotCompiled);
            }
            first = false;
            let Element::Byte(low) = self.element()? else { continue };
            let high = match self.rest {
                [b'-', next, ..] if *next != b']' => {
                    self.rest = &self.rest[1..];
                    match self.element()? {
                        Element::Byte(high) => high,
                        Element::Class => return Err(NotCompiled),
                    }
                }
                _ => low,
            };
            if high < low {
                return Err(NotCompiled);
            }
            (low..=high).for_each(|byte| self.set.add(byte));
        }
        if negated {
            self.set.bits.iter_mut().for_each(|word| *word = !*word);
        }
        Ok(())
    }

    /// Reads one element; adds a class to the set at once.
    fn element(&mut self) -> Result<Element, NotCompiled> {
        let [opening, kind @ (b':' | b'.' | b'='), rest @ ..] = self.rest else {
            let (byte, rest) = self.rest.split_first().ok_or(NotCompiled)?;
            self.rest = rest;
            return Ok(Element::Byte(*byte));
        };
        if *opening != b'[' {
            self.rest = &self.rest[1..];
            return Ok(Element::Byte(*opening));
        }
        let end = memchr::memmem::find(rest, &[*kind, b']']).ok_or(NotCompiled)?;
        let name = &rest[..end];
        self.rest = &rest[end + 2..];
        match (kind, name) {
            (b':', _) => {
                let class = CLASSES.iter().find(|(known, _)| known.as_bytes() == name);
                let (_, holds) = class.ok_or(NotCompiled)?;
                (0..=255).filter(holds).for_each(|byte| self.set.add(byte));
                Ok(Element::Class)
            }
            (b'=', [byte]) => {
                self.set.add(*byte);
                Ok(Element::Class)
            }
            (b'.', [byte]) => Ok(Element::Byte(*byte)),
            _ => Err(NotCompiled),
        }
    }

    fn skip(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        rest.map(|rest| self.rest = rest).is_some()
    }
}

type Class = (&'static str, fn(&u8) -> bool);

const CLASSES: [Class; 12] = [
    ("alpha", u8::is_ascii_alphabetic),
    ("digit", u8::is_ascii_digit),
    ("alnum", u8::is_ascii_alphanumeric),
    ("upper", u8::is_ascii_uppercase),
    ("lower", u8::is_ascii_lowercase),
    ("space", |byte| matches!(byte, b'\t'..=b'\r' | b' ')),
    ("blank", |byte| matches!(byte, b'\t' | b' ')),
    ("punct", u8::is_ascii_punctuation),
    ("print", |byte| matches!(byte, b' '..=b'~')),
    ("graph", u8::is_ascii_graphic),
    ("cntrl", u8::is_ascii_control),
    ("xdigit", u8::is_ascii_hexdigit),
];
