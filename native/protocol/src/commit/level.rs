//! The levels of reads.

use crate::options::{OptionField, OptionValue};

/// How new the records must be that a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// As this node has them.
    Local,
    /// With everything that any node acknowledged longer ago than a bound.
    #[default]
    Bounded,
    /// With everything that any node acknowledged before the request was received.
    Linear,
}

impl ReadLevel {
    /// All of them, in the order of [`ReadLevel::WORDS`].
    pub const ALL: [ReadLevel; 3] = [ReadLevel::Local, ReadLevel::Bounded, ReadLevel::Linear];
    /// Their names.
    pub const WORDS: [&'static str; 3] = ["local", "bounded", "linear"];

    /// The level of this name, in any case.
    pub fn named(name: &[u8]) -> Option<ReadLevel> {
        let named = |word: &&str| name.eq_ignore_ascii_case(word.as_bytes());
        Some(ReadLevel::ALL[ReadLevel::WORDS.iter().position(named)?])
    }
}

impl OptionField for ReadLevel {
    fn value(&self) -> OptionValue {
        OptionValue::Word(ReadLevel::WORDS[*self as usize].into())
    }

    fn put(&mut self, value: OptionValue) -> bool {
        let OptionValue::Word(word) = value else { return false };
        let named = ReadLevel::WORDS.iter().position(|name| *name == word);
        if let Some(number) = named {
            *self = ReadLevel::ALL[number];
        }
        named.is_some()
    }
}
