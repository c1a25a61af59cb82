//! Commands on names and groups of Erlang processes, which only read.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! names {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        TodanaGroups { name: "todana.groups", handler: Session(Words, groups_of_scope), arity: -2, keys: NO_KEYS,
            flags: READONLY | NOSCRIPT | NO_MULTI | OWN | RANDOM, group: Names, since: "0.1.0",
            syntax: "scope [CURSOR cursor] [COUNT count]", cost: "O(n), n groups of the reply",
            summary: "Returns groups of processes that have members, and the cursor of the next ones." }
        TodanaMembers { name: "todana.members", handler: Session(Words, members_of_group), arity: -3, keys: NO_KEYS,
            flags: READONLY | NOSCRIPT | NO_MULTI | OWN | RANDOM, group: Names, since: "0.1.0",
            syntax: "scope group [CURSOR cursor] [COUNT count]", cost: "O(n), n members of the reply",
            summary: "Returns the processes of a group, and the cursor of the next ones." }
        TodanaNames { name: "todana.names", handler: Session(Words, names_of_scope), arity: -2, keys: NO_KEYS,
            flags: READONLY | NOSCRIPT | NO_MULTI | OWN | RANDOM, group: Names, since: "0.1.0",
            syntax: "scope [CURSOR cursor] [COUNT count]", cost: "O(n), n names of the reply",
            summary: "Returns names of processes, and the cursor of the next ones." }
        TodanaScopes { name: "todana.scopes", handler: Session(Words, name_scopes), arity: 1, keys: NO_KEYS,
            flags: READONLY | NOSCRIPT | NO_MULTI | OWN | RANDOM, group: Names, since: "0.1.0",
            syntax: "", cost: "O(n), n scopes",
            summary: "Returns the scopes of names and groups, and whether they are of the cluster or local to this node." }
        TodanaWhereIs { name: "todana.whereis", handler: Session(Words, where_is), arity: 3, keys: NO_KEYS,
            flags: READONLY | NOSCRIPT | NO_MULTI | OWN | RANDOM, group: Names, since: "0.1.0",
            syntax: "scope name", cost: "O(1)",
            summary: "Returns the process that has a name, with its token and metadata." }
    ] $($then)+ } };
}
pub(crate) use names;
