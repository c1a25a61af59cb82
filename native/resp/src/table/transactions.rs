//! Transactions.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! transactions {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Multi { name: "multi", handler: Session(Words, multi), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | ALLOW_BUSY | IMMEDIATE, group: Transactions, since: "1.2.0", syntax: "",
            cost: "O(1)", summary: "Starts a transaction: following commands are queued." }
        Exec { name: "exec", handler: Session(Words, exec), arity: 1, keys: NO_KEYS,
            flags: SESSION | SKIP_SLOWLOG | IMMEDIATE, class: Write, group: Transactions, since: "1.2.0", syntax: "",
            cost: "that of the queued commands",
            summary: "Executes the queued commands as one step, unless a watched key has changed." }
        Discard { name: "discard", handler: Session(Words, discard), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | ALLOW_BUSY | IMMEDIATE, group: Transactions, since: "2.0.0", syntax: "",
            cost: "O(n), n queued commands", summary: "Drops the queued commands and the watched keys." }
        Watch { name: "watch", handler: Session(Words, watch), arity: -2, keys: LOOK_EACH,
            flags: SESSION | FAST | ALLOW_BUSY | IMMEDIATE, class: Read, group: Transactions, since: "2.2.0", syntax: "key...",
            cost: "O(n), n keys", summary: "Makes the next EXEC fail if one of these keys changes." }
        Unwatch { name: "unwatch", handler: Session(Words, unwatch), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | ALLOW_BUSY, group: Transactions, since: "2.2.0", syntax: "",
            cost: "O(n), n watched keys", summary: "Drops the watched keys." }
    ] $($then)+ } };
}
pub(crate) use transactions;
