//! `stats` of the text protocol, `stat` of the binary protocol.
//!
//! The names are memcached's, so that its exporters and clients find them. Values that this server
//! does not know or does not have are omitted.

use super::binary::Frame;
use super::line::Words;
use super::server::version_text;
use super::table::Row;
use super::turn::{DATABASE, Turn};
use crate::Host;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use todana_protocol::{CommandStats, ProtocolName, ServerInfo};

/// The place of this protocol in figures by protocol.
const MEMCACHED: usize = 1;

/// Answers `stats`.
pub(super) fn answer<H: Host>(turn: &mut Turn<'_, H>, words: Words<'_>, line: &[u8]) {
    let found = write(turn, words, Form::Text);
    match found {
        Found::Group => turn.say("END"),
        Found::Reset => turn.say("RESET"),
        Found::Switched => turn.say("OK"),
        Found::Dumped => {}
        Found::NoSwitch => turn.say("CLIENT_ERROR usage: stats detail on|off|dump"),
        Found::Unknown => turn.say("ERROR"),
    }
    turn.observe(Row::Stats, matches!(found, Found::Unknown | Found::NoSwitch), line);
}

/// How a statistic is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// As a line.
    Text,
    /// As a response of the binary protocol.
    Binary(Frame),
}

/// The group of statistics that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has been written, without its end.
    Group,
    /// The counters have been reset.
    Reset,
    /// Counts by prefix are on or off.
    Switched,
    /// They have been written, with their end.
    Dumped,
    /// The client wants something else of them.
    NoSwitch,
    /// There is no such group.
    Unknown,
}

/// Writes the group that the first word names; further words are ignored, as in memcached.
pub(super) fn write<H: Host>(turn: &mut Turn<'_, H>, mut words: Words<'_>, form: Form) -> Found {
    match words.next() {
        None => general(turn, form),
        Some(b"settings") => settings(turn, form),
        Some(b"items") => items(turn, form),
        Some(b"slabs") => slabs(turn, form),
        Some(b"sizes") => Sheet { out: turn.out, form }.stat("sizes_status", "disabled"),
        Some(b"conns") => connections(turn, form),
        Some(b"detail") => return detail(turn, words.next(), form),
        Some(b"reset") => {
            turn.host.reset_stats();
            return Found::Reset;
        }
        Some(_) => return Found::Unknown,
    }
    Found::Group
}

/// Counts by prefix: begins, stops, or writes them.
fn detail<H: Host>(turn: &mut Turn<'_, H>, word: Option<&[u8]>, form: Form) -> Found {
    match word {
        Some(word @ (b"on" | b"off")) => {
            let is_on = word == b"on";
            turn.host.prefixes().switch(is_on);
            turn.counts_prefixes = is_on;
            Found::Switched
        }
        Some(b"dump") => {
            match form {
                Form::Text => turn.host.prefixes().dump(turn.out),
                Form::Binary(frame) => {
                    let mut lines = Vec::new();
                    turn.host.prefixes().dump(&mut lines);
                    frame.stat(turn.out, "detailed", &lines);
                }
            }
            Found::Dumped
        }
        _ => Found::NoSwitch,
    }
}

/// Where statistics are written.
struct Sheet<'o> {
    out: &'o mut Vec<u8>,
    form: Form,
}

impl Sheet<'_> {
    fn stat(&mut self, name: impl Display, value: impl Display) {
        match self.form {
            Form::Text => {
                write!(self.out, "STAT {name} {value}\r\n").expect("a vector takes all bytes");
            }
            Form::Binary(frame) => frame.stat(self.out, &name.to_string(), value.to_string()),
        }
    }
}

/// Calls of each row.
struct Calls(Vec<CommandStats>);

impl Calls {
    fn of(&self, rows: &[Row]) -> u64 {
        rows.iter().filter_map(|&row| self.0.get(row as usize)).map(|stats| stats.calls).sum()
    }

    /// Successful calls.
    fn good(&self, rows: &[Row]) -> u64 {
        self.of(rows).saturating_sub(self.errors(rows))
    }

    fn errors(&self, rows: &[Row]) -> u64 {
        rows.iter().filter_map(|&row| self.0.get(row as usize)).map(|stats| stats.errors).sum()
    }
}

