//! Functions over many keys, in slices: each call works for at most half a millisecond and returns
//! the remaining keys.

use crate::codec::{self, DIRTY_BYTES, EncodeBuffer, Misuse, ON_DIRTY};
use crate::erts::{self, Raw};
use crate::reply::{self, Answer, Answers};
use crate::store::Store;
use crate::submit::{self, Form, Shape};
use crate::{atoms, point, single, tables};
use rustler::{Encoder, Env, Term};
use std::time::{Duration, Instant};
use todana_command::{Command, Condition, KeyCommand, Set, StringCommand};

/// Duration of one slice.
const SLICE: Duration = Duration::from_micros(500);
/// Number of keys between two reads of the clock.
const KEYS_PER_LOOK: usize = 16;
/// This many copied or decoded bytes count as one key.
const BYTES_PER_KEY: usize = 512;
/// Bytes that a list counts as, since its elements are walked: the clock is read after it.
const LIST_BYTES: usize = KEYS_PER_LOOK * BYTES_PER_KEY;

/// The work done for one element of a list.
struct Element {
    /// Bytes that were copied, decoded or walked.
    bytes: usize,
    /// The reason to end the slice, if any.
    failure: Option<Raw>,
}

impl Element {
    fn of(bytes: usize) -> Element {
        Element { bytes, failure: None }
    }
}

/// The cost of a term beyond its bytes, if it had to be walked.
fn walked_bytes(walked: bool) -> usize {
    if walked { LIST_BYTES } else { 0 }
}

/// How a slice ended.
enum Ended {
    /// All keys were processed.
    Done,
    /// The slice's time is over.
    More,
    /// The Erlang side has to encode the next key (or value).
    Stopped(Misuse),
    /// A write failed for this reason.
    Failed(Raw),
}

/// Calls `each` for the elements of a list until the slice is over. Returns the rest.
fn slice<'a>(
    env: Env<'a>,
    list: Raw,
    mut each: impl FnMut(Raw) -> Result<Element, Misuse>,
) -> (Ended, Raw) {
    let started = Instant::now();
    let raw_env = env.as_c_arg();
    let mut rest = list;
    let mut keys = 0;
    let ended = loop {
        let Some((head, tail)) = erts::uncons(raw_env, rest) else { break end_of(raw_env, rest) };
        match each(head) {
            Ok(Element { failure: Some(failure), .. }) => break Ended::Failed(failure),
            Ok(Element { bytes, .. }) => keys += 1 + bytes / BYTES_PER_KEY,
            Err(misuse) => break Ended::Stopped(misuse),
        }
        rest = tail;
        if keys >= KEYS_PER_LOOK {
            keys = 0;
            if started.elapsed() > SLICE {
                break Ended::More;
            }
        }
    };
    erts::consume_timeslice(raw_env, started.elapsed());
    (ended, rest)
}

/// A proper list ends with `[]`.
fn end_of(env: erts::RawEnv, rest: Raw) -> Ended {
    if erts::is_nil(env, rest) {
        Ended::Done
    } else {
        Ended::Stopped(Misuse::Argument(2, atoms::not_a_list()))
    }
}

/// `{done, Result} | {more, Rest, Result} | {Why, Rest, Result} | {{error, Reason}, Rest, Result}`,
/// where `Why` is `encode`, `dirty` or `{badarg, N, Cause}` and concerns the head of `Rest`.
fn ended<'a>(env: Env<'a>, ended: (Ended, Raw), result: Term<'a>) -> Term<'a> {
    let (ended, rest) = ended;
    // SAFETY: the term was made in this environment, or given to this call.
    let wrap = |term| unsafe { Term::new(env, term) };
    match ended {
        Ended::Done => (atoms::done(), result).encode(env),
        Ended::More => (atoms::more(), wrap(rest), result).encode(env),
        Ended::Stopped(misuse) => (misuse.term(env), wrap(rest), result).encode(env),
        Ended::Failed(failure) => (wrap(failure), wrap(rest), result).encode(env),
    }
}

/// `get_many(Table, Keys, Found)`: prepends `{Key, {ok, Value} | {encoded, Bytes}}` to `Found`.
#[rustler::nif]
fn get_many<'a>(env: Env<'a>, table: Term<'a>, keys: Term<'a>, found: Term<'a>) -> Term<'a> {
    let raw_env = env.as_c_arg();
    let mut list = found.as_c_arg();
    let read = |store: &Store| {
        Ok(slice(env, keys.as_c_arg(), |key| {
            let mut cost = point::LookUpCost::default();
            // SAFETY: the key is part of this call's argument.
            if let Some(value) = unsafe { point::look_up(store, raw_env, key, 0, &mut cost)? } {
                list = erts::cons(raw_env, erts::tuple(raw_env, &[key, value]), list);
            }
            Ok(Element::of(cost.bytes + walked_bytes(cost.walked)))
        }))
    };
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    match unsafe { tables::read(raw_env, table.as_c_arg(), read) } {
        // SAFETY: the list was made in this environment.
        Ok(done) => ended(env, done, unsafe { Term::new(env, list) }),
        Err(misuse) => misuse.term(env),
    }
}

