//! Measures the speed of one thread, and the bytes of an entry.
//!
//! ```text
//! cargo run --release -p todana_table --example measure            everything
//! cargo run --release -p todana_table --example measure speed      ns per operation
//! cargo run --release -p todana_table --example measure threads    two threads on the same keys
//! cargo run --release -p todana_table --example measure eviction   hit ratio, ns per write
//! cargo run --release -p todana_table --example measure expiry     CPU time per expired entry
//! cargo run --release -p todana_table --example measure memory     resident bytes per entry
//! ```
//!
//! Memory is measured in a child process for each case, as growth of the resident set (Linux only),
//! with sixteen tables in one budget of which one is used, like a server's databases.

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use todana_table::{Budget, Keyspace, Limits, Meta, Options, Table, WhenFull};

const KEY_BYTES: usize = 16;
const NOW_MS: u64 = 1_800_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            speed();
            threads();
            eviction();
            expiry();
            memory();
        }
        ["eviction"] => eviction(),
        ["expiry"] => expiry(),
        ["speed"] => speed(),
        ["threads"] => threads(),
        ["memory"] => memory(),
        ["resident", entries, value_bytes, expiry] => resident(
            entries.parse().expect("a number"),
            value_bytes.parse().expect("a number"),
            expiry == "expiring",
        ),
        _ => eprintln!("usage: measure [speed | threads | eviction | expiry | memory]"),
    }
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn put(table: &Table, key: &[u8], value: &[u8]) {
    let put = table.update(key, NOW_MS, |record| record.put(&[value], Meta::default()));
    put.expect("room");
}

fn speed() {
    println!("ns per operation, one thread, keys in pseudo-random order");
    println!(
        "{:>9} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "entries", "value", "read", "miss", "replace", "limited"
    );
    for entries in [1_000, 1_000_000] {
        for value_bytes in [16, 100, 1_000] {
            if entries * value_bytes as u64 <= 200_000_000 {
                speed_of(entries, value_bytes);
            }
        }
    }
}

fn speed_of(entries: u64, value_bytes: usize) {
    let keys: Vec<_> = (0..entries).map(key).collect();
    let value = vec![b'v'; value_bytes];
    let table = Table::new(Options::default());
    keys.iter().for_each(|key| put(&table, key, &value));
    let order: Vec<usize> = shuffled(keys.len());
    let mut copy = vec![0u8; value_bytes];
    let read = |table: &Table, key: &[u8], copy: &mut [u8]| {
        table.read(key, NOW_MS, |entry| {
            entry.map(|entry| copy.copy_from_slice(entry.stored().bytes()))
        })
    };
    let reads = time(&order, |i| {
        black_box(read(&table, black_box(&keys[i]), &mut copy));
    });
    let misses = time(&order, |i| {
        black_box(read(&table, black_box(&keys[i][1..]), &mut copy));
    });
    let replaces = time(&order, |i| put(&table, black_box(&keys[i]), &value));
    table.set_limits(Limits { entries_max: Some(u64::MAX / 4), ..Limits::default() });
    let limited = time(&order, |i| {
        black_box(read(&table, black_box(&keys[i]), &mut copy));
    });
    println!(
        "{entries:>9} {value_bytes:>6} {reads:>8.1} {misses:>8.1} {replaces:>8.1} {limited:>8.1}"
    );
}

/// The best of several rounds over all indexes.
fn time(order: &[usize], mut operation: impl FnMut(usize)) -> f64 {
    let rounds = (3_000_000 / order.len()).max(1);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..rounds {
            order.iter().for_each(|&i| operation(i));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (rounds * order.len()) as f64);
    }
    best
}

fn shuffled(len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for last in (1..len).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}

