//! Ranges of ordered tables, a bounded page at a time.

use crate::codec::{self, EncodeBuffer, KEY_ENCODED, Misuse};
use crate::erts::{self, Raw, RawEnv};
use crate::ordered_key::{self, TERMS_MAX};
use crate::pairs::Pairs;
use crate::store::{Codec, Store};
use crate::{atoms, tables, values};
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::time::{Duration, Instant};
use todana_table::{Bound, KeyRange, Keyspace, Walk, Walked};

/// A page ends after this time, whatever it contains, but not before the current step is finished.
const PAGE: Duration = Duration::from_micros(500);
/// Maximum number of records between two reads of the clock.
const STEP: usize = 100;
/// Maximum bytes of keys and small values per step: the next step continues after the last record
/// that fits.
const STEP_BYTES_MAX: usize = 256 << 10;
/// The same for keys that are decoded.
const DECODED_STEP_BYTES_MAX: usize = 32 << 10;

/// `range(Table, Range, After, Reverse, Count, KeysOnly) -> {Next, Records}`: a page of records in
/// order, and the key after which to continue, or `done` at the end. `Range` is `{between, From,
/// To}` or `{prefix, Prefix}`; a bound is `unbounded`, `{included, Key}` or `{excluded, Key}`. With
/// codec `term` the result is `encode` if a key is large; then `Range` must be `{encoded, Range}`,
/// with the bytes of [`ordered_key`](crate::ordered_key). Misuse names the arguments of
/// `todana:range/4`.
///
/// Records are pairs, see [`reply::pair`](crate::reply::pair), or with `KeysOnly` keys, see
/// [`Pairs::keys`]. With codec `term` the result is `{Next, Records, term}`.
#[rustler::nif]
fn range<'a>(
    env: Env<'a>,
    table: Term<'a>,
    keys: Term<'a>,
    after: Term<'a>,
    reverse: bool,
    count: usize,
    keys_only: bool,
) -> Term<'a> {
    let read = |store: &Store| page(env, store, [keys, after], reverse, count, keys_only);
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let page = unsafe { tables::read(env.as_c_arg(), table.as_c_arg(), read) };
    page.unwrap_or_else(|misuse| misuse.term(env))
}

fn page<'a>(
    env: Env<'a>,
    store: &Store,
    [keys, after]: [Term<'a>; 2],
    reverse: bool,
    count: usize,
    keys_only: bool,
) -> Result<Term<'a>, Misuse> {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    let table = store.table();
    // Checked before the keys are encoded, since in an unordered table they may not be bytes.
    if table.order().is_none() {
        return Err(not_ordered());
    }
    let mut buffers = [EncodeBuffer::new(), EncodeBuffer::new()];
    let keys = key_range(store, keys, &mut buffers)?;
    // SAFETY: the term belongs to the present call.
    let given = unsafe { erts::binary(raw_env, after.as_c_arg()) };
    let mut next: Option<Vec<u8>> = None;
    let mut pairs = if keys_only {
        Pairs::keys(raw_env, store.codec)
    } else {
        Pairs::new(raw_env, store.codec)
    };
    let is_raw = store.codec == Codec::Raw;
    let step_bytes_max = if is_raw { STEP_BYTES_MAX } else { DECODED_STEP_BYTES_MAX };
    let now_ms = store.now_ms();
    let mut step = STEP;
    loop {
        let walk = Walk {
            keys,
            after: next.as_deref().or(given),
            reverse,
            count: (count - pairs.len()).min(step),
        };
        pairs.reserve(walk.count);
        let mut is_cut = false;
        let walked = table.walk(&walk, now_ms, |entry| {
            is_cut = pairs.bytes() >= step_bytes_max;
            if !is_cut {
                pairs.push(&entry);
            }
        });
        let walked = walked.or(Err(not_ordered()))?;
        next = match (walked, pairs.last_key()) {
            (_, Some(last)) if is_cut => Some(last.to_vec()),
            (Walked::End, _) => None,
            (Walked::Until(key), _) => Some(key),
        };
        // If keys are long, a smaller step looks up fewer of them in vain.
        step = if is_cut { STEP / 16 } else { STEP };
        pairs.finish();
        if next.is_none() || pairs.len() >= count || started.elapsed() > PAGE {
            break;
        }
    }
    erts::consume_timeslice(raw_env, started.elapsed());
    let next = match next {
        Some(key) => values::copied(raw_env, &key),
        None => atoms::done().as_c_arg(),
    };
    // SAFETY: the terms were made in this environment.
    let (next, list) = unsafe { (Term::new(env, next), Term::new(env, pairs.list())) };
    Ok(if is_raw { (next, list).encode(env) } else { (next, list, atoms::term()).encode(env) })
}

#[cold]
fn not_ordered() -> Misuse {
    Misuse::Argument(1, atoms::not_ordered())
}

fn key_range<'a>(
    store: &Store,
    term: Term<'_>,
    buffers: &'a mut [EncodeBuffer; 2],
) -> Result<KeyRange<'a>, Misuse> {
    let env = term.get_env().as_c_arg();
    // SAFETY: the term belongs to the present call.
    let words = unsafe { erts::elements(env, term.as_c_arg()) }.unwrap_or_default();
    let (words, form) = match *words {
        // SAFETY: as above.
        [word, range] if is(word, atoms::encoded()) => unsafe {
            (erts::elements(env, range).unwrap_or_default(), KEY_ENCODED)
        },
        _ => (words, 0),
    };
    let key = |term, argument, buffer| key(store, env, term, form, argument, buffer);
    let [first, second] = buffers;
    match *words {
        [word, from, to] if is(word, atoms::between()) => Ok(KeyRange::Between(
            bound(env, from, 2, |term| key(term, 2, first))?,
            bound(env, to, 3, |term| key(term, 3, second))?,
        )),
        [word, prefix] if is(word, atoms::prefix()) => {
            Ok(KeyRange::Prefix(if store.codec == Codec::OrderedTerm && form == 0 {
                let bytes = first.unfilled();
                // SAFETY: the term belongs to the present call.
                unsafe { ordered_key::encode_prefix(env, prefix, TERMS_MAX, bytes)? };
                bytes
            } else {
                key(prefix, 2, first)?
            }))
        }
        _ => Err(Misuse::Argument(2, atoms::bad_option())),
    }
}

fn bound<'a>(
    env: RawEnv,
    term: Raw,
    argument: i64,
    key: impl FnOnce(Raw) -> Result<&'a [u8], Misuse>,
) -> Result<Bound<'a>, Misuse> {
    // SAFETY: the term belongs to the present call.
    match unsafe { erts::elements(env, term) } {
        None if is(term, atoms::unbounded()) => Ok(Bound::Unbounded),
        Some(&[word, term]) if is(word, atoms::included()) => Ok(Bound::Included(key(term)?)),
        Some(&[word, term]) if is(word, atoms::excluded()) => Ok(Bound::Excluded(key(term)?)),
        _ => Err(Misuse::Argument(argument, atoms::bad_option())),
    }
}

fn key<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    form: u32,
    argument: i64,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: the term belongs to the present call, and so does the buffer.
    let key = unsafe { codec::key(store, env, term, form, buffer) };
    key.map_err(|misuse| match misuse {
        Misuse::Argument(_, cause) => Misuse::Argument(argument, cause),
        other => other,
    })
}

fn is(term: Raw, atom: Atom) -> bool {
    term == atom.as_c_arg()
}
