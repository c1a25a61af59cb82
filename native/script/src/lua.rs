//! The interpreter for Rust: values, and functions of Rust that scripts call.
//!
//! A value that Rust holds is on the stack of a thread of Lua which does nothing else, so the
//! collector sees it; `Reference` is its place there. Errors of Lua are jumps, which must not leave
//! a function of Rust. So what may fail is called through functions of `lua/todana_bind.c`, which
//! catch them; and a function of Rust that a script calls returns its error to C, which raises it.
//!
//! What operations count is part of the log: see `todana_bind.c`.

use crate::heap::{Heap, allocator};
use crate::job::Calls;
use crate::settings::Settings;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_double, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A state of the interpreter, which has a thread of Lua.
#[repr(C)]
pub(crate) struct State {
    _private: [u8; 0],
}

/// What `todana_bind.c` takes for bytes.
#[repr(C)]
pub(crate) struct Bytes {
    bytes: *const c_char,
    len: usize,
}

type Allocator = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize) -> *mut c_void;

unsafe extern "C" {
    fn lua_newstate(allocator: Allocator, heap: *mut c_void) -> *mut State;
    fn lua_checkstack(state: *mut State, slots: c_int) -> c_int;
    fn lua_gettop(state: *mut State) -> c_int;
    fn lua_settop(state: *mut State, top: c_int);
    fn lua_pushvalue(state: *mut State, index: c_int);
    fn lua_insert(state: *mut State, index: c_int);
    fn lua_remove(state: *mut State, index: c_int);
    fn lua_replace(state: *mut State, index: c_int);
    fn lua_xmove(from: *mut State, to: *mut State, count: c_int);
    fn lua_type(state: *mut State, index: c_int) -> c_int;
    fn lua_toboolean(state: *mut State, index: c_int) -> c_int;
    fn lua_tonumber(state: *mut State, index: c_int) -> c_double;
    fn lua_tolstring(state: *mut State, index: c_int, len: *mut usize) -> *const c_char;
    fn lua_pushnil(state: *mut State);
    fn lua_pushboolean(state: *mut State, flag: c_int);
    fn lua_pushnumber(state: *mut State, number: c_double);
    fn lua_pushlightuserdata(state: *mut State, address: *mut c_void);
    fn lua_rawget(state: *mut State, index: c_int);

    fn todana_open(state: *mut State, references: *mut *mut State, program: *mut c_void) -> c_int;
    fn todana_program(state: *mut State) -> *mut c_void;
    fn todana_seal(state: *mut State, serial: c_uint) -> c_int;
    fn todana_prepare(state: *mut State);
    fn todana_set_words(
        state: *mut State,
        serial: c_uint,
        keys: *const Bytes,
        keys_count: usize,
        arguments: *const Bytes,
        arguments_count: usize,
    ) -> c_int;
    fn todana_end(state: *mut State);
    fn todana_set_serial(state: *mut State, serial: c_uint);
    fn todana_push_bytes(state: *mut State, bytes: *const c_char, len: usize) -> c_int;
    fn todana_push_table(state: *mut State, array: c_int, fields: c_int) -> c_int;
    fn todana_push_native(state: *mut State, description: *const c_void) -> c_int;
    fn todana_keep_next(state: *mut State) -> c_int;
    fn todana_push_next(state: *mut State) -> c_int;
    fn todana_raw_set(state: *mut State) -> c_int;
    fn todana_next(state: *mut State) -> c_int;
    fn todana_call(state: *mut State, arguments: c_int) -> c_int;
    fn todana_load(
        state: *mut State,
        bytes: *const c_char,
        len: usize,
        name: *const c_char,
    ) -> c_int;
    fn todana_first_call(state: *mut State);
    fn todana_line(state: *mut State, source: *const c_char) -> c_int;
}

const TYPE_NIL: c_int = 0;
const TYPE_BOOLEAN: c_int = 1;
const TYPE_LIGHT: c_int = 2;
const TYPE_NUMBER: c_int = 3;
const TYPE_STRING: c_int = 4;
const TYPE_TABLE: c_int = 5;
const TYPE_FUNCTION: c_int = 6;
const TYPE_THREAD: c_int = 8;