/// Two threads on the same 1,000 keys.
fn threads() {
    const KEYS: u64 = 1_000;
    println!("million operations per second, {KEYS} keys, 16-byte values");
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let table = &Table::new(Options::default());
    keys.iter().for_each(|key| put(table, key, &[b'v'; 16]));
    let order = shuffled(keys.len());
    let other_order: Vec<usize> = order.iter().rev().copied().collect();
    let read = |i: usize| {
        black_box(table.read_in_place(&keys[i], NOW_MS, |entry| {
            entry.map(|entry| <[u8; 16]>::try_from(entry.stored().bytes()).expect("16 bytes"))
        }));
    };
    let locked = |i: usize| {
        black_box(table.read(&keys[i], NOW_MS, |entry| entry.is_some()));
    };
    let write = |i: usize| put(table, &keys[i], &[b'v'; 16]);
    // Every `n`th operation is a write.
    let mixed = |n: usize| {
        let count = std::cell::Cell::new(0usize);
        move |i: usize| {
            count.set(count.get() + 1);
            if count.get().is_multiple_of(n) { write(i) } else { read(i) }
        }
    };
    let show = |name: &str, rates: &[f64]| {
        let all: Vec<String> = rates.iter().map(|rate| format!("{rate:7.2}")).collect();
        println!("{name:>40}: {}", all.join(" "));
    };
    for _ in 0..3 {
        show("in-place reads, one thread", &[alone((&order, read))]);
        show("in-place reads, two threads", &both((&order, read), (&other_order, read)));
        show("locked reads, one thread", &[alone((&order, locked))]);
        show("writes, one thread", &[alone((&order, write))]);
        show("writes | in-place reads", &both((&order, write), (&other_order, read)));
        show("writes | locked reads", &both((&order, write), (&other_order, locked)));
        for n in [2, 10, 30, 100] {
            show(&format!("one write in {n}, one thread"), &[alone((&order, mixed(n)))]);
            let rates = both((&order, mixed(n)), (&other_order, mixed(n)));
            show(&format!("one write in {n}, two threads"), &rates);
        }
    }
}

/// Millions of operations in a second.
fn rate(order: &[usize], operation: impl Fn(usize)) -> f64 {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed().as_millis() < 400 {
        order.iter().for_each(|&i| operation(i));
        count += order.len();
    }
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// On a thread of its own, like [`both`], so that one and two threads run the same code.
fn alone(one: Load<'_, impl Fn(usize) + Send>) -> f64 {
    let run = move || rate(one.0, one.1);
    std::thread::scope(|scope| scope.spawn(run).join().expect("a rate"))
}

type Load<'a, O> = (&'a [usize], O);

fn both(one: Load<'_, impl Fn(usize) + Send>, other: Load<'_, impl Fn(usize) + Send>) -> [f64; 2] {
    std::thread::scope(|scope| {
        let one = scope.spawn(move || rate(one.0, one.1));
        let other = scope.spawn(move || rate(other.0, other.1));
        [one.join().expect("a rate"), other.join().expect("a rate")]
    })
}

/// A cache for a tenth of the keys, requested with a Zipf distribution; misses are filled.
fn eviction() {
    println!(
        "eviction: keys, limit, hit ratio of a Zipf load (0.99), ns per write of a new key at the \
         limit"
    );
    for limit in [100, 1_000, 10_000, 100_000] {
        let limits = Limits { entries_max: Some(limit), ..Limits::default() };
        let table = Table::new(Options { limits, ..Options::default() });
        let keys = limit * 10;
        let mut zipf = Zipf::new(keys as usize);
        let (mut hits, requests) = (0u64, 2_000_000);
        for request in 0..requests * 2 {
            let key = key(zipf.next());
            let hit = table.read(&key, NOW_MS, |entry| entry.is_some());
            if !hit {
                put(&table, &key, b"value");
            }
            hits += u64::from(hit && request >= requests);
        }
        let start = Instant::now();
        let writes = 300_000;
        (0..writes).for_each(|number| put(&table, &key(keys + number), b"value"));
        let each = start.elapsed().as_nanos() as f64 / writes as f64;
        println!("{keys:>9} {limit:>9} {:>7.3} {each:>8.1}", hits as f64 / requests as f64);
    }
}

