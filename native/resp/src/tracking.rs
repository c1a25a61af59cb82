//! CLIENT TRACKING: clients that cache values learn which of them have changed.
//!
//! A key is registered before its value is read: a write that comes later than the read finds it
//! then, and its invalidation is sent after the reply. A read that the log has executed is too late
//! for that when its reply is written, since a later write may have been applied meanwhile; the
//! host then invalidates the keys after the reply. That concerns clients in broadcast mode, too:
//! they may have learned of the later write before the reply.
//!
//! A script may write its keys and then read them. So they are announced before it runs and
//! registered when it has its reply; its own writes do not count, and those of others invalidate
//! the keys after the reply. A request that another node runs is treated in the same way.
//!
//! Writes of one commit all look like those of its script. So no request rides behind a script of
//! a client that tracks keys; and if EXEC executes a script together with other commands, its own
//! writes count, too.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::Flow;
use super::number;
use super::request::{NOT_AN_INTEGER, SYNTAX};
use super::spec::READONLY;
use super::state::{State, Tracks};
use super::table::Name;
use crate::{Host, Tracking};
use std::sync::Arc;

/// Most prefixes of a client.
const PREFIXES_MAX: usize = 256;
/// Longest prefix: each of its bytes may cost a look-up for every write.
const PREFIX_BYTES_MAX: usize = 1_024;

const NOT_OPTIONAL: &str = "ERR CLIENT CACHING can be called only when the client is in tracking \
                            mode with OPTIN or OPTOUT mode enabled";
const OTHER_BROADCAST: &str = "ERR You can't switch BCAST mode on/off before disabling tracking \
                               for this client, and then re-enabling it with a different mode.";
const OTHER_OPTION: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for \
                            this client, and then re-enabling it with a different mode.";

/// Whether the command runs a script that may write.
fn is_script(name: Name) -> bool {
    matches!(name, Name::Eval | Name::EvalSha)
}

impl State {
    /// Whether later requests may share the commit of this one.
    pub(super) fn may_be_followed(&self, name: Name) -> bool {
        self.tracks.is_none() || !is_script(name)
    }

    /// Registers the keys of reads, if they are tracked, and announces those of scripts.
    #[cold]
    pub(super) fn track<H: Host>(
        &self,
        requests: &[(Name, &[&[u8]])],
        is_away: bool,
        host: &mut H,
    ) {
        let (mut reads, mut scripts) = (Vec::new(), Vec::new());
        for (name, arguments) in requests {
            if name.spec().is(READONLY) {
                self.each_tracked(*name, arguments, |key| reads.push(key));
            } else if is_script(*name) {
                self.each_tracked(*name, arguments, |key| scripts.push(key));
            }
        }
        let is_alone = requests.len() == 1;
        if is_away {
            if !is_alone {
                reads.append(&mut scripts);
            }
            return host.track_away(&reads, &scripts);
        }
        reads.into_iter().for_each(|key| host.track(key));
        scripts.into_iter().for_each(|key| host.begin_script(key, is_alone));
    }

    /// Registers the keys of requests that were announced and have their reply.
    #[cold]
    pub(super) fn end_pending<H: Host>(
        &self,
        requests: &[(Name, &[&[u8]])],
        is_away: bool,
        host: &mut H,
    ) {
        for (name, arguments) in requests {
            if is_script(*name) || is_away && name.spec().is(READONLY) {
                self.each_tracked(*name, arguments, |key| host.end_pending(key));
            }
        }
    }

