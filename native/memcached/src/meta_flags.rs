//! Flags of meta commands, and the lines that answer them.
//!
//! ```text
//!   mg YWI= b v t O7 k\r\n
//!      |    | | | |  `-- return the key
//!      |    | | | `----- return this opaque token
//!      |    | | `------- return the seconds left to live
//!      |    | `--------- return the value
//!      |    `----------- the key is base64
//!      `---------------- key as sent
//!
//!   VA 5 t60 O7 kYWI= b\r\n       the requested items in order, then Z, X and W
//!   hello\r\n
//! ```

use super::exptime::left_s;
use super::line::{BAD_FORMAT, Words, signed, unsigned};
use super::number::{push_number, push_signed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use todana_command::{LeaseState, Record};

/// Most words of a meta command, including its name and key.
const WORDS_MAX: usize = 19;

/// Longest opaque token, in bytes.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const INVALID_FLAG: &str = "CLIENT_ERROR invalid flag";

/// Space for a decoded key: base64 of at most 250 characters.
pub(super) type KeyBuffer = [u8; 192];

/// A meta command's key and flags.
#[derive(Clone, Debug, Default)]
pub(super) struct MetaRequest<'l> {
    /// The key, decoded.
    pub(super) key: &'l [u8],
    /// The key as sent.
    pub(super) sent_key: &'l [u8],
    /// The flags as sent.
    flags: Words<'l>,
    /// `q`.
    pub(super) quiet: bool,
    /// `v`.
    pub(super) value: bool,
    /// `u`.
    pub(super) unnoted: bool,
    /// `I`.
    pub(super) invalidate: bool,
    /// `b`.
    base64: bool,
    /// `C`: the token that the record must have.
    pub(super) compare: Option<u64>,
    /// `F`: flags to store.
    pub(super) client_flags: u32,
    /// `T`: new expiry.
    pub(super) exptime_s: Option<i64>,
    /// `N`: expiry of a record created on a miss.
    pub(super) vivify_s: Option<i64>,
    /// `R`: a record with less time left than this should be recached.
    pub(super) recache_s: Option<i64>,
    /// `D`: the amount to add.
    pub(super) delta: Option<u64>,
    /// `J`: initial number.
    pub(super) initial: Option<u64>,
    /// `M`: mode.
    pub(super) mode: Option<u8>,
}

impl<'l> MetaRequest<'l> {
    /// Parses the flags in `words`. The error is the line to answer.
    pub(super) fn parse(
        admits_key: impl Fn(&[u8]) -> bool,
        sent_key: &'l [u8],
        words: Words<'l>,
        buffer: &'l mut KeyBuffer,
    ) -> Result<MetaRequest<'l>, &'static str> {
        let mut request =
            MetaRequest { key: sent_key, sent_key, flags: words.clone(), ..MetaRequest::default() };
        let mut seen = 0_u128;
        for word in words {
            let (flag, token) = (word[0], &word[1..]);
            let bit = 1_u128.checked_shl(u32::from(flag)).unwrap_or(0);
            if seen & bit != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= bit;
            request.read(flag, token)?;
        }
        if request.base64 {
            let length = STANDARD
                .decode_slice(sent_key, buffer)
                .map_err(|_| "CLIENT_ERROR error decoding key")?;
            request.key = &buffer[..length];
        } else if !admits_key(sent_key) {
            return Err(BAD_FORMAT);
        }
        Ok(request)
    }

