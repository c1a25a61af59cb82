//! Regular expressions in the syntax of ktserver: POSIX extended in the C locale with glibc's
//! additions (`\w \W \s \S \b \B \< \>`), searched anywhere in the key, which ends at its first
//! NUL.
//!
//! An expression is translated to the syntax of the `regex` crate, whose search takes time linear
//! in the key. Patterns that glibc refuses are refused (`*a`, `a{2,1}`, `[b-a]`, `(`, `^*`), and
//! characters that glibc takes literally are literal (`)`, `}`, `\d`). There are two differences:
//!
//! - Back-references (`\1`) are refused, because no linear-time algorithm for them is known.
//! - Expressions are refused if their automaton would have more than
//!   [`STATES_MAX`](translation::STATES_MAX) states, such as `(.{100}){100}`, or if they are longer
//!   than [`EXPRESSION_BYTES_MAX`] bytes.

mod bracket;
#[cfg(test)]
mod tests;
mod translation;

use bracket::NotCompiled;
use regex::bytes::{Regex, RegexBuilder};
use translation::Translation;

/// Longest expression in bytes.
const EXPRESSION_BYTES_MAX: usize = 4_096;
/// Most bytes of a compiled expression, and of each cache that a search uses.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Expression {
    regex: Regex,
    states: usize,
}

impl Expression {
    /// Compiles an expression up to its first NUL.
    pub(super) fn compile(pattern: &[u8]) -> Result<Expression, NotCompiled> {
        let pattern = until_nul(pattern);
        if pattern.len() > EXPRESSION_BYTES_MAX {
            return Err(NotCompiled);
        }
        let (translated, states) = Translation::of(pattern)?;
        let regex = RegexBuilder::new(&translated)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build();
        regex.map(|regex| Expression { regex, states }).map_err(|_| NotCompiled)
    }

    /// Whether the expression matches anywhere in a key.
    pub(super) fn matches(&self, key: &[u8]) -> bool {
        self.regex.is_match(until_nul(key))
    }

    /// Most steps that matching a key of this length takes.
    pub(super) fn work(&self, key_bytes: usize) -> usize {
        key_bytes.saturating_mul(self.states)
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end])
}
