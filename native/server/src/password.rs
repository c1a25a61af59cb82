//! The password of a server, and its comparison with a guess, in a time that does not reveal how
//! much of the guess was right.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use subtle::{Choice, ConstantTimeEq};

/// The password that clients must give, if any. It may change while the server runs.
pub(crate) struct Secret {
    password: RwLock<Option<Vec<u8>>>,
    /// Whether there is one: loops look at this with each turn of a client without it.
    is_set: AtomicBool,
}

/// Without the password, which must not appear in a log.
impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Secret {{ is_set: {} }}", self.is_set())
    }
}

impl Secret {
    pub(crate) fn new(password: Option<Vec<u8>>) -> Secret {
        let is_set = password.is_some().into();
        Secret { password: password.into(), is_set }
    }

    /// Whether clients must give a password.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// Clients that have authenticated, or connected when there was no password, stay connected and
    /// need not give the new one, as with Redis.
    pub(crate) fn replace(&self, password: Option<Vec<u8>>) {
        let mut place = self.password.write().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(password.is_some(), Relaxed);
        *place = password;
    }

    /// The password as text, empty without one.
    pub(crate) fn shown(&self) -> String {
        let password = self.password.read().unwrap_or_else(PoisonError::into_inner);
        password.as_ref().map_or_else(String::new, |it| String::from_utf8_lossy(it).into_owned())
    }

    /// Whether this is the password; true if there is none.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let password = self.password.read().unwrap_or_else(PoisonError::into_inner);
        password.as_ref().is_none_or(|password| equal(password, given))
    }
}

/// Whether both are equal. The time depends only on the length of `given`, which its sender knows
/// anyway.
fn equal(secret: &[u8], given: &[u8]) -> bool {
    let mut same: Choice = (secret.len() as u64).ct_eq(&(given.len() as u64));
    // If the lengths differ, the result is already known; the comparison only takes the same time.
    let secret = if secret.is_empty() { &[0][..] } else { secret };
    let mut index = 0;
    for byte in given {
        same &= byte.ct_eq(&secret[black_box(index)]);
        index += 1;
        if index == secret.len() {
            index = 0;
        }
    }
    same.into()
}

#[cfg(test)]
mod tests {
    use super::{Secret, equal};

    #[test]
    fn a_password_may_be_changed_and_removed() {
        let secret = Secret::new(None);
        assert!(!secret.is_set() && secret.is(b"anything"));
        secret.replace(Some(b"new".to_vec()));
        assert!(secret.is_set() && secret.is(b"new") && !secret.is(b"old") && !secret.is(b""));
        assert_eq!(format!("{secret:?}"), "Secret { is_set: true }");
        secret.replace(None);
        assert!(!secret.is_set() && secret.is(b"new"));
    }

    #[test]
    fn only_identical_passwords_are_equal() {
        assert!(equal(b"secret", b"secret"));
        assert!(equal(b"", b""));
        for wrong in [&b""[..], b"secre", b"secrets", b"Secret", b"secreT", b"secretsecret"] {
            assert!(!equal(b"secret", wrong), "{wrong:?}");
        }
        assert!(!equal(b"", b"x"));
        assert!(!equal(b"", b"\0"));
    }
}
