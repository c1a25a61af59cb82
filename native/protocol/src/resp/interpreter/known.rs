//! The scripts that a node knows by name: those that it has loaded, or has run lately.

use std::collections::HashMap;
use std::sync::Arc;
use todana_script::name_of;

/// Most bytes of all scripts; the oldest are forgotten. A client that names a forgotten one sends
/// it again after NOSCRIPT.
const BYTES_MAX: usize = 16 << 20;

/// The part of the most steps that a shorter run takes off.
const FORGET_PART: u64 = 8;

/// What a script counts beside its source.
const SCRIPT_BYTES: usize = 256;

#[derive(Default)]
pub(super) struct Known {
    scripts: HashMap<[u8; 40], Entry>,
    bytes: usize,
    /// The number of the youngest use.
    clock: u64,
}

struct Entry {
    source: Arc<[u8]>,
    /// The most steps of its last runs. It decreases slowly, because a script of which only some
    /// runs take long must not pass for a short one.
    steps: Option<u64>,
    used: u64,
}

impl Known {
    /// A script was run.
    pub(super) fn note(&mut self, name: [u8; 40], source: &[u8], steps: u64) {
        self.load(name, source);
        if let Some(entry) = self.scripts.get_mut(&name) {
            entry.steps = Some(steps.max(entry.steps.map_or(0, |most| most - most / FORGET_PART)));
        }
    }

    /// A script is to be known.
    pub(super) fn load(&mut self, name: [u8; 40], source: &[u8]) {
        self.clock += 1;
        if let Some(entry) = self.scripts.get_mut(&name) {
            entry.used = self.clock;
            return;
        }
        let bytes = source.len() + SCRIPT_BYTES;
        if bytes > BYTES_MAX / 4 {
            return;
        }
        if self.bytes + bytes > BYTES_MAX {
            self.forget_oldest();
        }
        self.bytes += bytes;
        self.scripts.insert(name, Entry { source: source.into(), steps: None, used: self.clock });
    }

    /// Forgets the older half, so that this happens rarely.
    fn forget_oldest(&mut self) {
        let mut uses: Vec<u64> = self.scripts.values().map(|entry| entry.used).collect();
        uses.sort_unstable();
        let middle = uses.get(uses.len() / 2).copied().unwrap_or(0);
        self.scripts.retain(|_, entry| entry.used > middle);
        let bytes = |entry: &Entry| entry.source.len() + SCRIPT_BYTES;
        self.bytes = self.scripts.values().map(bytes).sum();
    }

    /// The source of a script, by its name in hexadecimal digits of any case.
    pub(super) fn source(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        let mut name: [u8; 40] = name.try_into().ok()?;
        name.make_ascii_lowercase();
        self.scripts.get(&name).map(|entry| entry.source.clone())
    }

    /// The most steps of the last runs of a script.
    pub(super) fn steps(&self, source: &[u8]) -> Option<u64> {
        self.scripts.get(&name_of(source))?.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_scripts_are_forgotten() {
        let mut known = Known::default();
        let source = |number: u32| [&number.to_le_bytes()[..], &[b' '; 1 << 20]].concat();
        for number in 0..100 {
            let source = source(number);
            known.load(name_of(&source), &source);
            known.load(name_of(b"often used"), b"often used");
            assert!(known.bytes <= BYTES_MAX);
        }
        assert!(known.source(&name_of(b"often used")).is_some());
        assert!(known.source(&name_of(&source(99))).is_some());
        assert!(known.source(&name_of(&source(0))).is_none());
        let upper = name_of(b"often used").to_ascii_uppercase();
        assert!(known.source(&upper).is_some() && known.source(b"x").is_none());
        known.note(name_of(b"often used"), b"often used", 5);
        assert_eq!(known.steps(b"often used"), Some(5));
        // A script of which some runs take long is not soon taken for a short one.
        for (steps, most) in [(800, 800), (1, 700), (1, 613), (900, 900), (850, 850)] {
            known.note(name_of(b"often used"), b"often used", steps);
            assert_eq!(known.steps(b"often used"), Some(most));
        }
    }
}
