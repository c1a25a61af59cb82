//! What clients listen to: channels, and keys that they have read.

use super::TurnHost;
use crate::tracking::Tracker;
use std::sync::Arc;
use todana_command::cause::Writer;
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
        let tracker = Tracker::new(self.place, self.client.id);
        if self.commits.is_playing() {
            // Later changes may have been applied before it is registered.
            self.shared.send_invalidation(key, vec![tracker], Writer::Unknown);
        } else {
            self.shared.track(key, tracker);
        }
    }

    fn begin_script(&mut self, key: &[u8]) {
        // The log has executed it already.
        if !self.commits.is_playing() {
            let tracker = Tracker::new(self.place, self.client.id);
            let keys_max = self.shared.config.tracking_keys_max.get();
            let table = &self.shared.listeners.tracking;
            self.listening.begin_script(key, table, tracker, keys_max);
        }
    }

    fn end_script(&mut self, key: &[u8]) {
        self.listening.script_keys.remove(key);
        self.shared.track_script(key, Tracker::new(self.place, self.client.id));
    }
}
