//! What Kyoto Tycoon clients see of the databases, and which requests the port accepts.

use crate::options::{MB, OptionType, bytes};

crate::options! {
    /// Settings of the Kyoto Tycoon protocol.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KyotoSettings {
        /// Databases 0 to n - 1, as Kyoto Tycoon clients see them; at least one, at most
        /// [`todana_command::DATABASES`].
        databases: Vec<KyotoDatabase> = vec![KyotoDatabase::default()],
            option OptionType::Databases;
        /// Names that a request's `Host` may have beside loopback names and addresses; `*` allows
        /// any.
        hosts: Vec<String> = Vec::new(), option as kyoto_hosts: OptionType::Hosts;
        /// Origins (`https://example.org`) whose pages may send requests; `*` allows any.
        origins: Vec<String> = Vec::new(), option as kyoto_origins: OptionType::Origins;
        /// Longest body of a request.
        body_bytes_max: usize = 64 << 20, option as kyoto_body_bytes_max: bytes(1, 256 * MB);
    }
}

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

/// Kinds of databases in memory, with Kyoto Cabinet's numbers.
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
}

impl KyotoKind {
    /// Kyoto Cabinet's number of the kind.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether its databases are ordered.
    pub fn is_ordered(self) -> bool {
        matches!(self, KyotoKind::ProtoTree | KyotoKind::CacheTree)
    }
}

impl KyotoSettings {
    /// The database that a request selects by `DB` or by the first segment of a path: an empty text
    /// is database 0, digits are a number, anything else is a name. If several databases have the
    /// name, the last one counts.
    pub fn resolve(&self, id: &[u8]) -> Option<usize> {
        if id.is_empty() {
            return Some(0);
        }
        if id[0].is_ascii_digit() {
            let digits = id.iter().take_while(|byte| byte.is_ascii_digit());
            let number = digits.fold(0usize, |number, digit| {
                number.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
            });
            return (number < self.databases.len()).then_some(number);
        }
        self.databases.iter().rposition(|database| database.name.as_bytes() == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_found_by_number_and_by_name() {
        let named = |name: &str| KyotoDatabase { name: name.into(), ..KyotoDatabase::default() };
        let databases = vec![named(":"), named("%"), named(":")];
        let settings = KyotoSettings { databases, ..KyotoSettings::default() };
        for (id, number) in
            [("", Some(0)), ("1", Some(1)), ("2x", Some(2)), ("%", Some(1)), (":", Some(2))]
        {
            assert_eq!(settings.resolve(id.as_bytes()), number, "{id}");
        }
        for id in ["3", "*", "99999999999999999999999", "x"] {
            assert_eq!(settings.resolve(id.as_bytes()), None, "{id}");
        }
    }
}
