//! A database as Kyoto Tycoon clients see it.

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
