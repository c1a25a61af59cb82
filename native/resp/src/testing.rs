//! A host of RESP without a server: see [`FakeHost`](todana_protocol::testing::FakeHost).

use super::{
    Answer, Asked, COMMANDS, Channels, Cluster, CommandNames, Configuration, ErrorCounts, Hold,
    KeyTracking, Operator, Page, Published, Publishing, Question, Questions, SlowLog, Topic,
    Topology, Tracking, interpreter,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use todana_command::Databases;
use todana_protocol::testing::Part;
use todana_protocol::{ProtocolName, SlowEntry};

/// A host of RESP.
pub type FakeHost = todana_protocol::testing::FakeHost<RespPart>;

/// What only RESP needs of its host.
#[derive(Debug, Default)]
pub struct RespPart {
    /// The cluster, if the node belongs to one.
    pub topology: Option<Arc<Topology>>,
    /// Codes of the errors that the session has sent.
    pub error_codes: Vec<usize>,
    /// The subscriptions of the client, by topic.
    pub subscribed: [BTreeSet<Arc<[u8]>>; 3],
    /// What the session has published.
    pub published: Vec<(Topic, Vec<u8>, Vec<u8>)>,
    /// The mode in which keys are tracked.
    pub tracking: Option<Tracking>,
    /// How requests are held back.
    pub hold: Mutex<Option<Hold>>,
    /// The lines of MONITOR, if there is a client that receives them.
    pub monitored: Option<Mutex<Vec<String>>>,
    /// The keys that were registered, in order.
    pub tracked: Vec<Vec<u8>>,
    /// How often a message is refused for now before it is published.
    pub refusals: usize,
    /// The answers to questions, of which each comes when it is looked for the second time.
    pub answers: BTreeMap<String, Answer>,
    /// Whether as many questions wait for answers as may.
    pub is_full_of_questions: bool,
    /// The present question, and how often its answer was looked for.
    pub question: Option<(String, usize)>,
    /// How often a client has to wait before all nodes know to what it subscribes.
    pub announcing: usize,
    /// How many names the session has announced, each as often as it has.
    pub announced: usize,
    /// Options.
    pub options: Mutex<Vec<(String, String)>>,
}

impl Part for RespPart {
    fn prepare(databases: &Databases) {
        databases.set_interpreter(interpreter());
    }
}

impl Channels for FakeHost {
    fn subscriptions(&self) -> [usize; 3] {
        Topic::ALL.map(|topic| self.part.subscribed[topic as usize].len())
    }
    fn announce(&mut self, _topic: Topic, names: &[&[u8]]) -> bool {
        let left = self.part.announcing;
        self.part.announcing = left.saturating_sub(1);
        self.part.announced += names.len();
        left == 0
    }
    fn subscribe(&mut self, topic: Topic, name: &[u8]) {
        self.part.subscribed[topic as usize].insert(name.into());
    }
    fn unsubscribe(&mut self, topic: Topic, name: &[u8]) {
        self.part.subscribed[topic as usize].remove(name);
    }
    fn first_subscribed(&self, topic: Topic) -> Option<Arc<[u8]>> {
        self.part.subscribed[topic as usize].first().cloned()
    }
    fn publish(
        &mut self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
        may_wait: bool,
    ) -> Published {
        if self.part.refusals > 0 && may_wait {
            self.part.refusals -= 1;
            return Published::Full;
        }
        // Each message takes a second turn.
        if begun.after.replace(Arc::from(channel)).is_none() {
            return Published::GoesOn;
        }
        self.part.published.push((topic, channel.to_vec(), message.to_vec()));
        Published::To(self.subscribers(topic, channel))
    }
    fn topics_after(&self, topic: Topic, after: Option<&[u8]>, count: usize) -> Vec<Arc<[u8]>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.part.subscribed[topic as usize].range::<[u8], _>((from, Bound::Unbounded));
        names.take(count).cloned().collect()
    }
    fn topic_count(&self, topic: Topic) -> usize {
        self.part.subscribed[topic as usize].len()
    }
    fn subscribers(&self, topic: Topic, name: &[u8]) -> usize {
        usize::from(self.part.subscribed[topic as usize].contains(name))
    }
}

