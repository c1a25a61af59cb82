//! Numbers in decimal digits.

/// Appends a number in decimal digits.
#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(b'0' + number as u8);
        return;
    }
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a signed number in decimal digits.
pub(super) fn push_signed(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
