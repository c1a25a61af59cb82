//! INFO: statistics of the server in the sections and names that clients and exporters expect.

use super::call::{Call, Done};
use super::flow::Flow;
use super::{COMMANDS, ERROR_CODES, REDIS_VERSION};
use crate::Host;
use std::fmt::Write;
use todana_command::ScriptMemory;
use todana_protocol::{CommandStats, Persistence, ProtocolName, ServerInfo};

/// The sections in order, and whether INFO without arguments includes them.
const SECTIONS: [(&str, bool); 13] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
    ("keyspace", true),
];

impl<H: Host> Call<'_, '_, H> {
    pub(super) fn info(&mut self) -> Done {
        let wanted = wanted(&self.arguments[1..]);
        let info = self.host.server_info();
        let mut text = String::new();
        for ((section, _), _) in SECTIONS.iter().zip(wanted).filter(|(_, wanted)| *wanted) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let title = [section[..1].to_ascii_uppercase().as_str(), &section[1..]].concat();
            text.push_str(&format!("# {}\r\n", if title == "Cpu" { "CPU" } else { &title }));
            write_lines(self.section(section, &info), &mut text);
        }
        self.encoder.verbatim(text.as_bytes());
        Ok(Flow::Continue)
    }

    fn section(&self, section: &str, info: &ServerInfo) -> Fields {
        let stats = || self.host.command_stats(ProtocolName::Resp);
        match section {
            "server" => server(info, self.host.now_us(), self.host.client().redirects),
            "clients" => clients(info, &self.watching()),
            "memory" => {
                let interpreter = self.host.databases().interpreter();
                memory(info, interpreter.map(|it| it.memory()).unwrap_or_default())
            }
            "persistence" => persistence(&self.host.persistence(), info),
            "stats" => statistics(info),
            "replication" => self.replication(),
            "cpu" => cpu(info),
            "commandstats" => command_statistics(&stats()),
            "latencystats" => latency_statistics(&stats()),
            "cluster" => {
                vec![field("cluster_enabled", u8::from(self.host.client().redirects))]
            }
            "errorstats" => error_statistics(info),
            "keyspace" => keyspace(info),
            _ => Vec::new(),
        }
    }

    /// Clients that watch keys, and the keys they watch.
    fn watching(&self) -> (usize, usize) {
        let watched = |client: &std::sync::Arc<todana_protocol::Client>| {
            client.watched.load(std::sync::atomic::Ordering::Relaxed)
        };
        let watched: Vec<usize> = self.host.clients().iter().map(watched).collect();
        (watched.iter().filter(|keys| **keys > 0).count(), watched.iter().sum())
    }
}

pub(super) type Fields = Vec<(String, String)>;

