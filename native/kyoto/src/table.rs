//! The procedures and methods as data: name, inputs, summary, the counter they belong to, and what
//! they do to records.

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
#[cfg(test)]
use todana_protocol::Class;

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
    ($(
        $row:ident $name:literal $group:ident $count:ident $class:ident $inputs:literal
        $summary:literal;
    )*) => {
        /// A row of the statistics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Row { $($row,)* }

        /// Names of procedures and methods, in the order of their statistics.
        pub const COMMANDS: &[&str] = &[$($name,)*];

        /// The counter of each row.
        pub(super) const COUNTS: &[Count] = &[$(Count::$count,)*];

        /// What requests of each row do to records.
        #[cfg(test)]
        pub(super) const CLASSES: &[(Row, Class)] = &[$((Row::$row, Class::$class),)*];

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

    /// Whether the procedure runs at most one command, and changes nothing but records.
    pub(super) fn runs_one_command(self) -> bool {
        matches!(
            self,
            Row::Set
                | Row::Add
                | Row::Replace
                | Row::Append
                | Row::Increment
                | Row::IncrementDouble
                | Row::Cas
                | Row::Remove
                | Row::Get
                | Row::Check
                | Row::Seize
        )
    }
}

rows! {
    Void "void" Server None Local "" "Does nothing.";
    Echo "echo" Server None Local "anything" "Returns its inputs.";
    Report "report" Server None Read "" "Returns statistics of the server.";
    Status "status" Server Misc Read "DB" "Returns statistics of a database.";
    PlayScript "play_script" Server Script Local "name, _key..."
        "Refused: this protocol has no scripts.";
    TuneReplication "tune_replication" Server None Local "host, port, ts, iv"
        "Refused: there is no replication by this protocol.";
    UlogList "ulog_list" Server None Local "" "Refused: there is no update log.";
    UlogRemove "ulog_remove" Server None Local "ts" "Refused: there is no update log.";
    Clear "clear" Record Misc Write "DB" "Removes all records.";
    Synchronize "synchronize" Record Misc Local "DB, hard, command"
        "Succeeds when all writes before it are on disk; databases in memory need none.";
    Set "set" Record Set Write "DB, key, value, xt" "Stores a value.";
    Add "add" Record Set Write "DB, key, value, xt" "Stores a value if there is no record.";
    Replace "replace" Record Set Write "DB, key, value, xt" "Stores a value if there is a record.";
    Append "append" Record Set Write "DB, key, value, xt" "Adds bytes to the end of a value.";
    Increment "increment" Record Set Write "DB, key, num, orig, xt"
        "Adds to a number that is stored as 8 bytes.";
    IncrementDouble "increment_double" Record Set Write "DB, key, num, orig, xt"
        "Adds to a decimal number that is stored as 16 bytes.";
    Cas "cas" Record Set Write "DB, key, oval, nval, xt"
        "Stores or removes the record if it has the given value.";
    Remove "remove" Record Remove Write "DB, key" "Removes a record.";
    Get "get" Record Get Read "DB, key" "Returns a value.";
    Check "check" Record Get Read "DB, key" "Returns the length of a value.";
    Seize "seize" Record GetAndRemove Write "DB, key" "Returns a value and removes its record.";
    SetBulk "set_bulk" Bulk Set Write "DB, xt, atomic, _key..." "Stores values.";
    RemoveBulk "remove_bulk" Bulk Remove Write "DB, atomic, _key..." "Removes records.";
    GetBulk "get_bulk" Bulk Get Read "DB, atomic, _key..." "Returns values.";
    Vacuum "vacuum" Record Misc Local "DB, step" "Frees expired records.";
    MatchPrefix "match_prefix" Match Misc Read "DB, prefix, max"
        "Returns the keys that begin with a prefix.";
    MatchRegex "match_regex" Match Misc Read "DB, regex, max"
        "Returns the keys that match an expression.";
    MatchSimilar "match_similar" Match Misc Read "DB, origin, range, utf, max"
        "Returns the keys within an edit distance.";
    CurJump "cur_jump" Cursor Misc Read "DB, CUR, key"
        "Moves a cursor to the first record or to a key.";
    CurJumpBack "cur_jump_back" Cursor Misc Read "DB, CUR, key"
        "Moves a cursor to the last record or back to a key.";
    CurStep "cur_step" Cursor Misc Read "CUR" "Moves a cursor to the next record.";
    CurStepBack "cur_step_back" Cursor Misc Read "CUR" "Moves a cursor to the previous record.";
    CurSetValue "cur_set_value" Cursor Set Write "CUR, value, xt, step"
        "Stores a value at a cursor.";
    CurRemove "cur_remove" Cursor Remove Write "CUR" "Removes the record at a cursor.";
    CurGetKey "cur_get_key" Cursor Get Read "CUR, step" "Returns the key at a cursor.";
    CurGetValue "cur_get_value" Cursor Get Read "CUR, step" "Returns the value at a cursor.";
    CurGet "cur_get" Cursor Get Read "CUR, step" "Returns the record at a cursor.";
    CurSeize "cur_seize" Cursor Get Write "CUR" "Returns the record at a cursor and removes it.";
    CurDelete "cur_delete" Cursor None Local "CUR" "Deletes a cursor.";
    RestGet "GET" Rest Get Read "" "Returns a value.";
    RestHead "HEAD" Rest Get Read "" "Returns the length of a value.";
    RestPut "PUT" Rest Set Write "X-Kt-Mode, X-Kt-Xt" "Stores a value.";
    RestDelete "DELETE" Rest Remove Write "" "Removes a record.";
    BinarySetBulk "B8 set_bulk" Binary Set Write "" "Stores values.";
    BinaryRemoveBulk "B9 remove_bulk" Binary Remove Write "" "Removes records.";
    BinaryGetBulk "BA get_bulk" Binary Get Read "" "Returns values.";
    BinaryPlayScript "B4 play_script" Binary Script Local ""
        "Refused: this protocol has no scripts.";
    BinaryReplication "B1 replication" Binary None Local ""
        "Refused: there is no replication by this protocol.";
    Unknown "unknown" Server None Local "" "An unknown procedure or method, or a bad request.";
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
