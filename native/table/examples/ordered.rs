//! Measures the cost of an order, and the speed of walks.
//!
//! ```text
//! cargo run --release -p todana_table --example ordered          everything
//! cargo run --release -p todana_table --example ordered points   ns per operation, beside a table
//!                                                                without an order
//! cargo run --release -p todana_table --example ordered pages    us for 100 records in order
//! cargo run --release -p todana_table --example ordered memory   bytes of the order per entry
//! ```
//!
//! Runs on the tables of a comparison are interleaved, and each figure is the median of all runs.
//! The same kind of table is measured first and last; the difference between the two shows the
//! noise. Memory is measured in a child process for each case, as growth of the resident set (Linux
//! only).

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use todana_table::{Comparison, KeyOrder, Keyspace, Meta, Options, Table, Walk};

const NOW_MS: u64 = 1_800_000_000_000;
const VALUE: [u8; 16] = [b'v'; 16];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            points();
            pages();
            memory();
        }
        ["points"] => points(),
        ["pages"] => pages(),
        ["memory"] => memory(),
        ["resident", order, arrival, entries] => {
            resident(order, arrival, entries.parse().expect("a number"))
        }
        _ => eprintln!("usage: ordered [points | pages | memory]"),
    }
}

fn table(comparison: Option<Comparison>) -> Table {
    let order = comparison.map(|comparison| KeyOrder { comparison, descending: false });
    Table::new(Options { order, ..Options::default() })
}

/// Sixteen bytes.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn put(table: &Table, key: &[u8]) {
    table.update(key, NOW_MS, |record| record.put(&[&VALUE], Meta::default())).expect("room");
}

fn get(table: &Table, key: &[u8]) {
    let mut copy = [0; 16];
    table
        .read(key, NOW_MS, |entry| entry.map(|entry| copy.copy_from_slice(entry.stored().bytes())));
    black_box(copy);
}

fn remove(table: &Table, key: &[u8]) {
    table.update(key, NOW_MS, |record| record.remove());
}

/// Another seed gives another order: looking up entries in the order of their creation would
/// traverse memory from one end to the other.
fn shuffled(len: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..len).collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ seed);
    for last in (1..order.len()).rev() {
        order.swap(last, dice.roll(last as u64 + 1) as usize);
    }
    order
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

type Operation = (&'static str, fn(&Table, &[u8]));

fn points() {
    const OPERATIONS: [Operation; 4] =
        [("get", get), ("overwrite", put), ("delete", remove), ("insert", put)];
    /// Operations on one table before the next table's run: few enough to be rarely interrupted.
    const TURN: usize = 1_000;
    println!("ns per operation, one thread, 16-byte keys in pseudo-random order");
    println!(
        "{:>9} {:>10} {:>10} {:>10} {:>10}",
        "entries", "operation", "unordered", "ordered", "unordered"
    );
    for entries in [100_000, 1_000_000] {
        let keys: Vec<_> = shuffled(entries, 0).into_iter().map(key).collect();
        let tables = [table(None), table(Some(Comparison::Lexical)), table(None)];
        for table in &tables {
            keys.iter().for_each(|key| put(table, key));
        }
        let mut figures = [const { [const { Vec::new() }; 3] }; OPERATIONS.len()];
        for round in 0..10_000_000 / entries {
            for (number, ((_, operation), figures)) in
                OPERATIONS.iter().zip(&mut figures).enumerate()
            {
                let seed = round * OPERATIONS.len() as u64 + number as u64 + 1;
                let keys: Vec<_> = shuffled(entries, seed).into_iter().map(key).collect();
                for keys in keys.chunks(TURN) {
                    for (table, figures) in tables.iter().zip(&mut *figures) {
                        let start = Instant::now();
                        keys.iter().for_each(|key| operation(table, black_box(key)));
                        figures.push(start.elapsed().as_nanos() as f64 / keys.len() as f64);
                    }
                }
            }
        }
        for ((name, _), figures) in OPERATIONS.iter().zip(figures) {
            let [first, ordered, last] = figures.map(median);
            println!("{entries:>9} {name:>10} {first:>10.1} {ordered:>10.1} {last:>10.1}");
        }
    }
}

fn pages() {
    const COUNT: usize = 100;
    println!("us for {COUNT} records from a random key on, 16-byte keys and values; median, p99");
    for entries in [1_000, 10_000, 100_000, 1_000_000] {
        for reverse in [false, true] {
            let table = table(Some(Comparison::Lexical));
            shuffled(entries, 0).into_iter().for_each(|number| put(&table, &key(number)));
            let mut dice = Dice(88_172_645_463_325_252);
            let mut figures: Vec<f64> =
                (0..20_000).map(|_| page(&table, &mut dice, reverse)).collect();
            figures.sort_by(f64::total_cmp);
            let (median, high) = (figures[10_000], figures[19_800]);
            let way = if reverse { "backward" } else { "forward" };
            println!("{entries:>9} {way:>9} {median:>8.2} {high:>8.2}");
        }
    }

    fn page(table: &Table, dice: &mut Dice, reverse: bool) -> f64 {
        let from = key(COUNT as u64 + dice.roll(table.len() - 2 * COUNT as u64));
        let (mut seen, mut sum) = (0, 0);
        let start = Instant::now();
        let walk = Walk { after: Some(&from), reverse, count: COUNT, ..Walk::default() };
        let walked = table.walk(&walk, NOW_MS, |entry| {
            seen += 1;
            sum += usize::from(entry.key()[15]) + usize::from(entry.stored().bytes()[0]);
        });
        let took = start.elapsed().as_nanos() as f64 / 1_000.0;
        assert!(seen == COUNT && walked.is_ok());
        black_box(sum);
        took
    }
}

fn memory() {
    println!("bytes of the order per entry, 16-byte keys and values");
    println!("{:>9} {:>10} {:>8} {:>9}", "entries", "arrival", "counted", "resident");
    let this = std::env::current_exe().expect("our own path");
    for entries in ["100000", "1000000"] {
        for arrival in ["random", "ascending"] {
            let measure = |order: &str| -> [f64; 2] {
                let child =
                    Command::new(&this).args(["resident", order, arrival, entries]).output();
                let text = String::from_utf8(child.expect("a child").stdout).expect("text");
                let mut figures =
                    text.split_whitespace().map(|figure| figure.parse().expect("a figure"));
                [figures.next().expect("counted"), figures.next().expect("resident")]
            };
            let (with, without) = (measure("ordered"), measure("unordered"));
            let (counted, resident) = (with[0] - without[0], with[1] - without[1]);
            println!("{entries:>9} {arrival:>10} {counted:>8.1} {resident:>9.1}");
        }
    }
}

/// Prints bytes per entry: of all indexes as counted, and of the resident set.
fn resident(order: &str, arrival: &str, entries: u64) {
    let numbers: Vec<u64> =
        if arrival == "random" { shuffled(entries, 0) } else { (0..entries).collect() };
    let comparison = (order == "ordered").then_some(Comparison::Lexical);
    // Code becomes resident when it first runs; do not count it.
    let warm_up = table(comparison);
    (0..50).for_each(|number| put(&warm_up, &key(number)));
    drop(warm_up);
    let before = resident_bytes();
    let table = table(comparison);
    numbers.iter().for_each(|&number| put(&table, &key(number)));
    let each = |bytes: u64| bytes as f64 / entries as f64;
    println!("{} {}", each(table.counts().index_bytes), each(resident_bytes() - before));
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 =
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4_096
}
