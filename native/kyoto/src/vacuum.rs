//! `vacuum`: frees the memory of expired records, a slice in each turn.

use super::failure::Failure;
use super::inputs::Inputs;
use super::numbers;
use super::outcome::{Outcome, order};
use super::turn::Turn;
use crate::Host;
use todana_command::{Command, DatabaseCommand};

/// Expired records that a slice removes.
const SLICE_RECORDS: usize = 512;

/// A vacuum in progress.
#[derive(Debug)]
pub(super) struct Vacuum {
    database: usize,
    /// How many more expired records may be removed.
    records_left: usize,
}

impl Vacuum {
    /// Removes all expired records, or at most `step` records if that is more than 1.
    pub(super) fn begin(database: usize, inputs: &Inputs<'_>) -> Vacuum {
        let steps = inputs.get(b"step").map_or(0, numbers::integer);
        let records_left = if steps > 1 { usize::try_from(steps).ok() } else { None };
        Vacuum { database, records_left: records_left.unwrap_or(usize::MAX) }
    }

    /// Continues for a slice. True when the vacuum is complete.
    pub(super) fn step<H: Host>(&mut self, turn: &mut Turn<'_, H>) -> Result<bool, Failure> {
        let work_max = self.records_left.min(SLICE_RECORDS);
        let outcome =
            order(turn, self.database, &Command::Database(DatabaseCommand::Sweep { work_max }))?;
        self.records_left -= work_max;
        Ok(outcome != Outcome::Flag(true) || self.records_left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Reading;
    use crate::testing::FakeHost;
    use todana_command::{Expires, Set, StringCommand};
    use todana_protocol::ProtocolName;
    use todana_protocol::testing::START_MS;

    /// A host with `expired` expired records, and one that has not expired.
    fn host(expired: usize) -> FakeHost {
        let mut host = FakeHost::new(ProtocolName::Kyoto);
        let mut out = Vec::new();
        let mut turn = Turn::new(&mut host, &mut out);
        for number in 0..expired {
            let key = number.to_string();
            let set = Set::new(key.as_bytes(), b"value");
            let set = Set { expires: Expires::At(START_MS + 1_000), ..set };
            order(&mut turn, 0, &Command::String(StringCommand::Set(set)))
                .expect("a value that is stored");
        }
        order(&mut turn, 0, &Command::String(StringCommand::Set(Set::new(b"kept", b""))))
            .expect("stored");
        host.now_ms += 1_000;
        host
    }

    fn count(host: &mut FakeHost) -> Outcome {
        let mut out = Vec::new();
        let mut turn = Turn::new(host, &mut out);
        order(&mut turn, 0, &Command::Database(DatabaseCommand::Count)).expect("a count")
    }

    /// Runs a vacuum and returns how many slices it took.
    fn vacuum(host: &mut FakeHost, query: &str) -> usize {
        let mut reading = Reading::new(query.as_bytes(), None, b"".into()).expect("a query");
        assert!(reading.step(), "a short query");
        let mut vacuum = Vacuum::begin(0, &reading.finish().expect("few inputs"));
        let mut out = Vec::new();
        let mut turn = Turn::new(host, &mut out);
        (1..).find(|_| vacuum.step(&mut turn) == Ok(true)).expect("an end")
    }

    #[test]
    fn all_expired_records_go() {
        for query in ["", "step=0", "step=1", "step=-1", "step=x"] {
            let host = &mut host(1_000);
            assert_eq!(count(host), Outcome::Number(1_001));
            vacuum(host, query);
            assert_eq!(count(host), Outcome::Number(1), "{query}");
        }
    }

    #[test]
    fn a_number_of_steps_removes_so_many_records() {
        let host = &mut host(1_000);
        vacuum(host, "step=2");
        assert_eq!(count(host), Outcome::Number(999));
        vacuum(host, "step=600");
        assert_eq!(count(host), Outcome::Number(399));
        vacuum(host, "step=9223372036854775807");
        assert_eq!(count(host), Outcome::Number(1));
    }

    #[test]
    fn where_nothing_has_expired_one_slice_is_enough() {
        assert_eq!(vacuum(&mut host(0), ""), 1);
    }
}
