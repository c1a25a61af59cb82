//! Commands on the server.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! server {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Info { name: "info", handler: Session(FiguresAndClients, info), arity: -1, keys: NO_KEYS,
            flags: ANYTIME | DANGEROUS | RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "1.0.0",
            syntax: "[section...]", cost: "O(1)", summary: "Returns statistics of the server by section." }
        Config { name: "config", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "2.0.0", syntax: "", cost: "", summary: "Accesses the options of the server." }
        ConfigGet { name: "config|get", handler: Session(OptionNames, config_get), arity: -3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "2.0.0", syntax: "parameter...", cost: "O(n), n patterns",
            summary: "Returns the options whose names match." }
        ConfigHelp { name: "config|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ConfigResetStat { name: "config|resetstat", handler: Session(Figures, config_reset_stat), arity: 2,
            keys: NO_KEYS, flags: OPERATE | NOSCRIPT, group: Server, since: "2.0.0", syntax: "", cost: "O(1)",
            summary: "Resets the counters to zero." }
        ConfigRewrite { name: "config|rewrite", handler: Session(Words, config_rewrite), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "2.8.0", syntax: "", cost: "O(1)",
            summary: "Refused: the server does not write the configuration file." }
        ConfigSet { name: "config|set", handler: Session(Options, config_set), arity: -4, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "2.0.0",
            syntax: "(parameter value)...", cost: "O(n), n options", summary: "Changes options of the running server." }
        Command { name: "command", handler: Session(Commands, command_info), arity: -1, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "2.8.13", syntax: "",
            cost: "O(n), n commands", summary: "Describes all commands." }
        CommandCount { name: "command|count", handler: Session(Words, command_count), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION, group: Server, since: "2.8.13", syntax: "", cost: "O(1)",
            summary: "Returns the number of commands." }
        CommandDocs { name: "command|docs", handler: Session(Commands, command_docs), arity: -2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "7.0.0", syntax: "[command-name...]",
            cost: "O(n), n commands", summary: "Returns the summary and the arguments of commands." }
        CommandGetKeys { name: "command|getkeys", handler: Session(Words, command_get_keys, false), arity: -3,
            keys: NO_KEYS, flags: ANYTIME | CONNECTION, group: Server, since: "2.8.13", syntax: "command [arg...]",
            cost: "O(n), n arguments", summary: "Returns the keys among a command's arguments." }
        CommandGetKeysAndFlags { name: "command|getkeysandflags", handler: Session(Words, command_get_keys, true),
            arity: -3, keys: NO_KEYS, flags: ANYTIME | CONNECTION, group: Server, since: "7.0.0",
            syntax: "command [arg...]", cost: "O(n), n arguments",
            summary: "Returns the keys among a command's arguments, with the accesses to each." }
        CommandHelp { name: "command|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION, group: Server, since: "5.0.0", syntax: "", cost: "O(1)",
            summary: "Lists the subcommands." }
        CommandInfo { name: "command|info", handler: Session(Commands, command_info), arity: -2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "2.8.13", syntax: "[command-name...]",
            cost: "O(n), n commands", summary: "Returns arity, flags and keys of commands." }
        CommandList { name: "command|list", handler: Session(CommandNames, command_list), arity: -2, keys: NO_KEYS,
            flags: ANYTIME | CONNECTION | UNORDERED, group: Server, since: "7.0.0",
            syntax: "[FILTERBY (MODULE module-name)|(ACLCAT category)|(PATTERN pattern)]", cost: "O(n), n commands",
            summary: "Returns the names of the commands." }
        BgRewriteAof { name: "bgrewriteaof", handler: Session(Words, background_rewrite), arity: 1, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Begins to write a snapshot of the durable records, which replaces the log before it." }
        BgSave { name: "bgsave", handler: Session(Words, background_save), arity: -1, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT, group: Server, since: "1.0.0", syntax: "[SCHEDULE]", cost: "O(1)",
            summary: "Begins to write a snapshot of the durable records." }
        LastSave { name: "lastsave", handler: Session(Words, last_save), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | FAST | RANDOM | ADMIN | DANGEROUS, group: Server, since: "1.0.0", syntax: "",
            cost: "O(1)",
            summary: "Returns the time of the last snapshot in seconds since the Unix epoch, or that of the start." }
        Save { name: "save", handler: Session(Words, save), arity: 1, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT | NO_MULTI, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Writes a snapshot of the durable records, and replies when it is on disk; others are served meanwhile." }
        Wait { name: "wait", handler: Session(Words, wait_for_replicas), arity: 3, keys: NO_KEYS,
            flags: NONE | CONNECTION, group: Server, since: "3.0.0", syntax: "numreplicas timeout", cost: "O(1)",
            summary: "Waits until this number of other nodes of the cluster have on disk what this node has, for at most these milliseconds; 0 has no end. Returns how many have it. Without a cluster, 0 when the time is over." }
        WaitAof { name: "waitaof", handler: Session(Words, wait_for_disk), arity: 4, keys: NO_KEYS,
            flags: CONNECTION | NOSCRIPT | NO_MULTI, group: Server, since: "7.2.0",
            syntax: "numlocal numreplicas timeout", cost: "O(1)",
            summary: "Replies when the writes of this connection are on disk." }
        Monitor { name: "monitor", handler: Session(Words, monitor), arity: 1, keys: NO_KEYS,
            flags: ADMIN | SESSION, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Sends this connection every command that clients of this node execute, as a line each." }
        Role { name: "role", handler: Session(Words, role), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | NOSCRIPT | FAST | ADMIN | DANGEROUS, group: Server, since: "2.8.12", syntax: "", cost: "O(n), n nodes",
            summary: "Returns the role of the node in its cluster, with the offsets of the log: master for the leader, and without a cluster." }
        Time { name: "time", handler: Session(Words, time), arity: 1, keys: NO_KEYS, flags: ANYTIME | FAST | RANDOM,
            group: Server, since: "2.6.0", syntax: "", cost: "O(1)",
            summary: "Returns the seconds since the Unix epoch, and the microseconds of this second." }
        Memory { name: "memory", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "4.0.0", syntax: "", cost: "", summary: "Reports memory usage." }
        MemoryDoctor { name: "memory|doctor", handler: Session(Figures, memory_doctor), arity: 2, keys: NO_KEYS,
            flags: RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Reports problems of memory usage." }
        MemoryHelp { name: "memory|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "4.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        MemoryStats { name: "memory|stats", handler: Session(Figures, memory_stats), arity: 2, keys: NO_KEYS,
            flags: RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Returns statistics of memory." }
        MemoryUsage { name: "memory|usage", handler: Store(keys::memory_usage), arity: -3, keys: LOOK_SECOND,
            flags: READONLY, group: Server, since: "4.0.0", syntax: "key [SAMPLES count]", cost: "O(1)",
            summary: "Returns the number of bytes of a key and its value." }
        MemoryMallocStats { name: "memory|malloc-stats", handler: Session(Words, memory_malloc_stats), arity: 2,
            keys: NO_KEYS, flags: RANDOM | ALL_SHARDS | SPECIAL_RESPONSE, group: Server, since: "4.0.0", syntax: "",
            cost: "O(1)", summary: "Returns a sentence: the allocator's statistics are not reported." }
        MemoryPurge { name: "memory|purge", handler: Session(Words, memory_purge), arity: 2, keys: NO_KEYS,
            flags: ALL_SHARDS | ALL_SUCCEEDED, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Gives free memory back to the system." }
        Module { name: "module", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "4.0.0", syntax: "", cost: "", summary: "Modules, of which there are none." }
        ModuleHelp { name: "module|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ModuleList { name: "module|list", handler: Session(Words, module_list), arity: 2, keys: NO_KEYS,
            flags: ADMIN | NOSCRIPT | RANDOM, group: Server, since: "4.0.0", syntax: "", cost: "O(1)",
            summary: "Returns an empty list." }
        Acl { name: "acl", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server, since: "6.0.0",
            syntax: "", cost: "", summary: "Users, of whom there is one." }
        AclCat { name: "acl|cat", handler: Session(CommandNames, acl_categories), arity: -2, keys: NO_KEYS,
            flags: SESSION, group: Server, since: "6.0.0", syntax: "[category]", cost: "O(n), n commands",
            summary: "Returns the categories of commands, or the commands of one." }
        AclGetUser { name: "acl|getuser", handler: Session(Words, acl_get_user), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "6.0.0", syntax: "username", cost: "O(1)",
            summary: "Describes a user." }
        AclHelp { name: "acl|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "6.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        AclList { name: "acl|list", handler: Session(Words, acl_list), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Describes the user by rules." }
        AclSetUser { name: "acl|setuser", handler: Session(Words, acl_set_user), arity: -3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "6.0.0",
            syntax: "username [rule...]", cost: "O(1)", summary: "Refused: there is only the user default." }
        AclUsers { name: "acl|users", handler: Session(Words, acl_users), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the names of the users." }
        AclWhoAmI { name: "acl|whoami", handler: Session(Words, acl_who_am_i), arity: 2, keys: NO_KEYS,
            flags: SESSION, group: Server, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the name of the connection's user." }
        Shutdown { name: "shutdown", handler: Session(Words, shutdown), arity: -1, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | NO_MULTI | ALLOW_BUSY, group: Server, since: "1.0.0",
            syntax: "[NOSAVE|SAVE] [NOW] [FORCE] [ABORT]", cost: "O(1)",
            summary: "Refused: clients may not stop the server." }
        SlowLog { name: "slowlog", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "2.2.12", syntax: "", cost: "", summary: "Accesses the slow log." }
        SlowLogGet { name: "slowlog|get", handler: Session(SlowLog, slow_log_get), arity: -2, keys: NO_KEYS,
            flags: OPERATE | ALL_NODES | RANDOM, group: Server, since: "2.2.12", syntax: "[count]",
            cost: "O(n), n entries", summary: "Returns the newest entries." }
        SlowLogHelp { name: "slowlog|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "6.2.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        SlowLogLen { name: "slowlog|len", handler: Session(Words, slow_log_len), arity: 2, keys: NO_KEYS,
            flags: OPERATE | ALL_NODES | AGG_SUM | RANDOM, group: Server, since: "2.2.12", syntax: "", cost: "O(1)",
            summary: "Returns the number of entries." }
        SlowLogReset { name: "slowlog|reset", handler: Session(Words, slow_log_reset), arity: 2, keys: NO_KEYS,
            flags: OPERATE | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "2.2.12", syntax: "",
            cost: "O(n), n entries", summary: "Removes all entries." }
        Latency { name: "latency", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Server,
            since: "2.8.13", syntax: "", cost: "", summary: "Reports latencies." }
        LatencyDoctor { name: "latency|doctor", handler: Session(Words, latency_doctor), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "", cost: "O(1)", summary: "Reports latency spikes; always none." }
        LatencyGraph { name: "latency|graph", handler: Session(Words, latency_graph), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "event", cost: "O(1)", summary: "An error: there are no samples of any event." }
        LatencyHelp { name: "latency|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Server, since: "2.8.13", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        LatencyHistogram { name: "latency|histogram", handler: Session(Commands, latency_histogram), arity: -2,
            keys: NO_KEYS, flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server,
            since: "7.0.0", syntax: "[command...]", cost: "O(n), n commands", summary: "Returns the calls of commands by latency." }
        LatencyHistory { name: "latency|history", handler: Session(Words, latency_history), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "event", cost: "O(1)", summary: "Returns the spikes of an event; always none." }
        LatencyLatest { name: "latency|latest", handler: Session(Words, latency_latest), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM | ALL_NODES | SPECIAL_RESPONSE, group: Server, since: "2.8.13",
            syntax: "", cost: "O(1)", summary: "Returns the latest spike of each event; always none." }
        LatencyReset { name: "latency|reset", handler: Session(Words, latency_reset), arity: -2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | ALL_NODES | ALL_SUCCEEDED, group: Server, since: "2.8.13", syntax: "[event...]",
            cost: "O(1)", summary: "Removes the recorded spikes." }
        Debug { name: "debug", handler: Container, arity: -2, keys: NO_KEYS, flags: ADMIN | SESSION, group: Server,
            since: "1.0.0", syntax: "", cost: "", summary: "For tests." }
        DebugHelp { name: "debug|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "1.0.0", syntax: "", cost: "O(1)",
            summary: "Lists the subcommands." }
        DebugObject { name: "debug|object", handler: Store(keys::debug), arity: 3, keys: LOOK_SECOND,
            flags: READONLY | ADMIN | LOADING | STALE | NOSCRIPT, group: Server, since: "1.0.0", syntax: "key",
            cost: "O(1)", summary: "Describes the value of a key." }
        DebugSetActiveExpire { name: "debug|set-active-expire", handler: Session(Words, nothing), arity: 3,
            keys: NO_KEYS, flags: OPERATE | NOSCRIPT, group: Server, since: "3.0.0", syntax: "0|1", cost: "O(1)",
            summary: "Accepted without effect." }
        DebugSleep { name: "debug|sleep", handler: Session(Words, debug_sleep), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Server, since: "1.0.0", syntax: "seconds", cost: "O(1)",
            summary: "Replies after the given time in seconds; other connections are served meanwhile." }
        LolWut { name: "lolwut", handler: Session(Figures, lolwut), arity: -1, keys: NO_KEYS, flags: READONLY | FAST, class: Local,
            group: Server, since: "5.0.0", syntax: "[VERSION version]", cost: "O(1)",
            summary: "Returns a drawing and the version." }
    ] $($then)+ } };
}
pub(crate) use server;
