//! Glob patterns over names of options and commands, and how long a pattern may be.

use super::encoder::Failure;
use todana_command::glob;

/// Longest pattern, over keys too.
const PATTERN_BYTES_MAX: usize = 1024;

/// Most bytes of the patterns of one command.
const PATTERNS_BYTES_MAX: usize = 16 * PATTERN_BYTES_MAX;

/// Checks the length of a pattern, on which the cost of every comparison depends.
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

/// Whether a name matches a glob pattern; letters count without their case.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    glob(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_globs_do() {
        for (pattern, name) in [
            ("*", "x"),
            ("*", ""),
            ("max*", "maxmemory"),
            ("MAX*y", "maxmemory-policy"),
            ("m?x", "max"),
            ("m[a-c]x", "max"),
            ("m[^b]x", "max"),
            ("*a*b*", "xxaxxbxx"),
            (r"a\*b", "a*b"),
        ] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "x"), ("x", ""), ("max", "maxmemory"), ("m[^a]x", "max"), ("[", "a"), ("a?", "a")]
        {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_are_no_trouble() {
        let pattern = "a*".repeat(200);
        assert!(!matches(format!("{pattern}b").as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
