//! The other functions on one key.

use crate::codec::{self, Decoded, EncodeBuffer, Misuse};
use crate::erts::{Raw, RawEnv};
use crate::key_state::state_number;
use crate::reply::{self, Answer, Answers};
use crate::store::Store;
use crate::submit::{self, Form, Shape};
use crate::{atoms, tables, values};
use rustler::types::atom::Atom;
use rustler::{Encoder, Env, Term};
use todana_command::{
    Command, Condition, Delta, ExpireWhen, Expires, Increment, Initial, KeyCommand, KeyState,
    Refusal, Set, StringCommand,
};
use todana_table::{Entry, WrongKind};

/// The table that the term identifies, on a normal scheduler.
fn store_of<'a>(env: Env<'a>, table: Term<'a>) -> Result<&'a Store, Misuse> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    unsafe { tables::get(env.as_c_arg(), table.as_c_arg()) }
}

/// Reads the records of the table that the term identifies, on a normal scheduler.
fn read<'a, R>(
    env: Env<'a>,
    table: Term<'a>,
    read: impl FnOnce(&'a Store) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    // SAFETY: both belong to the present call, which runs on a normal scheduler.
    unsafe { tables::read(env.as_c_arg(), table.as_c_arg(), read) }
}

fn wrap<'a>(env: Env<'a>, term: Raw) -> Term<'a> {
    // SAFETY: the term was made in this environment.
    unsafe { Term::new(env, term) }
}

fn key_of<'a>(
    store: &Store,
    key: Term<'_>,
    form: u32,
    buffer: &'a mut EncodeBuffer,
) -> Result<&'a [u8], Misuse> {
    // SAFETY: the term belongs to the present call, and so does the buffer.
    unsafe { codec::key(store, key.get_env().as_c_arg(), key.as_c_arg(), form, buffer) }
}

/// Runs the command that `command` makes from the key, and converts the answer.
fn on_key<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    form: u32,
    command: impl FnOnce(&[u8], &mut dyn FnMut(&Command<'_>) -> Answer) -> Result<Answer, Misuse>,
) -> Result<Answer, Misuse> {
    read(env, table, |store| execute(store, key, form, command))
}

fn execute(
    store: &Store,
    key: Term<'_>,
    form: u32,
    command: impl FnOnce(&[u8], &mut dyn FnMut(&Command<'_>) -> Answer) -> Result<Answer, Misuse>,
) -> Result<Answer, Misuse> {
    let mut buffer = EncodeBuffer::new();
    let key = key_of(store, key, form, &mut buffer)?;
    command(key, &mut |command| {
        let mut answers = Answers::default();
        store.execute(command, &mut answers);
        answers.only()
    })
}

/// Like [`on_key`], for a write. In a durable table it runs only the first command, and `shape`
/// says what becomes of its reply.
fn change_key<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    form: Form<'a>,
    shape: Shape,
    command: impl FnOnce(&[u8], &mut dyn FnMut(&Command<'_>) -> Answer) -> Result<Answer, Misuse>,
) -> Result<Answer, Misuse> {
    let store = store_of(env, table)?;
    if !store.is_durable() {
        return execute(store, key, form.bits, command);
    }
    submit::begin(store, form)?;
    let mut buffer = EncodeBuffer::new();
    let key = key_of(store, key, form.bits, &mut buffer)?;
    command(key, &mut |command| {
        submit::submit(env, store, form, shape, |records| {
            records.put(command);
            if let Shape::Expired = shape {
                records.put_read(&Command::Key(KeyCommand::Expiry { key }));
            }
        })
    })
}

/// Converts an answer that carries no value, or a misuse.
fn fact<'a>(env: Env<'a>, answer: Result<Answer, Misuse>) -> Term<'a> {
    match answer {
        Ok(answer) => wrap(env, reply::fact(env.as_c_arg(), answer)),
        Err(misuse) => misuse.term(env),
    }
}

/// An expiry as the Erlang side passes it: `table | never | keep | {at, Ms} | {ttl, Ms}`.
pub(crate) fn expires(store: &Store, term: Term<'_>) -> Option<Expires> {
    if let Ok((word, ms)) = term.decode::<(Atom, u64)>() {
        return if word == atoms::at() {
            Some(Expires::At(ms))
        } else if word == atoms::ttl() {
            Some(Expires::After(ms))
        } else {
            None
        };
    }
    let word = term.decode::<Atom>().ok()?;
    if word == atoms::table() {
        Some(store.default_expires())
    } else if word == atoms::never() {
        Some(Expires::Never)
    } else if word == atoms::keep() {
        Some(Expires::Keep)
    } else {
        None
    }
}

/// A condition as the Erlang side passes it: `always | absent | present | {version, Version}`.
fn condition(term: Term<'_>) -> Option<Condition> {
    if let Ok((word, version)) = term.decode::<(Atom, u64)>() {
        return (word == atoms::version()).then_some(Condition::IfVersion(version));
    }
    let word = term.decode::<Atom>().ok()?;
    if word == atoms::always() {
        Some(Condition::Always)
    } else if word == atoms::absent() {
        Some(Condition::IfAbsent)
    } else if word == atoms::present() {
        Some(Condition::IfPresent)
    } else {
        None
    }
}

const OPTIONS: i64 = 4;

fn bad_option(argument: i64) -> Misuse {
    Misuse::Argument(argument, atoms::bad_option())
}

/// `put_with(Table, Key, Value, Condition, Expires, Flags, Form) -> {ok, Version} | {error,
/// Reason}`
#[rustler::nif]
#[allow(clippy::too_many_arguments, reason = "positional, since the Erlang side has read the map")]
fn put_with<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    value: Term<'a>,
    only: Term<'a>,
    expiry: Term<'a>,
    flags: u32,
    form: Form<'a>,
) -> Term<'a> {
    let store = store_of(env, table);
    stored(env, store.and_then(|store| set(env, store, [key, value, only, expiry], flags, form)))
}

