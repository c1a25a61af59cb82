//! Which messages of a bundle the other nodes of a cluster want, by what they have announced
//! ([`interest`](crate::interest)).
//!
//! A node that has announced nothing gets everything: it may be one of an earlier version, or its
//! announcement is on its way.

use crate::interest::{Item, channel_hash, decode};
use crate::spread::{message_bytes, spread_messages};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};
use todana_command::Glob;
use todana_resp::Topic;

/// Steps of comparisons with patterns for one bundle: some ten milliseconds. After these, each
/// message counts as one that matches.
const STEPS_MAX: usize = 10_000_000;

/// What the other nodes have announced.
#[derive(Debug)]
pub struct Announced<N>(RwLock<HashMap<N, Wanted>>);

/// What a node wants.
#[derive(Debug, Default)]
struct Wanted {
    /// That of its last announcement.
    number: u64,
    channels: HashSet<u64>,
    patterns: HashMap<Arc<[u8]>, Glob>,
    is_everything: bool,
    is_guest: bool,
}

/// What a node gets of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Nothing.
    Nothing,
    /// All of it.
    Everything,
    /// The same as an earlier one of the nodes, whose number this is.
    Same(usize),
    /// These messages, as a bundle.
    Some(Vec<u8>),
}

/// A change of what a node wants: an item, and whether it wants it.
pub type Change = (Item, bool);

impl<N: Hash + Eq + Copy> Announced<N> {
    /// Nothing has been announced.
    pub fn new() -> Announced<N> {
        Announced(RwLock::new(HashMap::new()))
    }

    /// A node has announced something. Returns the changes, if it is a guest, whose items this node
    /// holds. `None` if an announcement before this one is missing, or if it is not well formed:
    /// then the node is to be forgotten until it announces everything.
    pub fn note(
        &self,
        node: N,
        is_guest: bool,
        number: u64,
        is_full: bool,
        announcement: &[u8],
    ) -> Option<Vec<Change>> {
        let mut nodes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        let items = decode(announcement)?;
        if is_full {
            let before = nodes.insert(node, Wanted { is_guest, ..Wanted::default() });
            changes = before.map_or_else(Vec::new, Wanted::end);
        } else if nodes.get(&node)?.number + 1 != number {
            return None;
        }
        let wanted = nodes.get_mut(&node)?;
        wanted.number = number;
        let noted = items.into_iter().filter(|change| wanted.note(change) && is_guest);
        changes.extend(noted);
        Some(changes)
    }

    /// Nothing is known of a node any more. Returns the changes, if it was a guest.
    pub fn forget(&self, node: N) -> Vec<Change> {
        let mut nodes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        nodes.remove(&node).map_or_else(Vec::new, Wanted::end)
    }

    /// Nothing is known of any node any more.
    pub fn forget_all(&self) -> Vec<Change> {
        let mut nodes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        nodes.drain().flat_map(|(_, wanted)| wanted.end()).collect()
    }

    /// Selects what each of these nodes gets of a bundle.
    pub fn select(&self, bundle: &[u8], nodes: &[N]) -> Vec<Selection> {
        let announced = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let hash = |topic, channel| match topic {
            Topic::Channel | Topic::Shard => channel_hash(topic, channel),
            Topic::Pattern => 0,
        };
        let messages: Vec<Message<'_>> = spread_messages(bundle)
            .map(|(topic, channel, message)| Message {
                topic,
                channel,
                hash: hash(topic, channel),
                bytes: message_bytes(channel, message),
            })
            .collect();
        let mut steps = 0;
        let mut chosen: Vec<Vec<bool>> = Vec::with_capacity(nodes.len());
        let mut selections = Vec::with_capacity(nodes.len());
        for node in nodes {
            let wants: Vec<bool> = match announced.get(node) {
                Some(wanted) if !wanted.is_everything => {
                    messages.iter().map(|message| wanted.wants(message, &mut steps)).collect()
                }
                _ => vec![true; messages.len()],
            };
            selections.push(if !wants.contains(&true) {
                Selection::Nothing
            } else if !wants.contains(&false) {
                Selection::Everything
            } else if let Some(same) = chosen.iter().position(|others| *others == wants) {
                Selection::Same(same)
            } else {
                Selection::Some(picked(bundle, &messages, &wants))
            });
            chosen.push(wants);
        }
        selections
    }
}

impl<N: Hash + Eq + Copy> Default for Announced<N> {
    fn default() -> Announced<N> {
        Announced::new()
    }
}

struct Message<'a> {
    topic: Topic,
    channel: &'a [u8],
    hash: u64,
    /// Its length in the bundle.
    bytes: usize,
}

/// The messages that a node wants, one after another.
fn picked(bundle: &[u8], messages: &[Message<'_>], wants: &[bool]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    for (message, is_wanted) in messages.iter().zip(wants) {
        let end = at + message.bytes;
        if *is_wanted {
            out.extend_from_slice(&bundle[at..end]);
        }
        at = end;
    }
    out
}

impl Wanted {
    /// Returns whether something has changed.
    fn note(&mut self, (item, is_wanted): &Change) -> bool {
        match (item, is_wanted) {
            (Item::Channel(hash), true) => self.channels.insert(*hash),
            (Item::Channel(hash), false) => self.channels.remove(hash),
            (Item::Pattern(pattern), true) => {
                let glob = || Glob::new(pattern.clone());
                let is_new = !self.patterns.contains_key(pattern);
                self.patterns.entry(pattern.clone()).or_insert_with(glob);
                is_new
            }
            (Item::Pattern(pattern), false) => self.patterns.remove(pattern).is_some(),
            (Item::Everything, _) => {
                std::mem::replace(&mut self.is_everything, *is_wanted) != *is_wanted
            }
        }
    }

