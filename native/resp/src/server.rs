//! The server: CONFIG, TIME, MEMORY, DEBUG, LOLWUT.

use super::call::{Call, Done};
use super::encoder::Failure;
use super::flow::{Flow, SLEEP_SECONDS_MAX};
use super::info::{fragmentation, used_bytes};
use super::pattern::Names;
use super::request::SYNTAX;
use super::{REDIS_VERSION, number, pattern};
use crate::Host;

/// Options that clients look for and that cannot be changed. The server has the changeable ones.
const FIXED: &[(&str, &str)] = &[
    ("activedefrag", "no"),
    ("daemonize", "no"),
    ("databases", "16"),
    ("latency-tracking", "yes"),
    ("min-replicas-to-write", "0"),
    ("min-slaves-to-write", "0"),
    ("notify-keyspace-events", ""),
    ("protected-mode", "yes"),
    ("save", ""),
    ("stop-writes-on-bgsave-error", "no"),
];

/// Why an option cannot be changed.
fn why_fixed(name: &str) -> &'static str {
    match name {
        "min-replicas-to-write" | "min-slaves-to-write" => {
            "a cluster confirms each write by the majority of its nodes, and has no other number"
        }
        _ => "can't set immutable config",
    }
}

/// The reciprocal of the part of the time that MEMORY PURGE may take, however often it is sent.
const PURGE_SHARE: u32 = 100;

impl<H: Host> Call<'_, '_, H> {
    /// All options: the server's, then the constant ones.
    fn options(&self) -> Vec<(String, String)> {
        let mut options = self.host.options();
        let limits = self.host.limits();
        let log = self.host.persistence();
        let word = |word: &str| word.to_owned();
        // Redis' name of an option that cannot change; `off` is 0 there.
        let own = |name: &str| {
            let known = options.iter().find(|(known, _)| known == name);
            known.map_or("0", |(_, value)| if value == "off" { "0" } else { value }).to_owned()
        };
        let derived = [
            ("proto-max-bulk-len", limits.value_bytes_max.to_string()),
            ("appendfsync", word(if log.always { "always" } else { "everysec" })),
            ("appendonly", word(if log.is_durable() { "yes" } else { "no" })),
            ("dir", log.data_dir.clone()),
            ("cluster-enabled", word(if self.host.client().redirects { "yes" } else { "no" })),
            ("port", self.host.client().local_address.port().to_string()),
            ("tcp-keepalive", own("tcp_keepalive_s")),
        ];
        let fixed = FIXED.iter().map(|(name, value)| (*name, (*value).to_owned()));
        for (name, value) in derived.into_iter().chain(fixed) {
            if !options.iter().any(|(known, _)| known == name) {
                options.push((name.to_owned(), value));
            }
        }
        options
    }

    pub(super) fn config_get(&mut self) -> Done {
        pattern::check_all(&self.arguments[2..])?;
        let wanted: Vec<Names> = self.arguments[2..].iter().map(|it| Names::new(it)).collect();
        let mut options = self.options();
        options.retain(|(name, _)| wanted.iter().any(|wanted| wanted.hold(name)));
        self.encoder.map(options.len());
        for (name, value) in options {
            self.encoder.text(&name);
            self.encoder.text(&value);
        }
        Ok(Flow::Continue)
    }

    pub(super) fn config_set(&mut self) -> Done {
        let known = self.options();
        let settable = self.host.options();
        let mut changes: Vec<(&str, String, &str)> = Vec::new();
        for pair in self.arguments[2..].chunks(2) {
            let &[name, value] = pair else { return Err(SYNTAX) };
            let Some((name, old)) =
                known.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            else {
                let text = "ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err(Failure::quoting(text, name, "'"));
            };
            if changes.iter().any(|(other, ..)| other == name) {
                return Err(not_set(name, "duplicate parameter"));
            }
            let value = String::from_utf8_lossy(value).into_owned();
            if settable.iter().any(|(settable, _)| settable == name) {
                changes.push((name, value, old));
            } else if value != *old {
                return Err(not_set(name, why_fixed(name)));
            }
        }
        for (done, (name, value, _)) in changes.iter().enumerate() {
            let Err(reason) = self.host.set_option(name, value) else { continue };
            // All or nothing: restore the options that were already set.
            for (name, _, old) in &changes[..done] {
                let _ = self.host.set_option(name, old);
            }
            return Err(not_set(name, &reason));
        }
        self.ok()
    }

    pub(super) fn config_reset_stat(&mut self) -> Done {
        self.host.reset_stats();
        self.ok()
    }

    pub(super) fn config_rewrite(&mut self) -> Done {
        Err("ERR Rewriting config file: the configuration file is not written by the server".into())
    }

    pub(super) fn time(&mut self) -> Done {
        let now_us = self.host.now_us();
        self.encoder.array(2);
        for part in [now_us / 1_000_000, now_us % 1_000_000] {
            self.encoder.text(itoa::Buffer::new().format(part));
        }
        Ok(Flow::Continue)
    }

