//! The reply to a transaction. It is sent over as many turns as needed, so that no turn copies more
//! than one turn's output.
//!
//! Values are kept by handles. A reply consists of words, and pieces between them:
//!
//! ```text
//! words   | *2 $3 .. $1048576 |        CRLF |
//! pieces                      ^ the value   ^ a reply of the session itself
//! ```

use super::encoder::Encoder;
use super::flow::Flow;
use std::collections::VecDeque;
use todana_command::HELD_BYTES_MIN;
use todana_protocol::Splice;

/// Values of this length and more are not copied while a transaction holds its locks.
pub(super) const TRANSACTION_VALUE_BYTES_MIN: usize = 256;

/// Most values for which a turn checks whether the table still has them.
const VALUES_LOOKED_AT_MAX: usize = 4_096;

/// A piece between the words.
#[derive(Debug)]
enum Piece {
    Value(Splice),
    Words(Vec<u8>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Value(splice) => splice.bytes(),
            Piece::Words(words) => words,
        }
    }
}

/// The rest of a reply.
#[derive(Debug)]
pub(super) struct Tail {
    words: Vec<u8>,
    /// Number of words written.
    written: usize,
    /// Each piece with its position in the words, in order.
    pieces: VecDeque<(usize, Piece)>,
    /// Number of bytes written of the first piece.
    piece_written: usize,
    /// What happens when everything is written.
    pub(super) then: Flow,
}

impl Tail {
    /// Words with values between them.
    pub(super) fn new(words: Vec<u8>, values: Vec<Splice>) -> Tail {
        let pieces = values.into_iter().map(|splice| (splice.at, Piece::Value(splice)));
        let pieces = pieces.collect();
        Tail { words, written: 0, pieces, piece_written: 0, then: Flow::Continue }
    }

    /// Inserts other words at positions, which are in order and never within a reply.
    pub(super) fn insert(&mut self, others: Vec<(usize, Vec<u8>)>) {
        if others.is_empty() {
            return;
        }
        self.pieces.extend(others.into_iter().map(|(place, words)| (place, Piece::Words(words))));
        self.pieces.make_contiguous().sort_by_key(|(place, _)| *place);
    }

    /// Length of the reply.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() + self.pieces.iter().map(|(_, piece)| piece.bytes().len()).sum::<usize>()
    }

    /// Bytes that only this reply holds in memory, as far as checking some thousand values can
    /// show; later values count as a whole.
    pub(super) fn held_bytes(&self) -> usize {
        let held = |(at, (_, piece)): (usize, &(usize, Piece))| match piece {
            Piece::Value(splice) if at < VALUES_LOOKED_AT_MAX => splice.value.own_bytes(),
            Piece::Value(splice) => splice.bytes().len(),
            Piece::Words(words) => words.len(),
        };
        self.words.len() + self.pieces.iter().enumerate().map(held).sum::<usize>()
    }

    /// Writes up to about `most` bytes of replies: large values by handle, small ones as copies.
    /// True when everything is written.
    pub(super) fn write(&mut self, encoder: &mut Encoder<'_>, most: usize) -> bool {
        while let Some(room) = most.checked_sub(encoder.len()).filter(|room| *room > 0) {
            let place = self.pieces.front().map_or(self.words.len(), |(place, _)| *place);
            if self.written < place {
                let until = place.min(self.written + room);
                encoder.out.extend_from_slice(&self.words[self.written..until]);
                self.written = until;
                continue;
            }
            let Some((_, piece)) = self.pieces.pop_front() else { return true };
            match piece {
                Piece::Value(Splice { value, range, .. }) if range.len() >= HELD_BYTES_MIN => {
                    encoder.splice(value, range);
                }
                piece => {
                    let bytes = piece.bytes();
                    let until = bytes.len().min(self.piece_written + room);
                    encoder.out.extend_from_slice(&bytes[self.piece_written..until]);
                    self.piece_written = until % bytes.len();
                    if until < bytes.len() {
                        self.pieces.push_front((place, piece));
                    }
                }
            }
        }
        self.written == self.words.len() && self.pieces.is_empty()
    }
}
