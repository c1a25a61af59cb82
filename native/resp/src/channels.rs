//! Publish and subscribe: SUBSCRIBE, PUBLISH, PUBSUB and their forms for patterns and for sharded
//! channels.
//!
//! The server keeps the subscriptions and delivers messages between turns. A session asks for both,
//! and confirms subscriptions when the other nodes of the cluster know of them. A client that uses
//! RESP2 receives messages in place of replies, so it may send only a few commands while it has
//! subscriptions.

use super::call::{Call, Done};
use super::encoder::{Encoder, Failure};
use super::flow::Flow;
use super::pattern;
use super::state::{State, TopicListing, Unfinished};
use super::table::Name;
use crate::{Host, Published, Publishing, Topic};
use todana_command::Glob;

/// Names that one turn subscribes, unsubscribes or lists.
const NAMES_PER_TURN: usize = 512;
/// The pause before another attempt to publish, if subscribers have too much to take.
pub(super) const FULL_MS: u64 = 1;
/// The pause before the next question whether other nodes know of a subscription.
pub(super) const ANNOUNCING_MS: u64 = 1;

impl Name {
    /// Whether the replies are pushes, which CLIENT REPLY does not suppress.
    pub(super) fn pushes(self) -> bool {
        use Name::*;
        matches!(
            self,
            Subscribe | PSubscribe | SSubscribe | Unsubscribe | PUnsubscribe | SUnsubscribe
        )
    }

    /// Whether a RESP2 client with subscriptions may send it.
    fn is_for_subscribers(self) -> bool {
        self.pushes() || matches!(self, Name::Ping | Name::Quit | Name::Reset)
    }
}

/// Refuses commands whose replies a RESP2 client could not distinguish from messages.
#[inline]
pub(super) fn admit(state: &State, name: Name) -> Result<(), Failure> {
    if state.is_subscribed && !state.resp3 && !name.is_for_subscribers() {
        return Err(subscribers_only(name));
    }
    Ok(())
}

#[cold]
fn subscribers_only(name: Name) -> Failure {
    let allowed = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                   this context";
    format!("ERR Can't execute '{}': {allowed}", name.spec().name).into()
}

