//! The corpora of the fuzzers, committed, replayed without a fuzzer.

use std::path::Path;

use crate::checks;

fn replay(target: &str, check: impl Fn(&str)) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        check(&String::from_utf8_lossy(&bytes));
        count += 1;
    }
    assert!(count >= 10, "{} has only {count} texts", dir.display());
}

#[test]
fn s7_the_fuzzers_corpora_are_fine() {
    replay("safe", checks::safe_text);
    replay("mask", checks::masks);
    replay("segments", checks::shell);
    replay("display", checks::any_action);
}