const STATUS_SYNTAX: c_int = 3;
const STATUS_MEMORY: c_int = 4;

/// Slots of a new stack, and those of the thread of references that stay free.
const STACK_LEAST: c_int = 20;
const RESERVE: c_int = 3;

/// References that earlier versions held while a script ran.
const HELD: usize = 4;

/// Why an operation has failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The script has no memory left.
    Memory,
    /// The text of a script is none, with its reason.
    Syntax(String),
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Memory => formatter.write_str("not enough memory"),
            Error::Syntax(text) | Error::Other(text) => formatter.write_str(text),
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

fn no_stack() -> Error {
    Error::Other(
        "out of Lua stack, too many arguments to a Lua function or too many return values from a \
         callback"
            .to_owned(),
    )
}

/// A function of Rust for scripts.
pub(crate) type Body = for<'l> fn(&'l Lua, Vec<Value<'l>>) -> Result<Returned<'l>>;

/// What [`Lua::native`] makes a function of.
pub(crate) struct Native(pub(crate) Body);

/// What a function returns.
pub(crate) struct Returned<'l> {
    values: Vec<Value<'l>>,
    /// Slots that are asked for, or 0.
    slots: c_int,
}

impl<'l> Returned<'l> {
    pub(crate) fn one(value: Value<'l>) -> Returned<'l> {
        Returned { values: vec![value], slots: 0 }
    }

    pub(crate) fn two(first: Value<'l>, second: Value<'l>) -> Returned<'l> {
        Returned { values: vec![first, second], slots: 2 }
    }

    pub(crate) fn many(values: Vec<Value<'l>>) -> Returned<'l> {
        let slots = c_int::try_from(values.len() + 1).unwrap_or(c_int::MAX);
        Returned { values, slots }
    }
}

/// The places of references.
#[derive(Clone, Default)]
struct Places {
    free: Vec<c_int>,
    top: c_int,
    size: c_int,
}

/// The interpreter.
pub(crate) struct Lua {
    heap: NonNull<Heap>,
    main: *mut State,
    /// Keeps the values that Rust refers to.
    references: *mut State,
    /// The thread that runs.
    state: Cell<*mut State>,
    places: RefCell<Places>,
    first_places: Places,
    has_called: Cell<bool>,
    /// A panic of a function, for the caller of the script.
    panic: Cell<Option<Box<dyn Any + Send>>>,
    calls: Cell<Option<NonNull<dyn Calls>>>,
    /// Whether the script has chosen RESP3.
    pub(crate) resp3: Cell<bool>,
    pub(crate) settings: Settings,
}

// SAFETY: nothing of the interpreter is bound to a thread, and values refer to it, so that it does
// not move while there are some. Of the pointers, `heap`, `main` and `references` are its own, and
// `calls` is there only while a script runs.
unsafe impl Send for Lua {}

/// The stack of a thread as it was.
struct Top {
    state: *mut State,
    top: c_int,
}

impl Drop for Top {
    fn drop(&mut self) {
        // SAFETY: the stack has this many values at least, because operations take no more than
        // they have pushed.
        unsafe { lua_settop(self.state, self.top) };
    }
}

impl Lua {
    /// A new interpreter without anything of Todana.
    pub(crate) fn new(bytes_max: usize) -> Result<Box<Lua>> {
        let heap = Heap::new(bytes_max).ok_or(Error::Memory)?;
        let heap = NonNull::from(Box::leak(Box::new(heap)));
        let none = std::ptr::null_mut();
        let mut lua = Box::new(Lua {
            heap,
            main: none,
            references: none,
            state: Cell::new(none),
            places: RefCell::default(),
            first_places: Places::default(),
            has_called: Cell::new(false),
            panic: Cell::new(None),
            calls: Cell::new(None),
            resp3: Cell::new(false),
            settings: Settings::default(),
        });
        // SAFETY: the heap lives as long as the interpreter, which alone uses it.
        lua.main = unsafe { lua_newstate(allocator, heap.as_ptr().cast()) };
        if lua.main.is_null() {
            return Err(Error::Memory);
        }
        lua.state.set(lua.main);
        let program = (&raw const *lua).cast_mut().cast::<c_void>();
        let mut references = none;
        // SAFETY: the state is new, and `program` is where the interpreter stays.
        let status = unsafe { todana_open(lua.main, &raw mut references, program) };
        if status != 0 {
            return Err(lua.error(status));
        }
        lua.references = references;
        // SAFETY: as above.
        let status = unsafe { todana_keep_next(lua.main) };
        if status != 0 {
            return Err(lua.error(status));
        }
        // SAFETY: a new stack has room for a value.
        unsafe { lua_pushnil(references) };
        *lua.places.borrow_mut() = Places { free: Vec::new(), top: 1, size: STACK_LEAST - RESERVE };
        Ok(lua)
    }

