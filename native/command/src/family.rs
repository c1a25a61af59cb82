//! Families of commands, which describe themselves.
//!
//! A family is the commands of one subject, in a folder of its own: [`crate::string`],
//! [`crate::bits`], [`crate::sketch`], [`crate::key`], [`crate::database`], [`crate::lease`],
//! [`crate::script`]. It is an enum, made by [`commands!`] from one row for each command. A row has
//! a column for each thing that the rest of the system asks of a command, so that a command for
//! which one of them is missing does not compile. Elsewhere only a few commands have a special case
//! each, and all others one arm.
//!
//! | column | what it says |
//! |---|---|
//! | number | how the command begins in encoded form; it never changes |
//! | `format` | the first format of the log's batches that has it |
//! | `keys` | the records that it concerns: all others are unlocked |
//! | `access` | whether it reads or writes; durable databases change by writes only |
//! | `removes` | whether it can do nothing but remove records |
//! | `events` | the names of the changes that it makes |
//! | `reads` | what it does with the values that its keys have |
//! | `kinds` | what it does with a record that is no string |
//! | `brings` | the values that it stores |
//! | `units` | its work on a table of this size, without that for the values of its keys |
//! | `room` | the largest entry that it makes |
//! | `foresee` | how it changes the sizes of records, for the commands behind it in a transaction |
//! | `slices` | when it is long, and how a slice of it is executed |
//! | `alone` | how it is executed outside a transaction: by `run`, or by a function of its own |
//! | `run` | the function that defines its meaning |

#[cfg(test)]
mod tests;

use crate::access::Access;
use crate::cause::Names;
use crate::cost::{Reads, TableSize};
use crate::scope::Scope;
use crate::sizes::{Room, Sizes};
use crate::slice::{Slice, Stage};
use crate::target::Target;
use crate::wire::{Input, Malformed};
use crate::{Context, Reply};
use todana_table::Keyspace;

/// What the rest of the system asks of a command. [`commands!`] implements it for a family;
/// `command.rs` asks the family that a command is of.
pub(crate) trait Described<'a>: Sized {
    /// The number of the command in encoded form.
    fn number(&self) -> u16;

    /// Appends the fields in encoded form.
    fn put_fields(&self, out: &mut Vec<u8>);

    /// The command of this number, with the fields at the front of the input; `None` if the family
    /// has no such number.
    fn take<'b: 'a>(number: u16, input: &mut Input<'b, 'a>) -> Result<Option<Self>, Malformed>;

    /// The first format of the log's batches that has the command.
    fn format(&self) -> u8;

    /// The records that the command concerns. A key that it accesses but that is not named here is
    /// not locked.
    fn scope(&self) -> Scope<'a>;

    /// What the command does to records.
    fn access(&self) -> Access;

    /// Whether the command can do nothing but remove records, now or later.
    fn only_removes(&self) -> bool;

    /// The names of the changes that the command makes.
    fn names(&self) -> Names;

    /// What the command does with the values that its keys have.
    fn reads(&self) -> Reads;

    /// What the command does with a record that is no string.
    fn kinds(&self) -> Kinds;

    /// The values that the command stores.
    fn brings(&self) -> Brings;

    /// The units of work on a table of this size.
    fn units(&self, table: TableSize) -> u64;

    /// The room that the command may need, which admission to a transaction asks for.
    fn room(&self) -> Room;

    /// Estimates how the command changes the sizes of records.
    fn foresee(&self, sizes: &mut Sizes<'_, '_, 'a>);

    /// Whether a server with several clients has to execute the command in slices.
    fn is_long(&self) -> bool;

    /// Executes a slice of a long command.
    fn slice<T: Target, R: Reply>(
        &self,
        slice: Slice<'_, T, R>,
        stage: Option<Stage>,
    ) -> Option<Stage>;

    /// Executes the command on one table, outside a transaction. Returns false, and has done
    /// nothing, if it needs more than that.
    fn alone<T: Target, R: Reply>(&self, target: &T, context: Context, reply: &mut R) -> bool;

    /// Executes the command on one table, whose locks are taken for each key or are already held.
    fn run<K: Keyspace, R: Reply>(&self, space: &K, context: Context, reply: &mut R);
}

