//! Replies that a client has not taken yet: bytes, interleaved with parts of large values. A large
//! value is sent from the table's own memory, however slowly the client takes it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::take;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use todana_protocol::Splice;

/// Maximum bytes of one system call: other clients wait while it copies.
const SEND_BYTES_MAX: usize = 1 << 20;
/// Maximum pieces of one system call.
const SEND_PIECES_MAX: usize = 64;

/// A disconnected client causes an error of `send`, never a signal. On Apple's systems this is an
/// option of the socket; see [`crate::listener::prepare`].
#[cfg(not(target_vendor = "apple"))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();

/// Replies in order.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that were sent.
    sent: usize,
    /// Bytes that are not sent yet.
    left: usize,
}

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Value(Splice),
    /// A message from a position on, which other clients receive too.
    Message(Arc<[u8]>, usize),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Value(splice) => splice.bytes(),
            Piece::Message(message, start) => &message[*start..],
        }
    }
}

impl Outgoing {
    /// Bytes that are not sent yet.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.left
    }

    /// Bytes that are in memory for this client. A value counts once the table has released it.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        let held = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.capacity(),
            Piece::Value(splice) => splice.value.own_bytes(),
            // The last client to take it pays for it.
            Piece::Message(message, _) => message.len() / Arc::strong_count(message),
        };
        self.pieces.iter().map(held).sum()
    }

    /// Adds bytes, of which `sent` were sent already.
    pub(super) fn push(&mut self, mut bytes: Vec<u8>, sent: usize) {
        debug_assert!(sent == 0 || self.left == 0);
        if bytes.len() <= sent {
            return;
        }
        self.left += bytes.len() - sent;
        match self.pieces.back_mut() {
            Some(Piece::Bytes(last)) => last.append(&mut bytes),
            _ => {
                bytes.shrink_to_fit();
                self.sent = if self.pieces.is_empty() { sent } else { self.sent };
                self.pieces.push_back(Piece::Bytes(bytes));
            }
        }
    }

    /// Adds a byte and those that follow it.
    pub(super) fn push_bytes(&mut self, first: u8, bytes: &[u8]) {
        if !matches!(self.pieces.back(), Some(Piece::Bytes(_))) {
            self.pieces.push_back(Piece::Bytes(Vec::with_capacity(1 + bytes.len())));
        }
        if let Some(Piece::Bytes(last)) = self.pieces.back_mut() {
            self.left += 1 + bytes.len();
            last.push(first);
            last.extend_from_slice(bytes);
        }
    }

    /// Adds a message from a position on, without a copy.
    pub(super) fn push_message(&mut self, message: Arc<[u8]>, start: usize) {
        self.left += message.len() - start;
        self.pieces.push_back(Piece::Message(message, start));
    }

    /// Adds everything of another, of which nothing was sent.
    pub(super) fn append(&mut self, mut other: Outgoing) {
        debug_assert!(other.sent == 0);
        self.left += other.left;
        self.pieces.append(&mut other.pieces);
    }

    /// Adds bytes with parts of values between them.
    pub(super) fn push_spliced(&mut self, bytes: &[u8], splices: &mut Vec<Splice>) {
        let mut start = 0;
        for splice in splices.drain(..).filter(|splice| !splice.bytes().is_empty()) {
            self.push(bytes[start..splice.at].to_vec(), 0);
            start = splice.at;
            self.left += splice.bytes().len();
            self.pieces.push_back(Piece::Value(splice));
        }
        self.push(bytes[start..].to_vec(), 0);
    }

    /// Sends what the socket accepts, up to a bound. Returns how much that was.
    pub(super) fn send(&mut self, socket: impl AsFd) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SEND_PIECES_MAX];
        let (mut count, mut room, mut start) = (0, SEND_BYTES_MAX, self.sent);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let bytes = &piece.bytes()[start..];
            let bytes = &bytes[..bytes.len().min(room)];
            *slice = IoSlice::new(bytes);
            (count, room, start) = (count + 1, room - bytes.len(), 0);
            if room == 0 {
                break;
            }
        }
        let mut ancillary = SendAncillaryBuffer::default();
        let sent = match sendmsg(socket, &slices[..count], &mut ancillary, NO_SIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error),
        };
        self.forget(sent);
        Ok(sent)
    }

    /// Drops the bytes that were sent.
    fn forget(&mut self, sent: usize) {
        self.left -= sent;
        self.sent += sent;
        while let Some(piece) = self.pieces.front_mut() {
            let len = piece.bytes().len();
            if self.sent < len {
                if let Piece::Bytes(bytes) = piece
                    && self.sent > len / 2
                {
                    bytes.drain(..take(&mut self.sent));
                    bytes.shrink_to_fit();
                }
                return;
            }
            self.sent -= len;
            self.pieces.pop_front();
        }
        self.pieces = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use todana_table::{Entry, Keyspace, Meta, Options, Table};

    fn splice(table: &Table, at: usize, len: usize) -> Splice {
        let value: Vec<u8> = (0..len).map(|byte| (byte % 251) as u8).collect();
        table.update(b"k", 1, |record| record.put(&[&value], Meta::default())).unwrap();
        let value = table.read(b"k", 1, |entry| entry.as_ref().and_then(Entry::share)).unwrap();
        Splice { at, value, range: 1..len - 1 }
    }

    #[test]
    fn bytes_are_sent_in_the_order_in_which_they_were_added() {
        let table = Table::new(Options { shards: Some(16), ..Options::default() });
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let mut outgoing = Outgoing::default();
        let mut expected = Vec::new();
        let mut received = Vec::new();
        let mut buffer = vec![0; 300_000];
        for round in 0..60usize {
            if round % 2 == 0 {
                let bytes = vec![b'a' + (round % 26) as u8; round * 9_000];
                let mut splices: Vec<Splice> = (0..round % 5)
                    .map(|number| splice(&table, number * bytes.len() / 5, 20_000 + round * 999))
                    .collect();
                let mut flat = bytes.clone();
                for splice in splices.iter().rev() {
                    flat.splice(splice.at..splice.at, splice.bytes().iter().copied());
                }
                expected.extend_from_slice(&flat);
                outgoing.push_spliced(&bytes, &mut splices);
            } else {
                let bytes = vec![b'A' + (round % 26) as u8; round * 1_000];
                let sent = if outgoing.len() == 0 { round } else { 0 };
                expected.extend_from_slice(&bytes[sent..]);
                outgoing.push(bytes, sent);
            }
            let before = outgoing.len();
            let sent = outgoing.send(&near).unwrap();
            assert!(sent <= SEND_BYTES_MAX && outgoing.len() == before - sent);
            let taken = far.read(&mut buffer[..round * 5_000 + 1]).unwrap_or(0);
            received.extend_from_slice(&buffer[..taken]);
        }
        while received.len() < expected.len() {
            outgoing.send(&near).unwrap();
            let taken = far.read(&mut buffer).unwrap_or(0);
            received.extend_from_slice(&buffer[..taken]);
        }
        assert!(received == expected);
        assert_eq!((outgoing.len(), outgoing.held_bytes()), (0, 0));
    }

    #[test]
    fn a_value_counts_as_a_whole_once_the_table_has_released_it() {
        let table = Table::new(Options { shards: Some(16), ..Options::default() });
        let mut clients = [Outgoing::default(), Outgoing::default()];
        for client in &mut clients {
            let value = table.read(b"k", 1, |entry| entry.as_ref().and_then(Entry::share));
            let splice = match value {
                Some(value) => Splice { at: 0, value, range: 0..60_000 },
                None => splice(&table, 0, 60_000),
            };
            client.push_spliced(b"", &mut vec![splice]);
        }
        let held = |clients: &[Outgoing]| clients.iter().map(Outgoing::held_bytes).sum::<usize>();
        assert_eq!(held(&clients), 0);
        table.update(b"k", 1, |record| record.remove());
        assert!((60_000..60_200).contains(&held(&clients)));
        clients[0] = Outgoing::default();
        assert!((60_000..60_200).contains(&held(&clients)));
    }
}