/// The words that confirm a subscription and its end.
fn words(topic: Topic) -> [&'static str; 2] {
    match topic {
        Topic::Channel => ["subscribe", "unsubscribe"],
        Topic::Pattern => ["psubscribe", "punsubscribe"],
        Topic::Shard => ["ssubscribe", "sunsubscribe"],
    }
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn subscribe(&mut self, topic: Topic) -> Done {
        let begin = match self.state.begun.take() {
            Some(Unfinished::Subscribing { at, .. }) => at,
            _ => {
                self.check_subscriptions(topic)?;
                1
            }
        };
        let end = self.arguments.len().min(begin + NAMES_PER_TURN);
        // The other nodes send what they publish after this; EXEC does not wait for them.
        let is_announced = self.host.announce(topic, &self.arguments[begin..end]);
        if !is_announced && !self.state.is_in_exec {
            self.state.begun = Some(Unfinished::Subscribing { at: begin, waits: true });
            return Ok(Flow::Continue);
        }
        for name in &self.arguments[begin..end] {
            self.host.subscribe(topic, name);
            self.state.is_subscribed = true;
            self.confirm(words(topic)[0], Some(name), topic);
        }
        if end < self.arguments.len() {
            self.state.begun = Some(Unfinished::Subscribing { at: end, waits: false });
        }
        Ok(Flow::Continue)
    }

    /// Checks all names before the first is subscribed.
    fn check_subscriptions(&self, topic: Topic) -> Result<(), Failure> {
        let names = &self.arguments[1..];
        let limits = self.host.limits();
        let present = self.host.subscriptions().iter().sum::<usize>();
        if present.saturating_add(names.len()) > limits.subscriptions_max {
            let max = limits.subscriptions_max;
            return Err(format!("ERR a client has at most {max} subscriptions").into());
        }
        names.iter().try_for_each(|name| match topic {
            Topic::Pattern => pattern::check(name),
            Topic::Channel | Topic::Shard => self.check_channel(name),
        })
    }

    fn check_channel(&self, name: &[u8]) -> Result<(), Failure> {
        let max = self.host.limits().key_bytes_max;
        if name.len() > max {
            return Err(format!("ERR channel is longer than {max} bytes").into());
        }
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, topic: Topic) -> Done {
        let word = words(topic)[1];
        let begun = match self.state.begun.take() {
            Some(Unfinished::Subscribing { at, .. }) => Some(at),
            _ => None,
        };
        if self.arguments.len() == 1 {
            if begun.is_none() && self.host.subscriptions()[topic as usize] == 0 {
                self.confirm(word, None, topic);
            }
            for _ in 0..NAMES_PER_TURN {
                let Some(name) = self.host.first_subscribed(topic) else { return self.end() };
                self.host.unsubscribe(topic, &name);
                self.confirm(word, Some(&name), topic);
            }
            self.state.begun = Some(Unfinished::Subscribing { at: 1, waits: false });
            return Ok(Flow::Continue);
        }
        let begin = begun.unwrap_or(1);
        let end = self.arguments.len().min(begin + NAMES_PER_TURN);
        for name in &self.arguments[begin..end] {
            self.host.unsubscribe(topic, name);
            self.confirm(word, Some(name), topic);
        }
        if end < self.arguments.len() {
            self.state.begun = Some(Unfinished::Subscribing { at: end, waits: false });
            return Ok(Flow::Continue);
        }
        self.end()
    }

    fn end(&mut self) -> Done {
        self.state.is_subscribed = self.host.subscriptions().iter().any(|count| *count > 0);
        Ok(Flow::Continue)
    }

    /// Confirms with the number of subscriptions that are left. Channels and patterns are counted
    /// together.
    fn confirm(&mut self, word: &str, name: Option<&[u8]>, topic: Topic) {
        let [channels, patterns, shards] = self.host.subscriptions();
        let count = if topic == Topic::Shard { shards } else { channels + patterns };
        self.encoder.push(3);
        self.encoder.text(word);
        match name {
            Some(name) => self.encoder.bulk(name),
            None => self.encoder.null(),
        }
        self.encoder.count(count as u64);
    }

    pub(super) fn publish(&mut self, topic: Topic) -> Done {
        let (channel, message) = (self.argument(1), self.argument(2));
        self.check_channel(channel)?;
        let mut begun = match self.state.begun.take() {
            Some(Unfinished::Publishing { begun, .. }) => begun,
            _ => Publishing::default(),
        };
        let may_wait = !self.state.is_in_exec;
        let is_full = match self.host.publish(topic, channel, message, &mut begun, may_wait) {
            Published::To(count) => {
                self.encoder.count(count as u64);
                return Ok(Flow::Continue);
            }
            Published::GoesOn => false,
            Published::Full => true,
        };
        self.state.begun = Some(Unfinished::Publishing { begun, is_full });
        Ok(Flow::Continue)
    }

    /// PUBSUB CHANNELS and PUBSUB SHARDCHANNELS.
    pub(super) fn topics(&mut self, topic: Topic) -> Done {
        let pattern = match self.arguments[2..] {
            [] => None,
            [pattern] => Some(pattern),
            _ => return Err(super::request::wrong_arity(self.name)),
        };
        pattern.map_or(Ok(()), pattern::check)?;
        let pattern = pattern.map(Glob::prepared);
        let mut listing = match self.state.begun.take() {
            Some(Unfinished::Topics(listing)) => listing,
            _ => TopicListing::default(),
        };
        let names = self.host.topics_after(topic, listing.after.as_deref(), NAMES_PER_TURN);
        let mut encoder = Encoder::new(&mut listing.names, false, self.encoder.bytes_max);
        for name in &names {
            if pattern.as_ref().is_none_or(|pattern| pattern.matches(name)) {
                encoder.bulk(name);
                listing.count += 1;
            }
        }
        if encoder.overflowed {
            self.encoder.overflowed = true;
        } else if names.len() == NAMES_PER_TURN {
            listing.after = names.last().cloned();
            self.state.begun = Some(Unfinished::Topics(listing));
        } else {
            self.encoder.array(listing.count);
            self.encoder.replies(&listing.names);
        }
        Ok(Flow::Continue)
    }

    /// PUBSUB NUMSUB and PUBSUB SHARDNUMSUB.
    pub(super) fn subscriber_counts(&mut self, topic: Topic) -> Done {
        let names = &self.arguments[2..];
        self.encoder.array(2 * names.len());
        for name in names {
            self.encoder.bulk(name);
            let count = self.host.subscribers(topic, name);
            self.encoder.count(count as u64);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn pattern_count(&mut self) -> Done {
        let count = self.host.topic_count(Topic::Pattern);
        self.encoder.count(count as u64);
        Ok(Flow::Continue)
    }

    /// Ends all subscriptions without a word.
    pub(super) fn end_subscriptions(&mut self) {
        for topic in Topic::ALL {
            while let Some(name) = self.host.first_subscribed(topic) {
                self.host.unsubscribe(topic, &name);
            }
        }
        self.state.is_subscribed = false;
    }
}
