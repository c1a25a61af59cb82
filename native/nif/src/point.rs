//! The functions that are called most, without rustler's wrapper.
//!
//! The wrapper took about 10 ns of a call (OTP 29, rustler 0.39), an eighth of a `get`. What the
//! calls take now is in docs/measured/benchmarks.md.

use crate::atoms;
use crate::codec::{self, EncodeBuffer, Misuse};
use crate::erts::{self, Raw, RawEnv, guard};
use crate::reply::{self, Answer, Answers};
use crate::store::Store;
use crate::submit::{self, Form, Shape};
use crate::{kept, tables, values};
use rustler::codegen_runtime::inventory;
use rustler::{Env, Nif};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use todana_command::{
    Command, Condition, Delta, Error, Expires, Increment, Reply, Set, StringCommand,
};
use todana_table::{Entry, Full, Kind, WrongKind};

macro_rules! plain_nif {
    ($name:literal, $arity:literal, $flags:expr, $function:path) => {
        inventory::submit!(Nif {
            name: concat!($name, "\0").as_ptr().cast::<c_char>(),
            arity: $arity,
            flags: $flags,
            raw_func: $function,
        });
    };
}

const NORMAL: u32 = rustler::sys::ERL_NIF_NORMAL_JOB;
const DIRTY: u32 = rustler::sys::ERL_NIF_DIRTY_JOB_CPU_BOUND;

plain_nif!("get", 2, NORMAL, get);
plain_nif!("get", 3, NORMAL, get);
plain_nif!("is_key", 2, NORMAL, is_key);
plain_nif!("is_key", 3, NORMAL, is_key);
plain_nif!("update_counter", 3, NORMAL, update_counter);
plain_nif!("put", 3, NORMAL, put);
plain_nif!("put", 4, NORMAL, put);
plain_nif!("put_dirty", 4, DIRTY, put_dirty);
plain_nif!("put_large", 4, NORMAL, put_large);

/// The arguments of a call.
///
/// # Safety
/// `argv` has `argc` terms, as the BEAM passes them, and `'a` does not outlast the call.
#[inline]
unsafe fn arguments<'a>(argc: c_int, argv: *const Raw) -> &'a [Raw] {
    // SAFETY: see the function.
    unsafe { std::slice::from_raw_parts(argv, argc as usize) }
}

/// The optional last argument: which arguments the Erlang side has encoded.
#[inline]
fn form(env: RawEnv, arguments: &[Raw], at: usize) -> u32 {
    match arguments.get(at) {
        None => 0,
        Some(term) => {
            erts::get_i64(env, *term).and_then(|form| u32::try_from(form).ok()).unwrap_or(0)
        }
    }
}

/// The same, of a write.
///
/// # Safety
/// `env` and `arguments` belong to the present call, and `'a` does not outlast it.
#[inline]
unsafe fn write_form<'a>(env: RawEnv, arguments: &[Raw], at: usize) -> Form<'a> {
    match arguments.get(at) {
        None => Form::plain(),
        // SAFETY: see the function.
        Some(term) => unsafe { Form::of(env, *term) },
    }
}

/// `get(Table, Key [, Form]) -> {ok, Value} | {encoded, Bytes} | error`
unsafe extern "C" fn get(env: RawEnv, argc: c_int, argv: *const Raw) -> Raw {
    guard(env, || {
        // SAFETY: the BEAM's arguments, used during this call, on a normal scheduler.
        let result = unsafe {
            let arguments = arguments(argc, argv);
            tables::read(env, arguments[0], |store| {
                let form = form(env, arguments, 2);
                look_up(store, env, arguments[1], form, &mut LookUpCost::default())
            })
        };
        match result {
            Ok(Some(term)) => term,
            Ok(None) => atoms::error().as_c_arg(),
            Err(misuse) => misuse.raw(env),
        }
    })
}