    /// All that scripts have in common is there: an image will be made. `serial` is the number of
    /// its youngest object.
    pub(crate) fn seal(&mut self, serial: u32) -> Result<()> {
        // SAFETY: no script runs.
        let status = unsafe { todana_seal(self.main, serial) };
        if status != 0 {
            return Err(self.error(status));
        }
        for _ in 0..HELD {
            // SAFETY: the thread has room for some values.
            unsafe { lua_pushnil(self.references) };
            self.place()?;
        }
        let places = self.places.borrow().clone();
        self.first_places = places;
        Ok(())
    }

    /// The memory of the interpreter, which does not run.
    pub(crate) fn heap(&mut self) -> &mut Heap {
        // SAFETY: it lives as long as the interpreter, and nobody else uses it before the next
        // operation.
        unsafe { self.heap.as_mut() }
    }

    /// The memory was restored: what Rust knows of it follows.
    pub(crate) fn restored(&mut self) {
        self.state.set(self.main);
        self.places.get_mut().clone_from(&self.first_places);
        self.has_called.set(false);
        self.panic.set(None);
        self.calls.set(None);
        self.resp3.set(false);
        self.settings.reset();
    }

    /// The script begins to be prepared: the collector does not run, and doubling the table of
    /// strings does not count.
    pub(crate) fn prepare(&self) {
        // SAFETY: it writes numbers of the state.
        unsafe { todana_prepare(self.main) };
    }

    pub(crate) fn set_serial(&self, serial: u32) {
        // SAFETY: it writes a number of the state.
        unsafe { todana_set_serial(self.main, serial) };
    }

    /// Sets `KEYS` and `ARGV`, and ends the preparation. `serial` is the number of the youngest
    /// object before the script was compiled.
    pub(crate) fn set_words(&self, serial: u32, keys: &[&[u8]], arguments: &[&[u8]]) -> Result<()> {
        let list = |words: &[&[u8]]| -> Vec<Bytes> {
            words
                .iter()
                .map(|word| Bytes { bytes: word.as_ptr().cast(), len: word.len() })
                .collect()
        };
        let (keys, arguments) = (list(keys), list(arguments));
        self.check_stack(5)?;
        let _top = self.top();
        // SAFETY: the words live until the call returns.
        let status = unsafe {
            todana_set_words(
                self.main,
                serial,
                keys.as_ptr(),
                keys.len(),
                arguments.as_ptr(),
                arguments.len(),
            )
        };
        self.done(status)
    }

    /// Runs `body` with the commands of a script.
    pub(crate) fn with_calls<T>(
        &self,
        calls: &mut dyn Calls,
        body: impl FnOnce() -> T,
    ) -> std::result::Result<T, Box<dyn Any + Send>> {
        let calls = NonNull::from(calls);
        // SAFETY: only the lifetime changes, and the pointer is taken away before it ends.
        let calls = unsafe {
            std::mem::transmute::<NonNull<dyn Calls + '_>, NonNull<dyn Calls + 'static>>(calls)
        };
        self.calls.set(Some(calls));
        let result = catch_unwind(AssertUnwindSafe(body));
        self.calls.set(None);
        match self.panic.take() {
            Some(panic) => Err(panic),
            None => result,
        }
    }

    /// The commands of the script, if one runs and they are not in use.
    pub(crate) fn calls<T>(&self, body: impl FnOnce(&mut dyn Calls) -> T) -> Option<T> {
        let mut calls = self.calls.take()?;
        // SAFETY: the pointer is that of `with_calls`, which has not returned, and it was taken, so
        // there is no other reference.
        let result = body(unsafe { calls.as_mut() });
        self.calls.set(Some(calls));
        Some(result)
    }