    fn read(&mut self, flag: u8, token: &[u8]) -> Result<(), &'static str> {
        let seconds = || signed(token).ok_or(BAD_TOKEN).map(Some);
        match flag {
            b'b' => self.base64 = true,
            b'q' => self.quiet = true,
            b'v' => self.value = true,
            b'u' => self.unnoted = true,
            b'I' => self.invalidate = true,
            b'T' => self.exptime_s = seconds()?,
            b'N' => self.vivify_s = seconds()?,
            b'R' => self.recache_s = seconds()?,
            b'C' => self.compare = Some(unsigned(token).ok_or(BAD_TOKEN)?),
            b'D' => {
                let wrong = "CLIENT_ERROR invalid numeric delta value";
                self.delta = Some(unsigned(token).ok_or(wrong)?);
            }
            b'J' => {
                let wrong = "CLIENT_ERROR invalid numeric initial value";
                self.initial = Some(unsigned(token).ok_or(wrong)?);
            }
            b'F' => {
                let flags = unsigned(token).and_then(|flags| u32::try_from(flags).ok());
                self.client_flags = flags.ok_or(BAD_FORMAT)?;
            }
            b'M' => match token {
                &[mode] => self.mode = Some(mode),
                _ => return Err("CLIENT_ERROR incorrect length for M token"),
            },
            b'O' if token.len() > OPAQUE_BYTES_MAX => {
                return Err("CLIENT_ERROR opaque token too long");
            }
            // Items to return, or hints for proxies.
            b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' | b'O' | b'P' | b'L' => {}
            _ => return Err(INVALID_FLAG),
        }
        Ok(())
    }

    /// Writes `HD` or `VA` for a record that was read.
    pub(super) fn write_hit(
        &self,
        out: &mut Vec<u8>,
        record: Record<'_>,
        state: LeaseState,
        now_ms: u64,
    ) {
        out.reserve(record.value.len().saturating_add(64));
        self.write_code(out, record);
        for word in self.flags.clone() {
            match word[0] {
                b'c' => flag_with(out, b'c', record.version),
                b'f' => flag_with(out, b'f', u64::from(record.flags)),
                b'h' => flag_with(out, b'h', u64::from(state.fetched_before)),
                b'l' => flag_with(out, b'l', state.idle_s),
                b's' => flag_with(out, b's', record.value.len() as u64),
                b't' => write_left(out, record, now_ms),
                _ => self.write_echo(out, word),
            }
        }
        for (shown, flag) in [(state.already_won, b" Z"), (state.stale, b" X"), (state.won, b" W")]
        {
            if shown {
                out.extend_from_slice(flag);
            }
        }
        self.write_value(out, record);
    }

    /// Writes `HD` or `VA` for a number that was changed.
    pub(super) fn write_number(&self, out: &mut Vec<u8>, record: Record<'_>, now_ms: u64) {
        self.write_code(out, record);
        for word in self.flags.clone() {
            match word[0] {
                b'c' => flag_with(out, b'c', record.version),
                b't' => write_left(out, record, now_ms),
                _ => self.write_echo(out, word),
            }
        }
        self.write_value(out, record);
    }

    /// Writes a line without a record: its code, the items returned in any case, and the CAS token
    /// if it exists and was requested.
    pub(super) fn write_line(&self, out: &mut Vec<u8>, code: &str, version: Option<u64>) {
        out.extend_from_slice(code.as_bytes());
        for word in self.flags.clone() {
            match (word[0], version) {
                (b'c', Some(version)) => flag_with(out, b'c', version),
                _ => self.write_echo(out, word),
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_code(&self, out: &mut Vec<u8>, record: Record<'_>) {
        if self.value {
            out.extend_from_slice(b"VA ");
            push_number(out, record.value.len() as u64);
        } else {
            out.extend_from_slice(b"HD");
        }
    }

    fn write_value(&self, out: &mut Vec<u8>, record: Record<'_>) {
        out.extend_from_slice(b"\r\n");
        if self.value {
            out.extend_from_slice(record.value);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes an item that is returned as sent.
    fn write_echo(&self, out: &mut Vec<u8>, word: &[u8]) {
        match word[0] {
            b'k' => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(self.sent_key);
                if self.base64 {
                    out.extend_from_slice(b" b");
                }
            }
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(word);
            }
            _ => {}
        }
    }
}

/// Whether a meta command has more words than any of them takes; `before` is the number of words
/// before its flags.
pub(super) fn too_many(flags: &Words<'_>, before: usize) -> bool {
    flags.clone().nth(WORDS_MAX - before).is_some()
}

fn flag_with(out: &mut Vec<u8>, flag: u8, number: u64) {
    out.extend_from_slice(&[b' ', flag]);
    push_number(out, number);
}

fn write_left(out: &mut Vec<u8>, record: Record<'_>, now_ms: u64) {
    out.extend_from_slice(b" t");
    push_signed(out, left_s(record.expires_at_ms, now_ms));
}
