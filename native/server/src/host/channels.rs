//! What clients listen to: channels, and keys that they have read.

use super::TurnHost;
use crate::invalidations::tracker;
use std::sync::Arc;
use todana_command::cause::Writer;
use todana_protocol::{PendingKind, Tracker};
use todana_resp::{Published, Publishing, Topic, Tracking};

impl todana_resp::Channels for TurnHost<'_> {
    fn subscriptions(&self) -> [usize; 3] {
        self.listening.subscriptions.counts()
    }

    fn announce(&mut self, topic: Topic, names: &[&[u8]]) -> bool {
        let Some(keeper) = &self.shared.config.keeper else { return true };
        if keeper.announce(topic, names) {
            return true;
        }
        let waiters = &self.shared.waiters;
        if let Some(wait) = self.wait.replace(waiters.begin_subscribing(self.place)) {
            waiters.end(wait);
        }
        // What came between the first question and the wait has woken nobody.
        keeper.announce(topic, names)
    }

    fn subscribe(&mut self, topic: Topic, name: &[u8]) {
        self.listening.subscriptions.subscribe(
            &self.shared.listeners.channels,
            (topic, name),
            self.place,
            self.client,
        );
    }

    fn unsubscribe(&mut self, topic: Topic, name: &[u8]) {
        self.listening.subscriptions.unsubscribe(
            &self.shared.listeners.channels,
            (topic, name),
            self.place,
            self.client,
        );
    }

    fn first_subscribed(&self, topic: Topic) -> Option<Arc<[u8]>> {
        self.listening.subscriptions.first(topic)
    }

    fn publish(
        &mut self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
        may_wait: bool,
    ) -> Published {
        let published = self.shared.publish(topic, channel, message, begun, may_wait);
        if matches!(published, Published::To(_))
            && let Some(keeper) = &self.shared.config.keeper
        {
            keeper.publish(topic, channel, message);
        }
        published
    }

    fn topics_after(&self, topic: Topic, after: Option<&[u8]>, count: usize) -> Vec<Arc<[u8]>> {
        self.shared.listeners.channels.after(topic, after, count)
    }

    fn topic_count(&self, topic: Topic) -> usize {
        self.shared.listeners.channels.counts()[topic as usize]
    }

    fn subscribers(&self, topic: Topic, name: &[u8]) -> usize {
        self.shared.listeners.channels.subscribers(topic, name)
    }
}

impl todana_resp::KeyTracking for TurnHost<'_> {
    fn tracking(&self) -> Option<&Tracking> {
        self.listening.tracking.as_deref()
    }

    fn set_tracking(&mut self, tracking: Option<Tracking>) -> bool {
        self.listening.set_tracking(&self.shared.listeners, self.place, self.client, tracking)
    }

    fn track(&mut self, key: &[u8]) {
        let (tracker, prefixes) = (self.tracker(), self.listening.prefixes());
        if self.commits.is_playing() {
            // Later changes may have been applied before it is registered, and a client with
            // prefixes may have learned of them.
            if prefixes.is_none_or(|prefixes| has_prefix(key, prefixes)) {
                self.shared.send_invalidation(key, vec![tracker], Writer::Unknown);
            }
        } else if prefixes.is_none() {
            self.shared.track(key, tracker);
        }
    }

    fn begin_script(&mut self, key: &[u8], is_alone: bool) {
        let kind = match is_alone {
            true => PendingKind::Script { after: self.last_ticket },
            false => PendingKind::Read,
        };
        self.begin_pending(key, kind);
    }

    fn track_away(&mut self, reads: &[&[u8]], scripts: &[&[u8]]) {
        reads.iter().for_each(|key| self.begin_pending(key, PendingKind::Read));
        scripts.iter().for_each(|key| self.begin_script(key, true));
        if self.listening.prefixes().is_none() {
            self.commits.track(&[reads, scripts].concat());
        }
    }

    fn end_pending(&mut self, key: &[u8]) {
        let tracker = self.tracker();
        self.listening.pending_keys.remove(key);
        match self.listening.prefixes() {
            None => self.shared.end_pending(key, tracker),
            // It learns of the key anyway, but may have done so before the reply.
            Some(prefixes) if has_prefix(key, prefixes) => {
                if self.shared.listeners.tracking.forget_pending(key, tracker) {
                    self.shared.send_invalidation(key, vec![tracker], Writer::Unknown);
                }
            }
            Some(_) => {}
        }
    }
}

fn has_prefix(key: &[u8], prefixes: &[Arc<[u8]>]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

impl TurnHost<'_> {
    fn tracker(&self) -> Tracker {
        tracker(self.place, self.client.id)
    }

    fn begin_pending(&mut self, key: &[u8], kind: PendingKind) {
        let prefixes = self.listening.prefixes();
        let is_wanted = prefixes.is_none_or(|prefixes| has_prefix(key, prefixes));
        // It has been executed already.
        if is_wanted && !self.commits.is_playing() {
            let (tracker, table) = (self.tracker(), &self.shared.listeners.tracking);
            let keys_max = self.shared.config.tracking_keys_max.get();
            self.listening.begin_pending(key, table, tracker, kind, keys_max);
        }
    }
}