    fn top(&self) -> Top {
        let state = self.state.get();
        // SAFETY: it reads the state.
        Top { state, top: unsafe { lua_gettop(state) } }
    }

    fn check_stack(&self, slots: c_int) -> Result<()> {
        // SAFETY: it catches its errors.
        match unsafe { lua_checkstack(self.state.get(), slots) } {
            0 => Err(no_stack()),
            _ => Ok(()),
        }
    }

    fn done(&self, status: c_int) -> Result<()> {
        match status {
            0 => Ok(()),
            status => Err(self.error(status)),
        }
    }

    /// The error on the top of the stack, which it takes away.
    fn error(&self, status: c_int) -> Error {
        let state = self.state.get();
        let mut len = 0;
        // SAFETY: there is an error on the stack. Its bytes are copied before it is taken away.
        // Only a string is asked for its bytes, so nothing is converted.
        let text = unsafe {
            let text = match lua_type(state, -1) {
                TYPE_STRING => {
                    let bytes = lua_tolstring(state, -1, &raw mut len);
                    let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), len);
                    String::from_utf8_lossy(bytes).into_owned()
                }
                _ => "error".to_owned(),
            };
            lua_settop(state, -2);
            text
        };
        match status {
            STATUS_MEMORY => Error::Memory,
            STATUS_SYNTAX => Error::Syntax(text),
            _ => Error::Other(text),
        }
    }

    /// A place for the value on the top of the thread of references.
    fn place(&self) -> Result<c_int> {
        let mut places = self.places.borrow_mut();
        let references = self.references;
        if let Some(free) = places.free.pop() {
            // SAFETY: the place is one of the thread, and its value is replaced by that on the top.
            unsafe { lua_replace(references, free) };
            return Ok(free);
        }
        if places.top >= places.size {
            let mut more = places.size;
            // SAFETY: it catches its errors.
            while more > 0 && unsafe { lua_checkstack(references, more + RESERVE) } == 0 {
                more /= 2;
            }
            if more == 0 {
                // SAFETY: the value is on the top.
                unsafe { lua_settop(references, -2) };
                return Err(no_stack());
            }
            places.size += more;
        }
        places.top += 1;
        Ok(places.top)
    }

    /// Takes the value on the top of the stack.
    fn pop(&self) -> Result<Reference<'_>> {
        // SAFETY: the value is there, and the thread of references has room.
        unsafe { lua_xmove(self.state.get(), self.references, 1) };
        Ok(Reference { lua: self, at: self.place()? })
    }

    fn push(&self, reference: &Reference<'_>) {
        debug_assert!(std::ptr::eq(self, reference.lua));
        // SAFETY: the place has a value, and both stacks have room: the callers have asked for it.
        unsafe {
            lua_pushvalue(self.references, reference.at);
            lua_xmove(self.references, self.state.get(), 1);
        }
    }

    /// The value at an index of the stack.
    fn value(&self, index: c_int) -> Result<Value<'_>> {
        let state = self.state.get();
        // SAFETY: the index is one of the stack, and the conversions are those of its type.
        unsafe {
            let kind = lua_type(state, index);
            Ok(match kind {
                TYPE_BOOLEAN => Value::Boolean(lua_toboolean(state, index) != 0),
                TYPE_LIGHT => Value::Null,
                TYPE_NUMBER => number(lua_tonumber(state, index)),
                TYPE_STRING | TYPE_TABLE | TYPE_FUNCTION | TYPE_THREAD => {
                    lua_pushvalue(state, index);
                    let reference = self.pop()?;
                    match kind {
                        TYPE_STRING => Value::String(Text(reference)),
                        TYPE_TABLE => Value::Table(Table(reference)),
                        TYPE_FUNCTION => Value::Function(Function(reference)),
                        _ => Value::Thread(reference),
                    }
                }
                _ => {
                    debug_assert_eq!(kind, TYPE_NIL);
                    Value::Nil
                }
            })
        }
    }

    fn push_value(&self, value: &Value<'_>) {
        let state = self.state.get();
        // SAFETY: the callers have asked for a slot.
        unsafe {
            match value {
                Value::Nil => lua_pushnil(state),
                Value::Null => lua_pushlightuserdata(state, std::ptr::null_mut()),
                Value::Boolean(flag) => lua_pushboolean(state, c_int::from(*flag)),
                Value::Integer(number) => lua_pushnumber(state, *number as f64),
                Value::Number(number) => lua_pushnumber(state, *number),
                Value::String(Text(reference))
                | Value::Table(Table(reference))
                | Value::Function(Function(reference))
                | Value::Thread(reference) => self.push(reference),
            }
        }
    }

    pub(crate) fn create_string(&self, bytes: impl AsRef<[u8]>) -> Result<Text<'_>> {
        let bytes = bytes.as_ref();
        self.check_stack(3)?;
        let _top = self.top();
        // SAFETY: it catches its errors, and copies the bytes.
        let status =
            unsafe { todana_push_bytes(self.state.get(), bytes.as_ptr().cast(), bytes.len()) };
        self.done(status)?;
        Ok(Text(self.pop()?))
    }

    pub(crate) fn create_table(&self) -> Result<Table<'_>> {
        self.create_table_with_capacity(0, 0)
    }

    pub(crate) fn create_table_with_capacity(
        &self,
        array: usize,
        fields: usize,
    ) -> Result<Table<'_>> {
        let size = |len: usize| c_int::try_from(len).unwrap_or(c_int::MAX);
        self.check_stack(3)?;
        let _top = self.top();
        // SAFETY: it catches its errors.
        let status = unsafe { todana_push_table(self.state.get(), size(array), size(fields)) };
        self.done(status)?;
        Ok(Table(self.pop()?))
    }

    /// A function for scripts.
    pub(crate) fn native(&self, native: &'static Native) -> Result<Function<'_>> {
        self.check_stack(4)?;
        let _top = self.top();
        // SAFETY: it catches its errors. The description lives for ever, and `todana_run_native`
        // gets no other.
        let status = unsafe { todana_push_native(self.state.get(), (&raw const *native).cast()) };
        self.done(status)?;
        Ok(Function(self.pop()?))
    }

    /// Lua's own `next`.
    pub(crate) fn next(&self) -> Result<Function<'_>> {
        self.check_stack(3)?;
        let _top = self.top();
        // SAFETY: it catches its errors.
        let status = unsafe { todana_push_next(self.state.get()) };
        self.done(status)?;
        Ok(Function(self.pop()?))
    }

    /// Compiles a text.
    pub(crate) fn load(&self, source: &[u8], name: &CStr) -> Result<Function<'_>> {
        self.check_stack(3)?;
        let _top = self.top();
        // SAFETY: it catches its errors, and the bytes and the name live until it returns.
        let status = unsafe {
            todana_load(self.state.get(), source.as_ptr().cast(), source.len(), name.as_ptr())
        };
        self.done(status)?;
        Ok(Function(self.pop()?))
    }

    /// The place of the function that was compiled before an image of the memory was made.
    pub(crate) fn loaded(&self) -> Option<Place> {
        self.places.borrow_mut().free.pop().map(Place)
    }

    /// The function at a place that is kept.
    pub(crate) fn at(&self, place: &Place) -> ManuallyDrop<Function<'_>> {
        ManuallyDrop::new(Function(Reference { lua: self, at: place.0 }))
    }

    /// The function at a place that is not kept any more.
    pub(crate) fn taken(&self, place: Place) -> Function<'_> {
        Function(Reference { lua: self, at: place.0 })
    }

    /// The line that the innermost function of a source executes.
    pub(crate) fn line(&self, source: &CStr) -> Option<usize> {
        // SAFETY: it reads the state, and fails for no state.
        usize::try_from(unsafe { todana_line(self.state.get(), source.as_ptr()) }).ok()
    }

    /// The state, for the counters.
    pub(crate) fn raw(&self) -> *mut State {
        self.main
    }
}

