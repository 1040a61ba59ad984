//! What a daemon costs that has nothing to do.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::report::{Report, Target};
use super::world::{Daemon, World};

const WAKE_UPS: &str = "idle daemon, nothing open: wake-ups";
const MEMORY: &str = "idle daemon, nothing open: memory";

/// Starting has timers of its own, such as the grace for requesters to come back; they are not idleness.
const SETTLE: Duration = Duration::from_secs(3);

/// How many windows are watched; the last one counts, all are kept.
const WINDOWS: usize = 4;

/// Wake-ups of all threads in a while, and memory.
pub(crate) fn measure(world: &World, report: &mut Report) {
    if let Err(error) = idle(world, report) {
        report.failed(WAKE_UPS, &error);
    }
}

fn idle(world: &World, report: &mut Report) -> Result<()> {
    let daemon = world.daemon("idle")?;
    thread::sleep(SETTLE);
    let window = world.span(10);
    let mut counts = Vec::new();
    for _ in 0..WINDOWS {
        let before = switches(&daemon)?;
        thread::sleep(window);
        counts.push(switches(&daemon)?.saturating_sub(before));
    }
    let seconds = window.as_secs();
    let last = counts.last().copied().unwrap_or_default();
    report.figure("idle_wake_ups_per_window", json!({ "seconds": seconds, "counts": counts }));
    let measured = format!("{last} in {seconds} s");
    report.row(WAKE_UPS, measured, "0".to_owned(), last as f64, Target::AtMost(0.0));

    let (resident, own) = memory(&daemon)?;
    report.figure("idle_memory_kib", json!({ "rss": resident, "pss": own }));
    let mib = |kib: u64| kib as f64 / 1024.0;
    let measured = format!("{:.1} MiB (PSS {:.1})", mib(resident), mib(own));
    report.row(MEMORY, measured, "15 MiB".to_owned(), mib(resident) / 15.0, Target::AtMost(1.0));
    Ok(())
}

/// How often threads of the daemon went to sleep so far: each wake-up ends in one.
fn switches(daemon: &Daemon) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{}/task", daemon.pid()))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        sum += number(&status, "voluntary_ctxt_switches:").context("no count of switches")?;
    }
    Ok(sum)
}

/// Resident and proportional memory in KiB.
fn memory(daemon: &Daemon) -> Result<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", daemon.pid()))?;
    Ok((number(&text, "Rss:").context("no Rss")?, number(&text, "Pss:").context("no Pss")?))
}

/// The number behind a label at the beginning of a line.
fn number(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_label() {
        let text = "nonvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t12\nRss:   2048 kB\n";
        assert_eq!(number(text, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(number(text, "Rss:"), Some(2048));
        assert_eq!(number(text, "Pss:"), None);
    }
}
