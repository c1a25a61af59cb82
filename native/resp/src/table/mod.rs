//! The commands, as data. It feeds look-up, arity and key checks, dispatch, `COMMAND`, the
//! documentation and the fuzzer's dictionary.
//!
//! Each row names what handles its command ([`dispatch`](super::dispatch) calls it):
//!
//! | handler | |
//! |---|---|
//! | `Store(function, arguments...)` | the function makes a command for the store |
//! | `Pairs(function, arguments...)` | the same, of a request with keys and values in turn |
//! | `Seeded(function, arguments...)` | the same, of a request with a random number |
//! | `Named(function, arguments...)` | the same, of a request with the source that it names |
//! | `Session(effort, method, arguments...)` | the method of [`Call`](super::call::Call) answers |
//! | `Container` | a subcommand, whose row follows, handles the request |
//!
//! The effort says what the answer counts in EXEC ([`Effort`](super::work::Effort)).
//!
//! The rows stand in files by their groups. What a request does to records ([`Class`]) follows from
//! the flags `WRITE` and `READONLY`, unless a row has a column `class`.

mod bits;
mod channels;
mod cluster;
mod connection;
mod keys;
mod names;
mod scripts;
mod server;
mod sketches;
mod strings;
mod transactions;

use super::spec::*;
use todana_protocol::Class;

/// Passes all rows to the macro `$with`.
macro_rules! each_command {
    ($with:ident) => {
        $crate::table::chain! {
            [] strings bits sketches keys transactions scripts channels connection server cluster
            names $with
        }
    };
}

/// Passes rows to the first macro of a list, which adds its own; the last one gets them all.
macro_rules! chain {
    ([$($rows:tt)*] $with:ident) => { $with! { $($rows)* } };
    ([$($rows:tt)*] $next:ident $($then:ident)+) => {
        $crate::table::$next! { [$($rows)*] $($then)+ }
    };
}
pub(super) use {
    bits::bits, channels::channels, cluster::cluster, connection::connection, keys::keys,
    names::names, scripts::scripts, server::server, sketches::sketches, strings::strings,
    transactions::transactions,
};
pub(super) use {chain, each_command};

macro_rules! table {
    ($($id:ident {
        name: $name:literal,
        handler: $handler:ident $(($($details:tt)*))?,
        arity: $arity:literal,
        keys: $keys:expr,
        flags: $flags:expr,
        $(class: $class:ident,)?
        group: $group:ident,
        since: $since:literal,
        syntax: $syntax:literal,
        cost: $cost:literal,
        summary: $summary:literal
    })*) => {
        /// The commands by name; a name's number is its index in [`TABLE`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        #[allow(clippy::enum_variant_names, reason = "CLIENT GETNAME")]
        pub(super) enum Name { $($id),* }

        /// All commands, subcommands after their containers.
        pub(super) static TABLE: &[Spec] = &[$(Spec {
            name: $name,
            group: Group::$group,
            arity: $arity,
            flags: $flags | table!(@flags $handler),
            class: table!(@class $flags $(, $class)?),
            keys: $keys,
            since: $since,
            syntax: $syntax,
            cost: $cost,
            summary: $summary,
        }),*];

        /// Names of the commands, in the order of their statistics: `get`, `client|list` ...
        pub const COMMANDS: &[&str] = &[$($name),*];

        pub(super) static NAMES: &[Name] = &[$(Name::$id),*];
    };
    (@class $flags:expr, $class:ident) => { Class::$class };
    (@class $flags:expr) => { class_of($flags) };
    (@flags Container) => { CONTAINER };
    (@flags $handler:ident) => { NONE };
}

each_command!(table);

impl Name {
    /// What the table says about it.
    #[inline]
    pub(super) fn spec(self) -> &'static Spec {
        &TABLE[self as usize]
    }

    /// What requests of this command do to records. A container answers only for unknown
    /// subcommands.
    #[inline]
    pub(super) fn class(self) -> Class {
        self.spec().class
    }
}

/// The class of a command with these flags.
const fn class_of(flags: u64) -> Class {
    match (flags & WRITE != 0, flags & READONLY != 0) {
        (true, _) => Class::Write,
        (false, true) => Class::Read,
        (false, false) => Class::Local,
    }
}
