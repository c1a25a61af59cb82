//! Glob patterns over names of options and commands. (Patterns over keys are the waist's.)

use super::encoder::Failure;

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

/// Whether a name matches a pattern of `*`, `?`, `[a-c]`, `[^x]` and `\`; letters count without
/// their case.
///
/// Only the last `*` is ever tried again, so the cost is at most the product of the lengths.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star = None;
    loop {
        if of == name.len() {
            return pattern[at..].iter().all(|&byte| byte == b'*');
        }
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, of));
            at += 1;
            continue;
        }
        match one(&pattern[at..], name[of]) {
            Some(length) => {
                at += length;
                of += 1;
            }
            None => {
                let Some((after, from)) = &mut star else { return false };
                *from += 1;
                (at, of) = (*after, *from);
            }
        }
    }
}

/// Bytes of the pattern's first element if it takes this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    let same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b);
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => same(*literal, byte).then_some(2),
        [b'[', class @ ..] => {
            let negated = class.first() == Some(&b'^');
            let mut at = usize::from(negated);
            let mut found = false;
            while let Some(&first) = class.get(at).filter(|first| **first != b']') {
                match class[at..] {
                    [b'\\', literal, ..] => {
                        found |= same(literal, byte);
                        at += 2;
                    }
                    [from, b'-', to, ..] if to != b']' => {
                        let range = from.min(to)..=from.max(to);
                        found |= range.contains(&byte)
                            || range.contains(&byte.to_ascii_lowercase())
                            || range.contains(&byte.to_ascii_uppercase());
                        at += 3;
                    }
                    _ => {
                        found |= same(first, byte);
                        at += 1;
                    }
                }
            }
            (found != negated).then_some((at + 2).min(pattern.len()))
        }
        [literal, ..] => same(*literal, byte).then_some(1),
    }
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
