//! Lets seeds of the simulated worlds live: `askd-sim --seeds 1000 [--from 0]`, or one with its story: `--seed 42`.

use std::process::ExitCode;
use std::time::Instant;

use askd_sim::Counts;

/// Stories that are printed in full; of further failures only the seed and the tenet.
const MOST_STORIES: usize = 3;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut seeds, mut from, mut one, mut counts) = (1_000, 0, None, false);
    while let Some(arg) = args.next() {
        if arg == "--counts" {
            counts = true;
            continue;
        }
        let number = args.next().and_then(|text| text.parse::<u64>().ok());
        match (arg.as_str(), number) {
            ("--seeds", Some(n)) => seeds = n,
            ("--from", Some(n)) => from = n,
            ("--seed", Some(n)) => one = Some(n),
            _ => {
                eprintln!("usage: askd-sim [--seeds N] [--from S] [--counts] | --seed S");
                return ExitCode::from(2);
            }
        }
    }
    match one {
        Some(seed) => tell(seed),
        None => many(from, seeds, counts),
    }
}

fn tell(seed: u64) -> ExitCode {
    let (story, result) = askd_sim::tell(seed);
    print!("{story}");
    askd_sim::proxy::run(seed);
    askd_sim::control::run(seed);
    match result {
        Ok(report) => {
            for (what, count) in &report.counts.0 {
                println!("{count:>7}  {what}");
            }
            println!("seed {seed}: every tenet held, {} steps, {} entries", report.steps, report.entries);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("\nseed {seed}: {}", failure.broken);
            ExitCode::FAILURE
        }
    }
}

fn many(from: u64, seeds: u64, show_counts: bool) -> ExitCode {
    let began = Instant::now();
    let mut counts = Counts::default();
    let (mut passed, mut steps, mut entries, mut virtual_ms) = (0u64, 0u64, 0u64, 0u64);
    let mut failed = Vec::new();
    for seed in from..from.saturating_add(seeds) {
        match askd_sim::run(seed) {
            Ok(report) => {
                passed += 1;
                steps += report.steps;
                entries += report.entries;
                virtual_ms += report.virtual_ms;
                counts.merge(&report.counts);
                // Panics by its seed when a proxy breaks a promise.
                askd_sim::proxy::run(seed);
                askd_sim::control::run(seed);
                askd_sim::remote::run(seed);
            }
            Err(failure) => {
                if failed.len() < MOST_STORIES {
                    println!("{failure}");
                } else {
                    println!("seed {seed}: {}", failure.broken);
                }
                failed.push(seed);
            }
        }
    }
    if show_counts {
        for (what, count) in &counts.0 {
            println!("{count:>9}  {what}");
        }
    }
    let hours = virtual_ms / 3_600_000;
    println!(
        "{steps} steps, {entries} entries, {hours} virtual hours in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    println!(
        "seeds {from} to {}: {passed} passed, {} failed",
        from.saturating_add(seeds).saturating_sub(1),
        failed.len()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