    fn wants(&self, message: &Message<'_>, steps: &mut usize) -> bool {
        if self.channels.contains(&message.hash) {
            return true;
        }
        message.topic == Topic::Channel
            && self.patterns.values().any(|glob| {
                *steps = steps.saturating_add(glob.steps(message.channel.len()));
                *steps > STEPS_MAX || glob.matches(message.channel)
            })
    }

    /// All that a guest wants is wanted no more.
    fn end(self) -> Vec<Change> {
        if !self.is_guest {
            return Vec::new();
        }
        let everything = self.is_everything.then_some(Item::Everything);
        let channels = self.channels.into_iter().map(Item::Channel);
        let patterns = self.patterns.into_keys().map(Item::Pattern);
        channels.chain(patterns).chain(everything).map(|item| (item, false)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interest::Interest;
    use crate::spread::SpreadQueue;

    fn bundle(messages: &[(Topic, &[u8])]) -> Vec<u8> {
        let queue = SpreadQueue::new();
        queue.attach();
        for (topic, channel) in messages {
            queue.publish(*topic, channel, b"text");
        }
        queue.take().expect("messages")
    }

    fn channels_of(bundle: &[u8]) -> Vec<&[u8]> {
        spread_messages(bundle).map(|(_, channel, _)| channel).collect()
    }

    /// Announces what a node wants.
    fn announce(announced: &Announced<u8>, node: u8, names: &[(Topic, &[u8])]) {
        let interest = Interest::new();
        interest.attach();
        for (topic, name) in names {
            interest.hold(Item::of(*topic, name), 0);
        }
        let full = interest.full();
        assert!(announced.note(node, false, full.number, true, &full.items).is_some());
    }

    #[test]
    fn a_node_gets_what_it_wants_and_one_that_is_not_known_everything() {
        let announced = Announced::new();
        announce(&announced, 1, &[(Topic::Channel, b"news")]);
        announce(&announced, 2, &[(Topic::Pattern, b"c*")]);
        announce(&announced, 3, &[(Topic::Shard, b"news"), (Topic::Channel, b"none")]);
        announce(&announced, 4, &[]);
        announce(&announced, 5, &[(Topic::Pattern, b"cars"), (Topic::Channel, b"cats")]);
        let (channel, shard) = (Topic::Channel, Topic::Shard);
        let bundle = bundle(&[
            (channel, b"news"),
            (channel, b"cars"),
            (shard, b"news"),
            (channel, b"cats"),
            (shard, b"cars"),
        ]);
        let selected = announced.select(&bundle, &[1, 2, 3, 4, 5, 6]);
        let some = |number: usize| match &selected[number] {
            Selection::Some(bundle) => channels_of(bundle),
            other => panic!("{other:?}"),
        };
        assert_eq!(some(0), [b"news"]);
        assert_eq!(some(1), [b"cars", b"cats"]);
        assert_eq!(some(2), [b"news"]);
        assert_eq!(selected[3], Selection::Nothing);
        assert_eq!(selected[4], Selection::Same(1));
        assert_eq!(selected[5], Selection::Everything);
        announced.forget(4);
        assert_eq!(announced.select(&bundle, &[4]), [Selection::Everything]);
    }

    #[test]
    fn announcements_are_changes_of_the_one_before() {
        let announced = Announced::new();
        let interest = Interest::new();
        interest.attach();
        interest.hold(Item::Channel(1), 0);
        let first = interest.take(0).expect("an announcement");
        let note = |number, is_full, items: &[u8]| announced.note(1, true, number, is_full, items);
        let one = |is_wanted| vec![(Item::Channel(1), is_wanted)];
        assert_eq!(note(1, false, &first.items), None, "the full one is missing");
        assert_eq!(note(1, true, &first.items), Some(one(true)));
        interest.hold(Item::Channel(2), 0);
        let second = interest.take(0).expect("an announcement");
        assert_eq!(note(2, false, &second.items), Some(vec![(Item::Channel(2), true)]));
        assert_eq!(note(3, false, &second.items), Some(vec![]), "nothing has changed");
        assert_eq!(note(5, false, &second.items), None, "one is missing");
        assert_eq!(note(4, false, b"\x07"), None, "it is not well formed");
        let both = [one(false), one(true)].concat();
        assert_eq!(note(9, true, &first.items).map(|changes| changes.len()), Some(3));
        assert_eq!(note(9, true, &first.items), Some(both), "the same again");
        assert_eq!(announced.forget(1), one(false));
        let bundle = bundle(&[(Topic::Channel, b"news")]);
        assert_eq!(announced.select(&bundle, &[1]), [Selection::Everything]);
    }

    #[test]
    fn patterns_that_cost_too_much_count_as_matches() {
        let announced = Announced::new();
        let patterns: Vec<_> = (0..200).map(|number| format!("*a{number}*c")).collect();
        let names: Vec<_> = patterns.iter().map(|it| (Topic::Pattern, it.as_bytes())).collect();
        announce(&announced, 1, &names);
        let long = vec![b'b'; 1 << 16];
        let bundle = bundle(&[(Topic::Channel, b"b"), (Topic::Channel, &long)]);
        let [Selection::Some(some)] = &announced.select(&bundle, &[1])[..] else {
            panic!("one of two")
        };
        assert_eq!(channels_of(some), [&long[..]]);
    }
}
