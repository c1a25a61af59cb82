//! The libraries by name.

use crate::{bit, json, msgpack, pack};
use mlua::{Lua, Result, Table};

/// The functions and the values of a library, `None` if there is none of this name.
pub(crate) fn library(lua: &Lua, name: &[u8]) -> Result<Option<(Table, Table)>> {
    let (functions, values) = (lua.create_table()?, lua.create_table()?);
    match name {
        b"cjson" => json::fill(lua, &functions, &values)?,
        b"cmsgpack" => msgpack::fill(lua, &functions, &values)?,
        b"struct" => pack::fill(lua, &functions)?,
        b"bit" => bit::fill(lua, &functions)?,
        _ => return Ok(None),
    }
    Ok(Some((functions, values)))
}
