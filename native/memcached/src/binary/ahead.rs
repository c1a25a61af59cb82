//! Prefetches the keys of a pipeline; see the file of this name for the text protocol.

use super::super::turn::DATABASE;
use super::frame::{HEAD_BYTES, Head};
use crate::Host;
use smallvec::SmallVec;
use todana_command::{PREFETCH_KEYS_MAX, prefetch};

/// Most bytes of input to scan.
const BYTES_MAX: usize = 16 << 10;

/// Prefetches for the requests at the front of the input. Returns the number of bytes scanned.
pub(super) fn fetch_for_requests<H: Host>(host: &H, input: &[u8]) -> usize {
    let input = &input[..input.len().min(BYTES_MAX)];
    let mut keys: SmallVec<[&[u8]; PREFETCH_KEYS_MAX]> = SmallVec::new();
    let mut at = 0_usize;
    while keys.len() < PREFETCH_KEYS_MAX {
        let rest = input.get(at..).unwrap_or_default();
        let Some(head) = Head::of(rest) else { break };
        let key = HEAD_BYTES + head.extras_bytes;
        let Some(key) = rest.get(key..key + head.key_bytes) else { break };
        if !key.is_empty() {
            keys.push(key);
        }
        at = at.saturating_add(HEAD_BYTES).saturating_add(head.body_bytes);
    }
    // With a single key there is nothing to overlap the fetch with.
    if keys.len() > 1 {
        prefetch(host.databases(), DATABASE, &keys);
    }
    at
}