/// What a command does with a record that is no string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// It fails with [`Error::WrongKind`](crate::Error::WrongKind) and changes nothing, wherever it
    /// reads the value of a record.
    Strings,
    /// It treats all records alike.
    All,
    /// As if there were no such record: the other records that it reads are its reply.
    LeavesOut,
}

/// The values that a command stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brings {
    /// None, or short ones, or such as are stored already.
    Nothing,
    /// Values of the command; the longest has this number of bytes.
    Values(usize),
    /// A value that is made of a present one and of a part of this length, so that only its
    /// execution knows the length.
    Part(usize),
}

impl Brings {
    /// The length of the longest value that the command brings along, in bytes.
    pub fn longest(self) -> usize {
        match self {
            Brings::Nothing => 0,
            Brings::Values(bytes) | Brings::Part(bytes) => bytes,
        }
    }

    /// Whether the command makes a value of a present one, so that only its execution knows the
    /// length.
    pub fn builds(self) -> bool {
        matches!(self, Brings::Part(_))
    }
}

/// Makes a family from its rows.
macro_rules! commands {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> {$(
            $(#[$row:meta])*
            $number:literal $variant:ident
                $({ $($field:ident: $type:ty),* $(,)? })? $(($fields:ident: $of:ty))? => {
                format: $format:literal,
                keys: $keys:expr,
                access: $access:expr,
                removes: $removes:expr,
                events: $events:expr,
                reads: $reads:expr,
                kinds: $kinds:expr,
                brings: $brings:expr,
                units: |$table:pat_param| $units:expr,
                room: $room:expr,
                foresee: |$sizes:pat_param| $foresee:expr,
                slices: [$($slices:tt)*],
                alone: [$($alone:tt)*],
                run: |$space:pat_param, $context:pat_param, $reply:pat_param| $run:expr $(,)?
            }
        )*}
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each variant's sentence says what its fields are")]
        pub enum $name<$life> {$(
            $(#[$row])*
            $variant $({ $($field: $type),* })? $(($of))?,
        )*}

        #[cfg(any(test, feature = "testing"))]
        impl $name<'static> {
            /// The number and the name of each command.
            pub(crate) const ALL: &[(u16, &str)] = &[$(($number, stringify!($variant))),*];

            /// A command of this number with fields by the dice.
            pub(crate) fn roll(number: u16, dice: &mut $crate::testing::Dice) -> Option<Self> {
                use $crate::testing::Roll;
                match number {
                    $($number => Some($name::$variant
                        $({ $($field: Roll::roll(dice, stringify!($field))),* })?
                        $(({
                            let $fields = Roll::roll(dice, stringify!($fields));
                            $fields
                        }))?
                    ),)*
                    _ => None,
                }
            }
        }

        #[allow(unused_variables, reason = "a column need not use all fields")]
        impl<$life> $crate::family::Described<$life> for $name<$life> {
            fn number(&self) -> u16 {
                match *self {
                    $($name::$variant { .. } => $number,)*
                }
            }

            fn put_fields(&self, out: &mut Vec<u8>) {
                use $crate::wire::Put;
                match self {
                    $($name::$variant $({ $($field),* })? $(($fields))? => {
                        $($($field.put(out);)*)?
                        $($fields.put(out);)?
                    })*
                }
            }

            fn take<'b: $life>(
                number: u16,
                input: &mut $crate::wire::Input<'b, $life>,
            ) -> Result<Option<Self>, $crate::wire::Malformed> {
                use $crate::wire::Take;
                Ok(Some(match number {
                    $($number => $name::$variant
                        $({ $($field: Take::take(input)?),* })?
                        $((<$of as Take>::take(input)?))?,
                    )*
                    _ => return Ok(None),
                }))
            }

            fn format(&self) -> u8 {
                match *self {
                    $($name::$variant { .. } => $format,)*
                }
            }

            #[inline]
            fn scope(&self) -> $crate::scope::Scope<$life> {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $keys,)*
                }
            }

            #[inline]
            fn access(&self) -> $crate::Access {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $access,)*
                }
            }

            fn only_removes(&self) -> bool {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $removes,)*
                }
            }

            fn names(&self) -> $crate::cause::Names {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $events,)*
                }
            }

            fn reads(&self) -> $crate::cost::Reads {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $reads,)*
                }
            }

            fn kinds(&self) -> $crate::family::Kinds {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $kinds,)*
                }
            }

            fn brings(&self) -> $crate::family::Brings {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $brings,)*
                }
            }

            fn units(&self, table: $crate::cost::TableSize) -> u64 {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => {
                        let $table = table;
                        $units
                    })*
                }
            }

            fn room(&self) -> $crate::sizes::Room {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => $room,)*
                }
            }

            fn foresee(&self, sizes: &mut $crate::sizes::Sizes<'_, '_, $life>) {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => {
                        let $sizes = sizes;
                        $foresee
                    })*
                }
            }

            #[inline]
            fn is_long(&self) -> bool {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => {
                        $crate::family::slices!(is_long $($slices)*)
                    })*
                }
            }

            fn slice<T: $crate::target::Target, R: $crate::Reply>(
                &self,
                slice: $crate::slice::Slice<'_, T, R>,
                stage: Option<$crate::slice::Stage>,
            ) -> Option<$crate::slice::Stage> {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => {
                        $crate::family::slices!(slice self, slice, stage, $($slices)*)
                    })*
                }
            }

            fn alone<T: $crate::target::Target, R: $crate::Reply>(
                &self,
                target: &T,
                context: $crate::Context,
                reply: &mut R,
            ) -> bool {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => {
                        $crate::family::alone!(
                            [$($alone)*] target, context, reply, $keys,
                            |$space, $context, $reply| $run
                        )
                    })*
                }
            }

            fn run<K: ::todana_table::Keyspace, R: $crate::Reply>(
                &self,
                space: &K,
                context: $crate::Context,
                reply: &mut R,
            ) {
                match *self {
                    $($name::$variant $({ $($field),* })? $((ref $fields))? => {
                        let ($space, $context, $reply) = (space, context, reply);
                        $run
                    })*
                }
            }
        }
    };
}

