//! Records of a page, as terms for a process.

use crate::codec::{self, Decoded};
use crate::erts::{self, Raw, RawEnv};
use crate::store::Codec;
use crate::{reply, values};
use todana_table::{Entry, Shared};

/// Records for a process, in the order in which they come. Small ones are copied while they are
/// looked at, and become terms when no lock is held any more; large values are lent.
pub(crate) struct Pairs {
    env: RawEnv,
    codec: Codec,
    keys_only: bool,
    /// Bytes of small records.
    copied: Vec<u8>,
    taken: Vec<Taken>,
    terms: Vec<Raw>,
}

/// A record that is no term yet.
enum Taken {
    /// Where its key and its value end among the copied bytes.
    Copied(usize, usize),
    Lent(Shared),
}

impl Pairs {
    pub(crate) fn new(env: RawEnv, codec: Codec) -> Pairs {
        Pairs {
            env,
            codec,
            keys_only: false,
            copied: Vec::new(),
            taken: Vec::new(),
            terms: Vec::new(),
        }
    }

    /// Of the records, their keys only.
    pub(crate) fn keys(env: RawEnv, codec: Codec) -> Pairs {
        Pairs { keys_only: true, ..Pairs::new(env, codec) }
    }

    /// Makes room for about so many records that are to be pushed.
    pub(crate) fn reserve(&mut self, records: usize) {
        const BYTES: usize = 64;
        self.copied.reserve(records * BYTES);
        self.taken.reserve(records);
        self.terms.reserve(records);
    }

    /// How many records became terms.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Takes a record. May run under a shard's lock.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        if let Some(shared) = entry.share() {
            self.taken.push(Taken::Lent(shared));
            return;
        }
        self.copied.extend_from_slice(entry.key());
        let key_end = self.copied.len();
        if !self.keys_only {
            self.copied.extend_from_slice(entry.value());
        }
        self.taken.push(Taken::Copied(key_end, self.copied.len()));
    }

    /// Makes terms of what was pushed.
    pub(crate) fn finish(&mut self) {
        let mut from = 0;
        let mut taken = std::mem::take(&mut self.taken);
        for taken in taken.drain(..) {
            let term = match taken {
                Taken::Copied(key_end, value_end) => {
                    let key = &self.copied[from..key_end];
                    let value = &self.copied[key_end..value_end];
                    from = value_end;
                    self.term(key, || codec::decode_copy(self.codec, self.env, value))
                }
                Taken::Lent(shared) => {
                    let entry = shared.entry();
                    self.term(entry.key(), || self.lent(&shared, entry.value()))
                }
            };
            self.terms.push(term);
        }
        self.copied.clear();
        self.taken = taken;
    }

    /// What [`reply::pair`] makes of them; or the key.
    fn term(&self, key: &[u8], value: impl FnOnce() -> Decoded) -> Raw {
        let key = codec::decode_key(self.codec, self.env, key);
        match key {
            Decoded::Term(key) | Decoded::Encoded(key) if self.keys_only => key,
            key => reply::pair(self.env, key, value()),
        }
    }

    fn lent(&self, shared: &Shared, value: &[u8]) -> Decoded {
        codec::decode(self.codec, self.env, value, |bytes| {
            if bytes.len() > values::HEAP_BYTES_MAX {
                values::lent(self.env, shared, bytes)
            } else {
                values::copied(self.env, bytes)
            }
        })
    }

    /// The terms as a list.
    pub(crate) fn list(&self) -> Raw {
        let nil = erts::nil(self.env);
        self.terms.iter().rev().fold(nil, |list, term| erts::cons(self.env, *term, list))
    }
}