/// `is_key(Table, Key [, Form]) -> boolean()`
unsafe extern "C" fn is_key(env: RawEnv, argc: c_int, argv: *const Raw) -> Raw {
    guard(env, || {
        // SAFETY: the BEAM's arguments, used during this call, on a normal scheduler.
        let result = unsafe {
            let arguments = arguments(argc, argv);
            tables::read(env, arguments[0], |store| {
                let mut buffer = EncodeBuffer::new();
                let form = form(env, arguments, 2);
                let key = codec::key(store, env, arguments[1], form, &mut buffer)?;
                Ok(store.is_key(key))
            })
        };
        match result {
            Ok(true) => atoms::true_().as_c_arg(),
            Ok(false) => atoms::false_().as_c_arg(),
            Err(misuse) => misuse.raw(env),
        }
    })
}

/// The cost of a look-up, for functions over many keys.
#[derive(Default)]
pub(crate) struct LookUpCost {
    /// Bytes of the value; 0 for an integer.
    pub(crate) bytes: usize,
    /// Whether the key was a list, or another term that had to be walked.
    pub(crate) walked: bool,
}

/// The record of a key, if it exists: `{ok, Value}` or `{encoded, Bytes}`.
///
/// # Safety
/// `env` and `key` belong to the present call.
#[inline]
pub(crate) unsafe fn look_up(
    store: &Store,
    env: RawEnv,
    key: Raw,
    form: u32,
    cost: &mut LookUpCost,
) -> Result<Option<Raw>, Misuse> {
    let mut buffer = EncodeBuffer::new();
    // SAFETY: see the function.
    let key = unsafe { codec::key(store, env, key, form, &mut buffer)? };
    let mut copy = [const { MaybeUninit::<u8>::uninit() }; COPY_BYTES_MAX];
    let bytes = &mut cost.bytes;
    let seen = store.look_up(key, |entry| read_entry(store, env, entry, &mut copy, bytes));
    store.note_look(!matches!(seen, Seen::Nothing));
    cost.walked = buffer.was_walked();
    Ok(match seen {
        Seen::Nothing => None,
        Seen::Other(number) => {
            let kind = u8::try_from(number).ok().and_then(Kind::of).unwrap_or(Kind::String);
            return Err(Misuse::WrongKind(kind));
        }
        Seen::Term(term) => Some(term),
        Seen::Integer(number) => Some(reply::number(env, number)),
        Seen::Copy(len) => {
            cost.bytes = len;
            // SAFETY: `read_entry` initialised that many bytes.
            let value = unsafe { std::slice::from_raw_parts(copy.as_ptr().cast::<u8>(), len) };
            Some(reply::value(env, codec::decode_copy(store.codec, env, value)))
        }
    })
}

/// Values of compact entries fit; larger ones can be pinned.
const COPY_BYTES_MAX: usize = 255;

/// Fits in two registers: a larger result was passed through memory, which cost 5 ns.
enum Seen {
    Nothing,
    /// The answer, complete.
    Term(Raw),
    /// The record is no string, but of the kind of this number, which has as many bytes as what the
    /// other variants have: with a `Kind`, the result would not fit in two registers.
    Other(u64),
    /// The value.
    Integer(i64),
    /// This many bytes were copied; the answer is made from them after the shard's lock is
    /// released.
    Copy(usize),
}

const _: () = assert!(size_of::<Seen>() == 16);

/// Runs under the shard's lock: reads an integer, copies another small value, and pins a large one.
#[inline]
fn read_entry(
    store: &Store,
    env: RawEnv,
    entry: Option<Entry<'_>>,
    copy: &mut [MaybeUninit<u8>; COPY_BYTES_MAX],
    large_bytes: &mut usize,
) -> Seen {
    let Some(entry) = entry else { return Seen::Nothing };
    let value = match entry.text() {
        Ok(value) => value,
        Err(WrongKind(kind)) => return Seen::Other(kind.number().into()),
    };
    if let Some(number) = codec::integer(store.codec, value) {
        return Seen::Integer(number);
    }
    if value.len() <= COPY_BYTES_MAX {
        let to = copy.as_mut_ptr().cast::<u8>();
        // SAFETY: there is room, and the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
        return Seen::Copy(value.len());
    }
    let decoded = codec::decode(store.codec, env, value, |bytes| {
        values::pinned(env, &entry, bytes).unwrap_or_else(|| values::copied(env, bytes))
    });
    *large_bytes = value.len();
    Seen::Term(reply::value(env, decoded))
}

