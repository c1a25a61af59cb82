//! `report` and `status`: statistics under the names that Kyoto Tycoon's tools expect.
//!
//! `report` omits what this server does not know, as Kyoto Tycoon does on systems that do not
//! report it. In `status`, a name without a meaning here has the value 0, or -1 for no limit.

use super::database::{KyotoDatabase, KyotoKind};
use super::failure::Failure;
use super::inputs::Inputs;
use super::outcome::{Outcome, order};
use super::outputs::Outputs;
use super::records::Done;
use super::table::{COUNTS, Count};
use super::turn::Turn;
use crate::Host;
use std::fmt::{Display, Write};
use todana_command::{Command, DatabaseCommand};
use todana_protocol::{CommandStats, ProtocolName, ServerInfo};
use todana_table::{Comparison, Counts, KeyOrder, Keyspace};

/// The release whose protocol this server implements.
const KYOTO_VERSION: &str = "0.9.56";

/// Rows that a slice of `echo` returns.
const SLICE_ROWS: usize = 4096;

/// Bytes after which a slice of `echo` ends.
const SLICE_BYTES: usize = 256 << 10;

/// `echo`, in progress: the number of fields returned so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    position: usize,
}

impl Echo {
    /// Continues for a slice. True when all fields are returned.
    pub(super) fn step(&mut self, inputs: &Inputs<'_>, outputs: &mut Outputs) -> bool {
        let (signals, start) = (inputs.has(b"SIGNAL"), outputs.bytes());
        for _ in 0..SLICE_ROWS {
            let Some((name, value)) = inputs.next_field(&mut self.position) else { return true };
            // This name belongs to the signal.
            if !(signals && name == b"SIGNALED") {
                outputs.insert(name, value);
            }
            if outputs.bytes() - start > SLICE_BYTES {
                break;
            }
        }
        false
    }
}

/// `status`.
pub(super) fn status<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    outputs: &mut Outputs,
) -> Done {
    let count = count(turn, database)?;
    let info = turn.host.server_info();
    let counts = info.databases.get(database).copied().unwrap_or_default();
    let key_order = turn.host.databases().table(database).order();
    let settings = turn.database(database);
    let mut rows = Rows { outputs, text: String::new() };
    rows.add("count", count);
    rows.add("size", size(&counts));
    rows.add("path", &settings.name);
    rows.add("type", settings.kind.number());
    rows.add("realtype", settings.kind.number());
    rows.add("ktopts", if settings.persistent { 2 } else { 0 });
    rows.add("ktcapcnt", limit(settings.entries_max));
    rows.add("ktcapsiz", limit(settings.bytes_max));
    if matches!(settings.kind, KyotoKind::CacheHash | KyotoKind::CacheTree) {
        cache(&mut rows, settings);
    }
    if settings.kind.is_durable() {
        file(&mut rows, size(&counts));
    }
    if matches!(settings.kind, KyotoKind::CacheTree | KyotoKind::FileTree) {
        tree(&mut rows, &counts, key_order);
    }
    Ok(())
}

fn cache(rows: &mut Rows<'_>, settings: &KyotoDatabase) {
    rows.add("capcnt", limit(settings.cache_entries_max));
    rows.add("capsiz", limit(settings.cache_bytes_max));
    // There are no buckets, formats or files that these could describe.
    for name in ["bnum", "chksum", "fmtver", "librev", "libver", "opts", "recovered", "reorganized"]
    {
        rows.add(name, 0);
    }
}

/// The names of a database in a file. There is no file of one database: the log holds them all.
fn file(rows: &mut Rows<'_>, bytes: u64) {
    rows.add("realsize", bytes);
    for name in [
        "apow",
        "bnum",
        "chksum",
        "dfunit",
        "flags",
        "fmtver",
        "fpow",
        "frgcnt",
        "librev",
        "libver",
        "msiz",
        "opts",
        "recovered",
        "reorganized",
        "trimmed",
    ] {
        rows.add(name, 0);
    }
}

fn tree(rows: &mut Rows<'_>, counts: &Counts, order: Option<KeyOrder>) {
    // All records are in memory; there are no pages.
    rows.add("cusage", counts.bytes);
    for name in ["first", "icnt", "last", "lcnt", "pccap", "pnum", "psiz", "root"] {
        rows.add(name, 0);
    }
    rows.add(
        "rcomp",
        match order.unwrap_or_default() {
            KeyOrder { comparison: Comparison::Lexical, descending: false } => "lexical",
            KeyOrder { comparison: Comparison::Lexical, descending: true } => "lexicaldesc",
            KeyOrder { comparison: Comparison::Decimal, descending: false } => "decimal",
            KeyOrder { comparison: Comparison::Decimal, descending: true } => "decimaldesc",
        },
    );
}

