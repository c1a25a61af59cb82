//! Which requests the port accepts.
//!
//! Every web page that a user's browser shows can reach Kyoto Tycoon's HTTP port, and a page can
//! send a request without anyone's consent. A request must therefore name this server by an
//! address, a loopback name or a name from its settings (a page whose own name resolves to our
//! address sends that name), and must not come from a page of another site. ktserver checks
//! neither.
//!
//! Pages of an allowed origin may read the responses. Their browsers ask for that permission first
//! (`OPTIONS`), without a password.
//!
//! Passwords use HTTP's `Basic` scheme, with any user name. A connection that has authenticated
//! once needs no password in its later requests.

use super::http::{Head, Status};
use super::settings::KyotoSettings;
use crate::Host;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use memchr::{memchr, memrchr};
use smallvec::{SmallVec, smallvec};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The response to a refused request: its status and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: Status,
    pub(super) why: &'static str,
    /// Whether the connection stays open for more requests.
    pub(super) keep_alive: bool,
}

/// Refuses a request if its target or its sender is not allowed.
pub(super) fn check_sender(settings: &KyotoSettings, head: &Head<'_>) -> Result<(), Refused> {
    let forbidden = |why| Err(Refused { status: Status::Forbidden, why, keep_alive: false });
    if !head.host.is_none_or(|name| admits_host(settings, name)) {
        forbidden("host not allowed")
    } else if !admits_origin(settings, head) {
        forbidden("origin not allowed")
    } else {
        Ok(())
    }
}

/// Refuses a request without the right password, and records that the connection has authenticated.
pub(super) fn check_password<H: Host>(
    host: &H,
    authenticated: &mut bool,
    head: &Head<'_>,
) -> Result<(), Refused> {
    if *authenticated {
        return Ok(());
    }
    let unauthorized =
        |why, keep_alive| Err(Refused { status: Status::Unauthorized, why, keep_alive });
    match head.authorization.map(password) {
        None => unauthorized("password required", true),
        Some(Some(password)) if host.check_password(&password) => {
            *authenticated = true;
            Ok(())
        }
        Some(_) => unauthorized("wrong password", false),
    }
}

/// Whether `Host` names this server.
fn admits_host(settings: &KyotoSettings, host: &[u8]) -> bool {
    let name = without_port(host);
    name.is_empty()
        || is_address(name)
        || is_loopback(name)
        || settings.hosts.iter().any(|known| {
            known == "*"
                || known.as_bytes().eq_ignore_ascii_case(name)
                || known.as_bytes().eq_ignore_ascii_case(host)
        })
}

fn without_port(host: &[u8]) -> &[u8] {
    match memrchr(b':', host) {
        // The last colon inside the brackets of an IPv6 address does not begin a port.
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) => &host[..at],
        _ => host,
    }
}

fn is_address(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(text) => text.parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<Ipv4Addr>().is_ok(),
    }
}

fn is_loopback(name: &[u8]) -> bool {
    const NAME: &[u8] = b"localhost";
    let Some(at) = name.len().checked_sub(NAME.len()) else { return false };
    let (labels, last) = name.split_at(at);
    last.eq_ignore_ascii_case(NAME) && (labels.is_empty() || labels.ends_with(b"."))
}

/// Whether the request comes from no web page, or from a page that may send it.
fn admits_origin(settings: &KyotoSettings, head: &Head<'_>) -> bool {
    let is_known = |origin: &[u8]| {
        let mut origins = settings.origins.iter();
        origins.any(|known| known == "*" || known.as_bytes().eq_ignore_ascii_case(origin))
    };
    if let Some(origin) = head.origin {
        return is_known(origin);
    }
    // Browsers omit `Origin` from some reads, but they send this header.
    if let Some(site) = head.fetch_site {
        let is_foreign =
            site.eq_ignore_ascii_case(b"cross-site") || site.eq_ignore_ascii_case(b"same-site");
        return !is_foreign || is_known(b"*");
    }
    // Older browsers send only this header. A request for an address that a person typed has none.
    match head.referer {
        None | Some(b"") => true,
        Some(page) => {
            let (origin, host) = origin_and_host(page);
            head.host.is_some_and(|own| own.eq_ignore_ascii_case(host)) || is_known(origin)
        }
    }
}

/// The origin of a page, such as `https://example.org:8080`, and its host and port. The whole text
/// for both if it is not the address of a page.
fn origin_and_host(page: &[u8]) -> (&[u8], &[u8]) {
    let Some(at) = memchr::memmem::find(page, b"://") else { return (page, page) };
    let begin = at + 3;
    let length = page[begin..].iter().position(|byte| b"/?#".contains(byte));
    let end = length.map_or(page.len(), |length| begin + length);
    (&page[..end], &page[begin..end])
}

/// The password in an `Authorization`.
fn password(header: &[u8]) -> Option<SmallVec<[u8; 256]>> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, text) = header.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let text = text.trim_ascii();
    let mut pair: SmallVec<[u8; 256]> = smallvec![0; base64::decoded_len_estimate(text.len())];
    let length = BASE64_STANDARD.decode_slice(text, &mut pair).ok()?;
    pair.truncate(length);
    let at = memchr(b':', &pair)?;
    pair.drain(..=at);
    Some(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_loopback_names_are_this_server() {
        let settings = KyotoSettings::default();
        for host in [
            "",
            ":1978",
            "localhost",
            "LocalHost:1978",
            "db.localhost:1",
            "127.0.0.1",
            "10.1.2.3:1978",
            "[::1]",
            "[2001:db8::1]:1978",
        ] {
            assert!(admits_host(&settings, host.as_bytes()), "{host}");
        }
        for host in [
            "example.org",
            "example.org:1978",
            "localhost.example.org",
            "notlocalhost",
            "127.0.0.1.example.org",
            "127.0.0.1:80:80",
            "1.2.3",
            "[::1",
            "[localhost]",
            "*",
        ] {
            assert!(!admits_host(&settings, host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn names_of_the_settings_are_this_server_too() {
        let hosts = vec!["Cache.example.org".to_owned()];
        let settings = KyotoSettings { hosts, ..KyotoSettings::default() };
        assert!(admits_host(&settings, b"cache.EXAMPLE.org:1978"));
        assert!(!admits_host(&settings, b"x.cache.example.org"));
        let settings = KyotoSettings { hosts: vec!["*".to_owned()], ..KyotoSettings::default() };
        assert!(admits_host(&settings, b"anything"));
    }

    #[test]
    fn a_password_is_what_follows_the_first_colon() {
        let password = |header: &str| password(header.as_bytes()).map(|found| found.to_vec());
        assert_eq!(password("Basic dTpwYTpzcw=="), Some(b"pa:ss".to_vec()));
        assert_eq!(password("bAsIc   OnNlY3JldA=="), Some(b"secret".to_vec()));
        for header in ["", "Basic", "Basic ", "Basic ?", "Bearer OnNlY3JldA==", "Basic c2VjcmV0"] {
            assert_eq!(password(header), None, "{header}");
        }
    }
}
