//! Scripts.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! scripts {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Eval { name: "eval", handler: Store(scripts::eval, false), arity: -3, keys: COUNTED,
            flags: NOSCRIPT | STALE | MOVABLE_KEYS, class: Write, group: Scripting, since: "2.6.0",
            syntax: "script numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script in Lua, which may access the given keys." }
        EvalRo { name: "eval_ro", handler: Store(scripts::eval, true), arity: -3, keys: READ_COUNTED,
            flags: READONLY | NOSCRIPT | STALE | MOVABLE_KEYS, group: Scripting, since: "7.0.0",
            syntax: "script numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script in Lua, which may read the given keys." }
        EvalSha { name: "evalsha", handler: Named(scripts::eval_named, false), arity: -3, keys: COUNTED,
            flags: NOSCRIPT | STALE | MOVABLE_KEYS, class: Write, group: Scripting, since: "2.6.0",
            syntax: "sha1 numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script that this node has run or loaded, by the SHA-1 of its source." }
        EvalShaRo { name: "evalsha_ro", handler: Named(scripts::eval_named, true), arity: -3, keys: READ_COUNTED,
            flags: READONLY | NOSCRIPT | STALE | MOVABLE_KEYS, group: Scripting, since: "7.0.0",
            syntax: "sha1 numkeys [key...] [arg...]", cost: "that of the script",
            summary: "Runs a script that this node has run or loaded, which may read the given keys." }
        Script { name: "script", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Scripting,
            since: "2.6.0", syntax: "", cost: "", summary: "Loads and forgets scripts." }
        ScriptExists { name: "script|exists", handler: Session(Words, script_exists), arity: -3, keys: NO_KEYS,
            flags: NOSCRIPT, group: Scripting, since: "2.6.0", syntax: "sha1...", cost: "O(n), n names",
            summary: "Returns whether this node knows the scripts." }
        ScriptFlush { name: "script|flush", handler: Session(Words, script_flush), arity: -2, keys: NO_KEYS,
            flags: NOSCRIPT, group: Scripting, since: "2.6.0", syntax: "[ASYNC|SYNC]", cost: "O(n), n scripts",
            summary: "Forgets all scripts that this node knows." }
        ScriptHelp { name: "script|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Scripting, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ScriptKill { name: "script|kill", handler: Session(Words, script_kill), arity: 2, keys: NO_KEYS,
            flags: NOSCRIPT | ALLOW_BUSY, group: Scripting, since: "2.6.0", syntax: "", cost: "O(1)",
            summary: "Always refused: a script ends by itself, or by its limits, before another request is read." }
        ScriptLoad { name: "script|load", handler: Session(Words, script_load), arity: 3, keys: NO_KEYS,
            flags: NOSCRIPT | STALE, group: Scripting, since: "2.6.0", syntax: "script",
            cost: "O(n), n bytes of the script", summary: "Compiles a script, keeps it on this node, and returns its SHA-1." }

        Function { name: "function", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Scripting,
            since: "7.0.0", syntax: "", cost: "", summary: "Functions, of which there are none." }
        FunctionDelete { name: "function|delete", handler: Session(Words, function_delete), arity: 3, keys: NO_KEYS,
            flags: NOSCRIPT | ALL_SHARDS | ALL_SUCCEEDED, group: Scripting, since: "7.0.0", syntax: "library-name",
            cost: "O(1)", summary: "Always an error: there is no library." }
        FunctionFlush { name: "function|flush", handler: Session(Words, function_flush), arity: -2, keys: NO_KEYS,
            flags: NOSCRIPT | ALL_SHARDS | ALL_SUCCEEDED, group: Scripting, since: "7.0.0", syntax: "[ASYNC|SYNC]",
            cost: "O(1)", summary: "Accepted without effect, because there is no function." }
        FunctionHelp { name: "function|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS,
            flags: ANYTIME, group: Scripting, since: "7.0.0", syntax: "", cost: "O(1)",
            summary: "Lists the subcommands." }
        FunctionKill { name: "function|kill", handler: Session(Words, script_kill), arity: 2, keys: NO_KEYS,
            flags: NOSCRIPT | ALLOW_BUSY, group: Scripting, since: "7.0.0", syntax: "", cost: "O(1)",
            summary: "Always refused, as SCRIPT KILL is." }
        FunctionList { name: "function|list", handler: Session(Words, function_list), arity: -2, keys: NO_KEYS,
            flags: NOSCRIPT | UNORDERED, group: Scripting, since: "7.0.0",
            syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]", cost: "O(1)", summary: "Returns an empty list." }
        FunctionStats { name: "function|stats", handler: Session(Words, function_stats), arity: 2, keys: NO_KEYS,
            flags: NOSCRIPT | ALLOW_BUSY | RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Scripting, since: "7.0.0",
            syntax: "", cost: "O(1)", summary: "Returns that no function runs, and that there is none." }
    ] $($then)+ } };
}
pub(crate) use scripts;