fn general<H: Host>(turn: &mut Turn<'_, H>, form: Form) {
    let now_ms = turn.now_ms();
    let info = turn.host.server_info();
    let calls = Calls(turn.host.command_stats(ProtocolName::Memcached));
    let sheet = &mut Sheet { out: turn.out, form };
    sheet.stat("pid", info.process_id);
    sheet.stat("uptime", now_ms.saturating_sub(info.started_at_ms) / 1000);
    sheet.stat("time", now_ms / 1000);
    sheet.stat("version", version_text(&info.version));
    sheet.stat("pointer_size", usize::BITS);
    sheet.stat("rusage_user", format_args!("{:.6}", info.cpu_seconds[1]));
    sheet.stat("rusage_system", format_args!("{:.6}", info.cpu_seconds[0]));
    sheet.stat("max_connections", info.connections_max);
    sheet.stat("curr_connections", info.connections_by_protocol[MEMCACHED]);
    sheet.stat("total_connections", info.connections_total);
    sheet.stat("rejected_connections", info.connections_rejected);
    commands(sheet, &info, &calls);
    sheet.stat("bytes_read", info.input_bytes);
    sheet.stat("bytes_written", info.output_bytes);
    sheet.stat("limit_maxbytes", info.memory_limit_bytes);
    sheet.stat("accepting_conns", 1);
    sheet.stat("threads", info.event_loops);
    if let Some(counts) = info.databases.get(DATABASE) {
        sheet.stat("hash_bytes", counts.index_bytes);
        sheet.stat("bytes", counts.bytes);
        sheet.stat("curr_items", counts.entries);
        // Every write creates an item, as in memcached.
        sheet.stat("total_items", counts.version);
        sheet.stat("evictions", counts.evicted);
        sheet.stat("reclaimed", counts.expired);
    }
}

fn commands(sheet: &mut Sheet<'_>, info: &ServerInfo, calls: &Calls) {
    use Row::{
        Add, Append, Authenticate, Cas, CasBadval, CasMiss, Decr, DecrMiss, Delete, DeleteMiss,
        FlushAll, Incr, IncrMiss, Ma, MaDecr, MaDecrMiss, MaMiss, Md, MdMiss, Me, Mg, Mn, Ms,
        Prepend, Replace, Set, Touch, TouchMiss,
    };
    let (hits, misses) = info.lookups_by_protocol[MEMCACHED];
    sheet.stat("cmd_get", hits.saturating_add(misses));
    sheet.stat(
        "cmd_set",
        calls.of(&[Set, Add, Replace, Append, Prepend, Cas, CasMiss, CasBadval, Ms]),
    );
    sheet.stat("cmd_flush", calls.good(&[FlushAll]));
    sheet.stat("cmd_touch", calls.good(&[Touch, TouchMiss]));
    sheet.stat("cmd_meta", calls.of(&[Me, Mg, Ms, Md, MdMiss, Ma, MaMiss, MaDecr, MaDecrMiss, Mn]));
    sheet.stat("get_hits", hits);
    sheet.stat("get_misses", misses);
    sheet.stat("delete_misses", calls.good(&[DeleteMiss, MdMiss]));
    sheet.stat("delete_hits", calls.good(&[Delete, Md]));
    sheet.stat("incr_misses", calls.good(&[IncrMiss, MaMiss]));
    sheet.stat("incr_hits", calls.good(&[Incr, Ma]));
    sheet.stat("decr_misses", calls.good(&[DecrMiss, MaDecrMiss]));
    sheet.stat("decr_hits", calls.good(&[Decr, MaDecr]));
    sheet.stat("cas_misses", calls.good(&[CasMiss]));
    sheet.stat("cas_hits", calls.good(&[Cas]));
    sheet.stat("cas_badval", calls.good(&[CasBadval]));
    sheet.stat("touch_hits", calls.good(&[Touch]));
    sheet.stat("touch_misses", calls.good(&[TouchMiss]));
    sheet.stat("auth_cmds", calls.of(&[Authenticate]));
    sheet.stat("auth_errors", calls.errors(&[Authenticate]));
}

