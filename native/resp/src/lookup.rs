//! Finds the command of a word without allocation, in a hash table built at compile time from the
//! word's length and three of its letters.

use super::table::{COMMANDS, NAMES, Name, TABLE};

const BUCKETS: usize = 1_024;
const EMPTY: u16 = u16::MAX;

/// Longest name of a command that is not a subcommand.
const WORD_BYTES_MAX: usize = 16;

/// For each hash, the number of its command, or of another command whose bucket was taken.
static WORDS: [u16; BUCKETS] = buckets();

const fn buckets() -> [u16; BUCKETS] {
    assert!(COMMANDS.len() <= EMPTY as usize);
    let mut buckets = [EMPTY; BUCKETS];
    let mut number = 0;
    while number < COMMANDS.len() {
        let name = COMMANDS[number].as_bytes();
        if !has_bar(name) {
            assert!(name.len() <= WORD_BYTES_MAX);
            let mut bucket = hash(name);
            while buckets[bucket] != EMPTY {
                bucket = (bucket + 1) % BUCKETS;
            }
            buckets[bucket] = number as u16;
        }
        number += 1;
    }
    buckets
}

const fn has_bar(name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() {
        if name[at] == b'|' {
            return true;
        }
        at += 1;
    }
    false
}

/// Ignores the case of letters. `word` is not empty.
#[inline]
const fn hash(word: &[u8]) -> usize {
    let length = word.len();
    let first = (word[0] | 0x20) as u32;
    let middle = (word[length / 2] | 0x20) as u32;
    let last = (word[length - 1] | 0x20) as u32;
    let mixed =
        (first | middle << 8 | last << 16 | (length as u32) << 24).wrapping_mul(0x9E37_79B1);
    (mixed >> 22) as usize
}

/// The command of this name; subcommands are excluded.
#[inline]
pub(super) fn command(word: &[u8]) -> Option<Name> {
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let mut bucket = hash(word);
    loop {
        let number = WORDS[bucket];
        if number == EMPTY {
            return None;
        }
        if COMMANDS[usize::from(number)].as_bytes().eq_ignore_ascii_case(word) {
            return Some(NAMES[usize::from(number)]);
        }
        bucket = (bucket + 1) % BUCKETS;
    }
}

/// The subcommand of this name.
pub(super) fn subcommand(container: Name, word: &[u8]) -> Option<Name> {
    let found = subcommands(container)
        .find(|name| name.spec().own_name().as_bytes().eq_ignore_ascii_case(word))?;
    Some(found)
}

/// The subcommands of a command, which follow it in the table.
pub(super) fn subcommands(container: Name) -> impl Iterator<Item = Name> {
    let number = container as usize;
    let name = container.spec().name;
    let follow = TABLE[number + 1..].iter().take_while(move |spec| spec.container() == Some(name));
    follow.zip(&NAMES[number + 1..]).map(|(_, name)| *name)
}

/// The command or subcommand of a full name in the form of the table, such as `client|list`.
pub(super) fn by_full_name(word: &[u8]) -> Option<Name> {
    match word.iter().position(|&byte| byte == b'|') {
        None => command(word),
        Some(bar) => subcommand(command(&word[..bar])?, &word[bar + 1..]),
    }
}

/// The commands of these full names, each once.
pub(super) fn distinct(names: &[&[u8]]) -> Vec<Name> {
    let mut seen = [false; NAMES.len()];
    let known = names.iter().filter_map(|name| by_full_name(name));
    known.filter(|name| !std::mem::replace(&mut seen[*name as usize], true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for (number, name) in COMMANDS.iter().enumerate() {
            let found = by_full_name(name.as_bytes()).unwrap();
            assert_eq!(found as usize, number, "{name}");
            assert_eq!(by_full_name(name.to_ascii_uppercase().as_bytes()), Some(found));
        }
    }

    #[test]
    fn other_words_are_not() {
        for word in
            ["", "ge", "gett", "g\u{0}t", "client|", "|", "get|", "a-very-long-command-name"]
        {
            assert_eq!(by_full_name(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn buckets_are_mostly_met_at_once() {
        let chains = COMMANDS.iter().filter(|name| {
            !has_bar(name.as_bytes()) && {
                let number = WORDS[hash(name.as_bytes())];
                COMMANDS[usize::from(number)] != **name
            }
        });
        assert!(chains.count() <= 12);
    }
}
