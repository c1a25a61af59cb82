//! The form of the libraries that are written in Rust.

use crate::lua::{Error, Lua, Native, Result, Returned, Table, Value};
use crate::meter;
use std::ops::Deref;

/// What a function of a library returns: values, or the message of an error.
pub(crate) type Answer<'l> = std::result::Result<Vec<Value<'l>>, Failure>;

/// A function of a library.
pub(crate) type Inner = for<'l> fn(&'l Lua, &Arguments<'l>) -> Answer<'l>;

/// Why a function of a library has failed.
pub(crate) enum Failure {
    /// For the script, which gets it as a text with the line.
    Message(String),
    /// For the script, which gets it as the table of an error.
    Reply(&'static str),
    /// Of the interpreter.
    Lua(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Lua(error)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Message(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::Message(message.to_owned())
    }
}

/// Counts work.
pub(crate) fn spend(lua: &Lua, steps: usize) -> std::result::Result<(), Failure> {
    match meter::spend(lua, steps as u64) {
        true => Ok(()),
        // The interpreter stops the script before it sees this.
        false => Err("too many steps".into()),
    }
}

/// Steps for a value that is converted.
pub(crate) const VALUE_STEPS: usize = 16;

/// Steps for an argument, which may be a numeral.
const ARGUMENT_STEPS: u64 = 32;

/// What the keys of a table are.
pub(crate) struct Keys {
    /// The number of entries.
    pub(crate) entries: usize,
    /// The largest key, if all are integers from 1 and there is one.
    pub(crate) largest: Option<usize>,
}

/// Looks at the keys of a table. It keeps none: the interpreter has a slot for each value that is
/// in use outside of it, and not for as many as a table may have.
pub(crate) fn keys(lua: &Lua, table: &Table<'_>) -> std::result::Result<Keys, Failure> {
    let (mut entries, mut largest) = (0, Some(0));
    let mut before = Value::Nil;
    while let Some((key, _)) = table.after(&before)? {
        spend(lua, VALUE_STEPS)?;
        entries += 1;
        largest = match (largest, &key) {
            (Some(largest), Value::Integer(at)) if *at > 0 => Some((*at as usize).max(largest)),
            _ => None,
        };
        before = key;
    }
    Ok(Keys { entries, largest: largest.filter(|largest| *largest > 0) })
}

/// The table of an error.
pub(crate) fn error_table<'l>(lua: &'l Lua, text: &str) -> Result<Table<'l>> {
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    Ok(table)
}

/// One value.
pub(crate) fn one(value: Value<'_>) -> Answer<'_> {
    Ok(vec![value])
}

/// One text.
pub(crate) fn text<'l>(lua: &'l Lua, text: impl AsRef<[u8]>) -> Answer<'l> {
    one(Value::String(lua.create_string(text)?))
}

/// Longer text is not a number, as in the interpreter.
const NUMERAL_BYTES_MAX: usize = 200;

/// Most values that a function returns; `todana.h` has the same number.
const RESULTS_MAX: usize = 8_000;

/// Fails if a function with this number of results must not have one more.
pub(crate) fn one_more(results: usize) -> std::result::Result<(), Failure> {
    match results < RESULTS_MAX {
        true => Ok(()),
        false => Err("too many results to unpack".into()),
    }
}

/// The text of an argument. That of a string is not copied, which would be work without a step.
pub(crate) enum Bytes<'a> {
    Lent(&'a [u8]),
    Made(Vec<u8>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Lent(bytes) => bytes,
            Bytes::Made(bytes) => bytes,
        }
    }
}

/// The arguments of a function.
pub(crate) struct Arguments<'l> {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<Value<'l>>,
}

impl<'l> Arguments<'l> {
    fn wrong(&self, at: usize, what: &str) -> Failure {
        let got = self.values.get(at).map_or("no value", |value| value.type_name());
        let got = if got == "integer" { "number" } else { got };
        let name = self.name;
        format!("bad argument #{} to '{name}' ({what} expected, got {got})", at + 1).into()
    }

    pub(crate) fn number(&self, at: usize) -> std::result::Result<f64, Failure> {
        match self.values.get(at) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Number(number)) => Ok(*number),
            Some(Value::String(text)) => {
                let text = text.as_bytes();
                let short = Some(text).filter(|text| text.len() <= NUMERAL_BYTES_MAX);
                let number = short.and_then(|text| std::str::from_utf8(text).ok()).map(str::trim);
                let number = number.and_then(|text| text.parse().ok());
                number.ok_or_else(|| self.wrong(at, "number"))
            }
            _ => Err(self.wrong(at, "number")),
        }
    }

    /// Numbers become text, as in Lua.
    pub(crate) fn bytes(&self, at: usize) -> std::result::Result<Bytes<'_>, Failure> {
        let digits = |number| Bytes::Made(crate::number::general(number, 14).into_bytes());
        match self.values.get(at) {
            Some(Value::String(text)) => Ok(Bytes::Lent(text.as_bytes())),
            Some(Value::Integer(number)) => Ok(digits(*number as f64)),
            Some(Value::Number(number)) => Ok(digits(*number)),
            _ => Err(self.wrong(at, "string")),
        }
    }

    pub(crate) fn get(&self, at: usize) -> &Value<'l> {
        self.values.get(at).unwrap_or(&Value::Nil)
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// What a function of a library returns to `wrap` of the prelude.
pub(crate) fn answer<'l>(
    lua: &'l Lua,
    name: &'static str,
    inner: Inner,
    values: Vec<Value<'l>>,
) -> Result<Returned<'l>> {
    let arguments = Arguments { name, values };
    meter::spend(lua, ARGUMENT_STEPS * arguments.len() as u64);
    match inner(lua, &arguments) {
        Ok(mut values) => {
            values.insert(0, Value::Boolean(true));
            Ok(Returned::many(values))
        }
        Err(Failure::Message(message)) => {
            let message = lua.create_string(message)?;
            Ok(Returned::many(vec![Value::Boolean(false), Value::String(message)]))
        }
        Err(Failure::Reply(text)) => {
            let table = error_table(lua, text)?;
            Ok(Returned::many(vec![Value::Boolean(false), Value::Table(table)]))
        }
        Err(Failure::Lua(error)) => Err(error),
    }
}

/// A function of a library by its name in errors.
macro_rules! entry {
    ($name:literal, $inner:expr) => {
        crate::lua::Native(|lua, values| crate::library::answer(lua, $name, $inner, values))
    };
}

/// The functions of a library by their names.
macro_rules! entries {
    ($($name:literal: $inner:expr,)*) => {
        &[$(($name, crate::library::entry!($name, $inner)),)*]
    };
}

pub(crate) use {entries, entry};

/// What `entries!` makes.
pub(crate) type Entries = &'static [(&'static str, Native)];

/// Adds functions to a table.
pub(crate) fn add(lua: &Lua, functions: &Table<'_>, entries: Entries) -> Result<()> {
    for (name, native) in entries {
        functions.raw_set(*name, lua.native(native)?)?;
    }
    Ok(())
}
