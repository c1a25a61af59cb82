//! `stats`.
//!
//! The names are memcached's, so that its exporters and clients find them. Values that this server
//! does not know or does not have are omitted.

use super::line::Words;
use super::server::version_text;
use super::table::Row;
use super::turn::{DATABASE, Turn};
use crate::{CommandStats, Host, ProtocolName, ServerInfo};
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Answers `stats`; further words are ignored, as in memcached.
pub(super) fn answer<H: Host>(turn: &mut Turn<'_, H>, mut words: Words<'_>, line: &[u8]) {
    let known = match words.next() {
        None => general(turn),
        Some(b"settings") => settings(turn),
        Some(b"items") => items(turn),
        Some(b"slabs") => slabs(turn),
        Some(b"sizes") => {
            stat(turn.out, "sizes_status", "disabled");
            end(turn)
        }
        Some(b"conns") => connections(turn),
        Some(b"reset") => {
            turn.host.reset_stats();
            turn.say("RESET");
            true
        }
        Some(_) => {
            turn.say("ERROR");
            false
        }
    };
    turn.observe(Row::Stats, !known, line);
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

fn general<H: Host>(turn: &mut Turn<'_, H>) -> bool {
    let now_ms = turn.now_ms();
    let info = turn.host.server_info();
    let calls = Calls(turn.host.command_stats(ProtocolName::Memcached));
    let out = &mut *turn.out;
    stat(out, "pid", info.process_id);
    stat(out, "uptime", now_ms.saturating_sub(info.started_at_ms) / 1000);
    stat(out, "time", now_ms / 1000);
    stat(out, "version", version_text(&info.version));
    stat(out, "pointer_size", usize::BITS);
    stat(out, "rusage_user", format_args!("{:.6}", info.cpu_seconds[1]));
    stat(out, "rusage_system", format_args!("{:.6}", info.cpu_seconds[0]));
    stat(out, "max_connections", info.connections_max);
    stat(out, "curr_connections", info.connections);
    stat(out, "total_connections", info.connections_total);
    stat(out, "rejected_connections", info.connections_rejected);
    commands(out, &info, &calls);
    stat(out, "bytes_read", info.input_bytes);
    stat(out, "bytes_written", info.output_bytes);
    stat(out, "limit_maxbytes", info.memory_limit_bytes);
    stat(out, "accepting_conns", 1);
    stat(out, "threads", info.event_loops);
    if let Some(counts) = info.databases.get(DATABASE) {
        stat(out, "hash_bytes", counts.index_bytes);
        stat(out, "bytes", counts.bytes);
        stat(out, "curr_items", counts.entries);
        // Every write creates an item, as in memcached.
        stat(out, "total_items", counts.version);
        stat(out, "evictions", counts.evicted);
        stat(out, "reclaimed", counts.expired);
    }
    end(turn)
}

fn commands(out: &mut Vec<u8>, info: &ServerInfo, calls: &Calls) {
    use Row::{
        Add, Append, Authenticate, Cas, CasBadval, CasMiss, Decr, DecrMiss, Delete, DeleteMiss,
        FlushAll, Incr, IncrMiss, Ma, MaDecr, MaDecrMiss, MaMiss, Md, MdMiss, Me, Mg, Mn, Ms,
        Prepend, Replace, Set, Touch, TouchMiss,
    };
    // Look-ups are counted by key, for all protocols together.
    stat(out, "cmd_get", info.hits.saturating_add(info.misses));
    stat(
        out,
        "cmd_set",
        calls.of(&[Set, Add, Replace, Append, Prepend, Cas, CasMiss, CasBadval, Ms]),
    );
    stat(out, "cmd_flush", calls.good(&[FlushAll]));
    stat(out, "cmd_touch", calls.good(&[Touch, TouchMiss]));
    stat(out, "cmd_meta", calls.of(&[Me, Mg, Ms, Md, MdMiss, Ma, MaMiss, MaDecr, MaDecrMiss, Mn]));
    stat(out, "get_hits", info.hits);
    stat(out, "get_misses", info.misses);
    stat(out, "delete_misses", calls.good(&[DeleteMiss, MdMiss]));
    stat(out, "delete_hits", calls.good(&[Delete, Md]));
    stat(out, "incr_misses", calls.good(&[IncrMiss, MaMiss]));
    stat(out, "incr_hits", calls.good(&[Incr, Ma]));
    stat(out, "decr_misses", calls.good(&[DecrMiss, MaDecrMiss]));
    stat(out, "decr_hits", calls.good(&[Decr, MaDecr]));
    stat(out, "cas_misses", calls.good(&[CasMiss]));
    stat(out, "cas_hits", calls.good(&[Cas]));
    stat(out, "cas_badval", calls.good(&[CasBadval]));
    stat(out, "touch_hits", calls.good(&[Touch]));
    stat(out, "touch_misses", calls.good(&[TouchMiss]));
    stat(out, "auth_cmds", calls.of(&[Authenticate]));
    stat(out, "auth_errors", calls.errors(&[Authenticate]));
}

fn settings<H: Host>(turn: &mut Turn<'_, H>) -> bool {
    let info = turn.host.server_info();
    let inter = turn.host.client().local_address.ip();
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    let needs_password = turn.host.requires_password();
    let item_size_max = turn.value_max();
    let out = &mut *turn.out;
    stat(out, "maxbytes", info.memory_limit_bytes);
    stat(out, "maxconns", info.connections_max);
    stat(out, "tcpport", info.memcached_port);
    stat(out, "udpport", 0);
    stat(out, "inter", inter);
    stat(out, "evictions", if info.memory_policy == "noeviction" { "off" } else { "on" });
    stat(out, "shutdown_command", yes_or_no(false));
    stat(out, "num_threads", info.event_loops);
    stat(out, "cas_enabled", yes_or_no(true));
    stat(out, "auth_enabled_ascii", yes_or_no(needs_password));
    stat(out, "auth_enabled_sasl", yes_or_no(false));
    stat(out, "item_size_max", item_size_max);
    stat(out, "flush_enabled", yes_or_no(true));
    stat(out, "dump_enabled", yes_or_no(false));
    end(turn)
}

/// There are no slab classes; the first class reports all records.
fn items<H: Host>(turn: &mut Turn<'_, H>) -> bool {
    let info = turn.host.server_info();
    if let Some(counts) = info.databases.get(DATABASE).filter(|counts| counts.entries > 0) {
        stat(turn.out, "items:1:number", counts.entries);
        stat(turn.out, "items:1:mem_requested", counts.bytes);
        stat(turn.out, "items:1:evicted", counts.evicted);
        stat(turn.out, "items:1:reclaimed", counts.expired);
    }
    end(turn)
}

/// There are no slab classes; the total is the memory of the entries.
fn slabs<H: Host>(turn: &mut Turn<'_, H>) -> bool {
    let info = turn.host.server_info();
    let bytes = info.databases.get(DATABASE).map_or(0, |counts| counts.bytes);
    stat(turn.out, "active_slabs", 0);
    stat(turn.out, "total_malloced", bytes);
    end(turn)
}

fn connections<H: Host>(turn: &mut Turn<'_, H>) -> bool {
    let now_ms = turn.now_ms();
    for client in turn.host.clients() {
        if client.protocol != ProtocolName::Memcached {
            continue;
        }
        let idle_s = now_ms.saturating_sub(client.active_at_ms.load(Relaxed)) / 1000;
        let fd = client.fd;
        stat(turn.out, format_args!("{fd}:addr"), format_args!("tcp:{}", client.address));
        stat(
            turn.out,
            format_args!("{fd}:listen_addr"),
            format_args!("tcp:{}", client.local_address),
        );
        stat(turn.out, format_args!("{fd}:secs_since_last_cmd"), idle_s);
    }
    end(turn)
}

fn stat(out: &mut Vec<u8>, name: impl Display, value: impl Display) {
    write!(out, "STAT {name} {value}\r\n").expect("a vector takes all bytes");
}

fn end<H: Host>(turn: &mut Turn<'_, H>) -> bool {
    turn.say("END");
    true
}
