//! The sources of scripts that requests name.

use super::dispatch;
use super::state::State;
use super::table::Name;
use crate::Host;
use std::sync::Arc;

/// A request begins that may name scripts, or, in EXEC, several that do.
pub(super) fn begin<H: Host>(state: &mut State, host: &H) {
    if !host.is_playing() && !state.rides {
        state.scripts.clear();
    }
}

/// The source of the script that a request names, if its command takes one and this node knows it.
///
/// A request that the log has committed is run again. It then has the scripts that it had at first,
/// even if this node has come to know others, or has forgotten these.
pub(super) fn source<H: Host>(
    state: &mut State,
    name: Name,
    arguments: &[&[u8]],
    host: &H,
) -> Option<Arc<[u8]>> {
    if !dispatch::takes_source(name) {
        return None;
    }
    let word = *arguments.get(1)?;
    if host.is_playing() {
        let is_it = |(name, _): &&(Vec<u8>, Arc<[u8]>)| name == word;
        return state.scripts.iter().find(is_it).map(|(_, source)| source.clone());
    }
    let source = host.databases().interpreter()?.source(word)?;
    state.scripts.push((word.to_vec(), source.clone()));
    Some(source)
}
