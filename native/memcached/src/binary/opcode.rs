//! The opcodes as data: names, shapes of requests, rows of statistics.

use super::super::table::Row;

/// What an opcode does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Returns a record, with or without its key.
    Get {
        with_key: bool,
    },
    /// The same, and sets its expiry.
    GetAndTouch {
        with_key: bool,
    },
    Touch,
    Store,
    Concat,
    Delete,
    Increase,
    Decrease,
    Flush,
    Noop,
    Version,
    Verbosity,
    Stat,
    Quit,
    ListMechanisms,
    Authenticate,
    ContinueAuthentication,
}

/// Whether requests of an opcode have a key, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Has {
    Never,
    Sometimes,
    Always,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opcode {
    pub(crate) code: u8,
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    /// Whether the expected answer is omitted: a miss of a retrieval, otherwise success.
    pub(crate) is_quiet: bool,
    /// The row of statistics.
    pub(crate) row: Row,
    /// The lengths that the extras may have.
    pub(crate) extras: &'static [u8],
    pub(crate) key: Has,
    pub(crate) value: Has,
    #[cfg(test)]
    pub(crate) summary: &'static str,
}

impl Opcode {
    /// The opcode of a request.
    #[inline]
    pub(super) fn find(code: u8) -> Option<&'static Opcode> {
        let at = *BY_CODE.get(usize::from(code))?;
        OPCODES.get(usize::from(at))
    }

    /// Whether its requests concern one record each.
    #[inline]
    pub(super) fn has_record(&self) -> bool {
        self.key == Has::Always && self.row != Row::Authenticate
    }

    /// Whether the lengths of a request are valid.
    #[inline]
    pub(super) fn admits(&self, extras: usize, key: usize, value: usize) -> bool {
        let fits = |has: Has, bytes: usize| match has {
            Has::Never => bytes == 0,
            Has::Sometimes => true,
            Has::Always => bytes > 0,
        };
        self.extras.iter().any(|&length| usize::from(length) == extras)
            && fits(self.key, key)
            && fits(self.value, value)
    }
}

const NO_ROW: u8 = u8::MAX;

/// The index in [`OPCODES`] of each code.
static BY_CODE: [u8; 0x40] = {
    let mut rows = [NO_ROW; 0x40];
    let mut at = 0;
    while at < OPCODES.len() {
        rows[OPCODES[at].code as usize] = at as u8;
        at += 1;
    }
    rows
};

const LOUD: bool = false;
const QUIET: bool = true;

macro_rules! opcodes {
    ($($code:literal $name:literal $action:expr, $quiet:ident $row:ident $extras:expr,
        $key:ident $value:ident $summary:literal;)*) => {
        /// All opcodes, in their order.
        pub(crate) const OPCODES: &[Opcode] = &[$(Opcode {
            code: $code,
            name: $name,
            action: $action,
            is_quiet: $quiet,
            row: Row::$row,
            extras: $extras,
            key: Has::$key,
            value: Has::$value,
            #[cfg(test)]
            summary: $summary,
        },)*];
    };
}

const GET: Action = Action::Get { with_key: false };
const GETK: Action = Action::Get { with_key: true };
const GAT: Action = Action::GetAndTouch { with_key: false };
const GATK: Action = Action::GetAndTouch { with_key: true };

