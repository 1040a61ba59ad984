//! The corpus of the fuzzer, committed, replayed without a fuzzer.

use std::path::Path;

use crate::lines::any_lines;

#[test]
fn s7_c13_the_fuzzers_corpus_of_lines_is_fine() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/control");
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).expect("the corpus") {
        any_lines(&std::fs::read(entry.expect("an entry").path()).expect("a text"));
        count += 1;
    }
    assert!(count >= 10, "{} has only {count} texts", dir.display());
}
