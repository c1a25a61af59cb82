//! The scripts that a node knows by name: those that it has loaded, or has run lately.

use std::collections::HashMap;
use std::sync::Arc;
use todana_script::CompiledScript;

/// Most bytes of all scripts; the oldest are forgotten. A client that names a forgotten one sends
/// it again after NOSCRIPT.
const BYTES_MAX: usize = 16 << 20;

/// The part of the most steps that a shorter run takes off.
const FORGET_PART: u64 = 8;

/// What a script counts beside its source.
const SCRIPT_BYTES: usize = 256;

/// Scripts of one length with which a source is compared before its name is computed: the SHA-1 of
/// 40 KB takes longer than to run it.
const COMPARED_MAX: usize = 4;

pub(super) type Name = [u8; 40];

/// A source in the list of scripts, without its SHA-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Known(Name),
    Unknown,
    Perhaps,
}

#[derive(Default)]
pub(super) struct Known {
    scripts: HashMap<Name, Entry>,
    /// Those of a length that were used last, the youngest first.
    by_length: HashMap<usize, Vec<Name>>,
    bytes: usize,
    /// The number of the youngest use.
    clock: u64,
}

struct Entry {
    source: Arc<[u8]>,
    compiled: Arc<CompiledScript>,
    /// The most steps of its last runs. It decreases slowly, because a script of which only some
    /// runs take long must not pass for a short one.
    steps: Option<u64>,
    used: u64,
}

impl Known {
    /// A script is to be run. Returns what the interpreters keep of it, if it was known before:
    /// most sources that are run once are not run again.
    pub(super) fn begin(&mut self, name: Name, source: &[u8]) -> Option<Arc<CompiledScript>> {
        let compiled = self.scripts.get(&name).map(|entry| entry.compiled.clone());
        self.load(name, source);
        compiled
    }

    /// The name of a source, if it can be found without SHA-1.
    pub(super) fn find(&self, source: &[u8]) -> Found {
        let Some(names) = self.by_length.get(&source.len()) else { return Found::Unknown };
        let is_it =
            |name: &&Name| self.scripts.get(*name).is_some_and(|entry| same(&entry.source, source));
        match names.iter().find(is_it) {
            Some(name) => Found::Known(*name),
            None if names.len() < COMPARED_MAX => Found::Unknown,
            None => Found::Perhaps,
        }
    }

    /// A script was run.
    pub(super) fn note(&mut self, name: Name, steps: u64) {
        if let Some(entry) = self.scripts.get_mut(&name) {
            entry.steps = Some(steps.max(entry.steps.map_or(0, |most| most - most / FORGET_PART)));
        }
    }

    /// A script is to be known.
    pub(super) fn load(&mut self, name: Name, source: &[u8]) {
        self.clock += 1;
        if let Some(entry) = self.scripts.get_mut(&name) {
            entry.used = self.clock;
            self.note_length(name, source.len());
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
        let (compiled, used) = (Arc::default(), self.clock);
        self.scripts.insert(name, Entry { source: source.into(), compiled, steps: None, used });
        self.note_length(name, source.len());
    }

    /// The script is the youngest of its length.
    fn note_length(&mut self, name: Name, length: usize) {
        let names = self.by_length.entry(length).or_default();
        match names.iter().position(|it| *it == name) {
            Some(at) => names[..=at].rotate_right(1),
            None => {
                names.truncate(COMPARED_MAX - 1);
                names.insert(0, name);
            }
        }
    }

    /// The scripts, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.scripts.len(), self.bytes)
    }

    /// Forgets the older half, so that this happens rarely.
    fn forget_oldest(&mut self) {
        let mut uses: Vec<u64> = self.scripts.values().map(|entry| entry.used).collect();
        uses.sort_unstable();
        let middle = uses.get(uses.len() / 2).copied().unwrap_or(0);
        self.scripts.retain(|_, entry| entry.used > middle);
        let bytes = |entry: &Entry| entry.source.len() + SCRIPT_BYTES;
        self.bytes = self.scripts.values().map(bytes).sum();
        self.by_length.retain(|_, names| {
            names.retain(|name| self.scripts.contains_key(name));
            !names.is_empty()
        });
    }

    /// The source of a script, by its name in hexadecimal digits of any case.
    pub(super) fn source(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        let mut name: Name = name.try_into().ok()?;
        name.make_ascii_lowercase();
        self.scripts.get(&name).map(|entry| entry.source.clone())
    }

    /// The most steps of the last runs of a script.
    pub(super) fn steps(&self, name: &Name) -> Option<u64> {
        self.scripts.get(name)?.steps
    }
}

/// Whether two sources are equal. A client that names a script sends the very bytes that are known.
fn same(known: &[u8], source: &[u8]) -> bool {
    std::ptr::eq(known, source) || known == source
}

#[cfg(test)]
mod tests {
    use super::*;
    use todana_script::name_of;

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
        known.note(name_of(b"often used"), 5);
        assert_eq!(known.steps(&name_of(b"often used")), Some(5));
        // A script of which some runs take long is not soon taken for a short one.
        for (steps, most) in [(800, 800), (1, 700), (1, 613), (900, 900), (850, 850)] {
            known.note(name_of(b"often used"), steps);
            assert_eq!(known.steps(&name_of(b"often used")), Some(most));
        }
    }

    #[test]
    fn a_source_is_found_by_its_bytes() {
        let mut known = Known::default();
        let source = |number: u32| format!("return {number:02}").into_bytes();
        for number in 0..20 {
            let source = source(number);
            let name = name_of(&source);
            let is_full = number >= COMPARED_MAX as u32;
            let expected = if is_full { Found::Perhaps } else { Found::Unknown };
            assert_eq!(known.find(&source), expected);
            assert!(known.begin(name, &source).is_none());
            for _ in 0..2 {
                assert_eq!(known.find(&source), Found::Known(name));
                let compiled = known.begin(name, &source).expect("known");
                assert!(Arc::ptr_eq(&compiled, &known.scripts[&name].compiled));
            }
        }
        assert_eq!(known.size().0, 20);
        // An older one is found again once it was used.
        let (old, name) = (source(3), name_of(&source(3)));
        assert_eq!(known.find(&old), Found::Perhaps);
        assert!(known.begin(name, &old).is_some());
        assert_eq!(known.find(&old), Found::Known(name));
        assert!(known.by_length.values().all(|names| names.len() <= COMPARED_MAX));
        assert_eq!(known.find(b"another length"), Found::Unknown);
    }
}
