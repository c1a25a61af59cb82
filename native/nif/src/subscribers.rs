//! Clients that wait until the other nodes of a cluster know of their subscriptions.

use crate::{atoms, interest, server};
use rustler::Term;
use rustler::types::atom::Atom;

/// `interest_known(none | Number | infinity) -> ok`: all other nodes know this announcement;
/// `infinity` if there are none. Clients that have waited for it go on.
#[rustler::nif(schedule = "DirtyCpu")]
fn interest_known(number: Term<'_>) -> Atom {
    let is_none = number.decode::<Atom>().is_ok_and(|atom| atom == atoms::none());
    let known = if is_none { None } else { Some(number.decode().unwrap_or(u64::MAX)) };
    if interest::note_known(known) {
        server::running().iter().for_each(|server| server.wake_subscribers());
    }
    atoms::ok()
}