/// Like `put_with`, for long values; takes the table's handle.
#[rustler::nif(schedule = "DirtyCpu")]
#[allow(clippy::too_many_arguments, reason = "as `put_with`")]
fn put_with_dirty<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    value: Term<'a>,
    only: Term<'a>,
    expiry: Term<'a>,
    flags: u32,
    form: Form<'a>,
) -> Term<'a> {
    // SAFETY: both belong to the present call.
    let store = unsafe { tables::by_handle(env.as_c_arg(), table.as_c_arg()) };
    let (terms, form) = ([key, value, only, expiry], form.on_dirty());
    stored(env, store.and_then(|store| set(env, store, terms, flags, form)))
}

fn stored<'a>(env: Env<'a>, answer: Result<Answer, Misuse>) -> Term<'a> {
    match answer {
        Ok(Answer::Stored(version)) => (atoms::ok(), version).encode(env),
        answer => fact(env, answer),
    }
}

fn set<'a>(
    env: Env<'a>,
    store: &Store,
    terms: [Term<'a>; 4],
    flags: u32,
    form: Form<'a>,
) -> Result<Answer, Misuse> {
    submit::begin(store, form)?;
    let [key, value, only, expiry] = terms;
    let (mut key_buffer, mut value_buffer) = (EncodeBuffer::new(), EncodeBuffer::new());
    let key = key_of(store, key, form.bits, &mut key_buffer)?;
    let (raw_env, value, bits) = (env.as_c_arg(), value.as_c_arg(), form.bits);
    // SAFETY: the term belongs to the present call, and so does the buffer.
    let value = unsafe { codec::value(store, raw_env, value, bits, 3, &mut value_buffer)? };
    let command = Command::String(StringCommand::Set(Set {
        key,
        value,
        flags,
        condition: condition(only).ok_or(bad_option(OPTIONS))?,
        expires: expires(store, expiry).ok_or(bad_option(OPTIONS))?,
        return_old: false,
        track_access: false,
    }));
    if store.is_durable() {
        let records = |records: &mut submit::Records<'_>| records.put(&command);
        return Ok(submit::submit(env, store, form, Shape::Stored, records));
    }
    let mut answers = Answers::default();
    store.execute(&command, &mut answers);
    Ok(answers.only())
}

/// A record that was read, with its value as from [`codec::decode`]: a large one is lent.
struct Looked {
    value: Decoded,
    version: u64,
    flags: u32,
    expires_at_ms: Option<u64>,
}