impl Drop for Lua {
    fn drop(&mut self) {
        // All that the interpreter has is in its heap, and nothing of it needs an end.
        // SAFETY: the heap was leaked by `new`, and is used by nobody else.
        drop(unsafe { Box::from_raw(self.heap.as_ptr()) });
    }
}

/// A number of Lua as what it looks like.
fn number(number: f64) -> Value<'static> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let whole = number as i64;
    match (-END..END).contains(&number) && (whole as f64).to_bits() == number.to_bits() {
        true => Value::Integer(whole),
        false => Value::Number(number),
    }
}

/// Calls a function of Rust for a script. Returns the number of results on the stack, or -1 and an
/// error on the stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn todana_run_native(state: *mut State, description: *const c_void) -> c_int {
    // SAFETY: `Lua::new` has set the program, which is an interpreter that runs, and `native` the
    // description.
    let (lua, native) =
        unsafe { (&*todana_program(state).cast::<Lua>(), &*description.cast::<Native>()) };
    let before = lua.state.replace(state);
    let result = catch_unwind(AssertUnwindSafe(|| native_results(lua, native)));
    let returned = match result {
        Ok(Ok(results)) => results,
        Ok(Err(error)) => {
            let text = error.to_string();
            // SAFETY: there is room: the values of the function are dropped. It catches its errors,
            // and leaves one on the stack.
            unsafe {
                lua_settop(state, 0);
                todana_push_bytes(state, text.as_ptr().cast(), text.len());
            }
            -1
        }
        Err(panic) => {
            lua.panic.set(Some(panic));
            // SAFETY: it writes a number of the state; a stack has room for a value in a function
            // of C.
            unsafe {
                todana_end(state);
                lua_settop(state, 0);
                lua_pushnil(state);
            }
            -1
        }
    };
    lua.state.set(before);
    returned
}

