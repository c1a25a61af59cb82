//! What a guest asks a member to run: the commands of a submission.
//!
//! ```text
//!  submission   level 1 | records
//!  record       kind 1 | length of the rest 4 | database 4 | limit 8 | body
//!
//!  level        0 local, 1 bounded, 2 linear; 128 is added if the commands only read
//!  kind, body   0  a command
//!               1  a transaction, and before it: units of the session's own work 8
//!               2  the key of a watch
//!               3  keys that clients track, each with its length 4: the next record reads them. It
//!                  has no reply
//!  limit        the longest value that it may build, in bytes
//! ```
//!
//! Numbers begin with the lowest byte; commands and transactions are encoded as in the log. Both
//! nodes have the same version of this ([`todana_group::GUEST_WIRE`]).

use super::level::ReadLevel;
use todana_command::{Command, LoggedWatch, encode_transaction};
use todana_group::ONLY_READS;

/// Bytes of a record before its database.
const FRAME_BYTES: usize = 5;

const COMMAND: u8 = 0;
const TRANSACTION: u8 = 1;
const WATCH: u8 = 2;
const TRACKED: u8 = 3;

/// The first byte of a submission.
pub(super) fn head(level: ReadLevel, only_reads: bool) -> u8 {
    level as u8 | if only_reads { ONLY_READS } else { 0 }
}

/// Appends a command.
pub(super) fn put_command(out: &mut Vec<u8>, database: usize, command: &Command<'_>, limit: usize) {
    put(out, COMMAND, database, limit, |out| command.encode(out));
}

/// Appends a transaction, with the units of the work that the session does for it.
pub(super) fn put_transaction(
    out: &mut Vec<u8>,
    watches: &[LoggedWatch<'_>],
    commands: &[(usize, Command<'_>)],
    other_units: u64,
    limit: usize,
) {
    put(out, TRANSACTION, 0, limit, |out| {
        out.extend_from_slice(&other_units.to_le_bytes());
        encode_transaction(out, watches, commands);
    });
}

/// Appends the begin of a watch.
pub(super) fn put_watch(out: &mut Vec<u8>, database: usize, key: &[u8]) {
    put(out, WATCH, database, 0, |out| out.extend_from_slice(key));
}

/// Appends keys that the next record reads.
pub(crate) fn put_tracked(out: &mut Vec<u8>, keys: &[&[u8]]) {
    put(out, TRACKED, 0, 0, |out| {
        for key in keys {
            // A key of a request is limited.
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
        }
    });
}

fn put(
    out: &mut Vec<u8>,
    kind: u8,
    database: usize,
    limit: usize,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    out.extend_from_slice(&u32::try_from(database).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&(limit as u64).to_le_bytes());
    body(out);
    // A record is a value of a limited length and little else.
    let length = u32::try_from(out.len() - start - FRAME_BYTES).expect("a record of 4 GiB");
    out[start + 1..start + FRAME_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// What a guest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked<'b> {
    /// An encoded command.
    Command { database: usize, limit: usize, body: &'b [u8] },
    /// An encoded transaction.
    Transaction { limit: usize, other_units: u64, body: &'b [u8] },
    /// The begin of a watch.
    Watch { database: usize, key: &'b [u8] },
    /// To learn of changes of the keys that the next record reads.
    Tracked(TrackedKeys<'b>),
}

/// Keys that the next record reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackedKeys<'b>(&'b [u8]);

impl<'b> Iterator for TrackedKeys<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let length = u32::from_le_bytes(array(&mut self.0)?);
        let (key, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(key)
    }
}

/// A submission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'b> {
    /// How new the records must be that it reads.
    pub(crate) level: ReadLevel,
    rest: &'b [u8],
}

impl<'b> Records<'b> {
    /// `None` if the bytes do not begin as a submission does.
    pub(crate) fn of(bytes: &'b [u8]) -> Option<Records<'b>> {
        let (head, rest) = bytes.split_first()?;
        let level = *ReadLevel::ALL.get(usize::from(head & !ONLY_READS))?;
        Some(Records { level, rest })
    }

    /// Those behind this number of bytes of them.
    pub(crate) fn behind(self, offset: usize) -> Records<'b> {
        Records { rest: self.rest.get(offset..).unwrap_or_default(), ..self }
    }

    /// Bytes that are left.
    pub(crate) fn len(self) -> usize {
        self.rest.len()
    }
}

impl<'b> Iterator for Records<'b> {
    /// `Err` if the bytes are broken; nothing follows then.
    type Item = Result<Asked<'b>, ()>;

    fn next(&mut self) -> Option<Result<Asked<'b>, ()>> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = take(&mut self.rest);
        if taken.is_none() {
            self.rest = &[];
        }
        Some(taken.ok_or(()))
    }
}

fn take<'b>(rest: &mut &'b [u8]) -> Option<Asked<'b>> {
    let (&[kind, a, b, c, d], after) = rest.split_first_chunk()?;
    let (mut body, after) = after.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)?;
    let database = u32::from_le_bytes(array(&mut body)?) as usize;
    let limit = u64::from_le_bytes(array(&mut body)?);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let asked = match kind {
        COMMAND => Asked::Command { database, limit, body },
        TRANSACTION => {
            let other_units = u64::from_le_bytes(array(&mut body)?);
            Asked::Transaction { limit, other_units, body }
        }
        WATCH => Asked::Watch { database, key: body },
        TRACKED => Asked::Tracked(TrackedKeys(body)),
        _ => return None,
    };
    *rest = after;
    Some(asked)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use todana_command::{Scratch, StringCommand};

    #[test]
    fn what_was_put_is_found() {
        let get = Command::String(StringCommand::Get { key: b"k" });
        let mut bytes = vec![head(ReadLevel::Linear, true)];
        put_command(&mut bytes, 3, &get, 70);
        put_transaction(&mut bytes, &[], &[(1, get.clone())], 5, 80);
        put_watch(&mut bytes, 15, b"key");
        put_tracked(&mut bytes, &[b"a", b"", b"bc"]);
        let records = Records::of(&bytes).expect("a submission");
        assert_eq!(records.level, ReadLevel::Linear);
        let found: Vec<_> = records.map(|asked| asked.expect("a record")).collect();
        let [
            Asked::Command { database: 3, limit: 70, body },
            Asked::Transaction { limit: 80, other_units: 5, .. },
            Asked::Watch { database: 15, key: b"key" },
            Asked::Tracked(keys),
        ] = found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!(keys.collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
        let mut scratch = Scratch::default();
        assert_eq!(Command::decode(body, &mut scratch), Ok((get, &[][..])));
        for cut in 1..bytes.len() {
            let records = Records::of(&bytes[..cut]).expect("a level");
            let whole = records.filter(Result::is_ok).count();
            assert!(whole < 4, "cut at {cut}");
        }
    }

    #[test]
    fn other_bytes_are_no_submission() {
        assert!(Records::of(&[]).is_none());
        assert!(Records::of(&[3]).is_none());
        let broken: Vec<_> = Records::of(&[0, 9, 0, 0, 0, 0]).expect("a level").collect();
        assert_eq!(broken, [Err(())]);
    }
}
