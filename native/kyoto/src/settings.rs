//! What Kyoto Tycoon clients see of the databases, and which requests the port accepts.

use super::database::KyotoDatabase;
use todana_protocol::{MB, OptionType, bytes};

todana_protocol::options! {
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
