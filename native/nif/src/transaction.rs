//! The commit of an optimistic transaction, and the bytes that identify a key in one.

use crate::codec::{self, DIRTY_BYTES, EncodeBuffer, Misuse, ON_DIRTY};
use crate::erts::{self, Raw, RawEnv};
use crate::key_state::key_state;
use crate::single;
use crate::store::Store;
use crate::submit::{self, Form, Shape};
use crate::{atoms, tables, values};
use rustler::{Encoder, Env, Term};
use todana_command::{Check, OptimisticCommit, Uncommitted, Write};

/// Maximum number of checks and writes of one transaction; a larger commit would take too long.
const ITEMS_MAX: usize = 32_768;

/// `key_bytes(Table, Key, Form) -> Bytes`: keys are equal if their bytes are equal.
#[rustler::nif]
fn key_bytes<'a>(env: Env<'a>, table: Term<'a>, key: Term<'a>, form: u32) -> Term<'a> {
    let raw_env = env.as_c_arg();
    let mut buffer = EncodeBuffer::new();
    // SAFETY: all belong to the present call, which runs on a normal scheduler.
    let bytes = unsafe {
        tables::open_one(raw_env, table.as_c_arg())
            .and_then(|store| codec::key(store, raw_env, key.as_c_arg(), form, &mut buffer))
    };
    match bytes {
        // SAFETY: the term is made in this environment.
        Ok(bytes) => unsafe { Term::new(env, values::copied(raw_env, bytes)) },
        Err(misuse) => misuse.term(env),
    }
}

/// `commit(Table, Checks, Writes, Form) -> ok | conflict | {error, full | too_large}`. A check is
/// `{Key, State}`. A write is `{Key}` for a removal or `{Key, Value, Flags, Expires}`. Each list
/// names a key at most once.
#[rustler::nif]
fn commit<'a>(
    env: Env<'a>,
    table: Term<'a>,
    checks: Term<'a>,
    writes: Term<'a>,
    form: Form<'a>,
) -> Term<'a> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    let store = unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) };
    store
        .and_then(|store| committed(env, store, checks, writes, form))
        .unwrap_or_else(|misuse| misuse.term(env))
}

/// Like `commit`, for many or long keys, or large values; takes the table's handle.
#[rustler::nif(schedule = "DirtyCpu")]
fn commit_dirty<'a>(
    env: Env<'a>,
    table: Term<'a>,
    checks: Term<'a>,
    writes: Term<'a>,
    form: Form<'a>,
) -> Term<'a> {
    // SAFETY: both belong to the present call.
    let store = unsafe { tables::by_handle(env.as_c_arg(), table.as_c_arg()) };
    store
        .and_then(|store| committed(env, store, checks, writes, form.on_dirty()))
        .unwrap_or_else(|misuse| misuse.term(env))
}

fn committed<'a>(
    env: Env<'a>,
    store: &Store,
    checks: Term<'a>,
    writes: Term<'a>,
    form: Form<'a>,
) -> Result<Term<'a>, Misuse> {
    submit::begin(store, form)?;
    let (raw_env, whole) = (env.as_c_arg(), form);
    let form = whole.bits;
    let (checked, written) = (items(raw_env, checks, 2)?, items(raw_env, writes, 3)?);
    if checked.len() + written.len() > ITEMS_MAX {
        return Ok(env.error_tuple(atoms::too_large()));
    }
    let mut check_buffers: Vec<EncodeBuffer> =
        checked.iter().map(|_| EncodeBuffer::new()).collect();
    let mut write_buffers: Vec<[EncodeBuffer; 2]> =
        written.iter().map(|_| [EncodeBuffer::new(), EncodeBuffer::new()]).collect();
    let mut bytes = Bytes::default();
    let mut checks = Vec::with_capacity(checked.len());
    for (item, buffer) in checked.iter().zip(&mut check_buffers) {
        let check = check(store, raw_env, *item, form, buffer)?;
        bytes.count(check.key, &[], form)?;
        checks.push(check);
    }
    let mut writes = Vec::with_capacity(written.len());
    for (item, buffers) in written.iter().zip(&mut write_buffers) {
        let write = write(env, store, *item, form, buffers)?;
        bytes.count(write.key, write.put.map_or(&[], |(value, ..)| value), form)?;
        if submit::is_too_long(store, bytes.keys + bytes.values) {
            return Ok(env.error_tuple(atoms::too_large()));
        }
        writes.push(write);
    }
    // Each value has been charged.
    erts::bill(raw_env, bytes.keys);
    let transaction = OptimisticCommit { checks: &checks, writes: &writes };
    if store.is_durable() {
        return Ok(logged(env, store, &transaction, whole));
    }
    Ok(match store.commit(&transaction) {
        Ok(()) => atoms::ok().encode(env),
        Err(Uncommitted::Conflict) => atoms::conflict().encode(env),
        Err(Uncommitted::TooMuchWork) => env.error_tuple(atoms::too_large()),
        Err(Uncommitted::Full) => env.error_tuple(atoms::full()),
    })
}