/// The column `slices`: `never`, or a condition and the function that executes a slice.
macro_rules! slices {
    (is_long never) => {
        false
    };
    (is_long if $long:expr => |$slice:pat_param, $stage:pat_param| $sliced:expr) => {
        $long
    };
    // `execute_slice` asks whether a command is long.
    (slice $self:ident, $here:ident, $at:ident, never) => {{
        $self.alone(&$here.target, $here.context, $here.reply);
        None
    }};
    (slice $self:ident, $here:ident, $at:ident,
        if $long:expr => |$slice:pat_param, $stage:pat_param| $sliced:expr) => {{
        let ($slice, $stage) = ($here, $at);
        $sliced
    }};
}

/// The column `alone`: `by_keys`, or a function. The function of `run` is written out here, so that
/// a command is matched once.
macro_rules! alone {
    ([by_keys] $target:ident, $at:ident, $to:ident, $keys:expr,
        |$space:pat_param, $context:pat_param, $reply:pat_param| $run:expr) => {
        match $keys {
            $crate::scope::Scope::Key(_) | $crate::scope::Scope::Database => {
                let ($space, $context, $reply) = ($target, $at, $to);
                $run;
                true
            }
            // All keys as one step, even if it only reads them: when a client stores two values
            // together, no reader may see only one of them.
            $crate::scope::Scope::Keys(keys) => {
                let locked = $target.lock(keys.iter(), $at.now_ms);
                let ($space, $context, $reply) = (&locked, $at, $to);
                $run;
                true
            }
            $crate::scope::Scope::Expired { work_max } => {
                let (_, more) = $target.sweep($at.now_ms, work_max);
                $to.flag(more);
                true
            }
            $crate::scope::Scope::Script(_) | $crate::scope::Scope::Databases(_) => false,
        }
    };
    ([|$target:pat_param, $context:pat_param, $reply:pat_param| $done:expr]
        $here:ident, $at:ident, $to:ident, $keys:expr, $($run:tt)*) => {{
        let ($target, $context, $reply) = ($here, $at, $to);
        $done;
        true
    }};
}

pub(crate) use {alone, commands, slices};