    fn each_tracked<'a>(&self, name: Name, arguments: &[&'a [u8]], mut each: impl FnMut(&'a [u8])) {
        let Some(tracks) = self.tracks else { return };
        if tracks.opt_in && !tracks.is_chosen || tracks.opt_out && tracks.is_chosen {
            return;
        }
        for (at, _) in name.spec().keys_in(arguments) {
            each(arguments[at]);
        }
    }

    /// CLIENT CACHING is about the next command, or the next transaction.
    #[cold]
    pub(super) fn end_caching(&mut self, name: Option<Name>) {
        if name != Some(Name::Client) && self.queued.is_none() && self.begun.is_none() {
            self.tracks.iter_mut().for_each(|tracks| tracks.is_chosen = false);
        }
    }
}

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn client_tracking(&mut self) -> Done {
        let is_on = match self.argument(2).to_ascii_lowercase().as_slice() {
            b"on" => true,
            b"off" => false,
            _ => return Err(SYNTAX),
        };
        let wanted = self.tracking_options()?;
        if !is_on {
            self.end_tracking();
            return self.ok();
        }
        let Tracking { broadcast, opt_in, opt_out, ref prefixes, .. } = wanted;
        if !broadcast && !prefixes.is_empty() {
            return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
        }
        let mut mode = wanted.clone();
        if let Some(present) = self.host.tracking() {
            if present.broadcast != broadcast {
                return Err(OTHER_BROADCAST.into());
            }
            if opt_in && present.opt_out || opt_out && present.opt_in {
                return Err(OTHER_OPTION.into());
            }
            mode.prefixes = present.prefixes.clone();
        } else {
            mode.prefixes.clear();
        }
        if broadcast && (opt_in || opt_out) {
            return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
        }
        if opt_in && opt_out {
            return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
        }
        if broadcast {
            let all: [Arc<[u8]>; 1] = [Arc::default()];
            let given = if prefixes.is_empty() { &all } else { prefixes.as_slice() };
            add_prefixes(&mut mode.prefixes, given)?;
        }
        if !self.host.set_tracking(Some(mode)) {
            return Err("ERR the databases have too many observers".into());
        }
        self.state.tracks = Some(Tracks { opt_in, opt_out, is_chosen: false });
        self.ok()
    }

    fn tracking_options(&self) -> Result<Tracking, Failure> {
        let mut wanted = Tracking::default();
        let mut words = self.arguments[3..].iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"redirect" => {
                    let id = words.next().ok_or(SYNTAX)?;
                    if wanted.redirect != 0 {
                        let text = "ERR A client can only redirect to a single other client";
                        return Err(text.into());
                    }
                    let id = number::integer(id).ok_or(NOT_AN_INTEGER)?;
                    wanted.redirect = u64::try_from(id).unwrap_or(0);
                    if !self.host.has_client(wanted.redirect) {
                        let text = "ERR The client ID you want redirect to does not exist";
                        return Err(text.into());
                    }
                }
                b"bcast" => wanted.broadcast = true,
                b"optin" => wanted.opt_in = true,
                b"optout" => wanted.opt_out = true,
                b"noloop" => wanted.no_loop = true,
                b"prefix" => wanted.prefixes.push(Arc::from(*words.next().ok_or(SYNTAX)?)),
                _ => return Err(SYNTAX),
            }
        }
        Ok(wanted)
    }

    /// Ends tracking, if it is on.
    pub(super) fn end_tracking(&mut self) {
        if self.host.tracking().is_some() {
            self.host.set_tracking(None);
        }
        self.state.tracks = None;
    }

    pub(super) fn client_caching(&mut self) -> Done {
        if self.host.tracking().is_none() {
            return Err(NOT_OPTIONAL.into());
        }
        let (opt_in, opt_out) =
            self.state.tracks.map_or((false, false), |tracks| (tracks.opt_in, tracks.opt_out));
        let is_allowed = match self.argument(2).to_ascii_lowercase().as_slice() {
            b"yes" if opt_in => true,
            b"yes" => {
                let text = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN \
                            mode.";
                return Err(text.into());
            }
            b"no" if opt_out => true,
            b"no" => {
                let text = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT \
                            mode.";
                return Err(text.into());
            }
            _ => return Err(SYNTAX),
        };
        self.state.tracks.iter_mut().for_each(|tracks| tracks.is_chosen = is_allowed);
        self.ok()
    }

    pub(super) fn client_get_redirect(&mut self) -> Done {
        let redirect = self.redirect();
        self.encoder.integer(redirect);
        Ok(Flow::Continue)
    }

    /// The client that receives the invalidations: 0 for this one, -1 without tracking.
    fn redirect(&self) -> i64 {
        let tracking = self.host.tracking();
        tracking.map_or(-1, |it| i64::try_from(it.redirect).unwrap_or(i64::MAX))
    }

    pub(super) fn client_tracking_info(&mut self) -> Done {
        let tracking = self.host.tracking().cloned();
        let is_chosen = self.state.tracks.is_some_and(|tracks| tracks.is_chosen);
        let redirect = self.redirect();
        let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
        let it = tracking.unwrap_or_default();
        for (flag, is_set) in [
            ("bcast", it.broadcast),
            ("optin", it.opt_in),
            ("caching-yes", it.opt_in && is_chosen),
            ("optout", it.opt_out),
            ("caching-no", it.opt_out && is_chosen),
            ("noloop", it.no_loop),
            ("broken_redirect", it.is_broken),
        ] {
            flags.extend(is_set.then_some(flag));
        }
        self.encoder.map(3);
        self.encoder.text("flags");
        self.encoder.set(flags.len());
        flags.iter().for_each(|flag| self.encoder.text(flag));
        self.encoder.text("redirect");
        self.encoder.integer(redirect);
        self.encoder.text("prefixes");
        self.encoder.array(it.prefixes.len());
        it.prefixes.iter().for_each(|prefix| self.encoder.bulk(prefix));
        Ok(Flow::Continue)
    }
}

/// Adds prefixes to those that a client has. No two of them may overlap.
fn add_prefixes(present: &mut Vec<Arc<[u8]>>, given: &[Arc<[u8]>]) -> Result<(), Failure> {
    if present.len() + given.len() > PREFIXES_MAX {
        return Err(format!("ERR a client has at most {PREFIXES_MAX} prefixes").into());
    }
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    for (at, prefix) in given.iter().enumerate() {
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(format!("ERR prefix is longer than {PREFIX_BYTES_MAX} bytes").into());
        }
        let before = present.iter().map(|it| (it, "an existing"));
        let beside = given[..at].iter().map(|it| (it, "another provided"));
        let found = before.chain(beside).find(|(it, what)| {
            let is_same = *what == "an existing" && *it == prefix;
            !is_same && overlap(it, prefix)
        });
        if let Some((other, what)) = found {
            let other = String::from_utf8_lossy(super::encoder::quoted(other)).into_owned();
            let rest = format!(
                "' overlaps with {what} prefix '{other}'. Prefixes for a single client must not \
                 overlap."
            );
            return Err(Failure::quoting("ERR Prefix '", prefix, &rest));
        }
    }
    for prefix in given {
        if !present.contains(prefix) {
            present.push(prefix.clone());
        }
    }
    Ok(())
}
