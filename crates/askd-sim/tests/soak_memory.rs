//! What 10 000 tool calls leave in memory. A program of its own with this one test, for the memory of the whole process
//! is looked at.

use askd_sim::soak::{Kind, run_watched};

/// Pages of memory that this process has.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[test]
fn c10_ten_thousand_calls_in_flat_memory() {
    let mut pages = Vec::new();
    let found = run_watched(Kind::Askd, 1, 10_000, |_| pages.push(resident_pages()));
    assert_eq!(found.calls, 10_000);
    let (early, late) = (pages[3], pages[pages.len() - 1]);
    assert!(early > 0, "{pages:?} pages");
    assert!(late < early + 1_024, "{pages:?} pages");
}
