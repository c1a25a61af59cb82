//! Commands on HyperLogLogs.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! sketches {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        PfAdd { name: "pfadd", handler: Store(sketches::add), arity: -2, keys: ADD, flags: WRITE | DENYOOM | FAST,
            group: HyperLogLog, since: "2.8.9", syntax: "key [element...]", cost: "O(n), n elements",
            summary: "Adds elements to a HyperLogLog; returns 1 if its estimate may have changed." }
        PfCount { name: "pfcount", handler: Store(sketches::count), arity: -2, keys: READ_EACH, flags: READONLY,
            group: HyperLogLog, since: "2.8.9", syntax: "key...", cost: "O(n), n keys",
            summary: "Estimates the number of different elements in HyperLogLogs." }
        PfMerge { name: "pfmerge", handler: Store(sketches::merge), arity: -2, keys: MERGE, flags: WRITE | DENYOOM,
            group: HyperLogLog, since: "2.8.9", syntax: "destkey [sourcekey...]", cost: "O(n), n keys",
            summary: "Adds the elements of HyperLogLogs to another one." }
    ] $($then)+ } };
}
pub(crate) use sketches;
