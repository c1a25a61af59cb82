//! The library `bit`: operations on 32-bit integers.

use crate::library::{Arguments, Failure, function, one};
use mlua::{Lua, Result, Table};

type Fold = fn(u32, u32) -> u32;
type Unary = fn(u32) -> u32;

const FOLDS: [(&str, Fold); 3] =
    [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];

const SHIFTS: [(&str, Fold); 5] = [
    ("lshift", |a, n| a << (n & 31)),
    ("rshift", |a, n| a >> (n & 31)),
    ("arshift", |a, n| (a.cast_signed() >> (n & 31)).cast_unsigned()),
    ("rol", |a, n| a.rotate_left(n & 31)),
    ("ror", |a, n| a.rotate_right(n & 31)),
];

const UNARIES: [(&str, Unary); 3] =
    [("tobit", |a| a), ("bnot", |a| !a), ("bswap", |a| a.swap_bytes())];

pub(crate) fn fill(lua: &Lua, functions: &Table) -> Result<()> {
    for (name, fold) in FOLDS {
        let body = move |lua: &Lua, arguments: &Arguments| {
            let mut folded = operand(arguments, 0)?;
            for at in 1..arguments.len() {
                folded = fold(folded, operand(arguments, at)?);
            }
            one(lua, folded.cast_signed())
        };
        functions.raw_set(name, function(lua, name, body)?)?;
    }
    for (name, shift) in SHIFTS {
        let body = move |lua: &Lua, arguments: &Arguments| {
            let shifted = shift(operand(arguments, 0)?, operand(arguments, 1)?);
            one(lua, shifted.cast_signed())
        };
        functions.raw_set(name, function(lua, name, body)?)?;
    }
    for (name, unary) in UNARIES {
        let body = move |lua: &Lua, arguments: &Arguments| {
            one(lua, unary(operand(arguments, 0)?).cast_signed())
        };
        functions.raw_set(name, function(lua, name, body)?)?;
    }
    let body = |lua: &Lua, arguments: &Arguments| {
        let number = operand(arguments, 0)?;
        let digits = match arguments.len() {
            1 => 8,
            _ => operand(arguments, 1)?.cast_signed(),
        };
        let width = digits.unsigned_abs().min(8) as usize;
        let all = match digits < 0 {
            true => format!("{number:08X}"),
            false => format!("{number:08x}"),
        };
        one(lua, &all[8 - width..])
    };
    functions.raw_set("tohex", function(lua, "tohex", body)?)
}

/// A number modulo 2^32, rounded to the nearest integer.
fn operand(arguments: &Arguments, at: usize) -> std::result::Result<u32, Failure> {
    let number = arguments.number(at)?.round_ties_even();
    if !number.is_finite() {
        return Ok(0);
    }
    Ok(number.rem_euclid(4_294_967_296.0) as u32)
}
