//! Translates a POSIX extended expression to the syntax of the `regex` crate.

use super::bracket::{NotCompiled, Set};
use std::fmt::Write;

/// Most states of an expression, approximately.
pub(super) const STATES_MAX: usize = 4_096;

/// Most repetitions that glibc accepts.
const REPETITIONS_MAX: u32 = 0x7fff;

/// An expression that is being translated.
pub(super) struct Translation<'p> {
    rest: &'p [u8],
    out: String,
    /// States of the current group, without those of `atom`.
    states: usize,
    /// The atom that a repetition would repeat.
    atom: Option<Atom>,
    /// The enclosing groups: where each begins, and the states before it.
    groups: Vec<(usize, usize)>,
}

/// The operand of a repetition: the output from `start` to the end.
struct Atom {
    start: usize,
    states: usize,
    repeat: Option<Repeat>,
}

/// The least and the most repetitions; `None` is unbounded.
type Repeat = (u32, Option<u32>);

impl<'p> Translation<'p> {
    /// The translation, and its approximate number of states.
    pub(super) fn of(pattern: &'p [u8]) -> Result<(String, usize), NotCompiled> {
        let out = String::with_capacity(4 * pattern.len());
        let mut translation =
            Translation { rest: pattern, out, states: 1, atom: None, groups: Vec::new() };
        while let Some((byte, rest)) = translation.rest.split_first() {
            translation.rest = rest;
            translation.token(*byte)?;
        }
        translation.end_atom()?;
        if !translation.groups.is_empty() {
            return Err(NotCompiled);
        }
        Ok((translation.out, translation.states))
    }

    fn token(&mut self, byte: u8) -> Result<(), NotCompiled> {
        match byte {
            b'*' => self.repeat((0, None)),
            b'+' => self.repeat((1, None)),
            b'?' => self.repeat((0, Some(1))),
            b'{' => {
                let interval = self.interval()?;
                self.repeat(interval)
            }
            b'^' | b'$' => self.anchor(if byte == b'^' { "^" } else { "$" }),
            b'|' => {
                self.end_atom()?;
                self.states += 1;
                self.out.push('|');
                Ok(())
            }
            b'(' => {
                self.end_atom()?;
                self.groups.push((self.out.len(), self.states));
                self.states = 1;
                self.out.push_str("(?:");
                Ok(())
            }
            b')' if !self.groups.is_empty() => self.end_group(),
            b'.' => self.atom("."),
            b'[' => {
                let (set, rest) = Set::read(self.rest)?;
                self.rest = rest;
                self.atom(&set.written())
            }
            b'\\' => self.escape(),
            _ => self.literal(byte),
        }
    }

    fn escape(&mut self) -> Result<(), NotCompiled> {
        let (byte, rest) = self.rest.split_first().ok_or(NotCompiled)?;
        self.rest = rest;
        match byte {
            b'w' => self.atom("[0-9A-Za-z_]"),
            b'W' => self.atom("[^0-9A-Za-z_]"),
            b's' => self.atom(r"[\x09-\x0D\x20]"),
            b'S' => self.atom(r"[^\x09-\x0D\x20]"),
            b'b' => self.anchor(r"\b"),
            b'B' => self.anchor(r"\B"),
            b'<' => self.anchor(r"\b{start}"),
            b'>' => self.anchor(r"\b{end}"),
            b'`' => self.anchor(r"\A"),
            b'\'' => self.anchor(r"\z"),
            b'1'..=b'9' => Err(NotCompiled),
            _ => self.literal(*byte),
        }
    }

    fn literal(&mut self, byte: u8) -> Result<(), NotCompiled> {
        self.atom(&format!("\\x{byte:02X}"))
    }

    fn atom(&mut self, text: &str) -> Result<(), NotCompiled> {
        self.end_atom()?;
        self.atom = Some(Atom { start: self.out.len(), states: 1, repeat: None });
        self.out.push_str(text);
        Ok(())
    }

