//! Calls the handler that the row of a command names.
//!
//! All functions here are generated from the rows: a row without a handler, or with one that does
//! not exist, does not compile, and no command uses the handler of another by accident.

use super::call::{Call, Done};
use super::expiry::TimeUnit;
use super::flow::Flow;
use super::reply_format::ReplyFormat;
use super::request::{Built, Pair, Request, wrong_arity};
use super::table::{Name, each_command};
use super::work::Effort;
use super::{bits, cluster, dump, keys, range, scripts, sketches, sort, strings};
use crate::{Host, Topic};
use todana_command::Condition;
use todana_protocol::ReadLevel;

macro_rules! dispatch {
    ($($id:ident {
        name: $name:literal, handler: $handler:ident $(($($details:tt)*))?, $($row:tt)*
    })*) => {
        /// The command on records for a request, and the format of its reply; `None` if the
        /// session executes the request itself. `pairs` are the arguments in pairs and `seed`
        /// is a random number, and `source` is the script that the request names, for commands that
        /// take them.
        #[inline]
        pub(super) fn build<'a>(
            request: &Request<'a>,
            pairs: &'a [Pair<'a>],
            seed: u64,
            source: Option<&'a [u8]>,
        ) -> Option<Built<'a>> {
            match request.name {
                $(Name::$id => {
                    dispatch!(@build request pairs seed source $handler ($($($details)*)?))
                })*
            }
        }

        /// Whether a command needs its arguments in pairs.
        #[inline]
        pub(super) fn takes_pairs(name: Name) -> bool {
            match name {
                $(Name::$id => dispatch!(@takes_pairs $handler),)*
            }
        }

        /// Whether a command needs the source of the script that it names.
        #[inline]
        pub(super) fn takes_source(name: Name) -> bool {
            match name {
                $(Name::$id => dispatch!(@takes_source $handler),)*
            }
        }

        /// Whether a command needs a random number.
        #[inline]
        pub(super) fn takes_seed(name: Name) -> bool {
            match name {
                $(Name::$id => dispatch!(@takes_seed $handler),)*
            }
        }

        /// The cost of the session's own command in EXEC in addition to its words.
        pub(super) fn effort(name: Name) -> Effort {
            match name {
                $(Name::$id => dispatch!(@effort $handler ($($($details)*)?)),)*
            }
        }

        fn answer<H: Host>(call: &mut Call<'_, '_, H>) -> Done {
            match call.name {
                $(Name::$id => dispatch!(@answer call $handler ($($($details)*)?)),)*
            }
        }
    };

    (@build $r:ident $p:ident $seed:ident $name:ident Store($function:path $(, $with:expr)*)) => {
        Some($function($r $(, $with)*))
    };
    (@build $r:ident $p:ident $seed:ident $name:ident Pairs($function:path $(, $with:expr)*)) => {
        Some($function($r, $p $(, $with)*))
    };
    (@build $r:ident $p:ident $seed:ident $name:ident Seeded($function:path $(, $with:expr)*)) => {
        Some($function($r, $seed $(, $with)*))
    };
    (@build $r:ident $p:ident $seed:ident $name:ident Named($function:path $(, $with:expr)*)) => {
        Some($function($r, $name $(, $with)*))
    };
    (@build $r:ident $p:ident $seed:ident $name:ident Session($($details:tt)*)) => { None };
    (@build $r:ident $p:ident $seed:ident $name:ident Container()) => { None };

    (@takes_pairs Pairs) => { true };
    (@takes_pairs $handler:ident) => { false };

    (@takes_source Named) => { true };
    (@takes_source $handler:ident) => { false };

    (@takes_seed Seeded) => { true };
    (@takes_seed $handler:ident) => { false };

    (@effort Session($effort:ident, $($details:tt)*)) => { Effort::$effort };
    (@effort $handler:ident($($details:tt)*)) => { Effort::Words };

    (@answer $call:ident Session($effort:ident, $method:ident $(, $with:expr)*)) => {
        $call.$method($($with),*)
    };
    // Containers need a subcommand, and `build` has converted all other requests.
    (@answer $call:ident $handler:ident($($details:tt)*)) => { Err(wrong_arity($call.name)) };
}

each_command!(dispatch);

impl<H: Host> Call<'_, '_, H> {
    /// Executes the request and writes its reply, or its failure.
    pub(super) fn run(&mut self) -> Flow {
        answer(self).unwrap_or_else(|failure| {
            self.encoder.error(&failure);
            Flow::Continue
        })
    }
}