/// `put_many(Table, Pairs, Expires, Written)`: writes each pair separately.
#[rustler::nif]
fn put_many<'a>(
    env: Env<'a>,
    table: Term<'a>,
    pairs: Term<'a>,
    expiry: Term<'a>,
    written: u64,
) -> Term<'a> {
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = match unsafe { tables::get(raw_env, table.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    if store.is_durable() {
        // The Erlang side stores parts of the list with `put_all`.
        return Misuse::Durable.term(env);
    }
    let Some(expires) = single::expires(store, expiry) else {
        return Misuse::Argument(3, atoms::bad_option()).term(env);
    };
    let mut written = written;
    let done = slice(env, pairs.as_c_arg(), |pair| {
        let (mut key_buffer, mut value_buffer) = (EncodeBuffer::new(), EncodeBuffer::new());
        // SAFETY: the pair is part of this call's argument.
        let (key, value, bytes) =
            unsafe { pair_of(store, raw_env, pair, 0, &mut key_buffer, &mut value_buffer)? };
        let set = Set { expires, ..Set::new(key, value) };
        let command = Command::String(StringCommand::Set(set));
        let mut answers = Answers::default();
        store.execute(&command, &mut answers);
        match answers.only() {
            Answer::Stored(_) | Answer::Done => {
                written += 1;
                Ok(Element::of(bytes))
            }
            answer => Ok(Element { bytes, failure: Some(reply::fact(raw_env, answer)) }),
        }
    });
    ended(env, done, written.encode(env))
}

/// Key and value of a pair, and the number of bytes that they count as.
///
/// # Safety
/// As for [`codec::key`].
unsafe fn pair_of<'a>(
    store: &Store,
    env: erts::RawEnv,
    pair: Raw,
    form: u32,
    key_buffer: &'a mut EncodeBuffer,
    value_buffer: &'a mut EncodeBuffer,
) -> Result<(&'a [u8], &'a [u8], usize), Misuse> {
    // SAFETY: see the function.
    unsafe {
        let Some(&[key, value]) = erts::elements(env, pair) else {
            return Err(Misuse::Argument(2, atoms::not_a_pair()));
        };
        let is_list = |term| walked_bytes(erts::is_list(env, term));
        let lists = is_list(key) + is_list(value);
        let key = codec::key(store, env, key, form, key_buffer)?;
        let value = codec::value(store, env, value, form, 2, value_buffer)?;
        Ok((key, value, lists + key.len() + value.len()))
    }
}

/// `put_all(Table, Pairs, Expires, OnlyIfAllAbsent, Form) -> ok | {error, Reason}`: writes a few
/// pairs atomically.
#[rustler::nif]
fn put_all<'a>(
    env: Env<'a>,
    table: Term<'a>,
    pairs: Term<'a>,
    expiry: Term<'a>,
    if_absent: bool,
    form: Form<'a>,
) -> Term<'a> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) };
    store
        .and_then(|store| set_many(env, store, pairs, expiry, if_absent, form))
        .unwrap_or_else(|misuse| misuse.term(env))
}

/// Like `put_all`, for many pairs; takes the table's handle.
#[rustler::nif(schedule = "DirtyCpu")]
fn put_all_dirty<'a>(
    env: Env<'a>,
    table: Term<'a>,
    pairs: Term<'a>,
    expiry: Term<'a>,
    if_absent: bool,
    form: Form<'a>,
) -> Term<'a> {
    // SAFETY: both belong to the present call.
    let store = unsafe { tables::by_handle(env.as_c_arg(), table.as_c_arg()) };
    store
        .and_then(|store| set_many(env, store, pairs, expiry, if_absent, form.on_dirty()))
        .unwrap_or_else(|misuse| misuse.term(env))
}