pub(super) fn field(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// Appends a line for each field.
pub(super) fn write_lines(fields: Fields, text: &mut String) {
    for (name, value) in fields {
        // Writing to a string does not fail.
        let _ = write!(text, "{name}:{value}\r\n");
    }
}

/// The requested sections.
fn wanted(arguments: &[&[u8]]) -> [bool; SECTIONS.len()] {
    let mut wanted = SECTIONS.map(|(_, by_default)| by_default && arguments.is_empty());
    for argument in arguments {
        let word = argument.to_ascii_lowercase();
        for ((section, by_default), wanted) in SECTIONS.iter().zip(&mut wanted) {
            *wanted |= match word.as_slice() {
                b"default" => *by_default,
                b"all" => *section != "modules",
                b"everything" => true,
                word => word == section.as_bytes(),
            };
        }
    }
    wanted
}

fn server(info: &ServerInfo, now_us: u64, redirects: bool) -> Fields {
    let uptime_s = (now_us / 1000).saturating_sub(info.started_at_ms) / 1000;
    vec![
        field("redis_version", REDIS_VERSION),
        field("todana_version", &info.version),
        field("redis_git_sha1", "00000000"),
        field("redis_git_dirty", 0),
        field("redis_build_id", "0"),
        field("redis_mode", if redirects { "cluster" } else { "standalone" }),
        field("os", std::env::consts::OS),
        field("arch_bits", usize::BITS),
        field("monotonic_clock", "POSIX clock_gettime"),
        field("multiplexing_api", &info.event_backend),
        field("atomicvar_api", "rust-atomics"),
        field("process_id", info.process_id),
        field("process_supervised", "no"),
        field("run_id", &info.run_id),
        field("tcp_port", info.resp_port),
        field("memcached_port", info.memcached_port),
        field("kyoto_port", info.kyoto_port),
        field("server_time_usec", now_us),
        field("uptime_in_seconds", uptime_s),
        field("uptime_in_days", uptime_s / 86_400),
        field("hz", 10),
        field("configured_hz", 10),
        field("executable", ""),
        field("config_file", &info.config_file),
        field("io_threads_active", usize::from(info.event_loops > 1)),
        field("event_loops", info.event_loops),
        field("event_loops_in_use", info.event_loops_in_use),
        field("connections_moved", info.connections_moved),
    ]
}

fn clients(info: &ServerInfo, watching: &(usize, usize)) -> Fields {
    vec![
        field("connected_clients", info.connections),
        field("cluster_connections", 0),
        field("maxclients", info.connections_max),
        field("client_recent_max_input_buffer", 0),
        field("client_recent_max_output_buffer", 0),
        field("blocked_clients", info.blocked_clients),
        field("tracking_clients", info.tracking_clients),
        field("pubsub_clients", info.subscribed_clients),
        field("clients_in_timeout_table", 0),
        field("total_watched_keys", watching.1),
        field("watching_clients", watching.0),
        field("total_blocking_keys", 0),
        field("connected_resp_clients", info.connections_by_protocol[0]),
        field("connected_memcached_clients", info.connections_by_protocol[1]),
        field("connected_kyoto_clients", info.connections_by_protocol[2]),
        field("peak_clients", info.connections_peak),
    ]
}

/// Bytes in human-readable form: `1.50M`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.2}{}", UNITS[unit])
}

/// Bytes of the store: entries, indexes, clients' buffers.
pub(super) fn used_bytes(info: &ServerInfo) -> u64 {
    let tables: u64 = info.databases.iter().map(|it| it.bytes + it.index_bytes).sum();
    tables + info.client_buffer_bytes
}

/// The resident bytes, compared with those that are accounted for: the store, and what the process
/// held when the server started, which is mostly the Erlang node. Also the difference.
pub(super) fn fragmentation(info: &ServerInfo) -> (f64, i128) {
    let known = used_bytes(info) + info.startup_bytes;
    let waste = i128::from(info.resident_bytes) - i128::from(known);
    (if known == 0 { 1.0 } else { info.resident_bytes as f64 / known as f64 }, waste)
}

/// Bytes per second as Redis reports them: in KiB, with two digits.
fn kib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1024.0)
}

fn memory(info: &ServerInfo, scripts: ScriptMemory) -> Fields {
    let used = used_bytes(info);
    let dataset: u64 = info.databases.iter().map(|it| it.bytes).sum();
    let peak = info.resident_bytes_peak.max(used);
    let percent = |part: u64, whole: u64| {
        format!("{:.2}%", if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 })
    };
    let (ratio, waste) = fragmentation(info);
    let policy = match info.memory_policy.as_str() {
        "" => "noeviction",
        policy => policy,
    };
    vec![
        field("used_memory", used),
        field("used_memory_human", human(used)),
        field("used_memory_rss", info.resident_bytes),
        field("used_memory_rss_human", human(info.resident_bytes)),
        field("used_memory_peak", peak),
        field("used_memory_peak_human", human(peak)),
        field("used_memory_peak_perc", percent(used, peak)),
        field("used_memory_overhead", used - dataset),
        field("used_memory_startup", 0),
        field("process_startup_memory", info.startup_bytes),
        field("used_memory_dataset", dataset),
        field("used_memory_dataset_perc", percent(dataset, used)),
        field("allocator_allocated", used),
        field("allocator_active", info.resident_bytes),
        field("allocator_resident", info.resident_bytes),
        field("total_system_memory", info.system_memory_bytes),
        field("total_system_memory_human", human(info.system_memory_bytes)),
        field("used_memory_lua", scripts.interpreter_bytes),
        field("used_memory_vm_eval", scripts.interpreter_bytes),
        field("used_memory_scripts_eval", scripts.source_bytes),
        field("used_memory_scripts", scripts.source_bytes),
        field("used_memory_functions", 0),
        field("number_of_cached_scripts", scripts.scripts),
        field("number_of_functions", 0),
        field("maxmemory", info.memory_limit_bytes),
        field("maxmemory_human", human(info.memory_limit_bytes)),
        field("maxmemory_policy", policy),
        field("maxmemory_clients", info.clients_memory_limit_bytes),
        field("allocator_frag_ratio", "1.00"),
        field("allocator_frag_bytes", 0),
        field("allocator_rss_ratio", "1.00"),
        field("allocator_rss_bytes", 0),
        field("rss_overhead_ratio", "1.00"),
        field("rss_overhead_bytes", 0),
        field("mem_fragmentation_ratio", format!("{ratio:.2}")),
        field("mem_fragmentation_bytes", waste),
        field("mem_not_counted_for_evict", 0),
        field("mem_replication_backlog", 0),
        field("mem_total_replication_buffers", 0),
        field("mem_clients_slaves", 0),
        field("mem_clients_normal", info.client_buffer_bytes),
        field("mem_cluster_links", 0),
        field("mem_aof_buffer", 0),
        field("mem_allocator", "libc"),
        field("active_defrag_running", 0),
        field("lazyfree_pending_objects", 0),
        field("lazyfreed_objects", 0),
    ]
}