fn native_results(lua: &Lua, native: &'static Native) -> Result<c_int> {
    let state = lua.state.get();
    // SAFETY: it reads the state.
    let count = unsafe { lua_gettop(state) };
    let is_first = !lua.has_called.replace(true);
    if is_first {
        // SAFETY: a function of C has room for some values.
        unsafe {
            todana_first_call(state);
            lua_pushnil(state);
            lua_insert(state, 1);
        }
    }
    let mut values = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for index in -count..0 {
        values.push(lua.value(index)?);
    }
    let returned = (native.0)(lua, values)?;
    if returned.slots > 0 {
        lua.check_stack(returned.slots)?;
    }
    for value in &returned.values {
        lua.push_value(value);
    }
    let results = c_int::try_from(returned.values.len()).unwrap_or(0);
    drop(returned);
    if is_first {
        // For what the former binding did to take its value from the bottom.
        // SAFETY: it reads the state.
        if unsafe { lua_gettop(state) } > 1 {
            lua.check_stack(2 + STACK_LEAST)?;
        }
        // SAFETY: the value is at the bottom of the stack; the other stack has room for one.
        unsafe {
            lua_remove(state, 1);
            lua_pushnil(lua.references);
        }
        // The former binding kept it.
        lua.place()?;
    }
    Ok(results)
}

/// A value that Rust holds.
pub(crate) struct Reference<'l> {
    lua: &'l Lua,
    at: c_int,
}

impl Drop for Reference<'_> {
    fn drop(&mut self) {
        let references = self.lua.references;
        // SAFETY: the thread has room for some values, and the place is one of its stack.
        unsafe {
            lua_pushnil(references);
            lua_replace(references, self.at);
        }
        self.lua.places.borrow_mut().free.push(self.at);
    }
}

/// Where a function is kept.
pub(crate) struct Place(c_int);

/// A string.
pub(crate) struct Text<'l>(Reference<'l>);

/// A table.
pub(crate) struct Table<'l>(Reference<'l>);

/// A function.
pub(crate) struct Function<'l>(Reference<'l>);

/// A value.
pub(crate) enum Value<'l> {
    Nil,
    /// A pointer to nothing, which is `null` in JSON.
    Null,
    Boolean(bool),
    /// A number that is one.
    Integer(i64),
    Number(f64),
    String(Text<'l>),
    Table(Table<'l>),
    Function(Function<'l>),
    Thread(Reference<'l>),
}

impl<'l> Value<'l> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Null => "lightuserdata",
            Value::Boolean(_) => "boolean",
            Value::Integer(_) => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Table(_) => "table",
            Value::Function(_) => "function",
            Value::Thread(_) => "thread",
        }
    }

    /// Whether a condition takes it for true.
    pub(crate) fn is_true(&self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }

    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }
}