/// Numbers below `len`, small ones more likely.
struct Zipf {
    cumulative: Vec<f64>,
    state: u64,
}

impl Zipf {
    fn new(len: usize) -> Zipf {
        let mut sum = 0.0;
        let mut add = |rank: usize| {
            sum += (rank as f64 + 1.0).powf(-0.99);
            sum
        };
        Zipf { cumulative: (0..len).map(&mut add).collect(), state: 88_172_645_463_325_252 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let total = self.cumulative[self.cumulative.len() - 1];
        let dice = (self.state >> 11) as f64 / (1u64 << 53) as f64 * total;
        self.cumulative.partition_point(|&sum| sum < dice) as u64
    }
}

/// Entries that expire at a steady rate: one thousandth of the table after another.
fn expiry() {
    println!("expiry: entries, CPU time in us for each of those that expire, keys in random order");
    for entries in [1_000_000, 4_000_000, 10_000_000] {
        let table = Table::new(Options::default());
        let life_ms = 1_000_000;
        for number in shuffled(entries as usize) {
            let after = number as u64 * life_ms / entries;
            let meta = Meta { expires_at_ms: Some(NOW_MS + after), ..Meta::default() };
            let put = table.update(&key(number as u64), NOW_MS, |record| record.put(&[b"v"], meta));
            put.expect("room");
        }
        let (start, mut removed) = (cpu_ns(), 0);
        // The sweeper runs every 100 ms.
        for step in 1..=30 {
            loop {
                let (some, more) = table.sweep(NOW_MS + step * 100, 512);
                removed += some;
                if !more {
                    break;
                }
            }
        }
        let each = (cpu_ns() - start) as f64 / 1e3 / removed as f64;
        println!("{entries:>9} {removed:>7} {each:>8.2}");
    }
}

/// CPU time of the main thread (Linux only).
fn cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

fn memory() {
    println!("resident bytes per entry, 16-byte keys (in brackets: accounted entry + index)");
    let this = std::env::current_exe().expect("our own path");
    for expiry in ["lasting", "expiring"] {
        println!("{expiry}");
        for value_bytes in ["16", "100", "1000"] {
            for entries in ["100000", "200000", "300000", "500000", "700000", "1000000"] {
                let arguments = ["resident", entries, value_bytes, expiry];
                let child = Command::new(&this).args(arguments).output();
                print!("{}", String::from_utf8_lossy(&child.expect("a child").stdout));
            }
        }
    }
}

fn resident(entries: u64, value_bytes: usize, expiring: bool) {
    let budget = Arc::new(Budget::new(i64::MAX, WhenFull::Evict));
    let options = || Options { budget: Some(Arc::clone(&budget)), ..Options::default() };
    let value = vec![b'v'; value_bytes];
    // Code becomes resident when it first runs; do not count it.
    let warm_up = Table::new(Options { shards: Some(2), ..options() });
    (0..50).for_each(|number| put(&warm_up, &key(number), b"v"));
    drop(warm_up);
    let before = resident_bytes();
    let tables: Vec<Table> = (0..16).map(|_| Table::new(options())).collect();
    for number in 0..entries {
        let expires_at_ms = expiring.then_some(NOW_MS + mixed(number) % 86_400_000);
        let meta = Meta { expires_at_ms, ..Meta::default() };
        let put = tables[0].update(&key(number), NOW_MS, |record| record.put(&[&value], meta));
        put.expect("room");
    }
    let each = |bytes: u64| bytes as f64 / entries as f64;
    let counts = tables[0].counts();
    println!(
        "{entries:>9} x {value_bytes:>5}: {:7.1}   ({:.1} + {:.1})",
        each(resident_bytes() - before),
        each(counts.bytes),
        each(counts.index_bytes)
    );
}

/// Spreads a number over all bits.
fn mixed(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(29)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 =
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4_096
}
