//! Heads of requests and responses.

use super::status::Status;

/// First byte of a request.
pub(crate) const REQUEST: u8 = 0x80;

/// First byte of a response.
const RESPONSE: u8 = 0x81;

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 24;

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) magic: u8,
    pub(super) frame: Frame,
    pub(super) key_bytes: usize,
    pub(super) extras_bytes: usize,
    pub(super) body_bytes: usize,
    pub(super) cas: u64,
}

impl Head {
    /// `None` if it has not arrived.
    #[inline]
    pub(super) fn of(input: &[u8]) -> Option<Head> {
        let &[magic, opcode, k0, k1, extras, _, _, _, b0, b1, b2, b3, ref rest @ ..] =
            input.first_chunk::<HEAD_BYTES>()?;
        let (opaque, cas) = rest.split_first_chunk::<4>()?;
        Some(Head {
            magic,
            frame: Frame { opcode, opaque: *opaque },
            key_bytes: usize::from(u16::from_be_bytes([k0, k1])),
            extras_bytes: usize::from(extras),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            cas: u64::from_be_bytes(cas.try_into().ok()?),
        })
    }
}

/// What a response repeats of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(super) opcode: u8,
    pub(super) opaque: [u8; 4],
}

impl Frame {
    /// Appends the head of a response; its extras, key and value follow.
    #[inline]
    pub(super) fn begin(
        self,
        out: &mut Vec<u8>,
        status: Status,
        [extras, key, value]: [usize; 3],
        cas: u64,
    ) {
        let body = extras.saturating_add(key).saturating_add(value);
        out.reserve(HEAD_BYTES.saturating_add(body));
        out.extend_from_slice(&[RESPONSE, self.opcode]);
        out.extend_from_slice(&(key as u16).to_be_bytes());
        out.extend_from_slice(&[extras as u8, 0]);
        out.extend_from_slice(&(status as u16).to_be_bytes());
        out.extend_from_slice(&(body as u32).to_be_bytes());
        out.extend_from_slice(&self.opaque);
        out.extend_from_slice(&cas.to_be_bytes());
    }

    /// Appends a successful response.
    #[inline]
    pub(super) fn succeed(self, out: &mut Vec<u8>, value: &[u8], cas: u64) {
        self.begin(out, Status::Success, [0, 0, value.len()], cas);
        out.extend_from_slice(value);
    }

    /// Appends an error with its text.
    pub(super) fn fail(self, out: &mut Vec<u8>, status: Status) {
        self.fail_with(out, status, status.text());
    }

    pub(super) fn fail_with(self, out: &mut Vec<u8>, status: Status, text: &str) {
        self.begin(out, status, [0, 0, text.len()], 0);
        out.extend_from_slice(text.as_bytes());
    }

    /// Appends one statistic; the last has neither name nor value.
    pub(crate) fn stat(self, out: &mut Vec<u8>, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.begin(out, Status::Success, [0, name.len(), value.len()], 0);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(value);
    }
}
