//! The library `bit`: operations on 32-bit integers.

use crate::library::{Answer, Arguments, Entries, Failure, add, entries, one, text};
use crate::lua::{Lua, Result, Table, Value};

static FUNCTIONS: Entries = entries! {
    "band": |_, arguments| fold(arguments, |a, b| a & b),
    "bor": |_, arguments| fold(arguments, |a, b| a | b),
    "bxor": |_, arguments| fold(arguments, |a, b| a ^ b),
    "lshift": |_, arguments| shift(arguments, |a, n| a << (n & 31)),
    "rshift": |_, arguments| shift(arguments, |a, n| a >> (n & 31)),
    "arshift": |_, arguments| {
        shift(arguments, |a, n| (a.cast_signed() >> (n & 31)).cast_unsigned())
    },
    "rol": |_, arguments| shift(arguments, |a, n| a.rotate_left(n & 31)),
    "ror": |_, arguments| shift(arguments, |a, n| a.rotate_right(n & 31)),
    "tobit": |_, arguments| unary(arguments, |a| a),
    "bnot": |_, arguments| unary(arguments, |a| !a),
    "bswap": |_, arguments| unary(arguments, |a| a.swap_bytes()),
    "tohex": hexadecimal,
};

pub(crate) fn fill(lua: &Lua, functions: &Table<'_>) -> Result<()> {
    add(lua, functions, FUNCTIONS)
}

fn signed<'l>(number: u32) -> Answer<'l> {
    one(Value::Integer(i64::from(number.cast_signed())))
}

fn fold<'l>(arguments: &Arguments<'_>, operation: fn(u32, u32) -> u32) -> Answer<'l> {
    let mut folded = operand(arguments, 0)?;
    for at in 1..arguments.len() {
        folded = operation(folded, operand(arguments, at)?);
    }
    signed(folded)
}

fn shift<'l>(arguments: &Arguments<'_>, operation: fn(u32, u32) -> u32) -> Answer<'l> {
    signed(operation(operand(arguments, 0)?, operand(arguments, 1)?))
}

fn unary<'l>(arguments: &Arguments<'_>, operation: fn(u32) -> u32) -> Answer<'l> {
    signed(operation(operand(arguments, 0)?))
}

fn hexadecimal<'l>(lua: &'l Lua, arguments: &Arguments<'l>) -> Answer<'l> {
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
    text(lua, &all[8 - width..])
}

/// A number modulo 2^32, rounded to the nearest integer.
fn operand(arguments: &Arguments<'_>, at: usize) -> std::result::Result<u32, Failure> {
    let number = arguments.number(at)?.round_ties_even();
    if !number.is_finite() {
        return Ok(0);
    }
    Ok(number.rem_euclid(4_294_967_296.0) as u32)
}