impl KeyTracking for FakeHost {
    fn tracking(&self) -> Option<&Tracking> {
        self.part.tracking.as_ref()
    }
    fn set_tracking(&mut self, tracking: Option<Tracking>) -> bool {
        self.part.tracking = tracking;
        true
    }
    fn track(&mut self, key: &[u8]) {
        if self.part.tracking.as_ref().is_some_and(|it| !it.broadcast) {
            self.part.tracked.push(key.to_vec());
        }
    }
    fn begin_script(&mut self, key: &[u8], is_alone: bool) {
        if !is_alone {
            self.part.tracked.push(key.to_vec());
        }
    }
    fn track_away(&mut self, reads: &[&[u8]], scripts: &[&[u8]]) {
        if !self.commits.is_playing() {
            self.part.tracked.extend(reads.iter().map(|key| key.to_vec()));
        }
        self.commits.track(&[reads, scripts].concat());
    }
    fn end_pending(&mut self, _key: &[u8]) {}
}

impl Operator for FakeHost {
    fn held_until_ms(&self, may_write: bool) -> Option<u64> {
        let hold = (*self.part.hold.lock().unwrap())?;
        let holds = self.now_ms < hold.until_ms && (may_write || !hold.writes_only);
        holds.then_some(hold.until_ms)
    }
    fn hold_clients(&self, hold: Option<Hold>) {
        *self.part.hold.lock().unwrap() = hold;
    }
    fn is_monitored(&self) -> bool {
        self.part.monitored.is_some()
    }
    fn monitor(&self, line: Vec<u8>) {
        if let Some(lines) = &self.part.monitored {
            lines.lock().unwrap().push(String::from_utf8(line).unwrap());
        }
    }
    fn set_monitor(&mut self, is_on: bool) {
        self.part.monitored = is_on.then(Mutex::default);
    }
}

impl Questions for FakeHost {
    fn ask(&mut self, question: &Question<'_>) -> Asked {
        if self.part.question.is_some() {
            return Asked::Yes;
        }
        if self.part.is_full_of_questions {
            return Asked::TooMany;
        }
        let bytes = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let page = |page: &Page<'_>| format!("{} from {}", page.count, bytes(page.cursor));
        let text = match question {
            Question::Scopes => "scopes".into(),
            Question::WhereIs { scope, name } => format!("{} {}", bytes(scope), bytes(name)),
            Question::Names { scope, page: of } => format!("{} names {}", bytes(scope), page(of)),
            Question::Groups { scope, page: of } => format!("{} groups {}", bytes(scope), page(of)),
            Question::Members { scope, group, page: of } => {
                format!("{} {} {}", bytes(scope), bytes(group), page(of))
            }
        };
        if self.part.answers.is_empty() {
            return Asked::InVain;
        }
        self.part.question = Some((text, 0));
        Asked::Yes
    }
    fn take_answer(&mut self) -> Option<Answer> {
        let (text, looks) = self.part.question.as_mut()?;
        *looks += 1;
        let answer = self.part.answers.get(text).filter(|_| *looks > 1)?.clone();
        self.part.question = None;
        Some(answer)
    }
    fn forget_question(&mut self) {
        self.part.question = None;
    }
}

impl Cluster for FakeHost {
    fn topology(&self) -> Option<Arc<Topology>> {
        self.part.topology.clone()
    }
    fn is_led_elsewhere(&self) -> bool {
        self.part.topology.as_ref().is_some_and(|topology| topology.is_led_elsewhere())
    }
}

impl Configuration for FakeHost {
    fn options(&self) -> Vec<(String, String)> {
        self.part.options.lock().unwrap().clone()
    }
    fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        let mut options = self.part.options.lock().unwrap();
        match options.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.to_owned(),
            None => return Err(format!("no option {name}")),
        }
        Ok(())
    }
}

impl SlowLog for FakeHost {
    fn slow_log(&self, count: Option<usize>) -> Vec<SlowEntry> {
        let log = self.slow_log.lock().unwrap();
        log.iter().rev().take(count.unwrap_or(usize::MAX)).cloned().collect()
    }
    fn slow_log_len(&self) -> usize {
        self.slow_log.lock().unwrap().len()
    }
    fn slow_log_reset(&self) {
        self.slow_log.lock().unwrap().clear();
    }
}

impl ErrorCounts for FakeHost {
    fn observe_error(&mut self, code: usize) {
        self.part.error_codes.push(code);
    }
}

impl CommandNames for FakeHost {
    fn command_names(&self, protocol: ProtocolName) -> &'static [&'static str] {
        if protocol == ProtocolName::Resp { COMMANDS } else { &[] }
    }
}
