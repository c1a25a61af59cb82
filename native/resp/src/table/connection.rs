//! Commands on the connection.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! connection {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Hello { name: "hello", handler: Session(Words, hello), arity: -1, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY, group: Connection, since: "6.0.0",
            syntax: "[protover [AUTH username password] [SETNAME clientname]]", cost: "O(1)",
            summary: "Selects the protocol version, and returns properties of the server." }
        Auth { name: "auth", handler: Session(Words, auth), arity: -2, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY, group: Connection, since: "1.0.0",
            syntax: "[username] password", cost: "O(1)", summary: "Authenticates the connection." }
        Ping { name: "ping", handler: Session(Words, ping), arity: -1, keys: NO_KEYS,
            flags: FAST | ALL_SHARDS | ALL_SUCCEEDED, group: Connection, since: "1.0.0", syntax: "[message]",
            cost: "O(1)", summary: "Returns PONG, or the message." }
        Echo { name: "echo", handler: Session(Words, echo), arity: 2, keys: NO_KEYS, flags: ANYTIME | FAST,
            group: Connection, since: "1.0.0", syntax: "message", cost: "O(1)", summary: "Returns the message." }
        Select { name: "select", handler: Session(Words, select), arity: 2, keys: NO_KEYS, flags: ANYTIME | FAST,
            group: Connection, since: "1.0.0", syntax: "index", cost: "O(1)", summary: "Selects a database, 0 to 15." }
        Quit { name: "quit", handler: Session(Words, quit), arity: -1, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY | DEPRECATED | IMMEDIATE, group: Connection, since: "1.0.0",
            syntax: "", cost: "O(1)", summary: "Closes the connection." }
        Reset { name: "reset", handler: Session(Words, reset), arity: 1, keys: NO_KEYS,
            flags: SESSION | FAST | NO_AUTH | ALLOW_BUSY | IMMEDIATE, group: Connection, since: "6.2.0", syntax: "",
            cost: "O(1)", summary: "Resets the connection to its initial state." }
        ReadOnly { name: "readonly", handler: Session(Words, read_at, Some(ReadLevel::Local)), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | FAST, group: Connection, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "This connection reads the records as this node has them: TODANA.READ local." }
        ReadWrite { name: "readwrite", handler: Session(Words, read_at, None), arity: 1, keys: NO_KEYS,
            flags: ANYTIME | FAST, group: Connection, since: "3.0.0", syntax: "", cost: "O(1)",
            summary: "This connection reads at the level of the option read_level again." }
        TodanaRead { name: "todana.read", handler: Session(Words, read_level), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | FAST | OWN, group: Connection, since: "0.1.0", syntax: "local|bounded|linear", cost: "O(1)",
            summary: "Sets how new the records must be that this connection reads, if the node belongs to a cluster." }
        TodanaIndex { name: "todana.index", handler: Session(Words, log_index), arity: 1, keys: NO_KEYS,
            flags: FAST | OWN, group: Connection, since: "0.1.0", syntax: "", cost: "O(1)",
            summary: "Returns the number of the last entry of the log that this node has applied. Writes that were answered before are in it." }
        TodanaAfter { name: "todana.after", handler: Session(Words, read_after), arity: -2, keys: NO_KEYS,
            flags: FAST | OWN, group: Connection, since: "0.1.0", syntax: "index [milliseconds]", cost: "O(1)",
            summary: "Waits until this node has applied an entry of the log, for at most 5000 milliseconds or those given." }
        Client { name: "client", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: Connection,
            since: "2.4.0", syntax: "", cost: "", summary: "Connections." }
        ClientCaching { name: "client|caching", handler: Session(Words, client_caching), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "6.0.0", syntax: "YES|NO", cost: "O(1)",
            summary: "Tracks the keys of the next command or transaction, or does not (CLIENT TRACKING with OPTIN or OPTOUT)." }
        ClientGetName { name: "client|getname", handler: Session(Words, client_get_name), arity: 2, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "2.6.9", syntax: "", cost: "O(1)",
            summary: "Returns the connection's name." }
        ClientGetRedir { name: "client|getredir", handler: Session(Words, client_get_redirect), arity: 2, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "6.0.0", syntax: "", cost: "O(1)",
            summary: "Returns the client that receives the invalidations of this one: 0 if it receives them itself, -1 without tracking." }
        ClientHelp { name: "client|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: Connection, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        ClientId { name: "client|id", handler: Session(Words, client_id), arity: 2, keys: NO_KEYS, flags: SESSION,
            group: Connection, since: "5.0.0", syntax: "", cost: "O(1)", summary: "Returns the connection's number." }
        ClientInfo { name: "client|info", handler: Session(Words, client_info), arity: 2, keys: NO_KEYS,
            flags: SESSION | RANDOM, group: Connection, since: "6.2.0", syntax: "", cost: "O(1)",
            summary: "Returns the connection's line of CLIENT LIST." }
        ClientKill { name: "client|kill", handler: Session(Clients, client_kill), arity: -3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Connection, since: "2.4.0",
            syntax: "old-format|([ID client-id] [TYPE normal|master|replica|pubsub] [USER username] [ADDR addr] [LADDR addr] [SKIPME yes|no] [MAXAGE maxage])",
            cost: "O(n), n connections", summary: "Closes connections." }
        ClientList { name: "client|list", handler: Session(ClientLines, client_list), arity: -2, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT | RANDOM, group: Connection, since: "2.4.0",
            syntax: "[TYPE normal|master|replica|pubsub] [ID client-id...]", cost: "O(n), n connections",
            summary: "Lists connections." }
        ClientNoEvict { name: "client|no-evict", handler: Session(Words, client_no_evict), arity: 3, keys: NO_KEYS,
            flags: OPERATE | NOSCRIPT, group: Connection, since: "7.0.0", syntax: "ON|OFF", cost: "O(1)",
            summary: "Makes the server close this client last if all clients together hold too much memory." }
        ClientNoTouch { name: "client|no-touch", handler: Session(Words, client_no_touch), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "7.2.0", syntax: "ON|OFF", cost: "O(1)",
            summary: "Accepted without effect, because accesses are not recorded." }
        ClientPause { name: "client|pause", handler: Session(Words, client_pause), arity: -3, keys: NO_KEYS,
            flags: ADMIN | SESSION, group: Connection, since: "3.0.0", syntax: "timeout [WRITE|ALL]", cost: "O(1)",
            summary: "Delays the requests of all clients, or only those that may write, for this number of milliseconds." }
        ClientReply { name: "client|reply", handler: Session(Words, client_reply), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "3.2.0", syntax: "ON|OFF|SKIP", cost: "O(1)",
            summary: "Switches replies on, off, or off for the next command." }
        ClientSetInfo { name: "client|setinfo", handler: Session(Words, client_set_info), arity: 4, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "7.2.0", syntax: "(LIB-NAME libname)|(LIB-VER libver)",
            cost: "O(1)", summary: "Sets the name or version of the client library." }
        ClientSetName { name: "client|setname", handler: Session(Words, client_set_name), arity: 3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "2.6.9", syntax: "connection-name", cost: "O(1)",
            summary: "Sets the connection's name." }
        ClientTracking { name: "client|tracking", handler: Session(Words, client_tracking), arity: -3, keys: NO_KEYS,
            flags: SESSION, group: Connection, since: "6.0.0",
            syntax: "ON|OFF [REDIRECT client-id] [PREFIX prefix...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]", cost: "O(1)",
            summary: "Sends this client an invalidation when a key changes that it has read." }
        ClientTrackingInfo { name: "client|trackinginfo", handler: Session(Words, client_tracking_info), arity: 2,
            keys: NO_KEYS, flags: SESSION, group: Connection, since: "6.2.0", syntax: "", cost: "O(1)",
            summary: "Returns the mode of CLIENT TRACKING." }
        ClientUnpause { name: "client|unpause", handler: Session(Words, client_unpause), arity: 2, keys: NO_KEYS,
            flags: ADMIN | SESSION, group: Connection, since: "6.2.0", syntax: "", cost: "O(1)",
            summary: "Ends CLIENT PAUSE." }
    ] $($then)+ } };
}
pub(crate) use connection;
