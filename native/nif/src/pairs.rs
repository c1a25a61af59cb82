//! Converts the records of a page to terms for a process.

use crate::codec::{self, Decoded};
use crate::erts::{self, Raw, RawEnv};
use crate::store::Codec;
use crate::{reply, values};
use todana_table::{Entry, Shared};

/// Records for a process, in the order of arrival. Small ones are copied while they are being read,
/// and become terms when no lock is held; large values are lent.
pub(crate) struct Pairs {
    env: RawEnv,
    codec: Codec,
    keys_only: bool,
    /// Flags and expiry of the records that are not terms yet, if they are part of the terms.
    metas: Option<Vec<(u32, Option<u64>)>>,
    /// The bytes of small records.
    copied: Vec<u8>,
    /// Total length of the keys of lent records.
    lent_key_bytes: usize,
    taken: Vec<Taken>,
    terms: Vec<Raw>,
    /// Bytes of external terms that may still be decoded.
    external_left: usize,
}

/// Bytes of external terms that are decoded for one page, which takes up to 1 ms; the Erlang side
/// decodes the others.
const EXTERNAL_BYTES_PER_PAGE: usize = 16 << 10;

/// A record that is not a term yet.
enum Taken {
    /// The ends of its key and its value among the copied bytes.
    Copied(usize, usize),
    Lent(Shared),
}

impl Pairs {
    pub(crate) fn new(env: RawEnv, codec: Codec) -> Pairs {
        Pairs {
            env,
            codec,
            keys_only: false,
            metas: None,
            copied: Vec::new(),
            lent_key_bytes: 0,
            taken: Vec::new(),
            terms: Vec::new(),
            external_left: EXTERNAL_BYTES_PER_PAGE,
        }
    }

    /// Collects only the keys of the records. With codec `term` a key has the form of a pair with
    /// the value `[]`, since the Erlang side may have to decode it.
    pub(crate) fn keys(env: RawEnv, codec: Codec) -> Pairs {
        Pairs { keys_only: true, ..Pairs::new(env, codec) }
    }

    /// Collects `{KeyBytes, ValueBytes, Flags, ExpiresAtMs | infinity}` instead of pairs.
    pub(crate) fn records(env: RawEnv) -> Pairs {
        Pairs { metas: Some(Vec::new()), ..Pairs::new(env, Codec::Raw) }
    }

    /// Reserves memory for about this many further records.
    pub(crate) fn reserve(&mut self, records: usize) {
        const BYTES: usize = 64;
        self.copied.reserve(records * BYTES);
        self.taken.reserve(records);
        self.terms.reserve(records);
    }

    /// Number of records that became terms.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Bytes of keys and values that were pushed and are not terms yet, without lent values.
    pub(crate) fn bytes(&self) -> usize {
        self.copied.len() + self.lent_key_bytes
    }

    /// The key that was pushed last, if it is not a term yet.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        match self.taken.last()? {
            Taken::Lent(shared) => Some(shared.entry().key()),
            Taken::Copied(key_end, _) => {
                let start = self.taken.iter().rev().skip(1).find_map(|taken| match taken {
                    Taken::Copied(_, value_end) => Some(*value_end),
                    Taken::Lent(_) => None,
                });
                Some(&self.copied[start.unwrap_or(0)..*key_end])
            }
        }
    }

    /// Adds a record; with values, one that is no string is left out. May run under a shard's lock.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        let value = if self.keys_only { None } else { Some(entry.text()) };
        let Ok(value) = value.transpose() else { return };
        if let Some(metas) = &mut self.metas {
            metas.push((entry.flags(), entry.expires_at_ms()));
        }
        if let Some(shared) = entry.share() {
            self.lent_key_bytes += entry.key().len();
            self.taken.push(Taken::Lent(shared));
            return;
        }
        self.copied.extend_from_slice(entry.key());
        let key_end = self.copied.len();
        if let Some(value) = value {
            self.copied.extend_from_slice(value);
        }
        self.taken.push(Taken::Copied(key_end, self.copied.len()));
    }

    /// Makes terms of the pushed records.
    pub(crate) fn finish(&mut self) {
        let mut from = 0;
        let (env, codec) = (self.env, self.codec);
        let mut metas = self.metas.as_mut().map(|metas| metas.drain(..));
        let left = &mut self.external_left;
        let mut copied = |bytes: &[u8]| {
            codec::decode_within(codec, env, bytes, left, |bytes| values::copied(env, bytes))
        };
        for taken in self.taken.drain(..) {
            let (key, value) = match taken {
                Taken::Copied(key_end, value_end) => {
                    let key = copied(&self.copied[from..key_end]);
                    let value = &self.copied[key_end..value_end];
                    from = value_end;
                    (key, (!self.keys_only).then(|| copied(value)))
                }
                Taken::Lent(shared) => {
                    let entry = shared.entry();
                    let key = copied(entry.key());
                    (key, (!self.keys_only).then(|| lent(env, codec, &shared, &shared)))
                }
            };
            let meta = metas.as_mut().and_then(Iterator::next);
            self.terms.push(match (key, value) {
                (Decoded::Term(key), Some(Decoded::Term(value))) if meta.is_some() => {
                    let (flags, expires_at_ms) = meta.unwrap_or_default();
                    let flags = erts::make_u64(env, u64::from(flags));
                    erts::tuple(env, &[key, value, flags, reply::expiry(env, expires_at_ms)])
                }
                (key, Some(value)) => reply::pair(env, key, value),
                (Decoded::Term(key), None) if codec == Codec::Raw => key,
                (key, None) => reply::pair(env, key, Decoded::Term(erts::nil(env))),
            });
        }
        self.copied.clear();
        self.lent_key_bytes = 0;
    }

    /// The terms as a list.
    pub(crate) fn list(&self) -> Raw {
        let nil = erts::nil(self.env);
        self.terms.iter().rev().fold(nil, |list, term| erts::cons(self.env, *term, list))
    }
}

/// A value that is lent. External terms are not decoded here, since they are large.
fn lent(env: RawEnv, codec: Codec, shared: &Shared, value: &[u8]) -> Decoded {
    codec::decode_within(codec, env, value, &mut 0, |bytes| {
        if bytes.len() > values::HEAP_BYTES_MAX {
            values::lent(env, shared, bytes)
        } else {
            values::copied(env, bytes)
        }
    })
}