/// `update_counter(Table, Key, Increment) -> {ok, New} | error | {error, Reason}`
///
/// `durable`, or another misuse, if only `update_counter/4` can say more.
unsafe extern "C" fn update_counter(env: RawEnv, argc: c_int, argv: *const Raw) -> Raw {
    guard(env, || {
        // SAFETY: the BEAM's arguments, used during this call, on a normal scheduler.
        let counted = unsafe {
            let arguments = arguments(argc, argv);
            tables::open_one(env, arguments[0]).and_then(|store| count(store, env, arguments))
        };
        match counted {
            Ok(Answer::Number(number)) => reply::number(env, number),
            Ok(Answer::Refused(_)) => atoms::error().as_c_arg(),
            Ok(answer) => reply::fact(env, answer),
            Err(misuse) => misuse.raw(env),
        }
    })
}

/// # Safety
/// `env` and `arguments` belong to the present call.
#[inline]
unsafe fn count(store: &Store, env: RawEnv, arguments: &[Raw]) -> Result<Answer, Misuse> {
    if store.is_durable() {
        return Err(Misuse::Durable);
    }
    let delta =
        erts::get_i64(env, arguments[2]).ok_or(Misuse::Argument(3, atoms::not_an_integer()))?;
    let mut buffer = EncodeBuffer::new();
    // SAFETY: see the function.
    let key = unsafe { codec::key(store, env, arguments[1], 0, &mut buffer)? };
    let increment = Increment {
        key,
        delta: Delta::Signed(delta),
        initial: None,
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    };
    let mut answers = Answers::default();
    let sum = store.increment(increment, &mut answers);
    Ok(sum.map_or_else(|| answers.only(), Answer::Number))
}

/// `put(Table, Key, Value [, Form]) -> ok | {error, full}`
unsafe extern "C" fn put(env: RawEnv, argc: c_int, argv: *const Raw) -> Raw {
    guard(env, || {
        // SAFETY: the BEAM's arguments, used during this call, on a normal scheduler.
        unsafe {
            let arguments = arguments(argc, argv);
            match tables::open_one(env, arguments[0]) {
                Ok(store) => store_value(store, env, arguments, write_form(env, arguments, 3)),
                Err(misuse) => misuse.raw(env),
            }
        }
    })
}

/// Like `put`, for long values; takes the table's handle.
unsafe extern "C" fn put_dirty(env: RawEnv, argc: c_int, argv: *const Raw) -> Raw {
    guard(env, || {
        // SAFETY: the BEAM's arguments, used during this call.
        unsafe {
            let arguments = arguments(argc, argv);
            match tables::by_handle(env, arguments[0]) {
                Ok(store) => {
                    store_value(store, env, arguments, write_form(env, arguments, 3).on_dirty())
                }
                Err(misuse) => misuse.raw(env),
            }
        }
    })
}

/// `put_large(Table, Key, [Binary], ObjectBytes) -> ok | {error, full}`
///
/// Like `put`, for a binary that is part of an object of that many bytes: see [`crate::kept`].
unsafe extern "C" fn put_large(env: RawEnv, argc: c_int, argv: *const Raw) -> Raw {
    guard(env, || {
        // SAFETY: the BEAM's arguments, used during this call, on a normal scheduler.
        unsafe {
            let arguments = arguments(argc, argv);
            match tables::open_one(env, arguments[0]) {
                Ok(store) => keep_value(store, env, arguments),
                Err(misuse) => misuse.raw(env),
            }
        }
    })
}

