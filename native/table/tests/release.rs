//! Memory between blocks in use goes back to the system.

#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]

use todana_table::reaper;

const BLOCKS: usize = 64 << 10;
const BLOCK_BYTES: usize = 1_000;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("the figures of the process");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the number of pages") * 4_096
}

/// The only test, since it reads the memory of the whole process.
#[test]
fn free_pages_are_given_back() {
    let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; BLOCK_BYTES]).collect();
    let full = resident_bytes();
    // Blocks in use, one in a hundred, keep all others from going back at once.
    let kept: Vec<Vec<u8>> = blocks.into_iter().step_by(100).collect();
    let half_bytes = BLOCKS * BLOCK_BYTES / 2;
    assert!(resident_bytes() + half_bytes > full, "malloc gave the memory back by itself");
    assert!(reaper::release_free_memory(1));
    while reaper::pending_entries() > 0 {
        std::thread::yield_now();
    }
    assert!(resident_bytes() + half_bytes < full);
    assert!(kept.iter().all(|block| block.iter().all(|byte| *byte == 1)));
    // Too early for any other, and with no thread in vain.
    assert!(!reaper::release_free_memory(u32::MAX));
    assert_eq!(reaper::pending_entries(), 0);
    reaper::stop().join();
    assert!(!reaper::release_free_memory(1));
    reaper::start();
    while reaper::pending_entries() > 0 {
        std::thread::yield_now();
    }
}
