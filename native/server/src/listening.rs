//! What a connection listens to: its subscriptions, the keys that are tracked for it, and MONITOR.

use crate::channels::{Channels, Subscriptions};
use crate::keeper::Keeper;
use crate::notices::Notices;
use crate::operator::Operator;
use crate::place::Place;
use crate::tracking::{Tracker, TrackingTable};
use crate::watching::Watching;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use todana_command::cause::Writer;
use todana_protocol::Client;
use todana_resp::Tracking;

/// Bytes of a script's key beside its own, here and in the table.
const SCRIPT_KEY_BYTES: usize = 256;

/// What the connections of a server listen to.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) channels: Channels,
    pub(crate) tracking: TrackingTable,
    pub(crate) notices: Notices,
    pub(crate) watching: Watching,
    pub(crate) operator: Operator,
}

impl Listeners {
    pub(crate) fn new(watching: Watching, keeper: Option<Arc<dyn Keeper>>) -> Listeners {
        Listeners {
            channels: Channels::new(keeper),
            tracking: TrackingTable::default(),
            notices: Notices::default(),
            watching,
            operator: Operator::default(),
        }
    }
}

/// What a connection listens to.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) subscriptions: Subscriptions,
    pub(crate) tracking: Option<Box<Tracking>>,
    /// Keys of scripts that are on their way, if they are tracked.
    pub(crate) script_keys: HashSet<Box<[u8]>>,
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
        let keys = self.script_keys.iter().map(|key| key.len() + SCRIPT_KEY_BYTES).sum::<usize>();
        self.subscriptions.held_bytes() + prefixes + keys
    }

    /// Whether the client expects messages, however long nothing is sent.
    pub(crate) fn is_listener(&self) -> bool {
        self.is_monitor || !self.subscriptions.is_empty()
    }

    /// Whether the client can receive a message only if another one redirects it.
    pub(crate) fn is_silent(&self) -> bool {
        !self.is_listener() && self.tracking.is_none() && self.script_keys.is_empty()
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
        let tracker = Tracker::new(place, client.id);
        match (&self.tracking, &tracking) {
            (None, None) => return true,
            (None, Some(_)) => {
                table.clients.fetch_add(1, Relaxed);
                if !listeners.watching.begin() {
                    table.clients.fetch_sub(1, Relaxed);
                    return false;
                }
            }
            (Some(before), None) => {
                before.prefixes.iter().for_each(|prefix| table.remove_prefix(prefix, tracker));
                self.script_keys.drain().for_each(|key| table.forget_script(&key, tracker));
                table.clients.fetch_sub(1, Relaxed);
                listeners.watching.end();
            }
            (Some(_), Some(_)) => {}
        }
        let prefixes = tracking.iter().flat_map(|tracking| &tracking.prefixes);
        prefixes.for_each(|prefix| table.add_prefix(prefix, tracker));
        self.tracking = tracking.map(Box::new);
        let [is_on, is_broadcast, is_broken] = &client.tracking;
        let mode = self.tracking.as_deref();
        is_on.store(mode.is_some(), Relaxed);
        is_broadcast.store(mode.is_some_and(|it| it.broadcast), Relaxed);
        is_broken.store(false, Relaxed);
        client.redirect.store(mode.map_or(0, |it| it.redirect), Relaxed);
        true
    }

    /// A script that may read the key is on its way.
    pub(crate) fn begin_script(
        &mut self,
        key: &[u8],
        table: &TrackingTable,
        tracker: Tracker,
        keys_max: usize,
    ) {
        if table.begin_script(key, tracker, keys_max) {
            self.script_keys.insert(key.into());
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
            listeners.operator.set_monitor(Tracker::new(place, client.id), is_on);
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