/// The fields exist in a server without a log too: monitors raise alarms if they are missing.
fn persistence(now: &Persistence, info: &ServerInfo) -> Fields {
    let is = |condition: bool| u64::from(condition);
    let status = |failed: bool| if failed { "err" } else { "ok" };
    let last_seconds = now.snapshot_seconds.map_or(-1, |seconds| seconds as i64);
    let saved_at_s = match now.snapshot_at_s {
        0 => info.started_at_ms / 1000,
        at_s => at_s,
    };
    let mut fields = vec![
        field("loading", is(now.loading)),
        field("async_loading", 0),
        field("rdb_changes_since_last_save", now.changes),
        field("rdb_bgsave_in_progress", is(now.snapshot_in_progress)),
        field("rdb_last_save_time", saved_at_s),
        field("rdb_last_bgsave_status", status(now.snapshot_failed)),
        field("rdb_last_bgsave_time_sec", last_seconds),
        field("rdb_current_bgsave_time_sec", -1),
        field("rdb_saves", now.snapshots),
        field("rdb_last_cow_size", 0),
        field("aof_enabled", is(now.is_durable())),
        field("aof_rewrite_in_progress", is(now.snapshot_in_progress)),
        field("aof_rewrite_scheduled", 0),
        field("aof_last_rewrite_time_sec", last_seconds),
        field("aof_current_rewrite_time_sec", -1),
        field("aof_last_bgrewrite_status", status(now.snapshot_failed)),
        field("aof_last_write_status", status(now.is_durable() && !now.writable && !now.loading)),
        field("aof_last_cow_size", 0),
    ];
    if now.is_durable() {
        fields.extend([
            field("aof_current_size", now.snapshot_bytes.saturating_add(now.log_bytes)),
            field("aof_base_size", now.snapshot_bytes),
            field("aof_pending_rewrite", 0),
            field("aof_buffer_length", 0),
            field("aof_pending_bio_fsync", 0),
            field("aof_delayed_fsync", 0),
        ]);
        let percentiles = |(p50, p99): (u64, u64)| format!("p50={p50},p99={p99}");
        let times = [("log_commit_usec", now.commit_us), ("log_fsync_usec", now.fsync_us)];
        let known = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
        fields.extend(known.map(|(name, time)| field(name, percentiles(time))));
    }
    if now.loading {
        fields.push(field("loading_loaded_perc", now.loading_percent));
    }
    fields
}