/// # Safety
/// `env` and `arguments` belong to the present call.
unsafe fn keep_value(store: &Store, env: RawEnv, arguments: &[Raw]) -> Raw {
    let list = arguments[2];
    let Some((value, _)) = erts::uncons(env, list) else {
        return Misuse::Argument(3, atoms::not_iodata()).raw(env);
    };
    let plain = [arguments[0], arguments[1], value];
    let mut buffer = EncodeBuffer::new();
    // SAFETY: see the function.
    unsafe {
        let object_bytes = erts::get_i64(env, arguments[3]).and_then(|it| usize::try_from(it).ok());
        let kept = erts::binary(env, value)
            .zip(object_bytes)
            .filter(|(bytes, _)| store.keeps(bytes.len()))
            .and_then(|(bytes, object_bytes)| {
                Some((bytes, kept::keep(list, bytes, object_bytes)?))
            });
        let Some((bytes, kept)) = kept else {
            return store_value(store, env, &plain, Form::plain());
        };
        let key = match codec::key(store, env, arguments[1], 0, &mut buffer) {
            Ok(key) => key,
            Err(misuse) => return misuse.raw(env),
        };
        let mut answers = Answers::default();
        match kept {
            Ok(kept) => store.set_lent(plain_set(store, key, bytes), kept, &mut answers),
            Err(Full) => answers.error(Error::Full),
        }
        reply::fact(env, answers.only())
    }
}

/// # Safety
/// `env` and `arguments` belong to the present call.
#[inline]
unsafe fn store_value(store: &Store, env: RawEnv, arguments: &[Raw], form: Form<'_>) -> Raw {
    if store.is_durable() {
        // SAFETY: see the function.
        return unsafe { submit_value(store, env, arguments, form) };
    }
    // SAFETY: see the function.
    unsafe {
        with_set(store, env, arguments, form.bits, |set| {
            let mut answers = Answers::default();
            store.set(set, &mut answers);
            answers.only()
        })
    }
}

/// Submits the same write to the log of a durable table.
///
/// # Safety
/// As for [`store_value`].
#[cold]
unsafe fn submit_value(store: &Store, env: RawEnv, arguments: &[Raw], form: Form<'_>) -> Raw {
    if let Err(misuse) = submit::begin(store, form) {
        return misuse.raw(env);
    }
    // SAFETY: see the function.
    unsafe {
        with_set(store, env, arguments, form.bits, |set| {
            let env = Env::new(&(), env);
            let command = Command::String(StringCommand::Set(set));
            submit::submit(env, store, form, Shape::Fact, |records| records.put(&command))
        })
    }
}

/// Makes a write's arguments of its terms, and the term of its answer.
///
/// # Safety
/// As for [`store_value`].
#[inline(always)]
unsafe fn with_set(
    store: &Store,
    env: RawEnv,
    arguments: &[Raw],
    form: u32,
    run: impl FnOnce(Set<'_>) -> Answer,
) -> Raw {
    let (mut key_buffer, mut value_buffer) = (EncodeBuffer::new(), EncodeBuffer::new());
    // SAFETY: see the function.
    let parts = unsafe {
        codec::key(store, env, arguments[1], form, &mut key_buffer).and_then(|key| {
            codec::value(store, env, arguments[2], form, 3, &mut value_buffer)
                .map(|value| (key, value))
        })
    };
    let (key, value) = match parts {
        Ok(parts) => parts,
        Err(misuse) => return misuse.raw(env),
    };
    reply::fact(env, run(plain_set(store, key, value)))
}

/// The command of a plain write.
#[inline(always)]
fn plain_set<'a>(store: &Store, key: &'a [u8], value: &'a [u8]) -> Set<'a> {
    Set { expires: store.default_expires(), ..Set::new(key, value) }
}
