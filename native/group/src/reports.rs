//! What observers of durable tables learn when the log is applied once more.
//!
//! A table reports each change while the log is applied. If Ra restarts its server in a living
//! node, the tables are emptied and the log is applied again, with the same changes. Observers must
//! not see them twice, and must not miss the changes behind the point that was reached before:
//!
//! ```text
//!  applied before the restart   entries 1 to 7, and 8 up to the record at offset 300
//!  then    load: tables emptied, snapshot of entry 5 | 6 7 8 up to 300 | 8 from 300 on, 9, ..
//!  reported                                  nothing                   | each change
//! ```
//!
//! If nothing is known about what observers have seen, nothing is reported until the gate opens,
//! and then that any record may have changed. This is so for the first load of a group, and if a
//! snapshot is ahead of what was applied here.

/// How far the log has been applied in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reached {
    /// The last entry that was begun.
    index: u64,
    /// Where its next record begins; the highest number if it has ended.
    offset: usize,
}

/// Whether changes are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Quiet {
    #[default]
    No,
    /// Until this point of the log.
    Until(Reached),
    /// Until the gate opens.
    UntilOpen,
}

/// Decides whether changes are reported.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    reached: Reached,
    quiet: Quiet,
}

impl Reports {
    /// The records are replaced by those after the entry `index`, 0 for none. From now on nothing
    /// is reported.
    pub(crate) fn begin_load(&mut self, index: u64) {
        let has_seen_nothing = self.reached == Reached::default();
        let is_ahead = Reached { index, offset: usize::MAX } > self.reached && index > 0;
        self.quiet = match self.quiet {
            Quiet::UntilOpen => Quiet::UntilOpen,
            _ if has_seen_nothing || is_ahead => Quiet::UntilOpen,
            _ => Quiet::Until(self.reached),
        };
        self.reached = self.reached.max(Reached { index, offset: usize::MAX });
    }

    /// Whether the gate's opening ends that.
    pub(crate) fn awaits_open(&self) -> bool {
        self.quiet == Quiet::UntilOpen
    }

    /// The offset in this entry from which on changes are to be reported: the highest number if
    /// none, `None` if they are reported anyway.
    pub(crate) fn loud_from(&self, index: u64) -> Option<usize> {
        match self.quiet {
            Quiet::No => None,
            Quiet::UntilOpen => Some(usize::MAX),
            Quiet::Until(reached) if index > reached.index => Some(0),
            Quiet::Until(reached) if index == reached.index => Some(reached.offset),
            Quiet::Until(_) => Some(usize::MAX),
        }
    }

    /// Changes are reported again.
    pub(crate) fn end_quiet(&mut self) {
        self.quiet = Quiet::No;
    }

    /// This entry was applied up to an offset; the highest number for all of it.
    #[inline]
    pub(crate) fn reach(&mut self, index: u64, offset: usize) {
        self.reached = self.reached.max(Reached { index, offset });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = usize::MAX;

    #[test]
    fn changes_are_reported_from_the_point_that_was_reached() {
        let mut reports =
            Reports { reached: Reached { index: 8, offset: 300 }, ..Reports::default() };
        reports.begin_load(5);
        assert!(!reports.awaits_open());
        reports.reach(6, ALL);
        assert_eq!(reports.loud_from(7), Some(ALL));
        assert_eq!(reports.loud_from(8), Some(300));
        assert_eq!(reports.loud_from(9), Some(0));
        reports.end_quiet();
        assert_eq!(reports.loud_from(9), None);
        // The point that was reached stays, however often the log is begun anew.
        reports.begin_load(0);
        reports.begin_load(0);
        assert_eq!((reports.loud_from(7), reports.loud_from(8)), (Some(ALL), Some(300)));
    }

    #[test]
    fn nothing_is_reported_until_the_gate_opens_if_observers_have_missed_something() {
        let mut first = Reports::default();
        first.begin_load(0);
        first.reach(3, ALL);
        // Nothing of this was reported.
        first.begin_load(0);
        assert!(first.awaits_open());
        assert_eq!(first.loud_from(9), Some(ALL));
        let mut ahead =
            Reports { reached: Reached { index: 8, offset: 300 }, ..Reports::default() };
        ahead.begin_load(8);
        assert!(ahead.awaits_open());
        let mut reached =
            Reports { reached: Reached { index: 8, offset: ALL }, ..Reports::default() };
        reached.begin_load(8);
        assert!(!reached.awaits_open());
        assert_eq!(reached.loud_from(9), Some(0));
    }
}
