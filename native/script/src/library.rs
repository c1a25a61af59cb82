//! The form of the libraries that are written in Rust.

use crate::meter;
use mlua::{Function, IntoLua, Lua, MultiValue, Result, Table, Value};

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

/// The keys and values of a table, in the order of Lua.
pub(crate) fn entries(
    lua: &Lua,
    table: &Table,
) -> std::result::Result<Vec<(Value, Value)>, Failure> {
    let mut entries = Vec::new();
    for pair in table.pairs() {
        spend(lua, VALUE_STEPS)?;
        entries.push(pair?);
    }
    Ok(entries)
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
                let number = std::str::from_utf8(&text).ok().map(str::trim);
                let number = number.and_then(|text| text.parse().ok());
                number.ok_or_else(|| self.wrong(at, "number"))
            }
            _ => Err(self.wrong(at, "number")),
        }
    }

    /// Numbers become text, as in Lua.
    pub(crate) fn bytes(&self, at: usize) -> std::result::Result<Vec<u8>, Failure> {
        match self.values.get(at) {
            Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
            Some(Value::Integer(number)) => {
                Ok(crate::number::general(*number as f64, 14).into_bytes())
            }
            Some(Value::Number(number)) => Ok(crate::number::general(*number, 14).into_bytes()),
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
