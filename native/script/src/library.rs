//! The form of the libraries that are written in Rust.

use crate::meter;
use mlua::{BorrowedBytes, Function, IntoLua, Lua, MultiValue, Result, Table, Value};
use std::ops::Deref;

/// What a function of a library returns: values, or the message of an error.
pub(crate) type Answer = std::result::Result<MultiValue, Failure>;

/// Why a function of a library has failed.
pub(crate) enum Failure {
    /// For the script, which gets it as a text with the line.
    Message(String),
    /// For the script, which gets it as the table of an error.
    Reply(&'static str),
    /// Of the interpreter.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Failure {
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
pub(crate) fn keys(lua: &Lua, table: &Table) -> std::result::Result<Keys, Failure> {
    let (mut entries, mut largest) = (0, Some(0));
    for pair in table.pairs::<Value, Value>() {
        spend(lua, VALUE_STEPS)?;
        entries += 1;
        largest = match (largest, pair?.0) {
            (Some(largest), Value::Integer(at)) if at > 0 => Some((at as usize).max(largest)),
            _ => None,
        };
    }
    Ok(Keys { entries, largest: largest.filter(|largest| *largest > 0) })
}

/// The table of an error.
pub(crate) fn error_table(lua: &Lua, text: &str) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    Ok(table)
}

/// One value.
pub(crate) fn one(lua: &Lua, value: impl IntoLua) -> Answer {
    Ok(MultiValue::from_iter([value.into_lua(lua)?]))
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
    Lent(BorrowedBytes<'a>),
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
pub(crate) struct Arguments {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<Value>,
}

impl Arguments {
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
                let short = text.get(..).filter(|text| text.len() <= NUMERAL_BYTES_MAX);
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

    pub(crate) fn get(&self, at: usize) -> &Value {
        self.values.get(at).unwrap_or(&Value::Nil)
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// A function of a library, for `wrap` of the prelude.
pub(crate) fn function(
    lua: &Lua,
    name: &'static str,
    body: impl Fn(&Lua, &Arguments) -> Answer + 'static,
) -> Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { name, values: values.into_iter().collect() };
        meter::spend(lua, ARGUMENT_STEPS * arguments.len() as u64);
        match body(lua, &arguments) {
            Ok(mut values) => {
                values.push_front(Value::Boolean(true));
                Ok(values)
            }
            Err(Failure::Message(message)) => {
                let message = lua.create_string(message)?;
                Ok(MultiValue::from_iter([Value::Boolean(false), Value::String(message)]))
            }
            Err(Failure::Reply(text)) => {
                let table = error_table(lua, text)?;
                Ok(MultiValue::from_iter([Value::Boolean(false), Value::Table(table)]))
            }
            Err(Failure::Lua(error)) => Err(error),
        }
    })
}
