//! The libraries by name.

use crate::lua::{Lua, Result, Table};
use crate::{bit, json, msgpack, pack};

/// The functions and the values of a library, `None` if there is none of this name.
pub(crate) fn library<'l>(lua: &'l Lua, name: &[u8]) -> Result<Option<(Table<'l>, Table<'l>)>> {
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
