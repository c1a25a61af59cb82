//! The sources of scripts that requests name.

use super::dispatch;
use super::table::Name;
use crate::Host;
use std::sync::Arc;

/// The source of the script that a request names, if its command takes one and this node knows it.
pub(super) fn source<H: Host>(name: Name, arguments: &[&[u8]], host: &H) -> Option<Arc<[u8]>> {
    if !dispatch::takes_source(name) {
        return None;
    }
    let found = host.databases().interpreter()?.source(arguments.get(1)?);
    // The log has the script, even if this node has forgotten it in the meantime.
    found.or_else(|| host.is_playing().then(Arc::default))
}
