#![no_main]
#![expect(clippy::unwrap_used, reason = "to fail is what a fuzzer looks for")]

use askd_agents::spool::wire::{self, PI_LIMIT};
use serde_json::Value;

// The first line is the stem, the rest the file. What is read belongs to its place, is the same when it is raised twice,
// and is answered by JSON in which nothing but a yes is a yes.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let stem = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let Ok(request) = wire::read(parts.next().unwrap_or_default(), &stem, "s", PI_LIMIT) else { return };
    assert!(request.id == stem && request.target == "s");
    assert!(!stem.contains('/') && !stem.starts_with('.'));
    assert!(request.is_same(&request.clone()));
    let raise = request.raise(Some(PI_LIMIT), PI_LIMIT);
    serde_json::to_vec(&raise).unwrap();
    let told: Value = serde_json::from_slice(&request.unavailable("why", 1)).unwrap();
    assert!(told["approved"] != true && told["outcome"] != "allowed");
});