fn statistics(info: &ServerInfo) -> Fields {
    let [channels, patterns, shards] = info.topics;
    let [keys, items, prefixes] = info.tracked;
    let sum = |what: fn(&todana_table::Counts) -> u64| info.databases.iter().map(what).sum::<u64>();
    vec![
        field("total_connections_received", info.connections_total),
        field("total_commands_processed", info.commands),
        field("instantaneous_ops_per_sec", info.commands_per_second),
        field("total_net_input_bytes", info.input_bytes),
        field("total_net_output_bytes", info.output_bytes),
        field("total_net_repl_input_bytes", 0),
        field("total_net_repl_output_bytes", 0),
        field("instantaneous_input_kbps", kib(info.traffic_per_second[0])),
        field("instantaneous_output_kbps", kib(info.traffic_per_second[1])),
        field("rejected_connections", info.connections_rejected),
        field("sync_full", 0),
        field("sync_partial_ok", 0),
        field("sync_partial_err", 0),
        field("expired_keys", sum(|it| it.expired)),
        field("expired_stale_perc", "0.00"),
        field("expired_time_cap_reached_count", 0),
        field("expire_cycle_cpu_milliseconds", 0),
        field("evicted_keys", sum(|it| it.evicted)),
        field("evicted_clients", info.evicted_clients),
        field("refused_writes", sum(|it| it.refused)),
        field("total_eviction_exceeded_time", 0),
        field("current_eviction_exceeded_time", 0),
        field("keyspace_hits", info.hits),
        field("keyspace_misses", info.misses),
        field("pubsub_channels", channels),
        field("pubsub_patterns", patterns),
        field("pubsubshard_channels", shards),
        field("latest_fork_usec", 0),
        field("total_forks", 0),
        field("migrate_cached_sockets", 0),
        field("slave_expires_tracked_keys", 0),
        field("active_defrag_hits", 0),
        field("active_defrag_misses", 0),
        field("active_defrag_key_hits", 0),
        field("active_defrag_key_misses", 0),
        field("tracking_total_keys", keys),
        field("tracking_total_items", items),
        field("tracking_total_prefixes", prefixes),
        field("unexpected_error_replies", 0),
        field("total_error_replies", info.errors),
        field("dump_payload_sanitizations", 0),
        field("total_reads_processed", info.transfers[0]),
        field("total_writes_processed", info.transfers[1]),
        field("acl_access_denied_auth", info.authentication_failures),
        field("acl_access_denied_cmd", 0),
        field("acl_access_denied_key", 0),
        field("acl_access_denied_channel", 0),
        field("client_output_buffer_limit_disconnections", info.output_limit_disconnections),
        field("dropped_messages", info.dropped_messages),
    ]
}

fn cpu(info: &ServerInfo) -> Fields {
    let [system, user] = info.cpu_seconds;
    let names =
        ["used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children"];
    let seconds = [system, user, 0.0, 0.0];
    names.iter().zip(seconds).map(|(name, it)| field(name, format!("{it:.6}"))).collect()
}

/// Commands with at least one call, by name.
pub(super) fn called(
    stats: &[CommandStats],
) -> impl Iterator<Item = (&'static str, &CommandStats)> {
    COMMANDS.iter().copied().zip(stats).filter(|(_, stats)| stats.calls > 0)
}

fn command_statistics(stats: &[CommandStats]) -> Fields {
    let fields = |(name, stats): (&str, &CommandStats)| {
        let CommandStats { calls, errors, micros, .. } = stats;
        let each = micros / *calls as f64;
        let value = format!(
            "calls={calls},usec={micros:.0},usec_per_call={each:.2},\
             rejected_calls=0,failed_calls={errors}"
        );
        field(&format!("cmdstat_{name}"), value)
    };
    called(stats).map(fields).collect()
}

fn latency_statistics(stats: &[CommandStats]) -> Fields {
    let fields = |(name, stats): (&str, &CommandStats)| {
        let [p50, p99, p999] = stats.percentiles_us;
        let value = format!("p50={p50:.3},p99={p99:.3},p99.9={p999:.3}");
        field(&format!("latency_percentiles_usec_{name}"), value)
    };
    called(stats).map(fields).collect()
}

/// The first words of errors that were sent.
fn error_statistics(info: &ServerInfo) -> Fields {
    let counts = ERROR_CODES.iter().zip(&info.errors_by_code).filter(|(_, count)| **count > 0);
    counts
        .map(|(code, count)| field(&format!("errorstat_{code}"), format!("count={count}")))
        .collect()
}

fn keyspace(info: &ServerInfo) -> Fields {
    let filled = info.databases.iter().enumerate().filter(|(_, counts)| counts.entries > 0);
    let fields = |(number, counts): (usize, &todana_table::Counts)| {
        let (keys, expires) = (counts.entries, counts.entries_with_expiry);
        let ttl_ms = info.mean_ttl_ms.get(number).copied().unwrap_or(0);
        field(&format!("db{number}"), format!("keys={keys},expires={expires},avg_ttl={ttl_ms}"))
    };
    filled.map(fields).collect()
}