fn set_many<'a>(
    env: Env<'a>,
    store: &Store,
    pairs: Term<'a>,
    expiry: Term<'a>,
    if_absent: bool,
    form: Form<'a>,
) -> Result<Term<'a>, Misuse> {
    submit::begin(store, form)?;
    let raw_env = env.as_c_arg();
    let expires = single::expires(store, expiry).ok_or(Misuse::Argument(3, atoms::bad_option()))?;
    let mut owned: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    // The second number has no bytes for lists.
    let (mut bytes, mut stored) = (0, 0);
    let mut rest = pairs.as_c_arg();
    while let Some((pair, tail)) = erts::uncons(raw_env, rest) {
        let (mut key_buffer, mut value_buffer) = (EncodeBuffer::new(), EncodeBuffer::new());
        // SAFETY: the pair is part of this call's argument.
        let (key, value, pair_bytes) = unsafe {
            pair_of(store, raw_env, pair, form.bits, &mut key_buffer, &mut value_buffer)?
        };
        bytes += pair_bytes;
        if bytes > DIRTY_BYTES && form.bits & ON_DIRTY == 0 {
            return Err(Misuse::Dirty);
        }
        stored += key.len() + value.len();
        if submit::is_too_long(store, stored) {
            return Ok(env.error_tuple(atoms::too_large()));
        }
        owned.push((key.to_vec(), value.to_vec()));
        rest = tail;
    }
    if let Ended::Stopped(misuse) = end_of(raw_env, rest) {
        return Err(misuse);
    }
    let borrowed: Vec<(&[u8], &[u8])> =
        owned.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    let condition = if if_absent { Condition::IfAbsent } else { Condition::Always };
    let command = Command::String(StringCommand::SetMany { pairs: &borrowed, condition, expires });
    let answer = if store.is_durable() {
        submit::submit(env, store, form, Shape::Fact, |records| records.put(&command))
    } else {
        let mut answers = Answers::default();
        store.execute(&command, &mut answers);
        answers.only()
    };
    // SAFETY: the term was made in this environment.
    Ok(unsafe { Term::new(env, reply::fact(raw_env, answer)) })
}

/// `delete_many(Table, Keys, Deleted)`
#[rustler::nif]
fn delete_many<'a>(env: Env<'a>, table: Term<'a>, keys: Term<'a>, deleted: u64) -> Term<'a> {
    let raw_env = env.as_c_arg();
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = match unsafe { tables::get(raw_env, table.as_c_arg()) } {
        Ok(store) => store,
        Err(misuse) => return misuse.term(env),
    };
    if store.is_durable() {
        return Misuse::Durable.term(env);
    }
    let mut deleted = deleted;
    let done = slice(env, keys.as_c_arg(), |key| {
        let mut buffer = EncodeBuffer::new();
        // SAFETY: the key is part of this call's argument.
        let bytes = unsafe { codec::key(store, raw_env, key, 0, &mut buffer)? };
        let mut answers = Answers::default();
        store.execute(&Command::Key(KeyCommand::Delete { keys: &[bytes] }), &mut answers);
        if let Answer::Integer(number) = answers.only() {
            deleted += number.unsigned_abs();
        }
        let length = bytes.len();
        Ok(Element::of(length + walked_bytes(buffer.was_walked())))
    });
    ended(env, done, deleted.encode(env))
}

/// `delete_all(Table, Keys, Form) -> Number`: removes some keys of a durable table in one step.
#[rustler::nif(schedule = "DirtyCpu")]
fn delete_all<'a>(env: Env<'a>, handle: Term<'a>, keys: Term<'a>, form: Form<'a>) -> Term<'a> {
    // SAFETY: both belong to the present call.
    let store = unsafe { tables::by_handle(env.as_c_arg(), handle.as_c_arg()) };
    store
        .and_then(|store| remove_many(env, store, keys, form))
        .unwrap_or_else(|misuse| misuse.term(env))
}

fn remove_many<'a>(
    env: Env<'a>,
    store: &Store,
    keys: Term<'a>,
    form: Form<'a>,
) -> Result<Term<'a>, Misuse> {
    let raw_env = env.as_c_arg();
    let mut owned: Vec<Vec<u8>> = Vec::new();
    let mut rest = keys.as_c_arg();
    while let Some((key, tail)) = erts::uncons(raw_env, rest) {
        let mut buffer = EncodeBuffer::new();
        // SAFETY: the key is part of this call's argument.
        owned.push(unsafe { codec::key(store, raw_env, key, form.bits, &mut buffer)? }.to_vec());
        rest = tail;
    }
    let borrowed: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    let command = Command::Key(KeyCommand::Delete { keys: &borrowed });
    let answer = submit::submit(env, store, form, Shape::Number, |records| records.put(&command));
    // SAFETY: the term was made in this environment.
    Ok(unsafe { Term::new(env, reply::fact(raw_env, answer)) })
}