/// Looks at a record; also returns the state of the key.
fn look(env: Env<'_>, store: &Store, key: &[u8]) -> Result<(Option<Looked>, KeyState), Misuse> {
    let env = env.as_c_arg();
    let (looked, state) = store.look_up_state(key, |entry| {
        let Some(entry) = entry else { return Ok(None) };
        let value = codec::decode(store.codec, env, entry.text()?, |bytes| {
            values::pinned(env, &entry, bytes).unwrap_or_else(|| values::copied(env, bytes))
        });
        let (version, flags, expires_at_ms) =
            (entry.version(), entry.flags(), entry.expires_at_ms());
        Ok(Some(Looked { value, version, flags, expires_at_ms }))
    });
    looked.map(|looked| (looked, state)).map_err(|WrongKind(kind)| Misuse::WrongKind(kind))
}

/// `get_entry(Table, Key, Form) -> {Value, Version, Flags, ExpiresAtMs, IsEncoded, State} |
/// error`. The state is what [`commit`](crate::transaction) compares.
#[rustler::nif]
fn get_entry<'a>(env: Env<'a>, table: Term<'a>, key: Term<'a>, form: u32) -> Term<'a> {
    let mut buffer = EncodeBuffer::new();
    let looked = read(env, table, |store| look(env, store, key_of(store, key, form, &mut buffer)?));
    match looked {
        Ok((Some(looked), state)) => {
            let Looked { value, version, flags, expires_at_ms } = looked;
            let state = state_number(state);
            let env_raw = env.as_c_arg();
            wrap(env, reply::entry(env_raw, value, version, flags, expires_at_ms, state))
        }
        Ok((None, _)) => atoms::error().encode(env),
        Err(misuse) => misuse.term(env),
    }
}

/// `take(Table, Key, Form) -> {ok, Value} | {encoded, Bytes} | error`
///
/// Lends a large value instead of copying it.
#[rustler::nif]
fn take<'a>(env: Env<'a>, table: Term<'a>, key: Term<'a>, form: Form<'a>) -> Term<'a> {
    let raw_env = env.as_c_arg();
    match store_of(env, table) {
        Ok(store) if store.is_durable() => {
            let shape = Shape::Taken(store.codec);
            let answer = change_key(env, table, key, form, shape, |key, run| {
                Ok(run(&Command::String(StringCommand::Take { key })))
            });
            return fact(env, answer);
        }
        _ => (),
    }
    let mut buffer = EncodeBuffer::new();
    let taken = store_of(env, table).and_then(|store| {
        let key = key_of(store, key, form.bits, &mut buffer)?;
        let taken = store.take(key, |entry| entry.map(|it| taken(raw_env, store, &it)).transpose());
        taken.map_err(|WrongKind(kind)| Misuse::WrongKind(kind))
    });
    match taken {
        Ok(Some(value)) => wrap(env, reply::value(raw_env, value)),
        Ok(None) => atoms::error().encode(env),
        Err(misuse) => misuse.term(env),
    }
}

fn taken(env: RawEnv, store: &Store, entry: &Entry<'_>) -> Result<Decoded, WrongKind> {
    let shared = entry.share();
    Ok(codec::decode(store.codec, env, entry.text()?, |bytes| match &shared {
        Some(shared) if bytes.len() > values::HEAP_BYTES_MAX => values::lent(env, shared, bytes),
        _ => values::copied(env, bytes),
    }))
}

/// `delete(Table, Key, Condition, Form) -> ok | error | {error, Reason}`
#[rustler::nif]
fn delete<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    only: Term<'a>,
    form: Form<'a>,
) -> Term<'a> {
    let answer = change_key(env, table, key, form, Shape::Removed, |key, run| {
        Ok(match condition(only).ok_or(bad_option(3))? {
            Condition::Always => match run(&Command::Key(KeyCommand::Delete { keys: &[key] })) {
                Answer::Integer(number) => Answer::Flag(number > 0),
                answer => answer,
            },
            condition => match run(&Command::Key(KeyCommand::DeleteIf { key, condition })) {
                Answer::Refused(Refusal::Absent) => Answer::None,
                answer => answer,
            },
        })
    });
    fact(env, answer)
}