/// The commit as a record of the log.
fn logged<'a>(
    env: Env<'a>,
    store: &Store,
    transaction: &OptimisticCommit<'_>,
    form: Form<'a>,
) -> Term<'a> {
    // A named table is database 0 of its transactions.
    match transaction.logged(store.database_number().unwrap_or(0)) {
        Ok(transaction) => {
            let records = |records: &mut submit::Records<'_>| records.put_transaction(&transaction);
            submit::term(env, submit::submit(env, store, form, Shape::Committed, records))
        }
        Err(Uncommitted::TooMuchWork) => env.error_tuple(atoms::too_large()),
        Err(Uncommitted::Conflict) => atoms::conflict().encode(env),
        Err(Uncommitted::Full) => env.error_tuple(atoms::full()),
    }
}

/// Bytes of a commit's keys and values. The table hashes, compares and copies them.
#[derive(Default)]
struct Bytes {
    keys: usize,
    values: usize,
}

impl Bytes {
    /// [`Misuse::Dirty`] if there are too many for a normal scheduler.
    fn count(&mut self, key: &[u8], value: &[u8], form: u32) -> Result<(), Misuse> {
        self.keys += key.len();
        self.values += value.len();
        if self.keys + self.values > DIRTY_BYTES && form & ON_DIRTY == 0 {
            return Err(Misuse::Dirty);
        }
        Ok(())
    }
}

/// The elements of a list.
fn items(env: RawEnv, list: Term<'_>, argument: i64) -> Result<Vec<Raw>, Misuse> {
    let (mut items, mut rest) = (Vec::new(), list.as_c_arg());
    while let Some((head, tail)) = erts::uncons(env, rest) {
        items.push(head);
        rest = tail;
    }
    if erts::is_nil(env, rest) { Ok(items) } else { Err(bad_item(argument)) }
}

fn bad_item(argument: i64) -> Misuse {
    Misuse::Argument(argument, atoms::bad_option())
}

fn check<'a>(
    store: &Store,
    env: RawEnv,
    item: Raw,
    form: u32,
    buffer: &'a mut EncodeBuffer,
) -> Result<Check<'a>, Misuse> {
    // SAFETY: the item is part of the present call's argument.
    let parts = unsafe { erts::elements(env, item) };
    let Some(&[key, state]) = parts else { return Err(bad_item(2)) };
    let state = key_state(env, state).ok_or(bad_item(2))?;
    // SAFETY: the key is part of the present call's argument.
    let key = unsafe { codec::key(store, env, key, form, buffer)? };
    Ok(Check { key, state })
}

fn write<'a>(
    env: Env<'_>,
    store: &Store,
    item: Raw,
    form: u32,
    [key_buffer, value_buffer]: &'a mut [EncodeBuffer; 2],
) -> Result<Write<'a>, Misuse> {
    let raw_env = env.as_c_arg();
    // SAFETY: the item is part of the present call's argument.
    match unsafe { erts::elements(raw_env, item) } {
        Some(&[key]) => {
            // SAFETY: the key is part of the present call's argument.
            let key = unsafe { codec::key(store, raw_env, key, form, key_buffer)? };
            Ok(Write { key, put: None })
        }
        Some(&[key, value, flags, expiry]) => {
            // SAFETY: the terms are parts of the present call's argument.
            let (key, value, expiry) = unsafe {
                let key = codec::key(store, raw_env, key, form, key_buffer)?;
                let value = codec::value(store, raw_env, value, form, 3, value_buffer)?;
                (key, value, Term::new(env, expiry))
            };
            let flags = erts::get_i64(raw_env, flags).and_then(|flags| u32::try_from(flags).ok());
            let flags = flags.ok_or(bad_item(3))?;
            let expires = single::expires(store, expiry).ok_or(bad_item(3))?;
            Ok(Write { key, put: Some((value, flags, expires)) })
        }
        _ => Err(bad_item(3)),
    }
}
