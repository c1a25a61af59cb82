//! What a connection listens to: its subscriptions, the keys that are tracked for it, and MONITOR.

use crate::channels::{Channels, Subscriptions};
use crate::invalidations::tracker;
use crate::keeper::Keeper;
use crate::notices::Notices;
use crate::operator::Operator;
use crate::place::Place;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::cause::Writer;
use todana_group::{Following, Homes};
use todana_protocol::{Client, PendingKind, Tracker, TrackingTable, Watching};
use todana_resp::Tracking;

/// Bytes of a key of a pending request beside its own, here and in the table.
const PENDING_KEY_BYTES: usize = 256;

/// What the connections of a server listen to.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) channels: Channels,
    pub(crate) tracking: TrackingTable,
    pub(crate) notices: Notices,
    pub(crate) watching: Watching,
    pub(crate) operator: Operator,
    /// The groups of the durable databases, some of which other nodes may have.
    homes: Option<Homes>,
}

impl Listeners {
    pub(crate) fn new(
        watching: Watching,
        homes: Option<Homes>,
        keeper: Option<Arc<dyn Keeper>>,
    ) -> Listeners {
        Listeners {
            channels: Channels::new(keeper),
            tracking: TrackingTable::default(),
            notices: Notices::default(),
            watching,
            operator: Operator::default(),
            homes,
        }
    }

    /// The sources of changes at other nodes.
    pub(crate) fn each_following(&self, each: impl FnMut(&dyn Following)) {
        let groups = self.homes.iter().flat_map(Homes::groups);
        groups.filter_map(|group| group.following()).for_each(each);
    }
}

/// What a connection listens to.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) subscriptions: Subscriptions,
    pub(crate) tracking: Option<Box<Tracking>>,
    /// Keys of pending requests, if they are tracked.
    pub(crate) pending_keys: HashSet<Box<[u8]>>,
    /// Whether the client receives all commands.
    pub(crate) is_monitor: bool,
}

impl Listening {
    /// Bytes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        let prefixes = self.tracking.as_ref().map_or(0, |tracking| {
            let bytes = tracking.prefixes.iter().map(|prefix| prefix.len() + size_of::<Tracker>());
            size_of::<Tracking>() + bytes.sum::<usize>()
        });
        let keys = self.pending_keys.iter().map(|key| key.len() + PENDING_KEY_BYTES);
        let keys = keys.sum::<usize>();
        self.subscriptions.held_bytes() + prefixes + keys
    }

    /// Whether the client expects messages, however long nothing is sent.
    pub(crate) fn is_listener(&self) -> bool {
        self.is_monitor || !self.subscriptions.is_empty()
    }

    /// Whether the client can receive a message only if another one redirects it.
    pub(crate) fn is_silent(&self) -> bool {
        !self.is_listener() && self.tracking.is_none() && self.pending_keys.is_empty()
    }

    /// Sets how keys are tracked. False if the databases have too many observers.
    pub(crate) fn set_tracking(
        &mut self,
        listeners: &Listeners,
        place: Place,
        client: &Client,
        tracking: Option<Tracking>,
    ) -> bool {
        let table = &listeners.tracking;
        let tracker = tracker(place, client.id);
        let prefixes_of = |mode: Option<&Tracking>| -> Vec<Arc<[u8]>> {
            mode.map_or_else(Vec::new, |mode| mode.prefixes.clone())
        };
        let before = prefixes_of(self.tracking.as_deref());
        match (&self.tracking, &tracking) {
            (None, None) => return true,
            (None, Some(_)) => {
                table.clients.fetch_add(1, Relaxed);
                if !listeners.watching.begin() {
                    table.clients.fetch_sub(1, Relaxed);
                    return false;
                }
                listeners.each_following(|it| it.begin());
            }
            (Some(_), None) => {
                before.iter().for_each(|prefix| table.remove_prefix(prefix, tracker));
                for key in self.pending_keys.drain() {
                    table.forget_pending(&key, tracker);
                }
                listeners.each_following(|it| {
                    before.iter().for_each(|prefix| it.remove_prefix(prefix));
                    it.end();
                });
                table.clients.fetch_sub(1, Relaxed);
                listeners.watching.end();
            }
            (Some(_), Some(_)) => {}
        }
        // A client with prefixes gets more of them, or ends tracking.
        for prefix in prefixes_of(tracking.as_ref()).iter().filter(|it| !before.contains(it)) {
            table.add_prefix(prefix, tracker);
            listeners.each_following(|it| it.add_prefix(prefix));
        }
        self.tracking = tracking.map(Box::new);
        let [is_on, is_broadcast, is_broken] = &client.tracking;
        let mode = self.tracking.as_deref();
        is_on.store(mode.is_some(), Relaxed);
        is_broadcast.store(mode.is_some_and(|it| it.broadcast), Relaxed);
        is_broken.store(false, Relaxed);
        client.redirect.store(mode.map_or(0, |it| it.redirect), Relaxed);
        true
    }

    /// The prefixes of a client with a broadcast mode.
    pub(crate) fn prefixes(&self) -> Option<&[Arc<[u8]>]> {
        let tracking = self.tracking.as_ref().filter(|tracking| tracking.broadcast)?;
        Some(&tracking.prefixes)
    }

    /// A request that may read the key is about to be executed later, or elsewhere.
    pub(crate) fn begin_pending(
        &mut self,
        key: &[u8],
        table: &TrackingTable,
        tracker: Tracker,
        kind: PendingKind,
        keys_max: usize,
    ) {
        if table.begin_pending(key, tracker, kind, keys_max) {
            self.pending_keys.insert(key.into());
        }
    }

    /// Sets whether the client receives all commands.
    pub(crate) fn set_monitor(
        &mut self,
        listeners: &Listeners,
        place: Place,
        client: &Client,
        is_on: bool,
    ) {
        if self.is_monitor != is_on {
            self.is_monitor = is_on;
            client.is_monitor.store(is_on, Relaxed);
            listeners.operator.set_monitor(tracker(place, client.id), is_on);
        }
    }

    /// Whether the client wants the invalidations of a change that this writer has made, itself or
    /// another one.
    pub(crate) fn wants_invalidation(
        &self,
        is_own: impl Fn(Writer) -> bool,
        writer: Writer,
    ) -> bool {
        self.tracking.as_ref().is_some_and(|it| !(it.no_loop && is_own(writer)))
    }

    /// The client leaves. Returns its subscriptions, which are ended in slices.
    pub(crate) fn leave(
        mut self,
        listeners: &Listeners,
        place: Place,
        client: &Client,
    ) -> Subscriptions {
        self.set_tracking(listeners, place, client, None);
        self.set_monitor(listeners, place, client, false);
        self.subscriptions
    }
}
