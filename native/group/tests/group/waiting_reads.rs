//! Reads that wait for a read index.

use std::collections::VecDeque;

use todana_group::{Applied, Gate, READ_BOUND_MS, Submit, Ticket};

use crate::harness::{Harness, Seen, options, set};

const FRESH: Seen = Seen::Fresh;

fn ticket(number: u64) -> Ticket {
    Ticket { place: (0, 0), number }
}

/// One of several members, that has applied one entry.
fn member() -> Harness {
    let mut harness = Harness::new();
    harness.group.set_others(Some(2));
    write(&mut harness);
    harness
}

fn write(harness: &mut Harness) {
    harness.commit(set(0, b"k", b"v"), 1);
}

#[test]
fn the_records_of_the_only_member_are_fresh_for_ever() {
    let harness = Harness::new();
    let group = &harness.group;
    assert!(group.is_alone() && group.is_fresh(group.clock_ms()) && group.is_fresh(u64::MAX - 1));
    assert_eq!((group.clock_ms(), group.others()), (0, 0));
    harness.await_fresh(1);
    assert_eq!(harness.outcomes(), [(1, FRESH)]);
    assert_eq!(harness.questions_wanted(), 0);
    // An answer, a load and another bound change nothing.
    let question = group.begin_question(5);
    group.question_answered(question, 0);
    assert!(group.is_fresh(u64::MAX - 1));
    group.reset();
    assert!(group.is_alone());
}

#[test]
fn copies_are_counted_of_those_that_have_the_entry() {
    let harness = member();
    let group = &harness.group;
    let copies = |index| group.copies(index);
    assert_eq!((copies(0), copies(7)), (0, 0));
    group.set_copies(0, vec![6, 7]);
    assert_eq!((copies(6), copies(7), copies(8)), (2, 1, 0));
    // A majority has whatever is confirmed, before the leader has said so.
    group.set_copies(1, vec![6, 7]);
    assert_eq!((copies(6), copies(7), copies(8)), (2, 1, 1));
    // Members that have left do not count.
    group.set_others(Some(1));
    assert_eq!((copies(6), copies(8)), (1, 1));
    group.set_others(Some(0));
    assert_eq!(copies(6), 0);
}

#[test]
fn records_are_fresh_from_the_answer_until_the_question_is_too_long_ago() {
    let mut harness = member();
    let group = harness.group.clone();
    assert!(!group.is_alone() && !group.is_fresh(0));
    assert_eq!(group.others(), 2);
    let question = group.begin_question(5_000);
    assert!(!group.is_fresh(5_000));
    // The leader is one entry ahead.
    group.question_answered(question, 2);
    assert!(!group.is_fresh(5_000));
    write(&mut harness);
    assert!(group.is_fresh(5_000 + READ_BOUND_MS - 2));
    assert!(!group.is_fresh(5_000 + READ_BOUND_MS - 1));
    // An answer to an older question, which comes late, changes nothing.
    let (older, newer) = (group.begin_question(6_000), group.begin_question(7_000));
    group.question_answered(newer, 2);
    group.question_answered(older, 2);
    assert!(group.is_fresh(7_000 + READ_BOUND_MS - 2));
    group.set_read_bound_ms(10);
    let question = group.begin_question(9_000);
    group.question_answered(question, 2);
    assert!(group.is_fresh(9_008) && !group.is_fresh(9_009));
    assert!(!group.question_failed(question), "it has its answer");
}

#[test]
fn a_reader_that_accepts_records_of_some_age_is_noticed_once() {
    let harness = member();
    let group = &harness.group;
    assert!(!group.was_read());
    // One that accepts none waits for an answer, and needs no others before it comes.
    harness.await_fresh(1);
    assert!(!group.was_read());
    group.is_fresh(0);
    assert!(group.was_read());
    assert!(!group.was_read());
}