/// `report`.
pub(super) fn report<H: Host>(turn: &mut Turn<'_, H>, outputs: &mut Outputs) -> Done {
    let databases = turn.settings().databases.len();
    let counts = (0..databases)
        .map(|database| count(turn, database))
        .collect::<Result<Vec<i64>, Failure>>()?;
    let info = turn.host.server_info();
    let now_us = turn.host.now_us();
    let stats = turn.host.command_stats(ProtocolName::Kyoto);
    let mut rows = Rows { outputs, text: String::new() };
    let (mut total_count, mut total_size) = (0_i64, 0_u64);
    for (database, (count, settings)) in counts.iter().zip(&turn.settings().databases).enumerate() {
        let size = info.databases.get(database).map_or(0, size);
        total_count = total_count.saturating_add(*count);
        total_size = total_size.saturating_add(size);
        let path = &settings.name;
        rows.add(&format!("db_{database}"), format_args!("count={count} size={size} path={path}"));
    }
    rows.add("db_total_count", total_count);
    rows.add("db_total_size", total_size);
    server(&mut rows, &info, now_us);
    counters(&mut rows, &stats);
    let version = &info.version;
    rows.add("conf_kt_version", format_args!("{KYOTO_VERSION} (Todana {version})"));
    rows.add("conf_kt_features", "(memory)(expiry)(signal)");
    rows.add("conf_kc_version", format_args!("(Todana {version})"));
    rows.add("conf_kc_features", "(memory)(ordered)");
    rows.add("conf_os_name", std::env::consts::OS);
    Ok(())
}

fn server(rows: &mut Rows<'_>, info: &ServerInfo, now_us: u64) {
    let running_us = now_us.saturating_sub(info.started_at_ms.saturating_mul(1000));
    let [_, _, connections] = info.connections_by_protocol;
    rows.add("serv_conn_count", connections);
    // Requests do not queue for a thread: the event loop that reads a request executes it.
    rows.add("serv_task_count", 0);
    rows.add("serv_thread_count", info.event_loops);
    rows.add("serv_current_time", seconds(now_us));
    rows.add("serv_running_term", seconds(running_us));
    rows.add("serv_proc_id", info.process_id);
    rows.add("sys_mem_peak", info.resident_bytes_peak);
    rows.add("sys_mem_rss", info.resident_bytes);
    if info.system_memory_bytes > 0 {
        rows.add("sys_mem_total", info.system_memory_bytes);
    }
    let [system_s, user_s] = info.cpu_seconds;
    rows.add("sys_ru_utime", format_args!("{user_s:.6}"));
    rows.add("sys_ru_stime", format_args!("{system_s:.6}"));
}

/// Calls and failed calls, by group of procedures.
fn counters(rows: &mut Rows<'_>, stats: &[CommandStats]) {
    let [mut set, mut remove, mut get, mut script, mut misc] = [(0_u64, 0_u64); 5];
    for (count, row) in COUNTS.iter().zip(stats) {
        let add = |group: &mut (u64, u64)| {
            group.0 = group.0.saturating_add(row.calls);
            group.1 = group.1.saturating_add(row.errors);
        };
        match count {
            Count::Set => add(&mut set),
            Count::Remove => add(&mut remove),
            Count::Get => add(&mut get),
            Count::GetAndRemove => {
                add(&mut get);
                add(&mut remove);
            }
            Count::Script => add(&mut script),
            Count::Misc => add(&mut misc),
            Count::None => {}
        }
    }
    rows.add("cnt_set", set.0);
    rows.add("cnt_set_misses", set.1);
    rows.add("cnt_remove", remove.0);
    rows.add("cnt_remove_misses", remove.1);
    rows.add("cnt_get", get.0);
    rows.add("cnt_get_misses", get.1);
    rows.add("cnt_script", script.0);
    rows.add("cnt_misc", misc.0);
}

/// Number of records.
fn count<H: Host>(turn: &mut Turn<'_, H>, database: usize) -> Result<i64, Failure> {
    match order(turn, database, &Command::Database(DatabaseCommand::Count))? {
        Outcome::Number(count) => Ok(count),
        _ => Ok(0),
    }
}

fn size(counts: &Counts) -> u64 {
    counts.bytes.saturating_add(counts.index_bytes)
}

/// A limit, or -1.
fn limit(max: Option<u64>) -> i64 {
    max.map_or(-1, |max| i64::try_from(max).unwrap_or(i64::MAX))
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Rows of statistics.
struct Rows<'o> {
    outputs: &'o mut Outputs,
    text: String,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, value: impl Display) {
        self.text.clear();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{value}");
        self.outputs.insert(name.as_bytes(), self.text.as_bytes());
    }
}
