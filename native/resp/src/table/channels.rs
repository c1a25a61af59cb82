//! Publishing and subscribing.

/// Passes these rows, after others, on to the next macro.
#[rustfmt::skip]
macro_rules! channels {
    ([$($before:tt)*] $($then:ident)+) => { $crate::table::chain! { [ $($before)*
        Subscribe { name: "subscribe", handler: Session(Words, subscribe, Topic::Channel), arity: -2, keys: NO_KEYS,
            flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "channel...", cost: "O(n), n channels",
            summary: "Subscribes to channels." }
        PSubscribe { name: "psubscribe", handler: Session(Words, subscribe, Topic::Pattern), arity: -2, keys: NO_KEYS,
            flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "pattern...", cost: "O(n), n patterns",
            summary: "Subscribes to all channels whose names match patterns." }
        SSubscribe { name: "ssubscribe", handler: Session(Words, subscribe, Topic::Shard), arity: -2, keys: NO_KEYS,
            flags: SESSION | PUBSUB, group: PubSub, since: "7.0.0", syntax: "shardchannel...", cost: "O(n), n channels",
            summary: "Subscribes to sharded channels." }
        Unsubscribe { name: "unsubscribe", handler: Session(Words, unsubscribe, Topic::Channel), arity: -1,
            keys: NO_KEYS, flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "[channel...]",
            cost: "O(n), n channels", summary: "Ends the subscriptions to channels, or to all." }
        PUnsubscribe { name: "punsubscribe", handler: Session(Words, unsubscribe, Topic::Pattern), arity: -1,
            keys: NO_KEYS, flags: SESSION | PUBSUB, group: PubSub, since: "2.0.0", syntax: "[pattern...]",
            cost: "O(n), n patterns", summary: "Ends the subscriptions to patterns, or to all." }
        SUnsubscribe { name: "sunsubscribe", handler: Session(Words, unsubscribe, Topic::Shard), arity: -1,
            keys: NO_KEYS, flags: SESSION | PUBSUB, group: PubSub, since: "7.0.0", syntax: "[shardchannel...]",
            cost: "O(n), n channels", summary: "Ends the subscriptions to sharded channels, or to all." }
        Publish { name: "publish", handler: Session(Publish, publish, Topic::Channel), arity: 3, keys: NO_KEYS,
            flags: ANYTIME | FAST | PUBSUB, group: PubSub, since: "2.0.0", syntax: "channel message",
            cost: "O(n+m), n subscribers of the channel, m patterns",
            summary: "Sends a message to the subscribers of a channel, on all nodes of the cluster; returns the number of those on this node." }
        SPublish { name: "spublish", handler: Session(Publish, publish, Topic::Shard), arity: 3, keys: NO_KEYS,
            flags: ANYTIME | FAST | PUBSUB, group: PubSub, since: "7.0.0", syntax: "shardchannel message",
            cost: "O(n), n subscribers of the channel",
            summary: "Sends a message to the subscribers of a sharded channel, on all nodes of the cluster." }
        PubSub { name: "pubsub", handler: Container, arity: -2, keys: NO_KEYS, flags: NONE, group: PubSub,
            since: "2.8.0", syntax: "", cost: "", summary: "Describes the channels of this node." }
        PubSubChannels { name: "pubsub|channels", handler: Session(Topics, topics, Topic::Channel), arity: -2,
            keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "2.8.0", syntax: "[pattern]",
            cost: "O(n), n channels", summary: "Returns the channels that have subscribers." }
        PubSubHelp { name: "pubsub|help", handler: Session(NameTable, help), arity: 2, keys: NO_KEYS, flags: ANYTIME,
            group: PubSub, since: "6.2.0", syntax: "", cost: "O(1)", summary: "Lists the subcommands." }
        PubSubNumPat { name: "pubsub|numpat", handler: Session(Words, pattern_count), arity: 2, keys: NO_KEYS,
            flags: ANYTIME | PUBSUB, group: PubSub, since: "2.8.0", syntax: "", cost: "O(1)",
            summary: "Returns the number of different patterns." }
        PubSubNumSub { name: "pubsub|numsub", handler: Session(Words, subscriber_counts, Topic::Channel), arity: -2,
            keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "2.8.0", syntax: "[channel...]",
            cost: "O(n), n channels", summary: "Returns the numbers of subscribers of channels." }
        PubSubShardChannels { name: "pubsub|shardchannels", handler: Session(Topics, topics, Topic::Shard), arity: -2,
            keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "7.0.0", syntax: "[pattern]",
            cost: "O(n), n channels", summary: "Returns the sharded channels that have subscribers." }
        PubSubShardNumSub { name: "pubsub|shardnumsub", handler: Session(Words, subscriber_counts, Topic::Shard),
            arity: -2, keys: NO_KEYS, flags: ANYTIME | PUBSUB, group: PubSub, since: "7.0.0",
            syntax: "[shardchannel...]", cost: "O(n), n channels",
            summary: "Returns the numbers of subscribers of sharded channels." }
    ] $($then)+ } };
}
pub(crate) use channels;
