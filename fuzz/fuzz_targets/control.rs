#![no_main]

#[path = "../../crates/askd-agents/tests/control/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    lines::any_lines(bytes);
});