fn settings<H: Host>(turn: &mut Turn<'_, H>, form: Form) {
    let info = turn.host.server_info();
    let inter = turn.host.client().local_address.ip();
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    let needs_password = turn.host.requires_password();
    let item_size_max = turn.value_max();
    let sheet = &mut Sheet { out: turn.out, form };
    sheet.stat("maxbytes", info.memory_limit_bytes);
    sheet.stat("maxconns", info.connections_max);
    sheet.stat("tcpport", info.memcached_port);
    sheet.stat("udpport", 0);
    sheet.stat("inter", inter);
    sheet.stat("evictions", if info.memory_policy == "noeviction" { "off" } else { "on" });
    sheet.stat("shutdown_command", yes_or_no(false));
    sheet.stat("num_threads", info.event_loops);
    sheet.stat("cas_enabled", yes_or_no(true));
    sheet.stat("auth_enabled_ascii", yes_or_no(needs_password));
    sheet.stat("auth_enabled_sasl", yes_or_no(needs_password));
    sheet.stat("item_size_max", item_size_max);
    sheet.stat("flush_enabled", yes_or_no(true));
    sheet.stat("dump_enabled", yes_or_no(false));
}

/// There are no slab classes; the first class reports all records.
fn items<H: Host>(turn: &mut Turn<'_, H>, form: Form) {
    let info = turn.host.server_info();
    if let Some(counts) = info.databases.get(DATABASE).filter(|counts| counts.entries > 0) {
        let sheet = &mut Sheet { out: turn.out, form };
        sheet.stat("items:1:number", counts.entries);
        sheet.stat("items:1:mem_requested", counts.bytes);
        sheet.stat("items:1:evicted", counts.evicted);
        sheet.stat("items:1:reclaimed", counts.expired);
    }
}

/// There are no slab classes; the first class reports all records, as if each had a chunk of their
/// mean size. The total is the memory of the entries.
fn slabs<H: Host>(turn: &mut Turn<'_, H>, form: Form) {
    use Row::{
        Add, Append, Cas, CasBadval, CasMiss, Decr, Delete, Incr, Ma, MaDecr, Md, Ms, Prepend,
        Replace, Set, Touch,
    };
    const PAGE_BYTES: u64 = 1 << 20;
    let info = turn.host.server_info();
    let calls = Calls(turn.host.command_stats(ProtocolName::Memcached));
    let (bytes, entries) =
        info.databases.get(DATABASE).map_or((0, 0), |counts| (counts.bytes, counts.entries));
    let sheet = &mut Sheet { out: turn.out, form };
    if let Some(chunk) = bytes.checked_div(entries).map(|mean| mean.max(1)) {
        let stores = [Set, Add, Replace, Append, Prepend, Cas, CasMiss, CasBadval, Ms];
        for (name, value) in [
            ("chunk_size", chunk),
            ("chunks_per_page", (PAGE_BYTES / chunk).max(1)),
            ("total_pages", bytes.div_ceil(PAGE_BYTES)),
            ("total_chunks", entries),
            ("used_chunks", entries),
            ("free_chunks", 0),
            ("free_chunks_end", 0),
            ("get_hits", info.lookups_by_protocol[MEMCACHED].0),
            ("cmd_set", calls.of(&stores)),
            ("delete_hits", calls.good(&[Delete, Md])),
            ("incr_hits", calls.good(&[Incr, Ma])),
            ("decr_hits", calls.good(&[Decr, MaDecr])),
            ("cas_hits", calls.good(&[Cas])),
            ("cas_badval", calls.good(&[CasBadval])),
            ("touch_hits", calls.good(&[Touch])),
        ] {
            sheet.stat(format_args!("1:{name}"), value);
        }
    }
    sheet.stat("active_slabs", u64::from(entries > 0));
    sheet.stat("total_malloced", bytes);
}

fn connections<H: Host>(turn: &mut Turn<'_, H>, form: Form) {
    let now_ms = turn.now_ms();
    for client in turn.host.clients() {
        if client.protocol != ProtocolName::Memcached {
            continue;
        }
        let idle_s = now_ms.saturating_sub(client.active_at_ms.load(Relaxed)) / 1000;
        let fd = client.fd;
        let sheet = &mut Sheet { out: turn.out, form };
        sheet.stat(format_args!("{fd}:addr"), format_args!("tcp:{}", client.address));
        sheet.stat(format_args!("{fd}:listen_addr"), format_args!("tcp:{}", client.local_address));
        sheet.stat(format_args!("{fd}:secs_since_last_cmd"), idle_s);
    }
}
