//! What a guest and its seat send each other: submissions, and the answers to them.
//!
//! ```text
//!  parcel    per submission: number 8 | length 4 | its bytes; the first of them is its head
//!            head 40 (hexadecimal): the guest waits for an entry of the log, of this index 8
//!  answers   per answer: number 8 | length 4 | outcome 1 | the tape of the replies
//!            outcome: 0 applied, 1 dropped, 2 unknown, 3 fresh
//! ```
//!
//! Numbers begin with the lowest byte. The crate of the protocols knows what a submission is.

use crate::submission::Outcome;
use todana_command::Tape;

/// The version of parcels, answers, submissions of guests and tapes. A guest works only with a seat
/// that has the same.
pub const GUEST_WIRE: u8 = 1;

/// Added to the head of a submission that changes nothing.
pub const ONLY_READS: u8 = 0x80;

/// The head of a wait for an entry.
const ENTRY: u8 = 0x40;

/// What a guest wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'b> {
    /// To have this executed.
    Submission(&'b [u8]),
    /// To know when the entry of this index is applied.
    Entry(u64),
}

/// The answer of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'b> {
    /// See [`Outcome::Applied`]. The bytes are a tape.
    Applied(&'b [u8]),
    /// See [`Outcome::Dropped`].
    Dropped,
    /// See [`Outcome::Unknown`].
    Unknown,
    /// See [`Outcome::Fresh`].
    Fresh,
}

impl Answer<'_> {
    /// The answer as the outcome of a submission.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Answer::Applied(tape) => Outcome::Applied(Tape::from_bytes(tape.to_vec())),
            Answer::Dropped => Outcome::Dropped,
            Answer::Unknown => Outcome::Unknown,
            Answer::Fresh => Outcome::Fresh,
        }
    }
}

/// The bytes of a wait for an entry, as a submission has them.
pub(crate) fn entry(index: u64) -> Vec<u8> {
    let mut bytes = vec![ENTRY];
    bytes.extend_from_slice(&index.to_le_bytes());
    bytes
}

/// Whether a submission of these bytes changes nothing.
pub(crate) fn only_reads(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|head| head & (ONLY_READS | ENTRY) != 0)
}

/// Appends a submission.
pub(crate) fn put(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_framed(out, number, &[], bytes);
}

/// Appends an answer.
pub fn put_answer(out: &mut Vec<u8>, number: u64, answer: Answer<'_>) {
    let (outcome, tape) = match answer {
        Answer::Applied(tape) => (0, tape),
        Answer::Dropped => (1, &[][..]),
        Answer::Unknown => (2, &[][..]),
        Answer::Fresh => (3, &[][..]),
    };
    put_framed(out, number, &[outcome], tape);
}

fn put_framed(out: &mut Vec<u8>, number: u64, head: &[u8], bytes: &[u8]) {
    // A reply is limited, and so is a submission.
    let length = u32::try_from(head.len() + bytes.len()).expect("4 GiB");
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(bytes);
}

/// The numbered parts of some bytes, until they end or are broken.
#[derive(Clone, Copy, Debug)]
struct Frames<'b> {
    rest: &'b [u8],
}

impl<'b> Frames<'b> {
    /// The next part. `read` finds what it is; if it finds nothing, the bytes are broken.
    fn next<T>(&mut self, read: impl FnOnce(&'b [u8]) -> Option<T>) -> Option<(u64, T)> {
        let (number, rest) = self.rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let found = read(bytes)?;
        self.rest = rest;
        Some((u64::from_le_bytes(*number), found))
    }
}

/// What a parcel has.
#[derive(Clone, Copy, Debug)]
pub struct Wants<'b>(Frames<'b>);

/// What a guest wants, with its numbers.
pub fn wanted(parcel: &[u8]) -> Wants<'_> {
    Wants(Frames { rest: parcel })
}

impl Wants<'_> {
    /// After the last one: whether no byte is left, so that the bytes are not broken.
    pub fn is_whole(self) -> bool {
        self.0.rest.is_empty()
    }
}

impl<'b> Iterator for Wants<'b> {
    type Item = (u64, Wanted<'b>);

    fn next(&mut self) -> Option<(u64, Wanted<'b>)> {
        self.0.next(|bytes| match bytes.split_first()? {
            (&ENTRY, index) => Some(Wanted::Entry(u64::from_le_bytes(index.try_into().ok()?))),
            _ => Some(Wanted::Submission(bytes)),
        })
    }
}

/// The answers in some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers<'b>(Frames<'b>);

impl<'b> Answers<'b> {
    pub(crate) fn of(bytes: &'b [u8]) -> Answers<'b> {
        Answers(Frames { rest: bytes })
    }
}

impl<'b> Iterator for Answers<'b> {
    type Item = (u64, Answer<'b>);

    fn next(&mut self) -> Option<(u64, Answer<'b>)> {
        self.0.next(|bytes| match bytes.split_first()? {
            (0, tape) => Some(Answer::Applied(tape)),
            (1, []) => Some(Answer::Dropped),
            (2, []) => Some(Answer::Unknown),
            (3, []) => Some(Answer::Fresh),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_has_what_was_put_into_it() {
        let mut parcel = Vec::new();
        put(&mut parcel, 7, &[ONLY_READS, 1, 2]);
        put(&mut parcel, u64::MAX, &entry(300));
        let mut found = wanted(&parcel);
        assert_eq!(found.next(), Some((7, Wanted::Submission(&[ONLY_READS, 1, 2]))));
        assert_eq!(found.next(), Some((u64::MAX, Wanted::Entry(300))));
        assert_eq!(found.next(), None);
        assert!(found.is_whole());
        for cut in 1..parcel.len() {
            let mut found = wanted(&parcel[..cut]);
            let whole = found.by_ref().count();
            assert!(whole < 2, "cut at {cut}");
            assert_eq!(found.is_whole(), cut == 15, "cut at {cut}");
        }
    }

    #[test]
    fn answers_are_what_was_put() {
        let all = [Answer::Applied(b"tape"), Answer::Dropped, Answer::Unknown, Answer::Fresh];
        let mut bytes = Vec::new();
        for (number, answer) in all.iter().enumerate() {
            put_answer(&mut bytes, number as u64, *answer);
        }
        let found: Vec<_> = Answers::of(&bytes).collect();
        let expected: Vec<_> = (0..).zip(all).collect();
        assert_eq!(found, expected);
        // An outcome that nobody knows.
        let mut broken = Vec::new();
        put_framed(&mut broken, 1, &[4], &[]);
        assert_eq!(Answers::of(&broken).next(), None);
    }
}
