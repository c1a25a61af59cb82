//! Where records live.
//!
//! ```text
//!  key -> home     a numbered database, or a named table: the request says it
//!  home -> group   the Raft group that has the home's records ([`Homes::of_database`])
//!  home -> table   in that group: the number in the records of its log ([`Home::number`])
//! ```
//!
//! Code that needs the log of a database asks [`Homes`], which alone knows what each group has.
//! There is one group, which has all homes.

use std::fmt;
use std::sync::Arc;

use todana_command::DATABASES;

use crate::submission::Submit;

/// Most groups of a node.
pub const GROUPS_MAX: usize = 64;

/// The number of a group, below [`GROUPS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupNumber(u8);

impl GroupNumber {
    /// `None` if no group can have this number.
    pub fn new(number: usize) -> Option<GroupNumber> {
        u8::try_from(number).ok().filter(|_| number < GROUPS_MAX).map(GroupNumber)
    }

    /// The number, as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// A database or table, as the records of a log name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Home {
    /// A numbered database.
    Database(usize),
    /// A named table of the group, by its id.
    Table(u64),
}

/// The first number that is the id of a named table.
pub(crate) const FIRST_TABLE: u64 = DATABASES as u64;

impl Home {
    /// The home with this number.
    #[inline]
    pub fn of(number: u64) -> Home {
        if number < FIRST_TABLE { Home::Database(number as usize) } else { Home::Table(number) }
    }

    /// Its number: that of a database, or the id of a named table, which is 16 or more.
    #[inline]
    pub fn number(self) -> u64 {
        match self {
            Home::Database(number) => number as u64,
            Home::Table(id) => id,
        }
    }
}

/// The groups of this node, and which homes each has.
#[derive(Clone)]
pub struct Homes {
    groups: Arc<[Arc<dyn Submit>]>,
    /// The group of each numbered database.
    databases: [GroupNumber; DATABASES],
}

impl Homes {
    /// All homes are those of this group.
    pub fn in_one(group: Arc<dyn Submit>) -> Homes {
        Homes { groups: Arc::new([group]), databases: [GroupNumber::default(); DATABASES] }
    }

    /// The group that has the records of a numbered database. The command that names a database
    /// which does not exist has no effect in any group.
    #[inline]
    pub fn of_database(&self, number: usize) -> GroupNumber {
        self.databases.get(number).copied().unwrap_or_default()
    }

    /// A group, to which submissions go.
    #[inline]
    pub fn group(&self, number: GroupNumber) -> &dyn Submit {
        &*self.groups[number.index()]
    }

    /// All groups.
    pub fn groups(&self) -> impl Iterator<Item = &dyn Submit> {
        self.groups.iter().map(|group| &**group)
    }
}

impl fmt::Debug for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Homes").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_home_says_which_kind_it_is() {
        for number in [0, 15, 16, u64::MAX] {
            assert_eq!(Home::of(number).number(), number);
            assert_eq!(matches!(Home::of(number), Home::Database(_)), number < 16);
        }
    }

    #[test]
    fn a_group_has_a_number_below_the_limit() {
        assert_eq!(GroupNumber::new(0), Some(GroupNumber::default()));
        assert_eq!(GroupNumber::new(GROUPS_MAX - 1).map(GroupNumber::index), Some(63));
        assert_eq!(GroupNumber::new(GROUPS_MAX), None);
        assert_eq!(GroupNumber::new(256), None);
    }
}
