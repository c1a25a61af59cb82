//! Keyspace notifications: changes of records as messages to channels (`notify-keyspace-events`).
//!
//! ```text
//! __keyspace@0__:the-key   set        with K
//! __keyevent@0__:set       the-key    with E
//! ```
//!
//! An observer of the databases ([`watching`](crate::watching)) queues each change that is wanted,
//! in the order of the changes of a key. Loop 0 publishes them. Each node of a cluster publishes
//! what it has applied to its own subscribers. A notification that finds the queue full is dropped
//! and counted.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use todana_command::cause::{self, Class};
use todana_resp::Publishing;
use todana_table::{Event, EventKind};

/// Maximum number of changes that wait.
const NOTICES_MAX: usize = 100_000;
/// Maximum bytes of their keys.
const BYTES_MAX: usize = 16 << 20;
pub(crate) const KEYSPACE: u32 = 1;
pub(crate) const KEYEVENT: u32 = 1 << 1;
const GENERIC: u32 = 1 << 2;
const STRING: u32 = 1 << 3;
const EXPIRED: u32 = 1 << 4;
const EVICTED: u32 = 1 << 5;

/// The letters of the option, in the order in which Redis returns them. Types that Todana does not
/// have are accepted.
const LETTERS: [(char, u32); 14] = [
    ('g', GENERIC),
    ('$', STRING),
    ('l', 1 << 6),
    ('s', 1 << 7),
    ('h', 1 << 8),
    ('z', 1 << 9),
    ('x', EXPIRED),
    ('e', EVICTED),
    ('t', 1 << 10),
    ('d', 1 << 11),
    ('n', 1 << 13),
    ('K', KEYSPACE),
    ('E', KEYEVENT),
    ('m', 1 << 12),
];
/// `A`: the first ten.
const ALL_COUNT: usize = 10;
/// With `A`, Redis does not return the first eleven.
const HIDDEN_COUNT: usize = 11;

fn all() -> u32 {
    LETTERS[..ALL_COUNT].iter().map(|(_, bit)| bit).sum()
}

/// The classes of a text; `None` if a letter is unknown.
pub(crate) fn parse(text: &str) -> Option<u32> {
    let bit = |letter| {
        let found = LETTERS.iter().find(|(known, _)| *known == letter);
        found.map(|(_, bit)| *bit).or_else(|| (letter == 'A').then(all))
    };
    text.chars().try_fold(0, |bits, letter| Some(bits | bit(letter)?))
}

/// The text of classes.
pub(crate) fn format(bits: u32) -> String {
    let (begin, skipped) = if bits & all() == all() { ("A", HIDDEN_COUNT) } else { ("", 0) };
    let rest = LETTERS[skipped..].iter().filter(|(_, bit)| bits & bit != 0);
    begin.chars().chain(rest.map(|(letter, _)| *letter)).collect()
}

/// A message to a channel, which is being published.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) channel: Vec<u8>,
    pub(crate) message: Vec<u8>,
    /// The patterns with which the channel was compared.
    pub(crate) begun: Publishing,
}

thread_local! {
    /// The record that the present command moves, in its new place.
    static MOVED: Cell<Option<(usize, Box<[u8]>)>> = const { Cell::new(None) };
}

/// Changes on their way to loop 0.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    classes: AtomicU32,
    /// Held while the classes change.
    changing: Mutex<()>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    notices: VecDeque<Notice>,
    bytes: usize,
    /// Loop 0 knows that there are some.
    is_known: bool,
}

/// A change.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) database: usize,
    pub(crate) name: &'static str,
    pub(crate) key: Box<[u8]>,
}

impl Notice {
    /// Its messages, in their order.
    pub(crate) fn messages(self, classes: u32) -> impl Iterator<Item = Notification> {
        let Notice { database, name, key } = self;
        let of_key = (classes & KEYSPACE != 0).then(|| {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), &key].concat();
            Notification { channel, message: name.into(), begun: Publishing::default() }
        });
        let of_event = (classes & KEYEVENT != 0).then(|| {
            let channel = format!("__keyevent@{database}__:{name}").into_bytes();
            Notification { channel, message: key.into(), begun: Publishing::default() }
        });
        of_key.into_iter().chain(of_event)
    }
}

impl Notices {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The classes that are published.
    pub(crate) fn classes(&self) -> u32 {
        self.classes.load(Relaxed)
    }

    /// Changes the classes that are published, one caller at a time. `None` leaves them; returns
    /// whether they were changed.
    pub(crate) fn change(&self, change: impl FnOnce(u32) -> Option<u32>) -> bool {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(self.classes());
        changed.inspect(|classes| self.classes.store(*classes, Relaxed)).is_some()
    }

    /// Queues a change, if it is wanted. The caller holds locks of the table. Returns whether loop
    /// 0 must learn that there is something, and how many changes were dropped.
    pub(crate) fn note(&self, database: usize, event: &Event<'_>) -> (bool, u64) {
        let classes = self.classes();
        let (mut is_first, mut dropped) = (false, 0);
        let mut add = |class: u32, (database, key): (usize, &[u8]), name| {
            if classes & class != 0 {
                match self.add(Notice { database, name, key: key.into() }) {
                    Some(was_empty) => is_first |= was_empty,
                    None => dropped += 1,
                }
            }
        };
        let (names, record) = (cause::names(), (database, event.key));
        match event.kind {
            // As in Redis, a client learns first where the record was.
            EventKind::Put if names.moves() => MOVED.set(Some((database, event.key.into()))),
            EventKind::Put => {
                for (name, class) in names.put {
                    add(if *class == Class::String { STRING } else { GENERIC }, record, name);
                }
            }
            EventKind::Delete => {
                add(GENERIC, record, names.delete);
                if let Some((database, key)) = MOVED.take().filter(|_| names.moves()) {
                    names.put.iter().for_each(|(name, _)| add(GENERIC, (database, &key), name));
                }
            }
            EventKind::Expire => add(EXPIRED, record, "expired"),
            EventKind::Evict => add(EVICTED, record, "evicted"),
            EventKind::Clear | EventKind::Swap => {}
        }
        (is_first, dropped)
    }

    /// Whether loop 0 did not know of any; `None` if there is no room.
    fn add(&self, notice: Notice) -> Option<bool> {
        let mut queue = self.queue();
        if queue.notices.len() >= NOTICES_MAX || queue.bytes + notice.key.len() > BYTES_MAX {
            return None;
        }
        queue.bytes += notice.key.len();
        queue.notices.push_back(notice);
        Some(!std::mem::replace(&mut queue.is_known, true))
    }

    /// Takes the oldest change. After `None`, loop 0 knows of none.
    pub(crate) fn take(&self) -> Option<Notice> {
        let mut queue = self.queue();
        let notice = queue.notices.pop_front();
        match &notice {
            Some(notice) => queue.bytes -= notice.key.len(),
            None => queue.is_known = false,
        }
        notice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_written_as_redis_writes_them() {
        for (text, written) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Kx$g", "g$xK"),
            ("g$lshzxetdE", "AE"),
            ("KEAm", "AKEm"),
            ("KEAn", "AKE"),
            ("KEmn$", "$nKEm"),
        ] {
            assert_eq!(parse(text).map(format).as_deref(), Some(written), "{text}");
        }
        assert_eq!(parse("Kq"), None);
    }
}
