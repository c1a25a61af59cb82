//! A database as Kyoto Tycoon clients see it.

use todana_protocol::{OptionItem, OptionValue};

/// A database under its Kyoto Tycoon name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KyotoDatabase {
    /// The name without its parameters: `:`, `*`, `%`.
    pub name: String,
    /// The kind of database that the name selects.
    pub kind: KyotoKind,
    /// `ktopts=p`: in this protocol, records have no expiry; times are ignored and not returned.
    pub persistent: bool,
    /// `ktcapcnt`, if given.
    pub entries_max: Option<u64>,
    /// `ktcapsiz`, if given.
    pub bytes_max: Option<u64>,
    /// `capcnt`, if given (`*` only).
    pub cache_entries_max: Option<u64>,
    /// `capsiz`, if given (`*` only).
    pub cache_bytes_max: Option<u64>,
}

impl Default for KyotoDatabase {
    fn default() -> KyotoDatabase {
        KyotoDatabase {
            name: ":".into(),
            kind: KyotoKind::Stash,
            persistent: false,
            entries_max: None,
            bytes_max: None,
            cache_entries_max: None,
            cache_bytes_max: None,
        }
    }
}

/// Kinds of databases, with Kyoto Cabinet's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KyotoKind {
    /// `-`
    ProtoHash = 16,
    /// `+`
    ProtoTree = 17,
    /// `:`
    Stash = 24,
    /// `*`
    CacheHash = 32,
    /// `%`
    CacheTree = 33,
    /// `.kch`: a durable hash database.
    FileHash = 48,
    /// `.kct`: a durable ordered database.
    FileTree = 49,
}

impl KyotoKind {
    /// All of them.
    pub const ALL: [KyotoKind; 7] = [
        KyotoKind::ProtoHash,
        KyotoKind::ProtoTree,
        KyotoKind::Stash,
        KyotoKind::CacheHash,
        KyotoKind::CacheTree,
        KyotoKind::FileHash,
        KyotoKind::FileTree,
    ];

    /// Kyoto Cabinet's number of the kind.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether its databases are ordered.
    pub fn is_ordered(self) -> bool {
        matches!(self, KyotoKind::ProtoTree | KyotoKind::CacheTree | KyotoKind::FileTree)
    }

    /// Whether Kyoto Cabinet keeps its databases in a file, and Todana in the log.
    pub fn is_durable(self) -> bool {
        matches!(self, KyotoKind::FileHash | KyotoKind::FileTree)
    }
}

/// A row of the option `databases`: the name, the number of the kind, 1 if the database is
/// persistent and otherwise 0, and the four limits in the order of the fields.
impl OptionItem for KyotoDatabase {
    fn value_of(databases: &[KyotoDatabase]) -> OptionValue {
        OptionValue::Rows(databases.iter().map(KyotoDatabase::row).collect())
    }

    fn items_of(value: OptionValue) -> Option<Vec<KyotoDatabase>> {
        let OptionValue::Rows(rows) = value else { return None };
        rows.into_iter().map(KyotoDatabase::of_row).collect()
    }
}

impl KyotoDatabase {
    fn row(&self) -> Vec<OptionValue> {
        let limit = |limit: Option<u64>| limit.map_or(OptionValue::Absent, OptionValue::Number);
        vec![
            OptionValue::Word(self.name.clone()),
            OptionValue::Number(self.kind.number().into()),
            OptionValue::Number(self.persistent.into()),
            limit(self.entries_max),
            limit(self.bytes_max),
            limit(self.cache_entries_max),
            limit(self.cache_bytes_max),
        ]
    }

    fn of_row(row: Vec<OptionValue>) -> Option<KyotoDatabase> {
        let limit = |value| match value {
            OptionValue::Absent => Some(None),
            OptionValue::Number(number) => Some(Some(number)),
            _ => None,
        };
        let [
            OptionValue::Word(name),
            OptionValue::Number(kind),
            OptionValue::Number(persistent),
            entries_max,
            bytes_max,
            cache_entries_max,
            cache_bytes_max,
        ] = <[OptionValue; 7]>::try_from(row).ok()?
        else {
            return None;
        };
        Some(KyotoDatabase {
            name,
            kind: KyotoKind::ALL.into_iter().find(|other| u64::from(other.number()) == kind)?,
            persistent: persistent == 1,
            entries_max: limit(entries_max)?,
            bytes_max: limit(bytes_max)?,
            cache_entries_max: limit(cache_entries_max)?,
            cache_bytes_max: limit(cache_bytes_max)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_a_row_of_its_option() {
        let cache = KyotoDatabase {
            name: "*".into(),
            kind: KyotoKind::CacheHash,
            persistent: true,
            cache_entries_max: Some(5),
            ..KyotoDatabase::default()
        };
        let databases = vec![KyotoDatabase::default(), cache];
        let value = KyotoDatabase::value_of(&databases);
        assert_eq!(KyotoDatabase::items_of(value), Some(databases));
        let mut row = KyotoDatabase::default().row();
        row[1] = OptionValue::Number(25);
        assert_eq!(KyotoDatabase::items_of(OptionValue::Rows(vec![row])), None, "no such kind");
        assert_eq!(KyotoDatabase::items_of(OptionValue::Rows(vec![vec![]])), None);
        assert_eq!(KyotoDatabase::items_of(OptionValue::Absent), None);
    }
}