    pub(super) fn memory_doctor(&mut self) -> Done {
        let info = self.host.server_info();
        let (used, limit) = (used_bytes(&info), info.memory_limit_bytes);
        let text = if limit > 0 && used > limit / 10 * 9 {
            "More than nine tenths of the memory limit are used.\n"
        } else if info.resident_bytes / 2 > used.max(64 << 20) {
            "The process holds more than twice the memory that its records and buffers take.\n"
        } else {
            "Nothing unusual about memory.\n"
        };
        self.encoder.verbatim(text.as_bytes());
        Ok(Flow::Continue)
    }

    pub(super) fn memory_stats(&mut self) -> Done {
        let info = self.host.server_info();
        let used = used_bytes(&info);
        let sum =
            |what: fn(&todana_table::Counts) -> u64| info.databases.iter().map(what).sum::<u64>();
        let (keys, dataset) = (sum(|it| it.entries), sum(|it| it.bytes));
        let filled: Vec<_> =
            info.databases.iter().enumerate().filter(|(_, it)| it.entries > 0).collect();
        let percentage = if used == 0 { 0.0 } else { dataset as f64 * 100.0 / used as f64 };
        let encoder = &mut *self.encoder;
        encoder.map(13 + filled.len());
        let counts = [
            ("peak.allocated", info.resident_bytes_peak.max(used)),
            ("total.allocated", used),
            ("startup.allocated", 0),
            ("replication.backlog", 0),
            ("clients.slaves", 0),
            ("clients.normal", info.client_buffer_bytes),
            ("aof.buffer", 0),
            ("overhead.total", used - dataset),
            ("keys.count", keys),
            ("keys.bytes-per-key", dataset.checked_div(keys).unwrap_or(0)),
            ("dataset.bytes", dataset),
        ];
        for (name, number) in counts {
            encoder.text(name);
            encoder.count(number);
        }
        for (number, counts) in filled {
            encoder.text(&format!("db.{number}"));
            encoder.map(2);
            encoder.text("overhead.hashtable.main");
            encoder.count(counts.index_bytes);
            encoder.text("overhead.hashtable.expires");
            encoder.count(0);
        }
        encoder.text("dataset.percentage");
        encoder.double(percentage);
        encoder.text("fragmentation");
        encoder.double(fragmentation(&info).0);
        Ok(Flow::Continue)
    }

    pub(super) fn memory_malloc_stats(&mut self) -> Done {
        self.encoder.verbatim(b"Stats not supported for the current allocator");
        Ok(Flow::Continue)
    }

    /// Does not wait for the end, which may take long, and does nothing soon after another one.
    pub(super) fn memory_purge(&mut self) -> Done {
        todana_table::reaper::release_free_memory(PURGE_SHARE);
        self.ok()
    }

    /// Of an option or a command that has no effect.
    pub(super) fn nothing(&mut self) -> Done {
        self.ok()
    }

    pub(super) fn module_list(&mut self) -> Done {
        self.encoder.array(0);
        Ok(Flow::Continue)
    }

    /// A client may not stop the node, of which the server is a part.
    pub(super) fn shutdown(&mut self) -> Done {
        let (mut save, mut abort) = (None, false);
        for word in &self.arguments[1..] {
            let chosen = match word.to_ascii_lowercase().as_slice() {
                b"save" => Some(true),
                b"nosave" => Some(false),
                b"now" | b"force" => continue,
                b"abort" => {
                    abort = true;
                    continue;
                }
                _ => return Err(SYNTAX),
            };
            if save.is_some_and(|before| Some(before) != chosen) {
                return Err(SYNTAX);
            }
            save = chosen;
        }
        match abort {
            true if self.arguments.len() > 2 => Err(SYNTAX),
            true => Err("ERR No shutdown in progress.".into()),
            false => {
                let text = "ERR clients may not stop the server: it is a part of an Erlang node, \
                            which SIGTERM or init:stop/0 ends";
                Err(text.into())
            }
        }
    }

    pub(super) fn debug_sleep(&mut self) -> Done {
        let seconds = std::str::from_utf8(self.argument(2)).ok().and_then(|it| it.parse().ok());
        let seconds: f64 = seconds.ok_or("ERR value is not a valid float")?;
        if !(0.0..=f64::from(SLEEP_SECONDS_MAX)).contains(&seconds) {
            let text =
                format!("ERR value is out of range, a sleep is 0 to {SLEEP_SECONDS_MAX} seconds");
            return Err(text.into());
        }
        // The event loop delays the reply until the sleep is over.
        self.encoder.ok();
        Ok(Flow::Sleep((seconds * 1000.0) as u64))
    }

    pub(super) fn lolwut(&mut self) -> Done {
        for option in self.arguments[1..].chunks(2) {
            if let [word, version] = option
                && word.eq_ignore_ascii_case(b"version")
                && number::integer(version).is_none()
            {
                return Err(super::request::NOT_AN_INTEGER);
            }
        }
        let version = self.host.server_info().version;
        let picture = format!(
            " _______________\n|  ___  |  ___  |\n| |   | | |   | |\n| |___| | |___| |\n\
             |      o|o      |\n|_______|_______|\n |_|         |_|\n\n\
             A cupboard. Redis ver. {REDIS_VERSION}, todana {version}\n"
        );
        self.encoder.verbatim(picture.as_bytes());
        Ok(Flow::Continue)
    }
}

fn not_set(name: &str, reason: &str) -> Failure {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}").into()
}
