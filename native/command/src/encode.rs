//! Commands as bytes, for logs and for other nodes.
//!
//! ```text
//!  format 1 | number of the command, a u16 | fields, in the order of its row
//!
//!  u64, u32, u16, ..   LEB128: seven bits a byte, lowest first, the high bit means more
//!  i64                 LEB128 of its zigzag form (0, -1, 1, -2 become 0, 1, 2, 3)
//!  bool                one byte, 0 or 1
//!  bytes               length, bytes
//!  list                number of items, items
//!  option              0, or 1 and the value
//!  enum                number of the variant, its fields
//!  struct              its fields
//!
//!  INCR n              01 10 | 01 6e | 00 02 | 01 00 00 | 00 | 01 | 00
//!                      format, Increment, "n", Signed(1), Some(Zero, Never), Always,
//!                      Keep, no access word
//! ```
//!
//! The number of a command stands in its row ([`crate::family`]) and never changes: a removed
//! command leaves a gap, and one with changed fields gets a new number. The decoder trusts nothing:
//! arbitrary bytes yield a command or [`Malformed`], and take at most sixteen times the memory of
//! the bytes (a list of empty keys).

use crate::Command;
use crate::bits::BitsCommand;
use crate::database::DatabaseCommand;
use crate::family::Described;
use crate::key::KeyCommand;
use crate::lease::LeaseCommand;
use crate::script::ScriptCommand;
use crate::sketch::SketchCommand;
use crate::string::StringCommand;
use crate::wire::{Input, Malformed, Put, Scratch, Take};

/// The first byte of every encoded command.
const FORMAT: u8 = 1;

impl Command<'_> {
    /// Appends the command as bytes. Encoded commands may follow each other without a separator.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        self.put(out);
    }

    /// The command at the front of `bytes`, and the bytes after it. The command borrows from both
    /// arguments.
    pub fn decode<'b: 's, 's>(
        bytes: &'b [u8],
        scratch: &'s mut Scratch<'b>,
    ) -> Result<(Command<'s>, &'b [u8]), Malformed> {
        let (format, rest) = bytes.split_first().ok_or(Malformed)?;
        if *format != FORMAT {
            return Err(Malformed);
        }
        let mut input = Input { rest, scratch: Some(scratch) };
        let command = Command::take(&mut input)?;
        Ok((command, input.rest))
    }
}

impl Put for Command<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        self.number().put(out);
        self.put_fields(out);
    }
}

impl<'b: 's, 's> Take<'b, 's> for Command<'s> {
    fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed> {
        let number = take_number(input)?;
        macro_rules! first_of {
            ($($name:ident($family:ident))*) => {$(
                if let Some(command) = $family::take(number, input)? {
                    return Ok(Command::$name(command));
                }
            )*};
        }
        first_of! {
            String(StringCommand) Key(KeyCommand) Bits(BitsCommand) Sketch(SketchCommand)
            Lease(LeaseCommand) Script(ScriptCommand) Database(DatabaseCommand)
        }
        Err(Malformed)
    }
}

/// The number of a command, in its only form.
fn take_number(input: &mut Input<'_, '_>) -> Result<u16, Malformed> {
    let before = input.rest.len();
    let number = u16::take(input)?;
    let bytes = match number {
        ..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000.. => 3,
    };
    if before - input.rest.len() == bytes { Ok(number) } else { Err(Malformed) }
}
