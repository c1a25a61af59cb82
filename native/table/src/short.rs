//! Short byte strings, compared and copied without a call of the C library, which would take longer
//! than the work.

use std::ptr;

/// Beyond this the library's functions are as quick.
const SHORT_MAX: usize = 16;

/// Whether two byte strings are equal.
#[inline(always)]
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    // The first and the last bytes, which may overlap.
    fn ends<const N: usize>(one: &[u8], other: &[u8]) -> bool {
        one.first_chunk::<N>() == other.first_chunk::<N>()
            && one.last_chunk::<N>() == other.last_chunk::<N>()
    }
    one.len() == other.len()
        && match one.len() {
            0 => true,
            1 => one[0] == other[0],
            2..4 => ends::<2>(one, other),
            4..8 => ends::<4>(one, other),
            8..=SHORT_MAX => ends::<8>(one, other),
            _ => one == other,
        }
}

/// Copies bytes.
///
/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy(from: &[u8], to: *mut u8) {
    /// # Safety
    /// As for [`copy`]; there are between `N` and `2 * N` bytes.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: &[u8], to: *mut u8) {
        debug_assert!((N..=2 * N).contains(&from.len()));
        let last = from.len() - N;
        // SAFETY: both chunks are within the bytes. The second writes some bytes again, with the
        // same content.
        unsafe {
            to.cast::<[u8; N]>().write(from.as_ptr().cast::<[u8; N]>().read());
            let end = from.as_ptr().add(last).cast::<[u8; N]>().read();
            to.add(last).cast::<[u8; N]>().write(end);
        }
    }
    // SAFETY: see the function; the lengths are those of the arms.
    unsafe {
        match from.len() {
            1 => ends::<1>(from, to),
            2..4 => ends::<2>(from, to),
            4..8 => ends::<4>(from, to),
            8..=SHORT_MAX => ends::<8>(from, to),
            len => ptr::copy_nonoverlapping(from.as_ptr(), to, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_short_strings_are_compared_completely() {
        for len in 0..=40 {
            let one: Vec<u8> = (0..len).collect();
            assert!(equal(&one, &one.clone()));
            assert!(!equal(&one, &[&one[..], &[0]].concat()));
            for at in 0..one.len() {
                let mut other = one.clone();
                other[at] ^= 0x80;
                assert!(!equal(&one, &other), "{at} of {len}");
            }
        }
    }

    #[test]
    fn all_bytes_are_copied_and_no_other_is_written() {
        for len in 0..=40 {
            let from: Vec<u8> = (1..=len).collect();
            let mut to = vec![0; from.len() + 2];
            // SAFETY: there is room for all bytes after the first.
            unsafe { copy(&from, to.as_mut_ptr().add(1)) };
            assert_eq!(to, [&[0], &from[..], &[0]].concat());
        }
    }
}