    /// Anchors cannot be repeated: they leave no atom behind.
    fn anchor(&mut self, text: &str) -> Result<(), NotCompiled> {
        self.end_atom()?;
        self.states += 1;
        self.out.push_str(text);
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), NotCompiled> {
        self.end_atom()?;
        let (start, before) = self.groups.pop().ok_or(NotCompiled)?;
        self.out.push(')');
        self.atom = Some(Atom { start, states: self.states, repeat: None });
        self.states = before;
        Ok(())
    }

    /// Repeats the atom. `a+?` is not lazy here but repeated twice.
    fn repeat(&mut self, repeat: Repeat) -> Result<(), NotCompiled> {
        let atom = self.atom.as_mut().ok_or(NotCompiled)?;
        match atom.repeat.map(|old| (old, both(old, repeat))) {
            None => atom.repeat = Some(repeat),
            Some((_, Some(both))) => atom.repeat = Some(both),
            Some((old, None)) => {
                let (start, states) = (atom.start, times(atom.states, old)?);
                self.out.insert_str(start, "(?:");
                write_repeat(&mut self.out, old);
                self.out.push(')');
                self.atom = Some(Atom { start, states, repeat: Some(repeat) });
            }
        }
        Ok(())
    }

    /// Ends the atom: no repetition follows.
    fn end_atom(&mut self) -> Result<(), NotCompiled> {
        let Some(Atom { states, repeat, .. }) = self.atom.take() else { return Ok(()) };
        let mut states = states;
        if let Some(repeat) = repeat {
            write_repeat(&mut self.out, repeat);
            states = times(states, repeat)?;
        }
        self.states += states;
        if self.states > STATES_MAX { Err(NotCompiled) } else { Ok(()) }
    }

    /// Reads the rest of `{m}`, `{m,}`, `{m,n}` or `{,n}`.
    fn interval(&mut self) -> Result<Repeat, NotCompiled> {
        let end = memchr::memchr(b'}', self.rest).ok_or(NotCompiled)?;
        let inside = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        let comma = inside.iter().position(|byte| *byte == b',');
        let (least, most) = match comma {
            None => (number(inside)?, Some(number(inside)?)),
            Some(at) => {
                let (least, most) = (&inside[..at], &inside[at + 1..]);
                let least = if least.is_empty() { 0 } else { number(least)? };
                (least, if most.is_empty() { None } else { Some(number(most)?) })
            }
        };
        if most.is_some_and(|most| most < least) { Err(NotCompiled) } else { Ok((least, most)) }
    }
}

fn number(digits: &[u8]) -> Result<u32, NotCompiled> {
    let text = std::str::from_utf8(digits).map_err(|_| NotCompiled)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(NotCompiled);
    }
    let number = text.parse().map_err(|_| NotCompiled)?;
    if number > REPETITIONS_MAX { Err(NotCompiled) } else { Ok(number) }
}

/// Combines two of `*`, `+` and `?` that follow one another; `None` for other repetitions.
fn both(first: Repeat, second: Repeat) -> Option<Repeat> {
    let simple = |repeat| matches!(repeat, (0 | 1, None) | (0, Some(1)));
    if !simple(first) || !simple(second) {
        return None;
    }
    let most = first.1.and(second.1);
    Some((first.0.min(second.0), most))
}

/// The number of states after a repetition.
fn times(states: usize, (least, most): Repeat) -> Result<usize, NotCompiled> {
    let copies = most.unwrap_or(least.saturating_add(1)).max(1) as usize;
    let states = states.saturating_add(1).saturating_mul(copies);
    if states > STATES_MAX { Err(NotCompiled) } else { Ok(states) }
}

fn write_repeat(out: &mut String, repeat: Repeat) {
    let _ = match repeat {
        (0, None) => write!(out, "*"),
        (1, None) => write!(out, "+"),
        (0, Some(1)) => write!(out, "?"),
        (least, None) => write!(out, "{{{least},}}"),
        (least, Some(most)) => write!(out, "{{{least},{most}}}"),
    };
}
