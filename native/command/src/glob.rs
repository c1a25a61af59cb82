//! Glob patterns of KEYS and SCAN: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, `\x`.
//!
//! Matching never goes back further than to the last `*`: an earlier one need not be tried again,
//! since whatever it could give up, the later one can take. So the cost is at most pattern times
//! text, with no recursion and no memory.

/// Whether the whole text matches the pattern. Bytes, no character sets.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when a match fails: after the last star, one byte further in the text.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if let (true, Some(&byte)) = (p < pattern.len(), text.get(t))
            && let Some(len) = match_one(&pattern[p..], byte)
        {
            (p, t) = (p + len, t + 1);
            continue;
        }
        match retry {
            Some((after_star, from)) if from < text.len() => {
                (p, t) = (after_star, from + 1);
                retry = Some((after_star, from + 1));
            }
            _ => return false,
        }
    }
}

/// The length of the pattern's first item if it matches the byte. The item is no star.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', ..] => {
            let (matches, len) = match_set(pattern, byte);
            matches.then_some(len)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// Whether a set that starts at `[` holds the byte, and the set's length. A set without end reaches
/// to the end of the pattern.
fn match_set(pattern: &[u8], byte: u8) -> (bool, usize) {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_match_whole_texts() {
        let matching = [
            ("*", ""),
            ("*", "anything"),
            ("", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h*llo", "hllo"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("h\\*llo", "h*llo"),
            ("[\\]]", "]"),
            ("a*b*c", "aXbYbZc"),
            ("*a*a", "aaaa"),
            ("[a", "a"),
            ("a\\", "a\\"),
        ];
        for (pattern, text) in matching {
            assert!(glob(pattern.as_bytes(), text.as_bytes()), "{pattern:?} ~ {text:?}");
        }
        let different = [
            ("", "a"),
            ("?", ""),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("h\\*llo", "hello"),
            ("a*b*c", "aXbYbZ"),
            ("[]a", "a"),
            ("abc", "ab"),
            ("ab", "abc"),
        ];
        for (pattern, text) in different {
            assert!(!glob(pattern.as_bytes(), text.as_bytes()), "{pattern:?} ~ {text:?}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_pattern_times_text() {
        let pattern = "*a".repeat(2_000);
        let text = "a".repeat(1_999) + "b";
        assert!(!glob(pattern.as_bytes(), text.as_bytes()));
    }
}
