//! Glob patterns over names of options and commands, and the limit of a pattern's length.

use super::encoder::Failure;
use todana_command::Glob;

/// Longest pattern, including patterns over keys.
const PATTERN_BYTES_MAX: usize = 1024;

/// Most bytes in all patterns of one command.
const PATTERNS_BYTES_MAX: usize = 16 * PATTERN_BYTES_MAX;

/// Checks the length of a pattern, since the cost of every comparison depends on it.
pub(super) fn check(pattern: &[u8]) -> Result<(), Failure> {
    match pattern.len() {
        0..=PATTERN_BYTES_MAX => Ok(()),
        _ => Err(format!("ERR pattern is longer than {PATTERN_BYTES_MAX} bytes").into()),
    }
}

/// Checks the lengths of several patterns.
pub(super) fn check_all(patterns: &[&[u8]]) -> Result<(), Failure> {
    patterns.iter().try_for_each(|pattern| check(pattern))?;
    if patterns.iter().map(|pattern| pattern.len()).sum::<usize>() > PATTERNS_BYTES_MAX {
        return Err(format!("ERR patterns are longer than {PATTERNS_BYTES_MAX} bytes").into());
    }
    Ok(())
}

/// A glob pattern over names that ignores the case of letters.
pub(super) struct Names(Glob);

impl Names {
    pub(super) fn new(pattern: &[u8]) -> Names {
        Names(Glob::prepared(pattern.to_ascii_lowercase()))
    }

    pub(super) fn hold(&self, name: &str) -> bool {
        self.0.matches(name.to_ascii_lowercase().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_globs_do() {
        for (pattern, name) in [
            ("*", "x"),
            ("max*", "maxmemory"),
            ("MAX*y", "maxmemory-policy"),
            ("m?x", "max"),
            ("m[a-c]x", "max"),
            ("m[^b]x", "max"),
            ("*a*b*", "xxaxxbxx"),
            (r"a\*b", "a*b"),
        ] {
            assert!(Names::new(pattern.as_bytes()).hold(name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "x"),
            ("x", ""),
            ("*", ""),
            ("max", "maxmemory"),
            ("m[^a]x", "max"),
            ("[", "a"),
            ("a?", "a"),
        ] {
            assert!(!Names::new(pattern.as_bytes()).hold(name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_are_no_trouble() {
        let pattern = "a*".repeat(200);
        assert!(!Names::new(format!("{pattern}b").as_bytes()).hold(&"a".repeat(5000)));
    }
}
