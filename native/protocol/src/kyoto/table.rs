//! The procedures and methods as data: name, inputs, summary, and the counter they belong to.

/// Groups of the reference page, in the order of the specification.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Server,
    Record,
    Bulk,
    Match,
    Cursor,
    Rest,
    Binary,
}

#[cfg(test)]
impl Group {
    pub(super) const ALL: [Group; 7] = [Server, Record, Bulk, Match, Cursor, Rest, Binary];
}

#[cfg(test)]
use Group::{Binary, Bulk, Cursor, Match, Record, Rest, Server};

/// The counter of `report` that a row adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Set,
    Remove,
    Get,
    /// `seize` counts twice.
    GetAndRemove,
    Script,
    Misc,
    None,
}

macro_rules! rows {
    ($($row:ident $name:literal $group:ident $count:ident $inputs:literal $summary:literal;)*) => {
        /// A row of the statistics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Row { $($row,)* }

        /// Names of procedures and methods, in the order of their statistics.
        pub const COMMANDS: &[&str] = &[$($name,)*];

        /// The counter of each row.
        pub(super) const COUNTS: &[Count] = &[$(Count::$count,)*];

        /// Group, inputs and summary of each row, for the reference page.
        #[cfg(test)]
        pub(super) const PAGE: &[(Group, &str, &str)] = &[$(($group, $inputs, $summary),)*];

        impl Row {
            /// Looks up a procedure by its name.
            pub(super) fn procedure(name: &[u8]) -> Option<Row> {
                match name {
                    $(name if name == $name.as_bytes() && Row::$row.is_procedure() => {
                        Some(Row::$row)
                    })*
                    _ => None,
                }
            }
        }
    };
}

impl Row {
    /// Whether it is a procedure of `/rpc/`.
    pub(super) fn is_procedure(self) -> bool {
        (self as usize) < Row::RestGet as usize
    }
}

rows! {
    Void "void" Server None "" "Does nothing.";
    Echo "echo" Server None "anything" "Returns its inputs.";
    Report "report" Server None "" "Returns statistics of the server.";
    Status "status" Server Misc "DB" "Returns statistics of a database.";
    PlayScript "play_script" Server Script "name, _key..." "Refused: there are no scripts.";
    TuneReplication "tune_replication" Server None "host, port, ts, iv"
        "Refused: there is no replication by this protocol.";
    UlogList "ulog_list" Server None "" "Refused: there is no update log.";
    UlogRemove "ulog_remove" Server None "ts" "Refused: there is no update log.";
    Clear "clear" Record Misc "DB" "Removes all records.";
    Synchronize "synchronize" Record Misc "DB, hard, command"
        "Succeeds when all writes before it are on disk; databases in memory need none.";
    Set "set" Record Set "DB, key, value, xt" "Stores a value.";
    Add "add" Record Set "DB, key, value, xt" "Stores a value if there is no record.";
    Replace "replace" Record Set "DB, key, value, xt" "Stores a value if there is a record.";
    Append "append" Record Set "DB, key, value, xt" "Adds bytes to the end of a value.";
    Increment "increment" Record Set "DB, key, num, orig, xt"
        "Adds to a number that is stored as 8 bytes.";
    IncrementDouble "increment_double" Record Set "DB, key, num, orig, xt"
        "Adds to a decimal number that is stored as 16 bytes.";
    Cas "cas" Record Set "DB, key, oval, nval, xt"
        "Stores or removes the record if it has the given value.";
    Remove "remove" Record Remove "DB, key" "Removes a record.";
    Get "get" Record Get "DB, key" "Returns a value.";
    Check "check" Record Get "DB, key" "Returns the length of a value.";
    Seize "seize" Record GetAndRemove "DB, key" "Returns a value and removes its record.";
    SetBulk "set_bulk" Bulk Set "DB, xt, atomic, _key..." "Stores values.";
    RemoveBulk "remove_bulk" Bulk Remove "DB, atomic, _key..." "Removes records.";
    GetBulk "get_bulk" Bulk Get "DB, atomic, _key..." "Returns values.";
    Vacuum "vacuum" Record Misc "DB, step" "Frees expired records.";
    MatchPrefix "match_prefix" Match Misc "DB, prefix, max"
        "Returns the keys that begin with a prefix.";
    MatchRegex "match_regex" Match Misc "DB, regex, max"
        "Returns the keys that match an expression.";
    MatchSimilar "match_similar" Match Misc "DB, origin, range, utf, max"
        "Returns the keys within an edit distance.";
    CurJump "cur_jump" Cursor Misc "DB, CUR, key" "Moves a cursor to the first record or to a key.";
    CurJumpBack "cur_jump_back" Cursor Misc "DB, CUR, key"
        "Moves a cursor to the last record or back to a key.";
    CurStep "cur_step" Cursor Misc "CUR" "Moves a cursor to the next record.";
    CurStepBack "cur_step_back" Cursor Misc "CUR" "Moves a cursor to the previous record.";
    CurSetValue "cur_set_value" Cursor Set "CUR, value, xt, step"
        "Stores a value at a cursor.";
    CurRemove "cur_remove" Cursor Remove "CUR" "Removes the record at a cursor.";
    CurGetKey "cur_get_key" Cursor Get "CUR, step" "Returns the key at a cursor.";
    CurGetValue "cur_get_value" Cursor Get "CUR, step" "Returns the value at a cursor.";
    CurGet "cur_get" Cursor Get "CUR, step" "Returns the record at a cursor.";
    CurSeize "cur_seize" Cursor Get "CUR" "Returns the record at a cursor and removes it.";
    CurDelete "cur_delete" Cursor None "CUR" "Deletes a cursor.";
    RestGet "GET" Rest Get "" "Returns a value.";
    RestHead "HEAD" Rest Get "" "Returns the length of a value.";
    RestPut "PUT" Rest Set "X-Kt-Mode, X-Kt-Xt" "Stores a value.";
    RestDelete "DELETE" Rest Remove "" "Removes a record.";
    BinarySetBulk "B8 set_bulk" Binary Set "" "Stores values.";
    BinaryRemoveBulk "B9 remove_bulk" Binary Remove "" "Removes records.";
    BinaryGetBulk "BA get_bulk" Binary Get "" "Returns values.";
    BinaryPlayScript "B4 play_script" Binary Script "" "Refused: there are no scripts.";
    BinaryReplication "B1 replication" Binary None ""
        "Refused: there is no replication by this protocol.";
    Unknown "unknown" Server None "" "An unknown procedure or method, or a bad request.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_are_found_by_name_and_methods_are_no_procedures() {
        assert_eq!(Row::procedure(b"set"), Some(Row::Set));
        assert_eq!(Row::procedure(b"cur_delete"), Some(Row::CurDelete));
        for name in ["GET", "unknown", "", "SET", "B8 set_bulk"] {
            assert_eq!(Row::procedure(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn rows_have_distinct_names() {
        for (at, name) in COMMANDS.iter().enumerate() {
            assert!(!COMMANDS[..at].contains(name), "{name}");
        }
        assert_eq!((COMMANDS.len(), COUNTS.len()), (PAGE.len(), PAGE.len()));
        assert_eq!(Group::ALL.len(), 7);
    }
}