#[test]
fn readers_wait_for_the_entry_that_the_answer_names() {
    let mut harness = member();
    let group = harness.group.clone();
    harness.await_fresh(1);
    harness.await_fresh(2);
    assert_eq!(harness.questions_wanted(), 1, "one question serves both");
    let question = group.begin_question(0);
    // This one came later, so it waits for the next question.
    harness.await_fresh(3);
    assert_eq!(harness.questions_wanted(), 2);
    group.question_answered(question, 3);
    assert_eq!(harness.outcomes(), []);
    write(&mut harness);
    let seen = harness.outcomes();
    assert_eq!(seen, [], "entry 2 is not enough");
    group.skip(3);
    let mut seen = harness.outcomes();
    seen.sort_by_key(|(number, _)| *number);
    assert_eq!(seen, [(1, FRESH), (2, FRESH)]);
    let question = group.begin_question(0);
    group.question_answered(question, 3);
    assert_eq!(harness.outcomes(), [(3, FRESH)]);
}

#[test]
fn an_entry_that_is_skipped_counts_too() {
    let harness = member();
    let group = &harness.group;
    group.await_applied(1, ticket(7), harness.outcomes.clone());
    assert_eq!(harness.outcomes(), [(7, FRESH)]);
    group.await_applied(3, ticket(8), harness.outcomes.clone());
    group.await_applied(2, ticket(9), harness.outcomes.clone());
    group.skip(2);
    assert_eq!(harness.outcomes(), [(9, FRESH)]);
    group.skip(3);
    assert_eq!(harness.outcomes(), [(8, FRESH)]);
    assert_eq!(group.applied_index(), 3);
    assert!(!group.is_fresh(0), "nobody has asked the leader");
}

#[test]
fn readers_of_a_question_without_an_answer_wait_for_the_next_one() {
    let harness = member();
    let group = &harness.group;
    harness.await_fresh(1);
    let question = group.begin_question(0);
    harness.await_fresh(2);
    assert!(group.question_failed(question));
    // The asker knows by itself that it has to ask again.
    assert_eq!((harness.outcomes(), harness.questions_wanted()), (vec![], 2));
    let _lost = group.begin_question(0);
    assert!(group.questions_failed(), "its asker was killed");
    let question = group.begin_question(0);
    group.question_answered(question, 1);
    assert_eq!(harness.outcomes().len(), 2);
    assert!(!group.questions_failed());
}

#[test]
fn a_reader_that_gives_up_is_forgotten() {
    let mut harness = member();
    let group = harness.group.clone();
    // One waits for the next question, one for an answer, one for an entry.
    harness.await_fresh(1);
    let question = group.begin_question(0);
    harness.await_fresh(2);
    group.await_applied(2, ticket(3), harness.outcomes.clone());
    for number in [1, 2, 3] {
        assert!(group.withdraw(ticket(number)));
        assert!(!group.withdraw(ticket(number)));
    }
    group.question_answered(question, 2);
    write(&mut harness);
    assert_eq!(harness.outcomes(), []);
    assert!(group.is_fresh(0));
}

#[test]
fn readers_are_dropped_when_the_gate_closes_and_nothing_is_fresh_before_the_next_question() {
    let harness = member();
    let group = harness.group.clone();
    let question = group.begin_question(0);
    group.question_answered(question, 1);
    assert!(group.is_fresh(1));
    harness.await_fresh(1);
    let question = group.begin_question(0);
    harness.await_fresh(2);
    // Reads go on while the log accepts no writes.
    group.set_gate(Gate::ReadOnly, "the disk is full");
    assert_eq!(harness.outcomes(), []);
    group.reset();
    let mut seen = harness.outcomes();
    seen.sort_by_key(|(number, _)| *number);
    assert_eq!(seen, [(1, Seen::Dropped), (2, Seen::Dropped)]);
    assert!(!group.is_fresh(0));
    // An answer that comes before the gate opens says nothing about what may be read then.
    group.question_answered(question, 0);
    assert!(!group.is_fresh(0));
    group.set_gate(Gate::Open, "");
    assert!(!group.is_fresh(0));
    let question = group.begin_question(0);
    group.question_answered(question, 1);
    assert!(!group.is_fresh(0));
    group.skip(1);
    assert!(group.is_fresh(0));
}