// The columns: code, name, action, whether it is quiet, row of statistics, lengths of the extras,
// key, value, summary.
opcodes! {
    0x00 "get" GET, LOUD Get &[0], Always Never
        "Returns flags and value of a record.";
    0x01 "set" Action::Store, LOUD Set &[8], Always Sometimes
        "Stores a value. Extras: flags, expiry.";
    0x02 "add" Action::Store, LOUD Add &[8], Always Sometimes
        "Stores a value if there is no record. Extras: flags, expiry.";
    0x03 "replace" Action::Store, LOUD Replace &[8], Always Sometimes
        "Stores a value if there is a record. Extras: flags, expiry.";
    0x04 "delete" Action::Delete, LOUD Delete &[0], Always Never
        "Removes a record.";
    0x05 "increment" Action::Increase, LOUD Incr &[20], Always Never
        "Adds to a number. Extras: the amount, the initial value, the expiry of a new record \
         (0xffffffff: create none).";
    0x06 "decrement" Action::Decrease, LOUD Decr &[20], Always Never
        "Subtracts from a number, down to 0. Extras as for increment.";
    0x07 "quit" Action::Quit, LOUD Quit &[0], Never Never
        "Answers, then closes the connection.";
    0x08 "flush" Action::Flush, LOUD FlushAll &[0, 4], Never Never
        "Removes all records of database 0, now or at a later time. Extras: the time.";
    0x09 "getq" GET, QUIET Get &[0], Always Never
        "As get; a miss is not answered.";
    0x0a "noop" Action::Noop, LOUD Mn &[0], Never Never
        "Answers, which marks the end of a sequence of quiet requests.";
    0x0b "version" Action::Version, LOUD Version &[0], Never Never
        "Returns the level of the protocol and the version of the server.";
    0x0c "getk" GETK, LOUD Get &[0], Always Never
        "As get, and returns the key.";
    0x0d "getkq" GETK, QUIET Get &[0], Always Never
        "As getk; a miss is not answered.";
    0x0e "append" Action::Concat, LOUD Append &[0], Always Sometimes
        "Appends bytes to a value; flags and expiry do not change.";
    0x0f "prepend" Action::Concat, LOUD Prepend &[0], Always Sometimes
        "Prepends bytes to a value; flags and expiry do not change.";
    0x10 "stat" Action::Stat, LOUD Stats &[0], Sometimes Never
        "Returns statistics, one response for each, then one without a key. Key: settings, items, \
         slabs, sizes, conns or reset.";
    0x11 "setq" Action::Store, QUIET Set &[8], Always Sometimes
        "As set; success is not answered.";
    0x12 "addq" Action::Store, QUIET Add &[8], Always Sometimes
        "As add; success is not answered.";
    0x13 "replaceq" Action::Store, QUIET Replace &[8], Always Sometimes
        "As replace; success is not answered.";
    0x14 "deleteq" Action::Delete, QUIET Delete &[0], Always Never
        "As delete; success is not answered.";
    0x15 "incrementq" Action::Increase, QUIET Incr &[20], Always Never
        "As increment; success is not answered.";
    0x16 "decrementq" Action::Decrease, QUIET Decr &[20], Always Never
        "As decrement; success is not answered.";
    0x17 "quitq" Action::Quit, QUIET Quit &[0], Never Never
        "Closes the connection.";
    0x18 "flushq" Action::Flush, QUIET FlushAll &[0, 4], Never Never
        "As flush; success is not answered.";
    0x19 "appendq" Action::Concat, QUIET Append &[0], Always Sometimes
        "As append; success is not answered.";
    0x1a "prependq" Action::Concat, QUIET Prepend &[0], Always Sometimes
        "As prepend; success is not answered.";
    0x1b "verbosity" Action::Verbosity, LOUD Verbosity &[4], Never Never
        "Answers success and changes nothing. Extras: the level.";
    0x1c "touch" Action::Touch, LOUD Touch &[4], Always Never
        "Sets the expiry of a record. Extras: the expiry.";
    0x1d "gat" GAT, LOUD Gat &[4], Always Never
        "As get, and sets the expiry of the record. Extras: the expiry.";
    0x1e "gatq" GAT, QUIET Gat &[4], Always Never
        "As gat; a miss is not answered.";
    0x20 "sasl list mechs" Action::ListMechanisms, LOUD Authenticate &[0], Never Never
        "Returns `PLAIN`, if a password is set.";
    0x21 "sasl auth" Action::Authenticate, LOUD Authenticate &[0], Always Sometimes
        "Authenticates. Key: PLAIN; value: `\\0user\\0password`.";
    0x22 "sasl step" Action::ContinueAuthentication, LOUD Authenticate &[0], Always Sometimes
        "The same, after a sasl auth without a value.";
    0x23 "gatk" GATK, LOUD Gat &[4], Always Never
        "As gat, and returns the key.";
    0x24 "gatkq" GATK, QUIET Gat &[4], Always Never
        "As gatk; a miss is not answered.";
}