/// What becomes a value on the stack.
pub(crate) trait Push {
    fn push(self, lua: &Lua) -> Result<()>;
}

impl Push for Value<'_> {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push_value(&self);
        Ok(())
    }
}

impl Push for &Value<'_> {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push_value(self);
        Ok(())
    }
}

impl Push for Text<'_> {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push(&self.0);
        Ok(())
    }
}

impl Push for &Table<'_> {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push(&self.0);
        Ok(())
    }
}

impl Push for Function<'_> {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push(&self.0);
        Ok(())
    }
}

impl Push for &str {
    fn push(self, lua: &Lua) -> Result<()> {
        let text = lua.create_string(self)?;
        lua.push(&text.0);
        Ok(())
    }
}

impl Push for bool {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push_value(&Value::Boolean(self));
        Ok(())
    }
}

impl Push for i64 {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push_value(&Value::Integer(self));
        Ok(())
    }
}

impl Push for usize {
    fn push(self, lua: &Lua) -> Result<()> {
        lua.push_value(&Value::Number(self as f64));
        Ok(())
    }
}

impl Text<'_> {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: the place has a string, which is not converted, does not move, and stays as long
        // as its reference.
        unsafe {
            let bytes = lua_tolstring(self.0.lua.references, self.0.at, &raw mut len);
            std::slice::from_raw_parts(bytes.cast(), len)
        }
    }
}

impl<'l> Table<'l> {
    pub(crate) fn raw_set(&self, key: impl Push, value: impl Push) -> Result<()> {
        let lua = self.0.lua;
        let _top = lua.top();
        lua.check_stack(5)?;
        lua.push(&self.0);
        key.push(lua)?;
        value.push(lua)?;
        // SAFETY: a table, a key and a value are on the stack, and it catches its errors.
        let status = unsafe { todana_raw_set(lua.state.get()) };
        lua.done(status)
    }

    pub(crate) fn raw_get(&self, key: impl Push) -> Result<Value<'l>> {
        let lua = self.0.lua;
        let _top = lua.top();
        lua.check_stack(3)?;
        lua.push(&self.0);
        key.push(lua)?;
        // SAFETY: a table and a key are on the stack, and this does not fail.
        unsafe { lua_rawget(lua.state.get(), -2) };
        lua.value(-1)
    }

    /// The entry after that of a key; from the beginning for nil, `None` at the end.
    pub(crate) fn after(&self, key: &Value<'l>) -> Result<Option<(Value<'l>, Value<'l>)>> {
        let lua = self.0.lua;
        let _top = lua.top();
        lua.check_stack(5)?;
        lua.push(&self.0);
        lua.push_value(key);
        // SAFETY: a table and a key are on the stack, and it catches its errors.
        match unsafe { todana_next(lua.state.get()) } {
            0 => Ok(None),
            1 => Ok(Some((lua.value(-2)?, lua.value(-1)?))),
            status => Err(lua.error(-status)),
        }
    }
}

impl<'l> Function<'l> {
    /// Keeps it.
    pub(crate) fn keep(self) -> Place {
        Place(ManuallyDrop::new(self).0.at)
    }

    /// Calls it with the values that `push` pushes.
    pub(crate) fn call(
        &self,
        count: c_int,
        push: impl FnOnce(&Lua) -> Result<()>,
    ) -> Result<Vec<Value<'l>>> {
        let lua = self.0.lua;
        let top = lua.top();
        lua.check_stack(2)?;
        // SAFETY: there is room.
        unsafe { lua_pushnil(lua.state.get()) };
        lua.push(&self.0);
        if count > 1 {
            lua.check_stack(count)?;
        }
        push(lua)?;
        // SAFETY: the function and its arguments are on the stack, and it catches their errors.
        let status = unsafe { todana_call(lua.state.get(), count) };
        lua.done(status)?;
        // SAFETY: it reads the state.
        let results = unsafe { lua_gettop(lua.state.get()) } - top.top - 1;
        (-results..0).map(|index| lua.value(index)).collect()
    }
}