/// Numbers that look random: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// How a member reads.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Local,
    Linear,
}

/// Three members that apply one log at their own speeds. Member 0 leads: it has applied all that is
/// confirmed. The records are one number, which each entry sets to its index. Returns the number of
/// reads that were older than what was acknowledged, or read, before they began.
fn stale_reads(seed: u64, level: Level) -> usize {
    let mut dice = Dice(seed);
    let mut members: Vec<Harness> = (1..=3).map(|it| Harness::of(options(it))).collect();
    members.iter().for_each(|it| it.group.set_others(Some(2)));
    let mut log: Vec<Vec<u8>> = Vec::new();
    let mut applied = [0; 3];
    // Reads that wait: the member, and what they must see.
    let mut waiting: Vec<(u64, usize, u64)> = Vec::new();
    // Questions on their way to the leader, and answers on their way back.
    let mut questions: VecDeque<(usize, u64)> = VecDeque::new();
    let mut answers: Vec<(usize, u64, u64)> = Vec::new();
    let (mut known, mut stale, mut done, mut number) = (0, 0, 0, 0);
    for _ in 0..2_000 {
        let at = dice.below(3);
        match dice.below(6) {
            // A write: the leader confirms it, applies it, and acknowledges it.
            0 => {
                let entry = log.len() as u64 + 1;
                members[0].submit(entry, set(0, b"k", entry.to_string().as_bytes()), 1);
                log.push(members[0].seal().bytes);
                members[0].apply(&log[log.len() - 1]);
                applied[0] = log.len();
                known = known.max(entry);
            }
            // A follower applies one more.
            1 if applied[at] < log.len() => {
                let applying = members[at].apply(&log[applied[at]]);
                assert_eq!(applying, Applied::Done { snapshot_due: false });
                applied[at] += 1;
            }
            2 => {
                number += 1;
                waiting.push((number, at, known));
                match level {
                    Level::Linear => members[at].await_fresh(number),
                    Level::Local => {}
                }
            }
            3 => questions.push_back((at, members[at].group.begin_question(0))),
            4 => {
                if let Some((from, question)) = questions.pop_front() {
                    match dice.below(4) {
                        0 => drop(members[from].group.question_failed(question)),
                        _ => answers.push((from, question, members[0].group.applied_index())),
                    }
                }
            }
            5 if !answers.is_empty() => {
                let (to, question, index) = answers.swap_remove(dice.below(answers.len()));
                members[to].group.question_answered(question, index);
            }
            _ => {}
        }
        for (at, member) in members.iter().enumerate() {
            let outcomes = member.outcomes();
            let fresh = |number: &u64| outcomes.contains(&(*number, FRESH));
            for (number, place, least) in std::mem::take(&mut waiting) {
                if place != at || !(level == Level::Local || fresh(&number)) {
                    waiting.push((number, place, least));
                    continue;
                }
                let value = member.value(b"k").unwrap_or(b"0".to_vec());
                let value: u64 = String::from_utf8(value).unwrap().parse().unwrap();
                (stale, done) = (stale + usize::from(value < least), done + 1);
                known = known.max(value);
            }
        }
    }
    assert!(done > 100, "seed {seed}: only {done} reads");
    stale
}

#[test]
fn linear_reads_are_never_older_than_what_was_acknowledged_before_them() {
    for seed in 1..=50 {
        assert_eq!(stale_reads(seed, Level::Linear), 0, "seed {seed}");
    }
    // The simulation would notice.
    let local: usize = (1..=5).map(|seed| stale_reads(seed, Level::Local)).sum();
    assert!(local > 50, "{local}");
}