/// `expiry(Table, Key, Form) -> {ok, ExpiresAtMs | infinity} | error`
#[rustler::nif]
fn expiry<'a>(env: Env<'a>, table: Term<'a>, key: Term<'a>, form: u32) -> Term<'a> {
    let answer = on_key(env, table, key, form, |key, run| {
        Ok(run(&Command::Key(KeyCommand::Expiry { key })))
    });
    match answer {
        Ok(Answer::Expiry(at_ms)) => {
            let at_ms = wrap(env, reply::expiry(env.as_c_arg(), at_ms));
            (atoms::ok(), at_ms).encode(env)
        }
        answer => fact(env, answer),
    }
}

/// `expire(Table, Key, Expires, Form) -> ok | error`
#[rustler::nif]
fn expire<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    expiry: Term<'a>,
    form: Form<'a>,
) -> Term<'a> {
    let answer = store_of(env, table).and_then(|store| {
        let expires = expires(store, expiry).ok_or(bad_option(3))?;
        change_key(env, table, key, form, Shape::Expired, |key, run| {
            // `Expire` reports whether the expiry changed; this function reports whether the record
            // exists. They differ if it had no expiry already, and is to have none.
            let when = ExpireWhen::default();
            Ok(loop {
                match run(&Command::Key(KeyCommand::Expire { key, expires, when })) {
                    Answer::Flag(false) if expires == Expires::Never => (),
                    answer => break answer,
                }
                match run(&Command::Key(KeyCommand::Expiry { key })) {
                    // Another process set one in between.
                    Answer::Expiry(Some(_)) => (),
                    Answer::Expiry(None) => break Answer::Done,
                    answer => break answer,
                }
            })
        })
    });
    fact(env, answer)
}

/// `update_counter(Table, Key, Increment, Form) -> {ok, New} | error | {error, Reason}`
#[rustler::nif]
fn update_counter<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    delta: Term<'a>,
    form: Form<'a>,
) -> Term<'a> {
    counted(env, increment(env, table, key, delta, None, form))
}

/// `update_counter_with(Table, Key, Increment, Initial, Expires, Form) -> {ok, New} | {error,
/// Reason}`
#[rustler::nif]
fn update_counter_with<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    delta: Term<'a>,
    initial: i64,
    expiry: Term<'a>,
    form: Form<'a>,
) -> Term<'a> {
    counted(env, increment(env, table, key, delta, Some((initial, expiry)), form))
}

/// Adds to a counter. An existing expiry remains.
fn increment<'a>(
    env: Env<'a>,
    table: Term<'a>,
    key: Term<'a>,
    delta: Term<'a>,
    initial: Option<(i64, Term<'a>)>,
    form: Form<'a>,
) -> Result<Answer, Misuse> {
    let store = store_of(env, table)?;
    let delta: i64 = delta.decode().or(Err(Misuse::Argument(3, atoms::not_an_integer())))?;
    let initial = match initial {
        None => None,
        Some((number, expiry)) => {
            let expires = expires(store, expiry).ok_or(bad_option(OPTIONS))?;
            Some((Initial::From(number), expires))
        }
    };
    change_key(env, table, key, form, Shape::Counted, |key, run| {
        Ok(run(&Command::String(StringCommand::Increment(Increment {
            key,
            delta: Delta::Signed(delta),
            initial,
            condition: Condition::Always,
            expires: Expires::Keep,
            track_access: false,
        }))))
    })
}

fn counted<'a>(env: Env<'a>, answer: Result<Answer, Misuse>) -> Term<'a> {
    match answer {
        Ok(Answer::Number(number)) => (atoms::ok(), number).encode(env),
        Ok(Answer::Refused(_)) => atoms::error().encode(env),
        answer => fact(env, answer),
    }
}

/// `count(Table) -> integer()`
#[rustler::nif]
fn count<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    match read(env, table, |store| Ok(todana_table::Keyspace::len(store.table()))) {
        Ok(count) => count.encode(env),
        Err(misuse) => misuse.term(env),
    }
}

/// `bytes(Table) -> integer()`
#[rustler::nif]
fn bytes<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    match read(env, table, |store| Ok(store.table().bytes())) {
        Ok(bytes) => bytes.encode(env),
        Err(misuse) => misuse.term(env),
    }
}

/// `handle(Table) -> Handle`, from a name or a handle
#[rustler::nif]
fn handle<'a>(env: Env<'a>, table: Term<'a>) -> Term<'a> {
    match tables::handle_of(env, table) {
        Ok(handle) => handle,
        Err(misuse) => misuse.term(env),
    }
}
