//! Ranges of ordered tables, a bounded page at a time.

use crate::codec::{self, EncodeBuffer, Misuse};
use crate::erts::{self, Raw, RawEnv};
use crate::pairs::Pairs;
use crate::store::{Store, now_ms};
use crate::{atoms, tables, values};
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use std::time::{Duration, Instant};
use todana_table::{Bound, KeyRange, Keyspace, Walk, Walked};

/// A page ends after this time, whatever it contains, but not before the current step is finished.
const PAGE: Duration = Duration::from_micros(500);
/// Maximum number of records between two reads of the clock.
const STEP: usize = 100;
/// Bytes of keys and small values between them: the step goes on behind the last record that fits.
const STEP_BYTES_MAX: usize = 256 << 10;

/// `range(Table, Range, After, Reverse, Count, KeysOnly) -> {Next, Records}`: a page of records in
/// order, and the key to go on after, `done` at the end. `Range` is `{between, From, To}` or
/// `{prefix, Bytes}`; an end is `unbounded`, `{included, Key}` or `{excluded, Key}`. Misuse names
/// the arguments of `todana:range/4`. With `KeysOnly`, records are keys; else see
/// [`reply::pair`](crate::reply::pair).
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
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) };
    store
        .and_then(|store| page(env, store, [keys, after], reverse, count, keys_only))
        .unwrap_or_else(|misuse| misuse.term(env))
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
    let now_ms = now_ms();
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
            is_cut = pairs.bytes() >= STEP_BYTES_MAX;
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
    Ok((next, list).encode(env))
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
    let [first, second] = buffers;
    match *words {
        [word, from, to] if is(word, atoms::between()) => Ok(KeyRange::Between(
            bound(store, env, from, 2, first)?,
            bound(store, env, to, 3, second)?,
        )),
        [word, bytes] if is(word, atoms::prefix()) => {
            Ok(KeyRange::Prefix(key(store, env, bytes, 2, first)?))
        }
        _ => Err(Misuse::Argument(2, atoms::bad_option())),
    }
}

fn bound<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    argument: i64,
    buffer: &'a mut EncodeBuffer,
) -> Result<Bound<'a>, Misuse> {
    // SAFETY: the term belongs to the present call.
    match unsafe { erts::elements(env, term) } {
        None if is(term, atoms::unbounded()) => Ok(Bound::Unbounded),
        Some(&[word, bytes]) if is(word, atoms::included()) => {
            Ok(Bound::Included(key(store, env, bytes, argument, buffer)?))
        }
        Some(&[word, bytes]) if is(word, atoms::excluded()) => {
            Ok(Bound::Excluded(key(store, env, bytes, argument, buffer)?))
        }
        _ => Err(Misuse::Argument(argument, atoms::bad_option())),
    }
}

fn key<'a>(
    store: &Store,
    env: RawEnv,
    term: Raw,
    argument: i64,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: the term belongs to the present call, and so does the buffer.
    let key = unsafe { codec::key(store, env, term, 0, buffer) };
    key.map_err(|misuse| match misuse {
        Misuse::Argument(_, cause) => Misuse::Argument(argument, cause),
        other => other,
    })
}

fn is(term: Raw, atom: Atom) -> bool {
    term == atom.as_c_arg()
}
