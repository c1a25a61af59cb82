//! Keys of a walk.

/// Keys are copied until they have this many bytes.
const COPIED_BYTES_MAX: usize = 64 * 1024;

/// Keys to be looked up, as they were copied.
#[derive(Default)]
pub(crate) struct CopiedKeys {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl CopiedKeys {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are `most` keys, or fewer but long ones.
    #[inline]
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.len() >= most || self.bytes.len() >= COPIED_BYTES_MAX
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<&[u8]> {
        Some(self.get(self.len().checked_sub(1)?))
    }

    #[inline]
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
