//! The list of tokens and their interest, for back ends without a kernel-side list.

use super::{Interest, Token};

const ABSENT: u32 = u32::MAX;

/// A set of tokens, each with an interest. Every operation is O(1); iteration is over a dense
/// array.
#[derive(Debug, Default)]
pub(super) struct Watched {
    entries: Vec<(Token, Interest)>,
    positions: Vec<u32>,
}

impl Watched {
    /// Adds a token, or changes its interest.
    pub(super) fn set(&mut self, token: Token, interest: Interest) {
        if token >= self.positions.len() {
            self.positions.resize(token + 1, ABSENT);
        }
        match self.positions[token] {
            ABSENT => {
                self.positions[token] = self.entries.len() as u32;
                self.entries.push((token, interest));
            }
            position => self.entries[position as usize].1 = interest,
        }
    }

    /// Removes a token.
    pub(super) fn remove(&mut self, token: Token) {
        let Some(position) = self.positions.get(token).copied().filter(|p| *p != ABSENT) else {
            return;
        };
        self.positions[token] = ABSENT;
        self.entries.swap_remove(position as usize);
        if let Some((moved, _)) = self.entries.get(position as usize) {
            self.positions[*moved] = position;
        }
    }

    /// The interest of a token.
    pub(super) fn get(&self, token: Token) -> Option<Interest> {
        let position = self.positions.get(token).copied().filter(|p| *p != ABSENT)?;
        Some(self.entries[position as usize].1)
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tokens that are watched for any event.
    pub(super) fn active(&self) -> impl Iterator<Item = (Token, Interest)> + '_ {
        self.entries.iter().copied().filter(|(_, interest)| *interest != Interest::NONE)
    }
}
