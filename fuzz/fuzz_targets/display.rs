#![no_main]
#![expect(clippy::unwrap_used, reason = "to fail is what a fuzzer looks for")]
#![allow(dead_code, reason = "each target uses one of the checks")]

#[path = "../../crates/askd-text/tests/text/checks.rs"]
mod checks;
#[path = "../../crates/askd-text/tests/text/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::any_action(&String::from_utf8_lossy(bytes));
});
