//! One request, as its handler sees it.

use super::super::table::Row;
use super::super::turn::Turn;
use super::frame::{Frame, HEAD_BYTES, Head};
use super::opcode::Opcode;
use super::status::Status;
use crate::Host;

/// A request whose extras and key have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'i> {
    pub(super) opcode: &'static Opcode,
    pub(super) frame: Frame,
    pub(super) cas: u64,
    pub(super) extras: &'i [u8],
    pub(super) key: &'i [u8],
    /// Empty if it is longer than values may be.
    pub(super) value: &'i [u8],
    /// Length of the value in bytes.
    pub(super) value_bytes: usize,
}

impl<'i> Request<'i> {
    /// The request at the front of `input`, or the number of bytes that it needs. The value must be
    /// complete unless it is longer than `value_max`.
    pub(super) fn of(
        opcode: &'static Opcode,
        head: Head,
        input: &'i [u8],
        value_max: usize,
    ) -> Result<Request<'i>, usize> {
        let value_bytes = value_bytes(head);
        let taken_bytes = if value_bytes > value_max { 0 } else { value_bytes };
        let total = HEAD_BYTES + head.extras_bytes + head.key_bytes + taken_bytes;
        let body = input.get(HEAD_BYTES..total).ok_or(total)?;
        let (extras, body) = body.split_at(head.extras_bytes);
        let (key, value) = body.split_at(head.key_bytes);
        let (frame, cas) = (head.frame, head.cas);
        Ok(Request { opcode, frame, cas, extras, key, value, value_bytes })
    }

    /// Bytes of the request except for a value that is too long.
    pub(super) fn bytes(&self) -> usize {
        HEAD_BYTES + self.extras.len() + self.key.len() + self.value.len()
    }

    /// The number in the extras at this offset. 0 if the table of opcodes allows no such number.
    pub(super) fn u32_at(&self, at: usize) -> u32 {
        let bytes = self.extras.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    pub(super) fn u64_at(&self, at: usize) -> u64 {
        let bytes = self.extras.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Answers with an error. Quiet requests are answered too.
    pub(super) fn fail<H: Host>(&self, turn: &mut Turn<'_, H>, status: Status, row: Row) {
        self.frame.fail(turn.out, status);
        // What the client asked for did not happen, but the server did nothing wrong.
        let is_expected = matches!(
            status,
            Status::NotFound | Status::Exists | Status::NotStored | Status::AuthenticationContinue
        );
        self.observe(turn, row, !is_expected);
    }

    /// Answers a request that has no further result, unless it is quiet.
    pub(super) fn succeed<H: Host>(&self, turn: &mut Turn<'_, H>, value: &[u8], cas: u64) {
        if !self.opcode.is_quiet {
            self.frame.succeed(turn.out, value, cas);
        }
        self.observe(turn, self.opcode.row, false);
    }

    /// Counts the request.
    pub(super) fn observe<H: Host>(&self, turn: &mut Turn<'_, H>, row: Row, failed: bool) {
        turn.observe_words(row, failed, || [self.opcode.name.as_bytes(), self.key]);
    }
}

/// Length of the value that a head announces. The lengths have been checked.
pub(super) fn value_bytes(head: Head) -> usize {
    head.body_bytes.saturating_sub(head.extras_bytes + head.key_bytes)
}
