//! What a guest and its seat send each other: submissions, and the answers to them.
//!
//! ```text
//!  parcel    per submission: number 8 | length 4 | its bytes; the first of them is its head
//!            head 40 (hexadecimal): the guest waits for an entry of the log, of this index 8
//!            head 20, 21: it wants to learn of changes of keys with this prefix, or no longer;
//!            head 22: of none any more. The number is 0
//!  answers   per answer: number 8 | length 4 | outcome 1 | the tape of the replies
//!            outcome: 0 applied, 1 dropped, 2 unknown, 3 fresh
//!  changes   per change: number 8 of the submission that has made it, or 0 | length 4 | kind 1 |
//!            key
//!            kind: 0 this key, 1 any key
//! ```
//!
//! Numbers begin with the lowest byte. The crate of the protocols knows what a submission is.

use crate::submission::Outcome;
use todana_command::Tape;

/// The version of parcels, answers, submissions of guests and tapes. A guest works only with a seat
/// that has the same.
pub const GUEST_WIRE: u8 = 2;

/// Added to the head of a submission that changes nothing.
pub const ONLY_READS: u8 = 0x80;

/// The head of a wait for an entry.
const ENTRY: u8 = 0x40;

/// The heads of what a guest wants to learn.
const PREFIX: u8 = 0x20;
const NO_PREFIX: u8 = 0x21;
const NOTHING: u8 = 0x22;

/// What a guest wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'b> {
    /// To have this executed.
    Submission(&'b [u8]),
    /// To know when the entry of this index is applied.
    Entry(u64),
    /// To learn of changes, or no longer.
    News(News<'b>),
}

/// The changes of which a guest wants to learn, beside those of keys that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'b> {
    /// Those of keys with this prefix.
    Prefix(&'b [u8]),
    /// Those of keys with this prefix no longer.
    NoPrefix(&'b [u8]),
    /// None, until it says or reads something else.
    Nothing,
}

/// What a guest learns of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'b> {
    /// This key has changed. If the guest's own submission of this number has done it, that comes
    /// before the answer.
    Key {
        /// The key.
        key: &'b [u8],
        /// The number.
        by: Option<u64>,
    },
    /// Any key may have changed.
    All,
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

/// Appends what a guest wants to learn.
pub(crate) fn put_news(out: &mut Vec<u8>, news: News<'_>) {
    let (head, prefix) = match news {
        News::Prefix(prefix) => (PREFIX, prefix),
        News::NoPrefix(prefix) => (NO_PREFIX, prefix),
        News::Nothing => (NOTHING, &[][..]),
    };
    put_framed(out, 0, &[head], prefix);
}

/// Appends a change.
pub fn put_change(out: &mut Vec<u8>, change: Change<'_>) {
    match change {
        Change::Key { key, by } => put_framed(out, by.unwrap_or(0), &[0], key),
        Change::All => put_framed(out, 0, &[1], &[]),
    }
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
            (&PREFIX, prefix) => Some(Wanted::News(News::Prefix(prefix))),
            (&NO_PREFIX, prefix) => Some(Wanted::News(News::NoPrefix(prefix))),
            (&NOTHING, []) => Some(Wanted::News(News::Nothing)),
            _ => Some(Wanted::Submission(bytes)),
        })
    }
}

/// Changes. Bytes that are broken stand for a change of any key.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'b>(Frames<'b>);

/// Those in some bytes.
pub fn changes(bytes: &[u8]) -> Changes<'_> {
    Changes(Frames { rest: bytes })
}

impl<'b> Iterator for Changes<'b> {
    type Item = Change<'b>;

    fn next(&mut self) -> Option<Change<'b>> {
        let Some((number, (kind, key))) = self.0.next(|bytes| bytes.split_first()) else {
            let broken = std::mem::take(&mut self.0.rest);
            return (!broken.is_empty()).then_some(Change::All);
        };
        match (kind, key) {
            (0, key) => Some(Change::Key { key, by: (number > 0).then_some(number) }),
            // Of a kind that is not known, too.
            _ => Some(Change::All),
        }
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
    fn news_and_changes_are_what_was_put() {
        let all = [News::Prefix(b""), News::Prefix(b"a:"), News::NoPrefix(b"a:"), News::Nothing];
        let mut parcel = Vec::new();
        all.iter().for_each(|news| put_news(&mut parcel, *news));
        let found: Vec<_> = wanted(&parcel).collect();
        assert_eq!(found, all.map(|news| (0, Wanted::News(news))));
        let all = [
            Change::Key { key: b"", by: None },
            Change::Key { key: b"k", by: Some(7) },
            Change::All,
        ];
        let mut changes = Vec::new();
        all.iter().for_each(|change| put_change(&mut changes, *change));
        let found: Vec<_> = super::changes(&changes).collect();
        assert_eq!(found, all);
        // Broken ones are no reason to believe that nothing has changed.
        let ends = [0, 13, 27, 40];
        assert_eq!(changes.len(), 40);
        for cut in 0..=40 {
            let found: Vec<_> = super::changes(&changes[..cut]).collect();
            let whole = ends.iter().filter(|end| (1..=cut).contains(*end)).count();
            let expected = match ends.contains(&cut) {
                true => all[..whole].to_vec(),
                false => [&all[..whole], &[Change::All]].concat(),
            };
            assert_eq!(found, expected, "{cut}");
        }
        changes[13 + 12] = 9;
        assert_eq!(super::changes(&changes).nth(1), Some(Change::All));
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
